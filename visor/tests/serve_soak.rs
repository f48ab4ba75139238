//! Many invocations in processes that are used again: several workflows, small and large inputs, failures, deadlines, cancellations and
//! clients that leave, all at the same time. Every answer is checked; in the end nothing is left of them.

#[path = "support/extent.rs"]
mod extent;
mod serve_support;

use extent::some_of;
use serde_json::{Value, json};
use serve_support::{Answer, Server, eventually, request, root, single};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// How many invocations, and how many with `--full`.
const SAMPLE: usize = 1_000;
const ALL: usize = 100_000;
/// Those before anything is counted, so that what is made once is there.
const FIRST: usize = 600;
/// Invocations where there is little time.
const FEW: usize = 200;
/// Memory is looked at after each of so many parts.
const PARTS: usize = 4;
/// What the last of them may add if there are [`ALL`]: the memory levels off.
const GROWTH_LAST: u64 = 2 << 20;
/// Clients that ask at the same time.
const CLIENTS: usize = 8;
/// Memory that server and spawner may have gained in the end: what their allocator keeps after the widest moment.
const GROWTH: u64 = 24 << 20;
/// Memory that a process which waits for another invocation may have for itself, however many it has served.
const KEPT: u64 = 8 << 20;
/// What the largest of these may have more in the end than after the first part: what a process serves makes a difference, how long it has done so makes none.
const KEPT_GROWTH: u64 = 1 << 20;

/// Registers the workflows.
fn deploy(server: &Server) {
    for example in ["echo", "misbehave"] {
        server.put_example(example);
    }
    let slots = |name: &str, more: Value| {
        let mut document = single(name, "echo", &more);
        document["inputs"] = json!(["in"]);
        document["outputs"] = json!(["out"]);
        server.put_workflow(&document);
    };
    slots("echo", json!({}));
    slots("slow", json!({ "args": { "wait_ms": 30 } }));
    slots("very-slow", json!({ "args": { "wait_ms": 3_600_000 } }));
    let fails = |name: &str, more: Value| server.put_workflow(&single(name, "misbehave", &more));
    fails("panic", json!({ "args": { "how": "panic" } }));
    fails("stuck", json!({ "args": { "how": "sleep" }, "limits": { "timeout": "30ms" } }));
    fails("loop", json!({ "args": { "how": "endless-loop" }, "timeout": "20ms" }));
    server.put_shipped("word-count.json");
    server.put_shipped("function-chain.json");
}

/// A text whose words are counted.
fn text(number: usize) -> Vec<u8> {
    (0..200).map(|word| format!("word{} ", (word * 7 + number) % (11 + number))).collect::<String>().into_bytes()
}

/// What all clients share.
struct Soak<'s> {
    server: &'s Server,
    next: AtomicUsize,
    end: usize,
    /// What a process of its own counts in each of the texts.
    counted: Vec<Vec<u8>>,
    chained: Vec<u8>,
}

/// A client with a connection that stays.
struct Client<'s> {
    soak: &'s Soak<'s>,
    stream: TcpStream,
}

impl Soak<'_> {
    /// Invocations with all of these numbers.
    fn run(&mut self, numbers: std::ops::Range<usize>) {
        *self.next.get_mut() = numbers.start;
        self.end = numbers.end;
        let soak = &*self;
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(move || {
                    let mut client = Client { soak, stream: soak.server.connect() };
                    loop {
                        let number = soak.next.fetch_add(1, Ordering::Relaxed);
                        if number >= soak.end {
                            return;
                        }
                        client.one(number);
                    }
                });
            }
        });
    }
}

