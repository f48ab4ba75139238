//! Hosts over HTTPS that an operator grants to served workflows, with credentials that no function sees.

#[path = "support/https_host.rs"]
mod https_host;
mod serve_support;

use https_host::{Authority, Event, Host};
use serde_json::{Value, json};
use serve_support::verbs::refused_grants;
use serve_support::{Server, StateFolder, eventually, single};
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const SECRET: &str = "hunter2-hunter2-hunter2";

/// A server with these networks and a secret that no workflow gets itself.
fn serve(authority: &Authority, networks: Value) -> Server {
    let grants = json!({ "networks": networks, "secrets": { "pay-token": { "file": "token" } } });
    fs::write(authority.folder().join("token"), format!("{SECRET}\n")).expect("written");
    let path = authority.folder().join("grants.json");
    fs::write(&path, grants.to_string()).expect("written");
    let (path, roots) = (path.to_str().expect("UTF-8").to_owned(), authority.roots());
    let environment = [("SSL_CERT_FILE", roots.to_str().expect("UTF-8"))];
    let server = Server::start_on(&StateFolder::new(), &["--grants", &path], &environment);
    server.put_example("network-probe");
    server
}

fn asking(name: &str, questions: Value) -> Value {
    single(name, "network-probe", &json!({ "network": { "grant": "pay" }, "args": { "questions": questions } }))
}

/// A grant of a host to these workflows.
fn granted(address: std::net::SocketAddr, workflows: Value, more: Value) -> Value {
    let mut entry = json!({ "host": "localhost", "port": address.port() });
    entry.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let network = json!({ "mode": "host", "connect": [address.to_string()], "https": [entry] });
    json!({ "pay": { "network": network, "workflows": workflows } })
}

/// What the function of an invocation printed.
fn printed(server: &Server, workflow: &str) -> Vec<String> {
    let answer = server.post(&format!("/invoke/{workflow}"), b"");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let logs = format!("/invocations/{}/logs?format=json", answer.headers["x-invocation-id"]);
    let text = server.get(&logs).expect(200).text();
    let line =
        |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["text"].as_str().expect("text").to_owned();
    text.lines().map(line).collect()
}

#[test]
fn a_granted_host_gets_the_credential_and_the_workflow_does_not() {
    let authority = Authority::new();
    // It sends back what it was sent, so the function has it. The server still redacts what the function prints.
    let echo = "HTTP/1.1 200 OK\r\nContent-Length: 31\r\n\r\nyou are hunter2-hunter2-hunter2";
    let host = Host::start(&authority, "localhost", echo);
    let headers = json!({ "headers": { "authorization": { "secret": "pay-token", "prefix": "Bearer " } } });
    let server = serve(&authority, granted(host.address, json!(["w"]), headers));
    let questions = json!([{ "exchange": ["localhost:80", GET] }, { "resolve": "example.com" }]);
    server.put_workflow(&asking("w", questions.clone()));
    let said = printed(&server, "w");
    let request = host.request();
    assert!(request.contains(&format!("authorization: Bearer {SECRET}\r\n")), "{request}");
    assert!(said[0].contains("you are [secret pay-token]"), "{said:?}");
    assert!(said[1].starts_with("PermissionDenied: "), "{said:?}");
    // Neither another workflow nor the value itself.
    let other = asking("other", questions).to_string();
    let error = server.ask("PUT", "/workflows/other", other.as_bytes()).error(422, "invalid", "workflow");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("but not to the workflow `other`")), "{error}");
    let mut itself = asking("w", json!([]));
    itself["steps"][0]["secrets"] = json!({ "TOKEN": "pay-token" });
    let error = server.ask("PUT", "/workflows/w", itself.to_string().as_bytes()).error(422, "invalid", "workflow");
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains("the secret `pay-token`, but not to")),
        "{error}"
    );
    let (_, log) = server.stop();
    assert!(!log.contains(SECRET), "{log}");
}

