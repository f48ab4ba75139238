//! Hostcalls with addresses and numbers that are not the caller's to use: each is refused with the right error and a
//! reason, the right ones among them work, and the data of an instance that runs at the same time stays as it was.
//!
//! The cases are in `examples/hostcall-abuse`, for only a function can make hostcalls.

#[path = "support/extent.rs"]
mod extent;
mod support;

use extent::some_of;
use monohull_abi::layout::ARENA_BASE;
use monohull_abi::number::NANOSLEEP;
use monohull_visor::disk::Disk;
use monohull_visor::domain::checkpoint::Continuation;
use monohull_visor::engine::RunOptions;
use monohull_visor::report::{RunReport, Silent};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use support::{one_at_a_time, ready, run, run_with, suspended, text};
use tempfile::TempDir;

/// The workflow of victim and attacker, with so many carriers.
fn abuse(carriers: u32) -> Value {
    json!({
        "name": "abuse",
        "functions": { "hostcall-abuse": { "image": "hostcall-abuse" } },
        "steps": [
            { "name": "victim", "function": "hostcall-abuse", "args": { "role": "victim" } },
            { "name": "attacker", "function": "hostcall-abuse", "args": { "role": "attacker" } },
            { "name": "handler", "function": "hostcall-abuse", "args": { "role": "handler" }, "handles": "echo" },
        ],
        "limits": { "carriers": carriers, "timeout": "600s" },
        "network": { "mode": "host", "connect": ["127.0.0.2:*"], "listen": ["127.0.0.1:0", "127.0.0.2:0"] },
        "files": [{ "at": "/work", "memory": "1MiB" }],
        "outputs": ["verdicts", "victim-says"],
        "sends_to": ["*"],
        "starts": ["thumbnail"],
    })
}

/// Its report, on one carrier or two. Several tests look at the same run: it makes every call in every wrong way, which takes long.
fn abused(carriers: u32) -> &'static RunReport {
    static REPORTS: [OnceLock<RunReport>; 2] = [OnceLock::new(), OnceLock::new()];
    let options = RunOptions { sends: true, ..RunOptions::default() };
    REPORTS[carriers as usize - 1].get_or_init(|| run_with(&abuse(carriers), &options, Arc::new(Silent)))
}

/// The same after victim and attacker were captured, and put into another domain. At the capture the victim has its memory, its buffer, its file and
/// its queue, and the attacker waits for their addresses.
fn abused_after_a_restore() -> &'static RunReport {
    static REPORT: OnceLock<RunReport> = OnceLock::new();
    REPORT.get_or_init(|| {
        gone_on(abuse(2), 0, |rest| {
            let [victim, attacker] = &rest.instances[..] else { panic!("{:#?}", rest.instances) };
            assert!(attacker.threads[0].name.as_deref() == Some("victim"), "{attacker:#?}");
            assert_eq!(victim.threads[0].call, NANOSLEEP);
            let modules: Vec<_> = rest.modules.iter().map(|module| module.name.as_str()).collect();
            assert!(["mm", "fdtab", "ramfs", "socket"].iter().all(|name| modules.contains(name)), "{modules:?}");
            let pattern = 0x0123_4567_89ab_cdef_u64.to_le_bytes().repeat(16);
            let held = rest.pages.iter().filter(|run| run.bytes.windows(pattern.len()).any(|bytes| bytes == pattern));
            let places: BTreeSet<_> = held.map(|run| run.address >= ARENA_BASE).collect();
            assert_eq!(places.len(), 2, "its own memory and its buffer");
        })
    })
}

/// Runs a document of which this step naps until it is captured, and what is left of it in another domain. `look` sees what was captured.
fn gone_on(mut document: Value, naps: usize, look: impl FnOnce(&Continuation)) -> RunReport {
    // An hour, which is over at once.
    document["steps"][naps]["args"]["nap"] = json!(3_600_000);
    document["limits"]["timeout"] = json!("2h");
    let ready = ready(&document);
    let _one = one_at_a_time();
    let options = RunOptions { sends: true, ..RunOptions::default() };
    let run = |rest, wait| ready.run_from(rest, wait, &options, Arc::new(Silent)).expect("the host can hold a domain");
    let mut rest = suspended(run(None, Some(Duration::from_secs(1)))).continuation;
    look(&rest);
    rest.wall = 0;
    support::report(run(Some(rest), None))
}

