//! What a hostile client can send, and what a hostile page in a browser can.

mod serve_support;

use serde_json::json;
use serve_support::{Answer, Server, StateFolder, image_bytes, request, single};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

/// Requests that are none. Each is refused or its connection closed, none of them is let through.
#[test]
fn what_is_no_request_is_refused() {
    let server = Server::start();
    server.put_shipped("echo.json");
    let long = |len: usize| "x".repeat(len);
    let post = "POST /invoke/echo HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    let many: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    let cases: &[(&str, String)] = &[
        ("no words", "\0\0\0\0\r\n\r\n".to_owned()),
        ("a TLS hello", "\x16\x03\x01\x02\0\x01\0\x01\r\n\r\n".to_owned()),
        ("HTTP/2's preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        ("no version", "GET /livez\r\n\r\n".to_owned()),
        ("another version", "GET /livez HTTP/9.9\r\n\r\n".to_owned()),
        ("a space in the path", "GET /live z HTTP/1.1\r\n\r\n".to_owned()),
        ("a control character", "GET /livez\x01 HTTP/1.1\r\n\r\n".to_owned()),
        ("a header without a colon", format!("{post}nonsense\r\n\r\n")),
        ("a header with a space in its name", format!("{post}Content-Length : 5\r\n\r\nhello")),
        ("a header with a zero byte", format!("{post}x: a\0b\r\n\r\n")),
        ("a folded header", format!("{post}x: a\r\n b\r\nContent-Length: 5\r\n\r\nhello")),
        ("two lengths", format!("{post}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!")),
        ("a negative length", format!("{post}Content-Length: -5\r\n\r\nhello")),
        ("a signed length", format!("{post}Content-Length: +5\r\n\r\nhello")),
        ("a length too long", format!("{post}Content-Length: 99999999999999999999\r\n\r\n")),
        ("an unknown coding", format!("{post}Transfer-Encoding: magic\r\n\r\nhello")),
        ("chunks that are none", format!("{post}Transfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n")),
        ("a chunk too long", format!("{post}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n")),
        ("no host", "POST /invoke/echo HTTP/1.1\r\nContent-Length: 1\r\n\r\nx".to_owned()),
        ("an empty host", "POST /invoke/echo HTTP/1.1\r\nHost:\r\nContent-Length: 1\r\n\r\nx".to_owned()),
        ("two hosts", format!("{post}Host: 127.0.0.1\r\nContent-Length: 1\r\n\r\nx")),
        (
            "another host in the address",
            format!("{}Content-Length: 1\r\n\r\nx", post.replace("/inv", "http://localhost/inv")),
        ),
        ("two origins", format!("{post}Origin: http://127.0.0.1\r\nOrigin: http://x\r\nContent-Length: 1\r\n\r\nx")),
        ("chunked twice", format!("{post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")),
        ("chunked twice at once", format!("{post}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n")),
        ("a long path", format!("GET /{} HTTP/1.1\r\n\r\n", long(100_000))),
        ("a long header", format!("{post}x: {}\r\n\r\n", long(1_000_000))),
        ("many headers", format!("{post}{many}\r\n")),
    ];
    for (what, bytes) in cases {
        let mut stream = server.connect();
        let _ = stream.write_all(bytes.as_bytes());
        serve_support::half_close(&stream);
        let status = Answer::read(&mut stream).map(|answer| answer.status);
        assert!(status.is_none_or(|status| (400..500).contains(&status)), "{what}: {status:?}");
    }
    // Where the next request begins may be unclear, so none is read.
    let two = format!("{post}Host: x\r\nContent-Length: 1\r\n\r\nx{post}Content-Length: 1\r\n\r\nx");
    let mut stream = server.connect();
    stream.write_all(two.as_bytes()).expect("sent");
    let mut all = String::new();
    let _ = stream.read_to_string(&mut all);
    assert!(all.starts_with("HTTP/1.1 400 ") && all.matches("HTTP/1.1 ").count() == 1, "{all}");
    let listed = server.get("/invocations").expect(200).json();
    assert_eq!(listed["invocations"], json!([]), "something was let through");
    assert_eq!(server.post("/invoke/echo", b"fine").expect(200).text(), "fine");
}

