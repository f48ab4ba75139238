//! Programs for WASI in other languages than Rust, compiled with Debian's packages of their compilers, which are fetched and never
//! installed.
//!
//! ```text
//! wasi/guests/c/tour.c     clang, wasi-libc    target/wasi/tour-c.wasm
//! wasi/guests/go           Go                  target/wasi/tour-go.wasm
//! ```
//!
//! clang would start the linker by its name; both are started here instead, each with the libraries of the tree that it came in. Go's
//! programs need none.

use crate::apt;
use crate::workspace::root;
use crate::{Result, shell};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiler, linker, libc, and what compiled code calls of the compiler.
const CLANG: [&str; 4] = ["clang-14", "lld-14", "wasi-libc", "libclang-rt-14-dev-wasm32"];
/// What these depend on and a program for WASI has no use for.
const WITHOUT: [&str; 9] = [
    "gcc-12",
    "cpp-12",
    "libgcc-12-dev",
    "libstdc++-12-dev",
    "libc6-dev",
    "linux-libc-dev",
    "libasan8",
    "binutils-x86-64-linux-gnu",
    "libobjc-12-dev",
];
/// The first version of Go for WASI is 1.21.
const GO: [&str; 2] = ["golang-1.23-go", "golang-1.23-src"];

/// Compiles all of them into the folder.
pub(crate) fn build(to: &Path) -> Result {
    let guests = root().join("wasi/guests");
    c(&guests.join("c/tour.c"), &to.join("tour-c.wasm"))?;
    go(&guests.join("go"), &to.join("tour-go.wasm"))
}

fn c(source: &Path, program: &Path) -> Result {
    let what = "fetch clang and wasi-libc for a program in C: about 70 MB, once";
    let folder = apt::cached("wasi-c", what, |apt, folder| apt.unpack(&CLANG, &WITHOUT, &folder.join("tree")))?;
    let (tree, object) = (folder.join("tree"), program.with_extension("o"));
    let (headers, libraries) = (tree.join("usr/include/wasm32-wasi"), tree.join("usr/lib/wasm32-wasi"));
    let resources = tree.join("usr/lib/llvm-14/lib/clang/14.0.6");
    let mut clang = apt::program(&tree, "usr/lib/llvm-14/bin/clang");
    clang.args(["--target=wasm32-wasi", "-O2", "-Wall", "-Werror", "-nostdinc", "-resource-dir"]).arg(&resources);
    clang.arg("-isystem").arg(resources.join("include")).arg("-isystem").arg(headers);
    shell::run(clang.arg("-I").arg(root().join("wasi/include")).arg("-c").arg(source).arg("-o").arg(&object))?;
    let mut lld = apt::program(&tree, "usr/lib/llvm-14/bin/lld");
    lld.args(["-flavor", "wasm"]).arg(libraries.join("crt1.o")).arg(object).arg("-L").arg(libraries).arg("-lc");
    lld.arg(resources.join("lib/wasi/libclang_rt.builtins-wasm32.a"));
    shell::run(lld.arg("-o").arg(program))
}

fn go_folder() -> Result<PathBuf> {
    let what = "fetch Go for a program in Go: about 50 MB, once";
    apt::cached("wasi-go", what, |apt, folder| apt.unpack(&GO, &[], &folder.join("tree")))
}

fn tree_of(folder: &Path) -> PathBuf {
    folder.join("tree/usr/lib/go-1.23")
}

/// Go, with its program `bin/go`.
pub(crate) fn go_tree() -> Result<PathBuf> {
    go_folder().map(|folder| tree_of(&folder))
}

fn go(source: &Path, program: &Path) -> Result {
    let folder = go_folder()?;
    let tree = tree_of(&folder);
    let mut go = Command::new(tree.join("bin/go"));
    // Nothing of the computer's or the user's decides what is built, and nothing is fetched.
    go.env_clear().envs([("GOOS", "wasip1"), ("GOARCH", "wasm"), ("GOTOOLCHAIN", "local"), ("GOPROXY", "off")]);
    go.envs([("GOENV", "off"), ("GOFLAGS", "-trimpath"), ("PATH", "/usr/bin:/bin")]);
    go.env("GOROOT", &tree).env("GOCACHE", folder.join("cache")).env("GOPATH", folder.join("path"));
    shell::run(go.current_dir(source).args(["build", "-ldflags=-s", "-o"]).arg(program).arg("."))
}
