//! Many runs in one process: runs that succeed and runs that fail leave nothing behind.
//!
//! What is compared is what the kernel says of this process, so that a leak of any kind shows: mappings, descriptors,
//! threads, resident memory. There is a single test in this program, because others would be counted with it.

#[path = "support/extent.rs"]
mod extent;
mod support;

use extent::some_of;
use monohull_visor::engine::{Ready, RunOptions};
use monohull_visor::report::{FailureKind, RunReport, Silent, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use support::ready;

/// Resident memory may differ by this much however often a workflow runs: what the heap and the kernel keep at hand.
const SLACK_BYTES: u64 = 1 << 20;
/// Mappings may differ by this much: the heap adds or merges some.
const SLACK_MAPPINGS: usize = 16;

/// What this process holds.
#[derive(Debug)]
struct Holdings {
    mappings: usize,
    descriptors: usize,
    threads: usize,
    resident: u64,
}

impl Holdings {
    fn now() -> Holdings {
        let count = |folder: &str| std::fs::read_dir(folder).expect("/proc").count();
        let read = |file: &str| std::fs::read_to_string(file).expect("/proc");
        let pages: u64 = read("/proc/self/statm").split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number");
        Holdings {
            mappings: read("/proc/self/maps").lines().count(),
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            resident: pages * 4096,
        }
    }

    #[track_caller]
    fn same_as(&self, earlier: &Holdings, what: &str) {
        let words = format!("{what}: {earlier:?} became {self:?}");
        println!("{words}");
        assert!(self.mappings <= earlier.mappings + SLACK_MAPPINGS, "{words}");
        assert_eq!(self.descriptors, earlier.descriptors, "{words}");
        assert_eq!(self.threads, earlier.threads, "{words}");
        assert!(self.resident <= earlier.resident + SLACK_BYTES, "{words}");
    }
}

/// Runs a workflow so often, looks, and runs it much oftener.
fn repeat(what: &str, document: &Value, first: u32, then: u32, check: impl Fn(&RunReport)) {
    let ready: Ready = ready(document);
    let run = |times: u32| {
        for _ in 0..times {
            check(&ready.run(&RunOptions::default(), Arc::new(Silent)).expect("the host can hold a domain"));
        }
        Holdings::now()
    };
    let before = run(first);
    run(then).same_as(&before, what);
}

/// Three links that hand on a buffer.
fn chain() -> Value {
    let step = |link: u32| {
        json!({
            "name": format!("link-{link}"),
            "function": "chain-link",
            "args": { "link": link, "links": 3, "bytes": 20_000 },
        })
    };
    json!({
        "name": "chain",
        "functions": { "chain-link": { "image": "chain-link" } },
        "steps": (0..3).map(step).collect::<Vec<_>>(),
        "outputs": ["result"],
    })
}

/// A step that fails in this way, beside one that makes a slot and one that sleeps.
fn failing(how: &str, step: Value) -> Value {
    let mut fail = json!({ "name": "fail", "function": "misbehave", "args": { "how": how } });
    fail.as_object_mut().expect("a step").extend(step.as_object().expect("fields").clone());
    json!({
        "name": "failing",
        "functions": { "misbehave": { "image": "misbehave" } },
        "steps": [
            fail,
            { "name": "make", "function": "misbehave", "args": { "how": "make-input" } },
            { "name": "sleep", "function": "misbehave", "args": { "how": "sleep" } },
        ],
    })
}

fn failed(kind: FailureKind) -> impl Fn(&RunReport) {
    move |report| {
        let error = report.error.as_ref().expect("it fails");
        assert_eq!((error.kind, error.step.as_deref()), (kind, Some("fail")), "{error:#?}");
    }
}

#[test]
fn nothing_is_left_behind() {
    let [first, then] = some_of([300, 2_700], [1_000, 9_000]);
    repeat("passing slots", &chain(), first, then, |report| {
        assert_eq!(report.status, Status::Done, "{:#?}", report.error);
        assert_eq!(support::text(report, "result"), "2 hops, 20000 bytes\n");
    });
    let retried = json!({ "retry": { "max_attempts": 3, "interval": "1us" } });
    for (how, step, kind) in [
        ("panic", json!({}), FailureKind::Panic),
        ("null-write", json!({}), FailureKind::MemoryFault),
        ("null-write", retried, FailureKind::MemoryFault),
        ("raw-system-call", json!({}), FailureKind::SystemCall),
        ("stack-overflow-in-thread", json!({}), FailureKind::StackOverflow),
        ("too-much-memory", json!({ "memory": "1MiB" }), FailureKind::MemoryLimit),
        ("too-much-slot-memory", json!({ "memory": "4MiB" }), FailureKind::MemoryLimit),
        ("thread-flood", json!({}), FailureKind::Panic),
        ("endless-loop", json!({ "timeout": "2ms" }), FailureKind::Timeout),
        ("endless-loop-in-thread", json!({ "timeout": "2ms" }), FailureKind::Timeout),
        ("sleep", json!({ "timeout": "2ms" }), FailureKind::Timeout),
    ] {
        let [first, then] = some_of([30, 270], [100, 900]);
        repeat(how, &failing(how, step), first, then, failed(kind));
    }
    // After all that the process can do its work as on the first day.
    repeat("passing slots again", &chain(), 1, 10, |report| assert_eq!(report.status, Status::Done));
}
