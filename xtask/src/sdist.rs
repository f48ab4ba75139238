//! Source that Python's package index has: fetched once by pip, which compares the SHA-256. A tarball stays in `target/sources`.

use crate::workspace::root;
use crate::{Result, apt, shell};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// pip asks a source's build for its name before it keeps what it has fetched, and that would run code of the package. This is asked
/// instead; it is what builds packages that name no other build.
const STUB: &str = "\
import os, pathlib, sys
def prepare_metadata_for_build_wheel(folder, settings=None):
    name, version = os.environ['SDIST'].split('==')
    info = pathlib.Path(folder, f'{name}-{version}.dist-info')
    info.mkdir()
    (info / 'METADATA').write_text(f'Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n')
    return info.name
__legacy__ = sys.modules[__name__]
";

/// One version of a package whose build is setuptools.
#[derive(Debug)]
pub(crate) struct Sdist {
    /// The package's name.
    pub(crate) name: &'static str,
    /// The version.
    pub(crate) version: &'static str,
    /// What it must be.
    pub(crate) sha256: &'static str,
}

impl Sdist {
    /// Unpacks what is in one of its folders into `to`.
    pub(crate) fn unpack(&self, folder: &str, to: &Path) -> Result {
        let tarball = self.tarball()?;
        apt::make(to)?;
        let path = format!("{}-{}/{folder}", self.name, self.version);
        let mut tar = Command::new("tar");
        tar.arg("--extract").arg("--directory").arg(to).arg("--file").arg(tarball);
        shell::run(tar.arg(format!("--strip-components={}", path.split('/').count())).arg(path))
    }

    /// The tarball, fetched if it is not there yet.
    fn tarball(&self) -> Result<PathBuf> {
        let folder = root().join("target/sources");
        apt::make(&folder)?;
        // Another process may fetch the same.
        let _held = apt::lock(&folder)?;
        let whole = folder.join(format!("{}-{}.tar.gz", self.name, self.version));
        if whole.exists() {
            return Ok(whole);
        }
        let which = format!("{}=={}", self.name, self.version);
        shell::heading(&format!("fetch the source of {which}, once"));
        let new = folder.join(format!("{}.new", self.name));
        apt::remove(&new)?;
        apt::make(&new.join("setuptools"))?;
        apt::write(&new.join("setuptools/__init__.py"), "")?;
        apt::write(&new.join("setuptools/build_meta.py"), STUB)?;
        apt::write(&new.join("which.txt"), &format!("{which} --hash=sha256:{}\n", self.sha256))?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary=:all:"]);
        pip.args(["--require-hashes", "--requirement", "which.txt"]).current_dir(&new).stdout(Stdio::null());
        shell::run(pip.env("PYTHONPATH", &new).env("SDIST", which))?;
        apt::rename(&new.join(whole.file_name().expect("it has a name")), &whole)?;
        apt::remove(&new)?;
        Ok(whole)
    }
}
