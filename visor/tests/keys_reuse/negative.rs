//! The negative control: with one part of the reset left out, [`look`] finds what that part removes. So it is able to, and it is this
//! part that removes it.
//!
//! The unhardened visor (`monohull-unhardened`, which `cargo xtask test --keys` builds) leaves copies of inputs and descriptors
//! behind on purpose, so that each part has something to find; with nothing left out it is as clean as the one that ships.

use super::memory::Search;
use super::serve_support::{Server, eventually};
use super::{BYTES, Found, is_clean, isolations, kept_and_idle, look, open_files, remains, server_of};
use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What names the part that is left out.
const VARIABLE: &str = "MONOHULL_UNHARDEN";

/// The visor in which parts of the reset can be left out, beside the one that ships.
fn unhardened_visor() -> PathBuf {
    let profiles = Path::new(env!("CARGO_BIN_EXE_monohull")).ancestors().nth(2);
    profiles.expect("cargo builds in folders").join("release/monohull-unhardened")
}

/// The strictest isolation of this machine.
fn isolation() -> &'static str {
    isolations().pop().expect("there is one without keys")
}

/// A server whose processes leave this part of the reset out.
fn without(part: Option<&str>) -> Server {
    let environment: Vec<_> = part.map(|part| (VARIABLE, part)).into_iter().collect();
    server_of(Command::new(unhardened_visor()), isolation(), &environment)
}

/// What is found if this part is left out.
#[track_caller]
fn found_without(part: &str) -> Found {
    look(&without(Some(part)))
}

/// Markers are found in memory of this name.
#[track_caller]
fn has_traces(found: &Found, mapping: &str) {
    assert!(found.traces.iter().any(|(name, count)| name == mapping && *count > 0), "{found:?}");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn with_nothing_left_out_nothing_is_found() {
    is_clean(isolation(), &look(&without(None)));
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn reset_heap() {
    has_traces(&found_without("reset-heap"), "[heap]");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn reset_stacks() {
    has_traces(&found_without("reset-stacks"), "[stack]");
}

/// A process whose cells, or whose timers, are left as they are has served one invocation that leaves something in this way.
#[track_caller]
fn left_without(part: &str, way: &str) -> Server {
    let mut program = Command::new(unhardened_visor());
    program.env(VARIABLE, part);
    let server = remains::serve(program, isolation(), "workflow");
    remains::done(&server, &format!("leave {way} {}", remains::MARK), 0);
    server
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn reset_cells() {
    let server = left_without("reset-cells", "memory");
    let traces = Search::of(kept_and_idle(&server).0).find(remains::MARK.as_bytes());
    assert!(traces.iter().any(|(name, count)| name.is_empty() && *count > 0), "{traces:?}");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn reset_arena() {
    let found = found_without("reset-arena");
    assert!(!found.rights.is_empty(), "{found:?}");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn reset_carriers() {
    let found = found_without("reset-carriers");
    assert!(!found.same_info, "{found:?}");
}

/// Threads run on several carriers, whose timers stay. A timer that goes off when its carrier is gone ends the process, so it may be gone
/// before it is looked at. So may the spawner, whose warm-up run leaves one as well.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn reset_timers() {
    let mut program = Command::new(unhardened_visor());
    program.env(VARIABLE, "reset-timers");
    let server = match std::panic::catch_unwind(AssertUnwindSafe(|| remains::serve(program, isolation(), "workflow"))) {
        Ok(server) => server,
        Err(why) => {
            let why = why.downcast_ref::<String>().expect("a text");
            assert!(why.contains("the spawner has ended"), "{why}");
            return;
        }
    };
    let todo = format!("leave threads {}", remains::MARK);
    server.ask_with("POST", "/invoke/remains", &BYTES, todo.as_bytes()).expect(200);
    eventually("a timer is found, or has ended the process", || {
        let has_image = |pid: &i32| open_files(*pid).iter().any(|file| file.contains("memfd:"));
        match server.descendants().into_iter().skip(1).find(has_image) {
            Some(worker) => fs::read_to_string(format!("/proc/{worker}/timers"))
                .is_ok_and(|timers| timers.lines().filter(|line| line.starts_with("ID:")).count() > 1),
            None => true,
        }
    });
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn reset_statics() {
    let found = found_without("reset-statics");
    assert!(!found.same_statics, "{found:?}");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn reset_descriptors() {
    let found = found_without("reset-descriptors");
    // One more after each invocation whose input is in its message: the third and the fourth.
    assert_eq!(found.files[3], found.files[1] + 2, "{found:?}");
}

/// What ships resets itself whatever its environment says.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn the_released_visor_leaves_nothing_out() {
    let visor = Command::new(env!("CARGO_BIN_EXE_monohull"));
    let server = server_of(visor, isolation(), &[(VARIABLE, "reset-heap")]);
    is_clean(isolation(), &look(&server));
}
