//! Debian's packages without installing them: fetched by apt, unpacked by dpkg.
//!
//! apt works on lists, a state and a cache of its own here, and dpkg only unpacks: nothing is installed, no right is
//! needed, and it does not matter what the computer has installed, because what is fetched comes with every library down
//! to libc. What has been fetched stays in `target`, so that only the first time needs a network; removing its folder
//! fetches today's versions.

use crate::workspace::root;
use crate::{Result, shell};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where packages come from. Of the backports only what is nowhere else.
const SOURCES: &str = "\
deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian-security bookworm-security main
deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm-backports main
";
/// What they are called where they come from.
pub(crate) const RELEASE: &str = "bookworm";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The folder `target/NAME/RELEASE`, made by `fetch` if it is not there yet. `what` is printed then. A second
/// process waits for the first.
pub(crate) fn cached(name: &str, what: &str, fetch: impl FnOnce(&Apt, &Path) -> Result) -> Result<PathBuf> {
    let folder = root().join("target").join(name);
    make(&folder)?;
    let whole = folder.join(RELEASE);
    let _held = lock(&folder)?;
    if !whole.exists() {
        shell::heading(what);
        let new = folder.join("new");
        remove(&new)?;
        let apt = Apt::new(new.join("apt"))?;
        fetch(&apt, &new).map_err(|why| format!("cannot fetch: {why}"))?;
        remove(&apt.folder)?;
        rename(&new, &whole)?;
    }
    Ok(whole)
}

/// A program of an unpacked tree, to be given its arguments: run by the tree's own loader, with its own libraries.
pub(crate) fn program(tree: &Path, path: &str) -> Command {
    let mut command = Command::new(tree.join("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"));
    command.arg("--inhibit-cache").arg("--library-path").arg(libraries(tree)).arg(tree.join(path));
    command.env_remove("LD_PRELOAD");
    command
}

/// Where the libraries of an unpacked tree are.
pub(crate) fn libraries(tree: &Path) -> std::ffi::OsString {
    let mut libraries = tree.join("lib/x86_64-linux-gnu").into_os_string();
    libraries.push(":");
    libraries.push(tree.join("usr/lib/x86_64-linux-gnu"));
    libraries
}

/// apt, with a state and a cache of its own.
pub(crate) struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(folder: PathBuf) -> Result<Apt> {
        if !Path::new(KEYRING).exists() {
            return Err(format!(
                "{KEYRING} is missing (package debian-archive-keyring), by which Debian's packages are known"
            ));
        }
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
        let apt = Apt { folder };
        apt.get(["update", "-qq", "--error-on=any"])?;
        Ok(apt)
    }

    /// Fetches packages with all that they depend on, and unpacks them into a tree, but for those whose names begin with
    /// one of `without`.
    pub(crate) fn unpack(&self, packages: &[&str], without: &[&str], tree: &Path) -> Result {
        let install = ["install", "-qq", "--yes", "--no-install-recommends", "--download-only"];
        self.get(install.into_iter().chain(packages.iter().copied()))?;
        let archives = self.folder.join("archives");
        for package in list(&archives)? {
            let name = package.file_name().unwrap_or_default().to_string_lossy();
            if without.iter().any(|without| name.starts_with(&format!("{without}_"))) {
                fs::remove_file(&package).map_err(|error| format!("{}: {error}", package.display()))?;
            }
        }
        unpack(&archives, tree)
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("--config-file").arg(self.folder.join("configuration")).env("LC_ALL", "C");
        command
    }

    fn get<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Result {
        shell::run(self.command("apt-get").args(arguments).stdout(std::process::Stdio::null()))
    }

    /// The package that a meta package stands for.
    pub(crate) fn dependency(&self, package: &str) -> Result<String> {
        let said = shell::output(self.command("apt-cache").args(["depends", "--important", package]))?;
        let said = String::from_utf8_lossy(&said);
        let found = said.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
        found.map(str::to_owned).ok_or_else(|| format!("{package} depends on no kernel:\n{said}"))
    }
}

/// Unpacks all packages of a folder into a tree.
pub(crate) fn unpack(packages: &Path, tree: &Path) -> Result {
    make(tree)?;
    for package in list(packages)? {
        if package.extension().is_some_and(|extension| extension == "deb") {
            shell::run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(tree))?;
        }
    }
    Ok(())
}

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>());
    let entries = entries.map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.into_iter().map(|entry| entry.path()).collect())
}

/// Waits until no other process holds the folder, and holds it until the answer is dropped.
pub(crate) fn lock(folder: &Path) -> Result<Flock<File>> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| format!("{}: {error}", path.display()))
}

pub(crate) fn make(folder: &Path) -> Result {
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))
}

pub(crate) fn remove(folder: &Path) -> Result {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

pub(crate) fn rename(from: &Path, to: &Path) -> Result {
    fs::rename(from, to).map_err(|error| format!("cannot rename {} to {}: {error}", from.display(), to.display()))
}

pub(crate) fn write(path: &Path, text: &str) -> Result {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
