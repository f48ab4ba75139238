//! Clients that take their answers slowly, or not at all: what they can keep of a server's memory.

mod serve_support;

use serve_support::{Answer, Server, eventually, request};
use std::io::{Read, Write};
use std::thread::sleep;
use std::time::Duration;

/// More than the kernel keeps of an answer.
const LARGE: usize = 16 << 20;

fn server_with_echo(options: &[&str]) -> Server {
    let server = Server::start_with(options);
    server.put_shipped("echo.json");
    server
}

fn metric(server: &Server, name: &str) -> usize {
    let text = server.get("/metrics").expect(200).text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
}

#[test]
fn an_answer_without_room_is_refused_and_those_that_are_sent_are_whole() {
    // No client is late in this test.
    let server = server_with_echo(&["--max-answers", "24MiB", "--client-pause", "10m"]);
    let body: Vec<u8> = (0..LARGE).map(|index| (index * 7) as u8).collect();
    let mut first = server.connect();
    first.write_all(&request("POST", "/invoke/echo", &[], &body)).expect("sent");
    eventually("its answer is being sent", || metric(&server, "monohull_answer_bytes") == LARGE);

    // The call has been made; to make it again is the client's choice.
    let second = server.ask_with("POST", "/invoke/echo", &[("X-Call-Id", "second")], &body);
    assert!(!second.headers.contains_key("retry-after"), "{:?}", second.headers);
    assert_eq!(second.headers["x-call-id"], "second");
    let location = format!("/invocations/{}", second.headers["x-invocation-id"]);
    let error = second.error(502, "answers-full", "host");
    assert!(error["message"].as_str().is_some_and(|message| message.contains(&location)), "{error:#}");
    assert_eq!(server.get(&location).expect(200).json()["status"], "completed");
    let output = format!("{location}/outputs/out");
    let refused = server.get(&output);
    assert_eq!(refused.headers["retry-after"], "1");
    refused.error(503, "answers-full", "host");
    // What is smaller has room.
    assert_eq!(server.post("/invoke/echo", &body[..4 << 20]).expect(200).body, body[..4 << 20]);
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");

    assert!(Answer::read(&mut first).expect("an answer").expect(200).body == body);
    eventually("there is room", || server.get(&output).status == 200);
    assert!(server.get(&output).expect(200).body == body);
    eventually("nothing is left", || metric(&server, "monohull_answer_bytes") == 0);
}

/// It takes more than the client's pause allows for, and less than an answer has time for.
#[test]
fn a_slow_client_is_cut_off_when_another_one_needs_the_room() {
    const SIZE: usize = 6 << 20;
    let server = server_with_echo(&["--max-answers", "8MiB", "--client-pause", "2s"]);
    let body = vec![b'x'; SIZE];
    let mut slow = server.connect();
    slow.write_all(&request("POST", "/invoke/echo", &[], &body)).expect("sent");
    eventually("its answer is being sent", || metric(&server, "monohull_answer_bytes") == SIZE);
    let other = server.post("/invoke/echo", &body);
    let output = format!("/invocations/{}/outputs/out", other.headers["x-invocation-id"]);
    other.error(502, "answers-full", "host");
    let (mut taken, mut piece) = (0, vec![0; 8 << 10]);
    let answer = loop {
        let answer = server.get(&output);
        if answer.status == 200 {
            break answer;
        }
        answer.error(503, "answers-full", "host");
        taken += slow.read(&mut piece).expect("it takes a little");
        sleep(Duration::from_millis(50));
    };
    assert!(answer.body == body);
    let mut rest = Vec::new();
    // It notices that its answer is not whole.
    let end = slow.read_to_end(&mut rest);
    assert!(end.is_err() || taken + rest.len() < SIZE, "{end:?} after {} bytes", taken + rest.len());
    eventually("nothing is left", || metric(&server, "monohull_answer_bytes") == 0);
}
