//! A server's processes that serve one invocation after the other: which do, for how long, and what the report says of it.

mod serve_support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use serve_support::{Server, eventually, is_alive, single};
use std::process::{Command, Stdio};

/// Without a pool of ready processes to speak of, so that few others are about.
fn server(options: &[&str]) -> Server {
    Server::start_with(&[&["--prefork", "4"], options].concat())
}

/// How many processes wait for another invocation.
fn kept(server: &Server) -> u64 {
    server.get("/healthz").json()["kept_workers"].as_u64().expect("a number")
}

/// Waits until so many do.
fn keeps(server: &Server, count: u64) {
    eventually("processes are reset", || kept(server) == count);
}

/// What the report of the last invocation says of its process.
fn process(server: &Server, workflow: &str, body: &[u8]) -> Value {
    let answer = server.post(&format!("/invoke/{workflow}"), body).expect(200);
    let id = answer.headers["x-invocation-id"].clone();
    server.get(&format!("/invocations/{id}")).expect(200).json()["report"]["process"].clone()
}

fn reused(before: u64) -> Value {
    json!({ "kind": "reused", "before": before })
}

fn echo(name: &str, more: &Value) -> Value {
    let mut document = single(name, "echo", more);
    document["inputs"] = json!(["in"]);
    document["outputs"] = json!(["out"]);
    document
}

/// The processes of workflows, and those that are ready for one.
fn workers(server: &Server) -> Vec<i32> {
    server.descendants().into_iter().skip(1).collect()
}

/// Waits until there are no processes but those that are ready for any workflow and those that wait for another invocation.
#[track_caller]
fn no_more_than_kept(server: &Server, count: u64) {
    eventually("other processes end", || {
        let health = server.get("/healthz").json();
        let ready = health["idle_workers"].as_u64().expect("a number");
        health["kept_workers"] == count && workers(server).len() as u64 == ready + count
    });
}

