//! The browser that the service's page is tested in: Debian's headless Chromium, fetched and never installed.
//!
//! Chromium starts itself again for its other processes, which works only with the loader that its file names. So it
//! runs with the computer's libc, which is Debian 12's or newer, and with its own copies of everything else. The test
//! starts `target/browser/bookworm/browser`, a script that says so.

use crate::Result;
use crate::apt::{self, Apt};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The browser, and a font: pages without any are slow.
const PACKAGES: [&str; 2] = ["chromium-headless-shell", "fonts-dejavu-core"];
/// What drawing on a graphics card would need: most of the room, and not used without one.
const UNUSED: [&str; 4] = ["libc6", "libllvm15", "libz3-4", "libgl1-mesa-dri"];

/// Starts the browser next to it. No sandbox: it has to run as root in containers, and only ever sees our own page.
const SCRIPT: &str = r#"#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
lib="$here/tree/usr/lib/x86_64-linux-gnu"
export LD_LIBRARY_PATH="$lib:$here/tree/lib/x86_64-linux-gnu:$lib/pulseaudio"
export FONTCONFIG_FILE="$here/fonts.conf"
exec "$here/tree/usr/lib/chromium/chromium-headless-shell" --no-sandbox --disable-gpu --disable-dev-shm-usage "$@"
"#;

/// Fetches it if it is not there yet.
pub(crate) fn ready() -> Result {
    apt::cached("browser", "fetch a browser to test the page in: about 100 MB, once", fetch).map(drop)
}

fn fetch(apt: &Apt, folder: &Path) -> Result {
    let tree = folder.join("tree");
    apt.unpack(&PACKAGES, &UNUSED, &tree)?;
    let fonts = "<?xml version=\"1.0\"?><!DOCTYPE fontconfig SYSTEM \"fonts.dtd\">\n\
                 <fontconfig><dir prefix=\"relative\">tree/usr/share/fonts</dir></fontconfig>\n";
    apt::write(&folder.join("fonts.conf"), fonts)?;
    let script = folder.join("browser");
    apt::write(&script, SCRIPT)?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))
        .map_err(|error| format!("{}: {error}", script.display()))
}
