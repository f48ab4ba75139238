//! What a change must pass, in the order in which it is likely to fail.

use crate::extent::Extent;
use crate::workspace::{FUZZ_WORKSPACES, Workspace, root};
use crate::{Result, bench, build, demo, flaky, lint, miri, python, shell, space, test, wasi};
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// Bytes of text the demonstration counts here.
const DEMO_BYTES: u64 = 1 << 20;
/// What is fuzzed: a workspace, a target, and the files that it begins with.
const FUZZED: [(&str, &str, &str); 4] = [
    (FUZZ_WORKSPACES[0], "image_parse", "visor/fuzz/corpus/image_parse"),
    (FUZZ_WORKSPACES[0], "checkpoint_read", "visor/fuzz/corpus/checkpoint_read"),
    (FUZZ_WORKSPACES[0], "checkpoint_records", "visor/fuzz/corpus/checkpoint_records"),
    (FUZZ_WORKSPACES[1], "check", "visor/fuzz/corpus/image_parse"),
];
/// How long each of them. They have what tests leave of the processors.
const FUZZ_SECONDS: u32 = 30;
/// How long they may take for one input, in seconds of the clock. An input takes a fraction of a second of a processor, and beside tests
/// they get a hundredth of one at times. What never ends is found all the same.
const STUCK_SECONDS: u32 = 150;
/// What they are compiled for.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// How much of it is shown. The report of a fuzzer, with its stack, is some forty lines.
const LAST_LINES: usize = 60;
/// Cases of each of the checker's properties.
const CASES: u32 = 250_000;

/// Everything. The last lines say where the time went, whether it passes or not: of a long log people see the end.
pub(crate) fn run(extent: Extent) -> Result {
    space::check()?;
    let times = Times::default();
    let ended = steps(&times, extent);
    let words = if ended.is_ok() { "All of it has passed" } else { "Not all of it has passed" };
    let (slowest, steps) = (times.slowest.lock().expect(UNHURT), times.steps.lock().expect(UNHURT));
    println!("\n{slowest}\n{words}: {}.", steps.join(", "));
    ended
}

fn steps(times: &Times, extent: Extent) -> Result {
    times.step("lint", &lint::run)?;
    times.step("build", &build::everything_for_keys)?;
    thread::scope(|scope| {
        let beside = scope.spawn(|| times.step("beside the tests", &|| start_beside_tests(extent)));
        let tests = times.step("test", &|| {
            let count = test::all(&[], extent)?;
            *times.slowest.lock().expect(UNHURT) = count.slowest();
            count.close()
        });
        both(tests, beside.join().expect("it does not panic"))
    })?;
    times.step("demo", &|| {
        shell::heading("demo");
        demo::run(&[], DEMO_BYTES)
    })?;
    times.step("bench", &|| {
        shell::heading("bench, tiny");
        bench::run(&["--smoke".to_owned()])
    })
}

/// The errors of both, if both have failed.
fn both(first: Result, second: Result) -> Result {
    match (first, second) {
        (Err(first), Err(second)) => Err(format!("{first}\n{second}")),
        (first, second) => first.and(second),
    }
}

/// Tests wait for much of their time. Meanwhile [`beside_tests`] has the processors, in a process that leaves them to tests. What it prints
/// goes to a file, and not between the lines of tests. An error has the end of it.
fn start_beside_tests(extent: Extent) -> Result {
    let log = Workspace::load()?.target().join("beside-tests.log");
    let unwritable = |error| format!("cannot write {}: {error}", log.display());
    let output = File::create(&log).map_err(unwritable)?;
    let mut beside = Command::new("nice");
    beside.args(["-n", "19", &flaky::this_program()?, "beside-tests"]);
    if extent == Extent::Full {
        beside.arg("--full");
    }
    beside.stdout(output.try_clone().map_err(unwritable)?).stderr(output);
    shell::run(&mut beside).map_err(|error| {
        let printed = std::fs::read(&log).unwrap_or_default();
        format!("{error}. The last lines of {}:\n{}", log.display(), last_lines(&String::from_utf8_lossy(&printed)))
    })
}

