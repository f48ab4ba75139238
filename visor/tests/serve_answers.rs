//! Workflows that answer HTTP requests (`"http"` of their documents): what they get, what clients get, and what a function cannot do.

mod serve_support;

use serde_json::{Value, json};
use serve_support::{Answer, Server, request, root};
use std::io::{Read, Write};

/// A server with the native function and the component of the examples.
fn server_with(options: &[&str], env: &[(&str, &str)]) -> Server {
    Server::start_on(&serve_support::StateFolder::new(), options, env)
}

fn server() -> Server {
    let server = server_with(&[], &[]);
    server.put_shipped("http-hello.json");
    server
}

/// All bytes of the answer to a request, after which the connection ends.
#[track_caller]
fn all_of(server: &Server, request: &[u8]) -> String {
    let mut stream = server.connect();
    stream.write_all(request).expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What comes of an answer that is this message.
#[track_caller]
fn answered(server: &Server, message: &[u8]) -> Answer {
    server.post("/http/http-hello/answer", message)
}

#[test]
fn a_function_gets_the_request_and_its_answer_is_sent() {
    let server = server();
    for path in ["/http/http-hello", "/http/http-hello/", "/http/http-hello/?a=b"] {
        let answer = server.get(path).expect(200);
        assert_eq!(answer.text(), "hello\n", "{path}");
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
        assert!(answer.headers.contains_key("x-invocation-id") && answer.headers.contains_key("x-duration-seconds"));
    }
    let headers =
        [("X-A", "1"), ("x-b", "2"), ("X-A", "3"), ("Connection", "close, X-Hop"), ("X-Hop", "1"), ("TE", "trailers")];
    let answer = server.ask_with("GET", "/http/http-hello/request?q=%20a&q", &headers, &[]).expect(200);
    let mut lines: Vec<_> = answer.text().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["/request?q=%20a&q", "content-length: 0", "host: 127.0.0.1", "x-a: 1", "x-a: 3", "x-b: 2"],
        "nothing about the connection"
    );
    for (method, path, status) in [("DELETE", "/request", 405), ("PUT", "/a/../%2e%2e//b", 404), ("OPTIONS", "/", 405)]
    {
        server.ask(method, &format!("/http/http-hello{path}"), &[]).expect(status);
    }
    let listed = server.get("/invocations").expect(200).json();
    let completed = |one: &Value| one["status"] == "completed" && one["workflow"] == "http-hello";
    assert!(listed["invocations"].as_array().expect("a list").iter().all(completed), "{listed:#}");
    // The same workflow is invoked with a message as its input.
    let invoked = server.post("/invoke/http-hello", b"GET / HTTP/1.1\r\n\r\n").expect(200);
    assert_eq!(invoked.text(), "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\n\r\nhello\n");
    assert_eq!(invoked.headers["content-type"], "message/http");
}

#[test]
fn an_answer_to_head_has_no_content() {
    let server = server();
    let answer = all_of(&server, &request("HEAD", "/http/http-hello/", &[], &[]));
    let (head, content) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("content-length: 6"), "{answer}");
    assert_eq!(content, "");
}

#[test]
fn contents_of_any_length_arrive_in_both_directions() {
    let server = server();
    for length in [0, 1, 1000, 64 << 10, (64 << 10) + 1, 3 << 20] {
        let content: Vec<u8> = (0..length).map(|index: usize| (index * 7) as u8).collect();
        let answer = server.post("/http/http-hello/echo", &content).expect(200);
        assert!(answer.body == content, "{length}: {} bytes", answer.body.len());
        // The length is known only when all of it is there.
        let mut chunked = b"POST /http/http-hello/echo HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for chunk in content.chunks(1 << 20) {
            chunked.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            chunked.extend_from_slice(chunk);
            chunked.extend_from_slice(b"\r\n");
        }
        chunked.extend_from_slice(b"0\r\nX-Trailer: dropped\r\n\r\n");
        let answer = server.raw(&chunked).expect("an answer").expect(200);
        assert!(answer.body == content, "{length} in chunks: {} bytes", answer.body.len());
    }
    let chunked = "GET /http/http-hello/request HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let seen = server.raw(chunked.as_bytes()).expect("an answer").expect(200).text();
    assert!(seen.lines().any(|line| line == "content-length: 5"), "{seen}");
    assert!(!seen.contains("transfer-encoding"), "{seen}");
}

