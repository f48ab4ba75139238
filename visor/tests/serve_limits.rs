//! Nothing waits for ever, and nothing leaks: what clients, outsiders and time can do to a server.

mod serve_support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use serve_support::{
    Answer, PATIENCE, Server, StateFolder, eventually, half_close, is_alive, request, single, take_callback,
};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// A server with `echo`, and `stuck`, which never ends by itself.
fn server_with_examples(options: &[&str]) -> Server {
    let server = Server::start_with(options);
    deploy_examples(&server);
    server
}

fn deploy_examples(server: &Server) {
    server.put_shipped("echo.json");
    server.put_shipped("no-op.json");
    server.put_example("misbehave");
    let mut stuck = single("stuck", "misbehave", &json!({}));
    stuck["steps"][0]["args"] = json!({ "how": "sleep" });
    server.put_workflow(&stuck);
    put_slow(server, "slow", 2_000);
}

/// Registers a workflow that answers what it is sent after so many milliseconds.
fn put_slow(server: &Server, name: &str, wait_ms: u64) {
    let args = json!({ "wait_ms": wait_ms, "say": "soon" });
    let slow = json!({ "inputs": ["in"], "outputs": ["out"], "args": args });
    server.put_workflow(&single(name, "echo", &slow));
}

fn running(server: &Server) -> Vec<Value> {
    let listed = server.get("/invocations").expect(200).json();
    let all = listed["invocations"].as_array().expect("a list").clone();
    all.into_iter().filter(|shown| shown["status"] == "running").collect()
}

/// The processes of workflows, idle workers among them: what is below the spawner.
fn workers(server: &Server) -> Vec<i32> {
    server.descendants().split_off(1)
}

/// The process that runs the one workflow that runs: the one that is not an idle worker. It has started to print.
fn the_worker(server: &Server, before: &[i32]) -> i32 {
    eventually("one runs", || running(server).len() == 1);
    let worker = |pid: &i32| !before.contains(pid);
    // Idle workers are used in the order in which they were made.
    let now = workers(server);
    *before
        .iter()
        .find(|pid| now.contains(pid))
        .unwrap_or_else(|| now.iter().find(|pid| worker(pid)).expect("a worker"))
}

#[test]
fn a_client_that_goes_away_takes_its_workflow_with_it() {
    let server = server_with_examples(&[]);
    for reset in [false, true] {
        let mut stream = server.connect();
        stream.write_all(&request("POST", "/invoke/stuck", &[], &[])).expect("sent");
        eventually("it runs", || running(&server).len() == 1);
        if reset {
            // Something unread makes the kernel reset the connection instead of closing it.
            stream.write_all(&request("GET", "/livez", &[], &[])).expect("sent");
            let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
            nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::Linger, &linger).expect("set");
        }
        drop(stream);
        eventually("it is stopped", || running(&server).is_empty());
        let newest = server.get("/invocations").expect(200).json()["invocations"][0].take();
        assert_eq!(newest["status"], "cancelled", "{newest:#}");
    }
    eventually("only idle workers are left", || server.get("/healthz").json()["running"] == 0);
}

#[test]
fn a_client_that_only_stops_sending_gets_its_answer() {
    let server = server_with_examples(&[]);
    // It may have stopped altogether, and has a second.
    put_slow(&server, "brief", 500);
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/brief", &[("Connection", "keep-alive")], b"x")).expect("sent");
    half_close(&stream);
    assert_eq!(Answer::read(&mut stream).expect("an answer").expect(200).text(), "x");
    assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
}

