//! Builds what a workflow needs to run.
//!
//! ```text
//! target/release/monohull     the visor (and monohull-unhardened, for the lane with keys alone)
//! target/modules/NAME.so      libos modules: shared objects for dlopen, everything bound at load
//! target/libc/                the libc of C programs and of the real std
//! target/images/NAME.so       function images: shared objects for Monohull's own loader, no imports
//! target/wasi/                the compiler of WebAssembly programs, and their runtime
//! ```
//!
//! The last two lie there even if cargo builds elsewhere, because workflow files and tests name them there.
//!
//! Modules and images are ordinary library crates in the workspace, so that editors and clippy see them; only here
//! are they linked as shared objects, without C's start files.

use crate::workspace::{Package, Workspace, root};
use crate::{Result, assemblyscript, c_programs, libc, programs, shell, wasi};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// How libos modules are linked. They name libc, which the visor's process has anyway, for the versions of its symbols: a `memcpy` of
/// no version is bound to the oldest, kept for old programs, which takes up to 1.7 times as long as the one for this processor.
const MODULE_FLAGS: &[&str] = &["link-arg=-nostartfiles", "link-arg=-Wl,-z,now,-z,relro,-Bsymbolic", "link-arg=-lc"];
/// How function images are linked; `monohull build` links those of users the same way.
pub(crate) const IMAGE_FLAGS: &[&str] = &[
    "link-arg=-nostartfiles",
    "link-arg=-Wl,-z,now,-z,relro,-z,noexecstack,-z,separate-code,-Bsymbolic,--hash-style=gnu,--no-undefined",
    "force-frame-pointers=yes",
    "relocation-model=pic",
];
/// How the crates in them are compiled: reports follow frame pointers, through libraries as well, and the crate getrandom takes its
/// bytes from monohull-std. Modules have no need of that, but share what has been compiled.
pub(crate) const DEPENDENCY_FLAGS: &str = "-C force-frame-pointers=yes --cfg getrandom_backend=\"custom\"";

/// Examples over Rust's own std, and where their images go. What only a test of this machine runs is not in the memory of virtual machines.
const PROGRAMS: [(&str, &str, &str); 5] = [
    ("agent", "release", "target/images"),
    ("real-std", "release", "target/images"),
    ("kinds-std", "release", "target/images"),
    // The host's program that it is compared with is compiled in this profile too.
    ("conformance-native", "dev", "target/programs/images"),
    ("bench-program", "release", "target/programs/images"),
];

/// Visor, modules, images. Once for all lanes of a command: to find that nothing has changed takes a cargo for each image.
pub(crate) fn everything() -> Result {
    once(&|| Ok(()))
}

/// The same, and what the lane with keys needs besides, at the same time.
pub(crate) fn everything_for_keys() -> Result {
    once(&unhardened_visor)
}

fn once(besides: &(dyn Fn() -> Result + Sync)) -> Result {
    static BUILT: OnceLock<Result> = OnceLock::new();
    BUILT.get_or_init(|| build(besides)).clone()
}

/// Images are linked one after the other, each by one thread, which takes minutes. What goes to other folders is built meanwhile.
fn build(besides: &(dyn Fn() -> Result + Sync)) -> Result {
    let workspace = Workspace::load()?;
    visor()?;
    libc::build(&workspace)?;
    let in_turn = || modules(&workspace).and_then(|()| images(&workspace, |_| true));
    let elsewhere = || {
        wasi::build(&workspace)?;
        c_programs::build(&workspace)?;
        c_programs::wasi::build_first(&workspace)?;
        programs::build(&workspace)?;
        examples(&workspace)
    };
    shell::side_by_side(&[&in_turn, &elsewhere, besides])
}

/// What these workflows of `workflows/` need: the visor, the modules, and the images over monohull-std that they name.
pub(crate) fn for_workflows(names: &[&str]) -> Result {
    let workspace = Workspace::load()?;
    let mut wanted = BTreeSet::new();
    for name in names {
        wanted.extend(images_of(&root().join(format!("workflows/{name}.json")))?);
    }
    visor()?;
    modules(&workspace)?;
    images(&workspace, |image| wanted.contains(image))
}

/// The names of the images that a workflow file has, without `.so`.
fn images_of(file: &Path) -> Result<Vec<String>> {
    let fail = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read(file).map_err(|error| fail(&error))?;
    let workflow: serde_json::Value = serde_json::from_slice(&text).map_err(|error| fail(&error))?;
    let functions = workflow["functions"].as_object().into_iter().flat_map(|functions| functions.values());
    let stem = |path: &str| Some(Path::new(path).file_stem()?.to_str()?.to_owned());
    Ok(functions.filter_map(|function| stem(function["image"].as_str()?)).collect())
}

fn modules(workspace: &Workspace) -> Result {
    for module in workspace.modules() {
        let name = module.name.trim_start_matches("monohull-libos-");
        link(workspace, module, MODULE_FLAGS, &root().join(format!("target/modules/{name}.so")))?;
    }
    Ok(())
}

