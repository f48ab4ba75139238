//! Builds everything, runs every test, and ends with one plain line: how many passed and failed.

use crate::workspace::Workspace;
use crate::{Result, browser, build, fat_tools, lint, network, python, shell, vm};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// What cargo starts test programs with: one that hangs is ended and named. The slowest
/// takes half a minute on two free processors.
pub(crate) const RUNNER: (&str, &str) =
    ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", "timeout --foreground --verbose --kill-after=10 900");

/// How much of the suite runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// Every test once: natively, and of those with keys that both kernels can run, each under one of them.
    Sampled,
    /// Every test wherever it can run, those of Python programs too.
    Full,
}

impl Extent {
    /// Of a command with or without `--full`.
    pub(crate) fn new(full: bool) -> Extent {
        if full { Extent::Full } else { Extent::Sampled }
    }
}

/// All lanes. Each is run to its end even if an earlier one fails, so that the closing line counts everything.
pub(crate) fn run(arguments: &[String], extent: Extent) -> Result {
    build::everything()?;
    browser::ready()?;
    // The commands of the documentation use curl.
    network::peers()?;
    fat_tools::ready()?;
    let workspace = Workspace::load()?;
    let mut total = Count::default();
    // This machine: release and debug make the same promises, so the everyday build is tested.
    for packages in lint::groups(&workspace) {
        let mut command = shell::cargo(["test", "--no-fail-fast"]);
        command.args(packages).arg("--").args(arguments).env(RUNNER.0, RUNNER.1);
        total.add(count(&mut command)?);
    }
    total.notes.extend(left_out(total.ignored, arguments.is_empty()));
    if arguments.is_empty() && extent == Extent::Full {
        total.add(python_programs()?);
    }
    // The same suite where there are protection keys; arguments are for the programs of this machine alone.
    if arguments.is_empty() {
        total.add(attacks_here()?);
        total.add(vm::lane::run(extent)?);
        total.add(network::run(extent)?);
    }
    total.close()
}

/// The tests of Python programs, for which the interpreter is compiled first: for that they are ignored otherwise.
fn python_programs() -> Result<Count> {
    python::build()?;
    let mut command = shell::cargo(["test", "--no-fail-fast", "-p", "monohull-visor", "--test", "python_programs"]);
    count(command.args(["--", "--ignored"]).env(RUNNER.0, RUNNER.1))
}

/// What the closing count of passed and failed tests does not show: tests that this machine ignored, and lanes left out.
fn left_out(ignored: u64, all_lanes: bool) -> Vec<String> {
    let lanes = "the lanes with protection keys and of networks (`--keys`, `--network`)";
    let mut notes = Vec::new();
    if ignored > 0 {
        let then = if all_lanes { "run in" } else { "they need" };
        notes.push(format!(
            "{ignored} ignored here, {then} {lanes}, or images that take minutes to compile (docs/programs.md)"
        ));
    }
    if !all_lanes {
        notes.push(format!("arguments were given: {lanes} were left out"));
    }
    notes
}

/// The lane of networks of workflows' own, alone.
pub(crate) fn run_network(extent: Extent) -> Result {
    build::everything()?;
    network::run(extent)?.close()
}

/// The lane on processors with protection keys, alone.
pub(crate) fn run_with_keys(extent: Extent) -> Result {
    build::everything()?;
    let mut total = attacks_here()?;
    total.add(vm::lane::run(extent)?);
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
    build::unhardened_visor()?;
    let mut command = shell::cargo(["test", "--no-fail-fast", "--test", "keys_*"]);
    command.args(lint::with_std(&Workspace::load()?));
    // One after the other: some use up all there is.
    command.args(["--", "--ignored", "--test-threads=1"]).env(RUNNER.0, RUNNER.1);
    count(&mut command)
}

/// What came of tests.
#[derive(Default)]
pub(crate) struct Count {
    /// How many passed.
    pub(crate) passed: u64,
    /// How many failed.
    pub(crate) failed: u64,
    /// How many were ignored.
    pub(crate) ignored: u64,
    /// What failed, as far as it has a name: the end of a long report is what people see.
    pub(crate) names: Vec<String>,
    /// What went wrong without being a failure, and should be known.
    pub(crate) notes: Vec<String>,
    /// Whether names are being listed.
    listing: bool,
}

impl Count {
    /// Something that passed as a whole.
    pub(crate) fn success() -> Count {
        Count { passed: 1, ..Count::default() }
    }

    /// Something that failed as a whole.
    pub(crate) fn failure(name: &str) -> Count {
        Count { failed: 1, names: vec![name.to_owned()], ..Count::default() }
    }

