//! Hostcalls where there is no domain: in unit tests, this crate's own and those of a function crate, which run on the host.
//!
//! ```text
//!   monohull build   panic = "abort"    an image: hostcalls leave through the gate
//!   cargo test       panic = "unwind"   a program of the host: what is here stands in for them
//! ```
//!
//! What a program does with itself is there: memory, threads, locks, clocks, randomness, its output. What a workflow gives (arguments,
//! files, networks, slots) is not, and its calls fail.

use core::arch::x86_64::__cpuid_count;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use host_std::collections::HashMap;
use host_std::io::{Read, Write};
use host_std::sync::{Mutex, OnceLock, PoisonError};
use host_std::thread::{self, JoinHandle};
use host_std::time::{Duration, Instant, SystemTime};
use monohull_abi::errno::Errno;
use monohull_abi::number;
use monohull_abi::types::{CPUID_FIRST, CPUID_LEAVES, Info, InfoString};

/// What a call that fails says about it.
const WHY: &str = "it is not there in a unit test, which runs on the host: call it in a workflow";

/// Answers a hostcall.
#[allow(unsafe_code, reason = "callers pass addresses as numbers, as hostcalls do")]
pub(crate) fn hostcall(number: u32, args: [u64; 6]) -> i64 {
    // SAFETY: the functions of `sys` pass the address and length of a slice that they have borrowed, uniquely if it is written to.
    let (bytes, buffer) = (
        |at: usize| unsafe { core::slice::from_raw_parts(args[at] as *const u8, args[at + 1] as usize) },
        |at: usize| unsafe { core::slice::from_raw_parts_mut(args[at] as *mut u8, args[at + 1] as usize) },
    );
    let done = match number {
        number::EXIT => host_std::process::exit(args[0] as i32),
        number::ABORT => panic!("{}", crate::string::String::from_utf8_lossy(bytes(1))),
        number::THREAD_JOIN => join(args[0]),
        number::THREAD_YIELD => {
            thread::yield_now();
            Ok(0)
        }
        // SAFETY: `sys::futex_wait` passes the address of a word that it borrows.
        number::FUTEX_WAIT => wait(unsafe { &*(args[0] as *const AtomicU32) }, args[1] as u32, args[2]),
        // Waiting threads look again by themselves.
        number::FUTEX_WAKE => Ok(0),
        number::GET_INFO => Ok(info(args[0])),
        number::GET_STRING_LEN => Ok(info_string(args[0]).len() as u64),
        number::GET_STRING => {
            let text = info_string(args[0]).as_bytes();
            let to = buffer(1);
            let len = text.len().min(to.len());
            to[..len].copy_from_slice(&text[..len]);
            Ok(len as u64)
        }
        number::LAST_ERROR_MESSAGE => {
            let to = buffer(0);
            let len = WHY.len().min(to.len());
            to[..len].copy_from_slice(&WHY.as_bytes()[..len]);
            Ok(len as u64)
        }
        number::GETRANDOM => random(buffer(0)),
        number::HEAP_GROW => Ok(grow(args[0] as usize)),
        number::STDIO_WRITE => write(args[0], bytes(1)),
        number::STDIO_FLUSH => Ok(0),
        number::CLOCK_GETTIME => Ok(clock(args[0])),
        number::NANOSLEEP => {
            thread::sleep(Duration::from_nanos(args[0]));
            Ok(0)
        }
        _ => Err(Errno::NotSupported),
    };
    done.map_or_else(Errno::to_value, |value| value as i64)
}

/// The threads that have not been joined.
fn threads() -> host_std::sync::MutexGuard<'static, HashMap<u64, JoinHandle<()>>> {
    static THREADS: OnceLock<Mutex<HashMap<u64, JoinHandle<()>>>> = OnceLock::new();
    THREADS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread of the host; returns its number.
