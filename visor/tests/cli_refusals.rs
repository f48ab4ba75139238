//! With `--json` a verb that does nothing says why in a document, too: programs that read it need not understand messages.

#[path = "support/program.rs"]
mod program;

use monohull_visor::report::escape::shown;
use program::{command, document, image, monohull};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::process::Output;
use tempfile::TempDir;

/// No server listens at this port.
const NOWHERE: &str = "http://127.0.0.1:1";

/// A folder with a workflow whose image is there, one whose image is not, and an empty state folder.
fn folder() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for (name, image) in [("w", image("no-op")), ("missing-image", "missing.so".into())] {
        let document = json!({
            "name": name,
            "functions": { "f": { "image": image } },
            "steps": [{ "name": "s", "function": "f" }],
        });
        fs::write(folder.path().join(name).with_extension("json"), document.to_string()).expect("written");
    }
    let started = monohull(folder.path(), &["run", "w.json", "--state", "state", "--id", "ended"]);
    assert!(started.status.success(), "{started:?}");
    folder
}

/// The refusal has this exit code, blames this party, and says the same in the document as on standard error.
#[track_caller]
fn check(output: &Output, exit: i32, blame: &str) -> Value {
    let shown = document(output);
    let error = &shown["error"];
    assert_eq!((output.status.code(), &shown["status"]), (Some(exit), &"refused".into()), "{output:?}");
    assert_eq!((&error["kind"], &error["blame"]), (&"refused".into(), &blame.into()), "{output:?}");
    let message = error["message"].as_str().expect("a message");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!message.is_empty() && said.contains(&format!("monohull: {message}")), "{message}: {said}");
    shown
}

#[test]
fn every_refusal_is_a_document() {
    let folder = folder();
    let refuses = |line: &str, exit, blame| {
        let arguments: Vec<_> = line.split(' ').chain(["--json"]).collect();
        check(&monohull(folder.path(), &arguments), exit, blame)
    };
    for (line, exit, blame) in [
        ("validate missing.json", 2, "invocation"),
        (&*format!("validate --server {NOWHERE} w.json"), 3, "host"),
        ("validate --server what w.json", 2, "invocation"),
        ("deploy missing.json", 2, "invocation"),
        (&*format!("deploy --server {NOWHERE} w.json"), 3, "host"),
        (&*format!("list --server {NOWHERE}"), 3, "host"),
        (&*format!("invoke w --server {NOWHERE} --input missing.txt"), 2, "invocation"),
        ("image ls missing.img", 2, "invocation"),
        ("image check missing.img", 2, "invocation"),
        ("checkpoint describe missing.checkpoint", 2, "invocation"),
        ("checkpoint verify missing.checkpoint", 2, "invocation"),
        ("checkpoint diff missing.checkpoint missing.checkpoint", 2, "invocation"),
        ("wake --state none", 3, "host"),
        ("ps --state none", 3, "host"),
        ("ps --state state --state-key missing.key", 2, "invocation"),
        ("show none --state state", 2, "invocation"),
        ("send none paid --state state", 2, "invocation"),
        ("send ended paid --state state --file missing.txt", 2, "invocation"),
        ("pause none --state state", 2, "invocation"),
        ("cancel ended --state state", 2, "invocation"),
        ("purge none --state state", 2, "invocation"),
        ("backup state --state state", 2, "invocation"),
        ("backup copy --state none", 3, "host"),
        ("fork none --state state", 2, "invocation"),
        ("fork ended --state state --id a,b,a", 2, "invocation"),
        ("checkpoints none --state state", 2, "invocation"),
        ("rewind ended --to 1 --state state", 2, "invocation"),
    ] {
        refuses(line, exit, blame);
    }
    // What a run has in its report is there as well.
    for (line, blame) in [
        ("run missing-image.json --state state", "workflow"),
        ("run missing-image.json", "workflow"),
        ("run missing.json --state state", "invocation"),
        ("run missing.json", "invocation"),
    ] {
        let shown = refuses(line, 2, blame);
        assert_eq!((&shown["steps"], &shown["output"]), (&json!([]), &json!({})), "{line}: {shown}");
    }
    // Without --json nothing goes to standard output.
    let plain = monohull(folder.path(), &["fork", "none", "--state", "state"]);
    assert_eq!((plain.status.code(), &*plain.stdout), (Some(2), &b""[..]));
}

