//! Every way to fail, from end to end: `monohull run workflows/failures/NAME.json` ends with the right status, and its
//! report names kind, culprit, place and the owner of the memory; so does the printed report.
//!
//! The images come from `cargo xtask build`; `cargo xtask test` does both.

use monohull_visor::domain::keys::support;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than any of these workflows takes on a busy machine, and shorter than what sleeps or loops in them.
const PATIENCE: Duration = Duration::from_secs(120);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows/failures")
}

/// Exit status, standard output and standard error of `monohull run workflows/failures/NAME.json OPTIONS…`.
fn monohull(name: &str, options: &[&str]) -> (i32, String, String) {
    let file = folder().join(name).with_extension("json");
    let start = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.arg("run").arg(file).args(options);
    // On kernels before 6.12 only who asks for keys has them.
    if support().is_available() {
        command.args(["--isolation", "mpk"]);
    }
    let output = command.stdin(Stdio::null()).output().expect("monohull starts");
    assert!(start.elapsed() < PATIENCE, "{name} took {:?}", start.elapsed());
    let text = |bytes| String::from_utf8(bytes).expect("all output is UTF-8");
    (output.status.code().expect("an exit status"), text(output.stdout), text(output.stderr))
}

/// What the libos modules are that a workflow of the folder loads: most have no use for any.
fn modules(name: &str) -> &'static [&'static str] {
    match name {
        "cancelled" | "sleep-too-long" | "time-stamp-counter" | "workflow-timeout" => &["stdio", "time"],
        "flaky" | "flaky-after-writing" | "flaky-with-input" | "missing-slot" | "not-allowed" => &["mm"],
        "terminal-output" => &["mm", "stdio"],
        "too-much-memory" | "too-much-slot-memory" => &["mm"],
        "output-flood" => &["stdio"],
        "thread-flood" => &["mm", "time"],
        _ => &[],
    }
}

/// The report of a run. It has loaded what it uses and no other module; one that was ended may not have come to each.
fn report(name: &str) -> (i32, Value) {
    let (status, stdout, stderr) = monohull(name, &["--json"]);
    let report: Value =
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{name}: {error}\n{stdout}\n{stderr}"));
    let loaded = report["modules"].as_array().unwrap_or_else(|| panic!("{name}: no modules: {report:#}"));
    let used = |module: &Value| module.as_str().is_some_and(|module| modules(name).contains(&module));
    assert!(loaded.iter().all(used), "{name}: {loaded:?}");
    (status, report)
}

/// A run that failed as it should, for further questions.
struct Failed {
    report: Value,
    error: Value,
    /// What `monohull run` says without `--json`.
    words: String,
}

/// Runs a workflow that must fail with this kind of failure, of this culprit.
#[track_caller]
fn fails(name: &str, kind: &str, blame: &str) -> Failed {
    let (status, report) = report(name);
    let error = report["error"].clone();
    assert_eq!((status, report["status"].as_str()), (1, Some("failed")), "{report:#}");
    assert_eq!((error["kind"].as_str(), error["blame"].as_str()), (Some(kind), Some(blame)), "{error:#}");
    let (status, _, words) = monohull(name, &[]);
    assert_eq!(status, 1, "{words}");
    assert!(words.contains(&format!("{kind}: ")), "{words}");
    let culprit = if blame == "function" { "the function" } else { "the workflow" };
    assert!(words.contains(&format!("at fault  {culprit}")), "{words}");
    Failed { report, error, words }
}

/// The same for a failure of the one instance of step `fail`.
#[track_caller]
fn function_fails(name: &str, kind: &str) -> Failed {
    let failed = fails(name, kind, "function");
    let error = &failed.error;
    let who = (error["step"].as_str(), error["instance"].as_u64(), error["function"].as_str());
    assert_eq!(who, (Some("fail"), Some(0), Some("misbehave")), "{error:#}");
    assert!(failed.words.contains(&format!("fail[0] (function misbehave): {kind}: ")), "{}", failed.words);
    failed
}