#[test]
fn a_slow_sender_is_disconnected() {
    let server = server_with_examples(&["--client-pause", "200ms", "--connections", "8"]);
    let mut heads: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for stream in &mut heads {
        stream.write_all(b"POST /invoke/echo HTTP/1.1\r\nHost: x\r\nX-").expect("sent");
    }
    // All places are taken by clients that send a byte now and then; yet this one is served.
    let feeder = std::thread::spawn(move || {
        let begin = Instant::now();
        while !heads.is_empty() {
            assert!(begin.elapsed() < PATIENCE, "{} clients that send slowly are still connected", heads.len());
            heads.retain_mut(|stream| stream.write_all(b"a").is_ok());
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    server.get("/livez").expect(200);
    feeder.join().expect("they were all cut off");

    let mut stream = server.connect();
    stream
        .write_all(b"POST /invoke/echo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nhalf")
        .expect("sent");
    Answer::read(&mut stream).expect("an answer").error(408, "too-slow", "client");

    // A connection on which nothing is asked is closed, too.
    let mut idle = server.connect();
    assert_eq!(idle.read(&mut [0]).expect("the end"), 0);
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    // Long enough for sending all of it, which is more than the kernel keeps.
    let server = server_with_examples(&["--client-pause", "3s"]);
    let body = vec![b'x'; 16 << 20];
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/echo", &[], &body)).expect("sent");
    eventually("it is cut off", || {
        let text = server.get("/metrics").text();
        // The one that asks.
        text.contains("monohull_connections 1\n")
    });
    let mut rest = Vec::new();
    let read = stream.read_to_end(&mut rest);
    assert!(read.is_err() || rest.len() < body.len(), "{} bytes", rest.len());
}

#[test]
fn more_than_may_run_waits_and_more_than_may_wait_is_turned_away() {
    let server = server_with_examples(&["--concurrency", "1", "--queue", "1"]);
    let mut first = server.connect();
    first.write_all(&request("POST", "/invoke/slow", &[], b"1")).expect("sent");
    eventually("it runs", || running(&server).len() == 1);
    let mut second = server.connect();
    second.write_all(&request("POST", "/invoke/echo", &[], b"2")).expect("sent");
    eventually("it waits", || server.get("/healthz").json()["queued"] == 1);
    let third = server.post("/invoke/echo", b"3");
    assert_eq!(third.headers["retry-after"], "1");
    third.error(429, "full", "host");
    server.post("/async-invoke/echo", b"4").error(429, "full", "host");
    for (mut stream, text) in [(first, "1"), (second, "2")] {
        assert_eq!(Answer::read(&mut stream).expect("an answer").expect(200).text(), text);
    }
    assert_eq!(server.post("/invoke/echo", b"5").expect(200).text(), "5");
}

#[test]
fn time_in_the_queue_counts() {
    let server = server_with_examples(&["--concurrency", "1", "--timeout", "500ms"]);
    let stuck = server.post("/async-invoke/stuck", b"").expect(202).headers["location"].clone();
    eventually("it runs", || running(&server).len() == 1);
    let later = server.post("/async-invoke/stuck", b"").expect(202).headers["location"].clone();
    assert_eq!(server.ended(&stuck)["error"]["kind"], "timeout");
    // Its turn came late or never; either way its own time is up, too.
    assert_eq!(server.ended(&later)["error"]["kind"], "timeout");
}

#[test]
fn bodies_together_have_a_limit() {
    let server = server_with_examples(&["--max-bodies", "1MiB"]);
    let body = vec![b'x'; 700 << 10];
    let mut first = server.connect();
    first.write_all(&request("POST", "/invoke/slow", &[], &body)).expect("sent");
    eventually("it runs", || running(&server).len() == 1);
    server.post("/invoke/echo", &body).error(429, "full", "host");
    server.post("/invoke/echo", b"small").expect(200);
    assert_eq!(Answer::read(&mut first).expect("an answer").expect(200).body.len(), body.len());
    eventually("there is room again", || server.post("/invoke/echo", &body).status == 200);
    // What there will never be room for need not be tried again.
    let server = server_with_examples(&["--max-bodies", "1MiB", "--max-body", "4MiB"]);
    let error = server.post("/invoke/echo", &vec![b'x'; (1 << 20) + 1]).error(413, "too-large", "client");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("1048576")), "{error:#}");
}

#[test]
fn a_process_that_is_killed_is_an_error_to_its_caller_alone() {
    let server = server_with_examples(&["--prefork", "2"]);
    let ready = || server.get("/healthz").json()["idle_workers"] == 2;
    eventually("idle workers are ready", ready);
    let before = workers(&server);
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/stuck", &[], &[])).expect("sent");
    let pid = the_worker(&server, &before);
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
    let error = Answer::read(&mut stream).expect("an answer").error(502, "process", "host");
    assert!(error["message"].as_str().expect("a message").contains("SIGKILL"), "{error:#}");
    server.post("/invoke/echo", b"x").expect(200);

    // Killed idle workers have no effect on invocations.
    for _ in 0..3 {
        eventually("idle workers are ready", ready);
        for pid in workers(&server) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            eventually("it is gone", || !is_alive(pid));
        }
        server.post("/invoke/echo", b"x").expect(200);
    }
}

