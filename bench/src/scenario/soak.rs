//! Many clients for a long time, while workflows crash and run out of time, processes are killed from outside, and clients
//! leave before they are answered. Every answer is checked; in the end nothing may be left: no process, no descriptor, and no
//! more memory than stated here. What is measured is whether the server becomes slower.
//!
//! With processes that serve one invocation after the other (`soak-reused`) those that wait for another one are bounded too: their
//! memory is that of a process that has served few, and they end with the version of their workflow.

use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::http::{Connection, ask, request};
use crate::service::{Running, children, has_image, monohull, private_memory, pss, register};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Clients that ask at the same time.
const CLIENTS: usize = 64;
/// Memory that the server may have gained in the end: what its allocator keeps after the widest moment, and the
/// invocations it remembers.
const GROWTH: u64 = 48 << 20;
/// Memory that a process which waits for another invocation may have for itself, however many it has served.
const KEPT: u64 = 8 << 20;
/// The pause between two processes that are killed.
const KILL_PAUSE: Duration = Duration::from_millis(40);
/// How long the server may take to become quiet in the end.
const QUIET: Duration = Duration::from_secs(30);

/// What all clients know and count.
struct Soak {
    address: SocketAddr,
    next: AtomicUsize,
    total: usize,
    over: AtomicBool,
    kills: AtomicU64,
    /// Answers that say that the process was killed: no more than were.
    killed: AtomicU64,
    begin: Instant,
    /// Nanoseconds from the beginning until half of the invocations had been begun.
    half: AtomicU64,
}

/// With a process for each invocation.
pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    soak(effort, "soak", "per-invocation")
}

/// With processes that are used again.
pub(super) fn reused(effort: Effort) -> Result<Vec<Row>> {
    soak(effort, "soak-reused", "reused")
}

fn soak(effort: Effort, name: &str, process: &str) -> Result<Vec<Row>> {
    // So few idle workers are made one by one; of more, made in batches, not as many wait each time.
    let prefork = PREFORK.to_string();
    let server = monohull(&["--keep", "200", "--timeout", "20s", "--prefork", &prefork, "--process", process])?;
    deploy(server.address)?;
    // As wide as what follows, so that what is kept for good is there.
    Soak::new(&server, effort.size(2000, 100)).run(&server)?;
    let before = Census::take(&server)?;
    let soak = Soak::new(&server, effort.size(20_000, 400));
    soak.run(&server)?;
    let whole = soak.begin.elapsed().as_nanos() as f64;
    let kills = soak.kills.load(Ordering::SeqCst);
    let after = Census::take(&server)?;
    after.compare(&before)?;
    let grown = after.memory.saturating_sub(before.memory) >> 10;
    eprintln!(
        "  {} invocations, {kills} processes killed, no wrong answer; {} processes, {} descriptors as before; + {grown} KiB",
        soak.total,
        after.processes,
        after.files.values().sum::<usize>()
    );
    let half = soak.half.load(Ordering::SeqCst) as f64;
    let per = soak.total as f64 / 2.0;
    let sides = (Samples::of(vec![(whole - half) / per]), Samples::of(vec![half / per]));
    let name = format!("{name}, {} invocations: second half", soak.total);
    Ok(vec![Row::new(name, sides, "the first half", Unit::Microseconds, Some(1.25))])
}

fn deploy(address: SocketAddr) -> Result<()> {
    let slots = |args: Value| json!({ "inputs": ["in"], "outputs": ["out"], "args": args });
    let alone = json!({ "inputs": ["in"], "outputs": ["out"], "process": "per-invocation" });
    register(address, "alone", "echo", &alone)?;
    register(address, "echo", "echo", &slots(json!({})))?;
    register(address, "slow", "echo", &slots(json!({ "wait_ms": 30 })))?;
    register(address, "panic", "misbehave", &json!({ "args": { "how": "panic" } }))?;
    register(address, "stuck", "misbehave", &json!({ "args": { "how": "sleep" }, "limits": { "timeout": "30ms" } }))?;
    register(address, "loop", "misbehave", &json!({ "args": { "how": "endless-loop" }, "timeout": "20ms" }))
}

