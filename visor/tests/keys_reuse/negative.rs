//! The negative control: with one part of the reset left out, [`look`] finds what that part removes. So it is able to, and it is this
//! part that removes it.
//!
//! The unhardened visor (`monohull-unhardened`, which `cargo xtask test --keys` builds) leaves copies of inputs and descriptors
//! behind on purpose, so that each part has something to find; with nothing left out it is as clean as the one that ships.

use super::serve_support::{Server, eventually};
use super::{BYTES, Found, SIZES, input, is_clean, isolations, kept, look, open_files, server_of};
use std::fs;
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

/// A timer that goes off before there is another domain ends the process, so it may be gone before it is looked at. So may the spawner,
/// whose warm-up run leaves one as well.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn reset_timers() {
    let server = match std::panic::catch_unwind(|| without(Some("reset-timers"))) {
        Ok(server) => server,
        Err(why) => {
            let why = why.downcast_ref::<String>().expect("a text");
            assert!(why.contains("the spawner has ended"), "{why}");
            return;
        }
    };
    server.ask_with("POST", "/invoke/echo", &BYTES, &input(SIZES[0])).expect(200);
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

/// The kernel refuses the next domain the place at which memory is left. So the process cannot go on with it, and ends.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn reset_memory() {
    let server = without(Some("reset-memory"));
    let answer = server.ask_with("POST", "/invoke/echo", &BYTES, &input(SIZES[0])).expect(200);
    assert_eq!(answer.body, input(SIZES[0]));
    eventually("its process ends", || server.log().contains("could not be used again"));
    assert!(server.log().contains("there cannot be another domain"), "{}", server.log());
    assert_eq!(kept(&server), 0);
    let images = |pid: &i32| open_files(*pid).iter().any(|file| file.contains("memfd:"));
    eventually("its process is gone", || !server.descendants().iter().any(images));
}

/// What ships resets itself whatever its environment says.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn the_released_visor_leaves_nothing_out() {
    let visor = Command::new(env!("CARGO_BIN_EXE_monohull"));
    let server = server_of(visor, isolation(), &[(VARIABLE, "reset-heap")]);
    is_clean(isolation(), &look(&server));
}
