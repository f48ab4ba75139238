//! The verbs that talk to a server: invoke, deploy, list, logs.

mod serve_support;

use monohull_visor::workflow;
use serde_json::{Value, json};
use serve_support::verbs::{Done, run_verb};
use serve_support::{Server, StateFolder, image, root, single};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;

/// Runs `monohull` against a server, with something on standard input.
fn monohull_with(server: &Server, arguments: &[&str], input: &str, env: &[(&str, &str)]) -> Done {
    run_verb(&format!("http://{}", server.address), arguments, env, input)
}

fn monohull(server: &Server, arguments: &[&str]) -> Done {
    monohull_with(server, arguments, "", &[])
}

/// A server whose answers a function makes: from the first line of a request and its body, a status and a body. Its address.
fn stand_in(answer: impl Fn(&str, &[u8]) -> (u16, String) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(&stream);
            let mut lines = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let Some(first) = lines.next() else { continue };
            let length =
                lines.filter_map(|line| Some(line.to_lowercase().strip_prefix("content-length: ")?.to_owned()));
            let length = length.last().map_or(0, |length| length.parse().expect("a length"));
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let (status, body) = answer(&first, &body);
            let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            // A client may go away.
            let _ = (&stream).write_all((head + &body).as_bytes());
        }
    });
    address
}

/// The file on standard input is read once, although it is checked, sent to be validated, and sent.
#[test]
fn a_workflow_may_come_on_standard_input() {
    let server = Server::start();
    let document = root().join("workflows/echo.json");
    let document = std::fs::read_to_string(document).expect("readable").replace("../target", "target");
    let validated = monohull_with(&server, &["validate", "-"], &document, &[]).expect(0);
    assert!(validated.out.contains("workflow `echo` is valid"), "{}", validated.out);
    let address = format!("http://{}", server.address);
    monohull_with(&server, &["validate", "-", "--server", &address], &document, &[]).expect(0);
    let deployed = monohull_with(&server, &["deploy", "-"], &document, &[]).expect(0);
    assert_eq!(deployed.out, "echo: deployed (functions: 1)\n");
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
    let wrong = document.replace("\"outputs\"", "\"output\"");
    let refused = monohull_with(&server, &["validate", "-"], &wrong, &[]).expect(2);
    assert!(refused.err.contains("-:10:3: "), "{}", refused.err);
}

/// Messages name the place in the author's file, and not in the document that the server received.
#[test]
fn mistakes_that_a_server_finds_are_shown_in_the_file() {
    let folder = StateFolder::new();
    let file = folder.path().join("mine.json");
    let image = image("echo");
    let text = format!(
        "{{\"name\": \"w\", \"inputs\": [{{ \"path\": \"x\", \"slot\": \"in\" }}],\n\
         \"functions\": {{ \"g\": {{ \"image\": \"function:other\" }},\n\
         \"f\": {{ \"image\": {:?} }}}},    \"files\": [{{ \"at\": \"/d\", \"grant\": \"data\" }}],\n\
         \"steps\": [{{ \"name\": \"s\", \"function\": \"f\" }}, {{ \"name\": \"t\", \"function\": \"g\" }}] }}\n",
        image.to_str().expect("UTF-8")
    );
    std::fs::write(&file, &text).expect("written");
    let file = file.to_str().expect("UTF-8");
    let column = |line: usize, part: &str| {
        let line = text.lines().nth(line - 1).expect("a line");
        line.find(part).expect("a part") + 1
    };
    let expected =
        [format!("{file}:2:{}: ", column(2, "\"function:other\"")), format!("{file}:3:{}: ", column(3, "\"data\""))];

    // What is wrong with the file as it is sent to be validated.
    let server = Server::start();
    for verb in [&["deploy", file][..], &["validate", file, "--server", &format!("http://{}", server.address)]] {
        let refused = monohull(&server, verb).expect(2);
        for place in &expected {
            assert!(refused.err.contains(place), "{place}: {}", refused.err);
        }
    }
    let shown = monohull(&server, &["deploy", file, "--json"]).expect(2).json();
    assert_eq!(
        (&shown["error"]["mistakes"][0]["file"], &shown["error"]["mistakes"][0]["line"]),
        (&json!(file), &json!(2))
    );

    // What is wrong with the document that is made of it: the functions and the grant go after it was validated.
    let address = stand_in(|request, body| match request {
        request if request.starts_with("PUT /workflows/") => {
            let server =
                workflow::Server { functions: &|_| false, grants: &|_| Err("taken back".into()), deploying: false };
            let found = workflow::check_registered(Path::new("w.json"), body, &server).mistakes;
            assert!(found.iter().all(|mistake| mistake.line > 4), "the document has other lines: {found:?}");
            let message = found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            let error = json!({ "kind": "invalid", "message": message, "blame": "workflow", "mistakes": found });
            (422, json!({ "error": error }).to_string())
        }
        _ => (200, "{}".to_owned()),
    });
    let refused = monohull(&server, &["deploy", file, "--server", &address]).expect(2);
    for place in expected.iter().chain([&format!("{file}:3:{}: ", column(3, &format!("{image:?}")))]) {
        assert!(refused.err.contains(place), "{place}: {}", refused.err);
    }
    assert!(!refused.err.contains("w.json:"), "{}", refused.err);
}