impl Soak {
    fn new(server: &Running, total: usize) -> Soak {
        Soak {
            address: server.address,
            next: AtomicUsize::new(0),
            total,
            over: AtomicBool::new(false),
            kills: AtomicU64::new(0),
            killed: AtomicU64::new(0),
            begin: Instant::now(),
            half: AtomicU64::new(0),
        }
    }

    /// Runs all clients and the killer to their end.
    fn run(&self, server: &Running) -> Result<()> {
        std::thread::scope(|scope| {
            let killer = scope.spawn(|| self.kill_now_and_then(server.pid()));
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| self.client())).collect();
            let ended =
                clients.into_iter().map(|client| client.join().unwrap_or_else(|_| Err("a client panicked".into())));
            let ended: Vec<Result<()>> = ended.collect();
            self.over.store(true, Ordering::SeqCst);
            killer.join().map_err(|_| "the killer panicked".to_owned())?;
            ended.into_iter().collect::<Result<()>>()
        })?;
        let (killed, kills) = (self.killed.load(Ordering::SeqCst), self.kills.load(Ordering::SeqCst));
        if killed > kills {
            Err(format!("{killed} answers report killed processes, and {kills} were killed"))
        } else {
            Ok(())
        }
    }

    fn client(&self) -> Result<()> {
        loop {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            if number == self.total / 2 {
                self.half.store(self.begin.elapsed().as_nanos() as u64, Ordering::SeqCst);
            }
            if number >= self.total {
                return Ok(());
            }
            self.one(number).map_err(|why| format!("invocation {number}: {why}"))?;
        }
    }

    /// One invocation; its number chooses what it is.
    fn one(&self, number: usize) -> Result<()> {
        // Small and large bodies, all different.
        let size = if number.is_multiple_of(97) { 300_000 } else { 20 + number % 1000 };
        let body: Vec<u8> = (0..size).map(|at| (at * 31 + number) as u8).collect();
        match number % 20 {
            0..=11 => self.expect("/invoke/echo", &body, 200, "", Some(&body)),
            12 | 13 => self.expect("/invoke/panic", b"", 502, "panic", None),
            14 => self.expect("/invoke/stuck", b"", 504, "timeout", None),
            15 => self.expect("/invoke/loop", b"", 504, "timeout", None),
            16 | 17 => {
                // Leaves before it is answered.
                let mut connection = Connection::open(self.address)?;
                connection.send(&request("POST", "/invoke/slow", &body))
            }
            _ => self.later(&body),
        }
    }

    /// An invocation whose answer is known: status, kind of error, body.
    fn expect(&self, path: &str, body: &[u8], status: u16, kind: &str, result: Option<&[u8]>) -> Result<()> {
        let (found, answer) = ask(self.address, "POST", path, body)?;
        if found == status && result.is_none_or(|result| result == answer) {
            let document: Value = serde_json::from_slice(&answer).unwrap_or_default();
            if kind.is_empty() || document["error"]["kind"] == kind {
                return Ok(());
            }
        }
        self.excuse(&answer).map_err(|why| format!("{path}: {found}: {why}"))
    }

    /// Another answer is right only if the process was killed.
    fn excuse(&self, answer: &[u8]) -> Result<()> {
        let document: Value = serde_json::from_slice(answer).unwrap_or_default();
        if document["error"]["kind"] == "process" {
            self.killed.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        Err(format!("a wrong answer: {}", String::from_utf8_lossy(&answer[..answer.len().min(300)])))
    }

    /// An asynchronous invocation, asked about until it has ended.
    fn later(&self, body: &[u8]) -> Result<()> {
        let (status, answer) = ask(self.address, "POST", "/async-invoke/echo", body)?;
        let accepted: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let (Some(location), 202) = (accepted["location"].as_str(), status) else {
            return Err(format!("accepted with {status}"));
        };
        loop {
            let (status, answer) = ask(self.address, "GET", location, b"")?;
            let shown: Value = serde_json::from_slice(&answer).unwrap_or_default();
            match (status, shown["status"].as_str()) {
                // Others came after it, and it is forgotten.
                (404, _) => return Ok(()),
                (200, Some("pending" | "running")) => std::thread::sleep(Duration::from_millis(2)),
                (200, Some("completed")) if shown["result"]["out"]["bytes"] == body.len() => return Ok(()),
                _ => return self.excuse(&answer),
            }
        }
    }

    /// Kills a process of the server's workflows, or an idle worker, now and then.
    fn kill_now_and_then(&self, server: u32) {
        let mut turn = 0;
        while !self.over.load(Ordering::SeqCst) {
            std::thread::sleep(KILL_PAUSE);
            let workers: Vec<i32> = children(server as i32).into_iter().flat_map(children).collect();
            turn += 7;
            if let Some(&pid) = workers.get(turn % workers.len().max(1)) {
                // It may have ended by itself.
                self.kills.fetch_add(u64::from(kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok()), Ordering::SeqCst);
            }
        }
    }
}

