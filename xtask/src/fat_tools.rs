//! What disk images are compared with: Debian's mtools and dosfstools, fetched and never installed.
//!
//! Tests start `target/fat-tools/bookworm/NAME`, scripts that run a program with its own libraries.

use crate::Result;
use crate::apt::{self, Apt};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Each program: what tests call it, where it is in the tree, and its first argument. The mtools are one program.
const PROGRAMS: [(&str, &str, &str); 3] =
    [("mtools", "usr/bin/mtools", "-c"), ("mkfs.fat", "sbin/mkfs.fat", ""), ("fsck.fat", "sbin/fsck.fat", "")];

/// Fetches them if they are not there yet.
pub(crate) fn ready() -> Result {
    apt::cached("fat-tools", "fetch mtools and dosfstools to compare disk images with: about 2 MB, once", fetch)
        .map(drop)
}

fn fetch(apt: &Apt, folder: &Path) -> Result {
    let tree = folder.join("tree");
    apt.unpack(&["mtools", "dosfstools"], &[], &tree)?;
    for (name, program, first) in PROGRAMS {
        let script = folder.join(name);
        let text = format!(
            "#!/bin/sh\nhere=$(dirname \"$(readlink -f \"$0\")\")/tree\n\
             export GCONV_PATH=\"$here/usr/lib/x86_64-linux-gnu/gconv\"\n\
             exec \"$here/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\" --inhibit-cache --library-path \
             \"$here/lib/x86_64-linux-gnu:$here/usr/lib/x86_64-linux-gnu\" \"$here/{program}\" {first} \"$@\"\n"
        );
        apt::write(&script, &text)?;
        fs::set_permissions(&script, Permissions::from_mode(0o755))
            .map_err(|error| format!("{}: {error}", script.display()))?;
    }
    Ok(())
}