/// A length and chunks at once: two servers in a row may disagree on where the next request begins.
#[test]
fn no_request_hides_in_another() {
    let server = Server::start();
    server.put_shipped("echo.json");
    let hidden = "DELETE /workflows/echo HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    let smuggled = format!(
        "POST /invoke/echo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
        5 + hidden.len()
    );
    let mut stream = server.connect();
    stream.write_all(smuggled.as_bytes()).expect("sent");
    serve_support::half_close(&stream);
    let mut all = String::new();
    let _ = stream.read_to_string(&mut all);
    // Either the whole is refused, or chunks win and the connection is closed behind them.
    assert_eq!(all.matches("HTTP/1.1 ").count(), 1, "{all}");
    server.get("/workflows/echo").expect(200);
}

#[test]
fn no_name_leads_out_of_the_state_folder() {
    let server = Server::start();
    let image = image_bytes("no-op");
    let before = tree(server.state().path());
    let names = [
        "..",
        "../x",
        "../../x",
        "..%2F..%2Fx",
        "%2e%2e%2fx",
        "%2e%2e",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
        "a%00b",
        "a%2Fb",
        "a.part",
        ".hidden",
        "x%0d%0aSet-Cookie:%20a=b",
        "%c3%a9",
        "con:fig",
        "a\\b",
    ];
    for name in names {
        for kind in ["functions", "workflows"] {
            for method in ["PUT", "GET", "DELETE"] {
                let answer = server.ask(method, &format!("/{kind}/{name}"), if method == "PUT" { &image } else { b"" });
                assert!((400..500).contains(&answer.status), "{method} {kind} {name}: {}", answer.status);
                assert!(!answer.headers.contains_key("set-cookie"));
            }
        }
    }
    assert_eq!(tree(server.state().path()), before);
}

#[test]
fn a_workflow_that_came_over_http_gets_no_network() {
    let server = Server::start();
    server.put_example("no-op");
    // Headers would carry a file or a variable of the server's to a host of the client's choice.
    let leak = |source: serde_json::Value| json!({ "mode": "host", "https": [{ "host": "a.example", "headers": { "x-leak": source } }] });
    let networks = [
        json!({ "mode": "host", "connect": ["127.0.0.1:*"] }),
        json!({ "mode": "host", "https": ["a.example"] }),
        leak(json!({ "file": "/etc/passwd" })),
        leak(json!({ "environment": "PATH" })),
        leak(json!({ "secret": "any" })),
        json!("tap"),
    ];
    for network in networks {
        let document = single("w", "no-op", &json!({ "network": network }));
        for (method, path, body) in
            [("PUT", "/workflows/w", document.clone()), ("POST", "/run", json!({ "workflow": document }))]
        {
            let error = server.ask(method, path, body.to_string().as_bytes()).error(422, "invalid", "workflow");
            assert!(error["message"].as_str().is_some_and(|message| message.contains("network")), "{error}");
        }
    }
    server.get("/workflows/w").expect(404);
}

