//! The service as a client meets it: registering, invoking, asking, and every status code.

mod serve_support;

use serde_json::{Value, json};
use serve_support::{Answer, Server, image_bytes, request, root, single};
use std::io::Write;

/// A server with the functions and workflows that these tests use.
fn server_with_examples() -> Server {
    let server = Server::start();
    server.put_shipped("no-op.json");
    server.put_shipped("word-count.json");
    server.put_shipped("json-report.json");
    server.put_example("misbehave");
    server
}

fn misbehaving(server: &Server, how: &str, more: Value) -> String {
    let mut document = single(how, "misbehave", &more);
    document["steps"][0]["args"] = json!({ "how": how });
    server.put_workflow(&document);
    format!("/invoke/{how}")
}

#[test]
fn what_is_registered_can_be_listed_shown_replaced_and_removed() {
    let server = Server::start();
    let image = image_bytes("no-op");
    let created = server.ask("PUT", "/functions/f", &image).expect(201);
    assert_eq!(created.headers["location"], "/functions/f");
    server.ask("PUT", "/functions/f", &image).expect(200);
    let shown = server.get("/functions/f").expect(200).json();
    assert_eq!((shown["name"].as_str(), shown["bytes"].as_u64()), (Some("f"), Some(image.len() as u64)));
    assert!(shown["image"].as_str().is_some_and(|image| image.starts_with("sha256:")));

    let document = single("w", "f", &json!({}));
    server.ask("PUT", "/workflows/w", document.to_string().as_bytes()).expect(201);
    server.ask("PUT", "/workflows/w", document.to_string().as_bytes()).expect(200);
    assert_eq!(server.get("/workflows/w").expect(200).text(), document.to_string());
    let listed = server.get("/workflows").expect(200).json();
    assert_eq!(listed["workflows"][0]["functions"], json!(["f"]));
    assert_eq!(server.get("/functions").expect(200).json()["functions"][0]["workflows"], json!(["w"]));

    server.ask("DELETE", "/functions/f", &[]).error(409, "conflict", "client");
    server.ask("DELETE", "/workflows/w", &[]).expect(204);
    server.ask("DELETE", "/functions/f", &[]).expect(204);
    for path in ["/functions/f", "/workflows/w"] {
        server.get(path).error(404, "not-found", "client");
        server.ask("DELETE", path, &[]).error(404, "not-found", "client");
    }
    assert_eq!(server.get("/functions").expect(200).json()["functions"], json!([]));
}

#[test]
fn a_body_goes_in_and_a_result_comes_out() {
    let server = server_with_examples();
    let answer = server.post("/invoke/word-count", b"one two two\nthree three three\n").expect(200);
    assert_eq!(answer.text(), "3 three\n2 two\n1 one\n");
    assert_eq!(answer.headers["content-type"], "application/octet-stream");
    for header in ["x-duration-seconds", "x-cold-start"] {
        assert!(answer.headers[header].parse::<f64>().is_ok_and(|seconds| seconds > 0.0), "{header}");
    }
    let empty = server.post("/invoke/no-op", b"").expect(200);
    assert!(empty.body.is_empty() && !empty.headers.contains_key("content-type"));
}

#[test]
fn large_bodies_pass_in_both_directions() {
    let server = server_with_examples();
    let line = "alpha beta gamma delta epsilon\n";
    let text = line.repeat((8 << 20) / line.len());
    let answer = server.post("/invoke/word-count", text.as_bytes()).expect(200);
    let count = text.len() / line.len();
    assert_eq!(answer.text().lines().count(), 5);
    assert!(answer.text().lines().all(|line| line.starts_with(&format!("{count} "))), "{}", answer.text());

    // As many different words as make the result itself large.
    let words: String = (0..200_000).map(|number| format!("w{number:06}\n")).collect();
    let answer = server.post("/invoke/word-count", words.as_bytes()).expect(200);
    assert_eq!(answer.body.len(), 200_000 * "1 w000000\n".len());
    assert!(answer.text().lines().all(|line| line.len() == 9 && line.starts_with("1 w")));
}

#[test]
fn the_answer_has_the_media_type_of_the_workflow() {
    let server = server_with_examples();
    let outputs = json!([{ "slot": "report", "content_type": "application/json; charset=utf-8" }]);
    let args = json!({ "title": "t", "orders": [] });
    server.put_workflow(&single("typed", "json-report", &json!({ "outputs": outputs, "args": args })));
    let answer = server.post("/invoke/typed", b"").expect(200);
    assert_eq!(answer.headers["content-type"], "application/json; charset=utf-8");
    assert_eq!(answer.json()["title"], "t");
}