impl Failed {
    /// The message holds this text, in the JSON report and in the printed one.
    #[track_caller]
    fn says(self, text: &str) -> Failed {
        let message = self.error["message"].as_str().expect("a failure has a message");
        assert!(message.contains(text), "{message}");
        assert!(self.words.contains(text), "{}", self.words);
        self
    }

    /// The failure happened in this function of the image, and the report gives the offset.
    #[track_caller]
    fn at(self, function: &str) -> Failed {
        let place = &self.error["ip"];
        let symbol = place["symbol"].as_str().unwrap_or_else(|| panic!("no symbol: {:#}", self.error));
        assert!(symbol.starts_with(&format!("{function} + 0x")), "{symbol}");
        assert!(place["offset"].is_u64(), "{place}");
        // The printed report is of another run: a loop was perhaps interrupted an instruction further.
        let place = |line: &str| line.contains("at        0x") && line.contains(&format!(" {function} + 0x"));
        assert!(self.words.lines().any(place), "{}", self.words);
        self
    }

    /// The functions that led there include `main`'s, and the place itself is not among them a second time.
    #[track_caller]
    fn called_from_main(self) -> Failed {
        let frames = self.error["backtrace"].as_array().unwrap_or_else(|| panic!("no backtrace: {:#}", self.error));
        let symbols: Vec<&str> = frames.iter().filter_map(|frame| frame["symbol"].as_str()).collect();
        assert!(symbols.iter().any(|symbol| symbol.starts_with("misbehave::")), "{symbols:?}");
        assert!(symbols.iter().any(|symbol| symbol.starts_with("monohull_std::rt::start")), "{symbols:?}");
        assert_ne!(frames[0], self.error["ip"]);
        self
    }

    /// It was about this address, and the report knows whose memory that is.
    #[track_caller]
    fn touched(self, address: impl FnOnce(u64) -> bool, owner: &str) -> Failed {
        let touched = self.error["address"].as_u64().unwrap_or_else(|| panic!("no address: {:#}", self.error));
        assert!(address(touched), "{touched:#x}");
        assert_eq!(self.error["address_of"], owner);
        // The host lays trusted memory out anew in each run, so the number may differ.
        let line = self.words.lines().find(|line| line.contains("address   0x")).expect("the address in words");
        assert!(line.ends_with(&format!(", {owner}")), "{line}");
        self
    }

    /// No memory was at fault.
    #[track_caller]
    fn touched_nothing(self) -> Failed {
        assert_eq!(self.error.get("address"), None, "{:#}", self.error);
        self
    }

    /// How often the failing step was tried.
    #[track_caller]
    fn attempts(self, attempts: u64) -> Failed {
        let steps = self.report["steps"].as_array().expect("steps");
        let step = steps.iter().find(|step| step["name"] == "fail").expect("the step that fails");
        assert_eq!(step["attempts"], attempts, "{step:#}");
        self
    }
}

/// Runs a workflow that must succeed.
#[track_caller]
fn succeeds(name: &str) -> Value {
    let (status, report) = report(name);
    assert_eq!((status, report["status"].as_str()), (0, Some("done")), "{report:#}");
    assert_eq!(report["error"], Value::Null);
    report
}

/// Where nothing is mapped, in the system partition; see `examples/misbehave`.
const UNMAPPED: u64 = 0x6666_0000_0000;

/// An address of a cell.
fn in_a_cell(address: u64) -> bool {
    use monohull_abi::layout::{CELLS_BASE, CELLS_END};
    (CELLS_BASE..CELLS_END).contains(&address)
}

