//! What an operator grants to served workflows: that, to those that are named, and nothing else.

mod serve_support;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use serve_support::verbs::refused_grants;
use serve_support::{Server, StateFolder, eventually, single};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder with what can be granted, and something beside it that cannot be reached.
struct Host {
    folder: TempDir,
}

impl Host {
    fn new() -> Host {
        let folder = TempDir::new().expect("a folder");
        fs::create_dir(folder.path().join("data")).expect("made");
        fs::write(folder.path().join("data/file"), "granted").expect("written");
        fs::write(folder.path().join("outside"), "SECRET").expect("written");
        std::os::unix::fs::symlink("../outside", folder.path().join("data/link")).expect("a link");
        Host { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the grants file, and gives its path.
    fn grants(&self, grants: &Value) -> String {
        let path = self.at("grants.json");
        fs::write(&path, grants.to_string()).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    fn serve(&self, grants: &Value) -> Server {
        Server::start_with(&["--grants", &self.grants(grants)])
    }
}

/// A workflow in which a function tries this on files.
fn tries(name: &str, files: &Value, tries: &Value) -> Value {
    single(name, "file-probe", &json!({ "files": files, "args": { "tries": tries } }))
}

/// What the function of the last invocation printed.
fn printed(server: &Server, workflow: &str) -> Vec<String> {
    let answer = server.post(&format!("/invoke/{workflow}"), b"");
    let logs = format!("/invocations/{}/logs?format=json", answer.headers["x-invocation-id"]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = server.get(&logs).expect(200).text();
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["text"].as_str().expect("a line").to_owned())
        .collect()
}

/// The message of a document that is refused.
#[track_caller]
fn refused(server: &Server, document: &Value) -> String {
    let path = format!("/workflows/{}", document["name"].as_str().expect("a name"));
    let error = server.ask("PUT", &path, document.to_string().as_bytes()).error(422, "invalid", "workflow");
    error["message"].as_str().expect("a message").to_owned()
}

#[test]
fn a_granted_directory_is_what_it_is_granted_for_and_has_no_way_out() {
    let host = Host::new();
    let server = host.serve(&json!({ "files": {
        "read": { "directory": "data", "workflows": ["reader", "writer"] },
        "write": { "directory": host.at("data"), "access": "write", "workflows": ["writer"] },
    }}));
    server.put_example("file-probe");
    // The positive control: it is there.
    let mounted = json!([{ "at": "/d", "grant": "read" }]);
    let attempts = json!([
        ["read", "/d/file"],
        ["read", "/d/link"],
        ["read", "/d/../outside"],
        ["fill", "/d/new", "4"],
        ["remove", "/d/file"],
    ]);
    server.put_workflow(&tries("reader", &mounted, &attempts));
    let said = printed(&server, "reader");
    assert!(said[0].contains("granted"), "{said:?}");
    assert!(said.iter().all(|line| !line.contains("SECRET")), "{said:?}");
    assert!(!host.at("data/new").exists() && host.at("data/file").exists(), "{said:?}");

    // A workflow that is not named gets nothing. Neither does one that is not registered, under any name.
    let other = tries("other", &mounted, &attempts);
    let message = refused(&server, &other);
    assert!(
        message.contains("other.json:1:")
            && message.contains("grants the files `read`, but not to the workflow `other`"),
        "{message}"
    );
    let unregistered = json!({ "workflow": tries("reader", &mounted, &attempts) });
    server.post("/run", unregistered.to_string().as_bytes()).error(422, "invalid", "workflow");
    // Nor does a right that is not granted come with a name that is.
    let greedy = tries("reader", &json!([{ "at": "/d", "grant": "read", "access": "write" }]), &attempts);
    assert!(refused(&server, &greedy).contains("are granted for reading only"));
    let unknown = tries("reader", &json!([{ "at": "/d", "grant": "raed" }]), &attempts);
    let message = refused(&server, &unknown);
    assert!(message.contains("the server grants no files called `raed`") && message.contains("`read`"), "{message}");
    // A literal in the workflow is no grant either.
    let literal = tries("reader", &json!([{ "at": "/d", "directory": host.at("data") }]), &attempts);
    assert!(refused(&server, &literal).contains("`grant`"), "what to do instead is said");

    // Who may write asks for it.
    let writing = |access: Value| {
        tries("writer", &json!([{ "at": "/d", "grant": "write", "access": access }]), &json!([["fill", "/d/new", "4"]]))
    };
    server.put_workflow(&writing(json!("read")));
    printed(&server, "writer");
    assert!(!host.at("data/new").exists(), "it has not asked for the right to write");
    server.put_workflow(&writing(json!("write")));
    printed(&server, "writer");
    assert_eq!(fs::read(host.at("data/new")).expect("written").len(), 4);
}

#[test]
fn a_granted_image_is_what_it_is_granted_for() {
    let host = Host::new();
    let image = host.at("disk.img");
    let made = Command::new(env!("CARGO_BIN_EXE_monohull"))
        .args(["image", "create"])
        .arg(&image)
        .arg("--from")
        .arg(host.at("data"))
        .output();
    assert!(made.expect("monohull starts").status.success());
    let server = host.serve(&json!({ "files": { "disk": { "image": "disk.img", "workflows": ["*"] } } }));
    server.put_example("file-probe");
    let before = fs::read(&image).expect("readable");
    server.put_workflow(&tries(
        "w",
        &json!([{ "at": "/d", "grant": "disk" }]),
        &json!([["read", "/d/file"], ["fill", "/d/new", "4"]]),
    ));
    let said = printed(&server, "w");
    assert!(said[0].contains("granted"), "{said:?}");
    assert!(fs::read(&image).expect("readable") == before, "what it changed was a copy");
    let greedy = tries("w", &json!([{ "at": "/d", "grant": "disk", "access": "write" }]), &json!([]));
    assert!(refused(&server, &greedy).contains("are granted for reading only"));
    // What is granted to all is granted to those that are not registered.
    let unregistered =
        json!({ "workflow": tries("x", &json!([{ "at": "/d", "grant": "disk" }]), &json!([["read", "/d/file"]])) });
    server.post("/run", unregistered.to_string().as_bytes()).expect(200);
    // A failure of the host is reported as one.
    fs::remove_file(&image).expect("removed");
    server.post("/invoke/w", b"").error(502, "input", "host");
}

#[test]
fn a_granted_network_reaches_what_it_lists_and_nothing_else() {
    let listed = TcpListener::bind("127.0.0.1:0").expect("a server");
    let unlisted = TcpListener::bind("127.0.0.1:0").expect("a server");
    let address = |listener: &TcpListener| listener.local_addr().expect("an address").to_string();
    let (open, closed) = (address(&listed), address(&unlisted));
    let serving = std::thread::spawn(move || listed.accept().expect("a client").0.write_all(b"hello").expect("sent"));
    let host = Host::new();
    let server = host.serve(&json!({ "networks": {
        "api": { "network": { "mode": "host", "connect": [open] }, "workflows": ["client"] },
    }}));
    server.put_example("network-probe");
    let asking = |name: &str| {
        let args = json!({ "questions": [{ "read": open }, { "read": closed }] });
        single(name, "network-probe", &json!({ "network": { "grant": "api" }, "args": args }))
    };
    server.put_workflow(&asking("client"));
    let said = printed(&server, "client");
    assert!(said[0].contains("hello"), "{said:?}");
    assert!(said[1].starts_with("PermissionDenied: "), "{said:?}");
    serving.join().expect("it has served");
    unlisted.set_nonblocking(true).expect("set");
    assert!(unlisted.accept().is_err(), "no connection");
    let message = refused(&server, &asking("other"));
    assert!(message.contains("grants the network `api`, but not to the workflow `other`"), "{message}");
}

#[test]
fn all_mistakes_of_a_grants_file_are_reported_at_once() {
    let host = Host::new();
    let path = host.at("grants.json");
    fs::write(&path, "{\n \"files\": {\n  \"a\": { \"directory\": \"nowhere\", \"workflows\": [\"*\"] },\n  \"b c\": { \"image\": \"data\", \"workflows\": [] },\n  \"d\": { \"directory\": \"data\", \"image\": \"x\", \"workflows\": [\"no name\"], \"acces\": 1 }\n },\n \"networks\": {\n  \"n\": { \"network\": { \"grant\": \"m\" }, \"workflows\": [\"w\", \"w\"] },\n  \"o\": { \"network\": { \"mode\": \"host\", \"connect\": [\"here\"] } }\n }\n}\n").expect("written");
    let said = refused_grants(&host.at("state"), &path);
    for (place, what) in [
        ("3:", "nowhere` cannot be granted: No such file"),
        ("4:", "the name of a grant is `b c`"),
        ("4:", "`workflows` is empty"),
        ("4:", "data` cannot be granted: it is a directory"),
        ("5:", "has no field `acces`"),
        ("5:", "an entry of `workflows` is `no name`"),
        ("5:", "has not one source"),
        ("8:", "a grant refers to another grant"),
        ("8:", "`w`"),
        ("9:", "lacks the field `workflows`"),
        ("9:", "an entry of `connect` is `here`"),
    ] {
        let shown = |line: &str| line.contains(what) && line.contains(&format!("grants.json:{place}"));
        assert!(said.lines().any(shown), "{place} {what}: {said}");
    }
}

#[test]
fn grants_are_read_again_at_a_signal_and_workflows_wait_for_those_taken_back() {
    let host = Host::new();
    let granted = json!({ "files": { "data": { "directory": "data", "workflows": ["w"] } } });
    let state = StateFolder::new();
    let path = host.grants(&granted);
    let server = Server::start_on(&state, &["--grants", &path], &[]);
    server.put_example("file-probe");
    let document = tries("w", &json!([{ "at": "/d", "grant": "data" }]), &json!([["read", "/d/file"]]));
    server.put_workflow(&document);
    assert!(printed(&server, "w")[0].contains("granted"));
    // A file with mistakes changes nothing.
    fs::write(&path, "{").expect("written");
    server.signal(Signal::SIGHUP);
    std::thread::sleep(std::time::Duration::from_secs(1));
    server.post("/invoke/w", b"").expect(200);
    host.grants(&json!({}));
    server.signal(Signal::SIGHUP);
    eventually("it is taken back", || server.post("/invoke/w", b"").status == 422);
    let error = server.post("/invoke/w", b"").error(422, "invalid", "host");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("no files called `data`")), "{error:#}");
    let listed = server.get("/workflows").json()["workflows"][0]["missing_grants"].take();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    let (code, log) = server.stop();
    assert_eq!(code, Some(0));
    assert!(log.contains("the grants stay as they were") && log.contains("not valid JSON"), "{log}");

    // It is kept over a restart without the grant, and works again with it.
    let server = Server::start_on(&state, &[], &[]);
    assert_eq!(server.get("/healthz").json()["damaged"], json!([]));
    server.post("/invoke/w", b"").error(422, "invalid", "host");
    drop(server);
    host.grants(&granted);
    let server = Server::start_on(&state, &["--grants", &path], &[]);
    assert!(printed(&server, "w")[0].contains("granted"));
}

/// Neither a call that has not begun nor one that sleeps is lost.
#[test]
fn what_is_granted_and_away_for_a_while_is_waited_for() {
    let host = Host::new();
    let path = host.grants(&json!({ "files": { "data": { "directory": "data", "workflows": ["w"] } } }));
    let server = Server::start_with(&["--grants", &path, "--suspend", "1s"]);
    server.put_example("inbox");
    let args = json!({ "events": ["a"], "fills": "result" });
    let extra = json!({ "files": [{ "at": "/d", "grant": "data" }], "args": args, "outputs": ["result"] });
    server.put_workflow(&single("w", "inbox", &extra));
    let has_status = |id: &str, status: &str| server.get(&format!("/invocations/{id}")).json()["status"] == status;
    server.post("/async-invoke/w?id=sleeps", b"").expect(202);
    eventually("it sleeps", || has_status("sleeps", "suspended"));

    fs::rename(host.at("data"), host.at("away")).expect("renamed");
    server.post("/invocations/sleeps/events/a", b"to it").expect(202);
    server.post("/async-invoke/w?id=begins", b"").expect(202);
    for id in ["sleeps", "begins"] {
        let shown = || server.get(&format!("/invocations/{id}")).json();
        eventually("it is tried in vain", || {
            shown()["reason"].as_str().is_some_and(|why| why.contains("the files at /d"))
        });
        let status = shown()["status"].as_str().expect("a status").to_owned();
        assert!(["pending", "suspended"].contains(&&*status), "{:#}", shown());
    }
    fs::rename(host.at("away"), host.at("data")).expect("renamed");
    server.post("/invocations/begins/events/a", b"to it").expect(202);
    for id in ["sleeps", "begins"] {
        eventually("it goes on", || has_status(id, "completed"));
        assert_eq!(server.get(&format!("/invocations/{id}/outputs/result")).expect(200).text(), "a: to it\n");
    }
}

/// What a person has to mend is not waited for, although the call may be run again.
#[test]
fn what_is_granted_and_wrong_is_told_at_once() {
    let host = Host::new();
    let path = host.grants(&json!({ "files": { "data": { "directory": "data", "workflows": ["w"] } } }));
    let server = Server::start_with(&["--grants", &path]);
    server.put_example("file-probe");
    let mut document = tries("w", &json!([{ "at": "/d", "grant": "data" }]), &json!([["read", "/d/file"]]));
    document["steps"][0]["retry"] = json!({ "max_attempts": 3 });
    server.put_workflow(&document);
    fs::rename(host.at("data"), host.at("away")).expect("renamed");
    fs::write(host.at("data"), "a file").expect("written");
    server.post("/async-invoke/w?id=wrong", b"").expect(202);
    let shown = || server.get("/invocations/wrong").json();
    eventually("it has ended", || shown()["status"] == "failed");
    assert_eq!(shown()["attempts"], 1, "{:#}", shown());
}

/// A call that may be run again, and of which nothing was run, may move to a version that runs once at most.
#[test]
fn a_call_that_has_not_begun_begins_in_another_version() {
    let host = Host::new();
    let path = host.grants(&json!({ "files": { "data": { "directory": "data", "workflows": ["w"] } } }));
    let server = Server::start_with(&["--grants", &path]);
    server.put_example("file-probe");
    let mut document = tries("w", &json!([{ "at": "/d", "grant": "data" }]), &json!([["read", "/d/file"]]));
    document["steps"][0]["retry"] = json!({ "max_attempts": 2 });
    server.put_workflow(&document);
    fs::rename(host.at("data"), host.at("away")).expect("renamed");
    server.post("/async-invoke/w?id=begins", b"").expect(202);
    let shown = || server.get("/invocations/begins").json();
    eventually("it is tried in vain twice", || shown()["attempts"].as_u64().is_some_and(|count| count >= 2));

    document["steps"][0].as_object_mut().expect("a step").remove("retry");
    server.put_workflow(&document);
    let moved =
        || server.ask_with("POST", "/workflows/w/migrate", &[("content-type", "application/json")], b"{}").json();
    // Not while it is tried.
    eventually("it has moved", || moved()["results"].as_array().is_some_and(Vec::is_empty));
    fs::rename(host.at("away"), host.at("data")).expect("renamed");
    eventually("it has ended", || ["completed", "failed", "paused"].map(Value::from).contains(&shown()["status"]));
    assert_eq!(shown()["status"], "completed", "{:#}", shown());
}

#[test]
fn missing_grants_are_reported_before_anything_is_deployed() {
    let host = Host::new();
    let server = host.serve(&json!({ "files": { "data": { "directory": "data", "workflows": ["good"] } } }));
    let address = format!("http://{}", server.address);
    let monohull = |verb: &str, file: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_monohull"))
            .args([verb, "--server", &address])
            .arg(file)
            .output()
            .expect("monohull starts");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let write = |name: &str, grant: &str| {
        let mut document = tries(name, &json!([{ "at": "/d", "grant": grant }]), &json!([["read", "/d/file"]]));
        document["functions"]["f"]["image"] = serve_support::image("file-probe").to_str().expect("UTF-8").into();
        let path = host.at(&format!("{name}.json"));
        fs::write(&path, document.to_string()).expect("written");
        path
    };
    let (good, bad) = (write("good", "data"), write("bad", "data"));
    let (code, said) = monohull("validate", &good);
    assert_eq!(code, Some(0), "{said}");
    for verb in ["validate", "deploy"] {
        let (code, said) = monohull(verb, &bad);
        assert_eq!(code, Some(2), "{verb}: {said}");
        assert!(said.contains("grants the files `data`, but not to the workflow `bad`"), "{verb}: {said}");
    }
    server.get("/workflows/bad").expect(404);
    server.get("/functions/bad-f").expect(404);
    let (code, said) = monohull("deploy", &good);
    assert_eq!(code, Some(0), "{said}");
    assert!(printed(&server, "good")[0].contains("granted"));
    // Here there is no operator.
    let output = Command::new(env!("CARGO_BIN_EXE_monohull")).arg("run").arg(&good).output().expect("monohull starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("is a grant of a server's operator"), "{said}");
}

/// A secret that a function prints and fails with is in no log, report or answer.
#[test]
fn the_value_of_a_secret_appears_nowhere() {
    const VALUE: &str = "sk-live-4eC39HqLyjWDarjtT1zdp7dc";
    let host = Host::new();
    fs::write(host.at("key"), format!("{VALUE}\n")).expect("written");
    let grants = host.grants(&json!({ "secrets": {
        "from-file": { "file": "key", "workflows": ["w"] },
        "from-environment": { "environment": "GRANTED_KEY", "workflows": ["*"] },
    }}));
    const OTHER: &str = "an \"other\" secret";
    let state = StateFolder::new();
    let server = Server::start_on(&state, &["--grants", &grants], &[("GRANTED_KEY", OTHER)]);
    server.put_example("misbehave");
    let printing = |name: &str, secret: &str| {
        let mut document = single(name, "misbehave", &json!({ "args": { "how": "print-variable" } }));
        document["steps"][0]["secrets"] = json!({ "PRINTED": secret });
        document
    };
    server.put_workflow(&printing("w", "from-file"));
    server.put_workflow(&printing("other", "from-environment"));
    let mut shown = Vec::new();
    for (workflow, secret) in [("w", "from-file"), ("other", "from-environment")] {
        let answer = server.post(&format!("/invoke/{workflow}"), b"").expect(502);
        // The positive control: it had the value, which stands there as its name.
        let id = answer.headers["x-invocation-id"].clone();
        let redacted = format!("[secret {secret}]");
        let logs = server.get(&format!("/invocations/{id}/logs")).expect(200).text();
        assert_eq!(logs.matches(&redacted).count(), 3, "{logs}");
        assert!(answer.text().contains(&format!("{redacted} is no secret any more")), "{}", answer.text());
        shown.extend([answer.text(), logs]);
        for path in ["", "/logs?format=json", "/logs?follow=true"] {
            shown.push(server.get(&format!("/invocations/{id}{path}")).expect(200).text());
        }
        let accepted = server.post(&format!("/async-invoke/{workflow}"), b"").expect(202).json();
        shown.push(server.ended(accepted["location"].as_str().expect("an address")).to_string());
        shown.push(server.get(&format!("/workflows/{workflow}")).expect(200).text());
    }
    let mut unregistered = json!({ "workflow": printing("x", "from-environment") });
    shown.push(server.post("/run", unregistered.to_string().as_bytes()).expect(502).text());
    // Without the grant there is no value, and the error has none either.
    unregistered["workflow"]["steps"][0]["secrets"]["PRINTED"] = "from-file".into();
    shown.push(server.post("/run", unregistered.to_string().as_bytes()).expect(422).text());
    shown.push(refused(&server, &printing("y", "from-file")));
    for path in ["/workflows", "/functions", "/invocations", "/healthz", "/metrics", "/", "/page.js"] {
        shown.push(server.get(path).expect(200).text());
    }
    let (_, log) = server.stop();
    shown.push(log);
    for folder in ["durable", "durable/files", "workflows", "functions"] {
        let entries = fs::read_dir(state.path().join(folder)).expect("a folder").flatten();
        for entry in entries.filter(|entry| entry.path().is_file()) {
            shown.push(String::from_utf8_lossy(&fs::read(entry.path()).expect("readable")).into_owned());
        }
    }
    for text in &shown {
        let escaped = OTHER.replace('"', "\\\"");
        for value in [VALUE, OTHER, &escaped, &escaped.replace('\\', "\\\\")] {
            assert!(!text.contains(value), "{value} is in {text}");
        }
    }
    // Here no operator grants anything.
    let file = host.at("w.json");
    let mut document = printing("w", "from-file");
    document["functions"]["f"]["image"] = serve_support::image("misbehave").to_str().expect("UTF-8").into();
    fs::write(&file, document.to_string()).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_monohull")).arg("run").arg(&file).output().expect("monohull starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && said.contains("has secrets, which a server's operator grants"),
        "{said}"
    );
}

/// A secret that a function publishes, waits with, and fails with is in no answer about a durable invocation.
#[test]
fn the_value_of_a_secret_is_in_no_answer_about_what_waits() {
    const VALUE: &str = "sk-live-4eC39HqLyjWDarjtT1zdp7dc";
    let host = Host::new();
    fs::write(host.at("key"), VALUE).expect("written");
    let grants = host.grants(&json!({ "secrets": { "key": { "file": "key", "workflows": ["w"] } } }));
    let server = Server::start_with(&["--suspend", "1s", "--grants", &grants]);
    server.put_example("misbehave");
    let mut document = single("w", "misbehave", &json!({ "args": { "how": "publish-variable" } }));
    document["steps"][0]["secrets"] = json!({ "PRINTED": "key" });
    server.put_workflow(&document);
    server.post("/async-invoke/w?id=one", b"").expect(202);
    let status = || server.get("/invocations/one").expect(200).json()["status"].clone();
    eventually("it is suspended", || status() == "suspended");
    let paths = [
        "/invocations",
        "/invocations/one",
        "/invocations/one/checkpoints",
        "/invocations/one/checkpoints/1",
        "/invocations/one/state/text",
    ];
    let hidden = |paths: &[&str]| {
        for path in paths {
            let text = server.get(path).expect(200).text();
            // The positive control: it had the value, which stands there as its name.
            assert!(!text.contains(VALUE) && text.contains("[secret key]"), "{path}: {text}");
        }
    };
    hidden(&paths);
    // Its memory has the value, and leaves no folder that is not encrypted.
    let refused = server.get("/invocations/one/checkpoint");
    assert!(!refused.body.windows(VALUE.len()).any(|part| part == VALUE.as_bytes()));
    let error = refused.error(409, "conflict", "client");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("has secrets of this server")), "{error:#}");
    let shown = server.get("/invocations/one").expect(200).json();
    assert_eq!(shown["waiting_for"][0]["event"], "event [secret key]", "{shown:#}");
    assert_eq!(shown["published"], json!({ "text": "it is [secret key]", "name [secret key]": "text" }), "{shown:#}");
    // The event has the name that the function has given it.
    server.post(&format!("/invocations/one/events/event%20{VALUE}"), b"").expect(202);
    eventually("it has failed", || status() == "failed");
    hidden(&["/invocations/one", "/invocations/one/state/text"]);
}

