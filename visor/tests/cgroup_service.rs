//! Control groups of workflows' processes: what is limited, what becomes of who is over it, and that none is left behind.
//!
//! They need the root of the control groups, or one that is given to this program alone: `cargo xtask test --keys` runs them in a
//! virtual machine.

mod serve_support;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use serve_support::{Answer, Server, eventually, request, single};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const MIB: u64 = 1 << 20;

fn server_with_examples() -> Server {
    let server = Server::start_with(&["--cgroup", "require", "--prefork", "4"]);
    assert_eq!(server.get("/healthz").expect(200).json()["cgroup"], "own");
    assert!(server.get("/metrics").text().contains("monohull_cgroup{mode=\"own\"} 1\n"));
    server.put_shipped("echo.json");
    server.put_example("misbehave");
    let more = json!({ "memory": "48MiB", "limits": { "slots": "16MiB" } });
    let mut stuck = single("stuck", "misbehave", &more);
    stuck["steps"][0]["args"] = json!({ "how": "sleep" });
    stuck["steps"][0]["stack"] = "1MiB".into();
    server.put_workflow(&stuck);
    server
}

/// The folder of a process's group; nothing if the process has ended.
fn group_if_there(pid: i32) -> Option<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).expect("control groups of version 2");
    Some(Path::new("/sys/fs/cgroup").join(own))
}

fn group(pid: i32) -> PathBuf {
    group_if_there(pid).expect("it is there")
}

/// A file of a group; nothing if the group is gone.
fn read_if_there(folder: &Path, name: &str) -> Option<String> {
    fs::read_to_string(folder.join(name)).ok().map(|text| text.trim_end().to_owned())
}

fn read(folder: &Path, name: &str) -> String {
    read_if_there(folder, name).expect("readable")
}

/// The group in which `stuck` runs: the one that is limited as it is.
fn stuck_group(server: &Server) -> PathBuf {
    // Its memory and stack, the workflow's slots, and what running it costs.
    let limit = ((48 + 1 + 16 + 128) * MIB).to_string();
    // Workers of other invocations end meanwhile.
    let find = || {
        let mut groups = server.descendants().split_off(1).into_iter().filter_map(group_if_there);
        let found = groups.find(|folder| read_if_there(folder, "memory.max").as_ref() == Some(&limit));
        found.filter(|folder| read_if_there(folder, "cgroup.procs").is_some_and(|list| !list.is_empty()))
    };
    eventually("it runs within its limit", || find().is_some());
    find().expect("as just before")
}

/// The groups that a server has made for workers.
fn made(server: i32) -> BTreeSet<PathBuf> {
    let folder = PathBuf::from(format!("/sys/fs/cgroup/monohull-{server}"));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"worker-")))
        .collect()
}

#[test]
#[ignore = "needs control groups: run by `cargo xtask test --keys`"]
fn each_process_has_a_group_with_the_limits_of_its_workflow() {
    let server = server_with_examples();
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/stuck", &[], &[])).expect("sent");
    let folder = stuck_group(&server);
    assert_eq!((read(&folder, "pids.max"), read(&folder, "memory.oom.group")), ("64".to_owned(), "1".to_owned()));
    eventually("idle workers are ready", || server.get("/healthz").json()["idle_workers"].as_u64() >= Some(2));
    let below = server.descendants();
    let workers: BTreeSet<PathBuf> = below[1..].iter().map(|pid| group(*pid)).collect();
    assert_eq!(workers.len(), below.len() - 1, "each is in a group of its own");
    assert!(workers.is_subset(&made(server.pid())), "{workers:?}");
    for pid in [server.pid(), below[0]] {
        assert_eq!(group(pid), PathBuf::from(format!("/sys/fs/cgroup/monohull-{}/server", server.pid())));
    }
    drop(stream);

    // Used again, however many come.
    for _ in 0..20 {
        server.post("/invoke/echo", b"x").expect(200);
    }
    let made = made(server.pid()).len();
    assert!(made < 20, "{made} groups");
    let location = server.post("/async-invoke/echo", b"x").expect(202).headers["location"].clone();
    let shown = server.ended(&location);
    let reported = shown["report"]["sandbox"]["cgroup"].as_str().unwrap_or_default();
    assert!(reported.starts_with("/sys/fs/cgroup/monohull-") && reported.contains("at most "), "{reported}");
}

