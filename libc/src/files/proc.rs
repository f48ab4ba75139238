//! The files below `/proc` that programs read to learn about themselves and the machine. Each is a text that is made when it is opened.
//! Where the workflow mounts a file of that name, that one is found.

use super::{S_IFREG, Stat};
use crate::descriptors::{Kind, MOST};
use crate::errno::Answer;
use crate::shared::Shared;
use crate::{clocks, host, start, threads};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::layout::PAGE;
use monohull_abi::types::{Info, InfoString};

/// A text, and how far it has been read.
pub(crate) struct Text {
    bytes: Vec<u8>,
    position: AtomicU64,
}

static TEXTS: Shared<Text> = Shared::new();

/// The name of a file, and what makes its content.
type File = (&'static [u8], fn() -> String);

/// What of `/proc` there is, behind the folder of the process where that is its own.
const NAMES: &[File] = &[
    (b"/proc/cpuinfo", processors),
    (b"/proc/loadavg", || String::from("0.00 0.00 0.00 1/1 1\n")),
    (b"/proc/meminfo", memory),
    (b"/proc/stat", times),
    (b"/proc/uptime", uptime),
    (b"cmdline", || start::arguments().iter().flat_map(|word| [word, "\0"]).collect()),
    (b"comm", || format!("{}\n", command())),
    (b"stat", numbers),
    (b"statm", pages),
    (b"status", status),
];

/// The name behind the folder of the process, in each way to call it.
fn of_process(path: &[u8]) -> Option<&[u8]> {
    [&b"/proc/self/"[..], b"/proc/1/", b"/proc/thread-self/"].iter().find_map(|folder| path.strip_prefix(*folder))
}

fn find(path: &[u8]) -> Option<fn() -> String> {
    let name = of_process(path).unwrap_or(path);
    let found = NAMES.iter().find(|(other, _)| *other == name && (name.len() < path.len() || path[0] == b'/'));
    found.map(|(_, text)| *text)
}

/// Opens such a file.
pub(super) fn open(path: &[u8]) -> Option<Kind> {
    let bytes = find(path)?().into_bytes();
    Some(Kind::Text(TEXTS.add(Text { bytes, position: AtomicU64::new(0) })))
}

/// What is known of such a file.
pub(super) fn known(path: &[u8]) -> Option<Stat> {
    find(path).map(|_| stat())
}

pub(super) fn stat() -> Stat {
    Stat::of(S_IFREG | 0o444, &Default::default())
}

/// The descriptor that a path is another name for.
pub(super) fn descriptor(path: &[u8]) -> Option<u64> {
    let number = path.strip_prefix(b"/dev/fd/").or_else(|| of_process(path)?.strip_prefix(b"fd/"))?;
    let number = core::str::from_utf8(number).ok()?.parse::<u64>().ok()?;
    (number < MOST as u64).then_some(number)
}

/// Where a link leads to. The image is no file that could be opened; its name is the function's.
pub(super) fn link(path: &[u8]) -> Option<String> {
    match of_process(path) {
        Some(b"exe") => Some(format!("/{}", host::text(InfoString::Function))),
        Some(b"root") => Some(String::from("/")),
        None if path == b"/proc/self" => Some(String::from("1")),
        _ => None,
    }
}

pub(crate) fn get(at: usize) -> Result<Arc<Text>, Answer> {
    TEXTS.get(at)
}

pub(crate) fn retain(at: usize) -> Result<(), Answer> {
    TEXTS.retain(at)
}

pub(crate) fn release(at: usize) -> Answer {
    drop(TEXTS.release(at));
    0
}

impl Text {
    /// What there is from an offset on, as much as there is room for.
    pub(super) fn read_at(&self, buffer: u64, len: u64, offset: u64) -> Answer {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let bytes = &rest[..rest.len().min(len as usize)];
        // SAFETY: the caller's buffer.
        unsafe { (buffer as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        bytes.len() as Answer
    }

    pub(super) fn read(&self, buffer: u64, len: u64) -> Answer {
        let read = self.read_at(buffer, len, self.position.load(Ordering::Relaxed));
        self.position.fetch_add(read as u64, Ordering::Relaxed);
        read
    }

    /// `lseek`: from the beginning, from the position or from the end; `None` of what is before the beginning.
    pub(super) fn seek(&self, offset: i64, whence: u64) -> Option<Answer> {
        let from = match whence {
            0 => 0,
            1 => self.position.load(Ordering::Relaxed),
            2 => self.bytes.len() as u64,
            _ => return None,
        };
        let position = (from as i64).checked_add(offset).filter(|position| *position >= 0)?;
        self.position.store(position as u64, Ordering::Relaxed);
        Some(position)
    }
}

/// What Linux has as the name of a command: 15 bytes.
pub(crate) fn command() -> String {
    let mut name = host::text(InfoString::Function);
    name.truncate(name.floor_char_boundary(15));
    name
}

/// The time that the machine has been running, in hundredths of a second.
fn ticks() -> u64 {
    clocks::now(clocks::MONOTONIC) / 10_000_000
}

fn processors() -> String {
    let count = host::info(Info::Parallelism);
    let one = |at| {
        format!(
            "processor\t: {at}\nmodel name\t: x86-64\nphysical id\t: 0\nsiblings\t: {count}\ncore id\t\t: {at}\n\
             cpu cores\t: {count}\n\n"
        )
    };
    (0..count).map(one).collect()
}

fn memory() -> String {
    let stats = host::memory_stats();
    let free = stats.limit.saturating_sub(stats.heap + stats.owned) >> 10;
    let total = stats.limit >> 10;
    format!(
        "MemTotal: {total} kB\nMemFree: {free} kB\nMemAvailable: {free} kB\nBuffers: 0 kB\nCached: 0 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
    )
}

/// How long processors have been idle is not known to a function: all of the time.
fn times() -> String {
    let (ticks, count) = (ticks(), host::info(Info::Parallelism));
    let began = (clocks::now(clocks::REALTIME) - clocks::now(clocks::MONOTONIC)) / 1_000_000_000;
    let each: String = (0..count).map(|at| format!("cpu{at} 0 0 0 {ticks} 0 0 0 0 0 0\n")).collect();
    format!(
        "cpu  0 0 0 {} 0 0 0 0 0 0\n{each}btime {began}\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n",
        ticks * count
    )
}

fn uptime() -> String {
    let ticks = ticks();
    let idle = ticks * host::info(Info::Parallelism);
    format!("{}.{:02} {}.{:02}\n", ticks / 100, ticks % 100, idle / 100, idle % 100)
}

/// Bytes of the instance's memory.
fn used() -> u64 {
    let stats = host::memory_stats();
    stats.heap + stats.owned
}

fn pages() -> String {
    let used = used() / PAGE;
    format!("{used} {used} 0 0 0 {used} 0\n")
}

fn numbers() -> String {
    let (ticks, used) = (ticks(), used());
    format!(
        "1 ({}) R 0 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 {} 0 0 {used} {} {} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
        command(),
        threads::count(),
        used / PAGE,
        u64::MAX,
    )
}

fn status() -> String {
    let kib = used() >> 10;
    format!(
        "Name:\t{}\nUmask:\t0000\nState:\tR (running)\nTgid:\t1\nNgid:\t0\nPid:\t1\nPPid:\t0\nTracerPid:\t0\nUid:\t0\t0\t0\t0\n\
         Gid:\t0\t0\t0\t0\nFDSize:\t{MOST}\nGroups:\t\nVmPeak:\t{kib} kB\nVmSize:\t{kib} kB\nVmHWM:\t{kib} kB\nVmRSS:\t{kib} kB\n\
         VmSwap:\t0 kB\nThreads:\t{}\n",
        command(),
        threads::count(),
    )
}