pub(crate) fn spawn(body: impl FnOnce() + Send + 'static) -> Result<u64, Errno> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let thread = thread::Builder::new().spawn(body).map_err(|_| Errno::TooMany)?;
    threads().insert(number, thread);
    Ok(number)
}

fn join(number: u64) -> Result<u64, Errno> {
    let thread = threads().remove(&number).ok_or(Errno::Invalid)?;
    // A thread that has panicked has printed why, and has left no result.
    let _ = thread.join();
    Ok(0)
}

/// Looks at the word until it differs. A wake-up without a change is allowed, and is the only way to see one that was meant so.
fn wait(word: &AtomicU32, expected: u32, timeout: u64) -> Result<u64, Errno> {
    let start = Instant::now();
    while word.load(Ordering::SeqCst) == expected {
        if start.elapsed().as_nanos() as u64 >= timeout {
            return Err(Errno::TimedOut);
        }
        thread::yield_now();
        if start.elapsed().as_micros() > 200 && timeout == u64::MAX {
            break;
        }
    }
    Ok(0)
}

/// Numbers of an instance that is alone.
fn info(what: u64) -> u64 {
    if let Some(index) = what.checked_sub(CPUID_FIRST) {
        return cpuid(CPUID_LEAVES[index as usize / 4])[index as usize % 4].into();
    }
    match Info::from_raw(what) {
        Some(Info::InstanceCount | Info::Attempt) => 1,
        Some(Info::Parallelism) => thread::available_parallelism().map_or(1, |count| count.get() as u64),
        Some(Info::StackSize | Info::MemoryLimit) => u64::MAX,
        _ => 0,
    }
}

/// What the processor has; zeros for a leaf that there is not.
#[allow(unsafe_code, reason = "the processor is asked by an instruction")]
fn cpuid((leaf, subleaf): (u32, u32)) -> [u32; 4] {
    #[allow(unused_unsafe, reason = "it is safe in newer compilers")]
    // SAFETY: every processor of this architecture has the instruction.
    let ask = |leaf, subleaf| unsafe { __cpuid_count(leaf, subleaf) };
    if leaf > ask(leaf & 0x8000_0000, 0).eax || leaf == 7 && subleaf > ask(7, 0).eax {
        return [0; 4];
    }
    let said = ask(leaf, subleaf);
    [said.eax, said.ebx, said.ecx, said.edx]
}

/// Texts of an instance without arguments.
fn info_string(what: u64) -> &'static str {
    match InfoString::from_raw(what) {
        Some(InfoString::Args | InfoString::Env) => "{}",
        Some(InfoString::Function | InfoString::Step | InfoString::Workflow) => "test",
        _ => "",
    }
}

fn random(buffer: &mut [u8]) -> Result<u64, Errno> {
    let source = host_std::fs::File::open("/dev/urandom");
    source.and_then(|mut source| source.read_exact(buffer)).map(|()| buffer.len() as u64).map_err(|_| Errno::Io)
}

#[allow(unsafe_code, reason = "memory is asked for by its layout")]
fn grow(bytes: usize) -> u64 {
    let layout = host_std::alloc::Layout::from_size_align(bytes, 4096).expect("whole pages");
    // SAFETY: the layout is not empty; the memory is never given back, as with the real call.
    (unsafe { host_std::alloc::alloc_zeroed(layout) }) as u64
}

/// Through the macros, because the harness of tests catches what they print.
fn write(stream: u64, bytes: &[u8]) -> Result<u64, Errno> {
    let text = crate::string::String::from_utf8_lossy(bytes);
    match stream {
        1 => host_std::print!("{text}"),
        _ => host_std::eprint!("{text}"),
    }
    let flushed = if stream == 1 { host_std::io::stdout().flush() } else { Ok(()) };
    flushed.map(|()| bytes.len() as u64).map_err(|_| Errno::Io)
}

fn clock(which: u64) -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    match which {
        0 => START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1_000_000_000,
        _ => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64),
    }
}