/// One is missing of eight, and no more is asked for.
#[test]
fn an_idle_worker_that_was_used_is_made_up_for() {
    let server = server_with_examples(&["--prefork", "8", "--process", "per-invocation"]);
    for _ in 0..3 {
        eventually("all are ready", || server.get("/healthz").json()["idle_workers"] == 8);
        server.post("/invoke/echo", b"x").expect(200);
    }
    eventually("all are ready", || server.get("/healthz").json()["idle_workers"] == 8);
}

#[test]
fn a_process_that_hangs_is_ended_at_its_deadline() {
    let server = server_with_examples(&["--timeout", "400ms"]);
    eventually("idle workers are ready", || workers(&server).len() >= 2);
    let before = workers(&server);
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/stuck", &[], &[])).expect("sent");
    let pid = the_worker(&server, &before);
    // Now it cannot even notice its own deadline.
    kill(Pid::from_raw(pid), Signal::SIGSTOP).expect("it runs");
    Answer::read(&mut stream).expect("an answer").error(504, "timeout", "workflow");
    eventually("it is gone", || !is_alive(pid));
}

#[test]
fn without_its_spawner_a_server_ends() {
    let server = server_with_examples(&[]);
    let below = server.descendants();
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/stuck", &[], &[])).expect("sent");
    eventually("it runs", || running(&server).len() == 1);
    kill(Pid::from_raw(below[0]), Signal::SIGKILL).expect("it runs");
    Answer::read(&mut stream).expect("an answer").error(502, "process", "host");
    let (code, log) = server.wait();
    assert_eq!(code, Some(3), "{log}");
    assert!(log.contains("the spawner has ended"), "{log}");
    eventually("nothing is left", || !below.iter().any(|&pid| is_alive(pid)));
}

#[test]
fn a_server_whose_spawner_does_not_answer_is_not_ready() {
    let server = server_with_examples(&["--prefork", "1"]);
    let spawner = Pid::from_raw(server.descendants()[0]);
    kill(spawner, Signal::SIGSTOP).expect("it runs");
    // This takes the idle worker, and another is asked for.
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
    eventually("it says so", || server.get("/readyz").status == 503);
    let trouble = server.get("/healthz").expect(503).json()["trouble"].take();
    assert!(trouble.as_str().is_some_and(|trouble| trouble.contains("does not answer")), "{trouble}");
    kill(spawner, Signal::SIGCONT).expect("it is there");
    eventually("all is well", || server.get("/readyz").status == 200);
    assert_eq!(server.post("/invoke/echo", b"y").expect(200).text(), "y");
}

#[test]
fn nothing_is_left_of_a_server_that_was_killed() {
    let server = server_with_examples(&[]);
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/stuck", &[], &[])).expect("sent");
    eventually("it runs", || running(&server).len() == 1);
    let below = server.descendants();
    assert!(below.len() >= 2);
    server.signal(Signal::SIGKILL);
    let (code, _) = server.wait();
    assert_eq!(code, None);
    eventually("nothing is left", || !below.iter().any(|&pid| is_alive(pid)));
}

