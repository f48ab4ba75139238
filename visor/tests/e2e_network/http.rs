//! The shipped HTTP workflows, at ports that are free.

use crate::{beside, lines, support};
use monohull_visor::report::RunReport;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

/// `workflows/network/NAME.json`, with other arguments and another list.
fn shipped(name: &str, arguments: Value, list: &str, addresses: Value) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows/network");
    let text = std::fs::read(folder.join(name).with_extension("json")).expect("a workflow");
    let mut document: Value = serde_json::from_slice(&text).expect("JSON");
    for function in document["functions"].as_object_mut().expect("functions").values_mut() {
        let image = Path::new(function["image"].as_str().expect("a path"));
        function["image"] = image.file_stem().expect("a file").to_str().expect("text").into();
    }
    document["steps"][0]["args"] = arguments;
    document["steps"][0]["timeout"] = "1m".into();
    document["network"][list] = addresses;
    document
}

/// The libos modules that a run loaded.
fn loaded(report: &RunReport) -> Vec<&str> {
    let mut modules: Vec<_> = report.modules.iter().map(String::as_str).collect();
    modules.sort_unstable();
    modules
}

/// A server for one client: what it answers, and what it was asked.
fn server(answer: Vec<u8>) -> (String, std::thread::JoinHandle<String>) {
    let server = TcpListener::bind("127.0.0.1:0").expect("a server");
    let address = server.local_addr().expect("its address").to_string();
    let serving = std::thread::spawn(move || {
        let (mut client, _) = server.accept().expect("a client");
        client.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).expect("a request");
            head.push(byte[0]);
        }
        client.write_all(&answer).expect("written");
        String::from_utf8(head).expect("text")
    });
    (address, serving)
}

fn fetch(address: &str) -> Value {
    shipped("http-fetch", json!({ "url": format!("http://{address}/page") }), "connect", json!([address]))
}

#[test]
fn a_page_is_fetched() {
    let page: Vec<u8> = (0..300_000u32).map(|n| (n % 249) as u8).collect();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", page.len());
    let (address, serving) = server([head.as_bytes(), &page].concat());
    let report = support::run(&fetch(&address));
    assert!(serving.join().expect("no panic").starts_with("GET /page HTTP/1.0\r\nHost: 127.0.0.1:"));
    assert_eq!(lines(&report), [format!("http://{address}/page: 200, 300000 bytes")]);
    assert_eq!(report.output["body"].bytes, page.len() as u64);
    assert_eq!(loaded(&report), ["mm", "socket", "stdio"]);
}

#[test]
fn what_is_no_whole_page_is_an_error() {
    for (answer, why) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "5 of 10 bytes arrived"),
        ("HTTP/1.1 200 OK\r\nContent-", "the answer ends in its head"),
        ("hello", "the answer's head: invalid HTTP version"),
    ] {
        let (address, serving) = server(answer.into());
        let report = support::run(&fetch(&address));
        serving.join().expect("no panic");
        let error = report.error.expect("an error");
        assert!(error.message.contains(why), "{error:#?}");
    }
}

#[test]
fn pages_are_served_from_inside_a_workflow() {
    let arguments = json!({ "listen": "127.0.0.1:0", "requests": 7 });
    let document = shipped("http-serve", arguments, "listen", json!(["127.0.0.1:0"]));
    let (report, answers) = beside(&document, |printed| {
        let said = printed.recv_timeout(Duration::from_secs(60)).expect("a line");
        let address = said.strip_prefix("listening at ").expect("an address").to_owned();
        [
            // Two on one connection, at once.
            "GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
            "POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
            "PUT / HTTP/1.1\r\n\r\n",
            // Hostile clients get an error and nothing else. What might be a second request inside the first is not read.
            "no request\r\n\r\n",
            "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET /c HTTP/1.1\r\n\r\n",
            "POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nGET /c HTTP/1.1\r\n\r\n",
        ]
        .map(|requests| {
            let mut stream = TcpStream::connect(&address).expect("a connection");
            stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
            stream.write_all(requests.as_bytes()).expect("written");
            stream.shutdown(Shutdown::Write).expect("shut down");
            let mut answer = String::new();
            // A server that leaves with bytes unread resets the connection, behind its answer.
            let _ = stream.read_to_string(&mut answer);
            answer
        })
    });
    let [two, echo, put, nonsense, chunked, twice] = &answers;
    assert!(two.contains("you asked for /a\n") && two.ends_with("you asked for /b\n"), "{two}");
    assert!(echo.ends_with("\r\n\r\nhello"), "{echo}");
    assert!(put.starts_with("HTTP/1.1 405 "), "{put}");
    for answer in [nonsense, chunked, twice] {
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    }
    assert!(report.error.is_none(), "{:#?}", report.error);
    assert_eq!(loaded(&report), ["socket", "stdio"]);
}
