//! WASI preview 1 here and in Wasmtime: the same program makes the same calls in both, and what it prints, how it ends and the files that it
//! leaves are the same.
//!
//! ```text
//!   cases/SUBJECT.txt ──▶ conformance.wasm, in Monohull  on a mount in memory      ──▶ lines, end         ──┐
//!          │                                             in a granted directory    ──▶ lines, end, files  ──┤ compared, case by case
//!          └────────────▶ conformance.wasm, in Wasmtime  in a directory            ──▶ lines, end, files  ──┘
//! ```
//!
//! What no compiler here makes of WebAssembly is compared in the same way, in programs of its own (`proposals`).
//!
//! The program is `wasi/guests/c/conformance.c`, which reads such a file; each case has a directory of its own in it. Wasmtime is the module
//! of Python that `cargo xtask test` fetches. What may differ, and why, is in a table of `docs/wasi.md`: a difference that is not there fails,
//! and so does a row without a difference.

mod cases;
mod here;
mod in_wasmtime;
mod known;
mod outcome;
mod proposals;

use cases::{Case, Subject};
use here::{Here, Mount};
use in_wasmtime::Wasmtime;
use known::Known;
use libtest_mimic::{Arguments, Failed, Trial};
use outcome::{Outcome, first_difference};
use proposals::Proposals;
use std::path::Path;
use std::process::ExitCode;
use tempfile::TempDir;

/// Fewer cases than this are not what is promised.
const LEAST: usize = 200;

struct Tests {
    subjects: Vec<Subject>,
    known: Known,
    here: Here,
    wasmtime: Wasmtime,
    proposals: Proposals,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let subjects = cases::all();
    let place = TempDir::new().expect("a folder");
    let (here, wasmtime) = (place.path().join("here"), place.path().join("wasmtime"));
    let tests: &'static Tests = Box::leak(Box::new(Tests {
        here: Here::new(here, &subjects),
        wasmtime: Wasmtime::new(wasmtime),
        proposals: Proposals::new(place.path().join("proposals")),
        known: Known::read(),
        subjects,
    }));
    let mut trials = vec![
        Trial::test("there_are_enough_cases", || {
            let all: usize = tests.subjects.iter().map(|subject| subject.cases.len()).sum();
            if all < LEAST { Err(format!("{all} cases, {LEAST} are promised").into()) } else { Ok(()) }
        }),
        Trial::test("a_case_that_was_not_run_fails", cases_that_were_not_run),
        Trial::test("the_table_names_cases", || tests.known.check_names(&tests.subjects)),
    ];
    for mount in Mount::ALL {
        for subject in &tests.subjects {
            let trial = |case: &'static Case| {
                Trial::test(format!("{mount}::{}::{}", subject.name, case.name), move || {
                    compare(tests, mount, subject, case)
                })
            };
            let cases = subject.cases.iter().filter(|case| mount == Mount::Directory || case.is_for_memory());
            trials.extend(cases.map(trial));
        }
    }
    trials.extend(
        Proposals::names().map(|name| Trial::test(format!("proposals::{name}"), move || tests.proposals.compare(name))),
    );
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A run that ends at a line which the program does not understand, with a case behind it.
fn cases_that_were_not_run() -> Result<(), Failed> {
    let output = ["== first", "read 0", "== second", "", "wrong script: no action", ""].map(str::to_owned).to_vec();
    let whole = Outcome { output, end: "status 99".to_owned(), ..Outcome::default() };
    let of = |name: &str| whole.of_case(name, Path::new("nowhere"), false);
    of("first")?;
    for (name, why) in
        [("second", "wrong script: no action"), ("third", "not reached: the run has ended with status 99")]
    {
        match of(name) {
            Err(found) if found == why => {}
            other => return Err(format!("{name}: {:?}", other.map(|outcome| outcome.lines(true))).into()),
        }
    }
    Ok(())
}

fn compare(tests: &Tests, mount: Mount, subject: &Subject, case: &Case) -> Result<(), Failed> {
    let here = tests.here.outcome(mount, subject, case)?;
    let there = tests.wasmtime.outcome(&tests.subjects, subject, case)?;
    let with_files = mount == Mount::Directory;
    let (ours, theirs) = (here.lines(with_files), there.lines(with_files));
    let known = tests.known.of(mount, subject, case);
    match (first_difference(&ours, &theirs), known) {
        (None, None) => Ok(()),
        (None, Some(row)) => Err(format!("nothing differs: {row:?} of docs/wasi.md is to be removed").into()),
        (Some((ours_line, theirs_line)), Some(row)) if row.fits(ours_line, theirs_line) => Ok(()),
        (Some((ours_line, theirs_line)), row) => Err(format!(
            "here:        {ours_line}\nin Wasmtime: {theirs_line}\nin docs/wasi.md: {row:?}\n\nall lines here:\n{}\n\nand in Wasmtime:\n{}",
            ours.join("\n"),
            theirs.join("\n")
        )
        .into()),
    }
}
