//! Slow readers of a server's log, its answers, and the lines that functions print. None of them delays others,
//! and who is slow, but goes on, is served to the end.

mod serve_support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use serve_support::{Answer, Server, StateFolder, eventually, is_alive, request, single};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

/// A server whose standard error goes to this file.
fn logging_to(log: &str, options: &[&str]) -> Server {
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" 2<>\"$LOG\"", env!("CARGO_BIN_EXE_monohull")]).env("LOG", log);
    Server::start_by(shell, &StateFolder::new(), options, &[])
}

fn idle_workers(server: &Server) -> Vec<i32> {
    // The first is the spawner.
    server.descendants().split_off(1)
}

#[test]
fn a_log_that_cannot_be_written_is_lost_and_nothing_else() {
    let server = logging_to("/dev/full", &["--prefork", "2"]);
    server.put_shipped("echo.json");
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
    // There is something to be said about each of these.
    eventually("idle workers are ready", || idle_workers(&server).len() >= 2);
    for pid in idle_workers(&server) {
        // The process that has served the first may be gone by itself.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        eventually("it is gone", || !is_alive(pid));
    }
    assert_eq!(server.post("/invoke/echo", b"y").expect(200).text(), "y");
    assert_eq!(server.stop().0, Some(0));
}

#[test]
fn an_unread_log_delays_nothing() {
    let folder = StateFolder::new();
    let pipe = folder.path().with_extension("log");
    let _ = std::fs::remove_file(&pipe);
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let server = logging_to(pipe.to_str().expect("a path"), &[]);
    server.put_shipped("echo.json");
    // A line each, of more than 500 bytes; a pipe holds 64 KiB.
    for _ in 0..200 {
        assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
    }
    assert_eq!(server.stop().0, Some(0));
    std::fs::remove_file(&pipe).expect("it is ours");
}

#[test]
fn a_line_of_the_log_has_each_field_once() {
    let server = Server::start();
    server.put_example("misbehave");
    let args = json!({ "args": { "how": "panic" } });
    server.put_workflow(&single("panic", "misbehave", &args));
    server.post("/invoke/panic", b"").error(502, "panic", "function");
    server.ask_with("GET", "/nowhere", &[("X-Call-Id", "lost")], b"").expect(404);
    let (_, log) = server.stop();
    let line = log
        .lines()
        .find(|line| line.contains("\"workflow\":\"panic\"") && line.contains("timeline_us"))
        .expect("a line");
    for key in ["message", "error", "kind", "status", "id"] {
        assert_eq!(line.matches(&format!("\"{key}\":")).count(), 1, "{key} in {line}");
    }
    assert!(line.contains("\"message\":\"invocation\""), "{line}");
    let refused = log.lines().find(|line| line.contains("\"call_id\":\"lost\"")).expect("a line");
    assert!(refused.contains("\"message\":\"refused\"") && refused.contains("not-found"), "{refused}");
}

#[test]
fn clients_that_follow_lines_and_go_away_leave_their_place() {
    const PLACES: usize = 4;
    let server = Server::start_with(&["--connections", "4", "--timeout", "60s"]);
    server.put_example("misbehave");
    server.put_workflow(&single("stuck", "misbehave", &json!({ "args": { "how": "sleep" } })));
    let location = server.post("/async-invoke/stuck", b"").expect(202).headers["location"].clone();
    for _ in 0..2 * PLACES {
        let mut stream = server.connect();
        stream.write_all(&request("GET", &format!("{location}/logs?follow=true"), &[], b"")).expect("sent");
        let mut head = [0; 12];
        stream.read_exact(&mut head).expect("it begins to answer");
        assert_eq!(&head, b"HTTP/1.1 200");
    }
    assert_eq!(server.get("/livez").expect(200).text(), "ok\n");
    assert!(server.get(&location).json()["status"] != "failed", "it still runs");
    server.ask("DELETE", &location, b"").expect(204);
}

/// A server that has been sent so many bytes, which it is to give back.
fn asked_to_echo(bytes: usize, options: &[&str]) -> (Server, TcpStream) {
    let server = Server::start_with(options);
    server.put_shipped("echo.json");
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/echo", &[], &vec![b'x'; bytes])).expect("sent");
    (server, stream)
}

/// Reads an answer piece by piece, with pauses.
fn read_slowly(stream: &mut TcpStream, piece: usize, pause: Duration) -> Answer {
    struct Slow<'s>(&'s mut TcpStream, usize, Duration);
    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if buffer.len() > 1 {
                std::thread::sleep(self.2);
            }
            let most = buffer.len().min(self.1);
            self.0.read(&mut buffer[..most])
        }
    }
    Answer::read(&mut Slow(stream, piece, pause)).expect("an answer")
}

#[test]
fn a_slow_but_steady_reader_gets_the_whole_answer() {
    const BYTES: usize = 12 << 20;
    let (_server, mut stream) = asked_to_echo(BYTES, &["--client-pause", "1s"]);
    // Some 2.5 MB a second: the kernel says only seldom that more can be written.
    let answer = read_slowly(&mut stream, 128 << 10, Duration::from_millis(50)).expect(200);
    assert_eq!(answer.body.len(), BYTES);
}

#[test]
fn an_answer_that_is_being_sent_is_finished_before_the_end() {
    const BYTES: usize = 24 << 20;
    let (server, mut stream) = asked_to_echo(BYTES, &["--drain", "30s"]);
    let mut first = [0; 1];
    assert_eq!(stream.peek(&mut first).expect("it answers"), 1);
    server.signal(Signal::SIGTERM);
    let answer = read_slowly(&mut stream, 512 << 10, Duration::from_millis(60)).expect(200);
    assert_eq!(answer.body.len(), BYTES);
    assert_eq!(server.wait().0, Some(0));
}

#[test]
fn a_browser_runs_nothing_that_a_function_has_made() {
    let server = Server::start();
    server.put_example("echo");
    let outputs = json!([{ "slot": "out", "content_type": "text/html" }]);
    server.put_workflow(&single("page", "echo", &json!({ "inputs": ["in"], "outputs": outputs })));
    let page = format!("<script>alert(1)</script>{}", " ".repeat(100 << 10));
    let answer = server.post("/invoke/page", page.as_bytes()).expect(200);
    let kept = server.get(&format!("/invocations/{}/outputs/out", answer.headers["x-invocation-id"])).expect(200);
    for answer in [answer, kept] {
        assert_eq!(answer.headers["content-type"], "text/html");
        assert_eq!(answer.headers["content-security-policy"], "sandbox; default-src 'none'");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    }
}
