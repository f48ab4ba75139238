//! Copying and reading memory by hand: what going back to an earlier state, and finding what has changed since, cost without help.

use std::hint::black_box;
use std::time::Instant;

/// Copies so many bytes, which have memory on both sides, so often.
pub(super) fn copies(count: usize, bytes: usize) -> f64 {
    let (from, mut to) = (vec![1_u8; bytes], vec![2_u8; bytes]);
    let start = Instant::now();
    for _ in 0..count {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

/// Reads so many bytes that no cache has, and copies the first few of them, so often.
pub(super) fn looks(count: usize, bytes: usize, copied: usize) -> f64 {
    // Together they are larger than a cache.
    const BUFFERS: usize = 8;
    let buffers = vec![vec![1_u64; bytes / 8]; BUFFERS];
    let mut copy = vec![0_u64; copied / 8];
    let start = Instant::now();
    for buffer in buffers.iter().cycle().take(count) {
        black_box(buffer.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
        copy.copy_from_slice(&buffer[..copied / 8]);
        black_box(&mut copy);
    }
    start.elapsed().as_nanos() as f64 / count as f64
}
