//! What functions that have returned have left on the stack.
//!
//! ```text
//! | lowest            …             | below the caller, NEAR bytes |  caller, and what called it
//!   pages are given back              written to                     untouched
//! ```

use monohull_abi::layout::{page_down, page_up};
use std::hint::black_box;
use std::io;
use std::mem::MaybeUninit;

/// So much below the caller is written to: a page that is given back costs a fault when it is used again.
const NEAR: usize = 32 << 10;

/// The bounds of the calling thread's stack, asked for once: the C library reads them from a file.
#[derive(Clone, Copy, Debug)]
pub struct StackBounds {
    lowest: u64,
}

impl StackBounds {
    /// The bounds of the calling thread's stack. They hold in forks of it too.
    pub fn of_this_thread() -> io::Result<StackBounds> {
        let mut attributes = MaybeUninit::uninit();
        let mut lowest = std::ptr::null_mut();
        let mut size = 0;
        // SAFETY: pthread_getattr_np(3) fills the attributes, which are read and destroyed once; the other two are locals.
        let status = unsafe {
            match libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) {
                0 => {
                    let status = libc::pthread_attr_getstack(attributes.as_ptr(), &mut lowest, &mut size);
                    libc::pthread_attr_destroy(attributes.as_mut_ptr());
                    status
                }
                status => status,
            }
        };
        let here = std::ptr::from_ref(&status) as u64;
        match status {
            0 if (lowest as u64..lowest as u64 + size as u64).contains(&here) => {
                Ok(StackBounds { lowest: page_up(lowest as u64) })
            }
            0 => Err(io::ErrorKind::InvalidData.into()),
            status => Err(io::Error::from_raw_os_error(status)),
        }
    }

    /// Wipes all of the stack below the caller: its callees have returned. To be called on the thread whose bounds these are, or in
    /// a fork of it.
    #[inline(always)]
    pub fn wipe_below(&self) -> io::Result<()> {
        // Called by the caller itself: what lies where a frame in between would be is wiped too.
        let near = wipe_near();
        self.give_back(near)
    }

    /// Gives the pages back below the one in which what [`wipe_near`] has written to begins, at `near`, and wipes the rest of that page:
    /// one that was written to and then given back would cost a fault each time.
    #[inline(never)]
    fn give_back(&self, near: u64) -> io::Result<()> {
        let page = page_down(near).max(self.lowest);
        // SAFETY: memory of this stack, far below the frame of this function, which has no callees besides the two calls.
        unsafe { libc::explicit_bzero(page as *mut _, (near - page) as usize) };
        // SAFETY: madvise(2): pages below that; there is nothing but this stack between them. What the stack has not grown to is not
        // mapped, which the kernel reports at the end.
        match unsafe { libc::madvise(self.lowest as *mut _, (page - self.lowest) as usize, libc::MADV_DONTNEED) } {
            0 => Ok(()),
            _ => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::ENOMEM) => Ok(()),
                error => Err(error),
            },
        }
    }
}

/// Wipes the stack closely below the caller; the lowest address that was wiped. Enough for a thread that ends: the C library gives the
/// rest back.
#[inline(never)]
pub fn wipe_near() -> u64 {
    let mut room = MaybeUninit::<[u8; NEAR]>::uninit();
    // SAFETY: the array is this function's own. The compiler does not leave the call out.
    unsafe { libc::explicit_bzero(room.as_mut_ptr().cast(), NEAR) };
    black_box(&room).as_ptr() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: u8 = 0xb6;

    /// Leaves something so deep below its caller; where.
    #[inline(never)]
    fn leave<const DEEP: usize>() -> (usize, usize) {
        let mut marks = [0u8; DEEP];
        marks.fill(MARK);
        (black_box(&marks).as_ptr() as usize, DEEP)
    }

    /// How many marks there are.
    #[inline(never)]
    fn count((start, len): (usize, usize)) -> usize {
        // SAFETY: memory of this thread's stack, which stays mapped; this function writes to little of it.
        (start..start + len).filter(|at| unsafe { (*at as *const u8).read_volatile() } == MARK).count()
    }

    #[test]
    fn nothing_of_functions_that_have_returned_is_left() {
        std::thread::spawn(|| {
            let bounds = StackBounds::of_this_thread().expect("bounds");
            let deep = leave::<400_000>();
            assert!(count(deep) > 300_000, "otherwise this shows nothing");
            bounds.wipe_below().expect("wiped");
            // Some words of the frame of the function that wipes may be left.
            assert!(count(deep) < 64, "{}", count(deep));
            let near = leave::<8_000>();
            assert!(count(near) > 4_000, "otherwise this shows nothing");
            wipe_near();
            assert!(count(near) < 64, "{}", count(near));
        })
        .join()
        .expect("it ends");
    }

    /// The faults of this thread so far that took no disk.
    fn faults() -> i64 {
        // SAFETY: plain data, which getrusage(2) fills.
        unsafe {
            let mut usage = std::mem::zeroed::<libc::rusage>();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
            usage.ru_minflt
        }
    }

    #[test]
    fn what_is_used_and_wiped_again_and_again_is_not_missing_each_time() {
        std::thread::spawn(|| {
            let bounds = StackBounds::of_this_thread().expect("bounds");
            let round = || {
                let before = faults();
                black_box(leave::<20_000>());
                bounds.wipe_below().expect("wiped");
                faults() - before
            };
            round();
            // The kernel may take a page at any time, but not each time.
            assert_eq!((0..10).map(|_| round()).min(), Some(0));
        })
        .join()
        .expect("it ends");
    }
}