/// A terminal that is paused, or a pager: what a function prints finds no reader for longer than the step may take. The
/// function continues, and every line is printed in the end.
#[test]
fn a_reader_that_stops_keeps_no_function_from_going_on() {
    const LIMIT: Duration = Duration::from_secs(8);
    let image = folder().join("../../target/images/misbehave.so");
    let document = json!({
        "name": "unread",
        "functions": { "misbehave": { "image": image } },
        "steps": [{ "name": "flood", "function": "misbehave", "args": { "how": "output-flood" }, "timeout": "8s" }],
        "limits": { "output": "16MiB" },
    });
    let file = tempfile::NamedTempFile::with_suffix(".json").expect("a file");
    std::fs::write(file.path(), document.to_string()).expect("written");
    let mut child = Command::new(env!("CARGO_BIN_EXE_monohull"))
        .arg("run")
        .arg(file.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("monohull starts");
    std::thread::sleep(LIMIT + LIMIT / 4);
    let mut printed = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut printed).expect("text");
    let output = child.wait_with_output().expect("a child");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let lines = printed.lines().filter_map(|line| line.strip_prefix("flood[0] | line ")?.split(' ').next());
    assert!(lines.eq((0..100_000).map(|line| line.to_string())), "all lines, each once, in their order");
}

#[test]
fn panic() {
    let failed = function_fails("panic", "panic").says("thread 'main' panicked at examples/misbehave/src/lib.rs:");
    failed.says("as requested").at("misbehave::panics").called_from_main().touched_nothing();
}

#[test]
fn return_error() {
    let failed = function_fails("return-error", "error").says("invalid digit found in string").attempts(1);
    // Where `main` has returned it is no news.
    assert_eq!((failed.error.get("ip"), failed.error.get("backtrace")), (None, None), "{:#}", failed.error);
}

#[test]
fn permanent_error() {
    let failed = function_fails("permanent-error", "permanent").says("invalid digit found in string").attempts(1);
    assert!(failed.report["steps"][0]["instances"][0].get("failed_attempts").is_none());
}

/// Each attempt has the same arguments.
#[test]
fn wrong_argument() {
    let failed = function_fails("wrong-argument", "permanent").attempts(1);
    let failed = failed.says("argument `nap`: invalid value: integer `-1`, expected u64");
    assert_eq!((failed.error.get("ip"), failed.error.get("backtrace")), (None, None), "{:#}", failed.error);
}

/// The list is the same in each attempt.
#[test]
fn not_allowed() {
    function_fails("not-allowed", "error")
        .says("slot `forbidden` is not in the step's list `fills`")
        .says("not tried again, as the workflow file does not allow it this")
        .attempts(1);
}

#[test]
fn exit_status() {
    function_fails("exit-status", "exit").says("exited with status 3");
}

#[test]
fn null_write() {
    let failed = function_fails("null-write", "memory-fault").touched(|address| address == 0, "the null page");
    failed.at("misbehave::memory::null_write").called_from_main();
}

#[test]
fn wild_read() {
    let failed = function_fails("wild-read", "memory-fault").at("misbehave::memory::wild_read").called_from_main();
    failed.touched(|address| address == UNMAPPED, "in the system partition");
}

#[test]
fn write_trusted() {
    let failed = function_fails("write-trusted", "memory-fault").at("misbehave::memory::write_trusted");
    failed.called_from_main().touched(|address| !in_a_cell(address), "in the system partition");
}

#[test]
fn write_code() {
    let failed = function_fails("write-code", "memory-fault").at("misbehave::memory::write_code").called_from_main();
    failed.touched(in_a_cell, "its own code, which is read-only");
}

#[test]
fn execute_data() {
    let failed = function_fails("execute-data", "memory-fault").at("misbehave::memory::execute_data");
    failed.says("jumped to ").called_from_main().touched(in_a_cell, "its own data, which is not executable");
}

#[test]
fn wild_jump() {
    let failed = function_fails("wild-jump", "memory-fault").at("misbehave::memory::wild_jump").called_from_main();
    let failed = failed.says("jumped to 0x666600000000, which is in the system partition");
    failed.touched(|address| address == UNMAPPED, "in the system partition");
}

#[test]
fn stack_overflow() {
    let failed = function_fails("stack-overflow", "stack-overflow").says("overran its stack of 1020 KiB");
    failed.at("misbehave::memory::recurse").touched(in_a_cell, "the guard page of its own stack");
}

