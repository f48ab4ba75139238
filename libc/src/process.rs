//! The process: numbers, names and limits that never change, randomness, the end, and what is refused.

use crate::errno::{Answer, ECHILD, EFAULT, EINVAL, ENOMEM, ENOSYS, EPERM, ESRCH};
use crate::refuse::{Missing, refuse};
use crate::{clocks, files, header, host, memory, threads};
use core::ffi::{CStr, c_char};
use monohull_abi::number;
use monohull_abi::types::{Info, RANDOM_SHARED};

const SIGABRT: u64 = 6;
/// `getrandom` flag: the bytes are not for keys.
const GRND_INSECURE: u64 = 4;
/// The largest piece of randomness that one hostcall gives.
const RANDOM_AT_ONCE: u64 = 64 << 10;

/// Answers 0: accepted, and nothing here depends on it.
pub(crate) fn zero(_: [u64; 6]) -> Answer {
    0
}

/// The process's number.
pub(crate) fn getpid(_: [u64; 6]) -> Answer {
    threads::MAIN as Answer
}

/// `exit_group(status)`.
pub(crate) fn exit_group([status, ..]: [u64; 6]) -> Answer {
    memory::write_back_all();
    host::exit((status & 0xff) as i32)
}

/// `exit(status)`, of a thread.
pub(crate) fn exit(_: [u64; 6]) -> Answer {
    threads::exit()
}

/// `getrandom(buffer, length, flags)`. With `GRND_INSECURE`, which is for seeds of hash maps, instances of one template may have the bytes in
/// common.
pub(crate) fn getrandom([buffer, len, flags, ..]: [u64; 6]) -> Answer {
    let shared = if flags & GRND_INSECURE != 0 { RANDOM_SHARED } else { 0 };
    let mut done = 0;
    while done < len {
        let part = (len - done).min(RANDOM_AT_ONCE);
        match host::call(number::GETRANDOM, [buffer + done, part, shared]) {
            error @ ..0 => return error,
            read => done += read as u64,
        }
    }
    done as Answer
}

/// `kill(process, signal)`: signal 0 asks whether it is there; `SIGABRT` ends the instance.
pub(crate) fn kill([to, signal, ..]: [u64; 6]) -> Answer {
    send(to == threads::MAIN, signal)
}

/// `tkill(thread, signal)`: whether a thread is there musl knows before it asks.
pub(crate) fn tkill([to, signal, ..]: [u64; 6]) -> Answer {
    send(to as i32 > 0, signal)
}

/// `tgkill(process, thread, signal)`.
pub(crate) fn tgkill([_, to, signal, ..]: [u64; 6]) -> Answer {
    tkill([to, signal, 0, 0, 0, 0])
}

fn send(is_there: bool, signal: u64) -> Answer {
    match signal {
        SIGABRT => {
            memory::write_back_all();
            host::abort("abort() was called")
        }
        0 if is_there => 0,
        0 => ESRCH,
        _ => refuse(Missing::Signal, EPERM),
    }
}

/// `rt_sigprocmask(how, set, old, bytes)`: nothing is ever blocked.
pub(crate) fn rt_sigprocmask([_, _, old, bytes, ..]: [u64; 6]) -> Answer {
    clear(old, bytes)
}

/// `rt_sigaction(signal, new, old, bytes)`: accepted; a handler that is set is never called.
pub(crate) fn rt_sigaction([signal, _, old, ..]: [u64; 6]) -> Answer {
    /// Bytes of the kernel's structure.
    const ACTION: u64 = 32;
    if signal == 0 || signal > 64 { EINVAL } else { clear(old, ACTION) }
}

/// `sigaltstack(new, old)`: accepted, and there is none.
pub(crate) fn sigaltstack([_, old, ..]: [u64; 6]) -> Answer {
    const DISABLED: u32 = 2;
    let cleared = clear(old, 24);
    if old != 0 {
        // SAFETY: the caller's `stack_t`, whose second word are flags.
        unsafe { (old as *mut u8).add(8).cast::<u32>().write_unaligned(DISABLED) };
    }
    cleared
}

/// Zeros at an address, unless it is null.
fn clear(at: u64, bytes: u64) -> Answer {
    if at != 0 {
        // SAFETY: the caller's structure of that many bytes.
        unsafe { (at as *mut u8).write_bytes(0, bytes as usize) };
    }
    0
}

/// `uname(out)`: six names of 65 bytes.
pub(crate) fn uname([out, ..]: [u64; 6]) -> Answer {
    if out == 0 {
        return EFAULT;
    }
    const NAME: usize = 65;
    // 6.1 is the oldest kernel that Monohull runs on, which programs that compare versions may expect of this libc.
    let names = ["Linux", "monohull", "6.1.0", "Monohull", "x86_64", "(none)"];
    for (at, name) in names.iter().enumerate() {
        // SAFETY: the caller's `struct utsname`; each name is shorter than its field.
        unsafe {
            let field = (out as *mut u8).add(at * NAME);
            field.write_bytes(0, NAME);
            field.copy_from_nonoverlapping(name.as_ptr(), name.len());
        }
    }
    0
}

/// `getrlimit(what, out)`: the stack's size; memory; no limit otherwise.
pub(crate) fn getrlimit([what, out, ..]: [u64; 6]) -> Answer {
    prlimit64([0, what, 0, out, 0, 0])
}