impl Client<'_> {
    fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Answer {
        let headers = [("Connection", "keep-alive"), ("Content-Type", "application/octet-stream")];
        let headers = if body.is_empty() { &headers[..1] } else { &headers };
        self.stream.write_all(&request(method, path, headers, body)).expect("it listens");
        Answer::read(&mut self.stream).unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    /// One invocation; its number chooses what it is.
    fn one(&mut self, number: usize) {
        let size = match number {
            _ if number.is_multiple_of(389) => 1_000_000,
            _ if number.is_multiple_of(41) => 100_000,
            _ => 1 + number % 20_000,
        };
        let body: Vec<u8> = (0..size).map(|at| (at * 31 + number) as u8).collect();
        match number % 20 {
            0..=9 => assert!(self.ask("POST", "/invoke/echo", &body).expect(200).body == body, "{number}"),
            10 | 11 => {
                let text_number = number % self.soak.counted.len();
                let counted = self.ask("POST", "/invoke/word-count", &text(text_number)).expect(200).body;
                assert!(counted == self.soak.counted[text_number], "{number}: {}", String::from_utf8_lossy(&counted));
            }
            12 => assert!(self.ask("POST", "/invoke/function-chain", b"").expect(200).body == self.soak.chained),
            13 => drop(self.ask("POST", "/invoke/panic", b"").error(502, "panic", "function")),
            14 => drop(self.ask("POST", "/invoke/stuck", b"").error(504, "timeout", "workflow")),
            15 => {
                // Where there is hardly any processor time, the workflow's own end may come first.
                let error = self.ask("POST", "/invoke/loop", b"").expect(504).json()["error"].take();
                assert_eq!(error["kind"], "timeout", "{error:#}");
            }
            16 => {
                // Leaves before it is answered.
                self.stream.write_all(&request("POST", "/invoke/slow", &[], &body)).expect("it listens");
                self.stream = self.soak.server.connect();
            }
            17 => {
                let location =
                    self.ask("POST", "/async-invoke/very-slow", &body).expect(202).headers["location"].clone();
                self.ask("DELETE", &location, b"").expect(204);
            }
            _ => {
                let location = self.ask("POST", "/async-invoke/echo", &body).expect(202).headers["location"].clone();
                let output = self.ask("GET", &format!("{location}/outputs/out?wait=180s"), b"").expect(200);
                assert!(output.body == body, "{number}");
            }
        }
    }
}

/// What a process has open, by what it is.
fn open_files(pid: i32) -> BTreeMap<String, usize> {
    let mut files = BTreeMap::new();
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    for link in links.filter_map(|link| fs::read_link(link.path()).ok()) {
        // Sockets and pipes have numbers.
        let kind = link.to_string_lossy().split(":[").next().unwrap_or_default().to_owned();
        *files.entry(kind).or_insert(0) += 1;
    }
    files
}

/// Bytes of a process's memory: a field of `smaps_rollup`.
fn memory(pid: i32, fields: &[&str]) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let of = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let kibibytes: u64 = rest.trim().trim_end_matches(" kB").parse().ok()?;
        fields.contains(&name).then_some(kibibytes << 10)
    };
    text.lines().filter_map(of).sum()
}

/// What there is when nothing is to be done.
struct AtRest {
    /// What server and spawner have open.
    files: BTreeMap<String, usize>,
    /// Their memory, what they share counted once.
    memory: u64,
    /// Of the processes that waited, for another invocation of their workflow or for any, the memory that each had for itself.
    kept: Vec<u64>,
}

impl AtRest {
    fn largest(&self) -> u64 {
        self.kept.iter().copied().max().unwrap_or(0)
    }
}

/// Waits until nothing is to be done, and until all processes have ended that waited for another invocation.
fn at_rest(server: &Server) -> AtRest {
    let workers = || server.descendants().into_iter().skip(1).collect::<Vec<_>>();
    eventually("nothing runs", || {
        let health = server.get("/healthz").json();
        health["running"] == 0 && health["queued"] == 0
    });
    let mut kept = Vec::new();
    for pid in workers() {
        let own = memory(pid, &["Private_Clean", "Private_Dirty"]);
        assert!(own <= KEPT, "a process that waits for another invocation has {own} bytes");
        kept.push(own);
        // Its channel, the images of its workflow, and what every process has. One that has just been made has its maker's files for a moment.
        eventually("a process has few files open", || open_files(pid).values().sum::<usize>() <= 16);
    }
    // Processes end with the version of their workflow.
    deploy(server);
    let both = || [server.pid()].into_iter().chain(server.descendants().into_iter().take(1));
    eventually("only those that are ready are left", || {
        let health = server.get("/healthz").json();
        let ready = health["idle_workers"].as_u64().expect("a number");
        health["kept_workers"] == 0 && ready > 0 && workers().len() as u64 == ready
    });
    let mut files: BTreeMap<String, usize> = BTreeMap::new();
    for (kind, count) in both().flat_map(open_files) {
        *files.entry(kind).or_insert(0) += count;
    }
    AtRest { files, memory: both().map(|pid| memory(pid, &["Pss"])).sum(), kept }
}

