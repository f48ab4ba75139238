//! Finding by hand which pages have been written to, and copying them: what a capture cannot be below.
//!
//! With the kernel's list of written pages where there is one; without it by reading all of them.

use super::copy;
use crate::harness::{Result, Samples};
use monohull_sys::written_pages::{Mappings, PageMap, Watch};
use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Bytes of a page.
const PAGE: usize = 4096;

/// Finds and copies so many pages, spread over so many bytes, that are written to each time, for so long: the median. Where nothing is done in
/// between, the processor's caches have the kernel's list each time.
pub(super) fn found_and_copied(count: usize, bytes: usize, pages: usize, between_them: Duration) -> Result<f64> {
    let Ok(watch) = PageMap::of_process().and_then(Watch::on) else {
        return Ok(copy::looks(count, bytes, pages * PAGE));
    };
    let failed = |error| format!("the kernel's list of written pages: {error}");
    let mut memory = vec![1_u8; bytes + PAGE];
    let start = (memory.as_ptr() as usize).next_multiple_of(PAGE) - memory.as_ptr() as usize;
    let memory = &mut memory[start..start + bytes];
    let addresses = memory.as_ptr() as u64..memory.as_ptr() as u64 + bytes as u64;
    let mut copies = vec![0_u8; pages * PAGE];
    watch.watch(addresses.clone()).map_err(failed)?;
    let mut taken = Vec::with_capacity(count);
    for round in 0..count {
        let start = Instant::now();
        while {
            for page in memory.chunks_exact_mut(bytes / pages / PAGE * PAGE).take(pages) {
                page[..PAGE].iter_mut().for_each(|byte| *byte = byte.wrapping_add(round as u8 | 1));
            }
            start.elapsed() < between_them
        } {}
        let start = Instant::now();
        let unwritten = watch.unwritten(addresses.clone(), Mappings::Anonymous).map_err(failed)?;
        let mut free = copies.chunks_exact_mut(PAGE);
        for written in between(&unwritten, &addresses) {
            let written = (written.start - addresses.start) as usize..(written.end - addresses.start) as usize;
            for page in memory[written].chunks_exact(PAGE) {
                free.next().ok_or("more pages were written to than there were")?.copy_from_slice(page);
            }
        }
        watch.watch(addresses.clone()).map_err(failed)?;
        taken.push(start.elapsed().as_nanos() as f64);
        black_box(&mut copies);
    }
    Ok(Samples::of(taken).median)
}

/// What of a range lies between others, which are in order.
fn between(others: &[Range<u64>], range: &Range<u64>) -> Vec<Range<u64>> {
    let starts = std::iter::once(range.start).chain(others.iter().map(|other| other.end));
    let ends = others.iter().map(|other| other.start).chain([range.end]);
    starts.zip(ends).map(|(start, end)| start..end).filter(|gap| !gap.is_empty()).collect()
}
