//! `monohull new` and `monohull init`: what they make builds and runs, names no path of this machine, and shares what it rests on.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// Runs the program in a folder, with a cache of its own.
fn monohull(cache: &Path, folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.current_dir(folder).args(args).env("XDG_CACHE_HOME", cache);
    for chosen in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_BUILD_DIR"] {
        command.env_remove(chosen);
    }
    command.output().expect("monohull starts")
}

#[track_caller]
fn done(output: Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

/// The files of a folder that git would take: those in `.cargo` hide themselves.
fn shared_files(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with(".cargo") {
            names.extend(shared_files(&path));
        } else if path.is_file() {
            names.push(path.to_str().expect("UTF-8").to_owned());
        }
    }
    names
}

#[test]
fn a_new_crate_names_no_path_of_this_machine() {
    let folder = TempDir::new().expect("a folder");
    done(monohull(folder.path(), folder.path(), &["new", "--small", "hello"]));
    let hello = folder.path().join("hello");
    let files = shared_files(&hello);
    assert_eq!(files.len(), 5, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).expect("text");
        assert!(!text.contains("path ="), "{file}: {text}");
        assert!(!text.contains(env!("CARGO_MANIFEST_DIR").trim_end_matches("/visor")), "{file}: {text}");
    }
    // What is this machine's own is where git does not look.
    assert_eq!(fs::read_to_string(hello.join(".cargo/.gitignore")).expect("a file"), "*\n");
    let local = fs::read_to_string(hello.join(".cargo/config.toml")).expect("a file");
    assert!(local.contains("[patch.crates-io]\nmonohull-std = { path = \"/"), "{local}");
}

#[test]
fn init_writes_what_is_missing_and_nothing_else() {
    let folder = TempDir::new().expect("a folder");
    let here = folder.path().join("hello");
    done(monohull(folder.path(), folder.path(), &["new", "--small", "hello"]));
    let (said, _) = done(monohull(folder.path(), &here, &["init"]));
    assert_eq!(said, "Nothing is missing here.\n");
    // A clone has not what git ignores.
    fs::remove_dir_all(here.join(".cargo")).expect("removed");
    fs::write(here.join("src/lib.rs"), "// mine\n").expect("written");
    let (said, _) = done(monohull(folder.path(), &here, &["init"]));
    assert!(said.starts_with("Wrote .cargo/config.toml, .cargo/.gitignore."), "{said}");
    assert_eq!(fs::read_to_string(here.join("src/lib.rs")).expect("a file"), "// mine\n");
    // An empty folder becomes a crate; its name is the folder's, or what is said.
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("a folder");
    done(monohull(folder.path(), &empty, &["init", "--small", "--name", "other"]));
    assert!(fs::read_to_string(empty.join("Cargo.toml")).expect("a manifest").contains("name = \"other\""));
    let odd = folder.path().join("1 odd");
    fs::create_dir(&odd).expect("a folder");
    assert_eq!(monohull(folder.path(), &odd, &["init"]).status.code(), Some(2));
}

