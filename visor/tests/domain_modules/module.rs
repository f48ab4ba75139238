//! A libos module called `time`, right or wrong in one way, which the test chooses by `--cfg`. Compiled by the test,
//! with nothing but the contract.
#![no_std]

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use monohull_abi::ABI_VERSION;
use monohull_abi::module::{Call, Ending, Host, Layout, MAGIC, ModuleEntry, ModuleTable, Outcome, Released};
use monohull_abi::record::Records;
use monohull_abi::number::{CLOCK_GETTIME, NANOSLEEP};

/// Calls of [`ended`].
static STEPS: AtomicU32 = AtomicU32::new(0);

static HOST: AtomicPtr<Host> = AtomicPtr::new(core::ptr::null_mut());

fn panic_with(words: &str) -> ! {
    // SAFETY: the visor's services outlive the module's state.
    unsafe { ((*HOST.load(Ordering::Relaxed)).panicked)(words.as_ptr(), words.len()) }
}

/// A system call, as any code could make one: its number and five arguments, of which this one stands for a path.
fn system_call(mut args: [u64; 6]) -> i64 {
    const PATH: u64 = 0x7061_7468;
    /// A guess at the cookie of the spawner's calls: the placeholder in the list (`worker::sandbox::seccomp`).
    const WORD: u64 = 0x5e1f_01d0_c0de_d00d;
    args.iter_mut().filter(|arg| **arg == PATH).for_each(|arg| *arg = c"/proc/version".as_ptr() as u64);
    let value: i64;
    // SAFETY: the test chooses calls that leave this process's memory alone, or end it.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") args[0] => value,
            in("rdi") args[1], in("rsi") args[2], in("rdx") args[3], in("r10") args[4], in("r8") args[5], in("r9") WORD,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    value
}

const CLOCK_MONOTONIC: u64 = 1;

/// Makes timers until there are no more to be had, and keeps them for some seconds.
fn take_timers() {
    const TIMER_CREATE: u64 = 222;
    let mut timer = 0i32;
    while system_call([TIMER_CREATE, CLOCK_MONOTONIC, 0, &raw mut timer as u64, 0, 0]) == 0 {}
    pause([5, 0]);
}

/// Keeps its thread for so many seconds and nanoseconds.
fn pause(mut time: [u64; 2]) {
    const CLOCK_NANOSLEEP: u64 = 230;
    let left = time.as_mut_ptr() as u64;
    // The end of a slice of time interrupts it.
    while system_call([CLOCK_NANOSLEEP, CLOCK_MONOTONIC, 0, left, left, 0]) != 0 {}
}

/// Says something to the supervisor, on the worker's link: one packet.
fn say(packet: &[u8]) -> i64 {
    const SENDMSG: u64 = 46;
    const LINK: u64 = 3;
    let part = [packet.as_ptr() as u64, packet.len() as u64];
    let message = [0, 0, part.as_ptr() as u64, 1, 0, 0, 0u64];
    system_call([SENDMSG, LINK, message.as_ptr() as u64, 0, 0, 0])
}

/// Moments without an end. Names come again and again, which costs the supervisor more than it costs us.
fn say_moments() -> ! {
    let mut packet = *b"\x01\x00\x02\x00\x03abc\x00";
    for number in (0..1000u32).cycle() {
        for digit in 0..3 {
            packet[5 + digit] = b'a' + (number >> (4 * digit) & 15) as u8;
        }
        say(&packet);
    }
    unreachable!()
}

/// Moments with names of 30 000 bytes, each another one.
fn say_long_moments() {
    const HEAD: &[u8] = b"\x01\x00\x02\x00\xb0\xea\x01";
    // Behind the name: when it was.
    let mut packet = [b'x'; HEAD.len() + 30_000 + 1];
    packet[..HEAD.len()].copy_from_slice(HEAD);
    packet[HEAD.len() + 30_000] = 0;
    for number in 0..2000u32 {
        for digit in 0..8 {
            packet[HEAD.len() + digit] = b'a' + (number >> (4 * digit) & 15) as u8;
        }
        say(&packet);
    }
}

