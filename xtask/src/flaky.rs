//! Starts test programs for cargo, and runs a few of their tests again if they fail.
//!
//! ```text
//!   cargo test ──▶ xtask run-test PROGRAM ──▶ timeout … PROGRAM
//!                        └─ one to three tests failed ──▶ timeout … PROGRAM --exact NAME, for each
//! ```
//!
//! A test that fails and passes when it is run again, alone, is flaky: the machine was busy, say. The closing lines name it, since it
//! should be fixed; the run does not fail for it. Attacks are not run again: one that succeeds once has succeeded. Neither is anything of a
//! program in which a property does not hold for values that were found: other values would be tried.

use crate::{Result, shell};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// So many failed tests of a program are run again. More have a cause in common, which is not chance.
pub(crate) const AT_MOST: usize = 3;
/// In front of the name of a test that has passed after all.
pub(crate) const MARK: &str = "@flaky ";
/// What proptest says of the values for which a property does not hold.
pub(crate) const COUNTEREXAMPLE: &str = "minimal failing input";
/// In front of how many seconds a program took, and its name.
const TOOK: &str = "@took ";
/// What ends a program that hangs, and names it. The slowest takes half a minute on two free processors.
const TIMEOUT: [&str; 4] = ["--foreground", "--verbose", "--kill-after=10", "900"];

/// `cargo test` with all its tests, started by [`run`].
pub(crate) fn cargo_test() -> Result<Command> {
    let runner = serde_json::json!([this_program()?, "run-test"]);
    // An array of strings is written alike in JSON and TOML.
    let config = format!("target.x86_64-unknown-linux-gnu.runner={runner}");
    Ok(shell::cargo(["--config", &config, "test", "--no-fail-fast"]))
}

/// Where this program is.
pub(crate) fn this_program() -> Result<String> {
    let this = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let this = this.to_string_lossy();
    // Cargo may have built it again meanwhile, as one of the programs of tests: then another one is there.
    Ok(this.strip_suffix(" (deleted)").unwrap_or(&this).to_owned())
}

/// Whether failed tests of this program may be run again. Those of `keys_negative` may: they need an attack to succeed once.
pub(crate) fn may_run_again(program: &str) -> bool {
    let has_attacks = program.starts_with("keys_") || program.contains("attacks") || program.contains("hostile");
    program.starts_with("keys_negative") || !has_attacks
}

/// Runs a test program with arguments, as cargo starts it. Gives its exit status; success if all that failed is flaky.
pub(crate) fn run(program: &Path, arguments: &[OsString]) -> Result<ExitCode> {
    let begun = Instant::now();
    let ended = run_to(program, arguments, &mut std::io::stdout())?;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    // Cargo puts a hash behind it.
    let name = name.rsplit_once('-').map_or(&*name, |(name, _)| name);
    let _ = writeln!(std::io::stdout(), "{TOOK}{} {name}", begun.elapsed().as_secs());
    Ok(ended)
}

/// How long a program took, and its name, if that is what the line says.
pub(crate) fn took(line: &str) -> Option<(Duration, String)> {
    let (seconds, name) = line.strip_prefix(TOOK)?.split_once(' ')?;
    Some((Duration::from_secs(seconds.parse().ok()?), name.to_owned()))
}

/// The same, showing everything there.
fn run_to(program: &Path, arguments: &[OsString], shown: &mut dyn Write) -> Result<ExitCode> {
    let Came { status, failed, counterexample } = run_once(program, arguments, "", shown)?;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let mut flaky = 0;
    if status != 0 && may_run_again(&name) && failed.len() <= AT_MOST && !counterexample {
        // Which tests take part, ignored ones say, is as before; filters and threads are not.
        let kept =
            arguments.iter().filter(|argument| ["--ignored", "--include-ignored"].iter().any(|kept| argument == kept));
        let kept: Vec<OsString> = kept.cloned().collect();
        for test in &failed {
            let _ = writeln!(shown, "{test} IS RUN AGAIN.");
            let alone = [&kept[..], &["--exact".into(), test.into()]].concat();
            if run_once(program, &alone, "  again: ", shown)?.status == 0 {
                let _ = writeln!(shown, "{MARK}{test}");
                flaky += 1;
            }
        }
    }
    let passed = flaky > 0 && flaky == failed.len();
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(status) })
}

