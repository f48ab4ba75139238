//! A libos module that panics ends its process, whatever other carriers do at that moment: it may hold locks that they
//! wait for, and what it was changing is half changed.

use crate::watch::{job, run};
use crate::wrong_module::with_wrong_time;
use monohull_abi::number;
use monohull_visor::report::{Blame, FailureKind};
use monohull_visor::worker::{Cause, Settings, Spawner};
use serde_json::json;

/// What the module is made with, and what it says when it panics.
const WAYS: [(&str, &str); 4] = [
    ("panics", "the clock fell off the wall"),
    ("panics_at_start", "no springs"),
    ("panics_at_end", "it cannot let go"),
    ("panics_in_a_later_step", "it cannot let go of the rest"),
];

/// A module that panics in one way, and the processes that use it.
pub(crate) struct Panicking {
    way: &'static str,
    words: &'static str,
    spawner: Spawner,
}

/// Starts a spawner for each way. To be called before there are threads.
pub(crate) fn start(usual: &Settings) -> Vec<Panicking> {
    let started = WAYS.iter().map(|&(way, words)| {
        let settings = Settings { modules: with_wrong_time(way), preload: Vec::new(), ..usual.clone() };
        let spawner = Spawner::start(&settings).unwrap_or_else(|error| panic!("{error}"));
        Panicking { way, words, spawner }
    });
    started.collect()
}

/// On two carriers, of which the other one is in user code for good: it must not keep the process alive.
pub(crate) fn a_module_that_panics_ends_its_process(all: &[Panicking]) {
    for Panicking { way, words, spawner } in all {
        let document = json!({
            "name": "panics",
            "functions": {
                "ask": { "image": "hostcall-abuse" },
                "busy": { "image": "misbehave" },
            },
            "steps": [
                { "name": "ask", "function": "ask", "args": { "role": "ask", "number": number::CLOCK_GETTIME } },
                { "name": "busy", "function": "busy", "args": { "how": "endless-loop" } },
            ],
            "limits": { "carriers": 2 },
        });
        let received = run(spawner, &job(&document, Vec::new()));
        assert!(received.report.is_none(), "{way}: {:?}", received.report().error);
        let death = received.death();
        assert_eq!((&death.cause, death.blame), (&Cause::Exited(101), Blame::Monohull), "{way}: {death:?}");
        let failure = death.failure();
        assert_eq!(failure.kind, FailureKind::Process);
        let expected = format!("a libos module panicked: {words}");
        assert!(failure.message.contains(&expected), "{way}: {}", failure.message);
    }
}
