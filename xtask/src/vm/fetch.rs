//! What the guest is made of: Debian 12's QEMU, busybox, and two kernels with some of their drivers. Nothing of it is
//! installed.

use super::Kernel;
use crate::apt::{self, Apt};
use crate::{Result, shell};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs and their firmware.
const PROGRAMS: [&str; 4] = ["qemu-system-x86", "seabios", "ipxe-qemu", "busybox-static"];
/// Drivers that a guest can have: what one asks for, a file that it takes, and where that lies among a kernel's. Some need
/// those before them.
pub(super) const DRIVERS: [(&str, &str, &str); 9] = [
    ("loop", "loop", "drivers/block"),
    ("tun", "tun", "drivers/net"),
    ("veth", "veth", "drivers/net"),
    ("netem", "sch_netem", "net/sched"),
    ("vfat", "nls_cp437", "fs/nls"),
    ("vfat", "nls_ascii", "fs/nls"),
    ("vfat", "nls_utf8", "fs/nls"),
    ("vfat", "fat", "fs/fat"),
    ("vfat", "vfat", "fs/fat"),
];

/// Everything fetched and unpacked.
pub(super) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Fetches what is not there yet.
    pub(super) fn ready() -> Result<Cache> {
        let what = "fetch a machine with protection keys: about 105 MB, once";
        Ok(Cache { folder: apt::cached("guest", what, fetch)? })
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

    /// A driver of the kernel's.
    pub(super) fn driver(&self, kernel: Kernel, name: &str) -> PathBuf {
        self.folder.join(format!("drivers-{}/{name}.ko", kernel.version()))
    }

    /// QEMU, to be given its options. It dies with the thread that starts it, however that dies.
    pub(super) fn qemu(&self) -> Command {
        let tree = self.folder.join("programs");
        let at = |path: &str| tree.join(path);
        let qemu = apt::program(&tree, "usr/bin/qemu-system-x86_64");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(qemu.get_program()).args(qemu.get_args());
        for firmware in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"] {
            command.arg("-L").arg(at(firmware));
        }
        command.env("QEMU_MODULE_DIR", at("usr/lib/x86_64-linux-gnu/qemu")).env_remove("LD_PRELOAD");
        command
    }
}

/// Fetches and unpacks everything into `folder`.
fn fetch(apt: &Apt, folder: &Path) -> Result {
    apt.unpack(&PROGRAMS, &[], &folder.join("programs"))?;
    for kernel in Kernel::ALL {
        let (packages, tree) = (folder.join("kernel-package"), folder.join("kernel"));
        apt::make(&packages)?;
        let package = apt.dependency(kernel.meta_package())?;
        shell::run(apt.command("apt-get").args(["download", "-qq", &package]).current_dir(&packages))?;
        apt::unpack(&packages, &tree)?;
        let version = package.trim_start_matches("linux-image-");
        let image = tree.join(format!("boot/vmlinuz-{version}"));
        apt::rename(&image, &folder.join(format!("vmlinuz-{}", kernel.version())))?;
        let drivers = folder.join(format!("drivers-{}", kernel.version()));
        apt::make(&drivers)?;
        let busybox = folder.join("programs/bin/busybox");
        for (_, name, place) in DRIVERS {
            let driver = tree.join(format!("lib/modules/{version}/kernel/{place}/{name}.ko"));
            let packed = driver.with_extension("ko.xz");
            if packed.exists() {
                shell::run(Command::new(&busybox).arg("unxz").arg(&packed))?;
            }
            apt::rename(&driver, &drivers.join(format!("{name}.ko")))?;
        }
        apt::remove(&packages)?;
        apt::remove(&tree)?;
    }
    Ok(())
}
