//! A chain of static processes over pipes, as a shell would start them: `link create SIZE | link forward | … | link verify`.

use crate::harness::Result;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Compiles the program that is one link of the chain, if need be.
pub(crate) fn build_link() -> Result<PathBuf> {
    build("link", &[concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/kernels/src/chain.rs")])
}

/// Compiles the program that does nothing, if need be.
pub(crate) fn build_nothing() -> Result<PathBuf> {
    build("nothing", &[])
}

/// Compiles the CGI program that sorts lines, if need be.
pub(crate) fn build_sort() -> Result<PathBuf> {
    build("sort", &[concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/kernels/src/sort.rs")])
}

/// Compiles `peers/NAME.rs` if its program is older than that and the other sources; returns the program. It is static, so
/// that the figures contain no dynamic linking.
fn build(name: &str, others: &[&str]) -> Result<PathBuf> {
    let folder = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let program = folder.with_file_name(format!("bench-{name}"));
    let source = format!("{}/peers/{name}.rs", env!("CARGO_MANIFEST_DIR"));
    let changed = |path: &str| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    let built = std::fs::metadata(&program).and_then(|m| m.modified()).ok();
    if built.is_some() && others.iter().copied().chain([source.as_str()]).all(|source| built >= changed(source)) {
        return Ok(program);
    }
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition=2024", "-Copt-level=3", "-Cpanic=abort", "-Ctarget-feature=+crt-static", "-o"]);
    let status = rustc.arg(&program).arg(&source).status().map_err(|error| format!("cannot start rustc: {error}"))?;
    if status.success() { Ok(program) } else { Err(format!("rustc {source} ended with {status}")) }
}

/// Compiles the CGI program of Apache; static, as ours has nothing to link either.
pub(crate) fn build_cgi() -> Result<PathBuf> {
    compile("cgi", &["-static".as_ref()])
}

/// Compiles the server that has next to nothing besides its system calls.
pub(crate) fn build_floor() -> Result<PathBuf> {
    compile("floor", &["-static".as_ref()])
}

/// Compiles the program that runs a no-op in WebAssembly with the library `wasmtime`.
pub(crate) fn build_wasmtime(library: &Path) -> Result<PathBuf> {
    with_wasmtime("wasmtime", library)
}

/// Compiles the program that runs programs for WASI with it.
pub(crate) fn build_wasi(library: &Path) -> Result<PathBuf> {
    with_wasmtime("wasi", library)
}

fn with_wasmtime(name: &str, library: &Path) -> Result<PathBuf> {
    let folder = library.parent().unwrap_or(Path::new("."));
    let mut search = OsString::from("-Wl,-rpath,");
    search.push(folder);
    compile(name, &[library.as_os_str(), &search])
}

/// Compiles `peers/NAME.c`.
fn compile(name: &str, options: &[&OsStr]) -> Result<PathBuf> {
    let program = crate::ours::scratch()?.join(format!("bench-{name}"));
    let source = format!("{}/peers/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let compiled = Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(&source).args(options).status();
    match compiled.map_err(|error| format!("cannot start cc: {error}"))? {
        status if status.success() => Ok(program),
        status => Err(format!("cc {source} ended with {status}")),
    }
}

/// Nanoseconds for one whole chain of `links` processes that hand on `size` bytes: from the first start to the last
/// end. The result goes to a file in memory's stead, `/dev/null`.
pub(super) fn chain(program: &Path, links: usize, size: usize) -> Result<f64> {
    let fail = |error: std::io::Error| format!("chain of processes: {error}");
    let start = Instant::now();
    let mut children = Vec::with_capacity(links);
    let mut input = Stdio::null();
    for link in 0..links {
        let mut command = Command::new(program);
        let last = link + 1 == links;
        match link {
            0 => command.args(["create", &size.to_string()]),
            _ if last => command.arg("verify"),
            _ => command.arg("forward"),
        };
        let output = if last { File::create("/dev/null").map_err(fail)?.into() } else { Stdio::piped() };
        let mut child = command.stdin(input).stdout(output).spawn().map_err(fail)?;
        input = child.stdout.take().map_or_else(Stdio::null, Stdio::from);
        children.push(child);
    }
    for mut child in children {
        let status = child.wait().map_err(fail)?;
        if !status.success() {
            return Err(format!("a link of the chain ended with {status}"));
        }
    }
    Ok(start.elapsed().as_nanos() as f64)
}