#[test]
#[ignore = "needs control groups: run by `cargo xtask test --keys`"]
fn a_workflow_over_its_groups_limit_is_ended_alone_and_reported() {
    let server = server_with_examples();
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/stuck", &[], &[])).expect("sent");
    // What has got round the limits of the libos meets this one: here the limit comes to the process.
    fs::write(stuck_group(&server).join("memory.max"), "4096").expect("writable");
    let error = Answer::read(&mut stream).expect("an answer").error(502, "memory-limit", "function");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("ended by the kernel: it used more than"), "{message}");
    for _ in 0..8 {
        assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
    }
    // A death of another kind, also in that group, is not taken for one of these.
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/stuck", &[], &[])).expect("sent");
    fs::write(stuck_group(&server).join("cgroup.kill"), "1").expect("writable");
    Answer::read(&mut stream).expect("an answer").error(502, "process", "host");
}

/// The limit of the libos comes first: the function gets an error, and its process is not killed.
#[test]
#[ignore = "needs control groups: run by `cargo xtask test --keys`"]
fn a_function_meets_its_own_limit_first() {
    let server = server_with_examples();
    let mut greedy = single("greedy", "misbehave", &json!({ "memory": "8MiB" }));
    greedy["steps"][0]["args"] = json!({ "how": "too-much-memory" });
    server.put_workflow(&greedy);
    let error = server.post("/invoke/greedy", b"").error(502, "memory-limit", "function");
    assert_eq!(error["step"], "main", "{error:#}");
}

#[test]
#[ignore = "needs control groups: run by `cargo xtask test --keys`"]
fn groups_go_with_their_server() {
    let server = server_with_examples();
    server.post("/invoke/echo", b"x").expect(200);
    let ended = server.pid();
    assert!(!made(ended).is_empty());
    let (code, log) = server.stop();
    assert_eq!((code, made(ended).len()), (Some(0), 0), "{log}");

    let server = server_with_examples();
    let killed = server.pid();
    server.signal(Signal::SIGKILL);
    server.wait();
    let server = server_with_examples();
    for gone in [ended, killed] {
        assert!(!Path::new(&format!("/sys/fs/cgroup/monohull-{gone}")).exists(), "of {gone}");
    }
    let shown: Value = server.get("/healthz").expect(200).json();
    assert_eq!(shown["cgroup"], "own");
}

#[test]
#[ignore = "needs control groups: run by `cargo xtask test --keys`"]
fn control_groups_can_be_switched_off() {
    let server = Server::start_with(&["--cgroup", "never"]);
    assert_eq!(server.get("/healthz").expect(200).json()["cgroup"], "none: --cgroup never");
    assert!(made(server.pid()).is_empty());
    let here: BTreeSet<PathBuf> = server.descendants().into_iter().chain([server.pid()]).map(group).collect();
    assert_eq!(here.len(), 1, "{here:?}");
}

