//! A chore works on the repository that it was started in, also if it was compiled in another.
//!
//! A copied clone contains the `target` folder, whose programs cargo considers fresh.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// Stands in for cargo: notes the folder and the arguments, knows one package, and builds nothing.
const CARGO: &str = r#"#!/bin/sh
echo "$PWD: $*" >> "$LOG"
case "$1" in
    metadata) echo '{"packages":[{"name":"some-crate","manifest_path":"/","dependencies":[],"targets":[]}],"target_directory":"/"}' ;;
    clean) ;;
    *) exit 1 ;;
esac
"#;

/// A copy of a repository, as far as it matters here.
struct Copy(TempDir);

impl Copy {
    fn new() -> Copy {
        let folder = TempDir::new().expect("a folder");
        fs::create_dir(folder.path().join("xtask")).expect("a folder");
        fs::write(folder.path().join("xtask/Cargo.toml"), "").expect("a manifest");
        let cargo = folder.path().join("cargo");
        fs::write(&cargo, CARGO).expect("a script");
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("executable");
        Copy(folder)
    }

    /// Runs `lint` there, as cargo would (`manifest`) or as a program that is in the folder `current`.
    fn lint(&self, manifest: Option<&Path>, current: &Path) -> Output {
        let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
        xtask.arg("lint").current_dir(current).env("CARGO", self.0.path().join("cargo")).env("LOG", self.log());
        match manifest {
            Some(manifest) => xtask.env("CARGO_MANIFEST_DIR", manifest),
            None => xtask.env_remove("CARGO_MANIFEST_DIR"),
        };
        xtask.output().expect("xtask starts")
    }

    fn log(&self) -> std::path::PathBuf {
        self.0.path().join("log")
    }
}

#[test]
fn chores_work_where_they_are_started() {
    for by_cargo in [true, false] {
        let copy = Copy::new();
        let root = copy.0.path().canonicalize().expect("a path");
        let package = root.join("xtask");
        // Cargo starts programs in the folder where it was itself started.
        let output = if by_cargo { copy.lint(Some(&package), Path::new("/")) } else { copy.lint(None, &package) };
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(said.contains("the target folder was copied from "), "{said}");
        let log = fs::read_to_string(copy.log()).expect("cargo was started");
        let folder = root.display();
        let expected = [
            format!("{folder}: metadata --no-deps --format-version=1 --quiet"),
            format!("{folder}: clean --quiet --package some-crate"),
            format!("{folder}: fmt --all --check"),
        ];
        assert_eq!(log.lines().collect::<Vec<_>>(), expected, "{said}");
    }
}

/// Where it was compiled, nothing is removed.
#[test]
fn nothing_is_built_again_without_need() {
    let copy = Copy::new();
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = copy.lint(Some(own), Path::new("/"));
    assert!(!output.status.success(), "this cargo formats nothing");
    let log = fs::read_to_string(copy.log()).expect("cargo was started");
    let root = own.parent().expect("the root").display();
    assert_eq!(log, format!("{root}: fmt --all --check\n"));
}
