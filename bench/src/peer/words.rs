//! Word count as one plain program: file in, file out, std's threads and maps, the examples' kernels.

use crate::harness::Result;
use example_kernels::parts::cut;
use example_kernels::words::{self, WordMap};
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::convert::Infallible;
use std::path::Path;
use std::time::Instant;

/// Std's map with the hasher that functions have, so that hashers are not what is compared.
struct StdMap<'t>(HashMap<&'t [u8], u64, FixedState>);

impl<'t> WordMap<'t> for StdMap<'t> {
    fn add(&mut self, word: &'t [u8], count: u64) {
        *self.0.entry(word).or_insert(0) += count;
    }

    fn for_each(&self, mut each: impl FnMut(&'t [u8], u64)) {
        self.0.iter().for_each(|(word, count)| each(word, *count));
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Counts the words of `input` with `threads` threads and writes the ranking to `output`.
pub(super) fn count_file(input: &Path, output: &Path, threads: usize) -> Result<f64> {
    let fail = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let start = Instant::now();
    let text = std::fs::read(input).map_err(|error| fail(input, error))?;
    let parts = cut(&text, threads, words::is_space);
    let mut total = StdMap(HashMap::default());
    std::thread::scope(|scope| {
        let spawned: Vec<_> = parts[1..].iter().map(|part| scope.spawn(|| counted(&text[part.clone()]))).collect();
        total = counted(&text[parts[0].clone()]);
        for thread in spawned {
            thread.join().expect("a counter does not panic").for_each(|word, count| total.add(word, count));
        }
    });
    let mut ranking = Vec::with_capacity(total.len());
    total.for_each(|word, count| ranking.push((count, word)));
    words::rank(&mut ranking);
    let mut lines = Vec::new();
    let Ok(()) = words::write_lines(&ranking, |bytes| {
        lines.extend_from_slice(bytes);
        Ok::<(), Infallible>(())
    });
    std::fs::write(output, &lines).map_err(|error| fail(output, error))?;
    Ok(start.elapsed().as_nanos() as f64)
}

fn counted(text: &[u8]) -> StdMap<'_> {
    let mut map = StdMap(HashMap::default());
    words::count(text, &mut map);
    map
}
