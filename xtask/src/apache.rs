//! What the service is measured against: Debian's Apache, fetched and never installed.

use crate::Result;
use crate::apt::{self, Apt};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Starts the server next to it, with its own loader and libraries.
const SCRIPT: &str = r#"#!/bin/sh
tree=$(dirname "$(readlink -f "$0")")/tree
exec "$tree/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --inhibit-cache \
    --library-path "$tree/lib/x86_64-linux-gnu:$tree/usr/lib/x86_64-linux-gnu" "$tree/usr/sbin/apache2" "$@"
"#;

/// Fetches it if it is not there yet.
pub(crate) fn ready() -> Result {
    apt::cached("apache", "fetch Apache to compare with: about 20 MB, once", fetch).map(drop)
}

fn fetch(apt: &Apt, folder: &Path) -> Result {
    apt.unpack(&["apache2-bin"], &[], &folder.join("tree"))?;
    let script = folder.join("apache2");
    apt::write(&script, SCRIPT)?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))
        .map_err(|error| format!("{}: {error}", script.display()))
}
