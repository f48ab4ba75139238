//! Attackers that have one invocation of a process to themselves before another comes: what they leave on purpose is in no page of
//! the process, and what fails in a new process fails in one that has served others.
//!
//! The ways to leave something, and the attacks, are those of `examples/attacks`.

use super::harness::DOORS;
use super::memory::{self, Search, count_mappings, open_files, resident, threads, timers};
use super::serve_support::{Server, StateFolder, eventually, single};
use super::{BYTES, isolations, kept, kept_and_idle, places};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Ways to leave something that is made of a mark, or that costs memory. The others leave no bytes.
const WAYS: [&str; 10] =
    ["threads", "lines", "files", "mapped", "memory", "kinds", "copied", "interrupted", "names", "hoard"];
pub(super) const MARK: &str = "c0ffee-left-behind";

/// More than this is not what a process has for itself.
const RESIDENT_MORE: u64 = 1 << 20;

pub(super) fn serve(program: Command, isolation: &str, separation: &str) -> Server {
    let options = ["--prefork", "2", "--process", "reused", "--suspend", "2h", "--isolation", isolation];
    let server = Server::start_by(program, &StateFolder::new(), &options, &[]);
    server.put_example("attacks");
    let document = single(
        "remains",
        "attacks",
        &json!({
            "args": { "role": "remains" },
            "inputs": ["todo"],
            "unread": "ignore",
            "isolation": separation,
            "files": [{ "at": "/mem", "memory": "64MiB" }],
            "limits": { "carriers": 4, "slots": "256MiB", "timeout": "600s" },
        }),
    );
    server.put_workflow(&document);
    server
}

/// Has an invocation do something: the answer's status, and the invocation's document with its lines.
#[track_caller]
fn invoke(server: &Server, todo: &str) -> (u16, Value, String) {
    let answer = server.ask_with("POST", "/invoke/remains", &BYTES, todo.as_bytes());
    let id = answer.headers["x-invocation-id"].clone();
    if answer.status == 200 {
        eventually("it is reset", || kept(server) == 1);
    }
    let shown = server.get(&format!("/invocations/{id}")).expect(200).json();
    let lines = server.get(&format!("/invocations/{id}/logs?format=raw")).expect(200).text();
    (answer.status, shown, lines)
}

#[track_caller]
pub(super) fn done(server: &Server, todo: &str, before: u64) {
    let (status, shown, lines) = invoke(server, todo);
    assert_eq!(status, 200, "{todo}: {shown:#}: {lines}");
    assert_eq!(shown["report"]["process"]["before"], before, "{todo}: {}", server.log());
}

/// What the kernel has for a process, besides its pages.
#[derive(PartialEq, Eq, Debug)]
struct Holds {
    files: usize,
    timers: usize,
    threads: usize,
    signals: Vec<String>,
}

impl Holds {
    fn of(pid: i32) -> Holds {
        Holds {
            files: open_files(pid).len(),
            timers: timers(pid),
            threads: threads(pid),
            signals: memory::signals(pid),
        }
    }
}

#[test]
fn nothing_that_is_left_on_purpose_is_in_any_page() {
    for isolation in isolations() {
        let server = serve(Command::new(env!("CARGO_BIN_EXE_monohull")), isolation, "function");
        // All modules are loaded, and as many threads have been there as ever.
        let mut served = 0;
        for way in WAYS {
            done(&server, &format!("leave {way} {MARK}"), served);
            served += 1;
        }
        done(&server, "nothing", served);
        let (pid, _) = kept_and_idle(&server);
        let (before, resident_before, mappings_before) = (Holds::of(pid), resident(pid), count_mappings(pid));
        for way in WAYS {
            served += 1;
            done(&server, &format!("leave {way} {MARK}"), served);
            assert_eq!(Search::of(pid).find(MARK.as_bytes()), [], "{isolation}: {way}");
            let more = resident(pid).saturating_sub(resident_before);
            assert!(more < RESIDENT_MORE, "{isolation}: {way}: {more} bytes more");
            assert_eq!(Holds::of(pid), before, "{isolation}: {way}");
            // Fewer where no cells are kept, as after mapped files.
            let mappings = count_mappings(pid);
            assert!(mappings <= mappings_before, "{isolation}: {way}: {mappings}, not {mappings_before}");
        }
    }
}

/// The control: while the invocation lasts the search finds the mark, and the memory is taken.
#[test]
fn what_is_left_is_there_as_long_as_its_invocation() {
    let isolation = isolations().pop().expect("there is one without keys");
    let server = serve(Command::new(env!("CARGO_BIN_EXE_monohull")), isolation, "function");
    for way in WAYS {
        let todo = format!("hold {way} {MARK}");
        let answer = server.ask_with("POST", "/async-invoke/remains", &BYTES, todo.as_bytes()).expect(202);
        let location = answer.headers["location"].clone();
        eventually("it holds it", || {
            server.get(&format!("{location}/logs?format=raw")).expect(200).text().contains("holds it")
        });
        let at_work = |pid: &i32| open_files(*pid).iter().any(|file| file.contains("memfd:"));
        let worker = server.descendants().into_iter().skip(1).find(at_work).expect("it is at work");
        // One mark is that of its input.
        let marks: usize = Search::of(worker).find(MARK.as_bytes()).iter().map(|(_, count)| count).sum();
        assert!(marks > 1, "{way}: {marks}");
        if way == "hoard" {
            assert!(resident(worker) > 64 << 20, "{}", resident(worker));
        }
        server.ask("DELETE", &location, b"").expect(204);
        server.ended(&location);
        eventually("it ends", || !server.descendants().contains(&worker));
    }
}

