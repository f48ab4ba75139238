//! A running engine: its processes, its folder and where it listens.

use super::client::{Client, Style};
use crate::harness::Result;
use crate::http::ask;
use crate::ours::scratch;
use crate::service::{children, pss};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long an engine may take to be ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// How an engine is started, once its folder and ports are known.
pub(super) type Begin = Box<dyn Fn(&Place) -> Vec<Command> + Send + Sync>;

/// Where an engine is.
pub(super) struct Place {
    pub(super) folder: PathBuf,
    pub(super) ports: Vec<u16>,
}

impl Place {
    /// A folder of its own, and so many ports of which the first is the one that clients use.
    pub(super) fn new(name: &str, ports: usize) -> Result<Place> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = scratch()?.join(format!("{name}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // All are taken before the first is given back, so no two are the same.
        let taken = (0..ports).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<std::io::Result<Vec<_>>>();
        let ports = taken.and_then(|taken| taken.iter().map(|port| Ok(port.local_addr()?.port())).collect());
        Ok(Place { folder, ports: ports.map_err(|error| format!("a free port: {error}"))? })
    }

    pub(super) fn address(&self, port: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[port]))
    }
}

/// An engine with its processes. They end when it is dropped.
pub(crate) struct Engine {
    /// What it is called in rows.
    pub(crate) name: String,
    pub(super) style: Style,
    pub(super) place: Place,
    pub(super) begin: Begin,
    /// A request that is answered with 200 once it serves: of the port of this number, this path.
    pub(super) ready: (usize, &'static str),
    /// The processes of the engine itself, and those that a kill of it leaves alone, which come first.
    processes: Vec<Child>,
    pub(super) spared: usize,
}

impl Engine {
    pub(super) fn new(
        name: &str,
        style: Style,
        place: Place,
        begin: Begin,
        ready: (usize, &'static str),
        spared: usize,
    ) -> Result<Engine> {
        let mut engine = Engine { name: name.to_owned(), style, place, begin, ready, processes: Vec::new(), spared };
        engine.begin()?;
        engine.until_ready()?;
        Ok(engine)
    }

    /// Starts the processes that do not run.
    fn begin(&mut self) -> Result<()> {
        for command in (self.begin)(&self.place).into_iter().skip(self.processes.len()) {
            let log = self.place.folder.join(format!("log-{}", self.processes.len()));
            let out = fs::File::options().create(true).append(true).open(&log);
            let out = out.and_then(|out| Ok((out.try_clone()?, out)));
            let (out, err) = out.map_err(|error| format!("{}: {error}", log.display()))?;
            // A group of its own: what it starts ends with it. It ends too if the benchmark is killed.
            let mut bound = ends_with_us(&command);
            let command = bound.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
            let child = command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
            self.processes.push(child);
        }
        Ok(())
    }

    fn until_ready(&mut self) -> Result<()> {
        let begin = Instant::now();
        let (port, path) = self.ready;
        while !matches!(ask(self.place.address(port), "GET", path, b""), Ok((200, _))) {
            let ended = self.processes.iter_mut().any(|child| child.try_wait().is_ok_and(|ended| ended.is_some()));
            if ended || begin.elapsed() > PATIENCE {
                return Err(format!("{} does not start: {}", self.name, self.said()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The last that its processes have said.
    fn said(&self) -> String {
        let texts = (0..self.processes.len()).map(|number| {
            let text = fs::read(self.place.folder.join(format!("log-{number}"))).unwrap_or_default();
            String::from_utf8_lossy(&text[text.len().saturating_sub(400)..]).into_owned()
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// A connection to it.
    pub(crate) fn client(&self) -> Result<Client> {
        Client::open(self.style, self.place.address(0))
    }

    /// Kills all that is the engine, at once.
    pub(crate) fn kill(&mut self) {
        for child in self.processes.drain(self.spared..).rev() {
            // Processes of PostgreSQL have groups of their own, and it does not start while one of them is there.
            let all = below(child.id() as i32);
            end(child, Signal::SIGKILL);
            for pid in &all {
                let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
            }
            let begin = Instant::now();
            while all.iter().any(|pid| kill(Pid::from_raw(*pid), None).is_ok()) && begin.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Starts it again after that, and waits until it listens.
    pub(crate) fn start_again(&mut self) -> Result<()> {
        self.begin()?;
        self.until_ready()
    }

    /// Starts it again after that, and waits until a call is answered; how long that takes, in nanoseconds.
    pub(crate) fn serves_again(&mut self, id: &str) -> Result<f64> {
        let begin = Instant::now();
        self.start_again()?;
        loop {
            let answered = self.client().and_then(|mut client| client.call(id, &super::Order::new("nothing", 0)));
            match answered {
                Ok(_) => return Ok(begin.elapsed().as_nanos() as f64),
                Err(why) if begin.elapsed() > PATIENCE => {
                    return Err(format!("{} does not serve again: {why}", self.name));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Bytes of memory that the engine's processes have, without those that a kill of it leaves alone.
    pub(crate) fn memory(&self) -> u64 {
        self.processes[self.spared..].iter().flat_map(|child| below(child.id() as i32)).map(|pid| pss(&pid)).sum()
    }

    /// The process of the engine itself.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.processes.last().map(Child::id)
    }

    /// Its folder, with all that it keeps.
    pub(crate) fn folder(&self) -> &Path {
        &self.place.folder
    }
}

/// A process, and all that it and those have started.
fn below(pid: i32) -> Vec<i32> {
    let mut all = vec![pid];
    all.extend(children(pid).into_iter().flat_map(below));
    all
}

/// The same command, started so that the kernel ends the process when the benchmark ends, however that ends.
fn ends_with_us(command: &Command) -> Command {
    let mut bound = Command::new("setpriv");
    bound.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    bound
}

/// Ends a process with all that it has started.
fn end(mut child: Child, signal: Signal) {
    let group = Pid::from_raw(child.id() as i32);
    let _ = killpg(group, signal);
    let begin = Instant::now();
    while child.try_wait().is_ok_and(|ended| ended.is_none()) {
        if begin.elapsed() > Duration::from_secs(10) {
            let _ = killpg(group, Signal::SIGKILL);
            let _ = child.wait();
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // Its children may be there still.
    let _ = killpg(group, Signal::SIGKILL);
}

impl Drop for Engine {
    fn drop(&mut self) {
        for child in self.processes.drain(..).rev() {
            end(child, Signal::SIGTERM);
        }
        let _ = fs::remove_dir_all(&self.place.folder);
    }
}