    /// Adds up.
    pub(crate) fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.names.extend(other.names);
        self.notes.extend(other.notes);
    }

    /// Reads a line of a test program's output, which lists the names of failed tests and closes with a count.
    pub(crate) fn add_line(&mut self, line: &str) {
        // A guest's console may add a carriage return.
        let line = line.trim_end();
        match (line.strip_prefix("test result: "), line.strip_prefix("    ")) {
            (Some(result), _) => {
                self.passed += number_before(result, " passed");
                self.failed += number_before(result, " failed");
                self.ignored += number_before(result, " ignored");
            }
            (_, Some(name)) if self.listing => self.names.push(name.to_owned()),
            _ => {}
        }
        self.listing = line == "failures:" || self.listing && line.starts_with("    ");
    }

    /// The last lines of all.
    fn close(self) -> Result {
        self.notes.iter().for_each(|note| println!("note: {note}"));
        self.names.iter().for_each(|name| println!("failed: {name}"));
        println!("{} passed, {} failed", self.passed, self.failed);
        match self.failed {
            0 => Ok(()),
            failed => Err(format!("{failed} failed")),
        }
    }
}

/// Runs a test command, shows its output as it comes, and counts. A command that fails without a failed test (it did not
/// build, say) counts as one failure.
pub(crate) fn count(command: &mut Command) -> Result<Count> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cannot start cargo: {error}"))?;
    let mut count = Count::default();
    let mut program = Program::default();
    let mut shown = std::io::stdout().lock();
    for line in BufReader::new(child.stdout.take().expect("piped")).split(b'\n') {
        let line = line.map_err(|error| format!("cannot read the tests' output: {error}"))?;
        // A reader that closes our output early must not stop the tests.
        let _ = shown.write_all(&line).and_then(|()| shown.write_all(b"\n"));
        let line = String::from_utf8_lossy(&line);
        program.add_line(&line).into_iter().for_each(|cut| count.add(Count::failure(&cut)));
        count.add_line(&line);
    }
    program.end().into_iter().for_each(|cut| count.add(Count::failure(&cut)));
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    if !status.success() && count.failed == 0 {
        count.add(Count::failure(&format!("{command:?} ended with {status}")));
    }
    Ok(count)
}

/// Where a test program is: one that is killed, because it takes too long say, lists nothing.
#[derive(Default)]
struct Program {
    /// The last test that it named, while it runs.
    last: Option<String>,
}

impl Program {
    /// Reads a line. Returns an error about the previous program if another one begins before that has closed.
    fn add_line(&mut self, line: &str) -> Option<String> {
        if line.starts_with("test result: ") {
            self.last = None;
        } else if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            let cut = self.end();
            self.last = Some("its first test".to_owned());
            return cut;
        } else if let Some((name, _)) = line.strip_prefix("test ").and_then(|test| test.split_once(" ... "))
            && let Some(last) = &mut self.last
        {
            name.clone_into(last);
        }
        None
    }

    /// The error if the output ends here.
    fn end(&mut self) -> Option<String> {
        self.last.take().map(|last| format!("a test program that ended at, or some time after, {last}"))
    }
}

/// The number in front of `word`.
fn number_before(text: &str, word: &str) -> u64 {
    let digits = text.split(word).next().and_then(|before| before.rsplit(' ').next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Count, Program, left_out};

    /// The output of libtest for a program in which two tests failed.
    const OUTPUT: &str = "test c ... ok\n\nfailures:\n\n---- a stdout ----\n    indented\n\n\nfailures:\n    a\n    m::b\n\n\
                        test result: FAILED. 12 passed; 2 failed; 3 ignored; 0 measured; 0 filtered out\n    more";

    #[test]
    fn tests_are_counted_and_those_that_failed_are_named() {
        let mut count = Count::default();
        OUTPUT.lines().for_each(|line| count.add_line(line));
        assert_eq!((count.passed, count.failed, count.ignored), (12, 2, 3));
        assert_eq!(count.names, ["a", "m::b"]);
    }

    #[test]
    fn what_was_left_out_is_noted() {
        assert!(left_out(0, true).is_empty());
        let [ignored] = &left_out(7, true)[..] else { panic!("one note") };
        assert!(ignored.starts_with("7 ignored here, run in the lanes"), "{ignored}");
        let [ignored, lanes] = &left_out(7, false)[..] else { panic!("two notes") };
        assert!(ignored.starts_with("7 ignored here, they need the lanes"), "{ignored}");
        assert!(lanes.starts_with("arguments were given: the lanes") && lanes.ends_with("left out"), "{lanes}");
    }

    #[test]
    fn a_program_that_is_cut_short_is_named_by_its_last_test() {
        let output = ["running 2 tests", "test a ... ok", "test m::b ... ", "running 1 test", "test c ... ok", OUTPUT];
        let mut program = Program::default();
        let cut: Vec<String> = output.join("\n").lines().filter_map(|line| program.add_line(line)).collect();
        assert_eq!(cut, ["a test program that ended at, or some time after, m::b"]);
        assert_eq!(program.end(), None);
        program.add_line("running 1 test");
        assert_eq!(program.end().as_deref(), Some("a test program that ended at, or some time after, its first test"));
    }
}