/// What came of a program.
struct Came {
    /// Its exit status.
    status: u8,
    /// The tests that failed.
    failed: Vec<String>,
    /// Whether one of them has found values for which a property does not hold.
    counterexample: bool,
}

/// Shows what the program says, each line behind a prefix.
fn run_once(program: &Path, arguments: &[OsString], prefix: &str, shown: &mut dyn Write) -> Result<Came> {
    let mut command = Command::new("timeout");
    command.args(TIMEOUT).arg(program).args(arguments).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let (mut failed, mut counterexample) = (Vec::new(), false);
    for line in BufReader::new(child.stdout.take().expect("piped")).split(b'\n') {
        let line = line.map_err(|error| format!("cannot read the output of {}: {error}", program.display()))?;
        // A reader that closes our output early must not stop the tests: what cannot be written is left out.
        let _ = shown.write_all(&[prefix.as_bytes(), &line, b"\n"].concat());
        let line = String::from_utf8_lossy(&line);
        failed.extend(failed_test(&line));
        counterexample |= line.contains(COUNTEREXAMPLE);
    }
    let status = child.wait().map_err(|error| format!("cannot wait for {}: {error}", program.display()))?;
    let status = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(Came { status, failed, counterexample })
}

/// The name of a failed test, if that is what the line says. Names of examples in documentation have spaces, and are not run again.
fn failed_test(line: &str) -> Option<String> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    (!name.contains(' ')).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A test program: `always` fails each time, `once` the first time, any other test never.
    const PROGRAM: &str = r#"#!/bin/sh
here=$(dirname "$0")
fails() { case "$1" in always) ;; once) [ ! -e "$here/run-before" ] ;; *) false ;; esac; }
ended=0
for test in ${2:-$(cat "$here/tests")}; do
    if fails "${test%.*}"; then echo "test $test ... FAILED"; ended=101; else echo "test $test ... ok"; fi
    case "$test" in *.property) echo 'minimal failing input: steps = [' ;; esac
done
touch "$here/run-before"
exit $ended
"#;

    /// Runs a program of this name with these tests, and gives its status and what is shown.
    fn ran(name: &str, tests: &str) -> (ExitCode, String) {
        let folder = std::env::temp_dir().join(format!("flaky-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("tests"), tests).expect("a file");
        let program = folder.join(name);
        std::fs::write(&program, PROGRAM).expect("a program");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("it can be started");
        let mut shown = Vec::new();
        let status = run_to(&program, &[], &mut shown).expect("it runs");
        std::fs::remove_dir_all(&folder).expect("the folder is removed");
        (status, String::from_utf8(shown).expect("text"))
    }

    #[test]
    fn few_failed_tests_are_run_again() {
        let (status, shown) = ran("passes-again", "fine once");
        assert_eq!(status, ExitCode::SUCCESS);
        assert_eq!(
            shown,
            "test fine ... ok\ntest once ... FAILED\nonce IS RUN AGAIN.\n  again: test once ... ok\n@flaky once\n"
        );
        let (status, shown) = ran("fails-again", "once always");
        assert_eq!(status, ExitCode::from(101));
        assert!(shown.ends_with("@flaky once\nalways IS RUN AGAIN.\n  again: test always ... FAILED\n"), "{shown}");
        for (name, tests) in
            [("many", "once once once once"), ("keys_attacks-0123", "once"), ("values", "fine once.property")]
        {
            let (status, shown) = ran(name, tests);
            assert!(status == ExitCode::from(101) && !shown.contains("AGAIN"), "{shown}");
        }
    }

    #[test]
    fn failed_tests_have_names() {
        assert_eq!(failed_test("test m::a ... FAILED").as_deref(), Some("m::a"));
        assert_eq!(failed_test("test src/lib.rs - f (line 3) ... FAILED"), None);
        assert_eq!(failed_test("test m::a ... ok"), None);
    }
}