fn tree(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        found.push(entry.path());
        if entry.path().is_dir() {
            found.extend(tree(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn without_the_token_no_request_is_answered() {
    let server = Server::start_on(&StateFolder::new(), &[], &[("MONOHULL_TOKEN", "s3cret")]);
    let right = [("Authorization", "Bearer s3cret")];
    server.ask_with("PUT", "/functions/f", &right, &image_bytes("no-op")).expect(201);
    for headers in [&[][..], &[("Authorization", "Bearer s3cre")], &[("Authorization", "Basic czNjcmV0")]] {
        for (method, path) in
            [("GET", "/functions"), ("PUT", "/functions/f"), ("POST", "/invoke/f"), ("GET", "/metrics"), ("GET", "/x")]
        {
            let answer = server.ask_with(method, path, headers, &[]);
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
            answer.error(401, "unauthorized", "client");
        }
    }
    for path in ["/livez", "/readyz", "/healthz"] {
        server.get(path).expect(200);
    }
    server.ask_with("GET", "/functions/f", &right, &[]).expect(200);
    // With a token, pages and names do not matter.
    let page = [("Authorization", "Bearer s3cret"), ("Origin", "http://else.where")];
    server.ask_with("GET", "/functions", &page, &[]).expect(200);
    let (_, log) = server.stop();
    assert!(!log.contains("s3cret"));
}

#[test]
fn other_peoples_pages_are_kept_out() {
    let server = Server::start();
    server.put_shipped("echo.json");
    for headers in [[("Origin", "http://else.where")], [("Origin", "null")], [("Origin", "http://127.0.0.1:1")]] {
        server.ask_with("POST", "/invoke/echo", &headers, b"x").error(403, "forbidden", "client");
    }
    // What changes something comes from a page of this server, or from none.
    for (site, status) in [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)] {
        server.ask_with("POST", "/invoke/echo", &[("Sec-Fetch-Site", site)], b"x").expect(status);
        server.ask_with("GET", "/functions", &[("Sec-Fetch-Site", site)], b"").expect(200);
    }
    server.ask_with("DELETE", "/workflows/echo", &[("Sec-Fetch-Site", "cross-site")], b"").expect(403);
    let rebound = b"GET /functions HTTP/1.1\r\nHost: else.where\r\nConnection: close\r\n\r\n";
    server.raw(rebound).expect("an answer").error(403, "forbidden", "client");
    let own = server.address.to_string();
    let request =
        format!("GET /functions HTTP/1.1\r\nHost: {own}\r\nOrigin: http://{own}\r\nConnection: close\r\n\r\n");
    server.raw(request.as_bytes()).expect("an answer").expect(200);
}

#[test]
fn a_unix_socket_is_its_owners() {
    let state = StateFolder::new();
    let path = state.path().join("socket");
    let address = format!("unix:{}", path.display());
    let begin = || {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_monohull"))
            .args(["serve", "--listen", &address, "--state"])
            .arg(state.path())
            .env_remove("MONOHULL_TOKEN")
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("monohull starts");
        let mut line = String::new();
        let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
        std::io::BufRead::read_line(&mut out, &mut line).expect("readable");
        (child, line)
    };
    let ask = |method: &str, path_: &str| {
        let mut stream = UnixStream::connect(&path).expect("it listens");
        stream.write_all(&request(method, path_, &[("Origin", "x")], &[])).expect("sent");
        Answer::read(&mut stream).expect("an answer")
    };
    let (mut first, line) = begin();
    assert_eq!(line.trim_end(), format!("monohull listens on {address}"));
    let metadata = std::fs::metadata(&path).expect("a socket");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    ask("GET", "/functions").expect(200);

    // A server on the same socket is refused; so is one on the same state.
    let (second, line) = begin();
    assert_eq!(line, "");
    let output = second.wait_with_output().expect("a child");
    assert!(matches!(output.status.code(), Some(2 | 3)), "{output:?}");
    ask("GET", "/functions").expect(200);

    // What a killed server leaves is no obstacle.
    first.kill().expect("it runs");
    first.wait().expect("a child");
    assert!(path.exists());
    let (mut third, _) = begin();
    ask("GET", "/functions").expect(200);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(third.id() as i32), nix::sys::signal::Signal::SIGTERM)
        .expect("sent");
    assert_eq!(third.wait().expect("a child").code(), Some(0));
    assert!(!path.exists());
}

#[test]
fn a_server_does_not_take_what_is_in_use_or_no_socket() {
    let server = Server::start();
    let run = |arguments: &[&str]| {
        let state = StateFolder::new();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_monohull"))
            .args(["serve", "--state"])
            .arg(state.path())
            .args(arguments)
            .output()
            .expect("monohull starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, message) = run(&["--listen", &server.address.to_string()]);
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("cannot listen on"), "{message}");
    let file = server.state().path().join("precious");
    std::fs::write(&file, "data").expect("written");
    let (code, _) = run(&["--listen", &format!("unix:{}", file.display())]);
    assert_eq!((code, std::fs::read_to_string(&file).expect("there")), (Some(2), "data".to_owned()));
    for arguments in [["--listen", "nowhere"], ["--timeout", "0s"], ["--max-body", "many"], ["--prefork", "0"]] {
        assert_eq!(run(&arguments).0, Some(2), "{arguments:?}");
    }
}

/// Functions print what they like; it must not become part of an answer's head, or of the page.
#[test]
fn printed_text_stays_unchanged() {
    let server = Server::start();
    server.put_example("echo");
    let evil = "</script><script>alert(1)</script>\u{1b}[31m\u{0}";
    let args = json!({ "say": evil });
    server.put_workflow(&single("evil", "echo", &json!({ "inputs": ["in"], "outputs": ["out"], "args": args })));
    let answer = server.post("/invoke/evil", b"\r\nSet-Cookie: a=b\r\n").expect(200);
    assert!(!answer.headers.contains_key("set-cookie"));
    let logs = format!("/invocations/{}/logs?format=json", answer.headers["x-invocation-id"]);
    let answer = server.get(&logs).expect(200);
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    assert_eq!(answer.json()["text"].as_str().map(|text| text.contains("<script>")), Some(true));
}
