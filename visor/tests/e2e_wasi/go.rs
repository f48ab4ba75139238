//! The package for programs in Go (`wasi/lib/go`): slots, the instance, durable calls; and the program that `monohull new --lang go` writes.

use super::durable::compiled;
use super::program::{document, monohull};
use super::support::words;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

/// The program in Go of `wasi/guests/go`, compiled once.
fn image() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| compiled("tour-go"))
}

/// A folder with it and a workflow of one step that does this.
fn folder(act: &str) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("app.so"), image()).expect("written");
    let document = json!({
        "name": "go",
        "functions": { "app": { "image": "app.so" } },
        "steps": [{ "name": "app", "function": "app", "args": { "act": act } }],
    });
    fs::write(folder.path().join("w.json"), document.to_string()).expect("written");
    folder
}

fn run(folder: &Path) -> Value {
    document(&monohull(folder, &["run", "w.json", "--json"]))
}

/// What the step has printed.
fn lines(report: &Value) -> Vec<&str> {
    let lines = report["steps"][0]["instances"][0]["lines"].as_array().into_iter().flatten();
    lines.filter_map(|line| line["text"].as_str()).collect()
}

/// Runs a command on the state folder, and gives what the step has printed meanwhile.
#[track_caller]
fn says(folder: &Path, args: &[&str], code: i32) -> Vec<String> {
    let output = monohull(folder, &[args, &["--state", "state"]].concat());
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    words(&output.stdout).lines().filter_map(|line| line.strip_prefix("app[0] | ").map(str::to_owned)).collect()
}

const BEGIN: [&str; 5] = ["run", "w.json", "--id", "one", "--detach"];

#[test]
fn slots_are_filled_and_taken() {
    let folder = folder("slots");
    let report = run(folder.path());
    let expected =
        ["empty: true", "moved: true", "taken: true", "small: [1 2 3]", "nothing: 0", "0 of 1 attempt 1 app"];
    assert_eq!(lines(&report), expected, "{report:#}");
}

#[test]
fn events_are_waited_for_without_a_process() {
    let folder = folder("wait");
    let path = folder.path();
    assert_eq!(says(path, &BEGIN, 4), ["waits"]);
    says(path, &["send", "one", "paid", "--data", "r-4711"], 0);
    assert_eq!(says(path, &["wake"], 0), ["paid: r-4711"]);
    says(path, &["send", "one", "cancelled", "--data", "late"], 0);
    assert_eq!(says(path, &["wake"], 0), ["cancelled: late", "another: 1"]);
}

/// The pauses are sleeps: the longer one is without a process.
#[test]
fn an_effect_is_tried_again_with_its_key() {
    let folder = folder("once");
    let mut said = says(folder.path(), &BEGIN, 4);
    said.extend(says(folder.path(), &["wake", "--wait", "--skip-time"], 0));
    assert_eq!(said, ["1 one/app/0/pay/0", "2 one/app/0/pay/0", "3 one/app/0/pay/0", "one/app/0/pay/1", "refused"]);
}

#[test]
fn an_invocation_is_taken_back_to_a_save_point() {
    let folder = folder("save");
    let path = folder.path();
    assert_eq!(says(path, &BEGIN, 4), ["before", "went on"]);
    says(path, &["rewind", "one", "--to", "here"], 0);
    assert_eq!(says(path, &["wake", "--wait", "--skip-time"], 0), ["came back", "done"]);
}

#[test]
fn refusals_are_errors_of_go() {
    let folder = folder("refusals");
    let report = run(folder.path());
    let expected = [
        "event true the event's name is empty",
        "send true",
        "start true",
        "perform true",
        "slot true no instance is left that could fill slot `none`",
        r#"names true event "paid\nlate": a name has no control characters"#,
        "output true",
    ];
    assert_eq!(lines(&report), expected, "{report:#}");
}

/// With the compiler that `cargo xtask build` has fetched, and what that has compiled of Go's library.
#[test]
fn what_new_writes_is_compiled_and_runs() {
    let folder = TempDir::new().expect("a folder");
    let made = monohull(folder.path(), &["new", "--lang", "go", "hello"]);
    assert!(made.status.success(), "{}", words(&made.stderr));
    let here = folder.path().join("hello");
    let main = fs::read_to_string(here.join("main.go")).expect("a program");
    let uses = main.replace("import \"fmt\"", "import (\n\t\"fmt\"\n\t\"monohull\"\n)");
    let uses = uses.replace("func main() {", "func main() {\n\tfmt.Println(monohull.Count())");
    fs::write(here.join("main.go"), uses).expect("written");
    let fetched = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/wasi-go/bookworm");
    let tree = fetched.join("tree/usr/lib/go-1.23");
    let mut go = Command::new(tree.join("bin/go"));
    go.env_clear().envs([("GOOS", "wasip1"), ("GOARCH", "wasm"), ("GOTOOLCHAIN", "local"), ("GOPROXY", "off")]);
    go.envs([("GOENV", "off"), ("GOFLAGS", "-trimpath"), ("PATH", "/usr/bin:/bin")]).env("GOROOT", &tree);
    go.env("GOCACHE", fetched.join("cache")).env("GOPATH", folder.path().join("path"));
    let built = go.current_dir(&here).args(["build", "-o", "app.wasm"]).output().expect("Go, which the build fetches");
    assert!(built.status.success(), "{}", words(&built.stderr));
    let report = document(&monohull(&here, &["run", "workflow.json", "--json"]));
    assert_eq!(lines(&report), ["1", "Hello from Monohull!"], "{report:#}");
}
