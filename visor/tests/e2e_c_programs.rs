//! C programs of other projects as functions, as they are: what `cargo xtask build` makes of their sources.

mod support;

use monohull_visor::engine::RunOptions;
use monohull_visor::report::{FailureKind, RunReport, Silent, Status, Stream};
use serde_json::{Value, json};
use std::sync::Arc;

/// A workflow with one step that runs the program with these arguments, and reads the slot `input`.
fn document(program: &str, arguments: &[&str]) -> Value {
    json!({
        "name": program,
        "functions": { program: { "image": program } },
        "files": [{ "at": "/tmp", "memory": "16MiB" }],
        "steps": [{ "name": program, "function": program, "args": { "argv": arguments }, "stdin": "input" }],
        "inputs": ["input"],
        "limits": { "timeout": "60s" },
    })
}

fn options(input: &str) -> RunOptions {
    let inline_inputs = [("input".to_owned(), input.as_bytes().to_vec())].into();
    RunOptions { inline_inputs, ..RunOptions::default() }
}

fn run(document: &Value, input: &str) -> RunReport {
    support::run_with(document, &options(input), Arc::new(Silent))
}

/// The lines of one of its streams.
fn lines(report: &RunReport, stream: Stream) -> Vec<&str> {
    let lines = report.steps[0].instances[0].lines.iter();
    lines.filter(|line| line.stream == stream).map(|line| line.text.as_str()).collect()
}

/// What it printed, after it has succeeded.
#[track_caller]
fn printed(report: &RunReport) -> Vec<&str> {
    let errors = lines(report, Stream::Stderr);
    assert_eq!(report.status, Status::Done, "{errors:#?} {:#?}", report.error);
    lines(report, Stream::Stdout)
}

mod lua {
    use super::*;

    #[test]
    fn the_shipped_workflow_adds_up() {
        let ready = support::shipped("lua");
        let mut options = options("");
        let orders = b"Ada 3.50\nGrace 12\nnot an order\nAda 16.25\n";
        options.inline_inputs = [("orders".to_owned(), orders.to_vec())].into();
        let _one = support::one_at_a_time();
        let report = ready.run(&options, Arc::new(Silent)).expect("the host can hold a domain");
        assert_eq!(printed(&report), ["1. Ada         19.75", "2. Grace       12.00"]);
        assert_eq!(lines(&report, Stream::Stderr), ["skipped: not an order"]);
    }

    #[test]
    fn the_language_and_its_libraries() {
        let mut document = document("lua", &["-", "an argument"]);
        document["steps"][0]["env"] = json!({ "GREETING": "hello" });
        let report = run(&document, include_str!("c_programs/basics.lua"));
        assert_eq!(printed(&report), ["70 checks"]);
    }

    #[test]
    fn what_does_not_exist_is_refused_by_name() {
        let script = "print(os.execute('ls'))\nprint(pcall(io.popen, 'ls'))\nprint((package.loadlib('a.so', 'f')))\n";
        let report = run(&document("lua", &["-"]), script);
        let answers = ["nil\tFunction not implemented\t38", "true\tnil\tls: Function not implemented\t38", "nil"];
        assert_eq!(printed(&report), answers);
        let refusal = "monohull: a function is one process and cannot start another (fork, vfork, posix_spawn)";
        // Both of the first two need a process: one line.
        assert_eq!(lines(&report, Stream::Stderr), [refusal]);
    }

    #[test]
    fn errors_end_the_step_with_the_interpreters_words() {
        let report = run(&document("lua", &["-"]), "local order\nprint(order.price)\n");
        let error = report.error.as_ref().expect("a failure");
        assert_eq!((error.kind, error.message.as_str()), (FailureKind::Exit, "exited with status 1"));
        let words = lines(&report, Stream::Stderr);
        assert_eq!(words[0], "lua: stdin:2: attempt to index a nil value (local 'order')", "{words:#?}");
        assert_eq!(words[1], "stack traceback:");
        let report = run(&document("lua", &["-"]), "os.exit(3)");
        assert_eq!(report.error.expect("a failure").message, "exited with status 3");
    }

    /// The allocator says no, and the interpreter goes on.
    #[test]
    fn memory_ends_at_the_steps_limit() {
        let mut document = document("lua", &["-"]);
        document["steps"][0]["memory"] = json!("32MiB");
        let script = "local ok, why = pcall(function() local t = {} for n = 1, 1e9 do t[n] = ('x'):rep(1000) .. n end end)\n\
                      collectgarbage()\nprint(ok, why, #('y'):rep(1 << 20))\n";
        assert_eq!(printed(&run(&document, script)), ["false\tnot enough memory\t1048576"]);
    }

    #[test]
    fn an_endless_loop_ends_at_the_steps_timeout() {
        let mut document = document("lua", &["-e", "while true do end"]);
        document["steps"][0]["timeout"] = json!("300ms");
        let report = run(&document, "");
        assert_eq!(report.error.expect("a failure").kind, FailureKind::Timeout);
    }
}