/// Of all that a program has printed, what says why it failed.
fn last_lines(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

/// What needs none of the folders that tests build in, or for a moment only, each to its end. The last tests wait for the interpreter of Python. If it cannot be
/// compiled here, they compile it, or are counted as failed. All tests of Python programs have another interpreter.
pub(crate) fn beside_tests(extent: Extent) -> Result {
    let miri = miri::run();
    if extent == Extent::Sampled
        && let Err(why) = python::build_small()
    {
        eprintln!("the interpreter of Python programs: {why}");
    }
    let fuzzed = fuzz();
    both(both(miri, fuzzed), properties())
}

/// Where the time goes.
#[derive(Default)]
struct Times {
    /// Each step that has ended, and its seconds.
    steps: Mutex<Vec<String>>,
    /// The line about test programs.
    slowest: Mutex<String>,
}

/// Of the locks.
const UNHURT: &str = "no thread panics while it holds it";

impl Times {
    fn step(&self, name: &'static str, step: &dyn Fn() -> Result) -> Result {
        let start = Instant::now();
        let result = step();
        self.steps.lock().expect(UNHURT).push(format!("{name} {} s", start.elapsed().as_secs()));
        result
    }
}

/// The counters that libFuzzer wants, on stable Rust; `visor/fuzz/README.md` says why these flags.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                        -Cllvm-args=-sanitizer-coverage-pc-table";

/// Builds the fuzz targets of a workspace.
fn build_fuzzers(workspace: &str) -> Result {
    let mut build = shell::cargo(["build", "--release", "--target", TRIPLE]);
    build.arg("--manifest-path").arg(root().join(workspace).join("Cargo.toml"));
    build.arg("--target-dir").arg(Workspace::load()?.target().join("fuzz"));
    shell::run(build.env("RUSTFLAGS", COVERAGE))
}

/// A short run of each fuzz target.
fn fuzz() -> Result {
    let workspace = Workspace::load()?;
    let target = workspace.target().join("fuzz");
    for (folder, program, seeds) in FUZZED {
        build_fuzzers(folder)?;
        let fuzzer = Command::new(target.join(TRIPLE).join("release").join(program));
        run_fuzzer(fuzzer, program, seeds, &target)?;
    }
    run_fuzzer(wasi::fuzzer(&workspace, COVERAGE)?, wasi::FUZZER, wasi::FUZZ_SEEDS, &target)
}

/// The kept corpus stays as it is: what is found goes to the target folder.
fn run_fuzzer(mut fuzzer: Command, program: &str, seeds: &str, target: &Path) -> Result {
    shell::heading(&format!("fuzz: {program}"));
    let found = target.join("found").join(program);
    std::fs::create_dir_all(&found).map_err(|error| format!("cannot make {}: {error}", found.display()))?;
    fuzzer.arg(&found).arg(root().join(seeds));
    fuzzer.arg(format!("-max_total_time={FUZZ_SECONDS}"));
    fuzzer.arg(format!("-timeout={STUCK_SECONDS}"));
    fuzzer.args(["-max_len=32768", "-rss_limit_mb=1024", "-verbosity=0"]);
    fuzzer.arg(format!("-artifact_prefix={}/", target.display()));
    shell::run(&mut fuzzer)
}

/// The checker's properties, on very many random byte strings.
fn properties() -> Result {
    shell::heading(&format!("properties of the checker, {CASES} cases each"));
    let mut tests = shell::cargo(["test", "--release", "--package", "monohull-checker", "--test", "planted"]);
    tests.arg("--target-dir").arg(Workspace::load()?.target().join("fuzz"));
    shell::run(tests.env("PROPTEST_CASES", CASES.to_string()))
}

#[cfg(test)]
mod tests {
    use super::{LAST_LINES, both, last_lines};

    #[test]
    fn an_error_has_the_end_of_what_was_printed() {
        assert_eq!(last_lines(""), "");
        assert_eq!(last_lines("one\ntwo\n"), "one\ntwo");
        let all: Vec<String> = (0..LAST_LINES + 1).map(|line| line.to_string()).collect();
        assert_eq!(last_lines(&all.join("\n")), all[1..].join("\n"));
    }

    #[test]
    fn neither_of_two_errors_is_lost() {
        let (first, second) = (|| Err("first".to_owned()), || Err("second".to_owned()));
        assert_eq!(both(Ok(()), Ok(())), Ok(()));
        assert_eq!((both(first(), Ok(())), both(Ok(()), second())), (first(), second()));
        assert_eq!(both(first(), second()), Err("first\nsecond".to_owned()));
    }
}
