//! Components that answer HTTP requests (`wasi:http/proxy`), by `monohull run`: the request is a file, and the answer an output.
//!
//! The component of `wasi/guests/http` is an ordinary one. Those that do what no library does are written as text.

use super::support::{CHECKS, Function, run_with};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Runs an image with a request.
#[track_caller]
fn report(folder: &Path, image: &Path, request: &[u8], step: &Value) -> Value {
    fs::write(folder.join("request"), request).expect("written");
    let mut document = json!({
        "name": "http",
        "functions": { "handler": { "image": image } },
        "inputs": ["request"],
        "outputs": ["response"],
        "http": { "request": "request", "response": "response" },
        "steps": [{ "name": "handler", "function": "handler" }],
    });
    for (name, value) in step.as_object().expect("an object") {
        document["steps"][0][name] = value.clone();
    }
    let input = format!("request={}", folder.join("request").display());
    run_with(folder, &document, &["--input", &input])
}

/// What the example does with a request.
#[track_caller]
fn example(request: &str) -> Value {
    let folder = TempDir::new().expect("a folder");
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/wasi-http.so");
    report(folder.path(), &image, request.as_bytes(), &json!({}))
}

/// What the example answers: head and content.
#[track_caller]
fn answered(request: &str) -> (String, String) {
    let report = example(request);
    assert_eq!(report["status"], "done", "{report:#}");
    let message = report["output"]["response"]["text"].as_str().expect("a text");
    let (head, content) = message.split_once("\r\n\r\n").expect("a message");
    (head.to_owned(), content.to_owned())
}

/// What the report says of a request that is not answered.
#[track_caller]
fn failed(request: &str) -> String {
    let report = example(request);
    assert_eq!((&report["status"], &report["error"]["blame"]), (&json!("failed"), &json!("function")), "{report:#}");
    assert!(report["output"]["response"].is_null(), "{report:#}");
    report["error"]["message"].as_str().expect("a message").to_owned()
}

#[test]
fn a_component_answers_a_request_in_a_slot() {
    let plain = "HTTP/1.1 200 \r\ncontent-type: text/plain; charset=utf-8";
    assert_eq!(answered("GET / HTTP/1.1\r\n\r\n"), (plain.to_owned(), "hello from a component\n".to_owned()));
    // A file that was written by hand.
    assert_eq!(answered("GET / HTTP/1.1\nhost: a\n\n").1, "hello from a component\n");
    let echoed = answered("POST /echo HTTP/1.1\r\ncontent-type: text/html\r\ncontent-length: 5\r\n\r\na\r\n\r\n");
    assert_eq!(echoed, ("HTTP/1.1 200 \r\ncontent-type: text/html".to_owned(), "a\r\n\r\n".to_owned()));
    let cookies = answered("GET /cookies HTTP/1.1\r\n\r\n");
    assert_eq!(cookies, ("HTTP/1.1 200 \r\nset-cookie: a=1\r\nset-cookie: b=2".to_owned(), String::new()));
    assert_eq!(answered("GET /status?404 HTTP/1.1\r\n\r\n").0, "HTTP/1.1 404 ");
    assert_eq!(answered("DELETE /none HTTP/1.1\r\n\r\n").0, plain.replace("200", "404"));
}

#[test]
fn a_component_sees_all_of_a_request_but_its_connection() {
    let of = |request: &str| answered(request).1;
    assert_eq!(
        of(
            "PATCH /request?a=%20b HTTP/1.1\r\nHost: shop.example:81\r\nX-A: 1\r\nx-b: 2\r\nx-a: 3\r\nConnection: close\r\n\r\n"
        ),
        "Method::Patch\n\"/request?a=%20b\" http \"shop.example:81\"\nx-a: 1\nx-b: 2\nx-a: 3\n"
    );
    assert_eq!(
        of("SEARCH https://shop.example/request HTTP/1.1\r\nhost: other.example\r\n\r\n"),
        "Method::Other(\"SEARCH\")\n\"/request\" https \"shop.example\"\n"
    );
}

