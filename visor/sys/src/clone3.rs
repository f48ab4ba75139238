//! Arguments of `clone3(2)` for a child that is in a control group from its first instruction.

use super::fork::OnlyThread;
use std::io;
use std::marker::PhantomData;

/// How many bytes of arguments the kernel gets: more than from the C library, so that the list of system calls can distinguish
/// the two. The kernel takes any length, if what it does not know is zero.
pub const CLONE_BYTES: usize = 128;

/// `struct clone_args` of `linux/sched.h`: flags, pidfd, child_tid, parent_tid, exit_signal, five more, cgroup.
pub(crate) struct Arguments([u64; CLONE_BYTES / 8]);

/// Arguments for a fork into a group, whose child has the id of its thread written where the C library keeps it. The C
/// library's own `fork` does that too, and knows nothing of groups.
pub(crate) fn arguments(group: i32, thread: &ThreadIdAddress) -> Arguments {
    const INTO_GROUP: u64 = 0x2_0000_0000;
    let mut arguments = [0u64; CLONE_BYTES / 8];
    let flags = libc::CLONE_PIDFD | libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;
    arguments[0] = INTO_GROUP | flags as u64;
    arguments[2] = thread.address as u64;
    arguments[4] = libc::SIGCHLD as u64;
    arguments[10] = group as u64;
    Arguments(arguments)
}

impl Arguments {
    /// Where the kernel writes the descriptor for the child.
    pub(crate) fn pidfd(&mut self, to: *mut i32) {
        self.0[1] = to as u64;
    }

    /// As the call takes them: where they are, and how many bytes.
    pub(crate) fn as_call(&self) -> [usize; 4] {
        [self.0.as_ptr() as usize, CLONE_BYTES, 0, 0]
    }
}

/// Where the C library keeps the id of this thread. It stays with the thread, and a fork copies both.
#[derive(Debug)]
pub struct ThreadIdAddress {
    address: usize,
    _of_one_thread: PhantomData<*const ()>,
}

impl ThreadIdAddress {
    /// Asks the kernel, which clears that word when the thread ends.
    pub fn of(_this: &OnlyThread) -> io::Result<ThreadIdAddress> {
        const PR_GET_TID_ADDRESS: libc::c_int = 40;
        let mut word: *const libc::pid_t = std::ptr::null();
        // SAFETY: PR_GET_TID_ADDRESS(2const): the kernel writes one pointer to a live local.
        let answer = unsafe { libc::prctl(PR_GET_TID_ADDRESS, &raw mut word) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: if it is not null it is a word of the C library's for this thread, which is alive.
        if word.is_null() || unsafe { word.read() } != nix::unistd::gettid().as_raw() {
            return Err(io::Error::other("the C library keeps the thread's id elsewhere"));
        }
        Ok(ThreadIdAddress { address: word as usize, _of_one_thread: PhantomData })
    }
}