/// Attacks of each kind, and by what they end where keys are in force. `keys_attacks` has all of them; here they come after two invocations.
const STRIKES: [(&str, &str); 34] = [
    ("memory visor-data read", "memory-fault"),
    ("memory visor-heap read", "memory-fault"),
    ("memory visor-heap write", "memory-fault"),
    ("memory trusted-stack read", "memory-fault"),
    ("memory trusted-stack write", "memory-fault"),
    ("memory libc-data read", "memory-fault"),
    ("memory module-data write", "memory-fault"),
    ("memory dispatch-table write", "memory-fault"),
    ("memory tls read", "memory-fault"),
    ("memory signal-stack read", "memory-fault"),
    ("memory carrier write", "memory-fault"),
    ("memory selector write", "memory-fault"),
    ("memory guard write", "stack-overflow"),
    ("jump stub wrpkru,open", "illegal-instruction"),
    ("jump stub wrpkru", "memory-fault"),
    ("jump exit tail", "memory-fault"),
    ("jump signal-entry wrpkru", "illegal-instruction"),
    ("jump signal-entry signal-stack,kernels", "trap"),
    ("jump copy copy", "memory-fault"),
    ("jump libc-wrpkru open", "illegal-instruction"),
    ("jump vdso-clock clock", "memory-fault"),
    ("jump middle", "system-call"),
    ("instruction hlt", "memory-fault"),
    ("instruction ud2", "illegal-instruction"),
    ("instruction int3", "trap"),
    ("signal frame bare", "system-call"),
    ("signal fault trusted-stack", "illegal-instruction"),
    ("signal fault carrier", "illegal-instruction"),
    ("signal hostcall trusted-stack", "memory-fault"),
    ("deputy print visor-heap", "error"),
    ("deputy fill trusted-stack", "error"),
    ("exhaustion recursion", "stack-overflow"),
    ("door getpid libc", "system-call"),
    ("door getpid instruction", "system-call"),
];

/// Those, and all doors of the kernel.
fn strikes() -> Vec<(String, &'static str)> {
    let doors = DOORS.map(|(door, _)| (format!("door {door} syscall"), "system-call"));
    STRIKES.map(|(attack, kind)| (attack.to_owned(), kind)).into_iter().chain(doors).collect()
}

/// One attack, as an invocation.
#[track_caller]
fn strike(server: &Server, places: &str, strike: &str) -> (u16, Value, String) {
    invoke(server, &format!("strike {strike}\n{places}"))
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn attacks_in_a_process_that_has_served_others_fail() {
    let visor = Path::new(env!("CARGO_BIN_EXE_monohull"));
    if !isolations().contains(&"mpk") {
        panic!("there are no protection keys");
    }
    let places = places::places(visor);
    let server = serve(places::at_fixed_addresses(visor), "mpk", "workflow");
    for (attack, kind) in strikes() {
        done(&server, "nothing", 0);
        done(&server, &format!("leave memory {MARK}"), 1);
        let (status, shown, lines) = strike(&server, &places, &attack);
        assert_eq!(status, 502, "{attack}: {shown:#}: {lines}");
        assert_eq!(shown["report"]["process"]["before"], 2, "{attack}: {}", server.log());
        assert_eq!(shown["error"]["kind"], kind, "{attack}: {shown:#}");
        assert!(!lines.contains("got "), "{attack}: {lines}");
        // Its process has ended with it.
        eventually("it ends", || kept(&server) == 0);
    }
    // Registers are empty behind hostcalls, as in a new process.
    done(&server, "nothing", 0);
    let (status, shown, lines) = strike(&server, &places, "leftovers registers -");
    assert!(
        status != 200 && shown["error"]["message"].as_str().is_some_and(|why| why.contains("nothing was left")),
        "{shown:#}: {lines}"
    );
}

/// The control: without keys the same attacks on memory get what they are after, in a process that has served others.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn attacks_on_memory_succeed_without_keys() {
    let visor = Path::new(env!("CARGO_BIN_EXE_monohull"));
    let places = places::places(visor);
    let server = serve(places::at_fixed_addresses(visor), "process", "workflow");
    let reads = STRIKES.into_iter().filter(|(attack, _)| attack.ends_with(" read"));
    for (before, (attack, _)) in reads.enumerate() {
        let (status, shown, lines) = strike(&server, &places, attack);
        assert_eq!(status, 200, "{attack}: {shown:#}: {lines}");
        assert_eq!(shown["report"]["process"]["before"], before, "{attack}: {}", server.log());
        assert!(lines.contains("got "), "{attack}: {lines}");
    }
}