#[test]
fn fields_keep_what_can_be_sent_and_nothing_else() {
    let ok = "Ok(())\n".repeat(5);
    let invalid = "Err(HeaderError::InvalidSyntax)\n".repeat(5);
    let forbidden = "Err(HeaderError::Forbidden)\n".repeat(2);
    let fixed = "Err(HeaderError::Immutable)\n".repeat(2);
    let rest = "true true\nErr(HeaderError::Forbidden)\n[false, false, false, true, true, false, false]\nx-a: 1\nx-a: 2\nx-b: 5\n";
    assert_eq!(answered("GET /fields HTTP/1.1\r\n\r\n").1, [&ok, &invalid, &forbidden, &fixed, rest].concat());
}

#[test]
fn a_component_without_an_answer_has_failed() {
    for (path, why) in [
        ("silent", "without an answer"),
        ("error", "InternalError"),
        ("trap", "unreachable"),
        ("unfinished", "before it had finished the answer's body"),
        // Its own library refuses.
        ("short", "unreachable"),
    ] {
        let said = failed(&format!("GET /{path} HTTP/1.1\r\n\r\n"));
        assert!(said.contains(why), "{path}: {said}");
    }
}

#[test]
fn what_is_no_request_is_refused_with_the_reason() {
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(257));
    for (request, why) in [
        ("", "no empty line"),
        ("GET / HTTP/1.1\r\nx: y\r\n", "no empty line"),
        ("hello\r\n\r\n", "slot `request` holds no HTTP request"),
        ("GET / HTTP/3\r\n\r\n", "invalid HTTP version"),
        ("GET  / HTTP/1.1\r\n\r\n", "holds no HTTP request"),
        ("HTTP/1.1 200 OK\r\n\r\n", "holds no HTTP request"),
        ("GET / HTTP/1.1\r\nx y: z\r\n\r\n", "invalid header name"),
        ("GET / HTTP/1.1\r\nx: a\0b\r\n\r\n", "invalid header value"),
        (&many, "more than 256 fields"),
        ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "transfer-encoding"),
        ("POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\nhello", "its content has 5 bytes"),
        ("POST / HTTP/1.1\r\ncontent-length: +5\r\n\r\nhello", "content-length"),
        ("POST / HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello", "content-length"),
    ] {
        let said = failed(request);
        assert!(said.contains(why), "{request:?}: {said}");
    }
    // Nothing has filled the slot.
    let folder = TempDir::new().expect("a folder");
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/wasi-http.so");
    let document = json!({
        "name": "http",
        "functions": { "handler": { "image": image } },
        "steps": [{ "name": "handler", "function": "handler" }],
    });
    let report = run_with(folder.path(), &document, &[]);
    let said = report["error"]["message"].as_str().unwrap_or_default();
    assert!(said.contains("slot `request` cannot be taken"), "{report:#}");
}

#[test]
fn the_step_of_a_component_limits_its_answer() {
    let folder = TempDir::new().expect("a folder");
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/wasi-http.so");
    let request = b"GET /bytes?16777216 HTTP/1.1\r\n\r\n";
    let report_with = |memory: &str| report(folder.path(), &image, request, &json!({ "memory": memory }));
    assert_eq!(report_with("128MiB")["status"], "done");
    let report = report_with("12MiB");
    assert_eq!((&report["status"], &report["error"]["blame"]), (&json!("failed"), &json!("function")), "{report:#}");
}

