//! The negative control: with one part of the reset left out, [`look`] finds what that part removes. So it is able to, and it is this
//! part that removes it.
//!
//! The unhardened visor (`monohull-unhardened`, which `cargo xtask test` builds) leaves copies of inputs, texts and descriptors
//! behind on purpose, so that each part has something to find; with nothing left out it is as clean as the one that ships.

use super::memory::{Search, first_context, is_signal_stack_empty, nevers, rights_outside_of_cells, signals};
use super::serve_support::{Server, eventually};
use super::{BYTES, Found, VISOR, is_clean, isolations, kept_and_idle, look, open_files, remains, server_of};
use monohull_visor::domain::fault_injection::PLANTED;
use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What names the part that is left out.
const VARIABLE: &str = "MONOHULL_UNHARDEN";

/// The visor in which parts of the reset can be left out, beside the one that ships.
fn unhardened_visor() -> PathBuf {
    let profiles = Path::new(VISOR).ancestors().nth(2);
    profiles.expect("cargo builds in folders").join("release/monohull-unhardened")
}

/// The strictest isolation of this machine.
fn isolation() -> &'static str {
    isolations().pop().expect("there is one without keys")
}

/// What is found if this part is left out.
#[track_caller]
fn found_without(part: Option<&str>) -> Found {
    let environment: Vec<_> = part.map(|part| (VARIABLE, part)).into_iter().collect();
    let program = unhardened_visor();
    look(&program, &server_of(Command::new(&program), isolation(), &environment))
}

/// Markers are found in memory of this name.
#[track_caller]
fn has_traces(part: &str, mapping: &str) {
    let found = found_without(Some(part));
    assert!(found.traces.iter().any(|(name, count)| name == mapping && *count > 0), "{found:?}");
}

/// A process that leaves this part out, and has served one invocation that leaves something in this way.
#[track_caller]
fn left_without(part: Option<&str>, way: &str) -> (Server, i32) {
    let mut program = Command::new(unhardened_visor());
    program.envs(part.map(|part| (VARIABLE, part)));
    let server = remains::serve(program, isolation(), "workflow");
    remains::done(&server, &format!("leave {way} {}", remains::MARK), 0);
    let (kept, _) = kept_and_idle(&server);
    (server, kept)
}

/// The mark with this text behind it is left in some page if this part is left out.
#[track_caller]
fn is_left(part: &str, way: &str, text: &str) {
    let (_server, kept) = left_without(Some(part), way);
    let found = Search::of(kept).find(format!("{}{text}", remains::MARK).as_bytes());
    assert!(!found.is_empty(), "{part}: {text}");
}

/// Whether there is what threads leave on their stacks.
fn is_planted(pid: i32) -> bool {
    !Search::of(pid).find(PLANTED.to_ascii_uppercase().as_bytes()).is_empty()
}