/// A crate with a dependency that has std among its default features.
#[test]
fn init_writes_nothing_through_links() {
    let folder = TempDir::new().expect("a folder");
    let (here, outside) = (folder.path().join("cloned"), folder.path().join("outside"));
    for made in [&here, &outside] {
        fs::create_dir(made).expect("made");
    }
    std::os::unix::fs::symlink(outside.join("made.json"), here.join("workflow.json")).expect("a link");
    done(monohull(folder.path(), &here, &["init", "--small"]));
    fs::remove_dir_all(here.join(".cargo")).expect("it was made");
    std::os::unix::fs::symlink(&outside, here.join(".cargo")).expect("a link");
    let output = monohull(folder.path(), &here, &["init"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 0, "nothing is written outside");
}

#[test]
fn build_names_the_dependency_that_brings_std_and_the_remedy() {
    let folder = TempDir::new().expect("a folder");
    done(monohull(folder.path(), folder.path(), &["new", "--small", "hello"]));
    let hello = folder.path().join("hello");
    let manifest = fs::read_to_string(hello.join("Cargo.toml")).expect("a manifest");
    let with = |line: &str| {
        fs::write(hello.join("Cargo.toml"), manifest.replace("[dependencies]", &format!("[dependencies]\n{line}")))
    };
    with("indexmap = \"2\"").expect("written");
    let source = fs::read_to_string(hello.join("src/lib.rs")).expect("a source");
    let source = source
        .replace("println!", "let _ = indexmap::IndexMap::<u8, u8, std::hash::RandomState>::default();\n    println!");
    fs::write(hello.join("src/lib.rs"), source).expect("written");
    let output = monohull(folder.path(), &hello, &["build"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in [
        "error[E0152]: found duplicate lang item `panic_impl`",
        "monohull: the crate `indexmap` brings the real std along; a function has monohull-std in its place\n",
        "is compiled with its feature `std`\n    because hello takes the default features of indexmap\n",
    ] {
        assert!(said.contains(part), "{part} is missing:\n{said}");
    }
    // What it says to write is right.
    let line =
        said.split("To do, in Cargo.toml:\n").nth(1).and_then(|rest| rest.lines().next()).expect("a line").trim();
    assert_eq!(line, "indexmap = { version = \"2\", default-features = false }");
    with(line).expect("written");
    done(monohull(folder.path(), &hello, &["build"]));
}

/// The second crate compiles itself alone. Crates of one name in different folders stay apart, although they share the folder in which
/// cargo compiles.
#[test]
fn new_crates_run_and_share_what_they_rest_on() {
    let folder = TempDir::new().expect("a folder");
    for place in ["one", "two"] {
        let place = folder.path().join(place);
        fs::create_dir(&place).expect("a folder");
        done(monohull(folder.path(), &place, &["new", "--small", "hello"]));
    }
    let [one, two] = ["one", "two"].map(|place| folder.path().join(place).join("hello"));
    // Written before anything is built: a time stamp does not distinguish the two.
    let source = fs::read_to_string(two.join("src/lib.rs")).expect("a source").replace("Monohull", "the other");
    fs::write(two.join("src/lib.rs"), source).expect("written");
    let (_, said) = done(monohull(folder.path(), &one, &["build"]));
    assert!(said.contains("Compiling monohull-std"), "{said}");
    let (_, said) = done(monohull(folder.path(), &two, &["build"]));
    let compiled: Vec<&str> = said.lines().filter(|line| line.contains("Compiling")).collect();
    assert!(matches!(&compiled[..], [own] if own.contains("Compiling hello")), "{said}");
    for (crate_, text) in [(&one, "hello[0] | Hello from Monohull!\n"), (&two, "hello[0] | Hello from the other!\n")] {
        // Again: it must not be taken for the one that was built last.
        done(monohull(folder.path(), crate_, &["build"]));
        let (out, _) = done(monohull(folder.path(), crate_, &["run", "workflow.json"]));
        assert!(out.starts_with(text), "{out}");
    }
    let bytes = fs::metadata(one.join("target/image/libhello.so")).map_or(0, |file| file.len());
    assert!(bytes > 0, "the crate's own result is in its own folder");
    assert!(!one.join("target/image/deps").exists(), "what it rests on is not");
}

/// Debug information lies beside the image. What belongs to another build is not used, and that is said.
#[test]
fn a_panic_names_the_file_and_line_of_each_caller() {
    let folder = TempDir::new().expect("a folder");
    done(monohull(folder.path(), folder.path(), &["new", "--small", "hello"]));
    let hello = folder.path().join("hello");
    let source = "#[inline(never)]\nfn inner(items: &[u64], at: usize) -> u64 {\n    items[at]\n}\n\n\
                  #[std::main]\nfn main() {\n    let at = std::env::args().count() + 7;\n    \
                  println!(\"{}\", inner(&[1, 2, 3], at));\n}\n";
    fs::write(hello.join("src/lib.rs"), source).expect("written");
    done(monohull(folder.path(), &hello, &["build"]));
    let run = || monohull(folder.path(), &hello, &["run", "workflow.json"]);
    let failed = |output: Output| {
        assert_eq!(output.status.code(), Some(1), "the workflow fails");
        String::from_utf8(output.stderr).expect("text")
    };
    let lines = failed(run());
    let inner = lines.find("src/lib.rs:3:5\n  called by").unwrap_or_else(|| panic!("{lines}"));
    assert!(lines[inner..].contains("hello/src/lib.rs:9:"), "{lines}");

    let report = monohull(folder.path(), &hello, &["run", "--json", "workflow.json"]).stdout;
    let report: serde_json::Value = serde_json::from_slice(&report).expect("a report");
    let source = report["error"]["ip"]["source"].as_str().expect("a source line");
    assert!(source.ends_with("hello/src/lib.rs:3:5"), "{source}");

    let debug = hello.join("target/images/hello.debug");
    let first = fs::read(&debug).expect("debug information");
    let longer = format!("// Another build.\n{}", fs::read_to_string(hello.join("src/lib.rs")).expect("a source"));
    fs::write(hello.join("src/lib.rs"), longer).expect("written");
    done(monohull(folder.path(), &hello, &["build"]));
    assert!(failed(run()).contains("src/lib.rs:4:5\n  called by"));
    fs::write(&debug, first).expect("written");
    let lines = failed(run());
    assert!(lines.contains("it belongs to another build of"), "{lines}");
    assert!(!lines.contains("lib.rs:3:5\n  called by"), "{lines}");
    fs::remove_file(&debug).expect("removed");
    assert!(!failed(run()).contains("hello.debug"), "without debug information nothing is said");
}
