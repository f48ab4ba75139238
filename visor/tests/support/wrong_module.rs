//! Libos modules that are wrong in one way, made with `rustc` from `domain_modules/module.rs`. A machine without a compiler,
//! the guest of `cargo xtask test --keys`, brings along what the same program has made on the host.

use crate::support::root;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The contract's crate, compiled for the modules made here.
static CONTRACT: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = fresh_folder("contract");
    let to = folder.join("libmonohull_abi.rlib");
    rustc(&["--crate-name=monohull_abi", "--crate-type=rlib"], &root().join("libos/abi/src/lib.rs"), &to);
    to
});

fn compiler() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

fn rustc(options: &[&str], source: &Path, to: &Path) {
    let mut command = compiler();
    command.args(["--edition=2024", "-O", "-Cpanic=abort", "--cap-lints=allow"]).args(options);
    let output = command.arg("-o").arg(to).arg(source).output().expect("rustc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME")).join(name)
}

/// A new empty folder.
pub(crate) fn fresh_folder(name: &str) -> PathBuf {
    let folder = folder(name);
    // An earlier run of these tests may have left one.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("cargo's folder for tests takes folders");
    folder
}

/// A folder of modules in which `time` is wrong in this way and the others are right.
pub(crate) fn with_wrong_time(way: &str) -> PathBuf {
    if compiler().arg("--version").output().is_err() {
        let made = folder(way);
        assert!(made.join("time.so").exists(), "{}: neither it nor a compiler is here", made.display());
        return made;
    }
    let folder = fresh_folder(way);
    for name in ["mm", "stdio"] {
        std::os::unix::fs::symlink(built(name), folder.join(name).with_extension("so")).expect("a link");
    }
    let contract = format!("--extern=monohull_abi={}", CONTRACT.display());
    let options = ["--crate-name=time", "--crate-type=cdylib", "-Clink-arg=-nostartfiles", &contract, "--cfg", way];
    rustc(&options, &root().join("visor/tests/domain_modules/module.rs"), &folder.join("time.so"));
    folder
}

/// A module as built.
pub(crate) fn built(name: &str) -> PathBuf {
    let path = root().join("target/modules").join(name).with_extension("so");
    assert!(path.exists(), "{}: modules are built first: run `cargo xtask test`", path.display());
    path
}