#[test]
fn calls_have_names_and_traces_go_on() {
    let server = server_with_examples();
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let headers = [("X-Call-Id", "order-17"), ("traceparent", parent.as_str())];
    let answer = server.ask_with("POST", "/invoke/no-op", &headers, &[]).expect(200);
    assert_eq!(answer.headers["x-call-id"], "order-17");
    assert!(answer.headers["traceparent"].starts_with(&format!("00-{trace}-")));
    assert_ne!(answer.headers["traceparent"], parent);

    let answer = server.ask_with("POST", "/invoke/nothing", &headers, &[]).expect(404);
    assert_eq!(answer.headers["x-call-id"], "order-17");
    server.ask_with("POST", "/invoke/no-op", &[("X-Call-Id", "a b")], &[]).error(400, "bad-request", "client");

    let plain = server.post("/invoke/no-op", b"").expect(200);
    assert_eq!(plain.headers["x-call-id"], plain.headers["x-invocation-id"]);
    assert!(plain.headers["traceparent"].starts_with("00-"));
}

#[test]
fn failures_name_cause_place_and_blame() {
    let server = server_with_examples();
    let cases = [
        ("panic", 502, "panic", "function"),
        ("null-write", 502, "memory-fault", "function"),
        ("return-error", 502, "error", "function"),
        ("missing-slot", 502, "error", "function"),
        ("deadlock", 502, "deadlock", "function"),
    ];
    for (how, status, kind, blame) in cases {
        let error = server.post(&misbehaving(&server, how, json!({})), b"").error(status, kind, blame);
        assert_eq!((error["step"].as_str(), error["instance"].as_u64()), (Some("main"), Some(0)), "{error:#}");
        assert_eq!(error["report"]["status"], "failed", "{error:#}");
    }
    let path = misbehaving(&server, "endless-loop", json!({ "timeout": "100ms" }));
    let error = server.post(&path, b"").expect(504).json()["error"].take();
    assert_eq!((error["kind"].as_str(), error["step"].as_str()), (Some("timeout"), Some("main")), "{error:#}");
    let path = misbehaving(&server, "sleep", json!({ "limits": { "timeout": "100ms" } }));
    server.post(&path, b"").error(504, "timeout", "workflow");

    let shown = server.get("/invocations").expect(200).json();
    let newest = &shown["invocations"][0];
    assert_eq!((newest["workflow"].as_str(), newest["http_status"].as_u64()), (Some("sleep"), Some(504)));
}

#[test]
fn the_servers_own_timeout_holds_too() {
    let server = Server::start_with(&["--timeout", "300ms"]);
    server.put_example("misbehave");
    let path = misbehaving(&server, "endless-loop", json!({}));
    server.post(&path, b"").error(504, "timeout", "workflow");
}

