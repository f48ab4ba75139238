//! The privileges that a worker has dropped, as the kernel reports them.

use crate::{Spawners, Test};
use monohull_sys::written_pages::PageMap;
use monohull_visor::worker::IdleWorker;
use std::fs::{read, read_dir, read_to_string};
use std::os::unix::fs::MetadataExt;

pub(crate) const TESTS: &[Test] = &[
    ("an_idle_worker_can_gain_no_rights", an_idle_worker_can_gain_no_rights),
    ("an_idle_worker_has_no_descriptors_but_its_own", an_idle_worker_has_no_descriptors_but_its_own),
    ("an_idle_worker_has_no_environment", an_idle_worker_has_no_environment),
    ("an_idle_worker_has_limits_and_no_terminal", an_idle_worker_has_limits_and_no_terminal),
    ("what_is_in_force_is_reported", what_is_in_force_is_reported),
];

fn idle_worker(spawners: &Spawners) -> IdleWorker {
    spawners.usual.idle_worker().expect("an idle worker")
}

/// A line of `/proc/PID/status`.
fn status(worker: &IdleWorker, name: &str) -> String {
    let text = read_to_string(format!("/proc/{}/status", worker.pid())).expect("the worker is there");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} is not in {text}")).trim().to_owned()
}

fn an_idle_worker_can_gain_no_rights(spawners: &Spawners) {
    let worker = idle_worker(spawners);
    assert_eq!(status(&worker, "NoNewPrivs"), "1");
    assert_eq!(status(&worker, "Seccomp"), "2");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(status(&worker, set), "0000000000000000", "{set}");
    }
    assert_eq!(status(&worker, "Threads"), "1");
    assert_eq!(status(&worker, "SigBlk"), "0000000000000000");
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").expect("our own").uid() == 0
}

fn an_idle_worker_has_no_descriptors_but_its_own(spawners: &Spawners) {
    // Some more idle workers: none has what belongs to another.
    let others: Vec<IdleWorker> = (0..3).map(|_| idle_worker(spawners)).collect();
    let worker = idle_worker(spawners);
    let folder = format!("/proc/{}/fd", worker.pid());
    if !is_root() {
        assert!(read_dir(&folder).is_err(), "only root may look into a process that is not dumpable");
        return;
    }
    let mut names: Vec<String> = read_dir(&folder)
        .expect("root may look")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let mut expected = vec![("0", "/dev/null"), ("1", "/dev/null"), ("2", "socket"), ("3", "socket")];
    if PageMap::is_of_use().is_ok() {
        // That of the worker's own pages.
        expected.push(("4", "/pagemap"));
    }
    assert_eq!(names, expected.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (name, target) in expected {
        let link = std::fs::read_link(format!("{folder}/{name}")).expect("a link");
        assert!(link.to_string_lossy().contains(target), "{name} is {link:?}");
    }
    drop(others);
}

fn an_idle_worker_has_no_environment(spawners: &Spawners) {
    let own = read("/proc/self/environ").expect("our own");
    assert!(own.iter().any(|byte| *byte != 0), "there was something to be cleared");
    let worker = idle_worker(spawners);
    match read(format!("/proc/{}/environ", worker.pid())) {
        Ok(environment) => assert!(environment.iter().all(|byte| *byte == 0)),
        Err(error) => assert!(!is_root(), "{error}"),
    }
}

fn an_idle_worker_has_limits_and_no_terminal(spawners: &Spawners) {
    let worker = idle_worker(spawners);
    let limits = read_to_string(format!("/proc/{}/limits", worker.pid())).expect("the worker is there");
    for (name, most) in [("Max core file size", 0), ("Max open files", 8192), ("Max locked memory", 0)] {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{limits}"));
        let values: Vec<u64> = line.split_whitespace().take(2).map(|value| value.parse().expect("a number")).collect();
        assert!(values[0] == values[1] && values[0] <= most, "{name}: {values:?}");
    }
    let stat = read_to_string(format!("/proc/{}/stat", worker.pid())).expect("the worker is there");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    // That of the spawner, which has no terminal.
    let (session, terminal) = (fields[3], fields[4]);
    assert_eq!((session, terminal), (spawners.usual.pid().to_string().as_str(), "0"));
}

fn what_is_in_force_is_reported(spawners: &Spawners) {
    let worker = idle_worker(spawners);
    let sandbox = worker.sandbox();
    assert!(sandbox.no_new_privs && sandbox.seccomp);
    assert!(!sandbox.landlock.is_empty() && !sandbox.cgroup.is_empty(), "{sandbox:?}");
}
