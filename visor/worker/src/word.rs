//! The word by which the system calls of a spawner are known.
//!
//! What a spawner may do and its workers may not is a dozen system calls. A filter is inherited with everything it allows, and for
//! each worker to put a stricter one in force takes the kernel longer than a small workflow runs. So the family's one filter
//! (`process::sandbox::calls`) allows these calls to those who say a word: a random number, in the sixth argument, which
//! none of the calls has and the kernel passes over.
//!
//! ```text
//! spawner     chooses the word ─ filter in force ─ fork …                         has it until it ends
//! worker                                             first steps ─ forgets it ─ job
//! ```
//!
//! A worker gives the word's page up before it hears of a job. Nothing else holds a copy: the word goes from its page into
//! one register and is cleared there, and the list that was given to the kernel is overwritten. To guess it is one attempt, for a
//! call with a wrong word ends the process.

use nix::unistd::Pid;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Where the word lies; what stands for it where there is none.
static PLACE: AtomicPtr<u64> = AtomicPtr::new((&raw const NONE).cast_mut());
static NONE: u64 = 0;
/// What the word's mapping takes.
const ROOM: usize = 4096;

/// Chooses the word of this process and all it forks. There is one family in a process.
pub(super) fn choose() -> io::Result<()> {
    // SAFETY: a new mapping, of which eight bytes are filled.
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

/// Forgets the word: from here on this process is like any other of its family.
pub(super) fn forget() {
    let place = PLACE.swap((&raw const NONE).cast_mut(), Ordering::Relaxed);
    if !std::ptr::eq(place, &raw const NONE) {
        // SAFETY: the mapping was made by `choose`, and nobody knows of it any more.
        unsafe { libc::munmap(place.cast(), ROOM) };
    }
}

/// Puts the word's halves, the lower one first, where the list has what stands for them. Whoever does so overwrites them
/// again with [`erase`].
pub(super) fn insert<'l>(list: impl Iterator<Item = &'l mut u32>, stands_for: [u32; 2]) {
    let word = PLACE.load(Ordering::Relaxed).cast::<u32>();
    for place in list {
        for (half, other) in stands_for.iter().enumerate() {
            if place == other {
                // SAFETY: the word, or what stands for it, is two such halves.
                *place = unsafe { word.add(half).read_volatile() };
                break;
            }
        }
    }
}

/// Overwrites a list.
pub(super) fn erase<'l>(list: impl Iterator<Item = &'l mut u32>) {
    for place in list {
        // SAFETY: a reference is as good as a pointer; the compiler does not leave it out.
        unsafe { NonNull::from(place).write_volatile(0) };
    }
}

/// Makes a system call, and says the word with it.
///
/// # Safety
/// As for the call.
pub(super) unsafe fn call(number: i64, arguments: [usize; 4]) -> io::Result<usize> {
    let [first, second, third, fourth] = arguments;
    let status: isize;
    // SAFETY: the kernel keeps all registers but those named here; the rest is the caller's matter. The word is in none of
    // them afterwards.
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

/// Forks. In the child there is nothing; in its parent, its process id and a descriptor for it.
///
/// The C library does not hear of it: what it would put right in the child concerns locks of other threads, of which there are
/// none, and the thread id by which mutexes know their owner, for which any number will do that no other thread has. No thread
/// gets that of the spawner as long as it lives, and its workers do not outlive it.
///
/// # Safety
/// The calling process has one thread.
pub(super) unsafe fn fork() -> io::Result<Option<(Pid, i32)>> {
    let mut pidfd = -1i32;
    // SAFETY: without `CLONE_VM` the child has memory of its own, and goes on on a copy of this stack.
    let pid = unsafe { call(libc::SYS_clone, [FORK as usize, 0, &raw mut pidfd as usize, 0])? };
    Ok((pid != 0).then(|| (Pid::from_raw(pid as i32), pidfd)))
}

/// Limits what this process may have of a resource (`RLIMIT_*`).
pub(super) fn limit(resource: u32, most: u64) -> io::Result<()> {
    let limits = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: 0 stands for the process itself; the kernel reads one structure, and is given no room for the old one.
    unsafe { call(libc::SYS_prlimit64, [0, resource as usize, &raw const limits as usize, 0])? };
    Ok(())
}

/// The flags of [`fork`].
pub(super) const FORK: i32 = libc::SIGCHLD | libc::CLONE_PIDFD;

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
            // SAFETY: the pages are readable; what others write to them meanwhile is as good as what was there.
            range.clone().step_by(4).any(|at| unsafe { (at as *const u32).read_volatile() } ^ inverted == u32::MAX)
        })
    }

    /// Each time another word is chosen, so that a number that is there by chance is not there again.
    #[test]
    fn what_is_forgotten_lies_nowhere() {
        let ended: Vec<i32> = (0..3).map(|_| forget_in_a_child()).collect();
        assert!(ended.iter().all(|status| [0, FOUND].contains(status)), "{ended:?}");
        assert!(ended.contains(&0), "a half of the word is found each time: {ended:?}");
    }

    /// What a child says in which a half of the word is found after it was forgotten.
    const FOUND: i32 = 3;

    /// The status of a child that chooses a word, uses and forgets it: 0, [`FOUND`], or that of a step that failed.
    fn forget_in_a_child() -> i32 {
        const STANDS: [u32; 2] = [0x1234_5678, 0x9abc_def0];
        // SAFETY: the child makes system calls and reads memory, and takes no lock but the allocator's.
        match unsafe { fork() }.expect("a process") {
            ForkResult::Child => {
                // SAFETY: ends the process.
                let leave = |status| unsafe { libc::_exit(status) };
                if choose().is_err() {
                    leave(1);
                }
                let mut list = [1, STANDS[1], STANDS[0], 2];
                insert(list.iter_mut(), STANDS);
                let inverted = [!list[2], !list[1]];
                let before = memory();
                // The positive control: it is there.
                if !inverted.iter().all(|half| is_in(&before, *half)) {
                    leave(2);
                }
                erase(list.iter_mut());
                // SAFETY: has no preconditions.
                if unsafe { call(libc::SYS_getppid, [0; 4]) }.is_err() {
                    leave(4);
                }
                forget();
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