/// A workflow of one step that plays this role.
fn alone(role: &str) -> Value {
    json!({
        "name": "abuse",
        "functions": { "hostcall-abuse": { "image": "hostcall-abuse" } },
        "steps": [{ "name": "alone", "function": "hostcall-abuse", "args": { "role": role } }],
        "limits": { "timeout": "600s" },
    })
}

/// Random arguments: everything that a call writes lies in the caller's buffer, at the address given and not beyond the length.
#[test]
fn a_hostcall_writes_to_its_buffers_only() {
    for seed in &[7, 8191, 0x5eed_5eed][..some_of(1, 3)] {
        let mut document = alone("stray-writes");
        document["steps"][0]["args"]["number"] = json!(seed);
        document["files"] = json!([{ "at": "/work", "memory": "1MiB" }]);
        has_written_to_its_buffers_only(&run(&document));
        // And after a restore, which has the buffer in another domain.
        has_written_to_its_buffers_only(&gone_on(document, 0, |rest| assert!(!rest.pages.is_empty())));
    }
}

#[track_caller]
fn has_written_to_its_buffers_only(report: &RunReport) {
    assert_eq!(report.status.name(), "done", "{:#?}", report.error);
    let lines: Vec<&str> = report.steps[0].instances[0].lines.iter().map(|line| line.text.as_str()).collect();
    let [written] = &lines[..] else { panic!("{lines:#?}") };
    // The positive control: these have written.
    for call in ["GETRANDOM", "GET_STRING", "LAST_ERROR_MESSAGE", "MEMORY_STATS"] {
        assert!(written.starts_with("written by ") && written.contains(call), "{written}");
    }
}

#[test]
fn every_abuse_is_refused_and_explained_and_harmless() {
    [abused(1), abused(2)].into_iter().for_each(is_refused_and_harmless);
}

#[test]
fn every_abuse_after_a_restore_is_refused_and_explained_and_harmless() {
    is_refused_and_harmless(abused_after_a_restore());
}

