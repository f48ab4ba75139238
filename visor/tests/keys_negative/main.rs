//! The negative control of `keys_attacks`: with one defence switched off, the attacks that it stops succeed. So they are able
//! to, and it is this defence that stops them.
//!
//! The unhardened visor is a program of its own (`monohull-unhardened`, feature `unharden`), which
//! `cargo xtask test --keys` builds. Each test is named after the defence.
#![allow(dead_code, reason = "harness and places are those of `keys_attacks`, which uses all of them")]

#[path = "../support/handover.rs"]
mod handover;
#[path = "../keys_attacks/harness.rs"]
mod harness;
#[path = "../keys_attacks/image.rs"]
mod image;
#[path = "../support/letter.rs"]
mod letter;
#[path = "../keys_attacks/places.rs"]
mod places;
#[path = "../serve_support/mod.rs"]
mod serve_support;

use harness::{Attack, DOORS, LINE, Ran, VARIABLE, attack};
use monohull_abi::layout::ARENA_BASE;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// What the handler does first for its carrier.
const ARCH_PRCTL: &str = "made system call 158 directly";
/// Attempts to come at the right moment.
const RACES: usize = 1000;
/// Attempts to hand a buffer on while it is read or written; natively one in three succeeds.
const HANDOVERS: u32 = 100;
/// As many mappings as a process may usually have (`vm.max_map_count`).
const USUAL_MAPPINGS: u64 = 65_530;
/// Runs in which an attack may show that it succeeds; nearly always the first one does.
const RUNS: usize = 10;
/// The exit value of the victim's code if it runs as another instance; see `examples/attacks`.
const NOT_THE_VICTIM: &str = "exited with status 77";

impl Attack {
    /// The first of some runs without `defence` in which the attack shows what it is able to do, or the last of them.
    ///
    /// One success is enough for a negative control. A single run can miss it: the carrier's time slice may end in the very
    /// instructions that the attack depends on.
    fn until(&self, defence: &str, runs: usize, shown: impl Fn(&Ran) -> bool) -> Ran {
        let attack = self.without(defence);
        let mut ran = attack.run("mpk", &attack.attempts);
        for _ in 1..runs {
            if shown(&ran) {
                break;
            }
            ran = attack.run("mpk", &attack.attempts);
        }
        ran
    }

    /// Without this defence the attack gets what it is after.
    #[track_caller]
    fn succeeds_without(&self, defence: &str) -> Ran {
        let got = |ran: &Ran| ran.printed("attacker").into_iter().any(|line| line.contains("got "));
        let ran = self.clone().attempts("1").until(defence, RUNS, got);
        assert!(got(&ran), "{} without {defence}: {}: {}", self.name(), ran.status, ran.output);
        assert_eq!(ran.report["isolation"], "unhardened");
        ran
    }

    /// Without this defence the attacker ends in another way, by which the success is seen.
    #[track_caller]
    fn ends_without(&self, defence: &str, kind: &str, sign: &str) {
        let message = |ran: &Ran| ran.report["error"]["message"].as_str().unwrap_or_default().to_owned();
        let ran = self.until(defence, RUNS, |ran| ran.report["error"]["kind"] == kind && message(ran).contains(sign));
        let (error, message) = (&ran.report["error"], message(&ran));
        assert_eq!(error["kind"], kind, "{} without {defence}: {}: {}", self.name(), ran.status, ran.output);
        assert!(message.contains(sign), "{} without {defence}: {message}", self.name());
    }

    /// Without this defence the process does not survive.
    #[track_caller]
    fn kills_without(&self, defence: &str) {
        let killed = |ran: &Ran| ran.report["error"]["kind"] == "process";
        let ran = self.clone().attempts("1").until(defence, RUNS, killed);
        assert!(killed(&ran), "{} without {defence}: {}", self.name(), ran.output);
    }
}

