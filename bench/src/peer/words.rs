//! Word count as one plain program: file in, file out, std's threads and maps, the examples' kernels.

use crate::harness::Result;
use example_kernels::parts::cut;
use example_kernels::words;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

/// Std's map with the hasher that functions have, so that hashers are not what is compared.
type Counts<'t> = HashMap<&'t [u8], u64, FixedState>;

/// Counts the words of `input` with `threads` threads and writes the ranking to `output`.
pub(super) fn count_file(input: &Path, output: &Path, threads: usize) -> Result<f64> {
    let fail = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let start = Instant::now();
    let text = std::fs::read(input).map_err(|error| fail(input, error))?;
    let parts = cut(&text, threads, words::is_space);
    let mut total = Counts::default();
    std::thread::scope(|scope| {
        let spawned: Vec<_> = parts[1..].iter().map(|part| scope.spawn(|| counted(&text[part.clone()]))).collect();
        total = counted(&text[parts[0].clone()]);
        for thread in spawned {
            let counts = thread.join().expect("a counter does not panic");
            counts.into_iter().for_each(|(word, count)| *total.entry(word).or_insert(0) += count);
        }
    });
    let mut ranking: Vec<_> = total.into_iter().map(|(word, count)| (count, word)).collect();
    words::rank(&mut ranking);
    let mut lines = Vec::new();
    words::write_lines(&ranking, |bytes| lines.extend_from_slice(bytes));
    std::fs::write(output, &lines).map_err(|error| fail(output, error))?;
    Ok(start.elapsed().as_nanos() as f64)
}

fn counted(text: &[u8]) -> Counts<'_> {
    let mut counts = Counts::default();
    words::words(text).for_each(|word| *counts.entry(word).or_insert(0) += 1);
    counts
}