#[test]
fn a_server_that_ends_finishes_what_it_has() {
    let server = server_with_examples(&[]);
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/slow", &[], b"x")).expect("sent");
    eventually("it runs", || running(&server).len() == 1);
    let mut asking = server.connect();
    server.signal(Signal::SIGTERM);
    eventually("it is not ready any more", || server.get("/readyz").status == 503);
    server.get("/livez").expect(200);
    server.post("/invoke/echo", b"x").error(503, "draining", "host");
    server.post("/async-invoke/echo", b"x").error(503, "draining", "host");
    server.post("/invoke/unknown", b"x").expect(404);
    asking.write_all(&request("GET", "/livez", &[("Connection", "keep-alive")], &[])).expect("sent");
    assert_eq!(Answer::read(&mut asking).expect("an answer").expect(200).headers["connection"], "close");
    assert_eq!(Answer::read(&mut stream).expect("an answer").expect(200).text(), "x");
    let below = server.descendants();
    let (code, log) = server.wait();
    assert_eq!(code, Some(0), "{log}");
    eventually("nothing is left", || !below.iter().any(|&pid| is_alive(pid)));
}

/// The signal goes to every process of the group, as from a terminal and, by default, from systemd.
#[test]
fn a_signal_to_all_of_its_processes_lets_a_server_finish_too() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let server = server_with_examples(&[]);
        let mut stream = server.connect();
        stream.write_all(&request("POST", "/invoke/slow", &[], b"x")).expect("sent");
        eventually("it runs", || running(&server).len() == 1);
        for pid in server.descendants() {
            // One that was not needed may be gone.
            let _ = kill(Pid::from_raw(pid), signal);
        }
        server.signal(signal);
        assert_eq!(Answer::read(&mut stream).expect("an answer").expect(200).text(), "x");
        let (code, log) = server.wait();
        assert_eq!(code, Some(0), "{log}");
    }
}