#[test]
fn an_answer_is_sent_as_the_function_has_written_it() {
    let server = server();
    let message = "HTTP/1.1 418 Short and Stout\r\nX-Twice: a=1\r\nX-Twice: b=2\r\nSet-Cookie: c=3\r\nETag: \"x\"\r\n\
                   Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 5\r\n\r\nshort";
    let asked = request("POST", "/http/http-hello/answer", &[], message.as_bytes());
    let answer = all_of(&server, &asked);
    let (head, content) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 418 ") && content == "short", "{answer}");
    for line in ["x-twice: a=1", "x-twice: b=2", "etag: \"x\"", "content-length: 5"] {
        assert_eq!(head.lines().filter(|other| *other == line).count(), 1, "{line}: {answer}");
    }
    assert!(!head.contains("x-hop") && !head.contains("timeout=5") && !head.contains("set-cookie"), "{answer}");
    for (message, status) in [
        ("HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\n\r\n", 302),
        ("HTTP/1.1 204 No Content\r\n\r\n", 204),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304),
        ("HTTP/1.1 503 Later\r\nRetry-After: 7\r\n\r\nlater", 503),
        ("HTTP/1.0 599\r\n\r\n", 599),
    ] {
        answered(&server, message.as_bytes()).expect(status);
    }
}

#[test]
fn what_is_no_answer_is_502_and_says_why() {
    let server = server();
    let huge = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(70_000));
    for (message, why) in [
        ("", "no empty line ends its head"),
        ("hello", "line 1 of its head is `hello`"),
        ("GET / HTTP/1.1\r\n\r\n", "line 1 of its head is `GET / HTTP/1.1`"),
        ("HTTP/1.1 99 Low\r\n\r\n", "line 1"),
        ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "its status is 101"),
        ("HTTP/1.1 600 High\r\n\r\n", "its status is 600"),
        ("HTTP/1.1 200 OK\r\nX-A: a\rSet-Cookie: b\r\n\r\n", "line 2"),
        ("HTTP/1.1 200 OK\r\nX A: a\r\n\r\n", "line 2"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "transfer-encoding"),
        ("HTTP/1.1 204 No Content\r\n\r\nhello", "has no content"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", "`content-length` is `1`, and its content has 0 bytes"),
        (&huge, "longer than 65536 bytes"),
    ] {
        let error = answered(&server, message.as_bytes()).error(502, "malformed-answer", "function");
        let said = error["message"].as_str().expect("a message");
        assert!(said.contains("slot `response`") && said.contains(why), "{message:?}: {said}");
    }
    // The workflow is served on.
    assert_eq!(server.get("/http/http-hello/").expect(200).text(), "hello\n");
}

/// A client that shares its connection with others, as proxies do, gets one answer to each request.
#[test]
fn an_answer_cannot_hold_another_one() {
    let server = server();
    let second = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
    let mut asked = Vec::new();
    let attacks = [
        // The content ends where the function says, if it can.
        format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n{second}"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{second}"),
        format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: {}\r\n\r\n{second}", second.len()),
        format!("HTTP/1.1 204 No Content\r\n\r\n{second}"),
        format!("HTTP/1.1 304 Not Modified\r\n\r\n{second}"),
        format!("HTTP/1.1 100 Continue\r\n\r\n{second}"),
        format!("HTTP/1.1 200 OK\r\nX: a\r\n\r\n{second}"),
    ];
    for attack in &attacks {
        asked.extend(request("POST", "/http/http-hello/answer", &[("Connection", "keep-alive")], attack.as_bytes()));
    }
    asked.extend(request("GET", "/http/http-hello/", &[], &[]));
    let mut stream = server.connect();
    stream.write_all(&asked).expect("sent");
    let mut statuses: Vec<u16> = attacks.iter().map(|_| Answer::read(&mut stream).expect("an answer").status).collect();
    let last = statuses.pop().expect("the control");
    assert!(statuses.iter().all(|status| *status == 502), "{statuses:?}");
    // The last is content that looks like an answer, and is its content.
    assert_eq!(last, 200);
    assert_eq!(Answer::read(&mut stream).expect("an answer").expect(200).text(), "hello\n");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the end");
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
}

