//! Functions that reach hosts over HTTPS, from workflows that the program runs, in a process of its own.

#[path = "../support/https_host.rs"]
mod https_host;

use crate::support;
use https_host::{Authority, Event, Host};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpListener;
use std::process::Command;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const GET: &str = "GET /path?q=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const SECRET: &str = "hunter2-hunter2-hunter2";

/// A network with this host, whose address a workflow may connect to, and what else an entry says.
fn network(host: &Host, more: Value) -> Value {
    let mut entry = json!({ "host": "localhost", "port": host.address.port() });
    entry.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!({ "mode": "host", "connect": [host.address.to_string()], "https": [entry] })
}

/// Runs a document with these variables, and gives the report.
fn run(authority: &Authority, document: &Value, variables: &[(&str, &str)]) -> Value {
    let mut document = document.clone();
    for function in document["functions"].as_object_mut().expect("functions").values_mut() {
        let name = function["image"].as_str().expect("a name").to_owned();
        function["image"] = support::image(&name).to_str().expect("UTF-8").into();
    }
    let file = authority.folder().join("workflow.json");
    std::fs::write(&file, document.to_string()).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_monohull"))
        .args(["run", "--json"])
        .arg(&file)
        .env("SSL_CERT_FILE", authority.roots())
        .env_remove("SSL_CERT_DIR")
        .envs(variables.iter().copied())
        .output()
        .expect("monohull starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {err}"))
}

/// What the first instance of a step printed.
fn printed(report: &Value, step: &str) -> Vec<String> {
    assert_eq!(report["status"], "done", "{report:#}");
    let steps = report["steps"].as_array().expect("steps");
    let step = steps.iter().find(|found| found["name"] == step).expect("the step");
    let lines = step["instances"][0]["lines"].as_array().expect("lines");
    lines.iter().map(|line| line["text"].as_str().expect("text").to_owned()).collect()
}

/// The answers of a probe.
fn ask(authority: &Authority, network: Value, questions: Value) -> Vec<String> {
    printed(&run(authority, &crate::probe(network, questions), &[]), "probe")
}

#[test]
fn a_function_gets_an_answer_over_tls_by_plain_http() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", OK);
    let own_port = format!("localhost:{}", host.address.port());
    let questions = json!([
        { "resolve": "LocalHost." },
        { "exchange": ["localhost:80", GET] },
        { "exchange": [own_port, "POST / HTTP/1.0\r\nContent-Length: 4\r\n\r\nbody"] },
    ]);
    let answers = ask(&authority, network(&host, json!({})), questions);
    assert!(answers[0] == "198.19.255.1", "{answers:?}");
    for answer in &answers[1..] {
        assert!(answer.contains(" 200 OK\\r\\n") && answer.ends_with("\\r\\n\\r\\nhello\""), "{answers:?}");
    }
    assert_eq!(host.next(), Event::Name("localhost".to_owned()));
    let request = host.request();
    assert!(request.starts_with("GET /path?q=1 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: localhost:{}\r\n", host.address.port())), "{request}");
    assert!(!request.to_lowercase().contains("connection:"), "{request}");
    let request = host.request();
    assert!(request.starts_with("POST / HTTP/1.1\r\n") && request.ends_with("\r\n\r\nbody"), "{request}");
}

#[test]
fn the_shipped_workflow_fetches_a_page() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", OK);
    let file = support::root().join("workflows/network").join("https-fetch").with_extension("json");
    let mut document: Value = serde_json::from_slice(&std::fs::read(file).expect("a workflow")).expect("JSON");
    document["functions"]["fetch"]["image"] = "http-fetch".into();
    document["steps"][0]["args"]["url"] = "http://localhost/page".into();
    document["network"] = network(&host, json!({ "steps": ["fetch"] }));
    let report = run(&authority, &document, &[]);
    assert_eq!(printed(&report, "fetch"), ["http://localhost/page: 200, 5 bytes"]);
    assert_eq!(report["output"]["body"]["text"], "hello", "{report:#}");
    assert!(host.request().starts_with("GET /page HTTP/1.1\r\n"));
}

#[test]
fn requests_of_one_connection_share_one_to_the_host_while_it_is_open() {
    let two = "GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /second HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let closing = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    for (answer, connections) in [(OK, 1), (closing, 2)] {
        let authority = Authority::new();
        let host = Host::start(&authority, "localhost", answer);
        let answers = ask(&authority, network(&host, json!({})), json!([{ "exchange": ["localhost:80", two] }]));
        assert_eq!(answers[0].matches("hello").count(), 2, "{answers:?}");
        let (mut paths, mut opened) = (Vec::new(), 0);
        for event in host.so_far() {
            match event {
                Event::Request(text) => paths.extend(text.split(' ').nth(1).map(str::to_owned)),
                Event::Name(_) => opened += 1,
                Event::Closed(_) => {}
                Event::Failed => panic!("TLS has failed"),
            }
        }
        assert_eq!((paths, opened), (vec!["/first".to_owned(), "/second".to_owned()], connections));
    }
}