#[test]
fn a_process_serves_one_invocation_after_the_other_and_answers_each() {
    let server = server(&["--process", "reused"]);
    server.put_example("echo");
    server.put_workflow(&echo("again", &json!({})));
    for before in 0..20 {
        let body = format!("invocation {before}").repeat(1 + 3000 * (before % 3));
        let answer = server.post("/invoke/again", body.as_bytes()).expect(200);
        assert_eq!(answer.text(), body);
        let id = &answer.headers["x-invocation-id"];
        let report = server.get(&format!("/invocations/{id}")).expect(200).json()["report"].clone();
        assert_eq!(report["process"], reused(before as u64), "{report:#}");
        keeps(&server, 1);
    }
    let metrics = server.get("/metrics").expect(200).text();
    for line in [
        "monohull_process_invocations_total{process=\"new\"} 1\n",
        "monohull_process_invocations_total{process=\"reused\"} 19\n",
        "monohull_domains{state=\"kept\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    no_more_than_kept(&server, 1);
    let workers = workers(&server);
    let (status, _) = server.stop();
    assert_eq!(status, Some(0));
    eventually("they end with their server", || !workers.iter().any(|pid| is_alive(*pid)));
}

/// Every kind of workflow that is used again gives the same answer each time.
#[test]
fn what_a_workflow_does_is_the_same_in_a_process_that_is_used_again() {
    let server = server(&["--process", "reused"]);
    let text = "some words, and some more words. ".repeat(100);
    let without = ("Content-Type", "application/octet-stream");
    for (file, body) in [
        ("no-op.json", ""),
        ("echo.json", text.as_str()),
        ("word-count.json", &text),
        ("function-chain.json", ""),
        ("std-tour.json", ""),
        ("file-tour.json", ""),
        ("conformance.json", &text),
        ("json-report.json", ""),
    ] {
        server.put_shipped(file);
        let name = file.trim_end_matches(".json");
        let invoke = || {
            let headers: &[_] = if body.is_empty() { &[] } else { &[without] };
            let answer = server.ask_with("POST", &format!("/invoke/{name}"), headers, body.as_bytes()).expect(200);
            let id = answer.headers["x-invocation-id"].clone();
            let shown = server.get(&format!("/invocations/{id}")).expect(200).json();
            (answer.body, shown["report"]["process"]["before"].as_u64().expect("a number"))
        };
        let (first, _) = invoke();
        for before in 1..=4 {
            eventually("it is reset", || kept(&server) > 0);
            let (again, _) = invoke();
            assert!(again == first, "{name}: invocation {before} answers something else");
        }
        eventually("a process is used again", || {
            let (again, before) = invoke();
            assert!(again == first, "{name} answers something else after {before}");
            before > 0
        });
    }
}

#[test]
fn the_workflow_decides_and_then_the_server() {
    for (option, usual) in [("reused", "reused"), ("per-invocation", "per-invocation")] {
        let server = server(&["--process", option]);
        assert_eq!(server.get("/healthz").expect(200).json()["process"], usual);
        server.put_example("echo");
        for (name, file, kind) in [
            ("none", Value::Null, usual),
            ("one", "per-invocation".into(), "per-invocation"),
            ("many", "reused".into(), "reused"),
        ] {
            let more = if file.is_null() { json!({}) } else { json!({ "process": file }) };
            server.put_workflow(&echo(name, &more));
            let before = kept(&server);
            assert_eq!(process(&server, name, b"x"), json!({ "kind": kind, "before": 0 }), "{option}, {name}");
            if kind == "reused" {
                keeps(&server, before + 1);
                assert_eq!(process(&server, name, b"x"), reused(1));
                keeps(&server, before + 1);
            } else {
                assert_eq!(process(&server, name, b"x"), json!({ "kind": kind, "before": 0 }));
                assert_eq!(kept(&server), before);
            }
        }
    }
}

/// Events may come for them at any time.
#[test]
fn invocations_that_are_durable_from_their_start_have_processes_of_their_own() {
    let server = server(&["--process", "reused"]);
    server.put_example("echo");
    server.put_workflow(&echo("echo", &json!({})));
    assert_eq!(process(&server, "echo", b"x"), reused(0), "the control");
    keeps(&server, 1);
    for query in ["?id=one", "?delay=1ms"] {
        let answer = server.post(&format!("/invoke/echo{query}"), b"x").expect(200);
        let shown = server.get(&format!("/invocations/{}", answer.headers["x-invocation-id"])).expect(200).json();
        assert_eq!(shown["report"]["process"], json!({ "kind": "per-invocation", "before": 0 }), "{query}");
    }
    assert_eq!(process(&server, "echo", b"x"), reused(1), "the one that waits is still there");
}

/// Without the option it depends on protection keys.
#[test]
fn by_default_processes_are_used_again_where_protection_keys_are_in_force() {
    let server = server(&[]);
    let health = server.get("/healthz").expect(200).json();
    let expected = if health["isolation"] == "mpk" { "reused" } else { "per-invocation" };
    assert_eq!(health["process"], expected, "{health:#}");
}

#[test]
fn a_process_ends_with_an_invocation_that_does_not_end_as_done() {
    let server = server(&["--process", "reused"]);
    server.put_example("misbehave");
    server.put_example("echo");
    for how in ["panic", "null-write"] {
        let mut document = single(how, "misbehave", &json!({}));
        document["steps"][0]["args"] = json!({ "how": how });
        server.put_workflow(&document);
        for _ in 0..2 {
            let answer = server.post(&format!("/invoke/{how}"), b"");
            let report = answer.expect(502).json()["error"]["report"].clone();
            assert_eq!(report["process"], reused(0), "{report:#}");
        }
    }
    // An attempt that failed is a failure, too, though the next one succeeds.
    let retry =
        json!({ "args": { "how": "flaky" }, "retry": { "max_attempts": 3, "interval": "1ms" }, "outputs": ["result"] });
    server.put_workflow(&single("flaky", "misbehave", &retry));
    for _ in 0..2 {
        assert_eq!(process(&server, "flaky", b""), reused(0));
        no_more_than_kept(&server, 0);
    }
    server.put_workflow(&echo("late", &json!({ "args": { "wait_ms": 60_000 }, "limits": { "timeout": "50ms" } })));
    server.post("/invoke/late", b"x").expect(504);
    no_more_than_kept(&server, 0);

    // One that has served an invocation before ends as well.
    server.put_workflow(&echo("slow", &json!({ "args": { "wait_ms": 1000 } })));
    server.post("/invoke/slow", b"x").expect(200);
    keeps(&server, 1);
    let location = server.post("/async-invoke/slow", b"x").expect(202).headers["location"].clone();
    eventually("it runs", || server.get(&location).json()["status"] != "pending");
    server.ask("DELETE", &location, b"");
    // On a machine that is busy it may have ended before.
    let done = server.ended(&location)["status"] == "completed";
    no_more_than_kept(&server, done.into());
}

/// Its limit is another one for each process, between three quarters of a thousand and a thousand.
#[test]
fn a_process_ends_with_the_last_of_a_thousand_invocations_at_most() {
    let server = server(&["--process", "reused"]);
    server.put_example("echo");
    server.put_workflow(&echo("often", &json!({})));
    let mut served = 0;
    loop {
        assert_eq!(process(&server, "often", b"x"), reused(served));
        served += 1;
        let health = || server.get("/healthz").json();
        eventually("it is reset, or ends", || health()["running"] == 0);
        if health()["kept_workers"] == 0 {
            break;
        }
        assert!(served < 1000, "it would serve another one");
    }
    assert!((750..=1000).contains(&served), "{served}");
    no_more_than_kept(&server, 0);
    assert_eq!(process(&server, "often", b"x"), reused(0));
    keeps(&server, 1);
    let metrics = server.get("/metrics").expect(200).text();
    let line = format!("monohull_process_invocations_total{{process=\"reused\"}} {}\n", served - 1);
    assert!(metrics.contains(&line), "{line}: {metrics}");
}

/// Files and network of the host have no part in a reset: processes of workflows with some are not used again, whatever was asked for.
#[test]
fn a_workflow_with_something_of_the_host_has_a_new_process_each_time() {
    let folder = tempfile::tempdir().expect("a folder of the host");
    let grants = folder.path().join("grants.json");
    let granted = json!({
        "files": { "folder": { "directory": ".", "workflows": ["files"] } },
        "networks": {
            "api": { "network": { "mode": "host", "connect": ["127.0.0.1:1"] }, "workflows": ["network"] },
        },
    });
    std::fs::write(&grants, granted.to_string()).expect("written");
    let server = server(&["--process", "reused", "--grants", grants.to_str().expect("a path in UTF-8")]);
    server.put_example("echo");
    for (name, more) in [
        ("files", json!({ "process": "reused", "files": [{ "at": "/host", "grant": "folder" }] })),
        ("network", json!({ "process": "reused", "network": { "grant": "api" } })),
    ] {
        server.put_workflow(&echo(name, &more));
        for _ in 0..3 {
            let shown = process(&server, name, b"x");
            assert_eq!(shown, json!({ "kind": "per-invocation", "before": 0 }), "{name}");
        }
        no_more_than_kept(&server, 0);
    }
    // One with files of its own in memory is.
    let memory = json!({ "process": "reused", "files": [{ "at": "/mem", "memory": "1MiB" }] });
    server.put_workflow(&echo("memory", &memory));
    for before in 0..3 {
        assert_eq!(process(&server, "memory", b"x"), reused(before));
        keeps(&server, 1);
    }
}

/// `monohull run` has one invocation, and a new process for that: the same report, which says nothing of a process, and nothing runs on.
#[test]
fn a_run_without_a_server_is_the_same_whatever_the_file_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("echo.json");
    let input = folder.path().join("in.txt");
    std::fs::write(&input, "some text").expect("written");
    let reports = ["per-invocation", "reused"].map(|process| {
        let mut document = echo("again", &json!({ "process": process }));
        document["functions"]["f"]["image"] = serve_support::image("echo").to_str().into();
        std::fs::write(&file, document.to_string()).expect("written");
        [(); 2].map(|()| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
            command.args(["run", "--json", "--input"]).arg(format!("in={}", input.display())).arg(&file);
            // It comes back when no process has its output any more.
            let output = command.stdin(Stdio::null()).output().expect("monohull starts");
            assert_eq!(output.status.code(), Some(0), "{process}: {output:?}");
            let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(report["output"]["out"]["text"], "some text", "{process}: {report:#}");
            report.as_object().expect("an object").keys().cloned().collect::<Vec<String>>()
        })
    });
    assert!(!reports[0][0].contains(&"process".to_owned()), "{reports:?}");
    assert!(reports.iter().flatten().all(|fields| *fields == reports[0][0]), "{reports:?}");
}

