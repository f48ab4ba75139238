//! Programs that check the sources, fetched and never installed: builds of published crates that Astral puts on Python's package index.
//! Each takes a second, where compiling it takes many minutes. What has been fetched stays in `target/tools`.

use crate::apt;
use crate::workspace::root;
use crate::{Result, shell};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// One program of a package of the same name.
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
    /// The SHA-256 of the package's file for Linux on x86-64: what is fetched is this, or nothing.
    sha256: &'static str,
}

/// Licences, sources, versions and advisories of dependencies.
pub(crate) const CARGO_DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
    sha256: "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee",
};

/// Dependencies that no source file names.
pub(crate) const CARGO_SHEAR: Tool = Tool {
    name: "cargo-shear",
    version: "1.14.0",
    sha256: "d31183d0ee4d3643b7313a4527c6092138bff60b3a1fd35c833a32ed61751ce6",
};

impl Tool {
    /// The program, fetched if it is not there yet.
    pub(crate) fn ready(&self) -> Result<PathBuf> {
        let Tool { name, version, sha256 } = self;
        let folder = root().join("target/tools");
        apt::make(&folder)?;
        let whole = folder.join(format!("{name}-{version}"));
        let program = whole.join("bin").join(name);
        let lock = folder.join(format!("{name}.lock"));
        // A second xtask waits for the first one's download.
        let held = File::create(&lock).and_then(|file| file.lock().map(|()| file));
        let _held = held.map_err(|error| format!("{}: {error}", lock.display()))?;
        if program.exists() {
            return Ok(program);
        }
        shell::heading(&format!("fetch {name} {version}: a few MB, once"));
        let new = folder.join(format!("{name}.new"));
        apt::remove(&new)?;
        apt::remove(&whole)?;
        apt::make(&new)?;
        let requirement = format!("astral-dev-toolchain-{name}=={version} --hash=sha256:{sha256}\n");
        apt::write(&new.join("requirement"), &requirement)?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]);
        pip.args(["--requirement", "requirement", "--target", "."]).current_dir(&new).stdout(Stdio::null());
        pip.env("PIP_ROOT_USER_ACTION", "ignore");
        shell::run(&mut pip).map_err(|why| format!("cannot fetch {name}: {why}"))?;
        apt::rename(&new, &whole)?;
        Ok(program)
    }
}