/// An invocation that is followed ends with the code that one which is waited for ends with.
#[test]
fn following_ends_with_the_same_codes_as_waiting() {
    let server = Server::start();
    server.put_example("misbehave");
    for (name, how, more) in [("panic", "panic", json!({})), ("slow", "sleep", json!({ "timeout": "200ms" }))] {
        let mut document = single(name, "misbehave", &more);
        document["steps"][0]["args"] = json!({ "how": how });
        server.put_workflow(&document);
    }
    for (name, status) in [("panic", 502), ("slow", 504)] {
        let waited = server.post(&format!("/invoke/{name}"), b"").expect(status);
        let id = &waited.headers["x-invocation-id"];
        assert_eq!(server.get(&format!("/invocations/{id}")).json()["error_status"], status);
        monohull(&server, &["invoke", name]).expect(1);
        monohull(&server, &["invoke", name, "--follow"]).expect(1);
        let shown = monohull(&server, &["invoke", name, "--follow", "--json"]).expect(1).json();
        assert_eq!((&shown["status"], &shown["error_status"]), (&json!("failed"), &json!(status)));
    }
    monohull(&server, &["invoke", "unknown", "--follow"]).expect(2);

    // The host's faults are not the workflow's. An earlier server does not say which it was.
    for (status, code) in
        [(json!(500), 3), (json!(503), 3), (json!(507), 3), (json!(502), 1), (json!(504), 1), (Value::Null, 1)]
    {
        let error = json!({ "kind": "x", "message": "y", "blame": "host" });
        let shown = json!({ "id": "1", "status": "failed", "error": error, "error_status": status }).to_string();
        let address = stand_in(move |_, _| (200, shown.clone()));
        let done = monohull(&server, &["invoke", "w", "--follow", "--server", &address]).expect(code);
        assert!(done.err.contains("x: y") && done.out.is_empty(), "{}{}", done.out, done.err);
    }
}

/// A server refuses a body that is too large before all of it has come, and closes the connection.
#[test]
fn a_refusal_arrives_even_if_the_request_was_not_read_whole() {
    let server = Server::start_with(&["--max-body", "1MiB"]);
    server.put_shipped("echo.json");
    for _ in 0..5 {
        let done = monohull_with(&server, &["invoke", "echo", "--input", "-"], &"x".repeat(16 << 20), &[]).expect(2);
        assert!(done.err.contains("too-large"), "{}", done.err);
    }
}