#[test]
fn a_secret_that_cannot_be_had_or_hidden_is_refused_without_being_shown() {
    let host = Host::new();
    fs::write(host.at("short"), "tiny-1\n").expect("written");
    let path = host.grants(&json!({ "secrets": {
        "short": { "file": "short", "workflows": ["*"] },
        "gone": { "file": "nowhere", "workflows": ["*"] },
        "unset": { "environment": "MONOHULL_TEST_UNSET", "workflows": ["*"] },
        "bytes": { "environment": "MONOHULL_TEST_BYTES", "workflows": ["*"] },
        "both": { "environment": "A", "file": "short", "workflows": ["*"] },
    }}));
    let output = Command::new(env!("CARGO_BIN_EXE_monohull"))
        .args(["serve", "--listen", "127.0.0.1:0", "--grants", &path, "--state"])
        .arg(host.at("state"))
        .env("MONOHULL_TEST_BYTES", OsStr::from_bytes(b"guarded\xfcguarded"))
        .output()
        .expect("monohull starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let reasons = [
        "fewer than 8 characters",
        "nowhere: No such file",
        "no such environment variable",
        "the environment variable is not UTF-8",
        "not one source",
    ];
    for reason in reasons {
        assert!(said.contains(reason), "{reason}: {said}");
    }
    assert!(!said.contains("tiny-1") && !said.contains("guarded"), "{said}");
}
