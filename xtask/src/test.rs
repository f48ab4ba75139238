//! Builds everything, runs every test, and ends with one plain line: how many passed and failed.

use crate::workspace::Workspace;
use crate::{Result, browser, build, fat_tools, lint, network, shell, vm};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// What cargo starts test programs with: one that hangs is ended, and named, before anybody's patience is. The slowest
/// takes half a minute on two free processors.
pub(crate) const RUNNER: (&str, &str) =
    ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", "timeout --foreground --verbose --kill-after=10 900");

/// All lanes. Each is run to its end even if an earlier one fails, so that the closing line counts everything.
pub(crate) fn run(arguments: &[String]) -> Result {
    build::everything()?;
    browser::ready()?;
    fat_tools::ready()?;
    let workspace = Workspace::load()?;
    let mut total = Count::default();
    // This machine: release and debug make the same promises, so the everyday build is tested.
    for packages in lint::groups(&workspace) {
        let mut command = shell::cargo(["test", "--no-fail-fast"]);
        command.args(packages).arg("--").args(arguments).env(RUNNER.0, RUNNER.1);
        total.add(count(&mut command)?);
    }
    // The same suite where there are protection keys; arguments are for the programs of this machine alone.
    if arguments.is_empty() {
        total.add(attacks_here()?);
        total.add(vm::lane::run()?);
        total.add(network::run()?);
    }
    total.close()
}

/// The lane of networks of workflows' own, alone.
pub(crate) fn run_network() -> Result {
    build::everything()?;
    network::run()?.close()
}

/// The lane on processors with protection keys, alone.
pub(crate) fn run_with_keys() -> Result {
    build::everything()?;
    let mut total = attacks_here()?;
    total.add(vm::lane::run()?);
    total.close()
}

/// What is ignored without protection keys, natively, if this processor has some: the rest of the suite has used them already.
fn attacks_here() -> Result<Count> {
    let processor = std::fs::read_to_string("/proc/cpuinfo").map_err(|error| format!("/proc/cpuinfo: {error}"))?;
    if !processor.split_whitespace().any(|flag| flag == "ospke") {
        shell::heading("this processor has no protection keys: attacks on them run in the virtual machine alone");
        return Ok(Count::default());
    }
    shell::heading("attacks, with this processor's own protection keys");
    build::weakened_visor()?;
    let mut command = shell::cargo(["test", "--no-fail-fast", "--package", "monohull", "--test", "keys_*"]);
    // One after the other: some use up all there is.
    command.args(["--", "--ignored", "--test-threads=1"]).env(RUNNER.0, RUNNER.1);
    count(&mut command)
}

/// How many tests passed and failed.
#[derive(Default)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Count {
    /// Adds up.
    pub(crate) fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// What a test program's closing line says.
    pub(crate) fn of_line(line: &str) -> Option<Count> {
        let result = line.strip_prefix("test result: ")?;
        Some(Count { passed: number_before(result, " passed"), failed: number_before(result, " failed") })
    }

    /// The last line of all.
    fn close(self) -> Result {
        println!("{} passed, {} failed", self.passed, self.failed);
        match self.failed {
            0 => Ok(()),
            failed => Err(format!("{failed} failed")),
        }
    }
}

/// Runs a test command, shows its output as it comes, and adds up its `test result:` lines. A command that fails
/// without a failed test (it did not build, say) counts as one failure.
pub(crate) fn count(command: &mut Command) -> Result<Count> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cannot start cargo: {error}"))?;
    let mut count = Count::default();
    let mut shown = std::io::stdout().lock();
    for line in BufReader::new(child.stdout.take().expect("piped")).split(b'\n') {
        let line = line.map_err(|error| format!("cannot read what the tests say: {error}"))?;
        // Somebody who reads only the head of our output must not stop the tests.
        let _ = shown.write_all(&line).and_then(|()| shown.write_all(b"\n"));
        if let Some(result) = Count::of_line(&String::from_utf8_lossy(&line)) {
            count.add(result);
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    if !status.success() && count.failed == 0 {
        count.failed = 1;
    }
    Ok(count)
}

/// The number in front of `word`.
fn number_before(text: &str, word: &str) -> u64 {
    let digits = text.split(word).next().and_then(|before| before.rsplit(' ').next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::number_before;

    #[test]
    fn reads_result_lines() {
        let line = "FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s";
        assert_eq!((number_before(line, " passed"), number_before(line, " failed")), (12, 3));
    }
}
