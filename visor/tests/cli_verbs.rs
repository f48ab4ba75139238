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

#[test]
fn every_verb_has_help_with_an_example_and_the_exit_codes() {
    let folder = files();
    for verb in [
        &[][..],
        &["run"],
        &["validate"],
        &["new"],
        &["build"],
        &["doctor"],
        &["schema"],
        &["serve"],
        &["deploy"],
        &["undeploy"],
        &["invoke"],
        &["list"],
        &["logs"],
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

    let output = monohull(folder.path(), &["validate", "good.json"]);
    assert_eq!((code(&output), text(&output.stderr).as_str()), (0, ""));
    let missing = monohull(folder.path(), &["validate", "none.json"]);
    assert_eq!(code(&missing), 2);
    assert!(text(&missing.stderr).contains("cannot read the workflow file none.json"));
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
    let output = monohull(folder.path(), &["validate", "--json", "good.json"]);
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
        "networks of workflows' own (TUN)",
        "way out of such a network (nf_tables)",
        "control groups",
        "address space limit",
        "module mm",
        "module fatfs",
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
    assert_eq!(schema, monohull::workflow::schema());
}

#[test]
fn new_makes_a_crate_that_stands_alone() {
    let folder = files();
    let output = monohull(folder.path(), &["new", "hello"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let read = |file: &str| fs::read_to_string(folder.path().join("hello").join(file)).expect(file);
    assert!(read("Cargo.toml").contains("name = \"hello\"") && read("Cargo.toml").contains("[workspace]"));
    assert!(!read("Cargo.toml").contains("crate-type"));
    assert!(read("src/lib.rs").contains("#[monohull::main]"));
    assert_eq!(read(".gitignore"), "/target\n");
    let output = monohull(folder.path(), &["validate", "hello/workflow.json"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));

    let again = monohull(folder.path(), &["new", "hello"]);
    assert_eq!(code(&again), 2);
    assert!(text(&again.stderr).contains("hello exists already"));
    for name in ["a b", "../x", "fn", "1st", ""] {
        let output = monohull(folder.path(), &["new", name]);
        assert_eq!(code(&output), 2, "{name}");
        assert!(text(&output.stderr).contains("is no name for a function"), "{}", text(&output.stderr));
    }
    let shim = monohull(folder.path(), &["new", "other", "--std", "nowhere"]);
    assert_eq!(code(&shim), 2);
    assert!(!folder.path().join("other").exists());
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
    bare(folder.path(), "bare-one", "#[unsafe(no_mangle)] pub extern \"C\" fn monohull_start() -> u32 { 7 }\n");
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
