//! The command line as a user meets it: help, exit codes, messages, JSON.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn monohull(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_monohull"))
        .current_dir(folder)
        // Where cargo builds these tests is not where the crates made here should build.
        .env_remove("CARGO_TARGET_DIR")
        .args(args)
        .output()
        .expect("monohull starts")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const GOOD: &str = r#"{"name":"w","functions":{"f":{"image":"f.so"}},"steps":[{"name":"s","function":"f"}],
"inputs":["text"],"outputs":["counts"]}"#;
const BAD: &str = "{\"name\":\"w\",\n\"functions\":{\"f\":{\"image\":\"f.so\"}},\n\"steps\":[{\"name\":\"s\",\"function\":\"g\",\"instances\":0}]}";

fn files() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("good.json"), GOOD).expect("written");
    fs::write(folder.path().join("bad.json"), BAD).expect("written");
    folder
}

/// Limits under which a signal ends programs without a message.
#[test]
fn a_limit_of_the_host_that_is_too_low_is_reported() {
    let folder = files();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let no_op = root.join("workflows/no-op.json");
    let no_op = no_op.to_str().expect("a path in UTF-8");
    let commands: [&[&str]; 4] =
        [&["run", no_op], &["validate", no_op], &["doctor"], &["serve", "--listen", "127.0.0.1:0", "--state", "state"]];
    let under = |limit: &str, command: &[&str]| {
        let script = format!("ulimit {limit}; exec \"$@\"");
        let mut shell = Command::new("timeout");
        shell.args(["60", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_monohull")]).args(command);
        shell.current_dir(folder.path()).output().expect("it starts")
    };
    for command in commands {
        // With still less the program does not come to its first instruction.
        for limit in ["-s 96", "-s 512"] {
            let output = under(limit, command);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{limit} {command:?}: {:?} {said}", output.status);
            assert!(said.contains("raise the limit with `ulimit -s 8192`"), "{limit} {command:?}: {said}");
        }
    }
    // One that may be raised is raised.
    let output = under("-S -s 64", commands[1]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    // Images are loaded into files of their own, and a result is written to one.
    for limit in ["-f 0", "-f 8"] {
        let output = under(limit, commands[0]);
        let said = [text(&output.stdout), text(&output.stderr)].concat();
        assert!(output.status.code().is_some_and(|code| [1, 3].contains(&code)), "{limit}: {:?} {said}", output.status);
        assert!(said.contains("File too large") && !said.contains("panicked"), "{limit}: {said}");
    }
    let output = under("-f 0", commands[3]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{:?} {said}", output.status);
    assert!(said.contains("File too large"), "{said}");
}

#[test]
fn the_help_of_serve_shows_every_default() {
    let folder = files();
    let help = text(&monohull(folder.path(), &["serve", "--help"]).stdout);
    let options = help.split_once("Options:").expect("options").1.split("\n      --").skip(1);
    let options: Vec<_> =
        options.filter(|option| option.lines().next().is_some_and(|line| line.contains('<'))).collect();
    assert!(options.len() >= 20, "{help}");
    for option in options {
        // Lines are broken where the terminal ends.
        let option = option.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(option.contains("[default: ") || option.contains("by default"), "{option}");
    }
    for shown in
        ["[default: 64]", "[default: 256]", "[default: 1m]", "[default: 25s]", "[default: 256MiB]", "[default: 1h]"]
    {
        assert!(help.contains(shown), "{shown} in {help}");
    }
}

#[test]
fn every_verb_has_help_with_an_example_and_the_exit_codes() {
    let folder = files();
    for verb in [
        &[][..],
        &["run"],
        &["validate"],
        &["new"],
        &["init"],
        &["build"],
        &["doctor"],
        &["schema"],
        &["completions"],
        &["man"],
        &["serve"],
        &["deploy"],
        &["undeploy"],
        &["invoke"],
        &["list"],
        &["logs"],
        &["resume"],
    ] {
        let output = monohull(folder.path(), &[verb, &["--help"]].concat());
        let help = text(&output.stdout);
        assert_eq!(code(&output), 0, "{verb:?}");
        assert!(help.contains("Example:\n  monohull "), "{verb:?}: {help}");
        assert!(help.contains("Exit codes:\n  0  done\n  1  the workflow failed"), "{verb:?}: {help}");
    }
}

#[test]
fn wrong_usage_is_2() {
    let folder = files();
    for args in [
        &["fly"][..],
        &["run"],
        &["run", "good.json", "--isolation", "magic"],
        &["run", "good.json", "--load", "some"],
        &["run", "good.json", "--input", "text"],
        &["run", "good.json", "--input", "=path"],
        &["run", "good.json", "--set", "s=1"],
        &["run", "good.json", "--set", ".a=1"],
        &["run", "good.json", "--set", ":instances=1"],
        &["run", "good.json", "--set", "s:=1"],
        &["validate"],
        &["new"],
    ] {
        assert_eq!(code(&monohull(folder.path(), args)), 2, "{args:?}");
    }
}

#[test]
fn validate_reports_all_mistakes() {
    let folder = files();
    let output = monohull(folder.path(), &["validate", "bad.json"]);
    assert_eq!(code(&output), 2);
    let message = text(&output.stderr);
    assert!(
        message.contains("bad.json:3:33: there is no function `g` (expected a name from `functions`)"),
        "{message}"
    );
    assert!(message.contains("bad.json:3:49: `instances` is 0"), "{message}");
    assert!(message.contains("bad.json: 2 mistakes; the workflow file is at fault"), "{message}");

    let output = monohull(folder.path(), &["validate", "--file-only", "good.json"]);
    assert_eq!((code(&output), text(&output.stderr).as_str()), (0, ""));
    let missing = monohull(folder.path(), &["validate", "none.json"]);
    assert_eq!(code(&missing), 2);
    assert!(text(&missing.stderr).contains("cannot read the workflow file none.json"));
}

/// What a workflow file refers to is looked at on this host, and reported where the reference stands.
#[test]
fn validate_looks_at_what_a_file_refers_to() {
    const WORKFLOW: &str = r#"{
  "name": "w",
  "functions": { "f": { "image": "f.so" } },
  "steps": [{ "name": "s", "function": "f" }],
  "files": [
    { "at": "/disk", "image": "disk.img", "access": "read" },
    { "at": "/folder", "directory": "folder", "access": "read" }
  ],
  "inputs": [{ "slot": "text", "path": "text.txt" }]
}"#;
    let folder = files();
    let path = |name: &str| folder.path().join(name);
    let validate = || {
        let output = monohull(folder.path(), &["validate", "w.json"]);
        (code(&output), text(&output.stderr))
    };
    fs::write(path("w.json"), WORKFLOW).expect("written");
    let (code, message) = validate();
    assert_eq!(code, 2, "{message}");
    for part in [
        "w.json:3:34: the image f.so: No such file",
        "`monohull build` makes one",
        "w.json:6:5: disk.img: No such file",
        "w.json:7:5: folder: No such file",
        "w.json:9:40: warning: the input file text.txt: No such file",
        "w.json: 3 mistakes",
    ] {
        assert!(message.contains(part), "{part} is missing:\n{message}");
    }

    // There, but not what they should be.
    for name in ["f.so", "disk.img", "folder", "text.txt"] {
        fs::write(path(name), "text").expect("written");
    }
    let (code, message) = validate();
    assert_eq!(code, 2, "{message}");
    for part in [
        "w.json:3:34: the image f.so is refused: this is not an ELF file",
        "w.json:6:5: disk.img: ",
        "w.json:7:5: folder: ",
    ] {
        assert!(message.contains(part), "{part} is missing:\n{message}");
    }

    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/no-op.so");
    fs::copy(image, path("f.so")).expect("images are built first: run `cargo xtask test`");
    fs::remove_file(path("folder")).and_then(|()| fs::create_dir(path("folder"))).expect("a folder");
    let made = monohull(folder.path(), &["image", "create", "disk.img", "--size", "1MiB", "--force"]);
    assert!(made.status.success(), "{made:?}");
    assert_eq!(validate(), (0, String::new()));
}

#[test]
fn validate_speaks_json() {
    let folder = files();
    let output = monohull(folder.path(), &["validate", "--json", "bad.json"]);
    assert_eq!(code(&output), 2);
    let verdict: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(verdict["status"], "invalid");
    let error = &verdict["mistakes"][1];
    assert_eq!(error["message"], "there is no function `g`");
    assert_eq!((&error["file"], &error["line"]), (&"bad.json".into(), &3.into()));
    assert_eq!((&error["level"], &error["blame"]), (&"error".into(), &"workflow".into()));
    let output = monohull(folder.path(), &["validate", "--json", "--file-only", "good.json"]);
    let verdict: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((code(&output), &verdict["status"]), (0, &"valid".into()));
}

/// A file of 100 000 mistakes does not give 22 MB of messages, on any way.
#[test]
fn of_very_many_mistakes_the_first_hundred_are_shown() {
    let folder = files();
    let steps: Vec<_> = (0..10_000).map(|step| format!("{{\"name\":\"s{step}\",\"function\":\"g\"}}")).collect();
    let many = format!("{{\"name\":\"w\",\"functions\":{{}},\"steps\":[{}]}}", steps.join(",\n"));
    fs::write(folder.path().join("many.json"), many).expect("written");
    for verb in ["validate", "run", "deploy"] {
        let output = monohull(folder.path(), &[verb, "many.json"]);
        let message = text(&output.stderr);
        assert_eq!(code(&output), 2, "{verb}");
        assert_eq!(message.lines().filter(|line| line.contains("there is no function")).count(), 100, "{verb}");
        assert!(message.contains("many.json:100:") && message.contains("… and 9900 more"), "{verb}: {message}");
    }
    let output = monohull(folder.path(), &["validate", "--json", "many.json"]);
    let verdict: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((verdict["mistakes"].as_array().map(Vec::len), &verdict["more"]), (Some(100), &9900.into()));
}

#[test]
fn run_checks_names_before_it_starts() {
    let folder = files();
    for (args, message) in [
        (&["--input", "txt=x"][..], "--input: the workflow has no input slot `txt`, did you mean `text`?"),
        (&["--input", "text=x", "--input", "text=y"], "--input: slot `text` is given twice"),
        (&["--input", "text=x", "--output", "count=x"], "no output slot `count`, did you mean `counts`?"),
        (&["--input", "text=x", "--set", "t.a=1"], "--set: the workflow has no step `t`"),
        (&["--input", "text=x", "--set", "s.a=1"], "--set: step `s` has no argument `a` in the workflow file"),
        (&["--input", "text=x", "--set", "s.instances=8"], "; `s:instances=VALUE` sets the field of the step"),
        (&["--input", "text=x", "--set", "s:instances=0"], "--set: s:instances:1:1: `instances` is 0"),
        (&[], "the input slot `text` needs a file: --input text=PATH"),
    ] {
        let output = monohull(folder.path(), &[&["run", "good.json"], args].concat());
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(text(&output.stderr).contains(message), "{args:?}: {}", text(&output.stderr));
    }
    let output = monohull(folder.path(), &["run", "bad.json"]);
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("bad.json:3:49: `instances` is 0"), "{}", text(&output.stderr));
}

#[test]
fn run_speaks_json_also_when_it_refuses() {
    let folder = files();
    for (file, blame) in [("bad.json", "workflow"), ("good.json", "invocation")] {
        let output = monohull(folder.path(), &["run", "--json", file]);
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((code(&output), &document["error"]["blame"]), (2, &blame.into()));
        assert_eq!(document["status"], "refused");
    }
}

#[test]
fn protection_keys_are_had_or_refused() {
    let folder = files();
    let doctor: Value = serde_json::from_slice(&monohull(folder.path(), &["doctor", "--json"]).stdout).expect("JSON");
    let output = monohull(folder.path(), &["run", "good.json", "--input", "text=good.json", "--isolation", "mpk"]);
    if doctor["isolation"] == "process" {
        assert_eq!(code(&output), 3);
        assert!(text(&output.stderr).contains("--isolation auto or process runs without"), "{}", text(&output.stderr));
    } else {
        assert_eq!(doctor["isolation"], "mpk");
        assert!(!text(&output.stderr).contains("protection keys"), "{}", text(&output.stderr));
    }
}

#[test]
fn doctor_names_what_follows_and_the_remedy() {
    let folder = files();
    let output = monohull(folder.path(), &["doctor", "--json"]);
    let diagnosis: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = diagnosis["findings"].as_array().expect("findings");
    let missing = findings.iter().any(|finding| finding["state"] == "missing");
    assert_eq!(code(&output), if missing { 3 } else { 0 });
    assert_eq!(diagnosis["status"], if missing { "not-ready" } else { "ready" });
    for finding in findings.iter().filter(|finding| finding["state"] != "ok") {
        assert!(finding["consequence"].is_string() && finding["remedy"].is_string(), "{finding}");
    }
    let names: Vec<_> = findings.iter().filter_map(|finding| finding["name"].as_str()).collect();
    for name in [
        "kernel",
        "protection keys",
        "syscall user dispatch",
        "seccomp",
        "Landlock",
        "userfaultfd",
        "written pages (PAGEMAP_SCAN)",
        "networks of workflows' own (TUN)",
        "way out of such a network (nf_tables)",
        "control groups",
        "address space limit",
        "module mm",
        "module fatfs",
        "cargo",
        "C compiler",
        "Rust's target wasm32-wasip1",
        "clang and wasi-libc",
        "go",
        "Python",
        "Python for WebAssembly",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    let table = text(&monohull(folder.path(), &["doctor"]).stdout);
    assert!(table.contains("protection keys") && table.contains("Isolation `auto` means"), "{table}");
}

#[test]
fn schema_prints_the_published_one() {
    let folder = files();
    let output = monohull(folder.path(), &["schema"]);
    let schema: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(schema, monohull_visor::workflow::schema());
}

#[test]
fn an_image_is_made_of_a_folder_or_in_a_size() {
    let folder = files();
    let output = monohull(folder.path(), &["image", "create", "disk.img"]);
    let usage = "Usage: monohull image create [--from <DIRECTORY>] [--size <SIZE>]";
    assert!(code(&output) == 2 && text(&output.stderr).contains(usage), "{}", text(&output.stderr));
}

/// Verbs that pass their arguments on say what they are for. With other arguments `--help` is the compiler's.
#[test]
fn verbs_for_compilers_have_help() {
    let folder = files();
    for (verb, says) in [
        ("cc", "Compile and link C as a function image"),
        ("c++", "Compile and link C++ as a function image"),
        ("ld", "Link objects as a function image"),
    ] {
        let output = monohull(folder.path(), &[verb, "--help"]);
        let said = text(&output.stdout);
        assert!(code(&output) == 0 && said.starts_with(says) && said.ends_with("is paused\n"), "{said}");
        assert!(said.contains("gets all arguments, and says which there are: `c"), "{said}");
        assert!(said.contains(&format!("Usage: monohull {verb} <ARGUMENT>...")), "{said}");
    }
    let output = monohull(folder.path(), &["cc", "--help", "-v"]);
    assert!(!text(&output.stdout).contains("function image"), "{}", text(&output.stdout));
}

#[test]
fn new_makes_a_crate_that_stands_alone() {
    let folder = files();
    let output = monohull(folder.path(), &["new", "hello"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let read = |file: &str| fs::read_to_string(folder.path().join("hello").join(file)).expect(file);
    assert!(read("Cargo.toml").contains("name = \"hello\"") && read("Cargo.toml").contains("[workspace]"));
    assert!(!read("Cargo.toml").contains("crate-type") && !read("Cargo.toml").contains("monohull"));
    assert!(read("src/main.rs").starts_with("fn main() {"));
    assert_eq!(read(".gitignore"), "/target\n");
    let output = monohull(folder.path(), &["validate", "--file-only", "hello/workflow.json"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));

    let output = monohull(folder.path(), &["new", "--small", "small"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let read = |file: &str| fs::read_to_string(folder.path().join("small").join(file)).expect(file);
    assert!(read("Cargo.toml").contains("monohull-std") && read("src/lib.rs").contains("#[std::main]"));

    let again = monohull(folder.path(), &["new", "hello"]);
    assert_eq!(code(&again), 2);
    assert!(text(&again.stderr).contains("hello exists already"));
    for name in ["a b", "../x", "fn", "1st", ""] {
        let output = monohull(folder.path(), &["new", name]);
        assert_eq!(code(&output), 2, "{name}");
        assert!(text(&output.stderr).contains("is no name for a function"), "{}", text(&output.stderr));
    }
    let shim = monohull(folder.path(), &["new", "--small", "other", "--std-path", "nowhere"]);
    assert_eq!(code(&shim), 2);
    assert!(!folder.path().join("other").exists());
}

/// A run follows each change of the file, also after one that it refused.
#[test]
fn watch_runs_again_when_the_file_changes() {
    use std::io::{BufRead, BufReader};
    let folder = files();
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/no-op.so");
    let workflow = |name: &str| {
        let text = serde_json::json!({
            "name": name, "functions": { "f": { "image": image } }, "steps": [{ "name": "s", "function": "f" }]
        });
        fs::write(folder.path().join("w.json"), text.to_string()).expect("written");
    };
    workflow("first");
    let mut child = Command::new(env!("CARGO_BIN_EXE_monohull"))
        .current_dir(folder.path())
        .args(["run", "w.json", "--watch"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("monohull starts");
    let mut out = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut errors = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut until = |wanted: &str| assert!(out.by_ref().map_while(Result::ok).any(|line| line == wanted), "{wanted}");
    let mut noted =
        |wanted: &str| assert!(errors.by_ref().map_while(Result::ok).any(|line| line == wanted), "{wanted}");
    until("workflow    first done");
    noted("watching w.json and its images");
    workflow("second");
    until("workflow    second done");
    noted("w.json has changed");
    noted("watching w.json and its images");
    fs::write(folder.path().join("w.json"), "{").expect("written");
    noted("watching w.json and its images");
    workflow("third");
    until("workflow    third done");
    child.kill().and_then(|()| child.wait()).expect("an end");
}

/// Made from the same description as the help: each verb is in them.
#[test]
fn completions_and_manual_pages_have_every_verb() {
    const VERBS: [&str; 6] = ["run", "serve", "image", "check", "init", "completions"];
    let folder = files();
    for shell in ["bash", "zsh", "fish"] {
        let output = monohull(folder.path(), &["completions", shell]);
        let script = text(&output.stdout);
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        assert!(script.contains("monohull") && VERBS.iter().all(|verb| script.contains(verb)), "{shell}: {script}");
    }
    let bash = Command::new("bash").args(["-n"]).stdin(std::process::Stdio::piped()).spawn();
    if let Ok(mut bash) = bash {
        let script = monohull(folder.path(), &["completions", "bash"]).stdout;
        std::io::Write::write_all(&mut bash.stdin.take().expect("piped"), &script).expect("read");
        assert!(bash.wait().expect("an end").success(), "bash does not understand its completions");
    }
    let output = monohull(folder.path(), &["man"]);
    let page = text(&output.stdout);
    assert!(page.contains(".TH monohull 1") && VERBS.iter().all(|verb| page.contains(verb)), "{page}");
    let output = monohull(folder.path(), &["man", "--out", "man1"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    for verb in VERBS {
        let page = fs::read_to_string(folder.path().join(format!("man1/monohull-{verb}.1"))).expect("a page");
        assert!(page.contains(".SH NAME") && page.contains("Exit codes"), "{page}");
    }
}

#[test]
fn build_names_what_is_missing() {
    let folder = files();
    let output = monohull(folder.path(), &["build", "nowhere"]);
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("nowhere is no crate: it has no Cargo.toml"), "{}", text(&output.stderr));
    fs::create_dir_all(folder.path().join("broken/src")).expect("a folder");
    let manifest = "[package]\nname = \"broken\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(folder.path().join("broken/Cargo.toml"), manifest).expect("written");
    fs::write(folder.path().join("broken/src/lib.rs"), "fn oops( {").expect("written");
    let output = monohull(folder.path(), &["build", "broken"]);
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("the crate is at fault"), "{}", text(&output.stderr));
}

/// A library that needs nothing at all, so that building it needs no network and little time.
const BARE: &str = r#"#![no_std]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
"#;

fn bare(folder: &Path, name: &str, more: &str) {
    fs::create_dir_all(folder.join(name).join("src")).expect("a folder");
    let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n");
    fs::write(folder.join(name).join("Cargo.toml"), manifest).expect("written");
    fs::write(folder.join(name).join("src/lib.rs"), format!("{BARE}{more}")).expect("written");
}

#[test]
fn build_links_checks_and_installs_an_image() {
    let folder = files();
    let version = monohull_abi::ABI_VERSION;
    let source = format!(
        r#"#[unsafe(no_mangle)] pub static MONOHULL_IMAGE: [u64; 2] = [u64::from_le_bytes(*b"MONOHULL"), {version}];
#[unsafe(no_mangle)] pub extern "C" fn monohull_start() -> u32 {{ 7 }}
"#
    );
    bare(folder.path(), "bare-one", &source);
    let output = monohull(folder.path(), &["build", "bare-one"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let image = folder.path().join("bare-one/target/images/bare-one.so");
    assert_eq!(Path::new(text(&output.stdout).trim()), image.canonicalize().expect("the image"));
    assert!(fs::read(image).expect("the image").starts_with(b"\x7fELF"));
    let output = monohull(&folder.path().join("bare-one"), &["build", "--out", "here"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(folder.path().join("bare-one/here/bare-one.so").is_file());
}

#[test]
fn build_refuses_what_the_checker_refuses() {
    let folder = files();
    let call =
        "#[unsafe(no_mangle)] pub extern \"C\" fn monohull_start() { unsafe { core::arch::asm!(\"wrpkru\") } }\n";
    bare(folder.path(), "key-writer", call);
    let output = monohull(folder.path(), &["build", "key-writer"]);
    assert_eq!(code(&output), 2, "{}", text(&output.stderr));
    let message = text(&output.stderr);
    assert!(message.contains("bytes 0f 01 ef") && message.contains("remedy:"), "{message}");
    assert!(message.contains("the function is at fault"), "{message}");
    assert!(!folder.path().join("key-writer/target/images/key-writer.so").exists());
}
