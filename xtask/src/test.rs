//! Builds everything, runs every test, and ends with one plain line: how many passed and failed.

use crate::count::{Count, count};
use crate::extent::Extent;
use crate::workspace::Workspace;
use crate::{
    Result, browser, build, c_suites, cxx, fat_tools, flaky, libc_tests, lint, network, python, sandboxes, shell, vm,
    wasi,
};

/// Names of test programs, which may end in `*`, and what they need.
type WithImages = (&'static str, fn() -> Result);

/// Tells tests that go through many cases to go through all of them.
const EXHAUSTIVE: &str = "MONOHULL_EXHAUSTIVE";
/// What the closing lines say where it is not set.
const SAMPLED: &str = "changes of disk images were interrupted at a third of all places, commands, commits and servers killed at a \
    third to a half of the moments that are tried, a run was suspended 60 times of 1 000 and halted 40 times of 400 at random moments on each kind of file \
    system, a run that changes memory went on from six of its captures, processes that are used \
    again served 1 000 invocations of 100 000, 200 sleepers of 1 000 were redeployed under, and 300 to 3 000 runs of 1 000 to 10 000 \
    looked for what they leave behind; `cargo xtask test --full` tries all";

/// Test programs of the visor whose ignored tests need images that take minutes to compile, and what compiles them.
const WITH_IMAGES: [WithImages; 6] = [
    ("published_crates", build::published),
    ("python_*", python_programs),
    ("cxx_programs", cxx::build),
    ("libc_tests", libc_tests::build),
    ("c_suites", c_suites::build),
    ("wasi_programs", build::c_programs_wasi),
];
/// What of programs runs with `--full` alone.
const PROGRAMS: &str = "libc-test, the own suites of C programs (Lua, SQLite, jq, Oniguruma, QuickJS, zlib), C++, the crate image, Python but for seven tests, \
    and C programs of other projects as WebAssembly";
/// What the closing lines say of the seven.
const PYTHON_SAMPLED: &str = "of Python seven tests ran (how a program starts and ends, packages, threads with files, sockets and a database, \
    slots, a sleep in two processes, five modules of CPython's own tests), with an interpreter that is compiled with -O1 and has no OpenSSL";
/// Tests of Python programs that run each time.
const PYTHON: [&str; 7] = [
    "arguments_environment_and_input",
    "ends",
    "a_folder_with_packages_and_a_wheel",
    "threads_files_sockets_and_databases",
    "slots_are_views_of_their_memory",
    "a_program_that_sleeps_goes_on_in_another_process",
    "a_handful_of_cpythons_own_tests",
];
/// Where they are.
const PYTHON_PROGRAMS: [&str; 2] = ["python_programs", "python_own"];

/// All lanes.
pub(crate) fn run(arguments: &[String], extent: Extent) -> Result {
    all(arguments, extent)?.close()
}

/// All lanes, counted. Each is run to its end even if an earlier one fails, so that the closing line counts everything.
pub(crate) fn all(arguments: &[String], extent: Extent) -> Result<Count> {
    // Arguments are for the programs of this machine alone.
    if arguments.is_empty() {
        build::everything_for_keys()?
    } else {
        build::everything()?
    }
    browser::ready()?;
    // The commands of the documentation use curl.
    network::peers()?;
    fat_tools::ready()?;
    // Tests of WebAssembly programs compare with it.
    sandboxes::wasmtime()?;
    let workspace = Workspace::load()?;
    let mut total = Count::default();
    // This machine: release and debug make the same promises, so the everyday build is tested.
    for packages in lint::groups(&workspace) {
        let mut command = flaky::cargo_test()?;
        command.args(packages).arg("--").args(arguments);
        if extent == Extent::Full {
            command.env(EXHAUSTIVE, "1");
        }
        total.add(count(&mut command)?);
    }
    if arguments.is_empty() {
        total.add(count(&mut wasi::tests(&workspace))?);
    }
    if extent == Extent::Sampled {
        total.notes.push(SAMPLED.to_owned());
    }
    total.notes.extend(left_out(total.ignored, arguments.is_empty(), extent));
    if arguments.is_empty() && extent == Extent::Full {
        for (programs, build) in WITH_IMAGES {
            build()?;
            total.add(ignored_tests(programs)?);
        }
    }
    // The same suite where there are protection keys.
    if arguments.is_empty() {
        total.add(attacks_here()?);
        total.add(vm::lane::run(extent)?);
        total.add(network::run(extent)?);
    }
    // Last, because `cargo xtask ci` compiles the interpreter beside all others.
    if arguments.is_empty() && extent == Extent::Sampled {
        total.add(sample_of_python()?);
    }
    Ok(total)
}

/// Runs the tests that are named in [`PYTHON`], in the build that all native tests have.
fn sample_of_python() -> Result<Count> {
    shell::heading("a sample of Python's tests");
    let folder = match python::build_small() {
        Ok(folder) => folder,
        Err(why) => return Ok(Count::failure(&format!("the interpreter of Python programs: {why}"))),
    };
    let mut command = flaky::cargo_test()?;
    command.args(lint::with_std(&Workspace::load()?)).args(PYTHON_PROGRAMS.iter().flat_map(|name| ["--test", name]));
    command.args(["--", "--ignored", "--exact"]).args(PYTHON);
    let mut count = count(command.env("MONOHULL_PYTHON", folder))?;
    count.notes.push(PYTHON_SAMPLED.to_owned());
    Ok(count)
}

fn python_programs() -> Result {
    python::build(&[python::Package::Numpy])?;
    python::wasi::build()
}

/// Runs the ignored tests of test programs of the visor.
fn ignored_tests(programs: &str) -> Result<Count> {
    count(flaky::cargo_test()?.args(["-p", "monohull-visor", "--test", programs, "--", "--ignored"]))
}

/// What the closing count of passed and failed tests does not show: tests that this machine ignored, and what was left out.
fn left_out(ignored: u64, all_lanes: bool, extent: Extent) -> Vec<String> {
    let lanes = "the lanes with protection keys and of networks (`--keys`, `--network`)";
    let images = "images that take minutes to compile (docs/programs.md)";
    let mut notes = Vec::new();
    if ignored > 0 {
        notes.push(match (all_lanes, extent) {
            (true, Extent::Full) => format!("{ignored} were ignored at first, and run in {lanes}, or with {images}"),
            (true, Extent::Sampled) => format!("{ignored} ignored here, run in {lanes}, or need {images}"),
            (false, _) => format!("{ignored} ignored here, they need {lanes}, or {images}"),
        });
    }
    if !all_lanes {
        notes.push(format!("arguments were given: {lanes}, and the sample of Python's tests were left out"));
    }
    if !all_lanes || extent == Extent::Sampled {
        notes.push(format!("of programs were left out: {PROGRAMS}; `cargo xtask test --full` runs them"));
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
    build::everything_for_keys()?;
    let mut total = attacks_here()?;
    total.add(vm::lane::run(extent)?);
    total.close()
}

/// What is ignored without protection keys, natively, if this processor has some: the rest of the suite has used them already. If it has
/// none: what finds remains of earlier invocations, and its controls, which take the strictest isolation that there is.
fn attacks_here() -> Result<Count> {
    let processor = std::fs::read_to_string("/proc/cpuinfo").map_err(|error| format!("/proc/cpuinfo: {error}"))?;
    if !processor.split_whitespace().any(|flag| flag == "ospke") {
        shell::heading("this processor has no protection keys: attacks on them run in the virtual machine alone");
        let mut command = flaky::cargo_test()?;
        command.args(["--test", "keys_reuse"]).args(lint::with_std(&Workspace::load()?)).args([
            "--",
            "--ignored",
            "negative::",
        ]);
        return count(&mut command);
    }
    shell::heading("attacks, with this processor's own protection keys");
    build::unhardened_visor()?;
    let mut command = flaky::cargo_test()?;
    command.args(["--test", "keys_*"]).args(lint::with_std(&Workspace::load()?));
    // One after the other: some use up all there is.
    command.args(["--", "--ignored", "--test-threads=1"]);
    count(&mut command)
}

#[cfg(test)]
mod tests {
    use super::{Extent, PYTHON, PYTHON_PROGRAMS, SAMPLED, WITH_IMAGES, left_out};
    use crate::workspace::root;
    use std::fs;

    #[test]
    fn tests_that_are_ignored_for_an_image_run_with_full() {
        let entries =
            fs::read_dir(root().join("visor/tests")).expect("tests").map(|entry| entry.expect("an entry").path());
        let programs = entries.filter(|path| {
            let file = if path.is_dir() { path.join("main.rs") } else { path.clone() };
            let text = fs::read_to_string(file).unwrap_or_default();
            text.lines().any(|line| line.starts_with("#[ignore = ") && line.contains("cargo xtask build --"))
        });
        let names: Vec<_> =
            programs.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
        assert!(names.len() >= 6, "{names:?}");
        for name in names {
            let runs = WITH_IMAGES.iter().any(|(pattern, _)| match pattern.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == *pattern,
            });
            assert!(runs, "no lane runs the ignored tests of {name}");
        }
    }

    #[test]
    fn the_sample_of_python_is_there() {
        let text = |name: &&str| fs::read_to_string(root().join("visor/tests").join(name).with_extension("rs"));
        let programs: Vec<_> = PYTHON_PROGRAMS.iter().map(|name| text(name).expect("a test program")).collect();
        for name in PYTHON {
            let ignored = format!("build --python`\"]\nfn {name}() {{\n");
            assert!(programs.iter().any(|program| program.contains(&ignored)), "there is no ignored test {name}");
        }
    }

    /// `docs/continuations.md` rests on these runs: what a shorter one leaves out is said.
    #[test]
    fn how_often_a_run_is_interrupted_is_noted() {
        let test = fs::read_to_string(root().join("visor/tests/domain_exact.rs")).expect("a test program");
        assert!(test.contains("some_of(60, 1000)") && test.contains("LEAST_HALTS: u32 = 40"));
        assert!(test.contains("some_of(LEAST_HALTS, 10 * LEAST_HALTS)"));
        for part in ["60 times of 1 000", "40 times of 400"] {
            assert!(SAMPLED.contains(part), "{part}");
        }
    }

    #[test]
    fn what_was_left_out_is_noted() {
        assert!(left_out(0, true, Extent::Full).is_empty());
        let [ignored] = &left_out(7, true, Extent::Full)[..] else { panic!("one note") };
        assert!(ignored.starts_with("7 were ignored at first, and run in the lanes"), "{ignored}");
        let [ignored, programs] = &left_out(7, true, Extent::Sampled)[..] else { panic!("two notes") };
        assert!(ignored.starts_with("7 ignored here, run in the lanes"), "{ignored}");
        for part in ["libc-test", "Lua", "SQLite", "C++", "image", "Python", "--full"] {
            assert!(programs.contains(part), "{part}: {programs}");
        }
        for extent in [Extent::Full, Extent::Sampled] {
            let [ignored, lanes, last] = &left_out(7, false, extent)[..] else { panic!("three notes") };
            assert!(ignored.starts_with("7 ignored here, they need the lanes"), "{ignored}");
            assert!(lanes.starts_with("arguments were given: the lanes") && lanes.ends_with("left out"), "{lanes}");
            assert_eq!(last, programs);
        }
    }
}
