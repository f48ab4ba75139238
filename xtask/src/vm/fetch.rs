//! What the guest is made of: Debian 12's QEMU, busybox and two kernels.
//!
//! apt works on lists, a state and a cache of its own here, and dpkg only unpacks: nothing is installed, no right is
//! needed, and it does not matter what the computer has installed, because QEMU comes with every library down to
//! libc. What has been fetched stays in `target/vm`, so that only the first time needs a network; removing that folder
//! fetches today's versions.

use super::Kernel;
use crate::workspace::root;
use crate::{Result, shell};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs and their firmware.
const PROGRAMS: [&str; 4] = ["qemu-system-x86", "seabios", "ipxe-qemu", "busybox-static"];
/// Where they come from.
const SOURCES: &str = "\
deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian-security bookworm-security main
";
/// What they are called where they come from.
const RELEASE: &str = "bookworm";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Everything fetched and unpacked.
pub(super) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Fetches what is not there yet. Who comes second waits for who came first.
    pub(super) fn ready() -> Result<Cache> {
        let folder = root().join("target/vm");
        make(&folder)?;
        let cache = Cache { folder: folder.join(RELEASE) };
        let lock = folder.join("lock");
        let file = File::create(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
        let _held =
            Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| format!("{}: {error}", lock.display()))?;
        if !cache.folder.exists() {
            shell::heading("fetch a machine with protection keys: about 105 MB, once");
            let new = folder.join("new");
            remove(&new)?;
            fetch(&new).map_err(|why| format!("cannot fetch what the virtual machine needs: {why}"))?;
            rename(&new, &cache.folder)?;
        }
        Ok(cache)
    }

    /// A folder for files that belong to a run.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A static busybox.
    pub(super) fn busybox(&self) -> PathBuf {
        self.folder.join("programs/bin/busybox")
    }

    /// The kernel's image.
    pub(super) fn kernel(&self, kernel: Kernel) -> PathBuf {
        self.folder.join(format!("vmlinuz-{}", kernel.version()))
    }

    /// QEMU, to be given its options. It dies with the thread that starts it, however that dies.
    pub(super) fn qemu(&self) -> Command {
        let at = |path: &str| self.folder.join("programs").join(path);
        let mut libraries = at("lib/x86_64-linux-gnu").into_os_string();
        libraries.push(":");
        libraries.push(at("usr/lib/x86_64-linux-gnu"));
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        command.arg(at("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")).arg("--inhibit-cache");
        command.arg("--library-path").arg(libraries);
        command.arg(at("usr/bin/qemu-system-x86_64"));
        for firmware in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"] {
            command.arg("-L").arg(at(firmware));
        }
        command.env("QEMU_MODULE_DIR", at("usr/lib/x86_64-linux-gnu/qemu")).env_remove("LD_PRELOAD");
        command
    }
}

/// Fetches and unpacks everything into `folder`.
fn fetch(folder: &Path) -> Result {
    if !Path::new(KEYRING).exists() {
        return Err(format!(
            "{KEYRING} is missing (package debian-archive-keyring), by which Debian's packages are known"
        ));
    }
    let apt = Apt::new(folder.join("apt"))?;
    apt.get(["update", "-qq", "--error-on=any"])?;
    apt.get(["install", "-qq", "--yes", "--no-install-recommends", "--download-only"].into_iter().chain(PROGRAMS))?;
    unpack(&apt.packages(), &folder.join("programs"))?;
    for kernel in Kernel::ALL {
        let (packages, tree) = (folder.join("kernel-package"), folder.join("kernel"));
        make(&packages)?;
        let package = apt.dependency(kernel.meta_package())?;
        shell::run(apt.command("apt-get").args(["download", "-qq", &package]).current_dir(&packages))?;
        unpack(&packages, &tree)?;
        let version = package.trim_start_matches("linux-image-");
        let image = tree.join(format!("boot/vmlinuz-{version}"));
        rename(&image, &folder.join(format!("vmlinuz-{}", kernel.version())))?;
        remove(&packages)?;
        remove(&tree)?;
    }
    remove(&apt.folder)
}

/// apt, with a state and a cache of its own.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(folder: PathBuf) -> Result<Apt> {
        make(&folder.join("lists/partial"))?;
        make(&folder.join("archives/partial"))?;
        let here = folder.display();
        // Hooks that tidy the computer's own cache have no business here, nor have its pins.
        let configuration = format!(
            "Dir::State \"{here}\"; Dir::State::lists \"lists\"; Dir::State::status \"{here}/installed\";\n\
             Dir::Cache \"{here}\"; Dir::Cache::archives \"archives\";\n\
             Dir::Etc::sourcelist \"{here}/sources.list\"; Dir::Etc::sourceparts \"/dev/null\";\n\
             Dir::Etc::preferences \"/dev/null\"; Dir::Etc::preferencesparts \"/dev/null\";\n\
             APT::Architecture \"amd64\"; APT::Sandbox::User \"\"; Acquire::Languages \"none\"; Acquire::Retries \"3\";\n\
             #clear APT::Architectures;\n\
             #clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n"
        );
        write(&folder.join("configuration"), &configuration)?;
        write(&folder.join("sources.list"), SOURCES)?;
        write(&folder.join("installed"), "")?;
        Ok(Apt { folder })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("--config-file").arg(self.folder.join("configuration")).env("LC_ALL", "C");
        command
    }

    fn get<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Result {
        shell::run(self.command("apt-get").args(arguments).stdout(std::process::Stdio::null()))
    }

    /// The package that a meta package stands for.
    fn dependency(&self, package: &str) -> Result<String> {
        let said = shell::output(self.command("apt-cache").args(["depends", "--important", package]))?;
        let said = String::from_utf8_lossy(&said);
        let found = said.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
        found.map(str::to_owned).ok_or_else(|| format!("{package} depends on no kernel:\n{said}"))
    }

    /// The folder with what `install` has downloaded.
    fn packages(&self) -> PathBuf {
        self.folder.join("archives")
    }
}

/// Unpacks all packages of a folder into a tree.
fn unpack(packages: &Path, tree: &Path) -> Result {
    make(tree)?;
    for entry in fs::read_dir(packages).map_err(|error| format!("{}: {error}", packages.display()))? {
        let package = entry.map_err(|error| format!("{}: {error}", packages.display()))?.path();
        if package.extension().is_some_and(|extension| extension == "deb") {
            shell::run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(tree))?;
        }
    }
    Ok(())
}

fn make(folder: &Path) -> Result {
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))
}

fn remove(folder: &Path) -> Result {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> Result {
    fs::rename(from, to).map_err(|error| format!("cannot rename {} to {}: {error}", from.display(), to.display()))
}

fn write(path: &Path, text: &str) -> Result {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
