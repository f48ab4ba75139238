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

/// A folder with a program in another language stays one: what is there says which language it is.
#[test]
fn init_keeps_to_the_language_of_what_is_there() {
    let folder = TempDir::new().expect("a folder");
    for (lang, file, next) in [
        ("js", "app.js", "Next:\n  monohull run workflow.json\n"),
        ("python", "app.py", "Next:\n  monohull run workflow.json\n"),
        ("c", "main.c", "Next:\n  monohull cc -O2 main.c -o app.so && monohull run workflow.json\n"),
        ("go", "go.mod", "Next:\n  GOOS=wasip1 GOARCH=wasm go build -o app.wasm && monohull run workflow.json\n"),
    ] {
        let new = ["new", "--lang", lang, lang];
        let here = folder.path().join(lang);
        done(monohull(folder.path(), folder.path(), &new));
        let names = shared_files(&here);
        let again = monohull(folder.path(), folder.path(), &new);
        let said = String::from_utf8_lossy(&again.stderr);
        assert!(said.contains(&format!("{lang} exists already; `monohull init --lang {lang}` in it")), "{said}");
        assert_eq!(done(monohull(folder.path(), &here, &["init"])).0, "Nothing is missing here.\n");
        let whole = fs::read_to_string(here.join("workflow.json")).expect("a workflow");
        fs::remove_file(here.join("workflow.json")).expect("removed");
        let (said, _) = done(monohull(folder.path(), &here, &["init"]));
        assert_eq!(said, format!("Wrote workflow.json. {next}"));
        assert_eq!(fs::read_to_string(here.join("workflow.json")).expect("a workflow"), whole);
        assert_eq!(shared_files(&here).len(), names.len(), "{lang}: no crate is made of it");
        // An empty folder becomes what is asked for.
        let empty = folder.path().join(format!("empty-{lang}"));
        fs::create_dir(&empty).expect("a folder");
        done(monohull(folder.path(), &empty, &["init", "--lang", lang, "--name", lang]));
        assert!(empty.join(file).is_file() && !empty.join("Cargo.toml").exists());
        assert_eq!(fs::read_to_string(empty.join("workflow.json")).expect("a workflow"), whole);
    }
    assert_eq!(monohull(folder.path(), &folder.path().join("js"), &["init", "--name", "a b"]).status.code(), Some(2));
}

/// What a new function needs and this machine lacks is said at once, and not by what fails then.
#[test]
fn new_says_what_is_missing_for_a_language() {
    let folder = TempDir::new().expect("a folder");
    let new = |options: &[&str], name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.current_dir(folder.path()).arg("new").args(options).arg(name);
        command.env("PATH", folder.path()).env("MONOHULL_PYTHON", folder.path()).env_remove("CARGO");
        for named in ["RUSTC", "MONOHULL_CC"] {
            command.env_remove(named);
        }
        done(command.output().expect("monohull starts")).1
    };
    for (options, name, says) in [
        (&[][..], "rust", "monohull: cargo: not found; functions in Rust cannot be built; install Rust"),
        (&["--wasi"], "rust-wasi", "rustup target add wasm32-wasip1"),
        (&["--lang", "c"], "c", "monohull: C compiler: not found; functions in C cannot be built"),
        (&["--lang", "c", "--wasi"], "c-wasi", "monohull: clang and wasi-libc: clang was not found;"),
        (&["--lang", "go"], "go", "monohull: go: not found; functions in Go cannot be built"),
        (&["--lang", "python"], "python", "cargo xtask build --python\n"),
        (&["--lang", "python", "--wasi"], "python-wasi", "cargo xtask build --python-wasi\n"),
    ] {
        let said = new(options, name);
        assert!(said.contains(says), "{name}: {said}");
    }
    assert_eq!(new(&["--lang", "js"], "js"), "");
    // What is there is not mentioned.
    let go = folder.path().join("go-here");
    fs::create_dir(&go).expect("a folder");
    fs::write(go.join("go"), "").expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.current_dir(folder.path()).args(["new", "--lang", "go", "there"]).env("PATH", &go);
    assert_eq!(done(command.output().expect("monohull starts")).1, "");
}

