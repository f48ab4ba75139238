//! Large inputs and outputs of processes that are used again, which go through memory that each process keeps: answers are right at every
//! size and in every order, and no client that is slow keeps a process or reads what another one is answered.

mod serve_support;

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use serde_json::{Value, json};
use serve_support::{Answer, Server, eventually, is_alive, request, single};
use std::io::{Read, Write};
use std::net::TcpStream;

const BYTES: (&str, &str) = ("Content-Type", "application/octet-stream");
/// As much as the memory of a process holds.
const MOST: usize = 2 << 20;

fn server() -> Server {
    let server = Server::start_with(&["--prefork", "4", "--process", "reused"]);
    server.put_example("echo");
    let mut document = single("echo", "echo", &json!({}));
    (document["inputs"], document["outputs"]) = (json!(["in"]), json!(["out"]));
    server.put_workflow(&document);
    server
}

/// So many bytes, others for each number.
fn bytes(len: usize, number: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251 + number * 31) as u8).collect()
}

/// Waits until a process waits for another invocation.
#[track_caller]
fn is_kept(server: &Server) {
    eventually("it is reset", || server.get("/healthz").json()["kept_workers"] == 1);
}

/// What the report of an answered invocation says of its process.
fn process(server: &Server, answer: &Answer) -> Value {
    server.get(&format!("/invocations/{}", answer.headers["x-invocation-id"])).expect(200).json()["report"]["process"]
        .clone()
}

#[track_caller]
fn is_right(answer: &Answer, body: &[u8]) {
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body.len(), body.len());
    assert!(answer.body == body, "another answer of {} bytes", body.len());
}

/// Around each size from which on bytes travel in another way, in an order in which longer ones are followed by shorter ones. A process that
/// answered with a file of its own, because its memory did not hold the answer, is not used again where such a file is charged to it.
#[test]
fn answers_are_right_at_every_size() {
    let server = server();
    let charged = server.get("/healthz").json()["cgroup"] == "own";
    let around = |size: usize| [size + 1, size, size - 1];
    let sizes = [around(MOST), around(64 << 10), around(1 << 20), around(16 << 10)].concat();
    let sizes = sizes.into_iter().flat_map(|size| [size, 100]).chain([3 * MOST, 0, 1, MOST]);
    let mut before = 0;
    for (number, size) in sizes.enumerate() {
        let body = bytes(size, number);
        let answer = server.ask_with("POST", "/invoke/echo", &[BYTES], &body);
        is_right(&answer, &body);
        assert_eq!(process(&server, &answer), json!({ "kind": "reused", "before": before }), "{}", server.log());
        before = if charged && size > MOST { 0 } else { before + 1 };
        if before > 0 {
            is_kept(&server);
        }
    }
}

/// A client that does not say how much it sends.
#[test]
fn a_body_of_unknown_length_is_taken_at_every_size() {
    let server = server();
    for (number, size) in [100, 100_000, MOST, MOST + 1].into_iter().enumerate() {
        let body = bytes(size, number);
        let mut request = b"POST /invoke/echo HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
            Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            .to_vec();
        for chunk in body.chunks(40_000) {
            request.extend(format!("{:x}\r\n", chunk.len()).bytes());
            request.extend(chunk);
            request.extend(b"\r\n");
        }
        request.extend(b"0\r\n\r\n");
        is_right(&server.raw(&request).expect("an answer"), &body);
    }
}

/// A client that has asked, and has read the beginning of its answer.
struct Slow {
    stream: TcpStream,
    read: Vec<u8>,
    body: Vec<u8>,
}

impl Slow {
    fn asks(server: &Server, number: usize) -> Slow {
        let mut stream = server.connect();
        // The kernel holds little of the answer for it.
        setsockopt(&stream, sockopt::RcvBuf, &(64 << 10)).expect("an option of sockets");
        let body = bytes(MOST, number);
        stream.write_all(&request("POST", "/invoke/echo", &[BYTES], &body)).expect("sent");
        let mut read = vec![0; 100];
        stream.read_exact(&mut read).expect("the beginning");
        Slow { stream, read, body }
    }

    /// It reads the rest.
    #[track_caller]
    fn reads(mut self) -> Answer {
        let answer = Answer::read(&mut self.read.chain(&mut self.stream)).expect("all of it");
        is_right(&answer, &self.body);
        answer
    }
}

#[test]
fn a_client_that_reads_slowly_keeps_no_process_from_the_next_invocation() {
    let server = server();
    let mut slow = Vec::new();
    for number in 0..4 {
        slow.push(Slow::asks(&server, number));
        is_kept(&server);
        let body = bytes(MOST - 1, 100 + number);
        let answer = server.ask_with("POST", "/invoke/echo", &[BYTES], &body);
        is_right(&answer, &body);
        let before = 2 * number + 1;
        assert_eq!(process(&server, &answer), json!({ "kind": "reused", "before": before }), "{}", server.log());
        is_kept(&server);
    }
    for (number, slow) in slow.into_iter().enumerate() {
        let answer = slow.reads();
        assert_eq!(process(&server, &answer)["before"], 2 * number);
    }
}

#[test]
fn an_answer_is_whole_although_its_process_is_killed_while_it_is_sent() {
    let server = server();
    let slow = [0, 1].map(|number| {
        let slow = Slow::asks(&server, number);
        is_kept(&server);
        slow
    });
    let workers: Vec<i32> = server.descendants().into_iter().skip(1).collect();
    for pid in &workers {
        // One of them may have been replaced meanwhile.
        let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
    }
    eventually("they end", || !workers.iter().any(|pid| is_alive(*pid)));
    slow.into_iter().for_each(|slow| drop(slow.reads()));
    let body = bytes(MOST, 7);
    let answer = server.ask_with("POST", "/invoke/echo", &[BYTES], &body);
    is_right(&answer, &body);
    assert_eq!(process(&server, &answer)["before"], 0);
}

#[test]
fn clients_at_the_same_time_get_their_own_large_answers() {
    let server = server();
    std::thread::scope(|scope| {
        for client in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for call in 0..12 {
                    let size = [MOST, 17 << 10, MOST + 5, 300_000, 20][(client + call) % 5];
                    let body = bytes(size, 100 * client + call);
                    is_right(&server.ask_with("POST", "/invoke/echo", &[BYTES], &body), &body);
                }
            });
        }
    });
}
