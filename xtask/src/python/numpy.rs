//! numpy as a part of the interpreter: its source from Python's package index, compiled by `monohull cc` and `monohull c++`.
//!
//! ```text
//! sdist ── numpy's Meson, ninja ─▶ objects of its modules   without a BLAS: its own lapack_lite; no code for particular processors
//!   └───── python/numpy_modules.py ─▶ packages/objects/NAME.o, one for each module; packages/numpy, its Python files; packages/modules
//! ```
//!
//! A shared object for each module is what its build would link. Here each becomes one object that exports its start alone, and the table of
//! modules that are linked into the interpreter names it.

use crate::workspace::root;
use crate::{Result, apt, libc, shell};
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::process::{Command, Stdio};

const VERSION: &str = "2.4.6";
const SOURCE: &str = "numpy==2.4.6 --hash=sha256:f3a3570c4a2a16746ac2c31a7c7c7b0c186b95ce902e33db6f28094ed7387dda\n";
/// What its build runs: Cython as Python, for any version of it.
const TOOLS: &str = "\
cython==3.3.1 --hash=sha256:61abc7feedd20dac6c4ff7ab3a30e17136a067b242ab9253e2b4a6d9a72c2b61
ninja==1.13.2 --hash=sha256:65a24341b5ac09fcadcc37082660be40a94174e51a937fabf6e2cae26225fa2c
";
/// pip asks a source's build for its name before it keeps what it has fetched, and that would configure all of numpy.
const STUB: &str = "\
import pathlib
def prepare_metadata_for_build_wheel(folder, settings=None):
    info = pathlib.Path(folder, 'numpy-2.4.6.dist-info')
    info.mkdir()
    (info / 'METADATA').write_text('Metadata-Version: 2.1\\nName: numpy\\nVersion: 2.4.6\\n')
    return info.name
";
/// Loops for particular processors are chosen when numpy is imported, and take most of the time to compile: there are none.
const OPTIONS: [&str; 10] = [
    "-Dblas=none",
    "-Dlapack=none",
    "-Dallow-noblas=true",
    "-Dcpu-baseline=none",
    "-Dcpu-dispatch=none",
    "-Ddisable-svml=true",
    "-Ddisable-highway=true",
    "-Ddisable-intel-sort=true",
    "-Dbuildtype=release",
    "-Doptimization=2",
];

/// What decides how it is built.
pub(super) fn hash(hasher: &mut impl Hasher) {
    (SOURCE, TOOLS, OPTIONS).hash(hasher);
}

/// Builds it in `folder`, which then has `packages`. `host` is where the interpreter that runs has been built, `target` the other one.
pub(super) fn build(monohull: &Path, folder: &Path, host: &Path, target: &Path) -> Result {
    if folder.join("packages/modules").exists() {
        return Ok(());
    }
    apt::remove(folder)?;
    apt::make(folder)?;
    shell::heading(&format!("compile numpy {VERSION}: three minutes, once"));
    fetch(folder)?;
    // What the build asks about the interpreter is written by it.
    shell::run(Command::new("make").args(["--silent", "pybuilddir.txt"]).current_dir(host).stdout(Stdio::null()))?;
    let include = format!("['-I{}', '-w']", target.display());
    let monohull = monohull.display();
    let cross = format!(
        "[binaries]\nc = ['{monohull}', 'cc']\ncpp = ['{monohull}', 'c++']\nar = 'ar'\nstrip = 'strip'\npkgconfig = 'false'\n\
         python = '{host}/python'\n\
         [properties]\nlongdouble_format = 'INTEL_EXTENDED_16_BYTES_LE'\nneeds_exe_wrapper = true\n\
         [built-in options]\nc_args = {include}\ncpp_args = {include}\n\
         [host_machine]\nsystem = 'linux'\ncpu_family = 'x86_64'\ncpu = 'x86_64'\nendian = 'little'\n",
        host = host.display(),
    );
    apt::write(&folder.join("cross"), &cross)?;
    let meson = "source/vendored-meson/meson/meson.py";
    let mut setup = python(folder);
    setup.args([meson, "setup", "build", "source", "--cross-file", "cross"]).args(OPTIONS);
    shell::run(&mut setup)?;
    let script = root().join("python/numpy_modules.py");
    let targets = shell::output(Command::new("python3").arg(&script).arg("--targets").arg(folder.join("build")))?;
    let targets = String::from_utf8_lossy(&targets);
    let mut ninja = tool(folder, folder.join("tools/bin/ninja"));
    shell::run(ninja.args(["-C", "build", "--quiet"]).args(targets.lines()))?;
    let mut modules = python(folder);
    shell::run(modules.arg(script).args(["source", "build", "packages"]))
}

/// The source, and the programs that its build runs.
fn fetch(folder: &Path) -> Result {
    let stub = folder.join("stub");
    apt::make(&stub)?;
    apt::write(&stub.join("mesonpy.py"), STUB)?;
    apt::write(&folder.join("numpy.txt"), SOURCE)?;
    apt::write(&folder.join("tools.txt"), TOOLS)?;
    let mut download = python(folder);
    download.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary=:all:"]);
    shell::run(download.args(["--require-hashes", "--requirement", "numpy.txt"]).env("PYTHONPATH", &stub))?;
    apt::make(&folder.join("source"))?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--directory=source", "--file"]);
    shell::run(tar.arg(format!("numpy-{VERSION}.tar.gz")).current_dir(folder))?;
    let mut install = python(folder);
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--root-user-action=ignore",
        "--target",
        "tools",
    ]);
    install.args([
        "--implementation",
        "py",
        "--abi",
        "none",
        "--platform",
        "any",
        "--platform",
        "manylinux2014_x86_64",
    ]);
    shell::run(install.args(["--require-hashes", "--requirement", "tools.txt"]))
}

/// The host's Python.
fn python(folder: &Path) -> Command {
    tool(folder, "python3")
}

fn tool(folder: &Path, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdout(Stdio::null());
    command.env("PYTHONPATH", folder.join("tools")).env("MONOHULL_LIBC", libc::folder());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.join("tools/bin")).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders).unwrap_or(path.clone()));
    command
}