/// Lines of 30 000 bytes, and moments with short names, each another one: more than a server keeps of either.
fn say_many_lines_and_moments() {
    // Its step, its instance, its stream, the length of its text.
    const LINE: &[u8] = b"\x01\x00\x02\x01\x04main\x00\x00\xb0\xea\x01";
    let mut moment = *b"\x01\x00\x02\x00\x04abcd\x00";
    let mut line = [b'x'; LINE.len() + 30_000];
    line[..LINE.len()].copy_from_slice(LINE);
    for number in 0..3000u32 {
        for digit in 0..4 {
            moment[5 + digit] = b'a' + (number >> (4 * digit) & 15) as u8;
        }
        say(&moment);
    }
    for _ in 0..200 {
        say(&line);
    }
}

const MEMFD_CREATE: u64 = 319;
/// The most files of a packet (`SCM_MAX_FD`).
const AT_ONCE: usize = 253;

/// A report of 24 MiB that says that eight million modules without a name were loaded, in memory as long messages are.
fn say_long_report() {
    const HEAD: &[u8] = br#"{"workflow":"w","status":"done","isolation":"process","cold_start_us":0,"duration_us":0,"steps":[],"output":{},"error":null,"modules":["""#;
    const NAME: &[u8; 3] = b",\"\"";
    const TAIL: &[u8] = b"]}";
    const SIZE: usize = 24 << 20;
    const PWRITE: u64 = 18;
    const FCNTL: u64 = 72;
    let file = system_call([MEMFD_CREATE, c"report".as_ptr() as u64, 3, 0, 0, 0]) as u64;
    let mut at = 0u64;
    let mut write = |bytes: &[u8]| at += system_call([PWRITE, file, bytes.as_ptr() as u64, bytes.len() as u64, at, 0]) as u64;
    let names = (SIZE - HEAD.len() - TAIL.len()) / NAME.len() / 1000;
    let len = HEAD.len() + names * 1000 * NAME.len() + TAIL.len();
    // Ended, the report's length in groups of seven bits, the report, no outputs, no events for others.
    let group = |index: usize| (len >> (7 * index)) as u8 & 0x7f | if index < 3 { 0x80 } else { 0 };
    write(&[3, group(0), group(1), group(2), group(3)]);
    write(HEAD);
    let mut thousand = [0; 1000 * NAME.len()];
    thousand.chunks_exact_mut(NAME.len()).for_each(|place| place.copy_from_slice(NAME));
    (0..names).for_each(|_| write(&thousand));
    write(TAIL);
    write(&[0, 0]);
    // All four seals.
    system_call([FCNTL, file, 1033, 15, 0, 0]);
    // Other processes of this user may have as many descriptors on their way as the kernel lets it have.
    const ETOOMANYREFS: i64 = 109;
    while send_with(b"\x01\x01", file, 1) == -ETOOMANYREFS {}
}

/// The answer of a workflow that is done, after which its process computes for ever instead of resetting itself.
fn answer_and_go_on() -> ! {
    const REPORT: &[u8] = br#"{"workflow":"w","status":"done","isolation":"process","cold_start_us":0,"duration_us":0,"steps":[],"modules":[],"output":{},"error":null}"#;
    // Ended, the report's length in groups of seven bits, the report, no outputs, no events for others.
    const HEAD: [u8; 5] = [1, 0, 3, REPORT.len() as u8 | 0x80, (REPORT.len() >> 7) as u8];
    let mut packet = [0; HEAD.len() + REPORT.len() + 2];
    packet[..HEAD.len()].copy_from_slice(&HEAD);
    packet[HEAD.len()..][..REPORT.len()].copy_from_slice(REPORT);
    say(&packet);
    loop {
        core::hint::spin_loop();
    }
}

/// Sends a packet with a file attached, so many times. The kernel's answer.
fn send_with(packet: &[u8], file: u64, times: usize) -> i64 {
    const SENDMSG: u64 = 46;
    let part = [packet.as_ptr() as u64, packet.len() as u64];
    // `struct cmsghdr`: length, SOL_SOCKET and SCM_RIGHTS, the file again and again, four bytes each.
    let mut rights = [file | file << 32; 2 + AT_ONCE.div_ceil(2)];
    let len = 16 + 4 * times as u64;
    rights[..2].copy_from_slice(&[len, 1 | 1 << 32]);
    let message = [0, 0, part.as_ptr() as u64, 1, rights.as_ptr() as u64, len.next_multiple_of(8), 0u64];
    system_call([SENDMSG, 3, message.as_ptr() as u64, 0, 0, 0])
}