/// What the host permits is used and reported; requiring what it does not permit is an error with the reason.
#[test]
fn the_control_groups_of_processes_are_reported() {
    let shown = |server: &Server| {
        let shown = server.get("/healthz").expect(200).json()["cgroup"].as_str().expect("words").to_owned();
        let which = shown.split(':').next().unwrap_or_default();
        let line = format!("monohull_cgroup{{mode=\"{which}\"}} 1\n");
        assert!(server.get("/metrics").text().contains(&line), "{shown}");
        shown
    };
    assert_eq!(shown(&Server::start_with(&["--cgroup", "never"])), "none: --cgroup never");
    let permitted = shown(&Server::start());
    if permitted == "own" {
        assert_eq!(shown(&Server::start_with(&["--cgroup", "require"])), "own");
        return;
    }
    let why = permitted.strip_prefix("none: ").expect("a reason");
    let state = tempfile::tempdir().expect("a folder");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--cgroup", "require", "--state"]).arg(state.path());
    let output = command.output().expect("monohull starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains(why), "{}: {said}", output.status);
}

#[test]
fn asynchronous_calls_are_accepted_and_answered_later() {
    let server = server_with_examples();
    let accepted = server.ask_with("POST", "/async-invoke/word-count", &[("X-Call-Id", "later")], b"a b a").expect(202);
    let location = accepted.headers["location"].clone();
    assert_eq!(accepted.json()["location"], location.as_str());
    let shown = server.ended(&location);
    assert_eq!((shown["status"].as_str(), shown["call_id"].as_str()), (Some("completed"), Some("later")), "{shown:#}");
    assert_eq!(shown["result"]["counts"]["text"], "2 a\n1 b\n");
    assert_eq!(shown["report"]["status"], "done");
    let names: Vec<&str> =
        shown["points"].as_array().expect("points").iter().filter_map(|p| p["name"].as_str()).collect();
    let in_order = [
        "accepted",
        "received",
        "dispatched",
        "domain-ready",
        "image-mapped",
        "first-instruction",
        "answered",
        "ended",
    ];
    let seen: Vec<&str> = names.iter().copied().filter(|name| in_order.contains(name)).collect();
    assert_eq!(seen, in_order, "each once, and none before what it follows from");
    let href = shown["result"]["counts"]["href"].as_str().expect("an address");
    assert_eq!(server.get(href).expect(200).text(), "2 a\n1 b\n");

    server.post("/async-invoke/unknown", b"").error(404, "not-found", "client");
    server.get("/invocations/unknown").error(404, "not-found", "client");

    let path = misbehaving(&server, "panic", json!({})).replace("/invoke/", "/async-invoke/");
    let location = server.post(&path, b"").expect(202).headers["location"].clone();
    let shown = server.ended(&location);
    assert_eq!((shown["status"].as_str(), shown["error"]["kind"].as_str()), (Some("failed"), Some("panic")));
    server.get(&format!("{location}/outputs/x")).error(404, "not-found", "client");
}

#[test]
fn what_functions_print_is_kept() {
    let server = server_with_examples();
    server.put_shipped("std-tour.json");
    let answer = server.post("/invoke/std-tour", b"").expect(200);
    let logs = format!("/invocations/{}/logs", answer.headers["x-invocation-id"]);
    let text = server.get(&logs).expect(200).text();
    assert!(text.lines().count() > 3 && text.lines().all(|line| line.contains("[0] ")), "{text}");
    let json = server.get(&format!("{logs}?format=json")).expect(200).text();
    let first: Value = serde_json::from_str(json.lines().next().expect("a line")).expect("JSON");
    assert_eq!((first["instance"].as_u64(), first["stream"].as_str()), (Some(0), Some("stdout")));
    assert_eq!(json.lines().count(), text.lines().count());
    assert_eq!(server.get(&format!("{logs}?follow=true")).expect(200).text(), text);
    server.get(&format!("{logs}?format=xml")).error(400, "bad-request", "client");
    server.get(&format!("{logs}?folow=true")).error(400, "bad-request", "client");
}

#[test]
fn a_whole_document_runs_without_being_registered() {
    let server = server_with_examples();
    let mut document: Value = server.get("/workflows/word-count").expect(200).json();
    document["name"] = "other".into();
    let body = json!({ "workflow": document, "inputs": { "text": "a b a" } });
    let shown = server.post("/run", body.to_string().as_bytes()).expect(200).json();
    assert_eq!(shown["result"]["counts"]["text"], "2 a\n1 b\n");
    let body = json!({ "workflow": document, "inputs": { "text": { "base64": "YSBiIGE=" } } });
    let shown = server.post("/run", body.to_string().as_bytes()).expect(200).json();
    assert_eq!(shown["result"]["counts"]["text"], "2 a\n1 b\n");
    server.post("/invoke/other", b"").expect(404);

    for (body, status) in [
        (json!({}), 400),
        (json!({ "workflow": document }), 400),
        (json!([document, { "text": "a b a" }]), 400),
        (json!({ "workflow": document, "inputs": { "text": "a", "more": "b" } }), 400),
        (json!({ "workflow": document, "inputs": { "text": { "base64": "?" } } }), 400),
        (json!({ "workflow": { "name": "x" } }), 422),
    ] {
        server.post("/run", body.to_string().as_bytes()).expect(status);
    }
}

/// A missing body differs from an empty input.
#[test]
fn a_request_without_a_body_gives_no_input() {
    let server = server_with_examples();
    for path in ["/invoke/word-count", "/async-invoke/word-count"] {
        let error = server.post(path, b"").error(400, "missing-input", "client");
        let message = error["message"].as_str().expect("text");
        assert!(message.starts_with("input slot `text` is missing: the request has no body"), "{message}");
        assert!(message.contains("Content-Type"), "{message}");
    }
    let typed = [("Content-Type", "application/octet-stream")];
    assert_eq!(server.ask_with("POST", "/invoke/word-count", &typed, b"").expect(200).text(), "");
    let both = single("both", "json-report", &json!({ "inputs": ["a", "b"] }));
    server.put_workflow(&both);
    let error = server.post("/invoke/both", b"").error(400, "missing-input", "client");
    assert_eq!(error["message"], "input slots `a`, `b` are missing: the request has no body");
}

#[test]
fn several_inputs_and_outputs_are_json() {
    let server = server_with_examples();
    let document = single(
        "both",
        "json-report",
        &json!({ "inputs": ["a", "b"], "outputs": ["report"], "unread": "ignore", "args": { "title": "t", "orders": [] } }),
    );
    server.put_workflow(&document);
    let json_type = [("Content-Type", "application/json")];
    server.ask_with("POST", "/invoke/both", &json_type, br#"{"a":"1","b":{"base64":"MQ=="}}"#).expect(200);
    server.ask_with("POST", "/invoke/both", &json_type, br#"{"a":"1"}"#).error(400, "missing-input", "client");
    server.ask_with("POST", "/invoke/both", &json_type, br#"["a"]"#).error(400, "bad-request", "client");
    let plain = server.ask_with("POST", "/invoke/both", &[("Content-Type", "text/plain")], b"a");
    plain.error(415, "unsupported-media-type", "client");
    let zipped = server.ask_with("POST", "/invoke/word-count", &[("Content-Encoding", "gzip")], b"a");
    zipped.error(415, "unsupported-media-type", "client");
    server.post("/invoke/no-op", b"something").error(400, "bad-request", "client");
    assert_eq!(server.post("/invoke/word-count?output=counts", b"a").expect(200).text(), "1 a\n");
    server.post("/invoke/word-count?output=count", b"a").error(400, "bad-request", "client");
}

#[test]
fn what_is_wrong_is_refused_with_its_reason() {
    let server = server_with_examples();
    let error = server.ask("PUT", "/functions/bad", b"\x7fELF").error(422, "invalid", "function");
    assert!(error["message"].as_str().expect("a message").contains("bad"), "{error:#}");
    let error = server.ask("PUT", "/functions/bad", &image_bytes("forbidden-instruction"));
    let error = error.error(422, "invalid", "function");
    assert!(error["finding"]["kind"].is_string(), "{error:#}");
    server.get("/functions/bad").expect(404);

    let mut document = single("w", "no-op", &json!({}));
    document["steps"][0]["after"] = json!(["unknown"]);
    document["functions"]["f"]["image"] = "/etc/passwd".into();
    document["inputs"] = json!([{ "slot": "s", "path": "/etc/shadow" }]);
    document["files"] = json!([{ "at": "/a", "image": "/dev/sda" }, { "at": "/b", "directory": "/etc" }]);
    let error = server.ask("PUT", "/workflows/w", document.to_string().as_bytes()).error(422, "invalid", "workflow");
    let mistakes = error["mistakes"].as_array().expect("mistakes");
    assert_eq!(mistakes.len(), 5, "{error:#}");
    assert!(mistakes.iter().all(|mistake| mistake["line"] == 1 && mistake["column"].as_u64() > Some(1)));
    let unknown = single("w", "noop", &json!({})).to_string();
    let error = server.ask("PUT", "/workflows/w", unknown.as_bytes()).error(422, "invalid", "workflow");
    assert!(error["message"].as_str().expect("a message").contains("no function is registered as `noop`"));
    let other = single("v", "no-op", &json!({})).to_string();
    server.ask("PUT", "/workflows/w", other.as_bytes()).error(422, "invalid", "client");
    server.ask("PUT", "/workflows/w", b"{").error(422, "invalid", "workflow");
    server.get("/workflows/w").expect(404);

    for name in ["a.b", "-a", "%20", "..%2Fx", &"x".repeat(64)] {
        let path = format!("/functions/{name}");
        server.ask("PUT", &path, &image_bytes("no-op")).error(400, "bad-request", "client");
    }
    server.get("/nowhere").error(404, "not-found", "client");
    let wrong = server.ask("PATCH", "/functions/no-op", &[]);
    assert_eq!(wrong.headers["allow"], "GET, HEAD, PUT, DELETE");
    wrong.error(405, "method-not-allowed", "client");
    let suggestion = server.post("/invoke/noop", b"").error(404, "not-found", "client");
    assert!(suggestion["message"].as_str().expect("a message").contains("did you mean `no-op`?"));
}

#[test]
fn a_document_that_is_too_large_or_wrong_all_over_costs_little() {
    let server = Server::start();
    server.put_example("no-op");
    let mut document = single("w", "no-op", &json!({ "description": "x".repeat(4 << 20) }));
    let large = json!({ "workflow": document }).to_string();
    server.post("/run", large.as_bytes()).error(413, "too-large", "client");
    document["description"] = "short".into();
    for number in 0..1000 {
        document[format!("unknown{number}")] = json!(null);
    }
    let wrong = json!({ "workflow": document }).to_string();
    let answers =
        [server.post("/run", wrong.as_bytes()), server.ask("PUT", "/workflows/w", document.to_string().as_bytes())];
    for answer in answers {
        let error = answer.error(422, "invalid", "workflow");
        assert_eq!(error["mistakes"].as_array().map(Vec::len), Some(100));
        assert!(error["message"].as_str().expect("a message").ends_with("… and 900 more"), "{error:#}");
    }
}

#[test]
fn unregistered_names_are_not_counted_one_by_one() {
    let server = server_with_examples();
    for name in ["made-up-1", "made-up-2"] {
        let document = json!({ "workflow": single(name, "no-op", &json!({})) });
        server.post("/run", document.to_string().as_bytes()).expect(200);
    }
    let metrics = server.get("/metrics").expect(200).text();
    assert!(metrics.contains("monohull_invocations_total{workflow=\"\",outcome=\"completed\"} 2\n"), "{metrics}");
    assert!(!metrics.contains("made-up"), "{metrics}");
}

#[test]
fn a_body_over_the_limit_is_refused() {
    let server = Server::start_with(&["--max-body", "1MiB"]);
    server.put_shipped("word-count.json");
    server.post("/invoke/word-count", &vec![b'a'; 1 << 20]).expect(200);
    // Announced, and not.
    let error = server.post("/invoke/word-count", &vec![b'a'; (1 << 20) + 1]).error(413, "too-large", "client");
    assert!(error["message"].as_str().expect("a message").contains("1048576"));
    let mut stream = server.connect();
    stream
        .write_all(b"POST /invoke/word-count HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        .expect("sent");
    for _ in 0..33 {
        // It may answer before all has been sent.
        let _ = stream.write_all(format!("8000\r\n{}\r\n", "a".repeat(0x8000)).as_bytes());
    }
    Answer::read(&mut stream).expect("an answer").expect(413);
}

#[test]
fn health_and_metrics_are_there() {
    let server = server_with_examples();
    for path in ["/livez", "/readyz"] {
        assert_eq!(server.get(path).expect(200).text(), "ok\n");
    }
    let health = server.get("/healthz").expect(200).json();
    assert_eq!((health["status"].as_str(), health["trouble"].as_str()), (Some("ready"), None));
    server.post("/invoke/no-op", b"").expect(200);
    server.post("/invoke/word-count", b"a b").expect(200);
    server.post(&misbehaving(&server, "panic", json!({})), b"").expect(502);
    let text = server.get("/metrics").expect(200).text();
    for line in [
        "monohull_invocations_total{workflow=\"no-op\",outcome=\"completed\"} 1\n",
        "monohull_invocations_total{workflow=\"panic\",outcome=\"panic\"} 1\n",
        "monohull_invocation_duration_seconds_count{workflow=\"no-op\"} 1\n",
        "monohull_cold_start_seconds_count 3\n",
        "monohull_faults_total{kind=\"panic\"} 1\n",
        "monohull_module_loads_total{module=\"mm\"} ",
        "monohull_slot_bytes_total{direction=\"in\"} ",
        "monohull_http_requests_total{route=\"/invoke/{name}\",status=\"200\"} 2\n",
        "monohull_domains{state=\"running\"} 0\n",
        "monohull_isolation{mode=\"",
        "monohull_queued 0\n",
        "# EOF\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    server.ask("DELETE", "/workflows/panic", &[]).expect(204);
    assert!(!server.get("/metrics").expect(200).text().contains("workflow=\"panic\""));
}

#[test]
fn one_connection_carries_many_requests() {
    let server = server_with_examples();
    let mut stream = server.connect();
    // Sent at once, answered in order.
    let keep = [("Connection", "keep-alive")];
    let pipelined = ["a", "b b", "c c c"].map(|text| request("POST", "/invoke/word-count", &keep, text.as_bytes()));
    stream.write_all(&pipelined.concat()).expect("sent");
    for expected in ["1 a\n", "2 b\n", "3 c\n"] {
        assert_eq!(Answer::read(&mut stream).expect("an answer").expect(200).text(), expected);
    }
    stream.write_all(&request("HEAD", "/workflows", &keep, &[])).expect("sent");
    stream.write_all(&request("GET", "/livez", &[], &[])).expect("sent");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stream, &mut rest).expect("the end");
    let answers: Vec<&str> = rest.matches("HTTP/1.1 200 OK").collect();
    assert!(answers.len() == 2 && rest.ends_with("\r\n\r\nok\n"), "{rest}");
}

#[test]
fn without_its_options_help_is_given() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_monohull"))
        .args(["serve", "--help"])
        .current_dir(root())
        .output()
        .expect("monohull starts");
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(help.contains("Example:\n  monohull serve") && help.contains("Exit codes:\n"), "{help}");
}