#[test]
fn a_granted_host_is_for_the_steps_that_the_grant_names() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", OK);
    let server = serve(&authority, granted(host.address, json!(["*"]), json!({ "steps": ["charge"] })));
    let mut document = asking("w", json!([{ "exchange": ["localhost:80", GET] }]));
    server.put_workflow(&document);
    assert!(printed(&server, "w")[0].starts_with("PermissionDenied: "));
    document["steps"][0]["name"] = "charge".into();
    server.put_workflow(&document);
    assert!(printed(&server, "w")[0].contains("hello"));
    let requests = host.so_far().into_iter().filter(|event| matches!(event, Event::Request(_))).count();
    assert_eq!(requests, 1);
}

#[test]
fn what_fails_is_in_the_log_with_host_and_reason() {
    let authority = Authority::new();
    let host = Host::start(&authority, "other.example", OK);
    let server = serve(&authority, granted(host.address, json!(["*"]), json!({})));
    server.put_workflow(&asking("w", json!([{ "exchange": ["localhost:80", GET] }])));
    assert!(printed(&server, "w")[0].contains("502 Bad Gateway"));
    let (_, log) = server.stop();
    let line = log.lines().find(|line| line.contains("no answer over https")).expect("a line");
    assert!(line.contains("\"host\":\"localhost\"") && line.contains("invalid peer certificate"), "{line}");
}

#[test]
fn no_connection_and_no_thread_outlives_its_run() {
    let authority = Authority::new();
    // It accepts, and then is silent.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = serve(&authority, granted(silent.local_addr().expect("its address"), json!(["*"]), json!({})));
    let mut document = asking("w", json!([{ "exchange": ["localhost:80", GET] }]));
    document["steps"][0]["timeout"] = "2s".into();
    server.put_workflow(&document);
    let client = std::thread::spawn(move || {
        let (mut client, _) = silent.accept().expect("a client");
        client.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        let mut bytes = Vec::new();
        // However the connection ends.
        let _ = client.read_to_end(&mut bytes);
        bytes.len()
    });
    server.post("/invoke/w", b"").error(504, "timeout", "function");
    assert!(client.join().expect("no panic") > 0, "it had begun");
    let threads = || {
        let names = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
        let names = names.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("network-")).collect::<Vec<_>>()
    };
    eventually("its threads have ended", || threads().is_empty());
}

#[test]
fn mistakes_in_granted_hosts_have_their_places() {
    let authority = Authority::new();
    let text = "{\n \"networks\": {\n  \"a\": { \"network\": { \"mode\": \"host\", \"https\": [{ \"host\": \"api.example\",\n   \"headers\": { \"authorization\": { \"secret\": \"pay-tokn\" } } }] }, \"workflows\": [\"*\"] },\n  \"b\": { \"network\": { \"mode\": \"host\", \"https\": [\"10.0.0.1\"] }, \"workflows\": [\"*\"] },\n  \"c\": { \"network\": { \"mode\": \"host\", \"https\": [{ \"host\": \"api.example\", \"headers\": { \"x-a\": { \"environment\": \"A\" } } }] }, \"workflows\": [\"*\"] },\n  \"d\": { \"network\": { \"mode\": \"host\", \"https\": [{ \"host\": \"api.example\", \"headers\": { \"x-a\": { \"secret\": \"lines\" } } }] }, \"workflows\": [\"*\"] }\n },\n \"secrets\": { \"pay-token\": { \"file\": \"token\" }, \"lines\": { \"file\": \"lines\" } }\n}\n";
    let path = authority.folder().join("grants.json");
    fs::write(&path, text).expect("written");
    fs::write(authority.folder().join("token"), SECRET).expect("written");
    fs::write(authority.folder().join("lines"), format!("{SECRET}\r\nx-b: c")).expect("written");
    let said = refused_grants(&authority.folder().join("state"), &path);
    for (place, what) in [
        ("4:46", "there is no secret `pay-tokn`, did you mean `pay-token`?"),
        ("5:49", "a host of `https` is `10.0.0.1`"),
        ("6:94", "the header `x-a` has a source that is no secret"),
        ("7:94", "the header `x-a` cannot have the value of its secret"),
    ] {
        let is_it = |line: &str| line.contains(what) && line.contains(&format!("grants.json:{place}"));
        assert!(said.lines().any(is_it), "{place} {what}: {said}");
    }
    assert!(!said.contains(SECRET), "{said}");
}