/// What is no crate may be a program in another language, and then there is another command for it.
#[test]
fn build_and_run_say_what_goes_with_another_folder() {
    let folder = TempDir::new().expect("a folder");
    for lang in ["js", "go", "c"] {
        done(monohull(folder.path(), folder.path(), &["new", "--lang", lang, lang]));
    }
    fs::create_dir(folder.path().join("empty")).expect("a folder");
    for (within, arguments, says) in [
        (
            "",
            &["build", "js"][..],
            "js is no crate: it has no Cargo.toml; it needs no build: `monohull run js/workflow.json`",
        ),
        ("js", &["build"], "`monohull run workflow.json` runs its workflow"),
        ("", &["build", "go"], "`cd go && GOOS=wasip1 GOARCH=wasm go build -o app.wasm` builds what is in it"),
        ("go", &["build", "main.go"], "main.go is a source file and no crate: `GOOS=wasip1 GOARCH=wasm go build"),
        ("c", &["build"], "`monohull cc -O2 main.c -o app.so` builds what is in it"),
        ("empty", &["build"], ". is no crate: it has no Cargo.toml; `monohull new NAME` makes one"),
        ("", &["run", "js"], "cannot read the workflow file js: is a directory; did you mean js/workflow.json?"),
        (
            "",
            &["new", "std"],
            "`std` is no name for a function: expected 1 to 63 letters, digits, `-` and `_`, a letter first, no keyword, and not `std`",
        ),
    ] {
        let output = monohull(folder.path(), &folder.path().join(within), arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(says), "{arguments:?}: {said}");
    }
    let bare = monohull(folder.path(), folder.path(), &["run", "empty"]);
    assert!(!String::from_utf8_lossy(&bare.stderr).contains("did you mean"), "{bare:?}");
}

/// A program over Rust's own std that asks for slots and the like. `monohull build` says what is missing, and `monohull init` writes it.
#[test]
fn a_program_over_the_real_std_uses_the_crate_monohull() {
    const GREETS: &str =
        "#[monohull::main]\nfn main(name: String) {\n    println!(\"{name} {}\", monohull::instance().count);\n}\n";
    let folder = TempDir::new().expect("a folder");
    done(monohull(folder.path(), folder.path(), &["new", "hello"]));
    let hello = folder.path().join("hello");
    let manifest = fs::read_to_string(hello.join("Cargo.toml")).expect("a manifest");
    let asks =
        format!("[dependencies]\nmonohull = {{ version = \"{}\", features = [\"std\"] }}", env!("CARGO_PKG_VERSION"));
    fs::write(hello.join("Cargo.toml"), manifest.replace("[dependencies]", &asks)).expect("written");
    fs::write(hello.join("src/main.rs"), GREETS).expect("written");
    let build = || {
        let mut build = Command::new(env!("CARGO_BIN_EXE_monohull"));
        build.current_dir(&hello).arg("build").env("XDG_CACHE_HOME", folder.path()).env("CARGO_NET_OFFLINE", "true");
        build.output().expect("monohull starts")
    };
    let refused = build();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("`monohull init` in the crate's folder"), "{said}");
    let (said, _) = done(monohull(folder.path(), &hello, &["init"]));
    assert!(said.starts_with("Wrote .cargo/config.toml, .cargo/.gitignore."), "{said}");
    let (_, said) = done(build());
    assert!(!said.contains("warning"), "{said}");
    let workflow = fs::read_to_string(hello.join("workflow.json")).expect("a workflow");
    let workflow =
        workflow.replace("\"function\": \"hello\"", "\"function\": \"hello\", \"args\": { \"name\": \"Ada\" }");
    fs::write(hello.join("workflow.json"), workflow).expect("written");
    let (out, _) = done(monohull(folder.path(), &hello, &["run", "workflow.json"]));
    assert!(out.starts_with("hello[0] | Ada 1\n"), "{out}");
    // A file of the user's own stays, and what it lacks is said.
    fs::write(hello.join(".cargo/config.toml"), "[net]\noffline = true\n").expect("written");
    let (said, noted) = done(monohull(folder.path(), &hello, &["init"]));
    assert_eq!(said, "Nothing is missing here.\n");
    assert!(noted.contains("[patch.crates-io]\nmonohull = { path = \"/"), "{noted}");
    assert_eq!(fs::read_to_string(hello.join(".cargo/config.toml")).expect("a file"), "[net]\noffline = true\n");
}

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

