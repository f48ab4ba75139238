//! The number sort as one plain program: file in, file out, std's threads and vectors, the examples' kernels.

use crate::harness::Result;
use example_kernels::{parts, sort};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// Sorts the lines of `input` with `threads` threads and writes them to `output`.
pub(super) fn sort_file(input: &Path, output: &Path, threads: usize) -> Result<f64> {
    let fail = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let start = Instant::now();
    let text = std::fs::read(input).map_err(|error| fail(input, error))?;
    let cuts = sort::cuts(&text, threads);
    let parts = parts::cut(&text, threads, |byte| byte == b'\n');
    let first_lines = sort::first_lines(&text, &parts);
    let jobs = parts.into_iter().map(|part| &text[part]).zip(first_lines).collect();
    let runs = in_parallel(jobs, |(part, first)| sorted(part, first)).into_iter().collect::<Result<Vec<_>>>()?;
    let mergers: Vec<Vec<&[u64]>> = (0..threads)
        .map(|merger| {
            runs.iter().map(|run| &run[sort::pieces(run, &cuts).nth(merger).expect("a piece per merger")]).collect()
        })
        .collect();
    let texts = in_parallel(mergers, |runs| merged(&runs));
    let write = || {
        let mut file = File::create(output)?;
        texts.iter().try_for_each(|text| file.write_all(text))
    };
    write().map_err(|error| fail(output, error))?;
    Ok(start.elapsed().as_nanos() as f64)
}

/// The sorted lines of a text, as a function call.
pub(crate) fn sorted_text(text: &[u8]) -> Result<Vec<u8>> {
    let run = sorted(text, 1)?;
    Ok(merged(&[&run]))
}

/// Does every job, the first one on this thread.
fn in_parallel<J: Send, T: Send>(jobs: Vec<J>, work: impl Fn(J) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let mut jobs = jobs.into_iter();
        let first = jobs.next();
        let others: Vec<_> = jobs.map(|job| scope.spawn(move || work(job))).collect();
        let first = first.map(work);
        let others = others.into_iter().map(|thread| thread.join().expect("a sorter does not panic"));
        first.into_iter().chain(others).collect()
    })
}

fn sorted(part: &[u8], first_line: u64) -> Result<Vec<u64>> {
    let mut run = Vec::with_capacity(sort::newlines(part) as usize + 1);
    sort::parse(part, first_line, |value| run.push(value)).map_err(|error| error.to_string())?;
    run.sort_unstable();
    Ok(run)
}

fn merged(runs: &[&[u64]]) -> Vec<u8> {
    let mut text = Vec::with_capacity(runs.iter().map(|run| sort::text_len(run)).sum());
    sort::merge(runs, |value| text.extend_from_slice(sort::line(value, &mut [0; sort::DIGITS + 1])));
    text
}
