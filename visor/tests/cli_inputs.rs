//! What `monohull run` is given as input: files, pipes, nothing on purpose; and what it refuses to read.

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

struct Done {
    code: i32,
    out: String,
    err: String,
}

/// A folder with a workflow that gives back its input.
fn folder(limits: Value) -> TempDir {
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/echo.so");
    let document = json!({
        "name": "echo",
        "functions": { "echo": { "image": image } },
        "steps": [{ "name": "echo", "function": "echo" }],
        "inputs": ["in"],
        "outputs": ["out"],
        "limits": limits
    });
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("echo.json"), document.to_string()).expect("written");
    folder
}

fn monohull(folder: &TempDir, arguments: &[&str], stdin: &[u8]) -> Done {
    let mut child = Command::new(env!("CARGO_BIN_EXE_monohull"))
        .current_dir(folder.path())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("monohull starts");
    // It need not read it.
    let _ = child.stdin.take().expect("piped").write_all(stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Done { code: output.status.code().expect("a code"), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs the workflow with this input, and gives the exit code and the report.
fn run(folder: &TempDir, input: &str, stdin: &[u8]) -> (i32, Value) {
    let done = monohull(folder, &["run", "echo.json", "--json", "--input", input], stdin);
    (done.code, serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {} {}", done.out, done.err)))
}

#[test]
fn files_pipes_and_nothing_on_purpose() {
    let folder = folder(json!({}));
    std::fs::write(folder.path().join("file"), "from a file").expect("written");
    std::fs::write(folder.path().join("empty"), "").expect("written");
    let large = "x".repeat(300_000);
    for (input, stdin, expected) in [
        ("in=file", "", "from a file"),
        ("in=empty", "", ""),
        ("in=", "", ""),
        ("in=-", &*large, &*large),
        ("in=/dev/stdin", "piped", "piped"),
    ] {
        let (code, report) = run(&folder, input, stdin.as_bytes());
        assert_eq!((code, &report["output"]["out"]["text"]), (0, &expected.into()), "{input}: {}", report["error"]);
    }
}

/// A path without a slot is for the only one there is.
#[test]
fn a_path_alone_is_for_the_only_slot() {
    let folder = folder(json!({}));
    std::fs::write(folder.path().join("text"), "alone").expect("written");
    let (code, report) = run(&folder, "text", b"");
    assert_eq!((code, &report["output"]["out"]["text"]), (0, &"alone".into()), "{report:#}");
    let (code, report) = run(&folder, "-", b"piped");
    assert_eq!((code, &report["output"]["out"]["text"]), (0, &"piped".into()), "{report:#}");
    let done = monohull(&folder, &["run", "echo.json", "--input", "text", "--output", "out.txt"], b"");
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(std::fs::read_to_string(folder.path().join("out.txt")).expect("the output"), "alone");
    let twice = monohull(&folder, &["run", "echo.json", "--input", "text", "--input", "in=text"], b"");
    assert!(twice.code == 2 && twice.err.contains("slot `in` is given twice"), "{}", twice.err);
    let text = std::fs::read_to_string(folder.path().join("echo.json")).expect("a file");
    for (slots, says) in [
        ("[\"in\",\"more\"]", "--input text: expected SLOT=PATH; the workflow has the input slots `in`, `more`"),
        ("[]", "--input text: the workflow has no input slot"),
    ] {
        std::fs::write(folder.path().join("other.json"), text.replace("[\"in\"]", slots)).expect("written");
        let refused = monohull(&folder, &["run", "other.json", "--input", "text"], b"");
        assert!(refused.code == 2 && refused.err.contains(says), "{}", refused.err);
    }
}

/// The invocation is wrong, so nothing runs, and there is no table of steps that were cancelled.
#[test]
fn what_cannot_be_read_is_a_wrong_invocation() {
    let folder = folder(json!({}));
    for (input, why) in [
        ("in=nowhere", "input slot `in`: nowhere cannot be read: No such file"),
        ("in=/dev/zero", "input slot `in`: /dev/zero cannot be read: it is a device"),
        ("in=.", "input slot `in`: . cannot be read: is a directory"),
    ] {
        let done = monohull(&folder, &["run", "echo.json", "--input", input], b"");
        assert_eq!((done.code, &*done.out), (2, ""), "{input}: {}", done.err);
        assert!(done.err.starts_with(&format!("monohull: {why}")), "{}", done.err);
        let (code, report) = run(&folder, input, b"");
        assert_eq!((code, &report["status"], &report["error"]["blame"]), (2, &"refused".into(), &"invocation".into()));
    }
    let endless = monohull(&folder, &["run", "/dev/zero"], b"");
    assert_eq!(endless.code, 2);
    assert!(endless.err.contains("cannot read the workflow file /dev/zero: it is a device"), "{}", endless.err);
    for verb in ["validate", "deploy", "check"] {
        let endless = monohull(&folder, &[verb, "/dev/zero"], b"");
        assert!(endless.code == 2 && endless.err.contains("it is a device"), "{verb}: {}", endless.err);
    }
}

#[test]
fn a_pipe_is_read_up_to_what_slots_may_hold() {
    let folder = folder(json!({ "slots": "1MiB" }));
    let done = monohull(&folder, &["run", "echo.json", "--input", "in=-"], &vec![b'x'; (1 << 20) + 1]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("- cannot be read: it has more than 1048576 bytes, the limit"), "{}", done.err);
}

#[test]
fn the_workflows_timeout_covers_a_pipe_that_stays_silent() {
    let folder = folder(json!({ "timeout": "200ms" }));
    mkfifo(&folder.path().join("pipe"), Mode::S_IRWXU).expect("a pipe");
    let begin = Instant::now();
    let (code, report) = run(&folder, "in=pipe", b"");
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert_eq!((code, &report["error"]["kind"]), (1, &"timeout".into()), "{}", report["error"]);
    assert_eq!(report["error"]["message"], "input slot `in`: pipe did not end in time");
}

/// The same for one that is kept: nothing of it is there afterwards.
#[test]
fn the_timeout_covers_a_silent_pipe_of_a_durable_invocation() {
    let folder = folder(json!({ "timeout": "200ms" }));
    mkfifo(&folder.path().join("pipe"), Mode::S_IRWXU).expect("a pipe");
    let mut child = Command::new(env!("CARGO_BIN_EXE_monohull"))
        .current_dir(folder.path())
        .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .args(["run", "echo.json", "--json", "--input", "in=pipe", "--state", "state", "--id", "one"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("monohull starts");
    // Without a timeout it would wait for ever.
    let begin = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if begin.elapsed() > Duration::from_secs(60) {
            child.kill().expect("it is there");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("it has ended");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let error = &report["error"];
    assert_eq!(
        (output.status.code(), &report["status"], &error["kind"]),
        (Some(1), &"refused".into(), &"timeout".into())
    );
    assert_eq!(error["message"], "input slot `in`: pipe did not end in time");
    let shown = monohull(&folder, &["show", "one", "--state", "state"], b"");
    assert!(shown.code == 2 && shown.err.contains("there is no invocation `one`"), "{}", shown.err);
}

/// A pipe that ends late leaves the functions less time. That is not the host's fault.
#[test]
fn time_that_inputs_took_is_the_workflows() {
    let folder = folder(json!({ "timeout": "600ms" }));
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/long-calls.so");
    let document = json!({
        "name": "echo",
        "functions": { "loop": { "image": image } },
        "steps": [{ "name": "loop", "function": "loop", "args": { "call": "yield" } }],
        "inputs": ["in"],
        "unread": "ignore",
        "limits": { "timeout": "600ms" }
    });
    std::fs::write(folder.path().join("echo.json"), document.to_string()).expect("written");
    let pipe = folder.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
    let writer = std::thread::spawn(move || {
        let mut pipe = std::fs::File::create(pipe).expect("a reader");
        std::thread::sleep(Duration::from_millis(300));
        pipe.write_all(b"late").expect("written");
    });
    let (code, report) = run(&folder, "in=pipe", b"");
    writer.join().expect("the writer");
    let error = &report["error"];
    assert_eq!((code, &error["kind"], &error["blame"]), (1, &"timeout".into(), &"workflow".into()), "{error}");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("had to wait for its inputs"), "{message}");
}

/// Images, checkpoints and grants are read at many places or more than once. A pipe in their place is refused at once, and not waited for.
#[test]
fn what_is_no_input_is_a_regular_file() {
    let folder = folder(json!({}));
    let at = |name: &str| folder.path().join(name);
    mkfifo(&at("pipe"), Mode::S_IRWXU).expect("a pipe");
    let document: Value = serde_json::from_slice(&std::fs::read(at("echo.json")).expect("it is there")).expect("JSON");
    let write = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut changed = document.clone();
        change(&mut changed);
        std::fs::write(at(name), changed.to_string()).expect("written");
    };
    write("piped-image.json", &|w| w["functions"]["echo"]["image"] = "pipe".into());
    write("endless-image.json", &|w| w["functions"]["echo"]["image"] = "/dev/zero".into());
    let mount = json!([{ "at": "/disk", "image": "pipe" }]);
    write("piped-disk.json", &|w| w["files"] = mount.clone());
    write("written-disk.json", &|w| {
        w["files"] = mount.clone();
        w["files"][0]["access"] = "write".into();
    });
    // The user's key, without which no checkpoint is looked at.
    assert_eq!(in_time(&folder, &["run", "echo.json", "--input", "in=", "--state", "state"]).code, 0);
    for (arguments, kind) in [
        (&["run", "piped-image.json", "--input", "in="][..], "a pipe"),
        (&["run", "piped-image.json", "--input", "in=", "--state", "state"], "a pipe"),
        (&["run", "endless-image.json", "--input", "in="], "a device"),
        (&["run", "piped-disk.json", "--input", "in="], "a pipe"),
        (&["run", "written-disk.json", "--input", "in="], "a pipe"),
        (&["validate", "piped-image.json"], "a pipe"),
        (&["validate", "endless-image.json"], "a device"),
        (&["validate", "piped-disk.json"], "a pipe"),
        (&["resume", "pipe"], "a pipe"),
        (&["resume", "/dev/zero"], "a device"),
        (&["checkpoint", "describe", "pipe"], "a pipe"),
        (&["image", "ls", "pipe"], "a pipe"),
        (&["image", "check", "pipe", "--repair"], "a pipe"),
        (&["image", "cp", "pipe:/file", "copy"], "a pipe"),
        (&["checkpoint", "verify", "pipe"], "a pipe"),
        (&["checkpoint", "diff", "/dev/zero", "pipe"], "a device"),
        (&["serve", "--state", "server", "--listen", "127.0.0.1:0", "--grants", "pipe"], "a pipe"),
        (&["serve", "--state", "server", "--listen", "127.0.0.1:0", "--grants", "/dev/zero"], "a device"),
    ] {
        let done = in_time(&folder, arguments);
        assert!(matches!(done.code, 1..=3), "{arguments:?}: {} {}", done.code, done.err);
        assert!(done.err.contains(&format!("it is no regular file but {kind}")), "{arguments:?}: {}", done.err);
    }
}

/// What a durable invocation keeps of its inputs has the bounds of any run.
#[test]
fn inputs_that_are_kept_have_the_same_bounds() {
    let folder = folder(json!({ "slots": "1MiB" }));
    std::fs::write(folder.path().join("long"), vec![b'x'; (1 << 20) + 1]).expect("written");
    for (input, why) in [
        ("in=/dev/zero", "input slot `in`: /dev/zero cannot be read: it is a device"),
        ("in=long", "input slot `in`: long cannot be read: it has more than 1048576 bytes, the limit"),
        ("in=nowhere", "input slot `in`: nowhere cannot be read: No such file"),
    ] {
        let done = in_time(&folder, &["run", "echo.json", "--state", "state", "--input", input]);
        assert!(done.code == 2 && done.err.contains(why), "{input}: {} {}", done.code, done.err);
    }
    let kept = std::fs::read_dir(folder.path().join("state/files")).expect("a folder").count();
    assert_eq!(kept, 1, "the image alone; nothing is left of a file that was read in part");
}

/// Runs the program. One that waits for what never comes is ended, with a code of its own.
fn in_time(folder: &TempDir, arguments: &[&str]) -> Done {
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_monohull")]).args(arguments).current_dir(folder.path());
    command.env("XDG_STATE_HOME", folder.path().join("state-home")).env_remove("STATE_DIRECTORY");
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Done { code: output.status.code().expect("a code"), out: text(output.stdout), err: text(output.stderr) }
}