/// A document is text. A path that is not has what is not text in it replaced.
#[test]
fn a_document_can_name_any_file() {
    let folder = folder();
    let name = OsStr::from_bytes(b"caf\xe9.json");
    fs::write(folder.path().join(name), "{}").expect("written");
    let run = |arguments: &[&str]| command(folder.path(), arguments).arg(name).output().expect("the program starts");
    let wrong = run(&["validate", "--json", "--file-only"]);
    let verdict = document(&wrong);
    assert_eq!((wrong.status.code(), &verdict["status"]), (Some(2), &"invalid".into()), "{verdict}");
    for file in [&verdict["file"], &verdict["mistakes"][0]["file"]] {
        assert_eq!(file, "caf\u{fffd}.json");
    }
    fs::copy(folder.path().join("w.json"), folder.path().join(name)).expect("copied");
    let right = run(&["validate", "--json", "--file-only"]);
    assert_eq!((right.status.code(), &document(&right)["file"]), (Some(0), &"caf\u{fffd}.json".into()));
    let checked = run(&["check", "--json"]);
    assert_eq!(document(&checked)["files"][0]["file"], "caf\u{fffd}.json");
    let made = monohull(folder.path(), &["image", "create", "disk.img", "--size", "1MiB"]);
    assert!(made.status.success(), "{made:?}");
    fs::rename(folder.path().join("disk.img"), folder.path().join(name)).expect("renamed");
    let disk = run(&["image", "check", "--json"]);
    assert_eq!(
        (disk.status.code(), &document(&disk)["image"]),
        (Some(0), &"caf\u{fffd}.json".into()),
        "{}",
        shown(name)
    );
}

/// `run` says what `validate` says of an image, with its place in the workflow file, and prints no report: nothing has run.
#[test]
fn images_that_cannot_be_loaded_are_refused_at_their_places() {
    let folder = TempDir::new().expect("a folder");
    let whole = fs::read(image("no-op")).expect("an image");
    fs::write(folder.path().join("short.so"), &whole[..3000]).expect("written");
    for (file, says, blame) in [
        ("gone.so", "No such file or directory (os error 2); `monohull build` makes one from a crate", "workflow"),
        ("gone.wasm", "No such file or directory", "workflow"),
        ("short.so", "is refused: the file ends at byte 0xbb8", "function"),
    ] {
        let text = format!(
            "{{ \"name\": \"w\",\n  \"functions\": {{ \"f\": {{ \"image\": {file:?} }} }},\n  \"steps\": [{{ \"name\": \"s\", \"function\": \"f\" }}] }}\n"
        );
        fs::write(folder.path().join("w.json"), text).expect("written");
        let validated = monohull(folder.path(), &["validate", "w.json"]);
        let line = String::from_utf8_lossy(&validated.stderr).lines().next().unwrap_or_default().to_owned();
        assert!(line.starts_with(&format!("w.json:2:34: the image {file}")) && line.contains(says), "{line}");
        let run = monohull(folder.path(), &["run", "w.json"]);
        assert_eq!((run.status.code(), &*run.stdout), (Some(2), &b""[..]), "{run:?}");
        assert_eq!(String::from_utf8_lossy(&run.stderr), format!("monohull: {line}\n"));
        check(&monohull(folder.path(), &["run", "w.json", "--json"]), 2, blame);
    }
    // A program in place of a workflow file has no place in one.
    let run = monohull(folder.path(), &["run", "short.so"]);
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.code() == Some(2) && said.starts_with("monohull: the image short.so is refused"), "{run:?}");
    // With a state folder, too, and there is nothing in it then.
    for file in ["short.so", "gone.so"] {
        let text = fs::read_to_string(folder.path().join("w.json")).expect("text").replace("short.so", file);
        fs::write(folder.path().join("w.json"), text).expect("written");
        let run = monohull(folder.path(), &["run", "w.json", "--state", "state"]);
        let said = String::from_utf8_lossy(&run.stderr);
        let begins = format!("monohull: w.json:2:34: the image {file}");
        assert!(run.status.code() == Some(2) && said.starts_with(&begins), "{run:?}");
        assert!(!folder.path().join("state").exists());
    }
}