/// Bytes of shared memory, such as sealed memory, that a group is charged.
fn shared(folder: &Path) -> u64 {
    let text = read_if_there(folder, "memory.stat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("shmem "));
    line.map_or(0, |bytes| bytes.parse().expect("a number"))
}

/// An instance that starts from a template reads all of it, in a process that is charged none of it.
#[test]
#[ignore = "needs control groups: run by `cargo xtask test --keys`"]
fn the_pages_of_a_template_are_charged_to_the_server_alone() {
    let server = Server::start_with(&["--cgroup", "require", "--prefork", "2"]);
    server.put_example("prepared");
    let args = json!({ "entries": 1, "before": "memory", "label": "" });
    let mut document = single("large", "prepared", &json!({ "args": args, "memory": "64MiB" }));
    (document["inputs"], document["outputs"]) = (json!(["in"]), json!(["out"]));
    server.put_workflow(&document);
    let own = group(server.pid());
    let before = shared(&own);
    eventually("it starts from a template", || {
        let answer = server.post("/invoke/large", b"text").expect(200);
        let id = &answer.headers["x-invocation-id"];
        server.get(&format!("/invocations/{id}")).expect(200).json()["report"]["start"]["kind"] == "template"
    });
    let metrics = server.get("/metrics").expect(200).text();
    let bytes = metrics.lines().find_map(|line| line.strip_prefix("monohull_template_bytes ")).expect("a metric");
    let bytes: u64 = bytes.parse().expect("a number");
    assert!(bytes > 8 * MIB, "{bytes}");
    // The kernel adds up what its processors have counted every few seconds.
    eventually("the server has them", || shared(&own) >= before + bytes);
    for _ in 0..4 {
        server.post("/invoke/large", b"text").expect(200);
    }
    eventually("the others do not", || made(server.pid()).iter().all(|folder| shared(folder) < MIB));
    assert!(shared(&own) < before + 2 * bytes, "they are there once");
}

/// A process that has begun without a template, and has one for a later invocation, has as much memory as a new process that begins with one.
#[test]
#[ignore = "needs control groups: run by `cargo xtask test --keys`"]
fn a_process_that_is_used_again_may_use_as_much_as_a_new_one() {
    let server = Server::start_with(&["--cgroup", "require", "--prefork", "2"]);
    server.put_example("prepared");
    let limit_of = |process: &str, before: u64| {
        let args = json!({ "entries": 1, "before": "", "label": "" });
        let mut document = single(process, "prepared", &json!({ "args": args, "process": process }));
        (document["inputs"], document["outputs"]) = (json!(["in"]), json!(["out"]));
        server.put_workflow(&document);
        let limits = RefCell::new(Vec::new());
        eventually("it starts from a template", || {
            let answer = server.post(&format!("/invoke/{process}"), b"text").expect(200);
            eventually("its process has been reset", || {
                process != "reused" || server.get("/healthz").json()["kept_workers"] == 1
            });
            let id = &answer.headers["x-invocation-id"];
            let report = server.get(&format!("/invocations/{id}")).expect(200).json()["report"].clone();
            let group = report["sandbox"]["cgroup"].as_str().expect("a group").to_owned();
            limits.borrow_mut().push(group.split_once("at most ").expect("a limit").1.to_owned());
            report["start"]["kind"] == "template" && report["process"]["before"].as_u64() >= Some(before)
        });
        limits.into_inner()
    };
    let (new, used) = (limit_of("per-invocation", 0), limit_of("reused", 1));
    assert_ne!(used.first(), used.last(), "the control: it has begun without a template");
    assert_eq!(used.last(), new.last());
}

/// `monohull run` of `misbehave`, which does this.
fn run(how: &str, cgroup: &str) -> Child {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("workflow.json");
    let mut document = single("w", "misbehave", &json!({ "args": { "how": how }, "memory": "48MiB" }));
    document["functions"]["f"]["image"] = serve_support::image("misbehave").display().to_string().into();
    fs::write(&path, document.to_string()).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.args(["run", "--json", "--cgroup", cgroup]).arg(&path);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("monohull starts");
    // It has read the file once it has a child, or has ended.
    let below = || fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap_or_default();
    eventually("it has begun", || !below().is_empty() || !serve_support::is_alive(child.id() as i32));
    child
}

fn report(child: Child) -> Value {
    let output = child.wait_with_output().expect("a child");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
#[ignore = "needs control groups: run by `cargo xtask test --keys`"]
fn a_run_has_a_group_and_takes_it_away() {
    let family = |child: &Child| PathBuf::from(format!("/sys/fs/cgroup/monohull-{}", child.id()));
    let child = run("panic", "require");
    let folder = family(&child);
    let reported = report(child);
    assert_eq!(reported["error"]["kind"], "panic", "{reported:#}");
    let group = reported["sandbox"]["cgroup"].as_str().unwrap_or_default();
    assert!(group.starts_with(&format!("{}/worker-", folder.display())) && group.contains("at most "), "{group}");
    assert!(!folder.exists(), "nothing is left of it");

    let child = run("sleep", "require");
    let folder = family(&child);
    let limited = || {
        let groups = made(child.id() as i32).into_iter();
        groups.filter(|group| !read(group, "cgroup.procs").is_empty()).find(|group| read(group, "memory.max") != "max")
    };
    eventually("it runs within its limit", || limited().is_some());
    fs::write(limited().expect("as just before").join("memory.max"), "4096").expect("writable");
    let reported = report(child);
    assert_eq!(
        (&reported["error"]["kind"], &reported["error"]["blame"]),
        (&json!("memory-limit"), &json!("function")),
        "{reported:#}"
    );
    assert!(!folder.exists(), "nothing is left of it");

    let child = run("panic", "never");
    let folder = family(&child);
    let reported = report(child);
    assert_eq!(reported["sandbox"]["cgroup"], "none: --cgroup never", "{reported:#}");
    assert!(!folder.exists());
}
