//! How processes end: every kind of end is reported at once and leaves nothing behind.

use crate::watch::{endless, job, listen, next, one_step, run};
use crate::{Spawners, Test};
use monohull_visor::report::Blame;
use monohull_visor::worker::cgroup::Membership;
use monohull_visor::worker::{Cause, Death, Message, Notice, ProcessError, Running, Settings, Spawner};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) const TESTS: &[Test] = &[
    ("a_spawner_is_not_forked_from_a_program_with_threads", a_spawner_is_not_forked_from_a_program_with_threads),
    ("a_killed_process_is_reported", a_killed_process_is_reported),
    ("a_process_killed_at_any_moment_is_reported", a_process_killed_at_any_moment_is_reported),
    ("a_killed_idle_worker_is_reported_with_its_job", a_killed_idle_worker_is_reported_with_its_job),
    ("a_stopped_process_can_be_ended", a_stopped_process_can_be_ended),
    ("a_dropped_process_ends", a_dropped_process_ends),
    ("a_function_that_fails_does_not_end_its_process_badly", a_function_that_fails_does_not_end_its_process_badly),
    ("the_end_of_the_spawner_ends_all_below_it", the_end_of_the_spawner_ends_all_below_it),
    ("the_end_of_monohull_run_ends_its_workflow", the_end_of_monohull_run_ends_its_workflow),
    ("monohull_run_does_not_wait_for_ever", monohull_run_does_not_wait_for_ever),
    ("a_run_that_comes_to_nothing_leaves_no_process", a_run_that_comes_to_nothing_leaves_no_process),
    ("nothing_is_left_behind", nothing_is_left_behind),
];

fn a_spawner_is_not_forked_from_a_program_with_threads(_: &Spawners) {
    let settings = Settings {
        modules: PathBuf::from("/"),
        keys: false,
        preload: Vec::new(),
        groups: Membership::Shared(String::new()),
    };
    std::thread::scope(|scope| {
        let tried = scope.spawn(|| Spawner::start(&settings).map(drop)).join().expect("no panic");
        assert!(matches!(tried, Err(ProcessError::Threads(count)) if count > 1), "{tried:?}");
    });
}

/// A workflow that runs and does not end.
fn running(spawner: &Spawner) -> Running {
    let mut running =
        spawner.idle_worker().expect("an idle worker").assign(&job(&endless(), Vec::new())).expect("a job is taken");
    while !matches!(next(&mut running), Some(Message::Notice(Notice::StepStarted { .. }))) {}
    running
}

#[track_caller]
fn was_killed(death: &Death) {
    assert_eq!((&death.cause, death.blame, death.answered), (&Cause::Signaled(9), Blame::Host, false), "{death:?}");
    assert!(death.message.contains("killed"), "{death:?}");
}

fn a_killed_process_is_reported(spawners: &Spawners) {
    let from_outside = running(&spawners.usual);
    kill(Pid::from_raw(from_outside.pid()), Signal::SIGKILL).expect("it is there");
    was_killed(listen(from_outside).death());
    let by_us = running(&spawners.usual);
    by_us.kill();
    was_killed(listen(by_us).death());
    let otherwise = running(&spawners.usual);
    kill(Pid::from_raw(otherwise.pid()), Signal::SIGUSR1).expect("it is there");
    assert_eq!(listen(otherwise).death().cause, Cause::Signaled(10));
}