/// A file with `=` in its name is told from SLOT=FILE by its folder.
#[test]
fn files_of_an_invocation_may_have_any_name() {
    let server = Server::start();
    server.put_shipped("echo.json");
    let folder = StateFolder::new();
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    std::fs::write(at("a=b.txt"), "whole").expect("written");
    std::fs::write(at("c.txt"), "slot").expect("written");
    let invoke = |more: &[&str]| monohull(&server, &[&["invoke", "echo"], more].concat());
    assert_eq!(invoke(&["--input", &at("a=b.txt")]).expect(0).out, "whole");
    let slot = format!("in={}", at("c.txt"));
    assert_eq!(invoke(&["--input", &slot]).expect(0).out, "slot");
    assert_eq!(invoke(&["--input", &slot, "--output", "-"]).expect(0).out, "slot");
    invoke(&["--input", &slot, "--output", &at("out.txt")]).expect(0);
    assert_eq!(std::fs::read_to_string(at("out.txt")).expect("read"), "slot");
    invoke(&["--input", &slot, "--output", &format!("out={}", at("named.txt"))]).expect(0);
    assert_eq!(std::fs::read_to_string(at("named.txt")).expect("read"), "slot");
    invoke(&["--input", &slot, "--output", &at("x=y.txt"), "--slot", "out"]).expect(0);
    assert_eq!(std::fs::read_to_string(at("x=y.txt")).expect("read"), "slot");
    for (options, says) in [
        (&["--output", "ou=never"][..], "no output slot `ou`, did you mean `out`?"),
        (&["--output", "out=never", "--slot", "in"], "--output and --slot name different slots"),
        (&["--output", "out="], "expected FILE or SLOT=FILE"),
    ] {
        let refused = invoke(&[&["--input", &slot], options].concat()).expect(2);
        assert!(refused.err.contains(says), "{}", refused.err);
    }
    assert!(!root().join("never").exists() && !root().join("out=never").exists());
    // Nothing is sent if the result could not be written.
    let ran = server.get("/invocations").json();
    let refused = invoke(&["--input", &slot, "--output", &at("missing/out.txt")]).expect(2);
    assert!(refused.err.contains("missing/out.txt cannot be written: No such file"), "{}", refused.err);
    assert_eq!(server.get("/invocations").json(), ran);
    assert!(!root().join("-").exists());
}

#[test]
fn forgotten_results_are_reported_as_such() {
    let server = Server::start_with(&["--keep", "0"]);
    server.put_shipped("echo.json");
    let shown = monohull_with(&server, &["invoke", "echo", "--input", "-", "--json"], "hello", &[]).expect(0).json();
    assert_eq!((&shown["status"], &shown["body"]["text"]), (&json!("completed"), &json!("hello")), "{shown:#}");
}

/// What `serve --listen` takes is an address of a server, too.
#[test]
fn an_address_without_http_is_taken() {
    let server = Server::start();
    let listed = run_verb(&server.address.to_string(), &["list"], &[], "").expect(0);
    assert!(listed.out.contains("name"), "{}", listed.out);
    for wrong in ["what", "127.0.0.1", "user@127.0.0.1:7070", "unix", "127.0.0.1:7070/path"] {
        let refused = run_verb(wrong, &["list"], &[], "").expect(2);
        assert!(refused.err.contains("the server's address is http://HOST:PORT"), "{wrong}: {}", refused.err);
    }
}

/// The client says what a workflow waits for, and how to come to the result.
#[test]
fn an_invocation_that_waits_says_for_what() {
    let server = Server::start_with(&["--suspend", "100ms"]);
    server.put_example("inbox");
    let events = json!({ "events": ["go"], "fills": "result" });
    server.put_workflow(&single("inbox", "inbox", &json!({ "args": events, "outputs": ["result"] })));
    let waits = monohull(&server, &["invoke", "inbox", "--id", "g1"]).expect(4);
    assert!(waits.err.contains("monohull: invocation g1 waits: main[0] for event `go`"), "{}", waits.err);
    assert!(waits.err.contains("`monohull result g1 --wait` prints what comes of it"), "{}", waits.err);
    let later = monohull(&server, &["invoke", "inbox", "--id", "g2", "--delay", "1d"]).expect(4);
    assert!(later.err.contains("monohull: invocation g2 begins at 20"), "{}", later.err);
}

#[test]
fn every_shipped_workflow_is_deployed() {
    let server = Server::start();
    let files = std::fs::read_dir(root().join("workflows")).expect("a folder").flatten();
    let files =
        files.map(|entry| entry.file_name().into_string().expect("UTF-8")).filter(|name| name.ends_with(".json"));
    for name in files.filter(|name| !name.ends_with(".schema.json")) {
        let done = monohull(&server, &["deploy", &format!("workflows/{name}")]);
        match &*name {
            "network-tour.json" => assert!(done.expect(2).err.contains("only what the operator grants")),
            "blob.json" => assert!(done.expect(2).err.contains("a `grant` of the server's operator")),
            _ => drop(done.expect(0)),
        }
    }
    let listed = server.get("/workflows").json()["workflows"].as_array().map_or(0, Vec::len);
    assert!(listed >= 11, "{listed}");
}

