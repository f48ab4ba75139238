//! The cookie that permits the system calls of a spawner.
//!
//! A spawner makes a dozen system calls that its workers may not make. A filter is inherited with everything it allows, and for
//! each worker to install a stricter one takes the kernel longer than a small workflow runs. So the one filter of both
//! (`worker::sandbox::seccomp`) allows these calls only with a cookie: a random number in the sixth argument, which none of the
//! calls has and the kernel ignores.
//!
//! ```text
//! spawner     generate ─ filter in force ─ fork …                           has the cookie until it ends
//! worker                                    └─ set up ─ revoke ─ job
//! ```
//!
//! A worker gives up the cookie's page before it receives a job. Nothing else holds a copy: the cookie goes from its page into
//! one register and is cleared there, and the list that the kernel was given is overwritten. There is one attempt to guess it,
//! for a call with a wrong cookie ends the process.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Where the cookie lies; what stands for it where there is none. Either stays readable as long as the process exists.
static PLACE: AtomicPtr<u64> = AtomicPtr::new((&raw const NONE).cast_mut());
static NONE: u64 = 0;
/// What the cookie's mapping takes.
const ROOM: usize = 4096;

/// Generates the cookie of this process and all it forks. A process has one.
pub fn generate() -> io::Result<()> {
    // SAFETY: mmap(2), getrandom(2): a new mapping, of which eight bytes are filled.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let room = libc::mmap(std::ptr::null_mut(), ROOM, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if room == libc::MAP_FAILED || libc::getrandom(room, size_of::<u64>(), 0) != size_of::<u64>() as isize {
            return Err(io::Error::last_os_error());
        }
        PLACE.store(room.cast(), Ordering::Relaxed);
    }
    Ok(())
}

/// Removes the cookie from this process: from here on it may make the calls of a worker only.
pub fn revoke() {
    let place = PLACE.load(Ordering::Relaxed);
    if !std::ptr::eq(place, &raw const NONE) {
        // SAFETY: madvise(2): the mapping is `generate`'s and stays there, filled with zeros. The kernel refuses this advice
        // for locked pages, which are overwritten instead.
        unsafe {
            if libc::madvise(place.cast(), ROOM, libc::MADV_DONTNEED) != 0 {
                place.write_volatile(0);
            }
        }
    }
}

/// Puts the cookie's halves, the lower one first, where the list has `placeholder`. The caller overwrites them again with
/// [`scrub`].
pub fn patch<'l>(list: impl Iterator<Item = &'l mut u32>, placeholder: [u32; 2]) {
    let cookie = PLACE.load(Ordering::Relaxed).cast::<u32>();
    for entry in list {
        for (half, other) in placeholder.iter().enumerate() {
            if entry == other {
                // SAFETY: the cookie, or what stands for it, is two such halves, and its mapping stays.
                *entry = unsafe { cookie.add(half).read_volatile() };
                break;
            }
        }
    }
}

/// Overwrites a list.
pub fn scrub<'l>(list: impl Iterator<Item = &'l mut u32>) {
    for entry in list {
        // SAFETY: a reference is as good as a pointer; the compiler keeps a volatile write.
        unsafe { NonNull::from(entry).write_volatile(0) };
    }
}

/// Makes a system call with the cookie.
///
/// # Safety
/// As for the call.
pub(crate) unsafe fn call(number: i64, arguments: [usize; 4]) -> io::Result<usize> {
    let [first, second, third, fourth] = arguments;
    let status: isize;
    // SAFETY: syscall(2): the kernel keeps all registers but those named here. `PLACE` is readable. The cookie is in none of
    // the registers afterwards. The rest is the caller's promise.
    unsafe {
        std::arch::asm!(
            "mov r9, [r9]",
            "syscall",
            "xor r9d, r9d",
            inlateout("rax") number as isize => status,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") 0,
            inlateout("r9") PLACE.load(Ordering::Relaxed) => _,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    if status < 0 { Err(io::Error::from_raw_os_error(-status as i32)) } else { Ok(status as usize) }
}

/// The flags of a fork with the cookie.
pub const FORK: i32 = libc::SIGCHLD | libc::CLONE_PIDFD;

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    /// Readable and writable memory, as the kernel lists it.
    fn memory() -> Vec<std::ops::Range<usize>> {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the kernel's list");
        let own = maps.lines().filter(|line| line.contains(" rw") && !line.contains("[v"));
        own.filter_map(|line| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
        })
        .collect()
    }

    /// Whether a value lies anywhere but at these places. It is given inverted, so that it is not on the stack.
    fn is_in(memory: &[std::ops::Range<usize>], inverted: u32) -> bool {
        memory.iter().any(|range| {
            // SAFETY: the pages are readable; a value that another thread writes meanwhile is as good as the one before.
            range.clone().step_by(4).any(|at| unsafe { (at as *const u32).read_volatile() } ^ inverted == u32::MAX)
        })
    }

    /// Each time another cookie is generated, so that a number that is there by chance is not there again.
    #[test]
    fn a_revoked_cookie_is_nowhere_in_memory() {
        let ended: Vec<i32> = (0..3).map(|_| revoke_in_a_child()).collect();
        assert!(ended.iter().all(|status| [0, FOUND].contains(status)), "{ended:?}");
        assert!(ended.contains(&0), "half of the cookie is found each time: {ended:?}");
    }

    /// The status of a child in which half of the cookie is found after it was revoked.
    const FOUND: i32 = 3;

    /// The status of a child that generates a cookie, uses and revokes it: 0, [`FOUND`], or that of a step that failed.
    fn revoke_in_a_child() -> i32 {
        const PLACEHOLDER: [u32; 2] = [0x1234_5678, 0x9abc_def0];
        // SAFETY: the child makes system calls and reads memory, and takes no lock but the allocator's.
        match unsafe { fork() }.expect("a process") {
            ForkResult::Child => {
                // SAFETY: ends the process.
                let leave = |status| unsafe { libc::_exit(status) };
                if generate().is_err() {
                    leave(1);
                }
                let mut list = [1, PLACEHOLDER[1], PLACEHOLDER[0], 2];
                patch(list.iter_mut(), PLACEHOLDER);
                let inverted = [!list[2], !list[1]];
                let before = memory();
                // The positive control: it is there.
                if !inverted.iter().all(|half| is_in(&before, *half)) {
                    leave(2);
                }
                scrub(list.iter_mut());
                // SAFETY: has no preconditions.
                if unsafe { call(libc::SYS_getppid, [0; 4]) }.is_err() {
                    leave(4);
                }
                revoke();
                let after = memory();
                leave(if inverted.iter().any(|half| is_in(&after, *half)) { FOUND } else { 0 })
            }
            ForkResult::Parent { child } => match waitpid(child, None).expect("a child") {
                WaitStatus::Exited(_, status) => status,
                other => panic!("{other:?}"),
            },
        }
    }
}