fn a_process_killed_at_any_moment_is_reported(spawners: &Spawners) {
    let job = job(&one_step("std-tour", json!({})), Vec::new());
    let (mut before, mut after) = (0, 0);
    let begin = Instant::now();
    // From before the job is read to after the answer, however long that takes here.
    for delay in 0.. {
        if delay >= 60 && before > 0 && after > 0 {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{before} killed before the answer, {after} after it");
        let running = spawners.usual.idle_worker().expect("an idle worker").assign(&job).expect("a job is taken");
        std::thread::sleep(Duration::from_micros(delay * delay * 5));
        running.kill();
        let received = listen(running);
        match received.report {
            Some(_) => {
                assert!(received.death().answered);
                after += 1;
            }
            None => {
                was_killed(received.death());
                before += 1;
            }
        }
    }
}

/// Waits until something holds.
#[track_caller]
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "still not: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn a_killed_idle_worker_is_reported_with_its_job(spawners: &Spawners) {
    let worker = spawners.usual.idle_worker().expect("an idle worker");
    kill(Pid::from_raw(worker.pid()), Signal::SIGKILL).expect("it is there");
    eventually("it is gone", || state(worker.pid()).is_none());
    let received = listen(worker.assign(&job(&endless(), Vec::new())).expect("its death is reported as any other"));
    was_killed(received.death());
}

fn a_stopped_process_can_be_ended(spawners: &Spawners) {
    let mut stopped = running(&spawners.usual);
    kill(Pid::from_raw(stopped.pid()), Signal::SIGSTOP).expect("it is there");
    eventually("it has stopped", || state(stopped.pid()) == Some('T'));
    // Others are not held up by it.
    let received = run(&spawners.usual, &job(&one_step("no-op", json!({})), Vec::new()));
    assert!(received.report.is_some());
    while stopped.next_message().expect("a readable channel").is_some() {}
    stopped.kill();
    was_killed(listen(stopped).death());
}

fn a_dropped_process_ends(spawners: &Spawners) {
    let worker = spawners.usual.idle_worker().expect("an idle worker");
    let running = running(&spawners.usual);
    let pids = [worker.pid(), running.pid()];
    drop((worker, running));
    eventually("both are gone", || pids.iter().all(|pid| state(*pid).is_none()));
}

fn a_function_that_fails_does_not_end_its_process_badly(spawners: &Spawners) {
    for how in ["null-write", "panic", "raw-system-call"] {
        let received = run(&spawners.usual, &job(&one_step("misbehave", json!({ "how": how })), Vec::new()));
        assert!(received.report().error.is_some(), "{how}");
        assert_eq!(received.death().cause, Cause::Exited(0), "{how}");
    }
}

fn the_end_of_the_spawner_ends_all_below_it(spawners: &Spawners) {
    let spawner = &spawners.mortal;
    let worker = spawner.idle_worker().expect("an idle worker");
    let at_work = running(spawner);
    let pids = [worker.pid(), at_work.pid()];
    kill(Pid::from_raw(spawner.pid()), Signal::SIGKILL).expect("it is there");
    let received = listen(at_work);
    assert_eq!(received.death().cause, Cause::Unknown);
    let received = listen(worker.assign(&job(&endless(), Vec::new())).expect("its death is reported as any other"));
    assert_eq!(received.death().cause, Cause::Unknown);
    eventually("both are gone", || pids.iter().all(|pid| state(*pid).is_none()));
    assert!(matches!(spawner.idle_worker(), Err(ProcessError::SpawnerEnded)));
    // A poll of the spawner reports its end.
    let mut polled = [nix::poll::PollFd::new(spawner.as_fd(), nix::poll::PollFlags::POLLIN)];
    assert_eq!(nix::poll::poll(&mut polled, nix::poll::PollTimeout::NONE), Ok(1));
}

fn the_end_of_monohull_run_ends_its_workflow(_: &Spawners) {
    let file = std::env::temp_dir().join(format!("monohull-process-endless-{}.json", std::process::id()));
    let mut document = endless();
    document["functions"]["f"]["image"] = crate::support::image("misbehave").to_str().expect("a path in UTF-8").into();
    std::fs::write(&file, document.to_string()).expect("a file for the test");
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.arg("run").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let mut program = command.spawn().expect("monohull starts");
        eventually("its workflow has a process", || !children(program.id()).is_empty());
        let workflow = children(program.id())[0];
        kill(Pid::from_raw(program.id() as i32), signal).expect("it is there");
        assert!(!program.wait().expect("it ends").success());
        eventually("its workflow is gone", || state(workflow).is_none());
    }
    std::fs::remove_file(&file).expect("it is ours");
}

