//! Word count, sort and chain by functions in C (`bench/guests`): the same source for WebAssembly, and as native functions.
//!
//! AlloyStack (EuroSys 2025) has these three in C by Wasmtime, and compares them with Faasm, whose WebAssembly is compiled by LLVM (WAVM). Faasm is not
//! here, and its figures are of another machine. What can be measured in one run is the part that the paper ascribes to Wasmtime:
//! its functions compute 1.4 times as long as those of LLVM (section 8.6). The goals are that ratio, against native functions, which are faster than
//! WebAssembly of LLVM. The same workflows in Rust are beside them.

use super::sort::{self, numbers};
use super::{chain, wasi, word_count};
use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::ours::{self, Workflow};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How long code of Wasmtime takes, if that of LLVM takes 1: AlloyStack, section 8.6.
const PUBLISHED: f64 = 1.4;
/// Nanoseconds that 16 MB take from a function in C to the next: AlloyStack, section 8.3, and on its machine.
pub(super) const PUBLISHED_TRANSFER: f64 = 697e3;

/// One program in C, compiled twice.
struct Compiled {
    guest: PathBuf,
    native: PathBuf,
}

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let folder = ours::scratch()?;
    let mut rows = Vec::new();

    let input = folder.join("wasi-words");
    write(&input, &word_count::text(effort.size(10 << 20, 100 << 10)))?;
    let words = compiled("words")?;
    for workers in [1, 2] {
        let [guest, native] = [&words.guest, &words.native].map(|image| words_document(image, workers));
        let name = format!("word count in C, {workers} at a time");
        let documents = [guest, native, word_count::document(workers)];
        rows.extend(both(effort, &name, documents, Some(("text", &input)), "counts")?);
    }

    let input = folder.join("wasi-numbers");
    write(&input, &numbers(effort.size(1_000_000, 1000)))?;
    let lines = compiled("sort")?;
    for workers in [1, 2] {
        let [guest, native] = [&lines.guest, &lines.native].map(|image| sort_document(image, workers));
        let name = format!("sort in C, {workers} at a time");
        let documents = [guest, native, sort::document(workers, ours::image)];
        rows.extend(both(effort, &name, documents, Some(("lines", &input)), "sorted")?);
    }

    let bytes = effort.size(1_000_000, 10_000);
    let link = compiled("chain")?;
    let [guest, native] = [&link.guest, &link.native].map(|image| chain::document_of(&image.to_string_lossy(), bytes));
    let documents = [guest, native, chain::document(bytes)];
    rows.extend(both(effort, "chain in C", documents, None, "result")?);
    Ok(rows)
}

/// The first of these workflows against each of the others.
fn both(
    effort: Effort,
    name: &str,
    documents: [Value; 3],
    input: Option<(&str, &Path)>,
    output: &str,
) -> Result<[Row; 2]> {
    let [guest, native, rust] = compared(effort, documents, input, output)?.map(Samples::of);
    let row = |peer, peer_name, limit| Row::new(name, (guest.clone(), peer), peer_name, Unit::Milliseconds, limit);
    Ok([row(native, "the same C as native functions", Some(PUBLISHED)), row(rust, "native functions in Rust", None)])
}

/// How long these workflows take, in turns. All must have the same result.
pub(super) fn compared<const N: usize>(
    effort: Effort,
    documents: [Value; N],
    input: Option<(&str, &Path)>,
    output: &str,
) -> Result<[Vec<f64>; N]> {
    let folder = ours::scratch()?;
    let mut all = [const { Vec::new() }; N];
    let workflows = documents.iter().map(Workflow::new).collect::<Result<Vec<_>>>()?;
    let files: Vec<_> = (0..N).map(|side| folder.join(format!("{output}.{side}"))).collect();
    for round in 0..=effort.rounds {
        for ((workflow, file), samples) in workflows.iter().zip(&files).zip(&mut all) {
            let took = workflow.run_between(input, (output, file))?;
            // The first round is for what is made once.
            if round > 0 {
                samples.push(took);
            }
        }
    }
    files[1..].iter().try_for_each(|file| ours::same(&files[0], file))?;
    Ok(all)
}

/// The images of a program of `bench/guests`.
fn compiled(name: &str) -> Result<Compiled> {
    let (folder, program) = wasi::program(&format!("bench-{name}"))?;
    wasi::monohull(&["build"], &program, &folder)?;
    let native = folder.join(format!("native-{name}.so"));
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let monohull = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("monohull");
    let mut cc = Command::new(&monohull);
    cc.args(["cc", "-O2"]).arg(bench.join("guests").join(name).with_extension("c")).arg("-o").arg(&native);
    let status = cc.env("MONOHULL_LIBC", bench.join("../target/libc")).status();
    match status.map_err(|error| format!("{}: {error}", monohull.display()))? {
        status if status.success() => Ok(Compiled { guest: program.with_extension("so"), native }),
        status => Err(format!("{cc:?} ended with {status}")),
    }
}

/// A step of one of these programs.
fn step(role: &str, workers: u32, after: &[&str], instances: u32) -> Value {
    let args = json!({"role": role, "parts": workers});
    json!({"name": role, "function": "f", "after": after, "instances": instances, "args": args, "memory": "1GiB"})
}

fn words_document(image: &Path, workers: u32) -> Value {
    json!({
        "name": "bench-c-words",
        "functions": {"f": {"image": image}},
        "steps": [
            step("split", workers, &[], 1),
            step("map", workers, &["split"], workers),
            step("reduce", workers, &["map"], workers),
            step("merge", workers, &["reduce"], 1),
        ],
        "inputs": ["text"],
        "outputs": ["counts"],
    })
}

fn sort_document(image: &Path, workers: u32) -> Value {
    json!({
        "name": "bench-c-sort",
        "functions": {"f": {"image": image}},
        "steps": [
            step("split", workers, &[], 1),
            step("sort", workers, &["split"], workers),
            step("merge", workers, &["sort"], workers),
            step("join", workers, &["merge"], 1),
        ],
        "inputs": ["lines"],
        "outputs": ["sorted"],
    })
}

pub(super) fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