/// Processes that wait for the next invocation.
const PREFORK: usize = 3;

/// What the server has.
struct Census {
    processes: usize,
    /// Descriptors by what they are.
    files: BTreeMap<String, usize>,
    memory: u64,
}

/// Large results of invocations that the server remembers. Their number is bounded with those, and is as chance has it.
const RESULT: &str = "/memfd:monohull-sealed (deleted)";

impl Census {
    /// Waits until the server is quiet, and counts.
    fn take(server: &Running) -> Result<Census> {
        let begin = Instant::now();
        let mut last = None;
        // One connection, which stays: of one that was just closed the server may not know yet.
        let mut connection = Connection::open(server.address)?;
        for worker in children(server.pid() as i32).into_iter().flat_map(children).filter(|pid| has_image(*pid)) {
            let memory = private_memory(&worker);
            if memory > KEPT {
                return Err(format!(
                    "a process that waits for another invocation has {memory} bytes, more than {KEPT}"
                ));
            }
        }
        // Those that serve one version end with it.
        deploy(server.address)?;
        // An idle worker that was killed is found out when it is to be used.
        for _ in 0..2 * PREFORK {
            connection.send(&request("POST", "/invoke/alone", b"ping"))?;
            connection.answer()?;
        }
        loop {
            connection.send(&request("GET", "/healthz", b""))?;
            let (_, answer) = connection.answer()?;
            let health: Value = serde_json::from_slice(&answer).unwrap_or_default();
            let census = Census::now(server.pid() as i32);
            // The same twice in a row, with nothing to do: ends are reported one by one.
            // Its spawner and all idle workers are there: a busy host may take a while to make the last.
            let idle = ["running", "queued", "kept_workers"].iter().all(|what| health[*what] == 0);
            let quiet = idle && census.processes > PREFORK;
            let now = quiet.then(|| (census.processes, census.files.clone()));
            if now.is_some() && now == last {
                return Ok(census);
            }
            if begin.elapsed() > QUIET {
                return Err(format!("the server does not become quiet: {health}"));
            }
            last = now;
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    fn now(server: i32) -> Census {
        let spawners = children(server);
        let workers: Vec<i32> = spawners.iter().copied().flat_map(children).collect();
        let mut files = BTreeMap::new();
        for pid in [server].iter().chain(&spawners) {
            let links = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            for link in links.filter_map(|link| std::fs::read_link(link.path()).ok()) {
                // Sockets and pipes have numbers.
                let kind = link.to_string_lossy().split(":[").next().unwrap_or_default().to_owned();
                *files.entry(kind).or_insert(0) += 1;
            }
        }
        files.remove(RESULT);
        Census {
            processes: spawners.len() + workers.len(),
            files,
            memory: [server].iter().chain(&spawners).map(pss).sum(),
        }
    }

    /// Nothing has been left behind since `before`.
    fn compare(&self, before: &Census) -> Result<()> {
        let more = |(kind, count): (&String, &usize)| *count > before.files.get(kind).copied().unwrap_or(0);
        if self.processes > before.processes || self.files.iter().any(more) {
            return Err(format!(
                "left behind: processes {} after {}, descriptors {:?} after {:?}",
                self.processes, before.processes, self.files, before.files
            ));
        }
        let grown = self.memory.saturating_sub(before.memory);
        if grown > GROWTH { Err(format!("the server has grown by {grown} bytes, more than {GROWTH}")) } else { Ok(()) }
    }
}
