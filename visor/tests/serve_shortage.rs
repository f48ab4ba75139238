//! A host that lacks something for a while costs no invocation: what was acknowledged is begun, or kept, once there is what was missing.

mod serve_support;

use nix::sys::signal::{Signal, kill};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use serve_support::{Answer, Server, StateFolder, eventually, request, single};
use std::fs;
use std::io::Write;
use std::net::TcpStream;

/// So few descriptors that there is no new one, and enough for calls that are about some.
const FEW: u64 = 8;

/// How many descriptors a server may have.
fn limit_descriptors(server: &Server, number: Option<u64>) {
    let pid = Pid::from_raw(server.pid()).expect("a process");
    let own = getrlimit(Resource::Nofile);
    let limit = Rlimit { current: number.or(own.maximum), maximum: own.maximum };
    prlimit(Some(pid), Resource::Nofile, limit).expect("it is below us");
}

/// A request over a connection that is there.
fn post(connection: &mut TcpStream, path: &str, body: &[u8]) -> Answer {
    connection.write_all(&request("POST", path, &[], body)).expect("sent");
    Answer::read(connection).expect("an answer")
}

fn text(shown: &Value) -> &Value {
    assert_eq!(shown["status"], "completed", "{shown:#}");
    &shown["result"]["out"]["text"]
}

/// Neither may be run twice. Nothing of them has been run when the host has no descriptor for their process, and so they are not lost.
#[test]
fn calls_that_cannot_begin_are_begun_later() {
    let server = Server::start();
    server.put_shipped("echo.json");
    let mut connection = server.connect();
    // The limit is in force long before it is due.
    server.post("/async-invoke/echo?id=durable&delay=10s", b"kept").expect(202);
    limit_descriptors(&server, Some(FEW));
    let location = post(&mut connection, "/async-invoke/echo", b"at once").expect(202).headers["location"].clone();
    eventually("it cannot begin", || server.log().contains("a call is begun later"));
    eventually("what is due cannot begin", || server.log().contains("an invocation goes on later"));
    limit_descriptors(&server, None);
    assert_eq!(*text(&server.ended(&location)), "at once");
    assert_eq!(*text(&server.ended("/invocations/durable")), "kept");
}

/// Processes are made several at once, where there is room for several.
#[test]
fn processes_are_made_one_by_one_where_there_is_no_room_for_several() {
    /// Enough for some processes, and not for as many as are asked for at once.
    const ROOM: u64 = 10;
    let server = Server::start_with(&["--prefork", "32", "--suspend", "never", "--timeout", "10m"]);
    server.put_example("sleeper");
    let args = json!({ "naps": 1, "milliseconds": 500_000, "takes": "", "fills": "result" });
    server.put_workflow(&single("naps", "sleeper", &json!({ "args": args, "outputs": ["result"] })));
    let number = |of: &str| server.get("/healthz").json()[of].as_u64().expect("a number");
    eventually("all are ready", || number("idle_workers") == 32);
    let spawner = nix::unistd::Pid::from_raw(server.descendants()[0]);
    let start = || drop(server.post("/async-invoke/naps", b"").expect(202));
    kill(spawner, Signal::SIGSTOP).expect("it is there");
    start();
    eventually("one more is asked for", || server.get("/healthz").text().contains("does not answer"));
    (1..16).for_each(|_| start());
    eventually("all run", || (number("running"), number("idle_workers")) == (16, 16));
    let taken = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("its descriptors").count();
    limit_descriptors(&server, Some(taken as u64 + ROOM));
    kill(spawner, Signal::SIGCONT).expect("it is there");
    eventually("there is no room for fifteen", || server.log().contains("a process for a workflow could not be made"));
    eventually("there is room for some", || number("idle_workers") > 17);
}

/// A first wait has nothing before it that could be gone on from.
#[test]
fn a_first_wait_that_the_disk_does_not_take_is_kept_later() {
    let state = StateFolder::new();
    // What waits in its process has its checkpoint in the database for a while, and needs no file.
    let server = Server::start_on(&state, &["--suspend", "1s", "--resident-memory", "0"], &[]);
    server.put_example("sleeper");
    let args = json!({ "naps": 1, "milliseconds": 1500, "takes": "", "fills": "result" });
    server.put_workflow(&single("naps", "sleeper", &json!({ "args": args, "outputs": ["result"] })));
    let folder = state.path().join("durable/checkpoints");
    let away = folder.with_file_name("away");
    fs::rename(&folder, &away).expect("renamed");
    fs::write(&folder, "").expect("written");
    // Its id is no part of the path that the log names.
    let started = ["/async-invoke/naps", "/async-invoke/naps?id=by-name"];
    let locations = started.map(|path| server.post(path, b"").expect(202).headers["location"].clone());
    for location in &locations {
        let id = &location["/invocations/".len()..];
        let is_told = |line: &str| line.contains("a checkpoint is written again later") && line.contains(id);
        eventually("its checkpoint cannot be written", || server.log().lines().any(is_told));
        assert_eq!(server.get(location).expect(200).json()["status"], "running");
    }
    fs::remove_file(&folder).expect("removed");
    fs::rename(&away, &folder).expect("renamed");
    for location in &locations {
        let shown = server.ended(location);
        assert_eq!(shown["status"], "completed", "{shown:#}");
        assert_eq!(
            shown["result"]["result"]["text"], "1 naps, 5 letters, map true, thread true, time true\n",
            "{shown:#}"
        );
    }
}
