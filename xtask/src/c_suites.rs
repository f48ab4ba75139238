//! The test suites that C programs of other projects bring along, for `visor/tests/c_suites.rs`.
//!
//! ```text
//! Lua           files that its image reads                                target/c-suites/lua
//! jq, QuickJS   files that the images of `cargo xtask build` read         target/c-suites/jq, quickjs
//! zlib          two programs                                              target/c-suites/images/example.so, infcover.so
//! Oniguruma     five programs                                             target/c-suites/images/onig-*.so
//! SQLite        an interpreter of Tcl, by the program's own makefile,     target/c-suites/images/testfixture.so
//!               for which Tcl is built as well                            target/c-suites/sqlite, tcl
//! Redis         the server, by its own makefile, and scripts that ask it  target/c-suites/images/redis-server.so, redis
//! ```

use crate::c_programs::{JQ_SOURCE, ONIGURUMA_TESTS, QUICKJS_SOURCE, SQLITE_SOURCE, ZLIB_TESTS, unpack_lua_tests};
use crate::source::Source;
use crate::workspace::{Workspace, root};
use crate::{Result, apt, build, libc, shell};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TCL: Source = Source {
    name: "tcl",
    version: "8.6.16",
    addresses: [
        "http://deb.debian.org/debian/pool/main/t/tcl8.6/tcl8.6_8.6.16+dfsg.orig.tar.gz",
        "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/t/tcl8.6/tcl8.6_8.6.16+dfsg.orig.tar.gz",
    ],
    sha256: "c3b6a803ea2e55cafa8b4b52546a6b3bb3722927dcf4bebe3a6549fd353702ea",
};

const REDIS: Source = Source {
    name: "redis",
    version: "7.0.15",
    addresses: [
        "http://deb.debian.org/debian/pool/main/r/redis/redis_7.0.15.orig.tar.gz",
        "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/r/redis/redis_7.0.15.orig.tar.gz",
    ],
    sha256: "4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982",
};

/// What Tcl's `configure` would find out by starting a program, which the host cannot.
const TCL_KNOWN: [(&str, &str); 3] =
    [("tcl_cv_strtoul_unbroken", "ok"), ("tcl_cv_strstr_unbroken", "ok"), ("ac_cv_func_memcmp_working", "yes")];

/// Builds the programs, and unpacks what tests read.
pub(crate) fn build() -> Result {
    build::c_programs()?;
    let workspace = Workspace::load()?;
    let monohull = workspace.target().join("release/monohull");
    let folder = root().join("target/c-suites");
    apt::make(&folder)?;
    // Two builds at a time share the folder.
    let _held = apt::lock(&folder)?;
    let images = folder.join("images");
    apt::remove(&images)?;
    apt::make(&images)?;
    for (source, name) in [(&JQ_SOURCE, "jq"), (&QUICKJS_SOURCE, "quickjs")] {
        apt::remove(&folder.join(name))?;
        source.unpack(&folder.join(name))?;
    }
    unpack_lua_tests(&folder.join("lua"))?;
    for program in ZLIB_TESTS.into_iter().chain(ONIGURUMA_TESTS) {
        program.build(&monohull, &folder, &images.join(program.name()).with_extension("so"))?;
    }
    let tcl = tcl(&monohull, &folder)?;
    sqlite(&monohull, &folder, &tcl, &images.join("testfixture.so"))?;
    redis(&monohull, &folder, &images.join("redis-server.so"))
}

/// A command of the host's in a folder, whose output is not shown.
fn quiet(program: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("MONOHULL_LIBC", libc::folder()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Tcl's library, as its own makefile builds it: the folder of its source.
fn tcl(monohull: &Path, folder: &Path) -> Result<PathBuf> {
    let source = folder.join("tcl");
    apt::remove(&source)?;
    TCL.unpack(&source)?;
    shell::heading(&format!("compile Tcl {}", TCL.version));
    let unix = source.join("unix");
    let mut configure = quiet(unix.join("configure"), &unix);
    configure.env("CC", format!("{} cc", monohull.display())).envs(TCL_KNOWN);
    shell::run(configure.args(["--host=x86_64-linux-musl", "--disable-shared"]))?;
    shell::run(quiet("make", &unix).args(["-j2", "libtcl8.6.a"]))?;
    Ok(source)
}

/// SQLite's tests are scripts for this interpreter, in which its library is linked.
fn sqlite(monohull: &Path, folder: &Path, tcl: &Path, image: &Path) -> Result {
    let source = folder.join("sqlite");
    apt::remove(&source)?;
    SQLITE_SOURCE.unpack(&source)?;
    let tclsh = tclsh(folder)?;
    shell::heading(&format!("compile the tests of SQLite {}", SQLITE_SOURCE.version));
    shell::run(quiet(source.join("configure"), &source).env("CC", "gcc").args(["--disable-tcl", "--disable-shared"]))?;
    let tclsh = format!("TCLSH_CMD={}", tclsh.display());
    shell::run(quiet("make", &source).args([&*tclsh, "sqlite3.c"]))?;
    let flags = "-O1 -w -I. -Isrc -Iext/rtree -Iext/fts3 -Iext/async -Iext/session -Iext/userauth -DNDEBUG \
        -DSQLITE_THREADSAFE=1 -DSQLITE_ENABLE_MATH_FUNCTIONS";
    let here = tcl.display();
    shell::run(quiet("make", &source).arg("testfixture").arg(tclsh).args([
        format!("TCC={} cc {flags}", monohull.display()),
        "LTLINK=$(TCC)".to_owned(),
        format!("LIBTCL=-I{here}/generic -I{here}/unix -I{here}/compat/zlib {here}/unix/libtcl8.6.a"),
        "TLIBS=-lm".to_owned(),
    ]))?;
    apt::rename(&source.join("testfixture"), image)
}

/// The server. Its tests are scripts for the host's interpreter of Tcl, which talk to it.
fn redis(monohull: &Path, folder: &Path, image: &Path) -> Result {
    let source = folder.join("redis");
    apt::remove(&source)?;
    REDIS.unpack(&source)?;
    shell::heading(&format!("compile Redis {}", REDIS.version));
    let mut make = quiet("make", &source.join("src"));
    make.args(["-j2", "MALLOC=libc", "USE_SYSTEMD=no", "BUILD_TLS=no"]).arg(format!("CC={} cc", monohull.display()));
    shell::run(make.arg("redis-server"))?;
    apt::rename(&source.join("src/redis-server"), image)
}

/// The host's own interpreter of Tcl, by which SQLite's source is made.
fn tclsh(folder: &Path) -> Result<PathBuf> {
    let tree = apt::cached("tclsh", "fetch an interpreter of Tcl: about 20 MB, once", |apt, new| {
        apt.unpack(&["tcl8.6"], &[], new)
    })?;
    let program = folder.join("tclsh");
    let tree = tree.display();
    let script = format!(
        "#!/bin/sh\nTCL_LIBRARY={tree}/usr/share/tcltk/tcl8.6 exec {tree}/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 --inhibit-cache \
         --library-path {tree}/lib/x86_64-linux-gnu:{tree}/usr/lib/x86_64-linux-gnu {tree}/usr/bin/tclsh8.6 \"$@\"\n"
    );
    apt::write(&program, &script)?;
    shell::run(Command::new("chmod").arg("+x").arg(&program))?;
    Ok(program)
}