#[test]
fn another_version_of_a_workflow_or_of_its_function_has_another_process() {
    let server = server(&["--process", "reused"]);
    server.put_example("echo");
    let document = echo("versions", &json!({}));
    server.put_workflow(&document);
    let used = || process(&server, "versions", b"x");
    assert_eq!(used(), reused(0));
    keeps(&server, 1);
    assert_eq!(used(), reused(1));
    keeps(&server, 1);
    server.put_workflow(&document);
    assert_eq!(used(), reused(0));
    // That of the old version ends.
    no_more_than_kept(&server, 1);
    server.put_example("echo");
    assert_eq!(used(), reused(0));
    // A document that comes with its request is nothing that could come again.
    let once = json!({ "workflow": document, "inputs": { "in": "x" } });
    let shown = server.post("/run", once.to_string().as_bytes()).expect(200).json();
    assert_eq!(shown["report"]["process"], json!({ "kind": "per-invocation", "before": 0 }), "{shown:#}");
}

/// An invocation that ends in a version that was replaced while it ran leaves no process behind.
#[test]
fn a_process_of_a_version_that_was_replaced_does_not_wait() {
    let server = server(&["--process", "reused"]);
    server.put_example("echo");
    let document = echo("slow", &json!({ "args": { "wait_ms": 1500, "say": "soon" } }));
    server.put_workflow(&document);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| process(&server, "slow", b"x"));
        eventually("it runs", || server.get("/healthz").expect(200).json()["running"] == 1);
        server.put_workflow(&document);
        assert_eq!(asked.join().expect("it is answered"), reused(0));
    });
    for _ in 0..50 {
        assert_eq!(kept(&server), 0);
    }
    no_more_than_kept(&server, 0);
}