/// `error-code` of `wasi:http`, with the types that it needs.
const ERROR_CODE: &str = r#"
    (type $dns (record (field "rcode" (option string)) (field "info-code" (option u16))))
    (export "DNS-error-payload" (type $dns-payload (eq $dns)))
    (type $alert (record (field "alert-id" (option u8)) (field "alert-message" (option string))))
    (export "TLS-alert-received-payload" (type $alert-payload (eq $alert)))
    (type $size (record (field "field-name" (option string)) (field "field-size" (option u32))))
    (export "field-size-payload" (type $size-payload (eq $size)))
    (type $code (variant
        (case "DNS-timeout") (case "DNS-error" $dns-payload) (case "destination-not-found") (case "destination-unavailable")
        (case "destination-IP-prohibited") (case "destination-IP-unroutable") (case "connection-refused")
        (case "connection-terminated") (case "connection-timeout") (case "connection-read-timeout")
        (case "connection-write-timeout") (case "connection-limit-reached") (case "TLS-protocol-error")
        (case "TLS-certificate-error") (case "TLS-alert-received" $alert-payload) (case "HTTP-request-denied")
        (case "HTTP-request-length-required") (case "HTTP-request-body-size" (option u64))
        (case "HTTP-request-method-invalid") (case "HTTP-request-URI-invalid") (case "HTTP-request-URI-too-long")
        (case "HTTP-request-header-section-size" (option u32)) (case "HTTP-request-header-size" (option $size-payload))
        (case "HTTP-request-trailer-section-size" (option u32)) (case "HTTP-request-trailer-size" $size-payload)
        (case "HTTP-response-incomplete") (case "HTTP-response-header-section-size" (option u32))
        (case "HTTP-response-header-size" $size-payload) (case "HTTP-response-body-size" (option u64))
        (case "HTTP-response-trailer-section-size" (option u32)) (case "HTTP-response-trailer-size" $size-payload)
        (case "HTTP-response-transfer-coding" (option string)) (case "HTTP-response-content-coding" (option string))
        (case "HTTP-response-timeout") (case "HTTP-upgrade-failed") (case "HTTP-protocol-error") (case "loop-detected")
        (case "configuration-error") (case "internal-error" (option string))))
    (export "error-code" (type $error-code (eq $code)))"#;

