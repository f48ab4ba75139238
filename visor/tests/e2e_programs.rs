//! Programs as they are: C, and Rust's real std, over the libc of `libc/`. Each program (`libc/programs`) goes through a group of
//! rows of the table of system calls, checks what they answer, and counts.

mod support;

use monohull_visor::disk::Disk;
use monohull_visor::engine::RunOptions;
use monohull_visor::report::{RunReport, Silent, Status};
use serde_json::{Value, json};
use std::sync::Arc;

/// A workflow with one step that runs the program.
fn document(program: &str) -> Value {
    json!({
        "name": "program",
        "functions": { "program": { "image": format!("libc-{program}") } },
        "files": [{ "at": "/", "memory": "16MiB" }],
        "steps": [{ "name": "program", "function": "program" }],
    })
}

/// Runs it with `input` as its standard input.
fn run_with_input(mut document: Value, input: &str) -> RunReport {
    document["steps"][0]["stdin"] = json!("input");
    document["inputs"] = json!(["input"]);
    let inline_inputs = [("input".to_owned(), input.as_bytes().to_vec())].into();
    support::run_with(&document, &RunOptions { inline_inputs, ..RunOptions::default() }, Arc::new(Silent))
}

/// A network on which a program reaches itself.
fn network() -> Value {
    json!({ "mode": "host", "listen": ["127.0.0.1:*"], "connect": ["127.0.0.1:*"] })
}

/// The lines it printed, after it has succeeded.
fn printed(report: &RunReport) -> Vec<&str> {
    let instance = &report.steps[0].instances[0];
    let lines = instance.lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(report.status, Status::Done, "{lines:#?} {:#?}", report.error);
    lines
}

/// Every check of the program holds, and it prints nothing else but one line for each of these refusals.
fn refuses(document: &Value, refusals: &[&str]) {
    let report = support::run(document);
    let lines = printed(&report);
    let (refused, rest): (Vec<&str>, Vec<&str>) = lines.iter().partition(|line| line.starts_with("monohull: "));
    assert!(rest.len() == 1 && rest[0].ends_with(" checks, 0 failures"), "{lines:#?}");
    assert_eq!(refused.len(), refusals.len(), "{lines:#?}");
    for refusal in refusals {
        assert!(refused.iter().any(|line| line.ends_with(refusal)), "{refusal}: {lines:#?}");
    }
}

#[test]
fn memory_after_a_sleep() {
    let mut document = document("asleep");
    document["steps"][0]["args"] = json!({ "argv": ["1", "10", "/file"] });
    refuses(&document, &[]);
}

#[test]
fn one_write_prints_all_of_it() {
    let mut document = document("files");
    document["steps"][0]["args"] = json!({ "argv": ["print"] });
    let report = support::run(&document);
    let lines = printed(&report);
    let (last, pieces) = lines.split_last().expect("lines");
    assert_eq!(*last, "1 checks, 0 failures");
    assert!(pieces.concat().bytes().eq(std::iter::repeat_n(b'x', 29_999)), "{} pieces", pieces.len());
}

#[test]
fn files_directories_and_descriptors() {
    refuses(&document("files"), &["hard links"]);
}

#[test]
fn the_heap_and_mappings() {
    let mut document = document("memory");
    document["steps"][0]["memory"] = json!("64MiB");
    let refusals =
        ["(PROT_EXEC)", "(MREMAP_FIXED, MREMAP_DONTUNMAP)", "no system call 101 (ptrace)", "32 GiB (mmap, PROT_NONE)"];
    refuses(&document, &refusals);
}

#[test]
fn texts_and_sorting() {
    let mut document = document("texts");
    document["steps"][0]["memory"] = json!("64MiB");
    refuses(&document, &[]);
}

#[test]
fn a_touch_of_memory_that_is_only_reserved_ends_the_program() {
    let mut document = document("memory");
    document["steps"][0]["args"] = json!({ "argv": ["5000"] });
    let report = support::run(&document);
    let error = report.error.expect("it has failed");
    assert_eq!((error.kind.name(), error.step.as_deref()), ("memory-fault", Some("program")), "{error:#?}");
    assert_eq!(report.steps[0].instances[0].lines[0].text, "reserved");
}