#[test]
fn many_calls_of_one_workflow_do_not_end_what_another_has() {
    let server = Server::start_with(&["--prefork", "2", "--process", "reused"]);
    server.put_example("echo");
    server.put_workflow(&echo("rare", &json!({})));
    server.put_workflow(&echo("often", &json!({ "args": { "wait_ms": 700, "say": "soon" } })));
    assert_eq!(process(&server, "rare", b"x"), reused(0));
    keeps(&server, 1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| process(&server, "often", b"x"));
        }
    });
    no_more_than_kept(&server, 2);
    assert_eq!(process(&server, "rare", b"x"), reused(1));
}

#[test]
fn the_processes_that_wait_are_limited_and_the_one_unused_for_longest_goes() {
    let server = Server::start_with(&["--prefork", "2", "--process", "reused"]);
    server.put_example("echo");
    for name in ["first", "second", "third"] {
        server.put_workflow(&echo(name, &json!({})));
    }
    assert_eq!(process(&server, "first", b"x"), reused(0));
    keeps(&server, 1);
    assert_eq!(process(&server, "second", b"x"), reused(0));
    keeps(&server, 2);
    assert_eq!(process(&server, "first", b"x"), reused(1));
    keeps(&server, 2);
    assert_eq!(process(&server, "third", b"x"), reused(0));
    no_more_than_kept(&server, 2);
    assert_eq!(process(&server, "first", b"x"), reused(2));
    keeps(&server, 2);
    assert_eq!(process(&server, "second", b"x"), reused(0));
}