/// Each verdict of this run is right, and the victim intact.
#[track_caller]
fn is_refused_and_harmless(report: &RunReport) {
    let verdicts = text(report, "verdicts");
    let wrong: Vec<&str> = verdicts.lines().filter(|line| !line.starts_with("right: ")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(verdicts.lines().count() > 900, "{verdicts}");
    // The positive control: what is right works.
    for right in [
        "QUEUE_NEW: a storm of queues",
        "QUEUE_POST: a storm of events",
        "MAP: a storm of ranges",
        "MAP_IMAGE: a storm of images",
        "SLOT_MOVE_OUT: pages there and back",
        "SLOT_MOVE_IN: a storm of places",
        "SLOT_MOVE_IN: memory that is unmapped during a move",
        "SLOT_MOVE_IN: memory that is protected during a move",
        "SLOT_MOVE_IN: memory that is discarded during a move",
        "SLOT_MOVE_IN: a buffer that is given away during a move",
        "SLOT_MOVE_IN: a place that is read during a move",
        "SLOT_MOVE_IN: the buffer again: 0 (expected 0)",
        "EVENT_WAIT: a storm of waits",
        "PERFORM: a storm of requests",
        "PERFORM: a request: 0 (expected 0)",
        "CONTINUATION: a storm of continuations",
        "RESUME: two threads use one continuation",
        "SLOT_TAKE: the reply: 0 (expected 0)",
        "RESUME: a continuation: 0 (expected 0)",
        "SLOT_TAKE: what it was used with: 0 (expected 0)",
        "SEND: an event for another",
    ] {
        assert!(verdicts.contains(&format!("right: {right}")), "{verdicts}");
    }
    for right in ["what waited: 16 (expected 16)", "what was written, and no more: 16 (expected 16)"] {
        assert!(verdicts.contains(right), "{verdicts}");
    }
    let others = |what: &str| verdicts.lines().filter(|line| line.contains(what)).count();
    assert_eq!((others("a socket of another instance"), others("a file of another instance")), (12, 16), "{verdicts}");
    let fine = |line: &&str| line.contains(" (expected 0): ");
    assert!(verdicts.lines().filter(fine).count() >= 10, "{verdicts}");
    assert_eq!(text(report, "victim-says"), "intact");
}

/// With one carrier the two threads take turns, with two they meet in the middle of a call.
#[test]
fn what_changes_during_a_call_is_read_once() {
    [abused(1), abused(2)].into_iter().for_each(is_read_once);
}

#[test]
fn what_changes_during_a_call_after_a_restore_is_read_once() {
    is_read_once(abused_after_a_restore());
}

/// What was changed during the calls of this run was read once by each of them.
#[track_caller]
fn is_read_once(report: &RunReport) {
    let verdicts = text(report, "verdicts");
    for (what, count) in [(" that changes", 15), (" that goes during a call", 3), (" that is closed during a call", 7)]
    {
        let changing: Vec<&str> = verdicts.lines().filter(|line| line.ends_with(what)).collect();
        assert_eq!(changing.len(), count, "{verdicts}");
        assert!(changing.iter().all(|line| line.starts_with("right: ")), "{changing:#?}");
    }
    assert_eq!(text(report, "victim-says"), "intact");
}

/// The calls on files end in another file system on each mount, which copies for itself.
#[test]
fn abuses_of_files_are_refused_on_every_kind_of_mount() {
    abuses_of_files_are_refused(3, |document| run(&document));
}

/// The victim's file is open at the capture. Of the kinds that are not in memory the granted directory is always among them.
#[test]
fn abuses_of_files_after_a_restore_are_refused_on_every_kind_of_mount() {
    abuses_of_files_are_refused(some_of(1, 3), |document| {
        gone_on(document, 0, |rest| assert!(rest.modules.iter().any(|module| module.name == "fdtab")))
    });
}

/// Of the last `kinds` of mounts.
#[track_caller]
fn abuses_of_files_are_refused(kinds: usize, run: impl Fn(Value) -> RunReport) {
    let folder = TempDir::new().expect("a folder");
    let (image, granted) = (folder.path().join("disk.img"), folder.path().join("granted"));
    Disk::create(&image, 1 << 20, false).expect("an image");
    fs::create_dir(&granted).expect("a folder");
    fs::write(folder.path().join("beside"), "beside").expect("a file");
    let mounts = [
        json!({ "at": "/work", "image": image }),
        json!({ "at": "/work", "image": image, "access": "write" }),
        json!({ "at": "/work", "directory": granted, "access": "write" }),
    ];
    for mount in &mounts[mounts.len() - kinds..] {
        let mut document = abuse(2);
        document["files"] = json!([mount]);
        let report = run(document);
        let verdicts = text(&report, "verdicts");
        // Whether two calls meet is a matter of chance, and of another test.
        let is_wrong = |line: &&str| !line.starts_with("right: ") && !line.contains("not everything was met");
        let wrong: Vec<&str> = verdicts.lines().filter(is_wrong).collect();
        assert!(wrong.is_empty(), "{mount}: {wrong:#?}");
        let files = verdicts.lines().filter(|line| line.starts_with("right: FILE_")).count();
        assert!(files > 400, "{mount}: {files}");
        assert_eq!(text(&report, "victim-says"), "intact", "{mount}");
    }
    let findings = Disk::open(&image, false).and_then(|mut disk| disk.check(false)).expect("an image").findings;
    assert_eq!(findings, []);
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 3);
}