#[test]
fn a_workflow_file_is_deployed_and_invoked() {
    let server = Server::start();
    assert_eq!(
        monohull(&server, &["deploy", "workflows/word-count.json"]).expect(0).out,
        "word-count: deployed (functions: 4)\n"
    );
    let again = monohull(&server, &["deploy", "workflows/word-count.json", "--json"]).expect(0).json();
    let sent: Vec<_> = again["functions"].as_array().expect("functions").iter().map(|f| f["sent"].clone()).collect();
    assert_eq!(sent, vec![json!(false); 4], "{again:#}");
    let listed = monohull(&server, &["list"]).expect(0).out;
    assert!(listed.contains("word-count-split") && listed.contains("split, map, reduce, merge"), "{listed}");

    let counted = monohull_with(&server, &["invoke", "word-count", "--input", "-"], "a b a", &[]).expect(0);
    assert_eq!(counted.out, "2 a\n1 b\n");
    let folder = StateFolder::new();
    let (text, counts) = (folder.path().join("text"), folder.path().join("counts"));
    std::fs::write(&text, "x y x").expect("written");
    let (input, output) = (text.to_str().expect("UTF-8"), counts.to_str().expect("UTF-8"));
    monohull(&server, &["invoke", "word-count", "--input", input, "--output", output]).expect(0);
    assert_eq!(std::fs::read_to_string(&counts).expect("written"), "2 x\n1 y\n");
    let named = format!("text={input}");
    assert_eq!(monohull(&server, &["invoke", "word-count", "--input", &named]).expect(0).out, "2 x\n1 y\n");
    let shown = monohull(&server, &["invoke", "word-count", "--input", input, "--json"]).expect(0).json();
    assert_eq!(
        (shown["status"].as_str(), shown["result"]["counts"]["text"].as_str()),
        (Some("completed"), Some("2 x\n1 y\n"))
    );
}

#[test]
fn what_runs_can_be_followed() {
    let server = Server::start();
    server.put_example("echo");
    let more = json!({ "inputs": ["in"], "outputs": ["out"], "args": { "say": "hello from inside", "wait_ms": 100 } });
    server.put_workflow(&single("talk", "echo", &more));
    let followed =
        monohull_with(&server, &["invoke", "talk", "--input", "-", "--async", "--follow"], "data", &[]).expect(0);
    assert_eq!(followed.out, "data");
    let (first, lines) = followed.err.split_once('\n').expect("lines");
    assert_eq!(lines, "main[0] | hello from inside\n");
    let named = first.strip_prefix("invocation ").expect("its id");
    assert_eq!(monohull(&server, &["logs", named]).expect(0).out, lines);
    let id = monohull_with(&server, &["invoke", "talk", "--input", "-", "--async"], "data", &[]).expect(0).out;
    let logs = monohull(&server, &["logs", id.trim(), "--follow"]).expect(0);
    assert_eq!(logs.out, "main[0] | hello from inside\n");
    let line = monohull(&server, &["logs", id.trim(), "--json"]).expect(0).json();
    assert_eq!(line["text"], "hello from inside");
    let listed = monohull(&server, &["list", "invocations", "--json"]).expect(0).json();
    assert_eq!(listed["invocations"].as_array().map(Vec::len), Some(2));
}

