//! Source of other projects: fetched once from Debian's pool by apt's own downloader, which compares the SHA-256, and unpacked.
//! None of it is in the repository. A tarball stays in `target/sources`.

use crate::workspace::root;
use crate::{Result, apt, shell};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Part of apt; it checks what it fetches.
const DOWNLOADER: &str = "/usr/lib/apt/apt-helper";

/// One version of a project's source.
#[derive(Debug, Hash)]
pub(crate) struct Source {
    /// The project's name.
    pub(crate) name: &'static str,
    /// The version.
    pub(crate) version: &'static str,
    /// Where it is, tried in this order. Debian's pool keeps a version for as long as one of its releases has it; its
    /// archive keeps all.
    pub(crate) addresses: [&'static str; 2],
    /// What it must be.
    pub(crate) sha256: &'static str,
}

impl Source {
    /// Fetches the tarball if it is not there yet.
    pub(crate) fn fetch(&self) -> Result {
        self.tarball().map(drop)
    }

    fn tarball(&self) -> Result<PathBuf> {
        let folder = root().join("target/sources");
        apt::make(&folder)?;
        // Another process may fetch the same.
        let _held = apt::lock(&folder)?;
        let name = format!("{}-{}", self.name, self.version);
        let whole = folder.join(format!("{name}.tar.{}", self.packing()));
        if whole.exists() {
            return Ok(whole);
        }
        shell::heading(&format!("fetch the source of {} {}, once", self.name, self.version));
        let new = folder.join(format!("{name}.new"));
        let [first, second] = self.addresses;
        self.download(first, &new)
            .or_else(|_| self.download(second, &new))
            .map_err(|why| format!("cannot fetch the source of {name}, or it is another than expected: {why}"))?;
        apt::rename(&new, &whole)?;
        Ok(whole)
    }

    /// How the tarball is packed: `gz` or `xz`.
    fn packing(&self) -> &str {
        self.addresses[0].rsplit('.').next().unwrap_or_default()
    }

    /// Fetches one file, and compares it.
    fn download(&self, address: &str, to: &Path) -> Result {
        let mut download = Command::new(DOWNLOADER);
        download.args(["-o", "APT::Sandbox::User=root", "download-file", address]).arg(to);
        shell::run(download.arg(format!("SHA256:{}", self.sha256)).stdout(Stdio::null()))
    }

    /// Unpacks the source into `to`, which then holds its folders.
    pub(crate) fn unpack(&self, to: &Path) -> Result {
        let tarball = self.tarball()?;
        apt::make(to)?;
        let failed = |error: std::io::Error| format!("cannot unpack {}: {error}", tarball.display());
        // apt reads whatever Debian packs with; a host's tar asks for a program that it may not have.
        let mut read = Command::new(DOWNLOADER);
        let mut read = read.arg("cat-file").arg(&tarball).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let mut tar = Command::new("tar");
        tar.arg("--extract").arg("--directory").arg(to).arg("--strip-components=1");
        let unpacked = shell::run(tar.stdin(read.stdout.take().expect("piped")));
        match read.wait().map_err(failed)?.success() {
            true => unpacked,
            false => Err(format!("apt cannot read {}", tarball.display())),
        }
    }
}
