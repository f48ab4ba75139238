//! TCP over a TAP device of the workflow's own, against the same program with the kernel's sockets over loopback. One server,
//! in this process, serves both clients, each in a process of its own. iperf3 over the same loopback says whether that
//! peer is a fair one.
//!
//! ```text
//!   workflow ─ libos: TCP/IP ─ device ─┐
//!                                      ├─ kernel: TCP/IP ─ server          all in a network namespace of their own
//!   plain program ─── loopback ────────┘
//! ```
//!
//! It takes root and `/dev/net/tun`.

use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::ours;
use crate::peer::{self, traffic};
use example_kernels::traffic::Traffic;
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// An address of the namespace that is no device's, so that both clients find the server at the same one.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
const POOL: &str = "10.99.0.0/24";
/// The traffic that is compared with `iperf3`, and iperf3's options for it.
const IPERF: [(Traffic, &[&str]); 2] = [(Traffic::Push, &[]), (Traffic::Pull, &["--reverse"])];

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    // This thread and the processes that it starts are in the namespace, and no others.
    let inside = move || Namespace::enter()?.measure(effort);
    thread::spawn(inside).join().unwrap_or_else(|_| Err("it panicked".to_owned()))
}

/// The rights or the device.
pub(super) fn lacks() -> Option<String> {
    if !nix::unistd::Uid::effective().is_root() {
        return Some("it needs root, for a network namespace and devices".to_owned());
    }
    let tun = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    tun.err().map(|error| format!("/dev/net/tun: {error}"))
}

/// A namespace with a helper and a server in it.
struct Namespace {
    helper: Running,
    folder: PathBuf,
    server: SocketAddr,
}

impl Namespace {
    fn enter() -> Result<Namespace> {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("a network namespace: {error}"))?;
        let address = format!("{SERVER}/32");
        for arguments in [&["link", "set", "lo", "up"][..], &["address", "add", &address, "dev", "lo"]] {
            said(Command::new(program("ip")?).args(arguments))?;
        }
        let folder = ours::scratch()?.join(format!("network-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut command = Command::new(monohull()?);
        command.args(["network", "--pool", POOL, "--socket"]).arg(folder.join("socket")).stdout(Stdio::piped());
        let mut helper = Running::start(&mut command)?;
        let mut line = String::new();
        if let Some(out) = helper.0.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(|error| format!("the network helper: {error}"))?;
        }
        if !line.starts_with("leasing devices at ") {
            return Err(format!("the network helper said {line:?}"));
        }
        let listener = TcpListener::bind((SERVER, 0)).map_err(|error| format!("a server: {error}"))?;
        let server = listener.local_addr().map_err(|error| format!("a server: {error}"))?;
        // It ends with this process.
        thread::spawn(move || traffic::serve(&listener));
        Ok(Namespace { helper, folder, server })
    }

    fn measure(&self, effort: Effort) -> Result<Vec<Row>> {
        let bulk = effort.size(1u64 << 30, 4 << 20);
        let counts = Traffic::ALL.map(|traffic| match traffic {
            Traffic::Push | Traffic::Pull => bulk,
            Traffic::Ask => effort.size(10_000, 20),
            Traffic::Connect => effort.size(2_000, 20),
        });
        let document = self.document(counts)?;
        let mut ours = Traffic::ALL.map(|_| Vec::new());
        let mut peers = Traffic::ALL.map(|_| Vec::new());
        let mut iperf = IPERF.map(|_| Vec::new());
        // The first turn of each is thrown away.
        for round in 0..=effort.rounds.min(7) {
            let figures = self.workflow(&document)?;
            for (index, traffic) in Traffic::ALL.iter().enumerate() {
                let arguments = [self.server.to_string(), index.to_string(), counts[index].to_string()];
                let peer = peer::measure("traffic", &arguments.each_ref().map(String::as_str))?;
                if round > 0 {
                    ours[index].push(figure(&figures, traffic.name())?);
                    peers[index].push(peer);
                }
            }
            for (samples, (_, way)) in iperf.iter_mut().zip(IPERF) {
                let each = iperf3(bulk, way)?;
                if round > 0 {
                    samples.push(each);
                }
            }
        }
        let ours = ours.map(Samples::of);
        let mut rows = Vec::new();
        for (index, traffic) in Traffic::ALL.into_iter().enumerate() {
            // The goal is at least half of the kernel's rate.
            let (what, unit, scale, limit) = match traffic {
                Traffic::Push => ("TCP, bytes sent, each MiB", Unit::Microseconds, MIB, Some(2.0)),
                Traffic::Pull => ("TCP, bytes received, each MiB", Unit::Microseconds, MIB, Some(2.0)),
                Traffic::Ask => ("TCP, a byte there and one back", Unit::Microseconds, 1.0, None),
                Traffic::Connect => ("TCP, the same on a new connection", Unit::Microseconds, 1.0, None),
            };
            let mut row = |peer: &Samples, name, limit| {
                rows.push(Row::new(what, (ours[index].scaled(scale), peer.scaled(scale)), name, unit, limit));
            };
            row(&Samples::of(std::mem::take(&mut peers[index])), "the kernel's loopback", limit);
            if let Some(samples) = iperf.iter_mut().zip(IPERF).find(|(_, (which, _))| *which == traffic) {
                row(&Samples::of(std::mem::take(samples.0)), "iperf3 over loopback", None);
            }
        }
        Ok(rows)
    }

