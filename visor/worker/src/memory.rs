//! How much memory a worker has for itself.
//!
//! A worker is a fork, so most pages of a young one are its spawner's too, until one of both writes to them. What the kernel counts as
//! anonymous memory of the process has those: some megabytes that are not free when it ends. What is its own, the kernel tells to those who
//! may trace it, and in the account of a control group. Elsewhere it is estimated.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a page, in which the kernel counts memory.
const PAGE: u64 = 4096;

/// What a process copies of its spawner's memory is less than this: some hundred kilobytes.
const COPIED_MAX: u64 = 1 << 20;

/// Tells how much memory and processor time a process has had, whenever it is asked. Of one that has ended it tells 0, or what another one of the same
/// number has had.
#[derive(Clone, Debug)]
pub struct Gauge {
    pid: i32,
    /// The file with the account of its control group.
    account: Option<PathBuf>,
    /// The process that it is a fork of, if that lives.
    spawner: Option<i32>,
    /// Bytes of memory that is freed with it and that is no process's to the kernel, or not its alone: sealed memory that it goes on with, and what it has for large slots.
    shared: u64,
}

impl Gauge {
    pub(super) fn new(pid: i32, account: Option<PathBuf>, spawner: Option<i32>, shared: u64) -> Gauge {
        Gauge { pid, account, spawner, shared }
    }

    /// Bytes of memory that it has for itself, and that are free when it ends. What it shares with other copies counts, too.
    pub fn private_memory(&self) -> u64 {
        match private(self.pid, self.account.as_deref(), self.spawner) {
            0 => 0,
            own => own.saturating_add(self.shared),
        }
    }

    /// Its processor time so far, in ticks of 10 ms.
    pub fn processor_ticks(&self) -> u64 {
        processor_ticks(self.pid)
    }
}

/// Bytes of memory that a process has for itself; 0 if it has ended. `spawner` is the process that it is a fork of, if that lives.
fn private(pid: i32, account: Option<&Path>, spawner: Option<i32>) -> u64 {
    let told = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok().and_then(|text| told(&text));
    let of_group = || fs::read_to_string(account?).ok()?.trim().parse().ok();
    told.or_else(of_group).unwrap_or_else(|| estimated(pid, spawner))
}

/// What it has more than its spawner, and what it may have copied of that one's.
fn estimated(pid: i32, spawner: Option<i32>) -> u64 {
    let own = anonymous(pid);
    let growth = own.saturating_sub(spawner.map_or(0, anonymous));
    // Each page that it has taken or copied by itself has been a fault; those that came at once have made it larger. A process that serves one job after the
    // other has as many again for each.
    let faulted = own.min(faults(pid).saturating_mul(PAGE));
    growth + faulted.saturating_sub(growth).min(COPIED_MAX)
}

/// The private pages of a summary of a process's mappings, in bytes. `None` if it has none, as one of a process that has ended.
fn told(text: &str) -> Option<u64> {
    let private =
        text.lines().filter_map(|line| line.strip_prefix("Private_").or(line.strip_prefix("Swap:").map(|_| line)));
    let kibibytes = private.filter_map(|line| line.trim_end_matches(" kB").rsplit(' ').next()?.parse::<u64>().ok());
    let all: Vec<u64> = kibibytes.collect();
    (!all.is_empty()).then(|| all.iter().sum::<u64>() << 10)
}

/// Bytes of its anonymous memory.
fn anonymous(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut pages = text.split(' ').skip(1).map(|pages| pages.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    resident.saturating_sub(shared).saturating_mul(PAGE)
}

/// Its page faults that read nothing from a disk.
fn faults(pid: i32) -> u64 {
    statistics(pid, [7])[0]
}

/// The processor time of all its threads so far, in ticks of 10 ms; 0 if it has ended.
pub(super) fn processor_ticks(pid: i32) -> u64 {
    statistics(pid, [11, 12]).iter().sum()
}

/// Some of the numbers that the kernel keeps of a process (`proc_pid_stat(5)`), counted from the one behind its name.
fn statistics<const N: usize>(pid: i32, which: [usize; N]) -> [u64; N] {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program is in brackets, and may be anything.
    let fields: Vec<&str> = text.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ').collect();
    which.map(|index| fields.get(index).and_then(|number| number.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_private_is_counted_and_nothing_else() {
        let text = "100-200 ---p 00000000 00:00 0  [rollup]\nRss:   53696 kB\nPss:   3565 kB\nShared_Dirty:   51928 kB\n\
                    Private_Clean:   164 kB\nPrivate_Dirty:   480 kB\nPrivate_Hugetlb:   0 kB\nSwap:   4 kB\nSwapPss:   4 kB\n";
        assert_eq!(told(text), Some(648 << 10));
        assert_eq!(told(""), None);
    }

    #[test]
    fn memory_that_a_process_takes_is_its_own() {
        let pid = std::process::id() as i32;
        let taken = vec![1_u8; 8 << 20];
        assert!(private(pid, None, None) >= taken.len() as u64);
        assert!(anonymous(pid) >= taken.len() as u64 && faults(pid) > 0);
        assert!(estimated(pid, None) >= taken.len() as u64);
        // What it has from its spawner is not its own, however many faults it has had.
        assert!(estimated(pid, Some(pid)) <= COPIED_MAX);
        assert_eq!((anonymous(-1), faults(-1), private(-1, None, None)), (0, 0, 0));
        while processor_ticks(pid) == 0 {
            std::hint::black_box(&taken);
        }
        assert_eq!(processor_ticks(-1), 0);
    }
}
