//! Copying memory by hand: what going back to an earlier state costs without help.

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