/// Invocations that are remembered.
const REMEMBERED: usize = 50;

/// Processes that are ready for any workflow, and at most so many that wait for another invocation of one.
const PREFORK: u64 = 6;

#[test]
fn nothing_is_wrong_and_nothing_is_left_after_many_invocations() {
    soak(FIRST, some_of(SAMPLE, ALL));
}

/// So few that they can be had where protection keys are emulated: there processes are used again by default.
#[test]
fn nothing_is_wrong_and_nothing_is_left_after_some_invocations() {
    soak(FEW / 2, FEW);
}

/// So many invocations, after the first ones. One server at a time: what two share of the program counts half for each, and whole when one has ended.
fn soak(first: usize, count: usize) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (prefork, keep) = (PREFORK.to_string(), REMEMBERED.to_string());
    let kept = ["--keep", &keep, "--keep-durable", &keep];
    let server = Server::start_with(&[&["--prefork", &prefork, "--process", "reused"][..], &kept].concat());
    deploy(&server);
    // The same workflows, each invocation in a process of its own.
    let alone = |file: &str, name: &str| {
        let text = fs::read(root().join("workflows").join(file)).expect("readable");
        let mut document: Value = serde_json::from_slice(&text).expect("JSON");
        document["name"] = name.into();
        document["process"] = "per-invocation".into();
        for function in document["functions"].as_object_mut().expect("functions").values_mut() {
            let path = std::path::PathBuf::from(function["image"].as_str().expect("an image"));
            let example = path.file_stem().expect("a name").to_str().expect("UTF-8");
            function["image"] = format!("function:{example}").into();
        }
        server.put_workflow(&document);
    };
    alone("word-count.json", "count-alone");
    alone("function-chain.json", "chain-alone");
    let bytes = [("Content-Type", "application/octet-stream")];
    let count_alone = |number| server.ask_with("POST", "/invoke/count-alone", &bytes, &text(number)).expect(200).body;
    let counted: Vec<Vec<u8>> = (0..5).map(count_alone).collect();
    let chained = server.post("/invoke/chain-alone", b"").expect(200).body;
    let mut soak = Soak { server: &server, next: AtomicUsize::new(0), end: 0, counted, chained };

    soak.run(0..first);
    let before = at_rest(&server);
    println!("{first} invocations: server and spawner {} KiB", before.memory >> 10);
    let mut parts = Vec::new();
    for part in 0..PARTS {
        soak.run(first + part * count / PARTS..first + (part + 1) * count / PARTS);
        let now = at_rest(&server);
        println!(
            "{} invocations: server and spawner {} KiB, {} more than at first; processes that waited {:?}",
            first + (part + 1) * count / PARTS,
            now.memory >> 10,
            now.memory.saturating_sub(before.memory) >> 10,
            now.kept.iter().map(|bytes| bytes >> 10).collect::<Vec<_>>(),
        );
        parts.push(now);
    }
    let [first_part, .., before_last, last] = &parts[..] else { unreachable!("there are several parts") };
    let [grown, grown_before] = [last, before_last].map(|part| part.memory.saturating_sub(before.memory));
    assert!(
        count < ALL || grown.saturating_sub(grown_before) <= GROWTH_LAST,
        "of {grown} bytes {grown_before} were there before the last part"
    );
    assert!(grown <= GROWTH, "the server has grown by {grown} bytes");
    let [early, late] = [first_part, last].map(AtRest::largest);
    // A few do not go through every process.
    assert!(
        count < SAMPLE || late <= early + KEPT_GROWTH,
        "a process had {late} bytes, and at first none had more than {early}"
    );
    for (kind, count) in &last.files {
        let at_first = before.files.get(kind).copied().unwrap_or(0);
        // As chance has it: large results that are remembered, and processes that are ready, of each of which there is an end of a socket.
        assert!(
            *count <= at_first + REMEMBERED + 4 * PREFORK as usize,
            "left behind: {:?}, before {:?}",
            last.files,
            before.files
        );
    }
    let metrics = server.get("/metrics").expect(200).text();
    let given = |process: &str| {
        let name = format!("monohull_process_invocations_total{{process=\"{process}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok()).unwrap_or_default()
    };
    println!("{} in new processes, {} in others", given("new"), given("reused"));
    assert!(given("reused") > count as u64 / 4, "processes are used again: {metrics}");
}