#[test]
fn a_connection_has_addresses_and_options() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", OK);
    let answers = ask(&authority, network(&host, json!({})), json!([{ "ends": "localhost:80" }]));
    assert_eq!(answers, ["198.19.255.254:0 198.19.255.1:80 (false, 64) (true, 9) None"]);
}

#[test]
fn large_bodies_pass_in_pieces_in_both_directions() {
    const KILOBYTES: usize = 8 << 10;
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", OK);
    let head =
        format!("PUT /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", KILOBYTES << 10);
    let questions = json!([{ "upload": ["localhost:80", head, KILOBYTES] }]);
    let answers = ask(&authority, network(&host, json!({})), questions);
    assert!(answers[0].ends_with("hello\""), "{answers:?}");
    let request = host.request();
    let (_, body) = request.split_once("\r\n\r\n").expect("a body");
    assert!(body.len() == KILOBYTES << 10 && body.bytes().all(|byte| byte == b'x'), "{} bytes", body.len());
}

#[test]
fn a_configured_header_is_added_and_the_function_does_not_have_it() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", OK);
    let bearer = json!({ "environment": "PAY_TOKEN", "prefix": "Bearer " });
    let key = json!({ "file": "key" });
    std::fs::write(authority.folder().join("key"), format!("{SECRET}-file\n")).expect("written");
    let headers = json!({ "headers": { "Authorization": bearer, "x-key": key, "x-version": "2" } });
    let own = "GET / HTTP/1.1\r\nHost: other\r\nauthorization: mine\r\nAuthorization: too\r\nX-Key: mine\r\nConnection: x-key, close\r\n\r\n";
    let document = crate::probe(network(&host, headers), json!([{ "exchange": ["localhost:80", own] }]));
    let report = run(&authority, &document, &[("PAY_TOKEN", SECRET)]);
    assert!(printed(&report, "probe")[0].ends_with("hello\""), "{report:#}");
    assert!(!report.to_string().contains(SECRET), "{report:#}");
    let request = host.request();
    for line in
        [format!("authorization: Bearer {SECRET}\r\n"), format!("x-key: {SECRET}-file\r\n"), "x-version: 2\r\n".into()]
    {
        assert_eq!(request.matches(&line).count(), 1, "{request}");
    }
    assert!(!request.contains("mine") && !request.contains("too") && !request.contains("other"), "{request}");
}

#[test]
fn a_header_whose_value_cannot_be_had_stops_the_run() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", OK);
    let headers = json!({ "headers": { "authorization": { "environment": "NO_SUCH_TOKEN" } } });
    let file = authority.folder().join("workflow.json");
    let mut document = crate::probe(network(&host, headers), json!([]));
    document["functions"]["probe"]["image"] = support::image("network-probe").to_str().expect("UTF-8").into();
    std::fs::write(&file, document.to_string()).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_monohull")).arg("run").arg(&file).output().expect("monohull starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let why = "the header `authorization` for localhost: there is no environment variable `NO_SUCH_TOKEN`";
    assert!(output.status.code() != Some(0) && said.contains(why), "{said}");
}

#[test]
fn a_step_off_an_entrys_list_finds_neither_the_name_nor_the_address() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", OK);
    let mut document = crate::probe(network(&host, json!({ "steps": ["charge"] })), json!([]));
    let questions = json!([
        { "resolve": "localhost" }, { "exchange": ["198.19.255.1:80", GET] }, { "exchange": ["localhost:80", GET] },
    ]);
    let step = |name: &str| json!({ "name": name, "function": "probe", "args": { "questions": questions } });
    document["steps"] = json!([step("charge"), step("other")]);
    let report = run(&authority, &document, &[]);
    let allowed = printed(&report, "charge");
    assert!(
        allowed[0].contains("198.19.255.1") && allowed[1..].iter().all(|answer| answer.contains("hello")),
        "{allowed:?}"
    );
    let refused = printed(&report, "other");
    assert!(refused.iter().all(|answer| answer.starts_with("PermissionDenied: ")), "{refused:?}");
    let requests = host.so_far().into_iter().filter(|event| matches!(event, Event::Request(_))).count();
    assert_eq!(requests, 2, "those of the step on the list");
}