/// Whether signals are pending on the thread that runs functions, and whether some are blocked.
fn left_signals(pid: i32) -> [bool; 2] {
    let [pending, _, blocked] = &signals(pid)[..] else { panic!("the kernel shows three sets") };
    [pending, blocked].map(|set| set.bytes().any(|digit| digit != b'0'))
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn with_nothing_left_out_nothing_is_found() {
    is_clean(isolation(), &found_without(None));
    for way in ["kinds", "mapped", "copied", "interrupted", "names"] {
        let (_server, kept) = left_without(None, way);
        assert_eq!(Search::of(kept).find(remains::MARK.as_bytes()), [], "{way}");
        assert_eq!(rights_outside_of_cells(kept), [""; 0], "{way}");
        assert!(!is_planted(kept) && is_signal_stack_empty(kept), "{way}");
        assert_eq!(left_signals(kept), [false; 2], "{way}");
    }
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_heap() {
    has_traces("reset-heap", "[heap]");
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_room() {
    has_traces("reset-room", "[heap]");
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_stacks() {
    has_traces("reset-stacks", "[stack]");
}

/// The carriers of a workflow whose threads compute are threads of the process, which end with the run.
#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_thread_stacks() {
    let (_server, kept) = left_without(Some("reset-thread-stacks"), "interrupted");
    assert!(is_planted(kept));
}

/// The file of a copy is emptied when the copy is dropped: a process that still shows it ends, and so keeps nothing.
#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_cell_copies() {
    let serve = |part: Option<&str>| {
        let mut program = Command::new(unhardened_visor());
        program.envs(part.map(|part| (VARIABLE, part)));
        remains::serve(program, isolation(), "workflow")
    };
    let todo = format!("leave copied {}", remains::MARK);
    remains::done(&serve(None), &todo, 0);
    let server = serve(Some("reset-cell-copies"));
    server.ask_with("POST", "/invoke/remains", &BYTES, todo.as_bytes()).expect(200);
    eventually("its process ends", || server.log().contains("a process could not be used again, and has ended"));
    assert_eq!(super::kept(&server), 0);
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_cell_data() {
    is_left("reset-cell-data", "kinds", "-data");
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_cell_zeros() {
    is_left("reset-cell-zeros", "kinds", "-zeros");
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_cell_heap() {
    is_left("reset-cell-heap", "kinds", "-heap");
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_cell_mapped() {
    is_left("reset-cell-mapped", "kinds", "-mapped");
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_cell_stack() {
    is_left("reset-cell-stack", "kinds", "-stack");
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_cell_threads() {
    is_left("reset-cell-threads", "kinds", "-thread");
}

/// No cell is kept in which a file has been mapped.
#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_other_cells() {
    is_left("reset-other-cells", "mapped", "");
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_arena() {
    let found = found_without(Some("reset-arena"));
    assert!(found.rights.iter().any(|line| line.starts_with("arena: ")), "{found:?}");
}

/// Without keys there are no entry frames.
#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_frames() {
    let found = found_without(Some("reset-frames"));
    let is_left = found.rights.iter().any(|line| line.starts_with("frames: "));
    assert_eq!(is_left, isolation() == "mpk", "{found:?}");
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_blocks() {
    let (_server, kept) = left_without(Some("reset-blocks"), "interrupted");
    let rights = rights_outside_of_cells(kept);
    assert!(rights.iter().any(|line| line.starts_with("blocks: ")), "{rights:?}");
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_info() {
    let found = found_without(Some("reset-info"));
    assert!(!found.same_info, "{found:?}");
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_context() {
    // No second invocation would get far.
    let (server, kept) = left_without(Some("reset-context"), "names");
    let (_, idle) = kept_and_idle(&server);
    assert!(first_context(kept) != first_context(idle));
    assert_ne!(nevers(&unhardened_visor(), kept), nevers(&unhardened_visor(), idle));
}

/// The kernel writes the registers of an interrupted function to the stack on which signals are handled. What looks for signals that
/// were handled is all that has it emptied, and that has a signal delivered which is blocked.
#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_signals() {
    let (_server, kept) = left_without(Some("reset-signals"), "interrupted");
    assert!(!is_signal_stack_empty(kept));
    assert_eq!(left_signals(kept), [true; 2]);
}

/// Threads run on several carriers, whose timers stay. A timer that goes off when its carrier is gone ends the process, so it may be gone
/// before it is looked at. So may the spawner, whose warm-up run leaves one as well.
#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
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

/// Names of slots are the modules'.
#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_modules() {
    is_left("reset-modules", "names", "");
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_statics() {
    let found = found_without(Some("reset-statics"));
    assert!(!found.same_statics, "{found:?}");
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_inputs() {
    let found = found_without(Some("reset-inputs"));
    assert!(matches!(found.in_slot_memory[..], [(1..), 0]), "{found:?}");
}

/// The server clears them, so that it is the one which leaves this out.
#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_outputs() {
    let found = found_without(Some("reset-outputs"));
    assert!(matches!(found.in_slot_memory[..], [0, (1..)]), "{found:?}");
}

#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn reset_descriptors() {
    let found = found_without(Some("reset-descriptors"));
    // One more after each invocation whose input is in its message: the third and the fourth.
    assert_eq!(found.files[3], found.files[1] + 2, "{found:?}");
}

/// What ships resets itself whatever its environment says.
#[test]
#[ignore = "needs monohull-unhardened: run by `cargo xtask test`"]
fn the_released_visor_leaves_nothing_out() {
    let server = server_of(Command::new(VISOR), isolation(), &[(VARIABLE, "reset-heap")]);
    is_clean(isolation(), &look(Path::new(VISOR), &server));
}