/// A component whose `handle` has this body: the request's handle is local 0, the place for the answer local 1.
fn handler(body: &str) -> String {
    format!(
        r#"(component $handler
            (import "wasi:http/types@0.2.6" (instance $types
                (export "fields" (type $fields (sub resource)))
                (export "incoming-request" (type $request (sub resource)))
                (export "incoming-body" (type $body (sub resource)))
                (export "outgoing-response" (type $response (sub resource)))
                (export "response-outparam" (type $out (sub resource)))
                {ERROR_CODE}
                (export "[constructor]fields" (func (result (own $fields))))
                (export "[method]incoming-request.consume"
                    (func (param "self" (borrow $request)) (result (result (own $body)))))
                (export "[constructor]outgoing-response" (func (param "headers" (own $fields)) (result (own $response))))
                (export "[static]response-outparam.set"
                    (func (param "param" (own $out)) (param "response" (result (own $response) (error $error-code)))))))
            (alias export $types "fields" (type $fields))
            (alias export $types "incoming-request" (type $request))
            (alias export $types "incoming-body" (type $body))
            (alias export $types "outgoing-response" (type $response))
            (alias export $types "response-outparam" (type $out))
            (core module $memory (memory (export "memory") 1))
            (core instance $memory (instantiate $memory))
            (alias core export $memory "memory" (core memory $mem))
            (core func $new-fields (canon lower (func $types "[constructor]fields")))
            (core func $new-response (canon lower (func $types "[constructor]outgoing-response")))
            (core func $consume (canon lower (func $types "[method]incoming-request.consume") (memory $mem)))
            (core func $set (canon lower (func $types "[static]response-outparam.set") (memory $mem)))
            (core func $drop-out (canon resource.drop $out))
            (core func $drop-request (canon resource.drop $request))
            (core instance $host
                (export "fields" (func $new-fields)) (export "response" (func $new-response))
                (export "consume" (func $consume)) (export "set" (func $set))
                (export "drop-out" (func $drop-out)) (export "drop-request" (func $drop-request)))
            (core module $main
                (import "memory" "memory" (memory 1))
                (import "host" "fields" (func $fields (result i32)))
                (import "host" "response" (func $response (param i32) (result i32)))
                (import "host" "consume" (func $consume (param i32 i32)))
                (import "host" "set" (func $set (param i32 i32 i32 i32 i64 i32 i32 i32 i32)))
                (import "host" "drop-out" (func $drop-out (param i32)))
                (import "host" "drop-request" (func $drop-request (param i32)))
                (func $must (param i32) (if (i32.eqz (local.get 0)) (then unreachable)))
                ;; Puts an answer where it belongs.
                (func $give (param i32 i32)
                    (call $set (local.get 0) (i32.const 0) (local.get 1)
                        (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
                (func $fail (param i32 i32)
                    (call $set (local.get 0) (i32.const 1) (local.get 1)
                        (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
                (func (export "handle") (param i32 i32) {body}))
            (core instance $main (instantiate $main (with "memory" (instance $memory)) (with "host" (instance $host))))
            (func $handle (param "request" (own $request)) (param "response-out" (own $out))
                (canon lift (core func $main "handle")))
            (instance $exported (export "handle" (func $handle)))
            (export "wasi:http/incoming-handler@0.2.3" (instance $exported)))"#
    )
}

const REQUEST: &[u8] = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello";

#[track_caller]
fn run(function: &Function) -> Value {
    let folder = function.folder.path();
    report(folder, &folder.join("app.so"), REQUEST, &json!({}))
}

#[test]
fn wrong_handles_of_a_component_that_answers_are_failures() {
    let control = "
        (call $consume (local.get 0) (i32.const 0))
        (call $must (i32.eqz (i32.load8_u (i32.const 0))))
        ;; Once only.
        (call $consume (local.get 0) (i32.const 0))
        (call $must (i32.load8_u (i32.const 0)))
        (call $drop-request (local.get 0))
        (call $give (local.get 1) (call $response (call $fields)))";
    for options in CHECKS {
        let report = run(&Function::built(&handler(control), options));
        assert_eq!(report["status"], "done", "{report:#}");
        assert_eq!(report["output"]["response"]["text"], "HTTP/1.1 200 \r\n\r\n", "{report:#}");
    }
    for (body, expected) in [
        ("", "without an answer"),
        ("(call $drop-out (local.get 1))", "without an answer"),
        ("(call $fail (local.get 1) (i32.const 15))", "HttpRequestDenied"),
        ("(call $fail (local.get 1) (i32.const 39))", "discriminant"),
        ("(call $give (i32.const 77) (call $response (call $fields)))", "handle"),
        // Handles of other kinds.
        ("(call $give (local.get 0) (call $response (call $fields)))", "handle"),
        ("(call $give (local.get 1) (call $fields))", "handle"),
        ("(call $give (local.get 1) (local.get 0))", "handle"),
        ("(drop (call $response (local.get 1)))", "handle"),
        ("(call $consume (local.get 1) (i32.const 0))", "handle"),
        // Those that were given back, and given away.
        ("(call $drop-request (local.get 0)) (call $consume (local.get 0) (i32.const 0))", "handle"),
        ("(call $drop-out (local.get 1)) (call $give (local.get 1) (call $response (call $fields)))", "handle"),
        (
            "(call $give (local.get 1) (call $response (call $fields)))
             (call $give (local.get 1) (call $response (call $fields)))",
            "handle",
        ),
        ("(call $consume (local.get 0) (i32.const 65536))", "out of bounds"),
        // An answer that was set goes nowhere if a trap comes after it.
        ("(call $give (local.get 1) (call $response (call $fields))) unreachable", "unreachable"),
    ] {
        let report = run(&Function::new(&handler(body)));
        assert_eq!(
            (&report["status"], &report["error"]["blame"]),
            (&json!("failed"), &json!("function")),
            "{body}: {report:#}"
        );
        let said = report["error"]["message"].as_str().expect("a message");
        assert!(said.contains(expected), "{body}: {said}");
        assert!(report["output"]["response"].is_null(), "{body}: {report:#}");
    }
}

#[test]
fn a_component_that_answers_otherwise_is_refused_by_name() {
    for (text, expected) in [
        (
            "(component (instance $i) (export \"wasi:http/incoming-handler@0.2.0\" (instance $i)))",
            "wasi:http/incoming-handler",
        ),
        (
            "(component (import \"wasi:http/types@0.3.0\" (instance (export \"fields\" (type (sub resource)))))
                (instance $i) (export \"wasi:http/incoming-handler@0.2.0\" (instance $i)))",
            "wasi:http/types@0.3.0",
        ),
        (
            "(component (import \"wasi:http/types@0.2.0\" (instance
                (export \"fields\" (type $fields (sub resource)))
                (export \"[constructor]fields\" (func (param \"size\" u32) (result (own $fields))))))
                (instance $i) (export \"wasi:http/incoming-handler@0.2.0\" (instance $i)))",
            "[constructor]fields",
        ),
    ] {
        let report = run(&Function::new(text));
        let said = report["error"]["message"].as_str().unwrap_or_default();
        assert!(said.contains(expected), "{text}: {report:#}");
    }
}