/// A number of the server's metrics; 0 if it has not been counted.
fn metric(server: &Server, name: &str) -> u64 {
    let text = server.get("/metrics").expect(200).text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("monohull_{name} ")));
    line.map_or(0, |number| number.parse().expect("a number"))
}

/// A process that has had large inputs and outputs keeps memory for others.
#[test]
fn the_memory_of_processes_that_wait_is_limited() {
    const LIMIT: u64 = 10 << 20;
    let options = ["--prefork", "6", "--process", "reused", "--reused-memory", "10MiB", "--log", "text"];
    let server = Server::start_with(&options);
    server.put_example("echo");
    server.put_workflow(&echo("small", &json!({})));
    server.put_workflow(&echo("large", &json!({ "args": { "wait_ms": 700, "say": "soon" } })));
    assert_eq!(metric(&server, "kept_limit_bytes"), LIMIT);
    assert_eq!(process(&server, "small", b"x"), reused(0));
    keeps(&server, 1);
    eventually("its memory is looked at", || metric(&server, "kept_bytes") > 0);
    let small = metric(&server, "kept_bytes");
    assert!((64 << 10..4 << 20).contains(&small), "{small}");
    assert_eq!(metric(&server, "kept_evictions_total{reason=\"memory\"}"), 0);

    let body = vec![7; 1_900_000];
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(server.post("/invoke/large", &body).expect(200).body == body));
        }
    });
    // Each has nearly 4 MB for these.
    eventually("some end", || metric(&server, "kept_evictions_total{reason=\"memory\"}") == 2);
    no_more_than_kept(&server, 3);
    let bytes = metric(&server, "kept_bytes");
    assert!((LIMIT / 2..=LIMIT).contains(&bytes), "{bytes}");
    // It is not the one that was not used for longest that has too much.
    assert_eq!(process(&server, "small", b"x"), reused(1));
    assert_eq!(metric(&server, "kept_evictions_total{reason=\"number\"}"), 0);
    let (status, log) = server.stop();
    assert_eq!(status, Some(0));
    assert_eq!(log.matches("had too much memory").count(), 2, "{log}");
}

#[test]
fn without_memory_for_them_no_process_is_used_again() {
    let server = server(&["--process", "reused", "--reused-memory", "0"]);
    server.put_example("echo");
    server.put_workflow(&echo("once", &json!({})));
    for _ in 0..3 {
        assert_eq!(process(&server, "once", b"x"), reused(0));
        no_more_than_kept(&server, 0);
    }
}

#[test]
fn a_process_that_was_killed_while_it_waited_fails_no_invocation() {
    let server = server(&["--process", "reused"]);
    server.put_example("echo");
    server.put_workflow(&echo("killed", &json!({})));
    assert_eq!(process(&server, "killed", b"x"), reused(0));
    keeps(&server, 1);
    no_more_than_kept(&server, 1);
    let workers = workers(&server);
    workers.iter().for_each(|pid| kill(Pid::from_raw(*pid), Signal::SIGKILL).expect("it is there"));
    eventually("they end", || !workers.iter().any(|pid| is_alive(*pid)));
    assert_eq!(process(&server, "killed", b"x"), reused(0));
}

/// At once, from several clients: each gets its own answer.
#[test]
fn clients_at_the_same_time_get_their_own_answers() {
    let server = server(&["--process", "reused"]);
    server.put_example("echo");
    server.put_workflow(&echo("many", &json!({})));
    std::thread::scope(|scope| {
        for client in 0..8 {
            let server = &server;
            scope.spawn(move || {
                for call in 0..40 {
                    let body = format!("client {client}, call {call}").repeat(1 + 700 * (call % 2));
                    assert_eq!(server.post("/invoke/many", body.as_bytes()).expect(200).text(), body);
                }
            });
        }
    });
    let metrics = server.get("/metrics").expect(200).text();
    let count = |process: &str| {
        let name = format!("monohull_process_invocations_total{{process=\"{process}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok()).unwrap_or_default()
    };
    assert_eq!(count("new") + count("reused"), 8 * 40, "{metrics}");
    assert!(count("reused") > 0, "{metrics}");
}
