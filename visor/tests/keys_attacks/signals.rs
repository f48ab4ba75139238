//! Signals: forged frames, and stack pointers that lead elsewhere when a signal comes.

use crate::harness::{Attack, RESTORED, REUSED, attack};
use serde_json::json;

fn signal(what: &str, how: &str) -> Attack {
    attack("signal", what, how)
}

/// Memory that no function may have written for it.
const ELSEWHERE: [&str; 7] =
    ["visor-heap", "trusted-stack", "libc-data", "signal-stack", "signal-stack-low", "carrier", "selector"];

/// The kernel would read rights back from a frame; but returning is a system call.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_forged_signal_frame_is_not_read() {
    for how in ["bare", "state"] {
        signal("frame", how).fails("system-call", &["made system call 15 directly"]);
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_fault_with_a_stack_that_is_not_ones_own_writes_nothing_there() {
    for place in ELSEWHERE {
        signal("fault", place).fails("illegal-instruction", &["the processor refuses"]);
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_hostcall_with_a_stack_that_is_not_ones_own_comes_back_to_a_fault() {
    for place in ELSEWHERE.into_iter().filter(|place| *place != "selector") {
        signal("hostcall", place).fails("memory-fault", &["protection key denies"]);
    }
    // The info page can be read: what is popped there is the first carrier's gate, and then no address at all.
    signal("hostcall", "selector").carriers(1).fails("memory-fault", &["the null page"]);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_timer_with_a_stack_that_is_not_ones_own_writes_nothing_there() {
    for place in ELSEWHERE {
        // On a host that is busy the time may be up before the victim has said anything. A nap before a restore counts as well, and
        // invocations without the attack have to end in time, too.
        let times = if RESTORED || REUSED { &["3s", "10s", "60s"][..] } else { &["100ms", "1s", "10s", "60s"] };
        for &time in times {
            let timer = signal("timer", place).attacker(json!({ "timeout": time }));
            let ran = timer.run("mpk", &timer.attempts);
            if time == "60s" || !ran.printed("victim").is_empty() {
                timer.has_failed(&ran, &["timeout"], &[&format!("ran longer than {time}")]);
                break;
            }
        }
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn faults_without_end_use_nothing_up() {
    let attempts = ["1"; 100].join(",");
    attack("instruction", "ud2", "").attempts(&attempts).fails("illegal-instruction", &["the processor refuses"]);
    let heap = attack("memory", "visor-data", "read").attempts(&attempts).apart();
    heap.fails("memory-fault", &["protection key denies"]);
}