/// On each kind of mount. What was stored last is in the file when the instance has ended.
#[test]
fn stores_in_mapped_files_and_writes_to_them_meet() {
    let granted = tempfile::tempdir().expect("a folder");
    let image = granted.path().join("disk.img");
    Disk::create(&image, 4 << 20, false).expect("an image");
    let mounts = [
        json!({ "at": "/", "memory": "16MiB" }),
        json!({ "at": "/", "image": image, "access": "write" }),
        json!({ "at": "/", "directory": granted.path(), "access": "write" }),
    ];
    for mount in mounts {
        let mut document = document("shared_files");
        document["files"] = json!([mount]);
        refuses(&document, &["(MAP_SHARED)", "32 GiB (mmap, PROT_NONE)"]);
        let looks =
            json!({ "name": "looks", "function": "program", "after": ["program"], "args": { "argv": ["last"] } });
        document["steps"].as_array_mut().expect("steps").push(looks);
        let report = support::run(&document);
        let lines = &report.steps[1].instances[0].lines;
        assert_eq!(lines[0].text, "1 checks, 0 failures", "{mount} {lines:#?} {:#?}", report.error);
    }
}

/// A program that defines `malloc` replaces the libc's.
#[test]
fn a_heap_of_the_programs_own() {
    refuses(&document("own_heap"), &[]);
}

#[test]
fn threads_locks_thread_locals_and_clocks() {
    refuses(&document("threads"), &["(pthread_cancel)"]);
}

#[test]
fn sockets() {
    let mut document = document("sockets");
    document["network"] = network();
    refuses(&document, &["socketpair makes a pair without", "(setsockopt, IP_ADD_MEMBERSHIP)"]);
}

/// Slots and the instance, by `monohull.h`.
#[test]
fn slots_by_the_header_for_c() {
    let mut document = document("slots");
    (document["inputs"], document["outputs"]) = (json!(["given"]), json!(["upper"]));
    let inline_inputs = [("given".to_owned(), "eine Wörterfolge".as_bytes().to_vec())].into();
    let report = support::run_with(&document, &RunOptions { inline_inputs, ..RunOptions::default() }, Arc::new(Silent));
    assert!(printed(&report)[0].ends_with(" checks, 0 failures"), "{:#?}", printed(&report));
    assert_eq!(support::text(&report, "upper"), "EINE WöRTERFOLGE");
}

/// A program asks for an effect by `monohull.h`, and another instance of it handles that, from its standard input.
#[test]
fn effects_by_the_header_for_c() {
    let mut document = document("effects");
    let handler = json!({ "name": "handler", "function": "program", "handles": "shout", "stdin": "request" });
    document["steps"].as_array_mut().expect("steps").push(handler);
    let report = support::run(&document);
    assert!(printed(&report)[0].ends_with(" checks, 0 failures"), "{:#?}", printed(&report));
    assert_eq!(report.steps[1].handled, 2);
}

/// A thread waits until another one uses its continuation, by `monohull.h`.
#[test]
fn continuations_by_the_header_for_c() {
    refuses(&document("continuations"), &[]);
}

/// A search by `monohull.h` that goes back where it was wrong; files, threads.
#[test]
fn going_back_by_the_header_for_c() {
    refuses(&document("rewind"), &[]);
}

/// Connections that are made, refused and in progress, with non-blocking sockets.
#[test]
fn connecting_without_waiting() {
    let mut document = document("connect");
    document["network"] = network();
    let report = support::run(&document);
    assert!(printed(&report)[0].ends_with(" checks, 0 failures"), "{:#?}", printed(&report));
    // One of its calls waits for three seconds, and looks only when something has changed.
    let parked = report.steps[0].instances[0].park_us;
    assert!(parked >= 2_500_000, "{parked}");
}

