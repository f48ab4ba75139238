//! The kernel's own headers (`<linux/….h>`, `<asm/….h>`), which belong to no libc: links to those of the host.
//!
//! ```text
//!   libc/kernel/linux ─────────▶ /usr/include/linux
//!   libc/kernel/asm-generic ───▶ /usr/include/asm-generic
//!   libc/kernel/asm ───────────▶ /usr/include/x86_64-linux-gnu/asm, or /usr/include/asm
//! ```
//!
//! A compiler searches this folder behind all others. `/usr/include` itself cannot be given to it: the host's libc lies there too.
//! Where the host has none of a kind there is no link, and a program that needs one is told that there is no such file.

use crate::{Result, apt};
use std::os::unix::fs::symlink;
use std::path::Path;

/// Each folder, and where a host may have it: Debian has a folder for what depends on the processor.
const FOLDERS: [(&str, &[&str]); 3] = [
    ("linux", &["/usr/include/linux"]),
    ("asm-generic", &["/usr/include/asm-generic"]),
    ("asm", &["/usr/include/x86_64-linux-gnu/asm", "/usr/include/asm"]),
];

/// Makes the folder `kernel` of a libc.
pub(crate) fn link(libc: &Path) -> Result {
    let (folder, new) = (libc.join("kernel"), libc.join("kernel.new"));
    apt::remove(&new)?;
    apt::make(&new)?;
    for (name, places) in FOLDERS {
        if let Some(place) = places.iter().find(|place| Path::new(place).is_dir()) {
            let link = new.join(name);
            symlink(place, &link).map_err(|error| format!("{}: {error}", link.display()))?;
        }
    }
    apt::remove(&folder)?;
    apt::rename(&new, &folder)
}