/// `prlimit64(process, what, new, old)`: limits are read, and set to what they are.
pub(crate) fn prlimit64([_, what, new, old, ..]: [u64; 6]) -> Answer {
    const STACK: u64 = 3;
    const DESCRIPTORS: u64 = 7;
    const ADDRESS_SPACE: u64 = 9;
    let limit = match what {
        STACK => host::info(Info::StackSize),
        DESCRIPTORS => crate::descriptors::MOST as u64,
        ADDRESS_SPACE => host::info(Info::MemoryLimit),
        _ => u64::MAX,
    };
    // SAFETY: the caller's `struct rlimit`, two words.
    if new != 0 && unsafe { (new as *const [u64; 2]).read_unaligned() } != [limit, limit] {
        return EPERM;
    }
    if old != 0 {
        // SAFETY: the caller's `struct rlimit`, two words.
        unsafe { (old as *mut [u64; 2]).write_unaligned([limit, limit]) };
    }
    0
}

/// `getrusage(whose, out)`: the time since some moment as user time, otherwise zeros.
pub(crate) fn getrusage([_, out, ..]: [u64; 6]) -> Answer {
    if out == 0 {
        return EFAULT;
    }
    clear(out, 144);
    let now = clocks::Timespec::new(clocks::now(clocks::MONOTONIC));
    // SAFETY: the caller's `struct rusage`, which begins with the user time in seconds and microseconds.
    unsafe { (out as *mut [i64; 2]).write_unaligned([now.seconds, now.nanoseconds / 1000]) };
    0
}

/// `times(out)`: the time since some moment, in hundredths of a second, also as user time.
pub(crate) fn times([out, ..]: [u64; 6]) -> Answer {
    const TICK: u64 = 10_000_000;
    let now = clocks::now(clocks::MONOTONIC) / TICK;
    if out != 0 {
        // SAFETY: the caller's `struct tms`: user time and system time, own and of children.
        unsafe { (out as *mut [u64; 4]).write_unaligned([now, 0, 0, 0]) };
    }
    now as Answer
}

/// `sysinfo(out)`: the instance's memory.
pub(crate) fn sysinfo([out, ..]: [u64; 6]) -> Answer {
    if out == 0 {
        return EFAULT;
    }
    let stats = host::memory_stats();
    clear(out, 112);
    let uptime = clocks::now(clocks::MONOTONIC) / 1_000_000_000;
    let free = stats.limit.saturating_sub(stats.heap + stats.owned);
    // SAFETY: the caller's `struct sysinfo`: uptime, three loads, total and free memory; at 104 the bytes of a unit.
    unsafe {
        (out as *mut u64).write_unaligned(uptime);
        (out as *mut u64).add(4).write_unaligned(stats.limit);
        (out as *mut u64).add(5).write_unaligned(free);
        (out as *mut u8).add(104).cast::<u32>().write_unaligned(1);
    }
    0
}

/// `prctl(what, text)`: the name of the calling thread, which is that of the function until it is given another. Other requests are refused.
pub(crate) fn prctl([what, text, ..]: [u64; 6]) -> Answer {
    const GET_DUMPABLE: u64 = 3;
    const SET_NAME: u64 = 15;
    const GET_NAME: u64 = 16;
    match what {
        GET_DUMPABLE => 0,
        SET_NAME | GET_NAME if text == 0 => EFAULT,
        SET_NAME => {
            // SAFETY: the caller's text, which ends with a zero.
            let text = unsafe { CStr::from_ptr(text as *const c_char) };
            header::own().rare_or_new().name.set(Some(thread_name(text.to_bytes())));
            0
        }
        GET_NAME => {
            let name = header::own().rare().and_then(|rare| rare.name.get());
            let name = name.unwrap_or_else(|| thread_name(files::proc::command().as_bytes()));
            // SAFETY: the caller's room for 16 bytes.
            unsafe { (text as *mut [u8; 16]).write_unaligned(name) };
            0
        }
        _ => EINVAL,
    }
}

/// A name as Linux keeps it: the first 15 bytes, and zeros.
fn thread_name(text: &[u8]) -> [u8; 16] {
    let mut name = [0; 16];
    let length = text.len().min(name.len() - 1);
    name[..length].copy_from_slice(&text[..length]);
    name
}

/// `fork`, `vfork`, `clone`, `clone3`.
pub(crate) fn fork(_: [u64; 6]) -> Answer {
    refuse(Missing::Fork, ENOSYS)
}

/// `execve`, `execveat`.
pub(crate) fn exec(_: [u64; 6]) -> Answer {
    refuse(Missing::Exec, ENOSYS)
}

/// `wait4`, `waitid`: there are no children.
pub(crate) fn wait(_: [u64; 6]) -> Answer {
    ECHILD
}

/// `io_uring_setup` and its kin.
pub(crate) fn io_uring(_: [u64; 6]) -> Answer {
    refuse(Missing::IoUring, ENOSYS)
}

/// `inotify_init1` and its kin.
pub(crate) fn watch(_: [u64; 6]) -> Answer {
    refuse(Missing::Watch, ENOSYS)
}

/// `timer_create`, `setitimer`, `alarm`.
pub(crate) fn timer(_: [u64; 6]) -> Answer {
    refuse(Missing::Timer, ENOSYS)
}

/// `pause`, `rt_sigsuspend`: no signal ends it.
pub(crate) fn pause(_: [u64; 6]) -> Answer {
    let never = core::sync::atomic::AtomicU32::new(0);
    loop {
        crate::futex::wait(&never, 0, u64::MAX);
    }
}

/// Calls that answer "not here" without a line: libraries try them and go on without.
pub(crate) fn not_here(_: [u64; 6]) -> Answer {
    ENOSYS
}

/// `sync()`: every file that is open for writing.
pub(crate) fn sync(_: [u64; 6]) -> Answer {
    files::sync_all()
}

/// Calls that would need rights.
pub(crate) fn not_permitted(_: [u64; 6]) -> Answer {
    EPERM
}

/// Calls that lock memory: all of it is the domain's.
pub(crate) fn no_memory(_: [u64; 6]) -> Answer {
    ENOMEM
}
