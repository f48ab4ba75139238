//! A machine with protection keys, in software, for computers that have none: QEMU's own processor (TCG) enforces
//! them, on two kernels that people use.
//!
//! ```text
//! fetch     Debian's QEMU, busybox and two kernels, unpacked into target/guest; nothing is installed
//! archive   the guest's file system, in memory: every file lies where it lies on the host
//! machine   boots it, reads what it says over a serial port, kills it
//! lane      `cargo xtask test --keys`: the suite, in all kernels side by side; `suite` lists what runs, `sample` divides
//!           it between the kernels, `tally` counts, `restarts` decides what comes after a kernel's panic, `swap` has memory
//!           swapped out
//! drivers   part of `cargo xtask test --network`: what needs drivers that not every Linux has
//! ```
//!
//! It shows what is right and wrong, never how fast: such a processor's timings mean nothing.

mod archive;
pub(crate) mod drivers;
mod fetch;
pub(crate) mod lane;
mod machine;
mod restarts;
mod sample;
mod suite;
mod swap;
mod tally;

use crate::workspace::{Workspace, root};
use crate::{Result, build, shell};
use archive::Archive;
use fetch::Cache;
use machine::Machine;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Where the repository can be found in the guest, besides at its own path.
const REPOSITORY: &str = "/monohull";
/// How long a developer's command may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(3600);

/// The kernels that a guest can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Kernel {
    /// Debian 12's own.
    #[value(name = "6.1")]
    Older,
    /// Debian 12's newer one.
    #[value(name = "6.12")]
    Newer,
}

impl Kernel {
    /// All of them.
    const ALL: [Kernel; 2] = [Kernel::Older, Kernel::Newer];

    /// The one that it is compared with.
    fn other(self) -> Kernel {
        match self {
            Kernel::Older => Kernel::Newer,
            Kernel::Newer => Kernel::Older,
        }
    }

    /// Its version, as people say it.
    fn version(self) -> &'static str {
        match self {
            Kernel::Older => "6.1",
            Kernel::Newer => "6.12",
        }
    }

    /// The package that always depends on the newest build of it.
    fn meta_package(self) -> &'static str {
        match self {
            Kernel::Older => "linux-image-cloud-amd64",
            Kernel::Newer => "linux-image-6.12-cloud-amd64",
        }
    }
}

/// What a developer asks for.
#[derive(clap::Args)]
pub(crate) struct Wish {
    /// The guest's kernel.
    #[arg(long, value_enum, default_value = "6.12")]
    kernel: Kernel,
    /// The guest's memory, in MiB.
    #[arg(long, default_value_t = 1024)]
    memory: u32,
    /// More files for the guest, each at its own path: test programs, for instance.
    #[arg(long = "with", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Drivers of the kernel's to be loaded: loop, tun, veth, netem, vfat.
    #[arg(long = "driver", value_name = "NAME")]
    drivers: Vec<String>,
    /// Give programs the same addresses in each process, as the suite does unless all of it runs: they start faster.
    #[arg(long)]
    fixed_addresses: bool,
    /// The command, for a shell, in the repository's root: `monohull` is on the path.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Fetches what the machine is made of.
pub(crate) fn fetch() -> Result {
    Cache::ready().map(drop)
}

/// Runs a command in the guest and ends with its exit status.
pub(crate) fn command(wish: &Wish) -> Result<ExitCode> {
    build::everything()?;
    let workspace = Workspace::load()?;
    let cache = Cache::ready()?;
    let mut files = guest(&workspace, &cache)?;
    for file in &wish.files {
        let file = std::path::absolute(file).map_err(|error| format!("{}: {error}", file.display()))?;
        files.copy(&file)?;
    }
    drivers::load(&mut files, &cache, wish.kernel, &wish.drivers)?;
    let path = workspace.target().join("release");
    let job = format!("PATH={}:$PATH\ncd {REPOSITORY}\n{}\n", path.display(), wish.command.join(" "));
    files.script("/job", job.as_bytes())?;
    let random_addresses = !wish.fixed_addresses;
    let machine =
        Machine { cache: &cache, kernel: wish.kernel, memory: wish.memory, limit: COMMAND_LIMIT, random_addresses };
    machine.run(&files.finish()?, &mut |line| println!("{line}")).map(ExitCode::from)
}

/// What every guest has: busybox, the first process, the proof that keys are on, what swapping takes, the visor, modules, images,
/// workflows, and files that these name.
fn guest(workspace: &Workspace, cache: &Cache) -> Result<Archive> {
    shell::run(&mut shell::cargo(["build", "--quiet", "-p", "xtask", "--example", "keys-proof"]))?;
    let mut files = Archive::new(cache.folder())?;
    for folder in ["/bin", "/dev", "/proc", "/run", "/scratch", "/sys"] {
        files.folder(folder)?;
    }
    files.scratch("/tmp")?;
    files.scratch(workspace.target().join("tmp"))?;
    files.script("/bin/busybox", &archive::read(&cache.busybox())?)?;
    files.script("/init", include_bytes!("init.sh"))?;
    files.program_as(&workspace.target().join("debug/examples/keys-proof"), "/bin/keys-proof")?;
    swap::prepare(&mut files, cache)?;
    files.program(&workspace.target().join("release/monohull"))?;
    for folder in ["target/modules", "target/images", "workflows", "examples/blob/blobs"] {
        files.tree(&root().join(folder))?;
    }
    // The visor looks for modules from its source folder on, which must be there.
    files.folder(root().join("visor"))?;
    files.link(REPOSITORY, root())?;
    Ok(files)
}