/// A crate with a dependency that has std among its default features.
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
    assert!(!said.contains("E0152") && !said.contains("lang item"), "{said}");
    for part in [
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

/// The crate itself links std, or a crate that it uses has a panic handler, over either std: the compiler's words for both are of no use
/// to a function's author.
#[test]
fn what_cannot_be_linked_together_is_said_in_words() {
    let folder = TempDir::new().expect("a folder");
    let here = folder.path();
    done(monohull(here, here, &["new", "--small", "small"]));
    done(monohull(here, here, &["new", "plain"]));
    fs::create_dir_all(here.join("halts/src")).expect("made");
    fs::write(here.join("halts/Cargo.toml"), "[package]\nname = \"halts\"\nedition = \"2024\"\n").expect("written");
    const HALTS: &str =
        "#![no_std]\n#[panic_handler]\nfn halt(_: &core::panic::PanicInfo<'_>) -> ! {\n    loop {}\n}\n";
    fs::write(here.join("halts/src/lib.rs"), HALTS).expect("written");
    let change = |path: &str, from: &str, to: &str| {
        let text = fs::read_to_string(here.join(path)).expect("a file");
        assert!(text.contains(from), "{text}");
        fs::write(here.join(path), text.replace(from, to)).expect("written");
    };
    let refused = |name: &str, words: &[&str]| {
        let output = monohull(here, &here.join(name), &["build"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && !said.contains("E0152"), "{said}");
        assert!(words.iter().all(|words| said.contains(words)), "{said}");
    };
    for name in ["small", "plain"] {
        change(&format!("{name}/Cargo.toml"), "[dependencies]", "[dependencies]\nhalts = { path = \"../halts\" }");
    }
    let source = fs::read_to_string(here.join("small/src/lib.rs")).expect("a source");
    fs::write(here.join("small/src/lib.rs"), format!("use halts as _;\n{source}")).expect("written");
    let way = "it is used by the way of small → halts\n  To do: do without the crate";
    refused("small", &["monohull: the crate `halts` has a panic handler of its own, and so has monohull-std", way]);
    change("plain/src/main.rs", "fn main()", "use halts as _;\n\nfn main()");
    refused("plain", &["monohull: the crate `halts` has a panic handler of its own, and so has Rust's own std"]);

    // By another name, monohull-std stands beside std.
    change("small/Cargo.toml", "std = { package = \"monohull-std\", ", "monohull-std = { ");
    const BESIDE: &str = "#[monohull_std::main]\nfn main() {\n    println!(\"{:?}\", monohull_std::env::args());\n}\n";
    fs::write(here.join("small/src/lib.rs"), BESIDE).expect("written");
    refused("small", &["monohull: the crate `small` uses Rust's own std beside monohull-std", "To do: `#![no_std]`"]);
    // What it says to write is right.
    const ALONE: &str = "#![no_std]\nuse monohull_std::prelude::*;\n\n";
    fs::write(here.join("small/src/lib.rs"), format!("{ALONE}{BESIDE}")).expect("written");
    done(monohull(here, &here.join("small"), &["build"]));
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
    const END: &str = "\n#[used]\n#[unsafe(link_section = \".fini_array\")]\nstatic END: extern \"C\" fn() = end;\n\n\
                       extern \"C\" fn end() {\n    println!(\"the end\");\n}\n";
    fs::write(two.join("src/lib.rs"), source + END).expect("written");
    let (_, said) = done(monohull(folder.path(), &one, &["build"]));
    assert!(said.contains("Compiling monohull-std"), "{said}");
    let (_, said) = done(monohull(folder.path(), &two, &["build"]));
    let compiled: Vec<&str> = said.lines().filter(|line| line.contains("Compiling")).collect();
    assert!(matches!(&compiled[..], [own] if own.contains("Compiling hello")), "{said}");
    for (crate_, text) in
        [(&one, "hello[0] | Hello from Monohull!\n"), (&two, "hello[0] | Hello from the other!\nhello[0] | the end\n")]
    {
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

/// `cargo test` in a crate, with a target folder that the tests here share.
fn cargo_test(crate_: &Path) -> Output {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["test", "--quiet", "--lib"])
        .current_dir(crate_)
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("unit-tests"))
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo starts")
}

/// What a program does with itself, and what only a workflow has.
const UNIT_TESTS: &str = r#"
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant, SystemTime};

#[std::main]
fn main() {
    println!("{}", words("to be or not to be").len());
}

fn words(text: &str) -> HashMap<&str, usize> {
    text.split_whitespace().fold(HashMap::new(), |mut all, word| {
        *all.entry(word).or_default() += 1;
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, fs, io, net, random, slot, thread};

    #[test]
    fn collections_and_output() {
        println!("standard output\n{:?}", words("a b a"));
        eprint!("standard error");
        assert_eq!((words("a b a")["a"], words("").len()), (2, 0));
    }

    #[test]
    fn threads_locks_and_channels() {
        thread_local!(static MINE: std::cell::Cell<u32> = const { std::cell::Cell::new(1) });
        let (sender, receiver) = mpsc::channel();
        let all = Arc::new(Mutex::new(0));
        let threads: Vec<_> = (0..8u32)
            .map(|index| {
                let (sender, all) = (sender.clone(), all.clone());
                thread::Builder::new().name(format!("t{index}")).spawn(move || {
                    MINE.set(MINE.get() + index);
                    *all.lock().unwrap() += MINE.get();
                    sender.send(thread::current().name().map(String::from)).unwrap();
                    index
                })
            })
            .collect();
        let sum: u32 = threads.into_iter().map(|thread| thread.unwrap().join().unwrap()).sum();
        assert_eq!((sum, *all.lock().unwrap(), MINE.get()), (28, 36, 1));
        drop(sender);
        assert_eq!(receiver.iter().count(), 8);
        let mut parts = vec![1, 2, 3, 4];
        thread::scope(|scope| parts.iter_mut().for_each(|part| _ = scope.spawn(|| *part *= 2)));
        assert_eq!(parts, [2, 4, 6, 8]);
    }

    #[test]
    fn waits_and_clocks() {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = pair.clone();
        let begin = Instant::now();
        let waker = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            *theirs.0.lock().unwrap() = true;
            theirs.1.notify_all();
        });
        let set = pair.1.wait_while(pair.0.lock().unwrap(), |set| !*set).unwrap();
        assert!(*set && begin.elapsed() >= Duration::from_millis(20));
        drop(set);
        let late = pair.1.wait_timeout(pair.0.lock().unwrap(), Duration::from_millis(5)).unwrap().1;
        assert!(late.timed_out());
        waker.join().unwrap();
        assert!(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() > 1_700_000_000);
        assert!(thread::available_parallelism().unwrap().get() >= 1);
    }

    #[test]
    fn random_bytes_are_random() {
        let (mut one, mut other) = ([0; 32], [0; 32]);
        random::fill(&mut one);
        random::fill(&mut other);
        assert!(one != other && one != [0; 32]);
    }

    #[test]
    fn what_a_workflow_gives_is_not_there() {
        assert_eq!(env::args().count(), 1);
        assert_eq!(env::vars().count(), 0);
        let error = fs::read("/data/file").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
        assert_eq!(net::TcpStream::connect("127.0.0.1:1").unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    #[should_panic(expected = "hostcall SLOT_TAKE (38): this program runs on the host")]
    fn a_slot_is_not_there() {
        let _ = slot::SlotString::from_slot("text");
    }

    #[test]
    #[should_panic(expected = "no such word")]
    fn a_failed_assertion_fails_its_test_alone() {
        assert!(words("a").contains_key("b"), "no such word");
    }
}
"#;

#[test]
fn unit_tests_of_a_small_crate_run_on_the_host() {
    let folder = TempDir::new().expect("a folder");
    done(monohull(folder.path(), folder.path(), &["new", "--small", "hello"]));
    let hello = folder.path().join("hello");
    let (said, _) = done(cargo_test(&hello));
    assert!(said.contains("test result: ok. 1 passed; 0 failed"), "as it is made: {said}");
    fs::write(hello.join("src/lib.rs"), UNIT_TESTS).expect("written");
    let (said, _) = done(cargo_test(&hello));
    assert!(said.contains("test result: ok. 7 passed; 0 failed"), "{said}");
    assert!(!said.contains("standard output"), "what a test prints is kept from the terminal: {said}");
    // A test that fails is reported, with what it has printed.
    let wrong = UNIT_TESTS.replace("(2, 0));", "(3, 0));");
    fs::write(hello.join("src/lib.rs"), wrong).expect("written");
    let output = cargo_test(&hello);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(101), "{said}");
    for part in ["standard output\n", "left: (2, 0)", "6 passed; 1 failed"] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
}

#[test]
fn functions_in_other_languages_run_as_they_are_made() {
    let folder = TempDir::new().expect("a folder");
    for (lang, next) in [
        ("c", "monohull cc -O2 main.c -o app.so && "),
        ("go", "GOOS=wasip1 GOARCH=wasm go build -o app.wasm && "),
        ("js", ""),
    ] {
        let (said, _) = done(monohull(folder.path(), folder.path(), &["new", "--lang", lang, lang]));
        assert_eq!(said, format!("Created {lang}. Next:\n  cd {lang} && {next}monohull run workflow.json\n"));
        let here = folder.path().join(lang);
        match lang {
            "c" => drop(done(monohull(folder.path(), &here, &["cc", "-O2", "main.c", "-o", "app.so"]))),
            // Its compiler is the user's. `e2e_wasi` compiles and runs such a program.
            "go" => {
                let read = |file: &str| fs::read_to_string(here.join(file)).expect("a file");
                assert!(read("go.mod").starts_with("module example.com/go\n\ngo 1.21\n"), "{}", read("go.mod"));
                assert!(read("monohull/slots.go").contains("\npackage monohull\n"), "{}", read("monohull/slots.go"));
                assert!(read("main.go").starts_with("package main\n"), "{}", read("main.go"));
                assert!(read("workflow.json").contains("\"app.wasm\""), "{}", read("workflow.json"));
                continue;
            }
            _ => {}
        }
        let (said, noted) = done(monohull(folder.path(), &here, &["run", "workflow.json"]));
        assert!(format!("{said}{noted}").contains("Hello from Monohull!"), "{lang}: {said}{noted}");
        assert_eq!(monohull(folder.path(), folder.path(), &["new", "--lang", lang, lang]).status.code(), Some(2));
    }
    for wrong in [["--lang", "cobol", "other"], ["--lang=js", "--small", "other"], ["--wasi", "--small", "other"]] {
        let wrong = monohull(folder.path(), folder.path(), &[&["new"], &wrong[..]].concat());
        assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    }
    assert!(!folder.path().join("other").exists());
}

#[test]
fn functions_for_webassembly_run_as_they_are_made() {
    let folder = TempDir::new().expect("a folder");
    let new = |arguments: &[&str], next: &str| {
        let name = *arguments.last().expect("a name");
        let (said, _) = done(monohull(folder.path(), folder.path(), &[&["new", "--wasi"], arguments].concat()));
        assert_eq!(said, format!("Created {name}. Next:\n  cd {name} && {next}monohull run workflow.json\n"));
        folder.path().join(name)
    };
    let here = new(&["a-crate"], "cargo build --release --target wasm32-wasip1 && ");
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--offline", "--release", "--target", "wasm32-wasip1"]);
    let built = build.current_dir(&here).env_remove("CARGO_TARGET_DIR").output().expect("cargo starts");
    assert!(built.status.success(), "{built:?}");
    let (said, noted) = done(monohull(folder.path(), &here, &["run", "workflow.json"]));
    assert!(format!("{said}{noted}").contains("Hello from Monohull!"), "{said}{noted}");
    // The compiler is the user's. `e2e_wasi` runs a program of C.
    let here = new(&["--lang", "c", "in-c"], "clang --target=wasm32-wasi -O2 main.c -o app.wasm && ");
    assert!(fs::read_to_string(here.join("workflow.json")).expect("a file").contains("\"app.wasm\""));
    // The interpreters take minutes to compile. `python_programs` and `python_wasi` run programs like these.
    let here = new(&["--lang", "python", "in-python"], "");
    let workflow = fs::read_to_string(here.join("workflow.json")).expect("a file");
    assert!(workflow.contains("\"app.py\"") && workflow.contains("\"target\": \"wasi\""), "{workflow}");
    let (said, _) = done(monohull(folder.path(), folder.path(), &["new", "--lang", "python", "native"]));
    assert_eq!(said, "Created native. Next:\n  cd native && monohull run workflow.json\n");
    let workflow = fs::read_to_string(folder.path().join("native/workflow.json")).expect("a file");
    assert!(workflow.contains("\"app.py\"") && !workflow.contains("target"), "{workflow}");
}