#[test]
fn stack_overflow_in_thread() {
    let failed = function_fails("stack-overflow-in-thread", "stack-overflow").says("overran its stack of 1020 KiB");
    failed.at("misbehave::memory::recurse").touched(in_a_cell, "the guard page of its own stack");
}

#[test]
fn stack_of_signals() {
    let failed = function_fails("stack-of-signals", "illegal-instruction").touched_nothing();
    failed.at("misbehave::memory::stack_of_signals").called_from_main();
}

#[test]
fn divide_by_zero() {
    let failed = function_fails("divide-by-zero", "arithmetic").says("divided an integer by zero").touched_nothing();
    failed.at("misbehave::processor::divide_by_zero").called_from_main();
}

#[test]
fn illegal_instruction() {
    let failed = function_fails("illegal-instruction", "illegal-instruction").touched_nothing();
    failed.at("misbehave::processor::illegal_instruction").called_from_main();
}

/// The clocks that functions may look at go all the same, and so do the libos's own: on each thread that runs functions.
#[test]
fn time_stamp_counter() {
    let failed = function_fails("time-stamp-counter", "time-stamp-counter").says("which its workflow denies");
    let lines = &failed.report["steps"][0]["instances"][0]["lines"];
    assert_eq!(lines[0]["text"], "the clocks go", "{:#}", failed.report);
    failed.at("misbehave::processor::time_stamp_counter").called_from_main().touched_nothing();
}

#[test]
fn breakpoint() {
    function_fails("breakpoint", "trap").at("misbehave::processor::breakpoint").called_from_main().touched_nothing();
}

#[test]
fn single_step() {
    function_fails("single-step", "trap").at("misbehave::processor::single_step").called_from_main();
}

#[test]
fn unmasked_float() {
    let failed = function_fails("unmasked-float", "arithmetic").says("floating-point exception").touched_nothing();
    failed.at("misbehave::processor::unmasked_float").called_from_main();
}

#[test]
fn alignment_check() {
    let failed = function_fails("alignment-check", "memory-fault").says("misaligned").touched_nothing();
    failed.at("misbehave::processor::alignment_check").called_from_main();
}

#[test]
fn raw_system_call() {
    let failed = function_fails("raw-system-call", "system-call").says("made system call 39 directly");
    failed.at("misbehave::processor::raw_system_call").called_from_main().touched_nothing();
}

#[test]
fn raw_system_call_32() {
    let failed = function_fails("raw-system-call-32", "system-call").says("made system call 20 directly");
    failed.at("misbehave::processor::raw_system_call_32").called_from_main().touched_nothing();
}

/// The 32-bit code segment has the same rights and none of the code; some hosts have none.
#[track_caller]
fn leads_nowhere(name: &str) {
    let failed = function_fails(name, "memory-fault");
    let message = failed.error["message"].as_str().expect("a failure has a message");
    assert!(message.contains("jumped to") || message.contains("an instruction that needs privilege"), "{message}");
}

#[test]
fn far_return() {
    leads_nowhere("far-return");
}

#[test]
fn interrupt_return() {
    leads_nowhere("interrupt-return");
}

/// Where the kernel has such a page, it is a system call like any other, and the instance alone ends.
#[test]
fn vsyscall() {
    let (status, report) = report("vsyscall");
    let error = &report["error"];
    assert_eq!(
        (status, error["step"].as_str(), error["blame"].as_str()),
        (1, Some("fail"), Some("function")),
        "{error:#}"
    );
    let message = error["message"].as_str().expect("a failure has a message");
    match error["kind"].as_str() {
        Some("system-call") => assert!(message.contains("made system call 96 directly"), "{message}"),
        kind => assert!(kind == Some("memory-fault") && message.contains("0xffffffffff600000"), "{error:#}"),
    }
}

