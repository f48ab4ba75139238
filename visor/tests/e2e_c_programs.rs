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

/// Runs a shipped workflow on these orders; on none if it has no input.
fn shipped(name: &str, orders: Option<&str>) -> RunReport {
    let ready = support::shipped(name);
    let mut options = options("");
    options.inline_inputs =
        orders.map(|orders| ("orders".to_owned(), orders.as_bytes().to_vec())).into_iter().collect();
    let _one = support::one_at_a_time();
    ready.run(&options, Arc::new(Silent)).expect("the host can hold a domain")
}

/// How a run failed that printed these lines on its standard error.
#[track_caller]
fn failed<'a>(report: &'a RunReport, error: &str) -> Vec<&'a str> {
    let lines = lines(report, Stream::Stderr);
    assert_eq!(report.error.as_ref().expect("a failure").message, error, "{lines:#?}");
    lines
}

/// What starting another process is refused with.
const NO_PROCESS: &str = "monohull: a function is one process and cannot start another (fork, vfork, posix_spawn)";

mod lua {
    use super::*;

    #[test]
    fn the_shipped_workflow_adds_up() {
        let report = shipped("lua", Some("Ada 3.50\nGrace 12\nnot an order\nAda 16.25\n"));
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
        // Both of the first two need a process: one line.
        assert_eq!(lines(&report, Stream::Stderr), [NO_PROCESS]);
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

mod sqlite {
    use super::*;

    /// Runs orders of the shell on the database `/tmp/a.db`.
    fn asked(orders: &str) -> RunReport {
        run(&document("sqlite3", &["-init", "/dev/null", "-batch", "/tmp/a.db"]), orders)
    }

    #[test]
    fn the_shipped_workflow_adds_up() {
        let report = shipped("sqlite3", Some("Ada,3.50\nGrace,12\nAda,16.25\n"));
        assert_eq!(printed(&report), ["Ada,2,19.75", "Grace,1,12.00"]);
    }

    #[test]
    fn tables_indices_transactions_and_extensions() {
        let orders = "\
            CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);\n\
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) INSERT INTO t SELECT i, 'row ' || i FROM n;\n\
            CREATE INDEX by_b ON t (b);\n\
            SELECT count(*), sum(a), max(b), (SELECT a FROM t WHERE b = 'row 4321') FROM t;\n\
            BEGIN; DELETE FROM t WHERE a > 10; SELECT count(*) FROM t; ROLLBACK; SELECT count(*) FROM t;\n\
            CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f VALUES ('the quick fox'), ('a slow dog'); SELECT x FROM f WHERE f MATCH 'qui*';\n\
            CREATE VIRTUAL TABLE r USING rtree(id, a, b); INSERT INTO r VALUES (1, 0, 5); SELECT id FROM r WHERE a < 3;\n\
            SELECT json_extract('{\"a\": [1, 2]}', '$.a[1]'), sqrt(16), datetime('2026-11-24', '+1 day');\n\
            VACUUM; PRAGMA integrity_check;\n";
        let answers =
            ["10000|50005000|row 9999|4321", "10", "10000", "the quick fox", "1", "2|4.0|2026-11-25 00:00:00", "ok"];
        assert_eq!(printed(&asked(orders)), answers);
    }

    /// The log's index is a mapping that the connections of the instance share.
    #[test]
    fn a_write_ahead_log() {
        let script = "PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (42);\n\
                      ATTACH '/tmp/a.db' AS again; SELECT sum(a) FROM again.t; DETACH again;\n\
                      INSERT INTO t SELECT value FROM generate_series(1, 1000); SELECT count(*) FROM t;\n\
                      PRAGMA integrity_check; PRAGMA journal_mode = DELETE;\n";
        assert_eq!(printed(&asked(script)), ["wal", "42", "1001", "ok", "delete"]);
    }

    #[test]
    fn what_does_not_exist_is_refused_by_name() {
        let report = asked(".shell ls\n.load other\n.output '|cat'\nSELECT 'goes on';\n");
        assert_eq!(lines(&report, Stream::Stdout), ["goes on"]);
        let words = lines(&report, Stream::Stderr);
        assert_eq!(words[..3], [NO_PROCESS, "System command returns -1", "Error: Dynamic loading not supported"]);
        assert!(words[3].contains("cannot open pipe"), "{words:#?}");
    }

    #[test]
    fn memory_ends_at_the_steps_limit() {
        let mut document = document("sqlite3", &["-init", "/dev/null", ":memory:"]);
        document["steps"][0]["memory"] = json!("32MiB");
        let report = run(&document, "SELECT length(hex(randomblob(100000000)));\nSELECT 'goes on';\n");
        assert_eq!(lines(&report, Stream::Stdout), ["goes on"]);
        let words = failed(&report, "exited with status 1");
        assert!(words[0].ends_with("out of memory (7)") || words[0].ends_with("out of memory"), "{words:#?}");
    }
}

mod quickjs {
    use super::*;

    /// A step that runs a script. The interpreter takes a mebibyte of stack for granted.
    fn script(text: &str) -> Value {
        let mut document = document("quickjs", &["--std", "-e", text, "an argument"]);
        document["steps"][0]["stack"] = json!("4MiB");
        document["unread"] = json!("ignore");
        document
    }

    #[test]
    fn the_shipped_workflow_adds_up() {
        let report = shipped("quickjs", Some("Ada 3.50\nGrace 12\nAda 16.25\n"));
        assert_eq!(printed(&report), ["Ada: 19.75", "Grace: 12.00"]);
    }

    /// Its workers are threads, which the script starts with a module of its own.
    #[test]
    fn the_language_files_modules_and_threads() {
        let mut document = script(include_str!("c_programs/basics.js"));
        document["steps"][0]["env"] = json!({ "GREETING": "hello" });
        assert_eq!(printed(&run(&document, "")), ["23 checks"]);
    }

    #[test]
    fn what_does_not_exist_is_refused_by_name() {
        let text = "function tried(f) { try { print(f()); } catch (e) { print(String(e)); } }\n\
                    tried(() => os.exec(['ls'])); tried(() => std.popen('ls', 'r')); tried(() => os.kill(1, 15));\n\
                    tried(() => os.symlink('a', 'b')); import('/tmp/x.so').catch(e => print(String(e)));\n";
        let report = run(&script(text), "");
        let library = "ReferenceError: could not load module filename '/tmp/x.so' as shared library";
        assert_eq!(printed(&report), ["TypeError: fork error", "null", "-1", "-1", library]);
        let words = lines(&report, Stream::Stderr);
        assert_eq!((words.len(), words[0]), (3, NO_PROCESS), "{words:#?}");
        assert!(words[1].contains("there are no signals") && words[2].contains("links"), "{words:#?}");
    }

    #[test]
    fn memory_ends_at_the_steps_limit() {
        let mut document = script(
            "try { const a = []; for (;;) a.push('x'.repeat(1000000) + a.length); } catch (e) { print(String(e)); }\n",
        );
        document["steps"][0]["memory"] = json!("32MiB");
        assert_eq!(printed(&run(&document, "")), ["InternalError: out of memory"]);
    }

    #[test]
    fn an_error_ends_the_step_with_the_interpreters_words() {
        let report = run(&script("null.ship"), "");
        let words = failed(&report, "exited with status 1");
        assert!(words[0].starts_with("TypeError: cannot read property 'ship' of null"), "{words:#?}");
    }
}

mod jq {
    use super::*;

    #[test]
    fn the_shipped_workflow_adds_up() {
        let orders =
            r#"[{"customer":"Grace","price":12},{"customer":"Ada","price":3.5},{"customer":"Ada","price":16.25}]"#;
        let totals = [r#"{"customer":"Ada","total":19.75}"#, r#"{"customer":"Grace","total":12}"#];
        assert_eq!(printed(&shipped("jq", Some(orders))), totals);
    }

    #[test]
    fn the_language_its_numbers_and_its_dates() {
        let filter = r#".ship | {mass: (.mass | sqrt), at: (.at | todate), ($name): (.name | ascii_downcase | @base64), large: .large},
                        (env.GREETING), [limit(3; repeat(1))], ("a,b" | split(",")), (try error("x") catch .)"#;
        let mut document = document("jq", &["-c", "--arg", "name", "code", filter]);
        document["steps"][0]["env"] = json!({ "GREETING": "hello" });
        let report =
            run(&document, r#"{"ship": {"name": "ARGO", "mass": 16, "at": 86400, "large": 100000000000000000001}}"#);
        let ship = r#"{"mass":4,"at":"1970-01-02T00:00:00Z","code":"YXJnbw==","large":100000000000000000001}"#;
        assert_eq!(printed(&report), [ship, r#""hello""#, "[1,1,1]", r#"["a","b"]"#, r#""x""#]);
    }

    #[test]
    fn regular_expressions() {
        const FILTER: &str = r#"test("a.c"), [match("b+"; "g") | .offset], capture("(?<word>\\p{Lu}\\w+) (?<number>\\d+)"),
                                sub("\\s+(?<rest>.)"; "-\(.rest)"), [splits(", *")]"#;
        let report = run(&document("jq", &["-c", FILTER]), r#""abc bb  Ürgo 16, b""#);
        let captured = r#"{"word":"Ürgo","number":"16"}"#;
        let parts = r#"["abc bb  Ürgo 16","b"]"#;
        assert_eq!(printed(&report), ["true", "[1,4,17]", captured, r#""abc-bb  Ürgo 16, b""#, parts]);
    }

    #[test]
    fn what_is_no_json_or_no_expression_is_an_error() {
        let words = |report| failed(&report, "exited with status 5").concat();
        let cut = words(run(&document("jq", &["."]), "[1,"));
        assert!(cut.starts_with("jq: parse error: Unfinished JSON term"), "{cut}");
        let pattern = words(run(&document("jq", &["test(\"(\")"]), "\"a\""));
        assert!(pattern.contains("Regex failure: end pattern with unmatched parenthesis"), "{pattern}");
    }
}

mod minigzip {
    use super::*;

    #[test]
    fn the_shipped_workflow_packs_a_database_of_another_program() {
        let report = shipped("minigzip", None);
        let printed = |step: &str| {
            let step = report.steps.iter().find(|found| found.name == step).expect("a step");
            step.instances[0].lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(report.status, Status::Done, "{:#?}", report.error);
        assert_eq!(printed("sizes"), ["/tmp/ships.db.gz|1"]);
        assert_eq!(printed("ask"), ["1000|ship 999"]);
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error() {
        let report = run(&document("minigzip", &["-d", "/tmp/none.gz"]), "");
        assert_eq!(failed(&report, "exited with status 1"), ["minigzip: can't gzopen /tmp/none.gz"]);
    }
}
