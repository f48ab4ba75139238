//! What the guest is made of: Debian 12's QEMU, busybox and two kernels. Nothing of it is installed.

use super::Kernel;
use crate::apt::{self, Apt};
use crate::{Result, shell};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs and their firmware.
const PROGRAMS: [&str; 4] = ["qemu-system-x86", "seabios", "ipxe-qemu", "busybox-static"];
/// Everything fetched and unpacked.
pub(super) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Fetches what is not there yet.
    pub(super) fn ready() -> Result<Cache> {
        let what = "fetch a machine with protection keys: about 105 MB, once";
        Ok(Cache { folder: apt::cached("vm", what, fetch)? })
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
        apt::remove(&packages)?;
        apt::remove(&tree)?;
    }
    Ok(())
}
