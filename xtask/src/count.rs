//! Runs test commands, and counts what passed and failed.

use crate::{Result, flaky};
use std::cmp::Reverse;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How many programs are named at the end for the time they took.
const SLOWEST: usize = 20;

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
    /// What failed and passed when it was run again.
    pub(crate) flaky: Vec<String>,
    /// What went wrong without being a failure, and should be known.
    pub(crate) notes: Vec<String>,
    /// How long each test program took.
    pub(crate) took: Vec<(Duration, String)>,
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
        self.flaky.extend(other.flaky);
        self.notes.extend(other.notes);
        self.took.extend(other.took);
    }

    /// The last failed test of this name has passed when it was run again.
    pub(crate) fn passes_after_all(&mut self, name: &str) {
        if let Some(place) = self.names.iter().rposition(|failed| failed == name) {
            self.flaky.push(self.names.remove(place));
            self.failed -= 1;
            self.passed += 1;
        }
    }

    /// Reads a line of a test program's output, which lists the names of failed tests and closes with a count.
    pub(crate) fn add_line(&mut self, line: &str) {
        // A guest's console may add a carriage return.
        let line = line.trim_end();
        if let Some(name) = line.strip_prefix(flaky::MARK) {
            self.passes_after_all(name);
        }
        self.took.extend(flaky::took(line));
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

    /// Where the time went.
    pub(crate) fn slowest(&self) -> String {
        let mut took: Vec<_> = self.took.iter().collect();
        took.sort_by_key(|(took, _)| Reverse(*took));
        let all: Duration = took.iter().map(|(took, _)| took).sum();
        let each = |(took, name): &&(Duration, String)| format!("{name} {:.0} s", took.as_secs_f64());
        let slowest: Vec<String> = took.iter().take(SLOWEST).map(each).collect();
        format!("{} test programs took {:.0} s, of which {}", took.len(), all.as_secs_f64(), slowest.join(", "))
    }

    /// The last lines of all.
    pub(crate) fn close(self) -> Result {
        if !self.took.is_empty() {
            println!("{}", self.slowest());
        }
        self.notes.iter().for_each(|note| println!("note: {note}"));
        self.flaky.iter().for_each(|name| println!("flaky, failed once and passed when it was run again: {name}"));
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
        } else if let Some((_, name)) = flaky::took(line) {
            return self.cut(&name);
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
        self.cut("a test program")
    }

    /// The error if the program of this name has ended here.
    fn cut(&mut self, name: &str) -> Option<String> {
        self.last.take().map(|last| format!("{name}, which ended at, or some time after, {last}"))
    }
}

/// The number in front of `word`.
fn number_before(text: &str, word: &str) -> u64 {
    let digits = text.split(word).next().and_then(|before| before.rsplit(' ').next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Count, Program};

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
    fn a_test_that_passes_after_all_is_flaky() {
        let mut count = Count::default();
        OUTPUT.lines().chain(["  again: test result: ok. 1 passed", "@flaky a"]).for_each(|line| count.add_line(line));
        assert_eq!(
            (count.passed, count.failed, count.names, count.flaky),
            (13, 1, vec!["m::b".into()], vec!["a".into()])
        );
    }

    #[test]
    fn the_slowest_programs_are_named() {
        let mut count = Count::default();
        ["@took 2 fast", "@took 31 slow", OUTPUT].iter().for_each(|line| count.add_line(line));
        assert_eq!(count.slowest(), "2 test programs took 33 s, of which slow 31 s, fast 2 s");
    }

    #[test]
    fn a_program_that_is_cut_short_is_named_by_its_last_test() {
        let output =
            ["running 2 tests", "test a ... ok", "test m::b ... ", "@took 3 tap", "running 1 test", "test c ... ok"];
        let output = [&output[..], &[OUTPUT, "@took 1 other"]].concat();
        let mut program = Program::default();
        let cut: Vec<String> = output.join("\n").lines().filter_map(|line| program.add_line(line)).collect();
        assert_eq!(cut, ["tap, which ended at, or some time after, m::b"]);
        assert_eq!(program.end(), None);
        // Without the line that says how long it took, its name is not known.
        program.add_line("running 1 test");
        let cut = Some("a test program, which ended at, or some time after, its first test");
        assert_eq!(program.end().as_deref(), cut);
    }
}
