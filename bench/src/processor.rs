//! The processor time that a server takes, with all that is below it.

use crate::harness::Result;
use crate::service::children;
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use std::fs;
use std::time::Duration;

/// Nanoseconds of processor time that a process and those below it have taken so far: those that run as the kernel counts them, those
/// that have ended in the kernel's ticks, of which there are a hundred a second.
pub(crate) fn of_tree(pid: i32) -> f64 {
    let own = clock_getcpuclockid(Pid::from_raw(pid))
        .and_then(ClockId::now)
        .map_or(0.0, |time| Duration::from(time).as_nanos() as f64);
    own + of_ended_children(pid) + children(pid).into_iter().map(of_tree).sum::<f64>()
}

/// Of the calling process: what a function call takes.
pub(crate) fn of_call<T>(call: impl FnOnce() -> T) -> Result<(f64, T)> {
    let now = || ClockId::CLOCK_THREAD_CPUTIME_ID.now().map_err(|error| format!("the processor's time: {error}"));
    let before = now()?;
    let value = call();
    Ok((Duration::from(now()? - before).as_nanos() as f64, value))
}

/// What the children that a process has waited for had taken.
fn of_ended_children(pid: i32) -> f64 {
    const TICK: f64 = 1e7;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // `cutime` and `cstime`, which are the 16th and the 17th field; the name, which is the second, may have spaces.
    let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').skip(13).take(2));
    fields.into_iter().flatten().filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() * TICK
}
