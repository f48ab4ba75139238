//! What a change must pass, in the order in which it is likely to fail.

use crate::workspace::root;
use crate::{Result, bench, demo, lint, shell, test};
use std::process::Command;

/// Bytes of text the demonstration counts here.
const DEMO_BYTES: u64 = 1 << 20;
/// How long the loader is fuzzed.
const FUZZ_SECONDS: u32 = 20;

/// Everything.
pub(crate) fn run() -> Result {
    lint::run()?;
    test::run(&[])?;
    shell::heading("fuzz the loader");
    fuzz()?;
    shell::heading("demo");
    demo::run(&[], DEMO_BYTES)?;
    shell::heading("bench, tiny");
    bench::run(&["--smoke".to_owned()])
}

/// A short run of the loader's fuzz target on its kept corpus.
fn fuzz() -> Result {
    let time = format!("-max_total_time={FUZZ_SECONDS}");
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz", "run", "loader", "--", &time]).current_dir(root().join("visor"));
    shell::run(&mut command)
}