/// Puts as many descriptors on their way to the supervisor as the kernel lets this process, while that reads the report.
fn crowd() {
    let file = system_call([MEMFD_CREATE, c"crowd".as_ptr() as u64, 1, 0, 0, 0]) as u64;
    (0..40).for_each(|_| _ = send_with(b"words", file, AT_ONCE));
}

unsafe extern "C" fn clock(_: *mut c_void, call: *mut Call) -> Outcome {
    if cfg!(makes_system_calls) {
        // SAFETY: the call is the caller's, and stays while it is served.
        return Outcome::ready(system_call(unsafe { (*call).args }));
    }
    if cfg!(speaks_for_itself) {
        // SAFETY: as above.
        match unsafe { (*call).args[0] } {
            0 => say_moments(),
            1 => say_long_moments(),
            2 => say_many_lines_and_moments(),
            3 => say_long_report(),
            5 => answer_and_go_on(),
            _ => {
                say_long_report();
                crowd();
            }
        }
    }
    if cfg!(takes_timers) {
        take_timers();
    }
    if cfg!(panics) {
        panic_with("the clock fell off the wall");
    }
    Outcome::ready(42)
}

unsafe extern "C" fn sleep(_: *mut c_void, call: *mut Call) -> Outcome {
    const SECOND: u64 = 1_000_000_000;
    if cfg!(speaks_for_itself) {
        // SAFETY: the call is the caller's, and stays while it is served.
        let time = unsafe { (*call).args[0] };
        pause([time / SECOND, time % SECOND]);
    }
    Outcome::ready(0)
}

unsafe extern "C" fn start(host: *const Host) -> *mut c_void {
    HOST.store(host.cast_mut(), Ordering::Relaxed);
    if cfg!(panics_at_start) {
        panic_with("no springs");
    }
    if cfg!(makes_no_state) {
        return core::ptr::null_mut();
    }
    HOST.as_ptr().cast()
}

unsafe extern "C" fn stop(_: *mut c_void) {
}

unsafe extern "C" fn ended(_: *mut c_void, _: u32, _: Ending) -> Released {
    if cfg!(panics_at_end) {
        panic_with("it cannot let go");
    }
    if cfg!(panics_in_a_later_step) {
        if STEPS.fetch_add(1, Ordering::Relaxed) == 10 {
            panic_with("it cannot let go of the rest");
        }
        return Released::More;
    }
    Released::InputsIntact
}

unsafe extern "C" fn poll(_: *mut c_void) {}

unsafe extern "C" fn save(_: *mut c_void, _: *const Records) -> u32 {
    0
}

unsafe extern "C" fn restore(_: *mut c_void, _: *const Records, _: *const u8, _: usize) -> u32 {
    0
}

static ENTRIES: [ModuleEntry; 2] = [
    ModuleEntry { number: CLOCK_GETTIME, handler: clock },
    ModuleEntry { number: if cfg!(foreign_number) { monohull_abi::number::EXIT } else { NANOSLEEP }, handler: sleep },
];

/// The table.
#[cfg_attr(not(exports_nothing), unsafe(export_name = "MONOHULL_MODULE"))]
pub static TABLE: ModuleTable = ModuleTable {
    magic: if cfg!(no_magic) { 1 } else { MAGIC },
    abi_version: if cfg!(other_version) { ABI_VERSION + 1 } else { ABI_VERSION },
    layout: Layout {
        host: Layout::HERE.host + if cfg!(other_sizes) { 8 } else { 0 },
        services: Layout::HERE.services ^ if cfg!(other_services) { 1 } else { 0 },
        ..Layout::HERE
    },
    name: *if cfg!(other_name) { b"stdio\0\0\0\0\0\0\0\0\0\0\0" } else { b"time\0\0\0\0\0\0\0\0\0\0\0\0" },
    entry_count: if cfg!(serves_less) { 1 } else { 2 },
    entries: ENTRIES.as_ptr(),
    start,
    stop,
    ended,
    poll,
    save,
    restore,
};

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    panic_with("an ordinary panic")
}