/// A process that cannot say that its time is up: it is stopped.
fn monohull_run_does_not_wait_for_ever(_: &Spawners) {
    let file = std::env::temp_dir().join(format!("monohull-process-stopped-{}.json", std::process::id()));
    let mut document = one_step("echo", json!({ "say": "ready", "wait_ms": 1_000_000 }));
    document["functions"]["f"]["image"] = crate::support::image("echo").to_str().expect("a path in UTF-8").into();
    document["inputs"] = json!([{ "slot": "in", "path": file.to_str().expect("a path in UTF-8") }]);
    document["limits"] = json!({ "timeout": "10s" });
    std::fs::write(&file, document.to_string()).expect("a file for the test");
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.arg("run").arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = command.spawn().expect("monohull starts");
    let mut line = String::new();
    BufReader::new(program.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    assert!(line.contains("ready"), "{line}");
    let workflow = children(program.id())[0];
    kill(Pid::from_raw(workflow), Signal::SIGSTOP).expect("it is there");
    let output = program.wait_with_output().expect("it ends");
    std::fs::remove_file(&file).expect("it is ours");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("the time was up"), "{:?} {said}", output.status);
    assert!(state(workflow).is_none(), "its process is gone");
}

/// The process of a run is there before the images have been read, and ends if one is refused, or an input cannot be read.
fn a_run_that_comes_to_nothing_leaves_no_process(_: &Spawners) {
    let file = std::env::temp_dir().join(format!("monohull-process-refused-{}.json", std::process::id()));
    let own = file.to_str().expect("a path in UTF-8");
    let mut refused = one_step("no-op", json!({}));
    // The document itself is no image.
    refused["functions"]["f"]["image"] = own.into();
    let mut unread = one_step("no-op", json!({}));
    unread["functions"]["f"]["image"] = crate::support::image("no-op").to_str().expect("a path in UTF-8").into();
    unread["inputs"] = json!([{ "slot": "in", "path": "/nowhere/at/all" }]);
    // What its parent leaves behind becomes a child of this process, also if it has ended.
    set_child_subreaper(true).expect("a process may be one");
    for document in [refused, unread] {
        std::fs::write(&file, document.to_string()).expect("a file for the test");
        let before = children(std::process::id());
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        let output = command.arg("run").arg(&file).output().expect("monohull starts");
        assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(children(std::process::id()), before, "{}", String::from_utf8_lossy(&output.stderr));
    }
    set_child_subreaper(false).expect("a process may be none");
    std::fs::remove_file(&file).expect("it is ours");
}

fn nothing_is_left_behind(spawners: &Spawners) {
    let spawner = &spawners.quiet;
    let job = job(&one_step("no-op", json!({})), Vec::new());
    let once = || {
        run(spawner, &job);
        let dropped = spawner.idle_worker().expect("an idle worker");
        eventually("it is there", || state(dropped.pid()).is_some());
    };
    once();
    let descriptors = open_files(spawner.pid());
    for _ in 0..50 {
        once();
    }
    // The last one is being reaped.
    eventually("all are reaped", || children(spawner.pid() as u32).is_empty());
    run(spawner, &job);
    eventually("all descriptors are closed", || open_files(spawner.pid()) <= descriptors);
}

/// The state of a process, as `ps` has it; none if there is no such process, or only what is left of one.
fn state(pid: i32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let state = text.rsplit(") ").next()?.chars().next();
    state.filter(|state| *state != 'Z' && *state != 'X')
}

/// The processes that have this parent, zombies among them.
fn children(parent: u32) -> Vec<i32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let found = text.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse::<u32>().ok());
        found == Some(parent)
    };
    pids.filter(is_child).collect()
}

/// How many descriptors a process has. The kernel shows it to root only, or not at all if the process is not dumpable: then 0.
fn open_files(pid: i32) -> usize {
    std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")).map_or(0, Iterator::count)
}