#[test]
fn one_is_started_by_name_and_later() {
    let server = Server::start();
    server.put_shipped("echo.json");
    let start =
        |more: &[&str]| monohull_with(&server, &[&["invoke", "echo", "--input", "-"], more].concat(), "data", &[]);
    assert_eq!(start(&["--async", "--id", "order 17/a"]).code, 2, "no id");
    for _ in 0..2 {
        assert_eq!(start(&["--async", "--id", "order-17"]).expect(0).out, "order-17\n");
    }
    assert_eq!(start(&["--follow", "--id", "order-18"]).expect(0).out, "data");
    assert_eq!(start(&["--async", "--id", "later", "--delay", "1d"]).expect(0).out, "later\n");
    assert_eq!(
        start(&["--async", "--id", "much-later", "--at", "2099-01-31T09:00:00+01:00"]).expect(0).out,
        "much-later\n"
    );
    for id in ["later", "much-later"] {
        assert_eq!(server.get(&format!("/invocations/{id}")).expect(200).json()["status"], "pending");
    }
    let listed = monohull(&server, &["list", "invocations", "--json"]).expect(0).json();
    assert_eq!(listed["invocations"].as_array().map(Vec::len), Some(4));
    for wrong in [
        &["--async", "--delay", "soon"][..],
        &["--async", "--delay", "1d", "--at", "2099-01-31T09:00:00Z"],
        &["--async", "--id", "a", "--key", "b"],
    ] {
        assert_eq!(start(wrong).code, 2, "{wrong:?}");
    }
}

/// One that has not begun, or waits, is followed from its next line on, until it ends or waits again.
#[test]
fn what_does_not_run_yet_is_followed_once_it_does() {
    let server = Server::start();
    server.put_example("echo");
    let more = json!({ "inputs": ["in"], "outputs": ["out"], "args": { "say": "hello from inside", "wait_ms": 100 } });
    server.put_workflow(&single("talk", "echo", &more));
    let start = |more: &[&str]| {
        monohull_with(&server, &[&["invoke", "talk", "--input", "-", "--async"], more].concat(), "data", &[]).expect(0)
    };
    for (id, delay) in [("soon", "1s"), ("now", "0s")] {
        start(&["--id", id, "--delay", delay]);
        assert_eq!(monohull(&server, &["logs", id, "--follow"]).expect(0).out, "main[0] | hello from inside\n", "{id}");
    }
    let followed = monohull_with(&server, &["invoke", "talk", "--input", "-", "--follow", "--id", "a"], "data", &[]);
    let followed = followed.expect(0);
    assert_eq!((&*followed.out, &*followed.err), ("data", "invocation a\nmain[0] | hello from inside\n"));
    // The same call again, without its lines; and one that is not to begin now.
    let plain =
        |more: &[&str]| monohull_with(&server, &[&["invoke", "talk", "--input", "-"], more].concat(), "data", &[]);
    assert_eq!(plain(&["--id", "a"]).expect(0).out, "data");
    assert!(plain(&["--id", "b", "--delay", "1d"]).expect(4).err.contains("invocation b"));
}

/// Results are passed on as they come, and an invocation that fails leaves what was there.
#[test]
fn results_go_where_they_are_wanted() {
    let server = Server::start();
    server.put_shipped("echo.json");
    server.put_example("misbehave");
    let mut panic = single("panic", "misbehave", &json!({}));
    panic["steps"][0]["args"] = json!({ "how": "panic" });
    server.put_workflow(&panic);
    let folder = StateFolder::new();
    let file = folder.path().join("result");
    let name = file.to_str().expect("UTF-8");
    let content = "0123456789abcdef".repeat(1 << 18);
    for follow in [&[][..], &["--follow"]] {
        let verb = [&["invoke", "echo", "--input", "-", "--output", name][..], follow].concat();
        monohull_with(&server, &verb, &content, &[]).expect(0);
        assert!(std::fs::read(&file).expect("a result") == content.as_bytes());
        monohull(&server, &["invoke", "panic", "--output", name]).expect(1);
        assert!(std::fs::read(&file).expect("a result") == content.as_bytes());
        monohull_with(&server, &verb, "", &[]).expect(0);
        assert!(std::fs::read(&file).expect("a result").is_empty());
    }
    let nowhere = monohull_with(&server, &["invoke", "echo", "--input", "-", "--output", "/nowhere/x"], "x", &[]);
    // That is seen before anything is sent.
    let said = nowhere.expect(2).err;
    assert!(said.contains("/nowhere/x cannot be written"), "{said}");
    let full = monohull_with(&server, &["invoke", "echo", "--input", "-", "--output", "/dev/full"], "x", &[]);
    assert!(full.expect(3).err.contains("/dev/full cannot be written"));
}

