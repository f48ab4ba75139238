//! Timers are counted for all processes of a user together: one worker that takes all it can get must not keep others from
//! running.

use crate::watch::{job, listen, one_step, run};
use crate::wrong_module::with_wrong_time;
use monohull_abi::number;
use monohull_visor::report::Status;
use monohull_visor::worker::{Settings, Spawner};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long the worker may take to make its timers.
const PATIENCE: Duration = Duration::from_secs(60);

/// A spawner whose module `time` takes all timers there are. To be called before there are threads.
pub(crate) fn start(usual: &Settings) -> Spawner {
    let settings = Settings { modules: with_wrong_time("takes_timers"), preload: Vec::new(), ..usual.clone() };
    Spawner::start(&settings).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn a_worker_that_takes_all_timers_keeps_no_other_from_running(greedy: &Spawner, others: &Spawner) {
    let document = one_step("hostcall-abuse", json!({ "role": "ask", "number": number::CLOCK_GETTIME }));
    let attacker = greedy.idle_worker().expect("an idle worker").assign(&job(&document, Vec::new())).expect("taken");
    let (_, limit) = signals();
    let begin = Instant::now();
    // Half is what a worker may bring the count to.
    while signals().0 < limit / 2 {
        assert!(begin.elapsed() < PATIENCE, "{:?} of timers and signals: the attack has not begun", signals());
        std::thread::sleep(Duration::from_millis(10));
    }
    let received = run(others, &job(&one_step("no-op", json!({})), Vec::new()));
    assert_eq!(received.report().status, Status::Done, "{:?}", received.report().error);
    let (taken, limit) = signals();
    assert!(taken >= limit / 2 - 1000, "the attack was over too early to show anything: {taken} of {limit}");
    attacker.kill();
    listen(attacker);
}

/// How many signals and timers this user has, and may have (`SigQ` in `proc(5)`).
fn signals() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("SigQ:")).expect("a kernel that counts signals");
    let (taken, limit) = line.trim().split_once('/').expect("two numbers");
    (taken.parse().expect("a number"), limit.parse().expect("a number"))
}