/// The address is the server's, and so is what browsers keep for all of it.
#[test]
fn a_page_of_a_function_is_not_one_of_the_server() {
    let server = server();
    let message = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Security-Policy: script-src *\r\n\
                   Clear-Site-Data: \"*\"\r\nStrict-Transport-Security: max-age=9\r\nService-Worker-Allowed: /\r\n\
                   Alt-Svc: h2=\":1\"\r\nX-Invocation-Id: forged\r\nX-Call-Id: forged\r\nTraceparent: forged\r\n\
                   X-Duration-Seconds: forged\r\n\r\n<script></script>";
    let answer = all_of(&server, &request("POST", "/http/http-hello/answer", &[], message.as_bytes()));
    let (head, content) = answer.split_once("\r\n\r\n").expect("a head");
    assert_eq!(content, "<script></script>");
    let policies: Vec<_> = head.lines().filter_map(|line| line.strip_prefix("content-security-policy: ")).collect();
    assert_eq!(policies.len(), 2, "{head}");
    assert!(policies.iter().any(|policy| policy.starts_with("sandbox ") && !policy.contains("allow-same-origin")));
    for name in ["forged", "clear-site-data", "strict-transport-security", "service-worker-allowed", "alt-svc"] {
        assert!(!head.contains(name), "{name}: {head}");
    }
    // Pages without an origin, as sandboxed ones are, may not ask a server without a token.
    let refused = server.ask_with("POST", "/http/http-hello/echo", &[("Origin", "null")], b"x");
    refused.error(403, "forbidden", "client");
}

#[test]
fn the_token_of_the_server_does_not_reach_a_function() {
    let seen = |server: &Server, authorization: &str| {
        let headers = [("Authorization", authorization), ("X-A", "1")];
        server.ask_with("GET", "/http/http-hello/request", &headers, &[]).expect(200).text()
    };
    let server = server();
    let shown = seen(&server, "Basic YTpi");
    assert!(shown.contains("authorization: Basic YTpi"), "{shown}");
    // With a token the header is the server's.
    let state = server.state();
    server.stop();
    let server = Server::start_on(&state, &[], &[("MONOHULL_TOKEN", "s3cret")]);
    let shown = seen(&server, "Bearer s3cret");
    assert!(shown.contains("x-a: 1") && !shown.to_lowercase().contains("authorization"), "{shown}");
    server.get("/http/http-hello/request").error(401, "unauthorized", "client");
}

#[test]
fn what_a_server_refuses_of_other_requests_it_refuses_here() {
    let server = server_with(&["--max-body", "1MiB"], &[]);
    server.put_shipped("http-hello.json");
    server.put_shipped("echo.json");
    server.get("/http/unknown/").error(404, "not-found", "client");
    let error = server.post("/http/echo/", b"x").error(404, "not-found", "client");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("/invoke/echo")), "{error:#}");
    server.ask("TRACE", "/http/http-hello/", &[]).error(405, "method-not-allowed", "client");
    server.post("/http/http-hello/echo", &vec![0; (1 << 20) + 1]).error(413, "too-large", "client");
    server.post("/http/http-hello/echo", &vec![0; 1 << 20]).expect(200);
    // What a content is coded as is between client and function.
    let headers = [("Content-Encoding", "gzip"), ("Content-Type", "application/vnd.monohull.slots+json")];
    let answer = server.ask_with("POST", "/http/http-hello/echo", &headers, b"coded").expect(200);
    assert_eq!(answer.text(), "coded");
}

