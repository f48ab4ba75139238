//! musl's libc-test as function images, for `visor/tests/libc_tests.rs`.
//!
//! ```text
//! Go's module proxy ── modernc.org/libc, by its checksum ──▶ target/libc-tests/source: its copy of libc-test alone
//!                                                  │ monohull cc, once for each test
//!                                                  ▼
//!                                 target/libc-tests/images/FOLDER-NAME.so
//! ```
//!
//! Debian has no package of libc-test, nor has another registry one of its own. The module is a libc for Go, which is tested with it.

use crate::workspace::{Workspace, root};
use crate::{Result, apt, build, libc, shell, wasi_guests};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The last version for the Go of Debian's backports, and what the module proxy's client computes of its contents.
const MODULE: (&str, &str) = ("modernc.org/libc@v1.61.13", "h1:3LRd6ZO1ezsFiX1y+bHd1ipyEHIJKvuprv0sLTBwLW8=");
/// Where the tests are in it.
const TESTS: &str = "testdata/nsz.repo.hu/libc-test";
/// Folders of tests that are programs. Those of `api` are headers that compile, those of `musl` are about another processor.
const FOLDERS: [&str; 3] = ["functional", "regression", "math"];
/// What all tests link: the other files of that folder start processes.
const COMMON: [&str; 9] = ["fdfill", "memfill", "mtest", "path", "print", "rand", "setrlim", "utf8", "vmfill"];
/// As libc-test's own settings, without warnings.
const FLAGS: [&str; 7] = [
    "-Isrc/common",
    "-std=c99",
    "-D_POSIX_C_SOURCE=200809L",
    "-D_FILE_OFFSET_BITS=64",
    "-fno-builtin",
    "-frounding-math",
    "-w",
];

/// Builds the visor, the libc and the images.
pub(crate) fn build() -> Result {
    let workspace = Workspace::load()?;
    build::visor()?;
    libc::build(&workspace)?;
    let folder = root().join("target/libc-tests");
    apt::make(&folder)?;
    // Two builds at a time share the folder.
    let _held = apt::lock(&folder)?;
    let source = source(&folder)?;
    let (images, objects) = (folder.join("images"), folder.join("objects"));
    for made in [&images, &objects] {
        apt::remove(made)?;
        apt::make(made)?;
    }
    shell::heading("compile libc-test");
    let cc = || {
        let mut cc = Command::new(workspace.target().join("release/monohull"));
        cc.arg("cc").env("MONOHULL_LIBC", libc::folder()).current_dir(&source).args(FLAGS);
        cc
    };
    let object = |name: &str| objects.join(name).with_extension("o");
    let common = COMMON.iter().map(|name| {
        let mut cc = cc();
        cc.arg("-c").arg(format!("src/common/{name}.c")).arg("-o").arg(object(name));
        cc
    });
    shell::run_all(common.collect())?;
    let tests = tests(&source)?.into_iter().map(|(name, files)| {
        let mut cc = cc();
        // What the linker finds of a test that will be refused is what the test is about.
        cc.args(files).args(COMMON.map(object)).args(["-lm", "-o"]).arg(images.join(name).with_extension("so"));
        cc.stderr(std::process::Stdio::null());
        cc
    });
    shell::run_all(tests.collect())
}

/// The tests: a name, and the C files. Files that others would load as libraries are linked instead, where there is one.
fn tests(source: &Path) -> Result<Vec<(String, Vec<PathBuf>)>> {
    let mut tests = Vec::new();
    for folder in FOLDERS {
        for file in libc::list(&source.join("src").join(folder))? {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if file.extension().is_some_and(|end| end == "c") && !stem.ends_with("_dso") {
                let library = file.with_file_name(format!("{stem}_dso.c"));
                let linked = (stem == "tls_align").then_some(library);
                tests.push((format!("{folder}-{stem}"), [file].into_iter().chain(linked).collect()));
            }
        }
    }
    tests.sort();
    Ok(tests)
}

/// The source, fetched if it is not there yet.
fn source(folder: &Path) -> Result<PathBuf> {
    let (module, sum) = MODULE;
    let whole = folder.join(format!("source-{}", module.rsplit('@').next().unwrap_or_default()));
    if whole.exists() {
        return Ok(whole);
    }
    let go = wasi_guests::go_tree()?;
    shell::heading("fetch libc-test: a module of 18 MB, once");
    let path = folder.join("path");
    apt::remove(&path)?;
    let mut download = Command::new(go.join("bin/go"));
    // The checksum is compared here. Which proxy is asked is the computer's choice.
    for (name, value) in [("GOTOOLCHAIN", "local"), ("GOFLAGS", "-modcacherw"), ("GOSUMDB", "off"), ("GOWORK", "off")] {
        download.env(name, value);
    }
    download.env("GOROOT", &go).env("GOPATH", &path).current_dir(folder).args(["mod", "download", "-json", module]);
    let said = shell::output(&mut download).map_err(|why| format!("cannot fetch libc-test: {why}"))?;
    if !String::from_utf8_lossy(&said).contains(&format!("\"Sum\": \"{sum}\"")) {
        return Err(format!("{module} is another than expected: {}", String::from_utf8_lossy(&said)));
    }
    apt::rename(&path.join("pkg/mod").join(module).join(TESTS), &whole)?;
    fs::remove_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(whole)
}