    /// The workflow file.
    fn document(&self, counts: [u64; 4]) -> Result<PathBuf> {
        let document = json!({
            "name": "bench-network",
            "functions": {"client": {"image": ours::image("bench-network")}},
            "steps": [{"name": "client", "function": "client", "args": {"server": self.server, "counts": counts}}],
            "network": "tap",
            "outputs": ["figures"],
            "limits": {"timeout": "10m"},
        });
        let path = self.folder.join("workflow.json");
        fs::write(&path, document.to_string()).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// Runs the workflow; its figures.
    fn workflow(&self, document: &Path) -> Result<String> {
        let figures = self.folder.join("figures");
        let mut command = Command::new(monohull()?);
        command.arg("run").arg(document).arg("--output").arg(format!("figures={}", figures.display()));
        said(command.env("MONOHULL_NETWORK", self.folder.join("socket")))?;
        fs::read_to_string(&figures).map_err(|error| format!("{}: {error}", figures.display()))
    }
}

const MIB: f64 = 1_048_576.0;

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.helper.0.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A program that ends when this is dropped.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Running> {
        let what = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Running).map_err(|error| format!("{what}: {error}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What iperf3 takes for each byte, in nanoseconds: a server and a client, as it does it.
fn iperf3(bytes: u64, way: &[&str]) -> Result<f64> {
    /// Its port; the namespace has no other servers.
    const PORT: u16 = 5201;
    let iperf3 = program("iperf3")?;
    let mut server = Command::new(&iperf3);
    server.args(["--server", "--one-off", "--port", &PORT.to_string()]).stdout(Stdio::null());
    let _server = Running::start(&mut server)?;
    // A connection would count as the one client, so the list of sockets is read instead: 0A means listening.
    let port = format!(":{PORT:04X} ");
    let sockets = || fs::read_to_string("/proc/thread-self/net/tcp6").unwrap_or_default();
    let known = || sockets().lines().any(|line| line.contains(&port) && line.contains(":0000 0A "));
    for _ in 0..500 {
        if known() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let mut client = Command::new(&iperf3);
    client.args([
        "--client",
        &SERVER.to_string(),
        "--port",
        &PORT.to_string(),
        "--json",
        "--bytes",
        &bytes.to_string(),
    ]);
    let said = said(client.args(way))?;
    let report: Value = serde_json::from_slice(&said).map_err(|error| format!("iperf3: {error}"))?;
    let sum = &report["end"]["sum_received"];
    match (sum["seconds"].as_f64(), sum["bytes"].as_f64()) {
        (Some(seconds), Some(bytes)) if bytes > 0.0 => Ok(seconds * 1e9 / bytes),
        _ => Err(format!("iperf3 said {}", report["error"])),
    }
}

/// The number of a line `NAME: NUMBER`.
fn figure(figures: &str, name: &str) -> Result<f64> {
    let figure = figures.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok());
    figure.ok_or_else(|| format!("no figure {name:?} in {figures:?}"))
}

/// A program that `cargo xtask bench` fetches.
fn program(name: &str) -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers/bookworm/bin").join(name);
    fs::canonicalize(&path).map_err(|_| format!("{name} is not there; `cargo xtask bench` fetches it"))
}

/// The visor, as `cargo xtask build` leaves it.
fn monohull() -> Result<PathBuf> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    Ok(program.with_file_name("monohull"))
}

/// What a program that must succeed says.
fn said(command: &mut Command) -> Result<Vec<u8>> {
    let what = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{what}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{what}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}
