//! What a change must pass, in the order in which it is likely to fail.

use crate::extent::Extent;
use crate::workspace::{FUZZ_WORKSPACES, Workspace, root};
use crate::{Result, bench, demo, lint, miri, shell, space, test};
use std::process::Command;
use std::time::Instant;

/// Bytes of text the demonstration counts here.
const DEMO_BYTES: u64 = 1 << 20;
/// What is fuzzed: a workspace, a target, and the files that it begins with.
const FUZZED: [(&str, &str, &str); 3] = [
    (FUZZ_WORKSPACES[0], "image_parse", "visor/fuzz/corpus/image_parse"),
    (FUZZ_WORKSPACES[0], "checkpoint_read", "visor/fuzz/corpus/checkpoint_read"),
    (FUZZ_WORKSPACES[1], "check", "visor/fuzz/corpus/image_parse"),
];
/// How long each of them.
const FUZZ_SECONDS: u32 = 20;
/// Cases of each of the checker's properties.
const CASES: u32 = 250_000;

/// Everything.
pub(crate) fn run(extent: Extent) -> Result {
    space::check()?;
    let mut times = Vec::new();
    let mut step = |name: &'static str, step: &dyn Fn() -> Result| {
        let start = Instant::now();
        let result = step();
        times.push((name, start.elapsed().as_secs()));
        result
    };
    step("lint", &lint::run)?;
    step("test", &|| test::run(&[], extent))?;
    step("miri", &miri::run)?;
    step("properties", &properties)?;
    step("fuzz", &fuzz)?;
    step("demo", &|| {
        shell::heading("demo");
        demo::run(&[], DEMO_BYTES)
    })?;
    step("bench", &|| {
        shell::heading("bench, tiny");
        bench::run(&["--smoke".to_owned()])
    })?;
    let times: Vec<String> = times.iter().map(|(name, seconds)| format!("{name} {seconds} s")).collect();
    println!("\nAll of it has passed: {}.", times.join(", "));
    Ok(())
}

/// A short run of each fuzz target, on stable Rust; `visor/fuzz/README.md` says why these flags. The kept corpus stays as it is: what is
/// found goes to the target folder.
fn fuzz() -> Result {
    const TRIPLE: &str = "x86_64-unknown-linux-gnu";
    const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                            -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                            -Cllvm-args=-sanitizer-coverage-pc-table";
    let target = Workspace::load()?.target().join("fuzz");
    for (workspace, program, seeds) in FUZZED {
        shell::heading(&format!("fuzz: {program}"));
        let mut build = shell::cargo(["build", "--release", "--target", TRIPLE]);
        build.arg("--manifest-path").arg(root().join(workspace).join("Cargo.toml")).arg("--target-dir").arg(&target);
        shell::run(build.env("RUSTFLAGS", COVERAGE))?;

        let found = target.join("found").join(program);
        std::fs::create_dir_all(&found).map_err(|error| format!("cannot make {}: {error}", found.display()))?;
        let mut fuzzer = Command::new(target.join(TRIPLE).join("release").join(program));
        fuzzer.arg(&found).arg(root().join(seeds));
        fuzzer.arg(format!("-max_total_time={FUZZ_SECONDS}"));
        fuzzer.args(["-max_len=16384", "-timeout=10", "-rss_limit_mb=1024", "-verbosity=0"]);
        fuzzer.arg(format!("-artifact_prefix={}/", target.display()));
        shell::run(&mut fuzzer)?;
    }
    Ok(())
}

/// The checker's properties, on very many random byte strings.
fn properties() -> Result {
    shell::heading(&format!("properties of the checker, {CASES} cases each"));
    let mut tests = shell::cargo(["test", "--release", "--package", "monohull-checker", "--test", "planted"]);
    shell::run(tests.env("PROPTEST_CASES", CASES.to_string()))
}
