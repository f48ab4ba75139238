//! Buffers that are handed on, freed or moved while a hostcall of another thread reads or writes them. The call never touches
//! the buffer's next owner.

mod support;

use support::handover::{document, is_refused};
use support::run;

/// Often enough that without pins each way loses.
const ROUNDS: u32 = 8;
/// The calls that read or write a buffer, and the ways in which it goes meanwhile.
const CALLS: [&str; 4] = ["read", "read-vector", "write", "write-vector"];
const WAYS: [&str; 3] = ["publish", "free", "resize"];

/// How often a run may find that no operation came in the middle of a call, as on a busy machine.
const TRIES: u32 = 10;

#[test]
fn a_buffer_in_use_does_not_change_hands() {
    for call in CALLS {
        for way in WAYS {
            for tries in 1..=TRIES {
                let report = run(&document("attacks", call, way, ROUNDS));
                assert!(report.error.is_none(), "{call}, {way}: {:#?}", report.error);
                let lines = |step: usize| -> Vec<&str> {
                    report.steps[step].instances[0].lines.iter().map(|line| line.text.as_str()).collect()
                };
                if lines(0).contains(&"refused never") && tries < TRIES {
                    assert_eq!(lines(1), ["intact"], "{call}, {way}");
                    continue;
                }
                is_refused(call, way, &lines(0), &lines(1));
                break;
            }
        }
    }
}
