//! What a process that serves many requests is measured against: Debian's nginx, fetched and never installed.

use crate::Result;
use crate::apt::{self, Apt};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Starts the server next to it, with its own loader and libraries.
const SCRIPT: &str = r#"#!/bin/sh
tree=$(dirname "$(readlink -f "$0")")/tree
exec "$tree/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --inhibit-cache \
    --library-path "$tree/lib/x86_64-linux-gnu:$tree/usr/lib/x86_64-linux-gnu" "$tree/usr/sbin/nginx" "$@"
"#;

/// Fetches it if it is not there yet.
pub(crate) fn ready() -> Result {
    apt::cached("nginx", "fetch nginx to compare with: about 15 MB, once", fetch).map(drop)
}

fn fetch(apt: &Apt, folder: &Path) -> Result {
    apt.unpack(&["nginx"], &[], &folder.join("tree"))?;
    let script = folder.join("nginx");
    apt::write(&script, SCRIPT)?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))
        .map_err(|error| format!("{}: {error}", script.display()))
}