#[test]
fn lost_thread_pointer() {
    if support().is_available() {
        // With keys in force the owner of this signal stack cannot be determined: a signal ends the process.
        fails("lost-thread-pointer", "process", "function").says("was ended by SIGSEGV");
        return;
    }
    function_fails("lost-thread-pointer", "memory-fault").touched(|address| address == 0, "the null page");
}

#[test]
fn lost_gate() {
    // The second attempt runs on the same carrier: had that lost its gate, it would fail at its first hostcall.
    let failed = function_fails("lost-gate", "memory-fault").attempts(2).at("misbehave::processor::lost_gate");
    failed.touched(|address| address == 0, "the null page");
}

#[test]
fn endless_loop() {
    let failed = function_fails("endless-loop", "timeout").says("ran longer than 200ms, its timeout");
    failed.at("misbehave::waits::endless_loop").called_from_main();
}

#[test]
fn endless_loop_in_thread() {
    let failed = function_fails("endless-loop-in-thread", "timeout").says("ran longer than 200ms, its timeout");
    failed.at("misbehave::waits::endless_loop");
}

#[test]
fn sleep_too_long() {
    let failed = function_fails("sleep-too-long", "timeout").says("ran longer than 1s, its timeout");
    // What was printed before is in the report.
    assert_eq!(failed.report["steps"][0]["instances"][0]["lines"][0]["text"], "good night");
}

#[test]
fn workflow_timeout() {
    let failed = fails("workflow-timeout", "timeout", "workflow").says("the workflow ran longer than 100ms");
    assert_eq!(failed.report["steps"][0]["status"], "cancelled");
}

#[test]
fn workflow_timeout_in_loop() {
    let failed = fails("workflow-timeout-in-loop", "timeout", "workflow").says("the workflow ran longer than 100ms");
    assert_eq!(failed.report["steps"][0]["status"], "cancelled");
}

#[test]
fn deadlock() {
    function_fails("deadlock", "deadlock")
        .says("no thread is left that could end the wait")
        .at("misbehave::waits::deadlock");
}

#[test]
fn missing_slot() {
    function_fails("missing-slot", "error").says("no instance is left that could fill slot `never-filled`");
}

#[test]
fn too_much_memory() {
    let failed = function_fails("too-much-memory", "memory-limit").says("its memory limit is 16777216 bytes");
    failed.at("misbehave::limits::too_much_memory").called_from_main();
}

#[test]
fn too_much_slot_memory() {
    let failed = function_fails("too-much-slot-memory", "memory-limit").says("its memory limit is 16777216 bytes");
    failed.at("misbehave::limits::too_much_slot_memory").called_from_main();
}

#[test]
fn output_flood() {
    let report = succeeds("output-flood");
    let lines = report["steps"][0]["instances"][0]["lines"].as_array().expect("lines");
    let bytes: usize = lines.iter().map(|line| line["text"].as_str().expect("text").len() + 32).sum();
    assert!((60 << 10..65 << 10).contains(&bytes), "{bytes} bytes of output are kept");
    assert_eq!(lines[0]["text"], "line 0 of very many");
    assert_eq!(lines[lines.len() - 1]["text"], "(output beyond the limit of 65536 bytes was dropped)");
}

#[test]
fn thread_flood() {
    let failed = function_fails("thread-flood", "panic").says("no more than 100 threads at a time");
    failed.at("misbehave::limits::thread_flood").called_from_main();
}

#[test]
fn flaky() {
    let report = succeeds("flaky");
    assert_eq!(
        (&report["steps"][0]["attempts"], &report["output"]["result"]["text"]),
        (&3.into(), &"attempt 3".into())
    );
}