/// One address is allowed, without a server; the other is not, and a listener there must receive nothing.
#[test]
fn addresses_that_change_during_a_call_are_compared_and_used_as_one() {
    // A port that is free for both: another process may use one of the two.
    let both = || {
        let listener = TcpListener::bind("127.0.0.2:0").ok()?;
        let port = listener.local_addr().ok()?.port();
        Some((listener, UdpSocket::bind(("127.0.0.2", port)).ok()?, port))
    };
    let (listener, datagrams, port) = (0..100).find_map(|_| both()).expect("a free port");
    listener.set_nonblocking(true).and(datagrams.set_nonblocking(true)).expect("not to block");
    let mut document = alone("changing-addresses");
    document["steps"][0]["args"]["number"] = port.into();
    document["network"] = json!({
        "mode": "host", "connect": [format!("127.0.0.1:{port}")], "listen": ["127.0.0.1:0"]
    });
    for carriers in [1, 2] {
        document["limits"]["carriers"] = carriers.into();
        let report = run(&document);
        assert!(report.error.is_none(), "{:#?}", report.error);
        assert_eq!(listener.accept().expect_err("no connection").kind(), ErrorKind::WouldBlock);
        assert_eq!(datagrams.recv(&mut [0; 8]).expect_err("no datagram").kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn a_call_that_waits_does_not_hold_its_buffer() {
    let mut document = alone("let-go");
    document["network"] = json!({ "mode": "host", "listen": ["127.0.0.1:0"] });
    let report = run(&document);
    assert!(report.error.is_none(), "{:#?}", report.error);
}

#[test]
fn every_kind_of_bad_address_has_its_own_error() {
    let verdicts = text(abused(1), "verdicts");
    let reason = |what: &str| {
        let line = verdicts.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("no case {what}"));
        line.rsplit("): ").next().expect("a reason").to_owned()
    };
    for (what, why) in [
        ("MEMORY_STATS: room null", "the address is null"),
        ("MEMORY_STATS: room misaligned", "not a multiple of 8"),
        ("MEMORY_STATS: room wrapping", "wraps around the end of memory"),
        ("MEMORY_STATS: room past the end", "outside the caller's cell"),
        ("MEMORY_STATS: room straddling the end", "outside the caller's cell"),
        ("MEMORY_STATS: room in the system partition", "touches the system partition"),
        ("MEMORY_STATS: room of another instance's heap", "outside the caller's cell"),
        ("MEMORY_STATS: room of another instance's slot buffer", "not inside a slot buffer that the caller owns"),
        ("MEMORY_STATS: room in a hole", "nothing the caller may use is mapped there"),
        ("MEMORY_STATS: room of its constants", "nothing the caller may use is mapped there"),
        ("TCP_LISTEN: an address null", "the address: the address is null"),
        ("SOCKET_RECV: a socket of another instance", "the caller has no socket"),
        ("TCP_CONNECT: an address off the list", "does not let it connect to 127.0.0.1:1"),
        ("SLOT_PIN: 194 is not for functions", "SLOT_PIN: no such hostcall"),
        ("a number: 1000000 is not for functions", "no hostcall has number 1000000"),
    ] {
        assert!(reason(what).contains(why), "{what}: {}", reason(what));
    }
}

#[test]
fn a_message_that_cannot_be_read_does_not_hide_the_failure() {
    let report = run(&alone("fail-badly"));
    let error = report.error.expect("it fails");
    assert_eq!(error.kind.name(), "panic");
    assert!(error.message.contains("its message cannot be read"), "{}", error.message);
}

#[test]
fn a_thread_that_starts_nowhere_ends_its_instance() {
    let report = run(&alone("spawn-badly"));
    let error = report.error.expect("it fails");
    assert_eq!((error.kind.name(), error.address), ("memory-fault", Some(64)));
    assert!(error.message.contains("jumped to 0x40, which is the null page"), "{}", error.message);
}

#[test]
fn flags_and_control_words_of_functions_do_not_leak() {
    let report = run(&alone("odd-registers"));
    assert!(report.error.is_none(), "{:#?}", report.error);
    let lines: Vec<&str> = report.steps[0].instances[0].lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(lines.len(), 6, "{lines:#?}");
    assert!(lines.iter().all(|line| line.ends_with(" does no harm")), "{lines:#?}");
}
