//! The engines that `bench durable` compares with: Restate as npm has it, DBOS as Python's package index has it, over Debian's PostgreSQL, and duroxide as
//! cargo compiles it. All stay in `target/durable-peers`; what cannot be had is said, and left out of the measurement.
//!
//! ```text
//! bench/peers/durable/package-lock.json ── npm ci, by SHA-512 ─▶ restate/node_modules, and restate.mjs beside it
//! bench/peers/durable/requirements.txt  ── pip, by version ────▶ dbos/, a virtual environment
//! Debian's postgresql-15                ── unpacked ───────────▶ postgresql/bookworm/tree
//! bench/peers/durable/duroxide          ── cargo, Cargo.lock ──▶ duroxide/release/duroxide-peer
//! ```
//!
//! Scripts of npm packages are not run: one of them would report the installation to a third party.

use crate::apt::{self, Apt};
use crate::workspace::root;
use crate::{Result, shell};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// PostgreSQL's programs, in Debian's package. They look for each other, and for their files, from where they are.
const PROGRAMS: &str = "usr/lib/postgresql/15/bin";

/// Fetches what is not there yet.
pub(crate) fn ready() {
    for (name, fetch) in
        [("Restate", restate as fn() -> Result), ("DBOS", dbos), ("PostgreSQL", postgresql), ("duroxide", duroxide)]
    {
        if let Err(why) = fetch() {
            eprintln!("{name} IS NOT TO BE HAD, and is not measured: {why}");
        }
    }
}

fn folder() -> PathBuf {
    root().join("target/durable-peers")
}

fn sources() -> PathBuf {
    root().join("bench/peers/durable")
}

/// Makes a folder of `target/durable-peers` if it is not there yet. It is made at its place, because environments have their own path in
/// their files; what was interrupted is made again.
fn made(name: &str, what: &str, make: impl FnOnce(&Path) -> Result) -> Result<PathBuf> {
    apt::make(&folder())?;
    let _held = apt::lock(&folder())?;
    let (place, whole) = (folder().join(name), folder().join(format!("{name}.whole")));
    if !whole.exists() {
        shell::heading(what);
        apt::remove(&place)?;
        apt::make(&place)?;
        make(&place)?;
        apt::write(&whole, "")?;
    }
    Ok(place)
}

fn copy(name: &str, to: &Path) -> Result {
    fs::copy(sources().join(name), to.join(name)).map(drop).map_err(|error| format!("{name}: {error}"))
}

fn restate() -> Result {
    let place = made("restate", "fetch Restate to compare with: about 60 MB, once", |place| {
        copy("package.json", place)?;
        copy("package-lock.json", place)?;
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(place);
        shell::run(npm.env("SCARF_ANALYTICS", "false").stdout(Stdio::null()))
    })?;
    // A module is looked for from where the program is.
    copy("restate.mjs", &place)
}

fn dbos() -> Result {
    made("dbos", "fetch DBOS to compare with: about 20 MB, once", |place| {
        let python = |program: &Path, arguments: &[&str]| {
            shell::run(Command::new(program).args(arguments).current_dir(sources()).stdout(Stdio::null()))
        };
        let environment = place.to_str().ok_or("the path of the build folder is not UTF-8")?;
        python(Path::new("python3"), &["-m", "venv", environment])?;
        let pip =
            ["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"];
        python(&place.join("bin/python"), &[&pip[..], &["--requirement", "requirements.txt"]].concat())
    })
    .map(drop)
}

fn postgresql() -> Result {
    apt::cached("durable-peers/postgresql", "fetch PostgreSQL for DBOS: about 70 MB, once", |apt: &Apt, folder| {
        let tree = folder.join("tree");
        apt.unpack(&["postgresql-15"], &[], &tree)?;
        // With their own loader and libraries, and at their own names, by which they find each other.
        for name in ["initdb", "postgres"] {
            let (program, real) = (tree.join(PROGRAMS).join(name), format!("{name}.real"));
            apt::rename(&program, &tree.join(PROGRAMS).join(&real))?;
            let text = format!(
                "#!/bin/sh\nhere=$(dirname \"$(readlink -f \"$0\")\")\ntree=$here/../../../../..\n\
                 libraries=$tree/lib/x86_64-linux-gnu:$tree/usr/lib/x86_64-linux-gnu\n\
                 exec \"$tree/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\" --inhibit-cache --library-path \"$libraries\" \
                 --argv0 \"$here/{name}\" \"$here/{real}\" \"$@\"\n"
            );
            apt::write(&program, &text)?;
            fs::set_permissions(&program, Permissions::from_mode(0o755))
                .map_err(|error| format!("{}: {error}", program.display()))?;
        }
        Ok(())
    })
    .map(drop)
}

fn duroxide() -> Result {
    let target = folder().join("duroxide");
    if !target.join("release/duroxide-peer").exists() {
        shell::heading("compile duroxide to compare with: some minutes, once");
    }
    let mut build = shell::cargo(["build", "--quiet", "--release", "--locked", "--manifest-path"]);
    build.arg(sources().join("duroxide/Cargo.toml")).arg("--target-dir").arg(&target);
    // Not what this workspace is compiled with.
    shell::run(build.env_remove("RUSTFLAGS"))
}
