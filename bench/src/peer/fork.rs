//! A small process that makes processes: fork, exit, wait.
#![allow(unsafe_code, reason = "fork is what is measured")]

use super::last_error;
use crate::harness::Result;
use std::hint::black_box;
use std::ptr;
use std::time::Instant;

/// Makes `count` children that end at once, one after the other, with so many bytes of memory that have been written to.
pub(super) fn fork_exit_wait(count: usize, bytes: usize) -> Result<f64> {
    let memory = black_box(vec![1_u8; bytes]);
    let start = Instant::now();
    for _ in 0..count {
        // SAFETY: this process has one thread, and the child does nothing but end.
        let child = match unsafe { libc::fork() } {
            -1 => return Err(last_error("fork")),
            // SAFETY: ends the child without running anything of its parent's.
            0 => unsafe { libc::_exit(0) },
            child => child,
        };
        // SAFETY: a null status pointer means that the status is not wanted.
        if unsafe { libc::waitpid(child, ptr::null_mut(), 0) } != child {
            return Err(last_error("waitpid"));
        }
    }
    black_box(&memory);
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}