/// The images over monohull-std, those with wanted names.
fn images(workspace: &Workspace, is_wanted: impl Fn(&str) -> bool) -> Result {
    for image in workspace.images().filter(|image| is_wanted(&image.name)) {
        link(workspace, image, IMAGE_FLAGS, &root().join(format!("target/images/{}.so", image.name)))?;
    }
    Ok(())
}

/// The examples over Rust's own std and in C, as a user builds them.
fn examples(workspace: &Workspace) -> Result {
    let image = root().join("target/c-programs/kinds-c.so");
    let mut cc = Command::new(workspace.target().join("release/monohull"));
    cc.args(["cc", "-O2", "-Wall", "-Werror", "workflows/kinds.c", "-o"]).arg(&image);
    shell::run(cc.current_dir(root()).env("MONOHULL_LIBC", libc::folder()))?;
    install(&image, &root().join("target/images/kinds-c.so"))?;
    for (program, profile, folder) in PROGRAMS {
        let mut build = Command::new(workspace.target().join("release/monohull"));
        build.args(["build", "--profile", profile, "--out"]).arg(root().join(folder));
        build.arg(root().join("examples").join(program));
        shell::run(&mut build)?;
    }
    Ok(())
}

/// The libc and the C programs, for which the visor is needed.
pub(crate) fn c_programs() -> Result {
    let workspace = Workspace::load()?;
    visor()?;
    libc::build(&workspace)?;
    c_programs::build(&workspace)
}

/// The same as WebAssembly programs too.
pub(crate) fn c_programs_wasi() -> Result {
    c_programs()?;
    let workspace = Workspace::load()?;
    wasi::compiler(&workspace)?;
    c_programs::wasi::build(&workspace)?;
    assemblyscript::build(&workspace)
}

/// The libc and the workspace `programs`, for which the visor is needed.
pub(crate) fn published() -> Result {
    let workspace = Workspace::load()?;
    visor()?;
    libc::build(&workspace)?;
    programs::build_all(&workspace)
}

/// What makes functions of WebAssembly programs, and those that need no visor.
pub(crate) fn wasi() -> Result {
    wasi::tools(&Workspace::load()?)
}

/// The libc alone.
pub(crate) fn libc() -> Result {
    libc::build(&Workspace::load()?)
}

/// The visor alone.
pub(crate) fn visor() -> Result {
    shell::run(&mut shell::cargo(["build", "--release", "-p", "monohull-visor"]))
}

/// The visor in which tests switch defences off, beside the one that ships.
pub(crate) fn unhardened_visor() -> Result {
    let bin = ["--features", "unharden", "--bin", "monohull-unhardened"];
    shell::run(shell::cargo(["build", "--release", "-p", "monohull-visor"]).args(bin))
}

/// Links one library crate as the shared object `to`.
fn link(workspace: &Workspace, package: &Package, flags: &[&str], to: &Path) -> Result {
    let library = package.library().ok_or_else(|| format!("{} has no library", package.name))?;
    let mut command = shell::cargo([
        "rustc",
        "--quiet",
        "-p",
        &package.name,
        "--lib",
        "--crate-type=cdylib",
        "--profile=image",
        "--",
    ]);
    for flag in flags {
        command.args(["-C", flag]);
    }
    let theirs = std::env::var("RUSTFLAGS").unwrap_or_default();
    command.env("RUSTFLAGS", format!("{theirs} {DEPENDENCY_FLAGS}"));
    shell::run(&mut command)?;
    let built = workspace.target().join("image").join(format!("lib{library}.so"));
    install(&built, to)
}

/// Copies a file and its permissions if it has changed: by renaming, so that a running workflow keeps the one it has mapped.
pub(crate) fn install(from: &Path, to: &Path) -> Result {
    let fail = |error: std::io::Error| format!("cannot install {} as {}: {error}", from.display(), to.display());
    let new = std::fs::read(from).map_err(fail)?;
    if std::fs::read(to).is_ok_and(|old| old == new) {
        return Ok(());
    }
    std::fs::create_dir_all(to.parent().expect("has a folder")).map_err(fail)?;
    let aside = to.with_extension("new");
    std::fs::write(&aside, new).map_err(fail)?;
    let rights = std::fs::metadata(from).map_err(fail)?.permissions();
    std::fs::set_permissions(&aside, rights).map_err(fail)?;
    std::fs::rename(&aside, to).map_err(fail)?;
    eprintln!("{:>12} {}", "Linked", to.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_file_names_its_images() {
        let mut images = images_of(&root().join("workflows/word-count.json")).expect("it is there");
        images.sort();
        assert_eq!(images, ["word-count-map", "word-count-merge", "word-count-reduce", "word-count-split"]);
        assert!(images_of(&root().join("workflows/none.json")).is_err_and(|error| error.contains("none.json")));
    }
}
