//! Word count, sort and chain by functions in Python (`bench/guests/flow.py`): the same program by the interpreter that is compiled to WebAssembly, and by the
//! native one.
//!
//! AlloyStack (EuroSys 2025) has these three in Python too, by CPython in Wasmtime, and compares them with Faasm's, which is not here and whose figures are of
//! another machine (section 8.5): it is 1.11 to 4.79 times as fast in word count, 1.03 to 5.88 times in sort, 10.76 to 78.36 times in the chain, and 9.7 %
//! slower with the largest inputs. What can be measured in one run is the price of WebAssembly. Both sides start an interpreter for each instance.

use super::sort::numbers;
use super::wasi_workflows::{compared, write};
use super::{wasi_python, word_count};
use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::ours;
use serde_json::{Value, json};
use std::path::Path;

const PROGRAM: &str = include_str!("../../guests/flow.py");
/// What the native interpreter is called in the report.
const NATIVE: &str = "the same program by the native interpreter";
const LINKS: usize = 15;

pub(super) fn lacks() -> Option<String> {
    let native = interpreter("python");
    let lack = || format!("there is no {native}, which `cargo xtask build --python` makes");
    wasi_python::lacks_interpreter().or_else(|| (!Path::new(&native).is_file()).then(lack))
}

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let folder = ours::scratch()?;
    let (words, lines) = (folder.join("python-words"), folder.join("python-numbers"));
    write(&words, &word_count::text(effort.size(4 << 20, 20 << 10)))?;
    write(&lines, &numbers(effort.size(300_000, 1000)))?;
    let mut rows = Vec::new();
    for workers in [1, 2] {
        let name = format!("word count in Python, {workers} at a time");
        rows.push(row(effort, &name, &|image| words_document(image, workers), Some(("text", &words)), "counts")?);
        let name = format!("sort in Python, {workers} at a time");
        rows.push(row(effort, &name, &|image| sort_document(image, workers), Some(("lines", &lines)), "sorted")?);
    }
    let bytes = effort.size(1 << 20, 10 << 10);
    rows.push(row(effort, "chain in Python", &|image| chain_document(image, bytes), None, "result")?);
    Ok(rows)
}

/// A workflow by the one interpreter against the same by the other.
fn row(
    effort: Effort,
    name: &str,
    document: &dyn Fn(&str) -> Value,
    input: Option<(&str, &Path)>,
    output: &str,
) -> Result<Row> {
    let documents = [interpreter("python-wasi"), interpreter("python")].map(|image| document(&image));
    let [guest, native] = compared(effort, documents, input, output)?.map(Samples::of);
    Ok(Row::new(name, (guest, native), NATIVE, Unit::Milliseconds, None))
}

fn interpreter(name: &str) -> String {
    format!("{}/../target/python/{name}.so", env!("CARGO_MANIFEST_DIR"))
}

/// A step that plays a role, with numbers or slots for it.
fn step(role: &str, name: &str, after: &[String], instances: u32, arguments: &[String]) -> Value {
    let argv: Vec<&str> =
        ["-c", PROGRAM, role].into_iter().chain(arguments.iter().map(|argument| &**argument)).collect();
    let args = json!({ "argv": argv });
    json!({ "name": name, "function": "f", "after": after, "instances": instances, "args": args, "memory": "1GiB" })
}

/// Steps of these roles behind each other, those in the middle with an instance for each worker.
fn flow(image: &str, workers: u32, input: &str, roles: &[&str], output: &str) -> Value {
    let parts = workers.to_string();
    let step = |at: usize| {
        let after: Vec<String> = at.checked_sub(1).map(|before| roles[before].to_owned()).into_iter().collect();
        let instances = if (1..roles.len() - 1).contains(&at) { workers } else { 1 };
        step(roles[at], roles[at], &after, instances, &[parts.clone(), input.to_owned()])
    };
    json!({
        "name": "bench-python-flow",
        "functions": {"f": {"image": image}},
        "steps": (0..roles.len()).map(step).collect::<Vec<_>>(),
        "inputs": [input],
        "outputs": [output],
    })
}

fn words_document(image: &str, workers: u32) -> Value {
    flow(image, workers, "text", &["split", "map", "reduce", "merge"], "counts")
}

fn sort_document(image: &str, workers: u32) -> Value {
    flow(image, workers, "lines", &["split", "sort", "join"], "sorted")
}

fn chain_document(image: &str, bytes: u64) -> Value {
    let name = |link: usize| format!("link-{link}");
    let link = |link: usize| {
        let after: Vec<String> = link.checked_sub(1).map(name).into_iter().collect();
        step("link", &name(link), &after, 1, &[LINKS as u64, link as u64, bytes].map(|number| number.to_string()))
    };
    json!({
        "name": "bench-python-chain",
        "functions": {"f": {"image": image}},
        "steps": (0..LINKS).map(link).collect::<Vec<_>>(),
        "outputs": ["result"],
    })
}