#[test]
fn what_is_not_on_the_list_is_refused() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", OK);
    let questions = json!([
        { "resolve": "example.com" },
        { "exchange": ["198.19.255.1:81", GET] },
        { "exchange": ["198.19.255.2:80", GET] },
        { "exchange": ["198.19.255.0:80", GET] },
        { "exchange": ["[::ffff:198.19.255.2]:80", GET] },
        { "exchange": ["127.0.0.1:80", GET] },
        { "send": ["0.0.0.0:0", "198.19.255.1:80"] },
    ]);
    let answers = ask(&authority, network(&host, json!({})), questions);
    assert_eq!(answers.len(), 7);
    assert!(answers.iter().all(|answer| answer.starts_with("PermissionDenied: ")), "{answers:#?}");
    assert_eq!(host.so_far(), []);
}

#[test]
fn a_certificate_for_another_name_is_refused_and_the_answer_has_both_names() {
    let authority = Authority::new();
    let host = Host::start(&authority, "other.example", OK);
    let answers = ask(&authority, network(&host, json!({})), json!([{ "exchange": ["localhost:80", GET] }]));
    assert!(answers[0].starts_with("\"HTTP/1.1 502 Bad Gateway\\r\\n"), "{answers:?}");
    let named = [
        format!("https://localhost:{}: TLS: ", host.address.port()),
        "\\\"localhost\\\"".into(),
        "other.example".into(),
    ];
    assert!(named.iter().all(|name| answers[0].contains(name)), "{answers:?}");
    assert!(!host.so_far().iter().any(|event| matches!(event, Event::Request(_))), "it was sent nothing");
}

#[test]
fn a_certificate_of_an_unknown_authority_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let host = Host::start(&other, "localhost", OK);
    let answers = ask(&authority, network(&host, json!({})), json!([{ "exchange": ["localhost:80", GET] }]));
    assert!(answers[0].starts_with("\"HTTP/1.1 502 "), "{answers:?}");
    assert!(answers[0].contains("invalid peer certificate"), "{answers:?}");
    assert!(!host.so_far().iter().any(|event| matches!(event, Event::Request(_))), "it was sent nothing");
}

#[test]
fn an_unreachable_host_is_an_answer_with_the_reason() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", OK);
    let question = |name: &str| json!([{ "exchange": [format!("{name}:80"), GET] }]);
    // The name leads inside, and no entry covers the address.
    let mut inside = network(&host, json!({}));
    inside["connect"] = json!(["0.0.0.0/0:*"]);
    let answers = ask(&authority, inside, question("localhost"));
    assert!(answers[0].contains(" 502 ") && answers[0].contains("addresses that are not public"), "{answers:?}");
    assert_eq!(host.so_far(), []);
    let unknown = json!({ "mode": "host", "https": ["name.invalid"] });
    let answers = ask(&authority, unknown, question("name.invalid"));
    assert!(answers[0].contains("https://name.invalid:443: the name cannot be resolved"), "{answers:?}");
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let refused = json!({
        "mode": "host", "connect": [closed.to_string()], "https": [{ "host": "localhost", "port": closed.port() }],
    });
    let answers = ask(&authority, refused, question("localhost"));
    assert!(answers[0].contains(&format!("{closed} cannot be connected to: Connection refused")), "{answers:?}");
}

#[test]
fn tunnels_and_other_protocols_are_refused() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", OK);
    let ask_one = |request: &str| json!({ "exchange": ["localhost:80", request] });
    let questions = json!([
        ask_one("CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\nConnection: close\r\n\r\n"),
        ask_one("TRACE / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        ask_one("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\r\n"),
        ask_one("\u{16}\u{3}\u{1} a client of TLS\r\n\r\n"),
    ]);
    let answers = ask(&authority, network(&host, json!({})), questions);
    for (answer, status) in answers.iter().zip(["405", "405", "501", "400"]) {
        assert!(answer.starts_with(&format!("\"HTTP/1.1 {status} ")), "{answers:#?}");
    }
    assert_eq!(host.so_far(), []);
}

