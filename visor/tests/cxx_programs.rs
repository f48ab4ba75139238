//! C++ as functions: `monohull c++` with the C++ standard library, and crates whose build scripts compile C++.
//!
//! The library takes minutes to compile (`cargo xtask build --cxx`), so the tests that need it are ignored where it is not asked for:
//! `cargo test -p monohull-visor --test cxx_programs -- --ignored`. `cargo xtask test --full` does both.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn monohull(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    for chosen in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_BUILD_DIR", "RUSTFLAGS"] {
        command.env_remove(chosen);
    }
    command.current_dir(folder).args(arguments).env("XDG_CACHE_HOME", folder).output().expect("monohull starts")
}

#[track_caller]
fn done(output: Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout) + &text(&output.stderr)
}

/// A folder with a program and a workflow that runs the image `app.so`.
fn folder(name: &str, text: &str) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join(name), text).expect("written");
    let workflow = r#"{ "name": "app", "functions": { "app": { "image": "app.so" } }, "steps": [{ "name": "app", "function": "app" }],
        "files": [{ "at": "/tmp", "memory": "1MiB" }] }"#;
    fs::write(folder.path().join("workflow.json"), workflow).expect("written");
    folder
}

/// The lines that the function has printed.
fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| Some(line.split_once("[0] | ")?.1.to_owned())).collect()
}

#[test]
#[ignore = "the library takes minutes to compile: `cargo xtask build --cxx`"]
fn exceptions_types_streams_and_threads() {
    let folder = folder("app.cpp", include_str!("cxx/tour.cpp"));
    done(monohull(folder.path(), &["c++", "-std=c++20", "-O1", "-c", "app.cpp", "-o", "app.o"]));
    done(monohull(folder.path(), &["c++", "app.o", "-o", "app.so"]));
    done(monohull(folder.path(), &["check", "app.so"]));
    let output = monohull(folder.path(), &["run", "workflow.json"]);
    assert_eq!(
        lines(&output),
        [
            "constructed before main",
            "unwound",
            "caught thrown 7 as std::runtime_error",
            "a number 42",
            "derived: true false",
            "std::bad_cast",
            "nested: outer, inner",
            "threads: 6 of main",
            "in a future",
            "      ff 3.142",
            "<ne> tw<>",
            "line 1, line 2, ",
            "\"a file\" 14",
            "1,2,3,",
            "sorted: 0 1 3 7",
            "vector",
            "no such file: true",
            "no memory: true",
            "destroyed after main",
        ],
        "{output:?}"
    );
}

#[test]
#[ignore = "the library takes minutes to compile: `cargo xtask build --cxx`"]
fn an_exception_that_nothing_catches_ends_the_instance() {
    let folder =
        folder("app.cpp", "#include <stdexcept>\nint main() { throw std::logic_error(\"nothing catches it\"); }\n");
    done(monohull(folder.path(), &["c++", "app.cpp", "-o", "app.so"]));
    let output = monohull(folder.path(), &["run", "workflow.json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("uncaught exception of type std::logic_error: nothing catches it"), "{said}");
}

#[test]
fn without_the_library_its_lack_is_told() {
    let folder = folder("app.cpp", "#include <iostream>\nint main() { std::cout << \"hello\\n\"; }\n");
    let libc = folder.path().join("libc");
    fs::create_dir(&libc).expect("made");
    for part in ["include", "lib"] {
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/libc").join(part);
        std::os::unix::fs::symlink(built, libc.join(part)).expect("made");
    }
    for arguments in [&["c++", "app.cpp", "-o", "app.so"][..], &["c++", "-c", "app.cpp", "-o", "app.o"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        // The driver for C does not find the library either, and is there without a compiler of C++.
        command.env("MONOHULL_LIBC", &libc).env("MONOHULL_CXX", "cc");
        let output = command.current_dir(folder.path()).args(arguments).output().expect("monohull starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("`cargo xtask build --cxx`"), "{arguments:?}: {said}");
    }
}

/// cc-rs calls `monohull c++`, and asks rustc to link `stdc++`.
#[test]
#[ignore = "the library takes minutes to compile: `cargo xtask build --cxx`"]
fn a_build_script_compiles_cxx() {
    let folder = TempDir::new().expect("a folder");
    done(monohull(folder.path(), &["new", "app"]));
    let app = folder.path().join("app");
    for (path, text) in [
        (
            "build.rs",
            "use std::process::Command;\nfn main() {\n    let out = std::env::var(\"OUT_DIR\").unwrap();\n    \
             let cxx = std::env::var(\"CXX_x86_64_unknown_linux_gnu\").unwrap();\n    \
             let run = |command: &mut Command| assert!(command.status().unwrap().success());\n    \
             run(Command::new(cxx).args([\"-O1\", \"-c\", \"part.cpp\", \"-o\"]).arg(format!(\"{out}/part.o\")));\n    \
             run(Command::new(\"ar\").arg(\"crs\").arg(format!(\"{out}/libpart.a\")).arg(format!(\"{out}/part.o\")));\n    \
             println!(\"cargo:rustc-link-search=native={out}\");\n    println!(\"cargo:rustc-link-lib=static=part\");\n    \
             println!(\"cargo:rustc-link-lib=stdc++\");\n}\n",
        ),
        (
            "part.cpp",
            "#include <map>\n#include <string>\n#include <stdexcept>\n\
             extern \"C\" int length(const char *text) {\n    std::map<std::string, int> m{{\"four\", 4}};\n    \
             try { return m.at(text); } catch (const std::out_of_range &) { return -1; }\n}\n",
        ),
        (
            "src/main.rs",
            "unsafe extern \"C\" { fn length(text: *const std::ffi::c_char) -> i32; }\n\
             fn main() { println!(\"{} {}\", unsafe { length(c\"four\".as_ptr()) }, unsafe { length(c\"none\".as_ptr()) }); }\n",
        ),
    ] {
        fs::write(app.join(path), text).expect("written");
    }
    done(monohull(&app, &["build"]));
    let output = monohull(&app, &["run", "workflow.json"]);
    assert_eq!(lines(&output), ["4 -1"], "{output:?}");
}