/// Each attempt's error is in the report: of an instance that succeeds in the end, and of one that does not.
#[test]
fn attempts_that_failed_are_in_the_report() {
    let messages = |report: &Value| -> Vec<(u64, String)> {
        let attempts = report["steps"].as_array().expect("steps").iter().flat_map(|step| {
            step["instances"]
                .as_array()
                .expect("instances")
                .iter()
                .flat_map(|instance| instance["failed_attempts"].as_array())
        });
        let attempts = attempts.flatten().map(|attempt| {
            let error = &attempt["error"];
            (attempt["attempt"].as_u64().expect("a number"), error["message"].as_str().expect("words").to_owned())
        });
        attempts.collect()
    };
    let unlucky = [1, 2].map(|attempt| (attempt, format!("attempt {attempt} has no luck")));
    for name in ["flaky", "flaky-with-input", "flaky-after-writing"] {
        assert_eq!(messages(&succeeds(name)), unlucky, "{name}");
    }
    let attempts = messages(&function_fails("flaky-always", "memory-fault").report);
    assert_eq!(attempts.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [1, 2]);
    assert!(attempts[1].1.contains("address 0x0"), "{}", attempts[1].1);
}

#[test]
fn flaky_otherwise() {
    function_fails("flaky-otherwise", "error").says("attempt 1 has no luck").attempts(1);
}

#[test]
fn flaky_always() {
    function_fails("flaky-always", "memory-fault").attempts(3).at("misbehave::memory::null_write");
}

#[test]
fn flaky_with_input() {
    let report = succeeds("flaky-with-input");
    let attempts = |step: usize| report["steps"][step]["attempts"].as_u64();
    assert_eq!((attempts(0), attempts(1)), (Some(1), Some(3)), "the failed instance alone is tried again");
    assert_eq!(report["output"]["result"]["text"], "attempt 3");
}

#[test]
fn flaky_after_writing() {
    let report = succeeds("flaky-after-writing");
    let attempts = |step: usize| report["steps"][step]["attempts"].as_u64();
    assert_eq!((attempts(0), attempts(1)), (Some(3), Some(3)), "the whole workflow is tried again");
    assert_eq!(report["output"]["result"]["text"], "attempt 3");
}

#[test]
fn cancelled() {
    let failed = function_fails("cancelled", "panic");
    let steps = failed.report["steps"].as_array().expect("steps");
    let ended = |name: &str| {
        let step = steps.iter().find(|step| step["name"] == name).expect("a step");
        (step["status"].as_str().expect("a status").to_owned(), step["attempts"].as_u64())
    };
    assert_eq!(ended("fail"), ("failed".to_owned(), Some(1)));
    assert_eq!(ended("sleep"), ("cancelled".to_owned(), Some(1)));
    assert_eq!(ended("never"), ("cancelled".to_owned(), Some(0)));
}

#[test]
fn unfilled_output() {
    let failed = fails("unfilled-output", "output", "workflow").says("no function filled the output slot `result`");
    assert_eq!(failed.report["steps"][0]["status"], "done");
}

#[test]
fn forbidden_instruction() {
    let (status, refused) = report("forbidden-instruction");
    assert_eq!((status, refused["status"].as_str()), (2, Some("refused")), "{refused:#}");
    assert_eq!((&refused["error"]["blame"], &refused["steps"]), (&"function".into(), &Value::Array(Vec::new())));
    let (status, _, words) = monohull("forbidden-instruction", &[]);
    assert_eq!(status, 2, "{words}");
    for said in ["WRGSBASE", "forbidden_instruction::take_the_gate", "forbidden-instruction"] {
        assert!(words.contains(said) && refused["error"]["message"].to_string().contains(said), "{said}: {words}");
    }
}

/// What of it reaches a terminal, and how, is tested in `cli_terminal.rs`.
#[test]
fn text_for_terminals() {
    assert_eq!(succeeds("terminal-output")["status"], "done");
    function_fails("terminal-panic", "panic").says("fdp.exe");
}

/// Each example has a test: this file must name it.
#[test]
fn every_file_has_its_test() {
    let tests = include_str!("e2e_failures.rs");
    for entry in folder().read_dir().expect("the folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name in UTF-8");
        assert!(tests.contains(&format!("(\"{name}\"")), "no test runs {}", path.display());
    }
}