/// A hangup is that of a terminal, or of a service manager that knows nothing better to have files read again. Where `nohup` has started this test
/// it means nothing.
#[test]
fn a_hangup_lets_a_server_finish_too_where_it_has_nothing_to_read_again() {
    let server = server_with_examples(&[]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it is there");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).expect("a mask");
    let is_ignored = u64::from_str_radix(ignored, 16).expect("a number") & 1 != 0;
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/slow", &[], b"x")).expect("sent");
    eventually("it runs", || running(&server).len() == 1);
    server.signal(Signal::SIGHUP);
    assert_eq!(Answer::read(&mut stream).expect("an answer").expect(200).text(), "x");
    if is_ignored {
        server.get("/readyz").expect(200);
    }
    let (code, log) = if is_ignored { server.stop() } else { server.wait() };
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn a_server_that_ends_does_not_wait_for_ever() {
    let server = server_with_examples(&["--drain", "200ms"]);
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/stuck", &[], &[])).expect("sent");
    eventually("it runs", || running(&server).len() == 1);
    // A client that holds its connection open does not hold up the end either.
    let _idle = server.connect();
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    Answer::read(&mut stream).expect("an answer").error(502, "cancelled", "host");
}

#[test]
fn an_invocation_can_be_stopped() {
    let server = server_with_examples(&[]);
    let location = server.post("/async-invoke/stuck", b"").expect(202).headers["location"].clone();
    eventually("it runs", || running(&server).len() == 1);
    server.ask("DELETE", &location, &[]).expect(204);
    assert_eq!(server.ended(&location)["status"], "cancelled");
    server.ask("DELETE", &location, &[]).expect(204);
    server.ask("DELETE", "/invocations/unknown", &[]).expect(404);
}

#[test]
fn old_invocations_are_forgotten() {
    let server = server_with_examples(&["--keep", "2", "--keep-durable", "2"]);
    let call = |text: &str| {
        let answer = server.post("/invoke/echo", text.as_bytes()).expect(200);
        format!("/invocations/{}", answer.headers["x-invocation-id"])
    };
    let locations = ["a", "b", "c"].map(call);
    server.get(&locations[0]).error(404, "not-found", "client");
    assert_eq!(server.get(&locations[2]).expect(200).json()["result"]["out"]["text"], "c");
    let call = |text: &str| {
        let location = server.post("/async-invoke/echo", text.as_bytes()).expect(202).headers["location"].clone();
        server.ended(&location);
        location
    };
    let locations = ["a", "b", "c"].map(call);
    eventually("it is forgotten", || server.get(&locations[0]).status == 404);
    assert_eq!(server.get(&locations[2]).expect(200).json()["result"]["out"]["text"], "c");
    let server = server_with_examples(&["--keep-durable-bytes", "4KiB"]);
    let location = server.post("/async-invoke/echo", &[b'x'; 4096]).expect(202).headers["location"].clone();
    server.ended(&location);
    eventually("it is forgotten", || server.get(&location).status == 404);
}

/// Descriptors of the server and its spawner, and the processes there are.
fn census(server: &Server) -> (usize, usize, usize) {
    let files = |pid: i32| std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    let below = server.descendants();
    (files(server.pid()), files(below[0]), below.len())
}

#[test]
fn load_leaves_nothing_behind() {
    let server = server_with_examples(&["--keep", "0", "--prefork", "2"]);
    server.put_workflow(&{
        let mut document = single("panic", "misbehave", &json!({}));
        document["steps"][0]["args"] = json!({ "how": "panic" });
        document
    });
    let load = || {
        std::thread::scope(|scope| {
            for client in 0..8 {
                let server = &server;
                scope.spawn(move || {
                    for turn in 0..20 {
                        let body = format!("{client} {turn} {}", "x".repeat(turn * 10_000));
                        match turn % 5 {
                            0 => drop(server.post("/invoke/panic", b"").expect(502)),
                            1 => {
                                // Leaves before it is answered.
                                let mut stream = server.connect();
                                let _ = stream.write_all(&request("POST", "/invoke/echo", &[], body.as_bytes()));
                            }
                            2 => {
                                let location = server.post("/async-invoke/echo", body.as_bytes()).expect(202);
                                drop(location);
                            }
                            _ => assert_eq!(server.post("/invoke/echo", body.as_bytes()).expect(200).text(), body),
                        }
                    }
                });
            }
        });
        let quiet = || server.get("/healthz").json();
        eventually("all is quiet", || {
            let health = quiet();
            health["running"] == 0 && health["queued"] == 0 && health["idle_workers"] == 2
        });
        eventually("connections are closed", || server.get("/metrics").text().contains("monohull_connections 1\n"));
    };
    load();
    let before = census(&server);
    load();
    // Ends are reported one by one: wait for all of them.
    eventually("as before", || {
        let now = census(&server);
        now.0 <= before.0 && now.1 <= before.1 && now.2 <= before.2
    });
}

/// With fewer and fewer descriptors for the server, and then for its spawner, each step fails once that takes one on the way
/// to a new process.
#[test]
fn a_server_without_a_descriptor_left_waits_for_better_times() {
    let server = Server::start_with(&["--prefork", "1", "--process", "per-invocation"]);
    server.put_shipped("no-op.json");
    let mut asking = server.connect();
    let mut invoke = || {
        let asked = request("POST", "/invoke/no-op", &[("Connection", "keep-alive")], b"");
        asking.write_all(&asked).expect("the server is there");
        Answer::read(&mut asking).expect("an answer").status
    };
    for pid in [server.pid(), server.descendants()[0]] {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it is there");
        let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("a limit");
        let most = files.split_whitespace().nth(1).and_then(|number| number.parse().ok());
        let limit = |current| {
            let pid = rustix::process::Pid::from_raw(pid).expect("a process");
            prlimit(Some(pid), Resource::Nofile, Rlimit { current, maximum: most }).expect("it is below us");
        };
        assert_eq!(invoke(), 200);
        for number in (4..40).rev() {
            limit(Some(number));
            let statuses: Vec<u16> = (0..4).map(|_| invoke()).collect();
            assert!(statuses.iter().all(|status| [200, 500, 503].contains(status)), "{number}: {statuses:?}");
        }
        assert_ne!(invoke(), 200, "there is no descriptor left");
        limit(most);
        eventually("it runs workflows again", || server.post("/invoke/no-op", b"").status == 200);
    }
}

/// The time in the queue counts: what is left ends a workflow by itself, with a report that says where it was.
#[test]
fn a_workflow_that_had_to_wait_reports_its_deadline_itself() {
    let server = server_with_examples(&["--concurrency", "1", "--timeout", "4s"]);
    let mut short = single("short", "misbehave", &json!({ "limits": { "timeout": "2s" } }));
    short["steps"][0]["args"] = json!({ "how": "sleep" });
    server.put_workflow(&short);
    std::thread::scope(|scope| {
        scope.spawn(|| server.post("/invoke/short", b"").error(504, "timeout", "workflow"));
        eventually("it runs", || running(&server).len() == 1);
        let error = server.post("/invoke/stuck", b"").error(504, "timeout", "host");
        assert_eq!(error["report"]["steps"][0]["name"], "main", "{error:#}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains("turn")), "{error:#}");
    });
}

#[test]
fn a_callback_is_sent_at_the_end() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = listener.local_addr().expect("an address").to_string();
    let server = server_with_examples(&["--callback-host", &host]);
    let url = format!("http://{host}/done?x=1");
    let headers = [("X-Callback-Url", url.as_str()), ("X-Call-Id", "c-1")];
    server.ask_with("POST", "/async-invoke/echo", &headers, b"hello").expect(202);
    for status in ["500 Busy", "200 OK"] {
        let (head, shown) = take_callback(&listener, status);
        assert!(head.starts_with("post /done?x=1 http/1.1\r\n") && head.contains("x-call-id: c-1\r\n"), "{head}");
        assert_eq!(shown["result"]["out"]["text"], "hello");
    }
    let elsewhere = [("X-Callback-Url", "http://127.0.0.1:1/")];
    server.ask_with("POST", "/async-invoke/echo", &elsewhere, b"x").error(400, "bad-request", "client");
}

/// Bytes that would be very many things once they are taken apart.
#[test]
fn a_body_takes_little_more_memory_than_its_bytes_when_it_is_taken_apart() {
    const BODY: usize = 24 << 20;
    let server = server_with_examples(&[]);
    server.put_workflow(&single("two", "echo", &json!({ "inputs": ["in", "more"], "outputs": ["out"] })));
    let filled = |begin: &str, again: &dyn Fn(usize) -> String, end: &str| {
        let mut text = begin.to_owned();
        for number in 0.. {
            text += &again(number);
            if text.len() > BODY {
                break;
            }
        }
        text + end
    };
    let before = server.most_memory();
    let json = [("Content-Type", "application/json")];
    for slots in [
        filled("{\"in\":[0", &|_| ",0".repeat(1000), "]}"),
        filled("{\"in\":{\"base64\":[[]", &|_| ",[]".repeat(1000), "]}}"),
        filled("{\"in\":\"\"", &|number| format!(",\"{number}\":\"\""), "}"),
        filled("{\"in\":{\"x\":0", &|number| format!(",\"{number}\":0"), "}}"),
    ] {
        server.ask_with("POST", "/invoke/two", &json, slots.as_bytes()).error(400, "bad-request", "client");
        let run = format!("{{\"workflow\":{{}},\"inputs\":{slots}}}");
        server.post("/run", run.as_bytes()).error(400, "bad-request", "client");
    }
    let grown = server.most_memory().saturating_sub(before);
    // Each thread that has read one may keep as much for its next. A value of JSON in memory takes sixteen times its bytes.
    assert!(grown < 8 * BODY, "{grown} bytes more for bodies of {BODY}");
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
}

/// A running workflow keeps the functions it began with, even if their names are registered anew or removed.
#[test]
fn what_is_replaced_and_removed_meanwhile_does_not_change_what_runs() {
    let server = server_with_examples(&[]);
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/slow", &[], b"x")).expect("sent");
    let location = server.post("/async-invoke/slow", b"y").expect(202).headers["location"].clone();
    eventually("both run", || running(&server).len() == 2);
    server.ask("PUT", "/functions/echo", &serve_support::image_bytes("no-op")).expect(200);
    server.ask("DELETE", "/functions/echo", &[]).error(409, "conflict", "client");
    for workflow in ["slow", "echo"] {
        server.ask("DELETE", &format!("/workflows/{workflow}"), &[]).expect(204);
    }
    server.ask("DELETE", "/functions/echo", &[]).expect(204);
    assert_eq!(Answer::read(&mut stream).expect("an answer").expect(200).text(), "x");
    assert_eq!(server.ended(&location)["result"]["out"]["text"], "y");
    server.post("/invoke/slow", b"x").error(404, "not-found", "client");
    // Of a workflow that is gone, nothing is counted under its name.
    assert!(!server.get("/metrics").text().contains("workflow=\"slow\""));
}

/// The receiver of a callback may be slow, and each slow one takes memory and a connection here.
#[test]
fn callbacks_that_are_under_way_have_a_limit() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = listener.local_addr().expect("an address").to_string();
    let server = server_with_examples(&["--callback-host", &host, "--max-callbacks", "2"]);
    let url = format!("http://{host}/");
    let headers = [("X-Callback-Url", url.as_str())];
    let send = |body: &[u8]| {
        let answer = server.ask_with("POST", "/async-invoke/echo", &headers, body).expect(202);
        let location = answer.headers["location"].clone();
        server.ended(&location);
    };
    // A callback is kept until it was made or given up.
    let state = server.state();
    let store = monohull_durable::Store::open_served(&state.path().join("durable"), None).expect("a server's store");
    let owed = || store.meta().and_then(|meta| Ok(meta.owed()?)).expect("read").len();
    let held: Vec<_> = [b"a", b"b"]
        .map(|body| {
            send(body);
            listener.accept().expect("a call").0
        })
        .into();
    send(b"c");
    eventually("it is given up", || server.log().contains("too many are under way"));
    eventually("those two are owed", || owed() == 2);
    listener.set_nonblocking(true).expect("set");
    assert!(listener.accept().is_err(), "no callback beside those two");
    listener.set_nonblocking(false).expect("set");
    // What is not read before it is closed would be a reset for the caller, and tried again.
    let answer = |mut stream: std::net::TcpStream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("sent");
        half_close(&stream);
        std::io::copy(&mut stream, &mut std::io::sink()).expect("read to its end");
    };
    held.into_iter().for_each(answer);
    eventually("both have been called", || owed() == 0);
    send(b"d");
    answer(listener.accept().expect("a call").0);
    eventually("it has been called", || owed() == 0);
}

#[test]
fn the_timeout_includes_the_wait_in_the_queue() {
    // A server on the same folder as one that was killed starts at once: nothing holds the lock of a dead process.
    let state = StateFolder::new();
    let server = Server::start_on(&state, &[], &[]);
    deploy_examples(&server);
    server.signal(Signal::SIGKILL);
    server.wait();
    let begin = Instant::now();
    let server = Server::start_on(&state, &[], &[]);
    assert_eq!(server.post("/invoke/echo", b"still here").expect(200).text(), "still here");
    assert!(begin.elapsed() < PATIENCE);
}

/// How long a client takes to send is limited by its pace, and not by the time that its workflow has.
#[test]
fn the_time_in_which_a_body_arrives_does_not_count() {
    let timeout = Duration::from_secs(5);
    let server = server_with_examples(&["--timeout", "5s", "--client-pause", "60s"]);
    let mut stream = server.connect();
    stream.write_all(b"POST /invoke/echo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 8\r\n\r\nhalf").expect("sent");
    std::thread::sleep(timeout);
    stream.write_all(b"half").expect("sent");
    assert_eq!(Answer::read(&mut stream).expect("an answer").expect(200).text(), "halfhalf");
}
