//! The C++ standard library for functions: LLVM's libc++ and libc++abi, compiled by the host's g++ against the libc of functions.
//!
//! ```text
//! PyPI ── the wheel of ziglang, by its SHA-256 ──▶ target/cxx/SOURCE      its folders libcxx and libcxxabi alone
//!                                                      │ edits
//!                         monohull c++, once for each file
//!                                                      ▼
//!                                  target/cxx/HASH/{include,lib}, LICENSE-libcxx ── copied ─▶ target/libc/c++
//! ```
//!
//! Debian has libc++ for glibc alone, whose classification of characters is another, and its source only as a part of LLVM's, with 120 MB.
//! The wheel has the sources for musl, with one change of its own, which is undone here. Version 16 is the last that takes GCC 12.
//!
//! `HASH` is that of everything the objects depend on. It takes two minutes of two processors, so it is no part of `cargo xtask build`.

use crate::workspace::{Workspace, root};
use crate::{Result, apt, build, libc, shell};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The last wheel with libc++ 16.
const WHEEL: &str = "ziglang==0.11.0 --hash=sha256:45e8116428267e20529b9ee43a7e7364791c1a092845d2143b248a1dbf6760b0\n";
/// What of it is unpacked.
const UNPACK: &str = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); \
    z.extractall('.', [n for n in z.namelist() if n.startswith(('ziglang/lib/libcxx/', 'ziglang/lib/libcxxabi/'))])";
/// The settings that libc++'s own build would write, in place of what the wheel's compiler passes.
const SETTINGS: &str = "\
#ifndef _LIBCPP___CONFIG_SITE
#define _LIBCPP___CONFIG_SITE
#define _LIBCPP_ABI_VERSION 1
#define _LIBCPP_ABI_NAMESPACE __1
#define _LIBCPP_HAS_MUSL_LIBC
#define _LIBCPP_HAS_THREAD_API_PTHREAD
#define _LIBCPP_HAS_NO_VENDOR_AVAILABILITY_ANNOTATIONS
#define _LIBCPP_ENABLE_ASSERTIONS_DEFAULT 0
#endif
";
/// The line of `__config` that the wheel has in place of the settings.
const NO_SETTINGS: &str = "/* zig patch: instead of including __config_site, zig adds -D flags when compiling */";
/// What libc++ takes of Linux's headers, which the libc does not have.
const FUTEX: &str = "#define FUTEX_WAIT_PRIVATE 128\n#define FUTEX_WAKE_PRIVATE 129\n";
/// What names an image to `__cxa_atexit`. A compiler's start files have it otherwise.
const HANDLE: &str = "__attribute__((visibility(\"hidden\"))) void *__dso_handle = &__dso_handle;\n";
const FLAGS: &[&str] = &[
    "-O2",
    "-std=c++20",
    "-nostdinc++",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-ffunction-sections",
    "-fdata-sections",
    "-w",
    "-D_LIBCPP_BUILDING_LIBRARY",
    "-D_LIBCXXABI_BUILDING_LIBRARY",
    "-DLIBCXX_BUILDING_LIBCXXABI",
    "-D_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS",
    "-D_LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS",
];
/// Parts that are not compiled: those of other systems, what the compiler's own library has, and what is there twice.
const WITHOUT: [&str; 5] =
    ["support", "int128_builtins.cpp", "cxa_noexception.cpp", "stdlib_new_delete.cpp", "demangle"];

/// Builds the visor, the libc and the library.
pub(crate) fn build() -> Result {
    let workspace = Workspace::load()?;
    build::visor()?;
    libc::build(&workspace)?;
    let folder = root().join("target/cxx");
    apt::make(&folder)?;
    // Two builds at a time share the folder.
    let _held = apt::lock(&folder)?;
    let whole = folder.join(format!("{:016x}", inputs()?));
    if !whole.exists() {
        make(&workspace.target().join("release/monohull"), &folder, &whole)?;
    }
    let installed = libc::folder().join("c++");
    let new = libc::folder().join("c++.new");
    apt::remove(&new)?;
    shell::run(Command::new("cp").arg("-r").arg(&whole).arg(&new))?;
    apt::remove(&installed)?;
    apt::rename(&new, &installed)
}

/// A hash of everything that decides what the library is.
fn inputs() -> Result<u64> {
    let compiler = shell::output(Command::new("g++").arg("--version"))?;
    let mut hasher = DefaultHasher::new();
    (WHEEL, SETTINGS, FUTEX, HANDLE, FLAGS, WITHOUT, compiler).hash(&mut hasher);
    let flags = libc::folder().join("lib/cc-flags");
    fs::read(&flags).map_err(|error| format!("{}: {error}", flags.display()))?.hash(&mut hasher);
    Ok(hasher.finish())
}

