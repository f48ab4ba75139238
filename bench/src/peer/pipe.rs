//! A message from one process to another through a pipe, and one back.
#![allow(unsafe_code, reason = "fork")]

use super::last_error;
use crate::harness::Result;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::time::Instant;

/// Nanoseconds for one message of `size` bytes, one way; the receiver reads every byte, the sender writes every one.
pub(super) fn ping_pong(size: usize, count: usize) -> Result<f64> {
    let fail = |error: std::io::Error| format!("pipe: {error}");
    let (mut ping_end, mut ping) = pipe().map_err(fail)?;
    let (mut pong_end, mut pong) = pipe().map_err(fail)?;
    // SAFETY: this process has one thread; the child uses only its two pipe ends and memory of its own.
    match unsafe { libc::fork() } {
        -1 => return Err(last_error("fork")),
        0 => {
            // The last writer's end must close for the loop below to end.
            drop((ping, pong_end));
            let _ = echo(&mut ping_end, &mut pong, size);
            // SAFETY: ends the child without running anything of its parent's.
            unsafe { libc::_exit(0) }
        }
        _ => drop((ping_end, pong)),
    }
    let mut message = vec![0; size];
    let start = Instant::now();
    for round in 0..count {
        message.fill(round as u8);
        ping.write_all(&message).map_err(fail)?;
        pong_end.read_exact(&mut message).map_err(fail)?;
        std::hint::black_box(sum(&message));
    }
    let time = start.elapsed().as_nanos() as f64;
    Ok(time / (2 * count) as f64)
}

/// Answers until the other side closes its pipe.
fn echo(from: &mut PipeReader, to: &mut PipeWriter, size: usize) -> std::io::Result<()> {
    let mut message = vec![0; size];
    loop {
        from.read_exact(&mut message)?;
        let sum = std::hint::black_box(sum(&message));
        message.fill(sum as u8);
        to.write_all(&message)?;
    }
}

/// Looks at every byte. The probe function has the same sum.
fn sum(message: &[u8]) -> u64 {
    message.as_chunks::<8>().0.iter().fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}