/// Event counters, pipes, pairs of sockets and `select`, between threads; `poll` of them and of TCP.
#[test]
fn pipes_event_counters_and_pairs_of_sockets() {
    let mut document = document("pipes");
    document["network"] = network();
    refuses(&document, &["(sendmsg, SCM_RIGHTS)"]);
}

/// Nothing of the network is needed for them.
#[test]
fn pipes_without_a_network() {
    refuses(&document("pipes"), &["(sendmsg, SCM_RIGHTS)"]);
}

/// The rows of the table that the other programs do not come by.
#[test]
fn calls_by_their_numbers() {
    let refusals = [
        "(fork, vfork, posix_spawn)",
        "(exec)",
        "hard links",
        "a handler that is set is never called",
        "(inotify, fanotify)",
        "(timer_create, setitimer, alarm)",
        "there is no io_uring",
        "there is no system call 133 (mknod)",
    ];
    refuses(&document("calls"), &refusals);
}

/// What Linux tells of a process and a machine in files.
#[test]
fn files_of_proc() {
    let mut document = document("proc");
    document["steps"][0]["args"] = json!({ "argv": ["one"] });
    refuses(&document, &[]);
}

/// As many threads as a step's small stacks allow, each of which asks for that; one that asks for more has it.
#[test]
fn thousands_of_threads_with_small_stacks() {
    let mut document = document("threads");
    document["limits"] = json!({ "threads": 4000 });
    document["steps"][0]["args"] = json!({ "argv": ["3000"] });
    document["steps"][0]["stack"] = json!("64KiB");
    document["steps"][0]["memory"] = json!("256MiB");
    refuses(&document, &[]);
}

/// A thread that leaves a stack of its own meets the guard.
#[test]
fn a_large_stack_has_an_end() {
    let mut document = document("threads");
    document["steps"][0]["args"] = json!({ "argv": ["overflow"] });
    let error = support::run(&document).error.expect("it has failed");
    assert_eq!(error.kind.name(), "memory-fault", "{error:#?}");
}

/// `epoll` over all that it can watch.
#[test]
fn epoll() {
    let mut document = document("epoll");
    document["network"] = network();
    refuses(&document, &["(epoll_ctl, poll)"]);
}

/// `epoll` of what is the program's own needs no network.
#[test]
fn epoll_without_a_network() {
    refuses(&document("epoll"), &["(epoll_ctl, poll)"]);
}

/// Arguments, environment and standard input arrive; what does not exist is refused with one line that names it.
#[test]
fn the_process_and_what_is_refused_by_name() {
    let mut document = document("process");
    document["steps"][0]["args"] =
        json!({ "argv": ["plain \"word\" ü", 2], "name": "value", "list": [1, { "a": "]" }] });
    document["steps"][0]["env"] = json!({ "GREETING": "hello" });
    let report = run_with_input(document, "input\n");
    let lines = printed(&report);
    let (refused, rest): (Vec<&str>, Vec<&str>) = lines.iter().partition(|line| line.starts_with("monohull: "));
    assert!(
        rest[0].ends_with(" 0 failures") && rest[1..] == ["of the thread", "at exit", "destructed", "last"],
        "{rest:#?}"
    );
    let names = ["fork", "exec", "signals", "watched", "io_uring", "timers", "system call 101"];
    assert_eq!(refused.len(), names.len(), "{refused:#?}");
    for name in names {
        assert!(refused.iter().any(|line| line.contains(name)), "{name}: {refused:#?}");
    }
}

/// Collections, threads, thread-local variables, panics, files, TCP, arguments, environment and standard input of the
/// prebuilt std.
#[test]
fn the_real_std() {
    let mut document = document("std");
    document["network"] = network();
    document["steps"][0]["args"] = json!({ "name": "value" });
    document["steps"][0]["env"] = json!({ "GREETING": "hello" });
    let report = run_with_input(document, "input\n");
    assert_eq!(printed(&report), ["std runs"]);
}