#[test]
fn one_request_does_not_become_two() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", OK);
    let hidden = "GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let len = hidden.len();
    let requests = [
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: other\r\nConnection: close\r\n\r\n".to_owned(),
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{hidden}"
        ),
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\nConnection: close\r\n\r\n0\r\n\r\n{hidden}"
        ),
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\nConnection: close\r\n\r\n0\r\n\r\n{hidden}"
        ),
        format!("GET / HTTP/1.1\r\nHost: a\r\nx: y\rz: {hidden}"),
        "GET /a HTTP/1.1\r\nHost: a\r\nx: y\n\rGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\nGET /hidden HTTP/1.1\r\n\r\n".to_owned(),
        // These are one request, however they are spelt: what is hidden is a body.
        format!(
            "POST /zero HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n{hidden}"
        ),
        format!(
            "POST /one HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\nConnection: close\r\n\r\n{len:x}\r\n{hidden}\r\n0\r\n\r\n"
        ),
        format!("GET /two HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{hidden}"),
        format!(
            "GET /three HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{len:x}\r\n{hidden}\r\n0\r\n\r\n"
        ),
    ];
    let questions: Vec<_> = requests.iter().map(|request| json!({ "exchange": ["localhost:80", request] })).collect();
    let answers = ask(&authority, network(&host, json!({})), questions.into());
    // All of what has come, once the connections to the host are closed.
    let (mut arrived, mut closed) = (Vec::new(), 0);
    while closed < 4 {
        match host.next() {
            Event::Request(text) => arrived.push(text),
            Event::Closed(text) => {
                assert_eq!(text, "");
                closed += 1;
            }
            _ => {}
        }
    }
    // The host divides bytes into requests by their lengths, as hosts do.
    assert!(!arrived.iter().any(|request| request.starts_with("GET /hidden")), "{arrived:#?}\n{answers:#?}");
    for (refused, answer) in answers.iter().take(7).enumerate() {
        assert!(answer.starts_with("\"HTTP/1.1 400 "), "{refused}: {answers:#?}");
    }
    let paths: Vec<_> = arrived.iter().filter_map(|request| request.split(' ').nth(1)).collect();
    assert_eq!(paths, ["/zero", "/one", "/two", "/three"], "{arrived:#?}\n{answers:#?}");
}

/// Runs a function that closes its connection after this request, and gives what the host had then received of it.
fn closed_after(answer: &'static str, request: &str, patience_ms: u64) -> (Vec<Event>, Vec<String>) {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", answer);
    // The function goes on until the host has seen the end: it is not the end of the run that closes the connection.
    let goes_on = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = goes_on.local_addr().expect("its address").to_string();
    let mut network = network(&host, json!({}));
    network["connect"].as_array_mut().expect("a list").push(address.clone().into());
    let waiting = std::thread::spawn(move || {
        let mut events = Vec::new();
        while !matches!(events.last(), Some(Event::Closed(_))) {
            events.push(host.next());
        }
        goes_on.accept().expect("the function").0.write_all(b"closed").expect("written");
        events
    });
    let questions = json!([{ "close": ["localhost:80", request, patience_ms] }, { "read": address }]);
    let answers = ask(&authority, network, questions);
    (waiting.join().expect("no panic"), answers)
}

#[test]
fn a_function_that_closes_in_the_middle_ends_the_hosts_connection() {
    let early = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n";
    let unfinished = "PUT /unfinished HTTP/1.1\r\nHost: a\r\nx-early: yes\r\nContent-Length: 1000\r\n\r\nbegin";
    let (events, answers) = closed_after(early, unfinished, 60_000);
    assert!(answers[0].starts_with("closed after \"HTTP/1.1 200 OK"), "{answers:?}");
    assert!(
        matches!(&events[..], [Event::Name(_), Event::Closed(text)] if text.ends_with("\r\n\r\nbegin")),
        "{events:?}"
    );
}

#[test]
fn a_function_that_closes_before_the_answer_ends_the_hosts_connection() {
    let (events, answers) = closed_after("", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1000);
    assert!(answers[0].starts_with("WouldBlock: "), "{answers:?}");
    assert!(matches!(&events[..], [Event::Name(_), Event::Request(_), Event::Closed(_)]), "{events:?}");
}

#[test]
fn connections_of_a_run_are_limited() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", OK);
    let answers = ask(&authority, network(&host, json!({})), json!([{ "many": "localhost:80" }]));
    assert_eq!(answers, ["64 connections, then QuotaExceeded, then another"]);
}

#[test]
fn addresses_on_the_list_are_reached_as_before() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", OK);
    let plain = TcpListener::bind("127.0.0.1:0").expect("a server");
    let address = plain.local_addr().expect("its address").to_string();
    let serving = std::thread::spawn(move || plain.accept().expect("a client").0.write_all(b"no TLS"));
    let mut network = network(&host, json!({}));
    network["connect"].as_array_mut().expect("a list").push(format!("localhost:{}", host.address.port()).into());
    network["connect"].as_array_mut().expect("a list").push(address.clone().into());
    let raw = format!("127.0.0.1:{}", host.address.port());
    // Bytes of the function's own reach a host's TLS as they are: this is no TLS, so the host closes the connection.
    let questions = json!([{ "read": address }, { "exchange": [raw, "no TLS\r\n\r\n"] }]);
    let answers = ask(&authority, network, questions);
    serving.join().expect("no panic").expect("written");
    assert_eq!(answers[0], "no TLS");
    assert_eq!(host.next(), Event::Failed, "{answers:?}");
}