/// The sources, fetched if they are not there yet.
fn sources(folder: &Path) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    WHEEL.hash(&mut hasher);
    let whole = folder.join(format!("source-{:016x}", hasher.finish()));
    if !whole.exists() {
        shell::heading("fetch the sources of libc++: a wheel of 79 MB, once");
        let new = folder.join("source.new");
        apt::remove(&new)?;
        apt::make(&new)?;
        apt::write(&new.join("requirement"), WHEEL)?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]);
        pip.args(["--requirement", "requirement", "--dest", "wheel"]).current_dir(&new).stdout(Stdio::null());
        shell::run(&mut pip).map_err(|why| format!("cannot fetch the sources of libc++: {why}"))?;
        let wheel = libc::list(&new.join("wheel"))?.pop().ok_or("pip has fetched nothing")?;
        shell::run(Command::new("python3").args(["-c", UNPACK]).arg(wheel).current_dir(&new))?;
        apt::rename(&new.join("ziglang/lib"), &whole)?;
        apt::remove(&new)?;
    }
    Ok(whole)
}

fn make(monohull: &Path, folder: &Path, whole: &Path) -> Result {
    let source = sources(folder)?;
    shell::heading("compile libc++: two minutes, once");
    // The driver would put the headers of an earlier one behind those that are compiled, and both have the same guards.
    apt::remove(&libc::folder().join("c++"))?;
    let new = folder.join("new");
    apt::remove(&new)?;
    let (include, lib, objects) = (new.join("include"), new.join("lib"), new.join("objects"));
    for made in [&lib, &objects, &objects.join("linux")] {
        apt::make(made)?;
    }
    shell::run(Command::new("cp").arg("-r").arg(source.join("libcxx/include")).arg(&include))?;
    for header in libc::list(&source.join("libcxxabi/include"))? {
        shell::run(Command::new("cp").arg(header).arg(&include))?;
    }
    settings(&include)?;
    apt::write(&objects.join("linux/futex.h"), FUTEX)?;
    let handle = objects.join("dso_handle.c");
    apt::write(&handle, HANDLE)?;

    let mut files = vec![handle];
    for library in ["libcxx/src", "libcxxabi/src"] {
        collect(&source.join(library), &mut files)?;
    }
    files.sort();
    let object = |at: usize| objects.join(format!("{at:03}.o"));
    let compile = |(at, file): (usize, &PathBuf)| {
        let mut command = Command::new(monohull);
        command.env("MONOHULL_LIBC", libc::folder());
        match file.extension().is_some_and(|end| end == "c") {
            true => command.args(["cc", "-O2"]),
            false => command.arg("c++").args(FLAGS).arg("-I").arg(&include).arg("-I").arg(source.join("libcxx/src")),
        };
        command.arg("-I").arg(&objects).arg("-c").arg(file).arg("-o").arg(object(at));
        command
    };
    shell::run_all(files.iter().enumerate().map(compile).collect())?;
    let archive = lib.join("libc++.a");
    shell::run(Command::new("ar").arg("rcsD").arg(archive).args((0..files.len()).map(object)).stdout(Stdio::null()))?;
    // What build scripts of crates ask for.
    for name in ["libstdc++.a", "libc++abi.a", "libsupc++.a"] {
        apt::write(&lib.join(name), "INPUT ( -lc++ )\n")?;
    }
    shell::run(Command::new("cp").arg(source.join("libcxx/LICENSE.TXT")).arg(new.join("LICENSE-libcxx")))?;
    apt::remove(&objects)?;
    apt::rename(&new, whole)
}

/// Puts the settings into the headers.
fn settings(include: &Path) -> Result {
    apt::write(&include.join("__config_site"), SETTINGS)?;
    let config = include.join("__config");
    let text = fs::read_to_string(&config).map_err(|error| format!("{}: {error}", config.display()))?;
    if text.matches(NO_SETTINGS).count() != 1 {
        return Err(format!("{} does not contain {NO_SETTINGS:?} exactly once", config.display()));
    }
    apt::write(&config, &text.replace(NO_SETTINGS, "#include <__config_site>"))
}

/// The files of a folder, and of those in it, that are compiled.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result {
    for path in libc::list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if WITHOUT.contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "cpp") {
            files.push(path);
        }
    }
    Ok(())
}