/// The image of the attacks, for documents.
fn image_path() -> String {
    harness::image("attacks").into_os_string().into_string().expect("a path in UTF-8")
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn checker() {
    let image = image::planted(image::WRPKRU);
    attack("instruction", "planted", "read").image(image.path()).succeeds_without("checker");
    // `wrfsbase rdi; ret`: trusted code keeps its thread's data where the function wants it, as long as it goes on at all.
    let image = image::planted(&[0xf3, 0x48, 0x0f, 0xae, 0xd7, 0xc3]);
    let ran =
        attack("instruction", "planted", "thread").image(image.path()).carriers(1).without("checker").run("mpk", "1");
    let got = ran.printed("attacker").into_iter().any(|line| line.contains("got "));
    assert!(got || ran.report["error"]["kind"] == "process", "{}: {}", ran.status, ran.output);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn tagging() {
    for how in ["read", "write"] {
        attack("memory", "signal-stack", how).succeeds_without("tagging");
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn separate_keys() {
    for what in ["stack", "heap", "data", "buffer"] {
        for how in ["read", "write"] {
            attack("memory", what, how).apart().succeeds_without("separate-keys");
        }
    }
    let mapped = json!({ "files": [{ "at": "/map", "memory": "2MiB" }] });
    for what in ["mapped", "unfilled"] {
        attack("memory", what, "read").victim("map").workflow(mapped.clone()).apart().succeeds_without("separate-keys");
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn handing_on() {
    for how in ["read", "write"] {
        attack("memory", "handed-on", how).apart().succeeds_without("handing-on");
        // The place of a freed buffer may be another's, and freed again, by the time it is touched: it takes some runs.
        attack("memory", "freed", how).apart().succeeds_without("handing-on");
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn held_buffers() {
    // More than an instance may hold.
    attack("exhaustion", "mappings", "8500").attempts("1").apart().succeeds_without("held-buffers");
    // All mappings of a process, and some. Where the kernel permits many more, as in no guest of the lane, they would take all memory.
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("a limit");
    if most.trim().parse::<u64>().expect("a number") > USUAL_MAPPINGS {
        eprintln!(
            "vm.max_map_count is {}: that a process runs out of mappings is shown in the virtual machine",
            most.trim()
        );
        return;
    }
    let limits = json!({ "limits": { "carriers": 8, "slots": "1GiB", "timeout": "600s" } });
    let hoard = attack("exhaustion", "mappings", "33000").workflow(limits).attempts("1").apart();
    // Nothing is left.
    hoard.ends_without("held-buffers", "memory-limit", "the memory for slot buffers is exhausted");
}

/// The copy goes on in a buffer that is another's by now. It takes some attempts to hand it on in the middle.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn pins() {
    for (call, way) in [("read", "publish"), ("write", "publish"), ("read", "free")] {
        let document = handover::document(&image_path(), call, way, 1);
        let succeeds = || {
            let ran = harness::run(&document, Some("pins"));
            ran.is_done(&format!("{call}, {way}"));
            let (giver, taker) = (ran.printed("giver"), ran.printed("taker"));
            if call == "read" { taker == ["harmed"] } else { giver.contains(&"got the secret") }
        };
        assert!((0..HANDOVERS).any(|_| succeeds()), "{call}, {way}");
    }
}

/// A name is enough.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn slot_lists() {
    let ran = harness::run(&letter::document(&image_path(), letter::nothing()), Some("slot-lists"));
    ran.is_done("thief");
    assert_eq!(ran.printed("thief"), letter::STOLEN, "{}", ran.output);
    assert_eq!(ran.report["isolation"], "unhardened");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn dispatch() {
    for how in ["syscall", "libc", "instruction"] {
        attack("door", "getpid", how).succeeds_without("dispatch");
    }
    // The kernel is asked for each of the others: it answers, or it ends the process for having been asked.
    for (door, _) in DOORS {
        let ran = attack("door", door, "syscall").without("dispatch").run("mpk", "1");
        let answered = ran.printed("attacker").into_iter().any(|line| line.contains("got "));
        let kind = &ran.report["error"]["kind"];
        // A return from a signal that did not occur loads registers from the present stack, and jumps there.
        let gone_astray =
            door == "rt-sigreturn" && ["memory-fault", "illegal-instruction"].iter().any(|fault| kind == fault);
        assert!(answered || kind == "process" || gone_astray, "{door}: {}: {}", ran.status, ran.output);
    }
    attack("jump", "middle", "").succeeds_without("dispatch");
    attack("jump", "vdso-clock", "kernels-clock").succeeds_without("dispatch");
    // The kernel takes registers and rights from a forged frame.
    attack("signal", "frame", "state").succeeds_without("dispatch");
    // Without rights in it the frame itself is denied from then on; some kernels still look at it, and end the function there.
    let ran = attack("signal", "frame", "bare").without("dispatch").run("mpk", "1");
    let place = ran.report["error"]["ip"]["symbol"].as_str().unwrap_or_default();
    assert!(place.starts_with("attacks::signals::look"), "{}", ran.output);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn selector() {
    attack("door", "getpid", "selector").succeeds_without("selector");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn signal_stack() {
    attack("signal", "fault", "signal-stack-low").carriers(1).kills_without("signal-stack");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn arguments() {
    attack("deputy", "print", "visor-data").succeeds_without("arguments");
    attack("deputy", "fill", "visor-heap").succeeds_without("arguments");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn gadgets() {
    attack("jump", "libc-wrpkru", "open").succeeds_without("gadgets");
    attack("jump", "resolver", "").succeeds_without("gadgets");
}

/// What one instance leaves there the next one with the same key finds.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn frames() {
    let left = attack("memory", "left-in-frame", "").apart().carriers(1).attempts("1,1,1");
    let found = |ran: &Ran| ran.printed("attacker") == ["got 0xbadbadbad"];
    let ran = left.until("frames", RUNS, found);
    assert!(found(&ran), "{}: {}", ran.status, ran.output);
}

/// Trusted code copies backwards.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn exit_direction() {
    let copied = |ran: &Ran| ran.printed("attacker").contains(&LINE);
    let backwards = attack("instruction", "direction", "").carriers(1).attempts("1");
    let ran = backwards.until("exit-direction", RUNS, |ran| !copied(ran));
    assert!(!copied(&ran), "{}: {}", ran.status, ran.output);
}

/// The victim, which runs next there, goes on with the attacker's control words.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn exit_control() {
    let left = attack("instruction", "control-words", "").carriers(1).attempts("1");
    let harmed = |ran: &Ran| ran.printed("victim") == ["harmed"];
    let ran = left.until("exit-control", RUNS, harmed);
    assert!(harmed(&ran), "{}: {}", ran.status, ran.output);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn stub_rights() {
    attack("jump", "stub", "wrpkru,open").succeeds_without("stub-rights");
}

/// The frame is filled for a moment only, so it takes some attempts. Then the victim finds it empty.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn stub_carrier() {
    let race = attack("jump", "stub", "other-carrier,victims-key,turns").apart().carriers(2).victim("call");
    let race = race.attempts(&vec!["1"; RACES].join(",")).attacker(json!({
        "retry": { "max_attempts": RACES, "interval": "0s", "on": ["memory-fault"] }
    }));
    let ran = race.without("stub-carrier").run("mpk", &race.attempts);
    let error = &ran.report["error"];
    assert_eq!(error["step"], "victim", "{}: {error:#}: {}", ran.status, ran.output);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn stub_frame() {
    let stale = attack("jump", "stub", "victims-key,turns").apart().carriers(1).victim("sleep").attempts("1");
    stale.ends_without("stub-frame", "exit", NOT_THE_VICTIM);
}

/// The stack that the first attempt left behind is the one that the second arrives with.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn stub_register() {
    let poison = attack("jump", "stub", "victims-key,wrpkru,poison").apart().carriers(1).attempts("1,1,1");
    let poison = poison.attacker(json!({ "retry": { "max_attempts": 2, "interval": "0s" } }));
    poison.ends_without("stub-register", "memory-fault", &format!("{ARENA_BASE:#x}"));
}

/// The libos serves the attacker's call as one of the victim's.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn exit_thread() {
    let forged = attack("jump", "exit", "other-carrier,print,busy").victim("busy").carriers(2).attempts("1");
    let said = |ran: &Ran| ran.printed("victim") == ["said in the victim's name"];
    let ran = forged.until("exit-thread", RUNS, said);
    assert!(said(&ran), "{}: {}", ran.status, ran.output);
}

/// A handler begins to work for the other carrier: until it makes a system call, which is taken for the attacker's own.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn signal_thread() {
    let other = attack("jump", "signal-entry", "others-stack,kernels,busy").victim("busy").carriers(2).attempts("1");
    other.ends_without("signal-thread", "system-call", ARCH_PRCTL);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn registers() {
    attack("leftovers", "registers", "").succeeds_without("registers");
}

/// The handler begins to work, and finds that the kernel has not called it.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn signal_arguments() {
    let forged = attack("jump", "signal-entry", "signal-stack").attempts("1");
    forged.ends_without("signal-arguments", "trap", "jumped to the entry point of signal handlers");
}

/// The report takes what lies on the stack for a fault.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn signal_delivery() {
    let forged = attack("jump", "signal-entry", "signal-stack,kernels").attempts("1");
    forged.ends_without("signal-delivery", "memory-fault", "jumped to");
}

/// What ships has none of this in it.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn the_released_visor_cannot_be_unhardened() {
    let holds = |program: &Path| {
        let bytes = std::fs::read(program).expect("a program");
        bytes.windows(VARIABLE.len()).any(|text| text == VARIABLE.as_bytes())
    };
    assert!(holds(&harness::unhardened_visor()));
    assert!(!holds(&harness::visor()));
    let ran = attack("door", "getpid", "syscall").without("dispatch").visor(&harness::visor()).run("mpk", "1");
    ran.is_refused("without effect", &["system-call"], &["made system call 39 directly"]);
}

/// The other one says what it is, and with nothing switched off it stops attacks all the same.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn the_unhardened_visor_identifies_itself() {
    let ran = attack("door", "getpid", "syscall").visor(&harness::unhardened_visor()).run("mpk", "1");
    assert_eq!(ran.report["error"]["kind"], "system-call", "{}", ran.output);
    assert_eq!(ran.report["isolation"], "unhardened");
    assert!(ran.output.contains("protects nothing: mitigations can be switched off; off: none"), "{}", ran.output);

    let doctor = Command::new(harness::unhardened_visor()).args(["doctor", "--json"]).env(VARIABLE, "gadgets").output();
    let doctor = doctor.expect("it starts");
    let said: Value = serde_json::from_slice(&doctor.stdout).expect("its report");
    assert!(!doctor.status.success());
    assert_eq!(said["isolation"], "unhardened");
    let finding = said["findings"].as_array().into_iter().flatten().find(|finding| finding["name"] == "defences");
    let finding = finding.expect("it is named");
    assert!(finding["found"].as_str().is_some_and(|found| found.ends_with("off: gadgets")), "{finding}");

    let unknown = Command::new(harness::unhardened_visor()).arg("doctor").env(VARIABLE, "all").output();
    assert_eq!(unknown.expect("it starts").status.code(), Some(2));
}