/// What a server refuses before it needs its state folder leaves none behind.
#[test]
fn a_server_that_is_refused_makes_no_state_folder() {
    let folder = TempDir::new().expect("a folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    for (options, says) in [
        (&["--listen", &address][..], "another program listens there. `--listen ADDRESS:0` takes a port that is free"),
        (&["--listen", "127.0.0.1:0", "--grants", "none.json"], "cannot read the grants file none.json"),
        (&["--listen", "localhost:7070"], "expected a numeric address, such as 127.0.0.1:7070"),
        (&["--listen", "7070"], "expected ADDRESS:PORT, unix:PATH or systemd"),
    ] {
        let serve = monohull(folder.path(), &[&["serve", "--state", "state"], options].concat());
        let said = String::from_utf8_lossy(&serve.stderr);
        assert!(serve.status.code() == Some(2) && said.contains(says), "{options:?}: {serve:?}");
        assert!(!folder.path().join("state").exists(), "{options:?}");
    }
}

/// No program listens there, and no other port is free.
#[test]
fn a_socket_in_the_place_of_a_file_is_refused_with_that_reason() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("file"), "precious").expect("written");
    let serve = monohull(folder.path(), &["serve", "--state", "state", "--listen", "unix:file"]);
    let says = "unix:file: Address already in use (os error 98); a file that is no socket has this name\n";
    assert!(serve.status.code() == Some(2) && String::from_utf8_lossy(&serve.stderr).ends_with(says), "{serve:?}");
    assert_eq!(fs::read_to_string(folder.path().join("file")).expect("a file"), "precious");
}

/// A workflow with two outputs, both of which are its input.
fn doubled(folder: &TempDir) {
    let copy =
        |name: &str, from: &str| json!({ "name": name, "function": "echo", "args": { "from": from, "to": name } });
    let document = json!({
        "name": "two",
        "functions": { "echo": { "image": image("echo") } },
        "steps": [copy("a", "in"), copy("b", "in")],
        "inputs": ["in", "more"],
        "outputs": ["a", "b"],
    });
    fs::write(folder.path().join("two.json"), document.to_string()).expect("written");
}

/// What would be lost is refused before anything runs.
#[test]
fn what_would_be_read_or_written_twice_is_refused() {
    let folder = TempDir::new().expect("a folder");
    doubled(&folder);
    fs::write(folder.path().join("in"), "text").expect("written");
    let refuses = |line: &str, text: &str| {
        let output = monohull(folder.path(), &line.split(' ').collect::<Vec<_>>());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(text), "{line}: {output:?}");
    };
    let inputs = "run two.json --input in=in --input more=in";
    for other in ["out", "./out", "../{}/out"] {
        let name = folder.path().file_name().and_then(OsStr::to_str).expect("a name");
        let other = other.replace("{}", name);
        refuses(&format!("{inputs} --output a=out --output b={other}"), "slot `a` is written to the same file");
        refuses(&format!("{inputs} --output a=out --output b={other} --state state"), "the same file");
    }
    assert!(!folder.path().join("out").exists());
    for line in ["run two.json --input in=- --input more=-", "run two.json --input in=- --input more=in --event x=-"] {
        refuses(line, "standard input (`-`) is given twice");
    }
    refuses("run two.json --input in=- --input more=in --watch", "standard input is read once");
    refuses(&format!("{inputs} --output a=/dev/stdout --json"), "standard output has the report's document");
    refuses(&format!("invoke two --server {NOWHERE} --input in=- --input more=-"), "given twice");
    refuses(&format!("list --server {NOWHERE} --ca in"), "--ca is for servers with https://");
    refuses("validate two.json --ca in", "--ca is for --server");
    refuses("resume some.checkpoint --token-file in", "--token-file is for --server");
}
