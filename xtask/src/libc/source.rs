//! musl's source: fetched once from Debian's pool by apt's own downloader, which compares the SHA-256, and unpacked.

use super::folder;
use crate::{Result, apt, shell};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version.
const VERSION: &str = "1.2.6";
/// Where it is, tried in this order. Debian's pool keeps a version for as long as one of its releases has it; its archive keeps all.
const ADDRESSES: [&str; 2] = [
    "http://deb.debian.org/debian/pool/main/m/musl/musl_1.2.6.orig.tar.gz",
    "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/m/musl/musl_1.2.6.orig.tar.gz",
];
/// What it must be.
pub(super) const SHA256: &str = "d585fd3b613c66151fc3249e8ed44f77020cb5e6c1e635a616d3f9f82460512a";
/// Part of apt; it checks what it fetches.
const DOWNLOADER: &str = "/usr/lib/apt/apt-helper";

/// Fetches the tarball if it is not there yet.
pub(crate) fn fetch() -> Result {
    tarball().map(drop)
}

fn tarball() -> Result<PathBuf> {
    let folder = folder();
    let whole = folder.join(format!("musl-{VERSION}.tar.gz"));
    if whole.exists() {
        return Ok(whole);
    }
    apt::make(&folder)?;
    shell::heading(&format!("fetch the source of musl {VERSION}: 1 MB, once"));
    let new = folder.join(format!("musl-{VERSION}.new"));
    let [first, second] = ADDRESSES;
    download(first, &new)
        .or_else(|_| download(second, &new))
        .map_err(|why| format!("cannot fetch musl's source, or it is another than expected: {why}"))?;
    apt::rename(&new, &whole)?;
    Ok(whole)
}

/// Fetches one file, and compares it.
fn download(address: &str, to: &Path) -> Result {
    let mut download = Command::new(DOWNLOADER);
    download.args(["-o", "APT::Sandbox::User=root", "download-file", address]).arg(to).arg(format!("SHA256:{SHA256}"));
    shell::run(download.stdout(std::process::Stdio::null()))
}

/// Unpacks the source into `to`, which then holds its folders.
pub(super) fn unpack(to: &Path) -> Result {
    let tarball = tarball()?;
    apt::make(to)?;
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(tarball).arg("--directory").arg(to).arg("--strip-components=1");
    shell::run(&mut tar)
}
