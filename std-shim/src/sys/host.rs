//! The few hostcalls that this crate's tests need, on the host: futexes that poll, clocks, randomness.
//! Threads are the host's; the tests start them themselves.

use core::sync::atomic::{AtomicU32, Ordering};
use host_std::time::{Instant, SystemTime};
use monohull_abi::errno::Errno;
use monohull_abi::number;

#[allow(unsafe_code, reason = "the tests pass addresses as numbers, as hostcalls do")]
pub(crate) fn hostcall(number: u32, args: [u64; 6]) -> i64 {
    match number {
        number::FUTEX_WAIT => {
            // SAFETY: `sys::futex_wait` passes the address of a word it borrows.
            let word = unsafe { &*(args[0] as *const AtomicU32) };
            let start = Instant::now();
            while word.load(Ordering::SeqCst) == args[1] as u32 {
                if start.elapsed().as_nanos() as u64 >= args[2] {
                    return Errno::TimedOut.to_value();
                }
                host_std::thread::yield_now();
                // A wake-up without a change of the word is allowed, and here the only way to see one.
                if start.elapsed().as_micros() > 200 && args[2] == u64::MAX {
                    return 0;
                }
            }
            0
        }
        number::CLOCK_GETTIME if args[0] == 0 => {
            static START: host_std::sync::OnceLock<Instant> = host_std::sync::OnceLock::new();
            START.get_or_init(Instant::now).elapsed().as_nanos() as i64 + 1_000_000_000
        }
        number::CLOCK_GETTIME => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as i64,
        number::GETRANDOM => args[1] as i64,
        number::HEAP_GROW => {
            let layout = host_std::alloc::Layout::from_size_align(args[0] as usize, 4096).unwrap();
            // SAFETY: the layout is not empty; the memory is never given back, as with the real call.
            (unsafe { host_std::alloc::alloc_zeroed(layout) }) as i64
        }
        _ => 0,
    }
}