/// A client of HTTP expects the answer, and not an address where it will be.
#[test]
fn a_workflow_that_waits_does_so_in_its_process() {
    let server = server_with(&["--suspend", "1s"], &[]);
    server.put_example("http-hello");
    server.put_example("sleeper");
    let mut document: Value =
        serde_json::from_slice(&std::fs::read(root().join("workflows/http-hello.json")).expect("readable"))
            .expect("JSON");
    document["functions"]["hello"]["image"] = "function:http-hello".into();
    document["functions"]["sleeper"] = json!({ "image": "function:sleeper" });
    document["unread"] = "ignore".into();
    let nap = json!({ "naps": 1, "milliseconds": 1500, "takes": "", "fills": "slept" });
    document["steps"] = json!([
        { "name": "sleeper", "function": "sleeper", "args": nap },
        { "name": "hello", "function": "hello", "after": ["sleeper"] },
    ]);
    server.put_workflow(&document);
    // The control: another client is told where to ask.
    server.post("/invoke/http-hello", b"GET / HTTP/1.1\r\n\r\n").expect(202);
    assert_eq!(server.get("/http/http-hello/").expect(200).text(), "hello\n");
}

/// A component of `wasi:http/proxy` (`wasi/guests/http`).
#[test]
fn a_component_answers_requests() {
    let server = server_with(&[], &[]);
    server.put_shipped("wasi-http.json");
    let at = |path: &str| format!("/http/wasi-http{path}");
    let answer = server.get(&at("/")).expect(200);
    assert_eq!(answer.text(), "hello from a component\n");
    assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    for (method, shown) in
        [("GET", "Get"), ("PUT", "Put"), ("PATCH", "Patch"), ("DELETE", "Delete"), ("OPTIONS", "Options")]
    {
        let headers = [("X-A", "1"), ("X-A", "2"), ("Cookie", "c=3")];
        let seen = server.ask_with(method, &at("/request?a=%20"), &headers, b"x").expect(200).text();
        let mut lines: Vec<_> = seen.lines().collect();
        assert_eq!(lines[0], format!("Method::{shown}"), "{seen}");
        assert_eq!(lines[1], "\"/request?a=%20\" http \"127.0.0.1\"", "{seen}");
        lines[2..].sort_unstable();
        assert_eq!(lines[2..], ["content-length: 1", "x-a: 1", "x-a: 2"], "{seen}");
    }
    let head = all_of(&server, &request("HEAD", &at("/bytes?1000"), &[], &[]));
    assert!(head.contains("content-length: 1000\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    for length in [0, 1, 100_000, 3 << 20] {
        let content: Vec<u8> = (0..length).map(|index: usize| (index * 3) as u8).collect();
        let headers = [("Content-Type", "image/x-test")];
        let answer = server.ask_with("POST", &at("/echo"), &headers, &content).expect(200);
        assert!(answer.body == content, "{length}: {} bytes", answer.body.len());
        assert_eq!(answer.headers["content-type"], "image/x-test");
        let answer = server.get(&at(&format!("/bytes?{length}"))).expect(200);
        assert_eq!(answer.body.len(), length);
    }
    let cookies = all_of(&server, &request("GET", &at("/cookies"), &[], &[]));
    assert!(cookies.starts_with("HTTP/1.1 200 ") && !cookies.contains("set-cookie"), "{cookies}");
    for status in [201, 404, 500, 503] {
        server.get(&at(&format!("/status?{status}"))).expect(status);
    }
    server.get(&at("/none")).expect(404);
    for (path, why) in [
        ("/silent", "without an answer"),
        ("/trap", "unreachable"),
        ("/error", "InternalError"),
        ("/unfinished", "had finished the answer's body"),
    ] {
        let error = server.get(&at(path)).error(502, "error", "function");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(why)), "{path}: {error:#}");
        server.get(&at("/")).expect(200);
    }
}
