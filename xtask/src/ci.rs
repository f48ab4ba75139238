//! What a change must pass, in the order in which it is likely to fail.

use crate::workspace::{Workspace, root};
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

/// A short run of the loader's fuzz target, on stable Rust; `visor/fuzz/README.md` says why these flags. The kept corpus
/// stays as it is: what is found goes to the target folder.
fn fuzz() -> Result {
    const TRIPLE: &str = "x86_64-unknown-linux-gnu";
    const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                            -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                            -Cllvm-args=-sanitizer-coverage-pc-table";
    let target = Workspace::load()?.target().join("fuzz");
    let mut build = shell::cargo(["build", "--release", "--target", TRIPLE]);
    build.arg("--manifest-path").arg(root().join("visor/fuzz/Cargo.toml")).arg("--target-dir").arg(&target);
    shell::run(build.env("RUSTFLAGS", COVERAGE))?;

    let found = target.join("found");
    std::fs::create_dir_all(&found).map_err(|error| format!("cannot make {}: {error}", found.display()))?;
    let mut fuzzer = Command::new(target.join(TRIPLE).join("release/image_parse"));
    fuzzer.arg(&found).arg(root().join("visor/fuzz/corpus/image_parse"));
    fuzzer.arg(format!("-max_total_time={FUZZ_SECONDS}"));
    fuzzer.args(["-max_len=16384", "-timeout=10", "-rss_limit_mb=1024", "-verbosity=0"]);
    fuzzer.arg(format!("-artifact_prefix={}/", target.display()));
    shell::run(&mut fuzzer)
}
