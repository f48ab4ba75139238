//! The machine a result is from, and keeping a measurement on one core of it.

use crate::harness::Result;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::Serialize;

/// What a reader must know to compare results.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// The isolation our side ran under.
    pub isolation: String,
}

impl Machine {
    /// Looks around; `isolation` comes from a run.
    pub(crate) fn look(isolation: String) -> Machine {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cpu: model.map_or("unknown", |(_, name)| name).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().to_owned(),
            isolation,
        }
    }
}

/// Runs `work`, and all threads and processes it starts, on one core.
pub(crate) fn on_one_core<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let me = Pid::from_raw(0);
    let before = sched_getaffinity(me).map_err(|error| format!("cannot read this thread's cores: {error}"))?;
    let last = (0..CpuSet::count()).rev().find(|&core| before.is_set(core).unwrap_or(false));
    let mut one = CpuSet::new();
    let core = last.ok_or("this thread may use no core")?;
    one.set(core).and_then(|()| sched_setaffinity(me, &one)).map_err(|error| format!("cannot pin: {error}"))?;
    let result = work();
    sched_setaffinity(me, &before).map_err(|error| format!("cannot unpin: {error}"))?;
    result
}