#[test]
fn a_workflow_is_removed_with_its_own_functions() {
    let server = Server::start();
    let names = |kind: &str| -> Vec<String> {
        let listed = server.get(&format!("/{kind}")).json();
        let listed = listed[kind].as_array().expect("a list").iter();
        listed.map(|entry| entry["name"].as_str().expect("a name").to_owned()).collect()
    };
    monohull(&server, &["deploy", "workflows/word-count.json"]).expect(0);
    monohull(&server, &["deploy", "workflows/echo.json"]).expect(0);
    // Another user's workflow with one of the functions: it continues to work.
    server.put_workflow(&single("shares", "word-count-map", &json!({ "inputs": ["part.0"] })));
    let done = monohull(&server, &["undeploy", "word-count", "--json"]).expect(0).json();
    let removed = ["word-count-merge", "word-count-reduce", "word-count-split"];
    let mut reported: Vec<_> = done["functions"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    reported.sort_unstable();
    assert_eq!((&done["workflow"], reported), (&"word-count".into(), removed.to_vec()));
    assert_eq!(names("workflows"), ["echo", "shares"]);
    assert_eq!(names("functions"), ["echo-echo", "word-count-map"]);
    let unknown = monohull(&server, &["undeploy", "word-count"]).expect(2);
    assert!(unknown.err.contains("not-found: no workflow is called `word-count`"), "{}", unknown.err);
    assert_eq!(monohull(&server, &["undeploy", "echo"]).expect(0).out, "echo: removed (functions: 1)\n");
}

#[test]
fn an_input_is_given_or_refused_or_empty_on_purpose() {
    let server = Server::start();
    server.put_shipped("echo.json");
    for arguments in [&["invoke", "echo"][..], &["invoke", "echo", "--async"], &["invoke", "echo", "--json"]] {
        let refused = monohull(&server, arguments).expect(2);
        assert!(refused.err.contains("missing-input: input slot `in` is missing"), "{}", refused.err);
        assert!(refused.err.contains("--input FILE") && refused.err.contains("SLOT= an empty one"), "{}", refused.err);
    }
    assert_eq!(monohull(&server, &["invoke", "echo", "--input", "in="]).expect(0).out, "");
    // An empty file is as explicit.
    assert_eq!(monohull(&server, &["invoke", "echo", "--input", "-"]).expect(0).out, "");
    let device = monohull(&server, &["invoke", "echo", "--input", "/dev/zero"]).expect(2);
    assert!(device.err.contains("/dev/zero cannot be read: it is a device"), "{}", device.err);
}

#[test]
fn exit_codes_name_the_party_at_fault() {
    let server = Server::start();
    server.put_example("misbehave");
    let mut panic = single("panic", "misbehave", &json!({}));
    panic["steps"][0]["args"] = json!({ "how": "panic" });
    server.put_workflow(&panic);
    let failed = monohull(&server, &["invoke", "panic"]).expect(1);
    assert!(failed.err.contains("main[0]: panic: ") && failed.err.contains("at fault  function"), "{}", failed.err);
    assert_eq!(monohull(&server, &["invoke", "panic", "--json"]).expect(1).json()["error"]["kind"], "panic");
    assert!(monohull(&server, &["invoke", "panic", "--follow"]).expect(1).err.contains("panic: "));
    monohull(&server, &["invoke", "unknown"]).expect(2);
    monohull(&server, &["invoke", "panic", "--input", "/nowhere"]).expect(2);
    monohull(&server, &["logs", "unknown"]).expect(2);
    monohull(&server, &["deploy", "README.md"]).expect(2);
    monohull(&server, &["list", "--server", "ftp://x"]).expect(2);
    let unreachable = monohull(&server, &["list", "--server", "http://127.0.0.1:1"]).expect(3);
    assert!(unreachable.err.contains("no connection to http://127.0.0.1:1"), "{}", unreachable.err);
}

#[test]
fn a_token_is_brought_along() {
    let token = [("MONOHULL_TOKEN", "s3cret")];
    let server = Server::start_on(&StateFolder::new(), &[], &token);
    monohull(&server, &["list"]).expect(2);
    monohull_with(&server, &["list"], "", &token).expect(0);
    let folder = StateFolder::new();
    let file = folder.path().join("token");
    std::fs::write(&file, "s3cret\n").expect("written");
    monohull(&server, &["list", "--token-file", file.to_str().expect("UTF-8")]).expect(0);
}
