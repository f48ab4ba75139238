//! What an operator chooses, and why each default is what it is.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::http::auth::Token;
use crate::http::client_limits::ClientLimits;
use crate::http::tls::TlsFiles;
use monohull_engine::IsolationWish;
use monohull_worker::cgroup;
use monohull_workflow::plan::ProcessUse;

/// How the service is to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen. Default: loopback, port 7070: access from outside must be chosen.
    pub listen: Listen,
    /// The certificate and key with which an address and a port accept TLS. Default: none, and plain HTTP; a Unix socket is
    /// always plain.
    pub tls: Option<TlsFiles>,
    /// The folder that keeps functions and workflows across restarts.
    pub state: PathBuf,
    /// The file of the key that encrypts what invocations leave in that folder. Default: none, and nothing is encrypted: a key beside what it encrypts
    /// would protect nothing, and where else it is kept is the operator's to choose.
    pub state_key: Option<PathBuf>,
    /// The file that says what of this host workflows may use. Default: none, and nothing of it.
    pub grants: Option<PathBuf>,
    /// What begins addresses by which clients reach the service, as functions write them into letters: `https://ships.example`. Default: empty, and
    /// functions have the path alone, because the service cannot know by which name, and through which proxy, clients reach it.
    pub public_url: String,
    /// What every request but the health checks must bring. Default: nothing, as only this machine can ask.
    pub token: Option<Token>,
    /// Threads that serve clients. Default: one for each four of the host's cores, at least one and at most 8. One takes in and sends some
    /// 700 MB/s or 26 000 small requests. Each further one makes a request cost more. The other cores are for the processes of workflows.
    pub threads: usize,
    /// Processes kept ready for the next invocation. Default: four times the host's cores, at least 16. One is used up by
    /// every invocation, and making one takes about as long as a small workflow runs, so that a burst as wide as the
    /// machine finds one each; an unused one costs a few hundred kilobytes. Half of them are made at once, when as many
    /// have been used up: that is cheaper than one by one.
    pub prefork: usize,
    /// Whether a process serves several invocations of a workflow whose file does not say. Default: where protection keys are in
    /// force, because without them a function could read what earlier invocations have left in its process, or change it. As
    /// many processes wait for another invocation as are kept ready: `prefork`.
    pub process: Option<ProcessUse>,
    /// Most bytes of memory that processes have for themselves which wait for another invocation. Default: an eighth of the host's memory, or of what the server's control
    /// group may have. So those of small functions are bounded by their number, and those of large ones by this. 0: none waits.
    pub reused_memory: Option<u64>,
    /// Invocations that run at the same time. Default: 64. They share the cores and each holds its memory, so more
    /// only helps workflows that mostly wait.
    pub concurrency: usize,
    /// Invocations that may wait for their turn. Default: 256, four times as many as run: what comes above that would
    /// wait for longer than it runs, and should rather go elsewhere at once.
    pub queue: usize,
    /// Most bytes of one request's body. Default: 256 MiB.
    pub body: u64,
    /// Most bytes of all large bodies together, while they arrive, wait or run. Default: 1 GiB. What comes above that is
    /// turned away, because the memory is the whole machine's.
    pub bodies: u64,
    /// Most bytes of all large answers together, while clients take them. Default: 1 GiB, as for bodies: an answer is in memory until its client
    /// has taken it, whatever else runs meanwhile.
    pub answers: u64,
    /// Most bytes of all templates of functions, in memory. Default: 256 MiB, as much as of ended invocations. 0: there are none.
    pub template_bytes: u64,
    /// The longest an invocation may take, its time in the queue included. A workflow's own timeout holds where it is
    /// shorter. Default: a minute, as long as HTTP clients commonly wait.
    pub timeout: Duration,
    /// A registered workflow that only waits, and for at least this long, becomes durable: it waits without a process, as long as it
    /// likes. Default: a second, as to suspend and to go on takes some milliseconds. `None`: it waits in its process, within `timeout`.
    pub suspend: Option<Duration>,
    /// How much memory processes have that stay with durable invocations which wait, so that these go on without being restored. Default:
    /// as many as templates of functions may have, and a quarter less after the first have been ended, so that not each further one ends
    /// another; 256 processes, since each also takes some descriptors and, where there are control groups, one of them. One stays
    /// for a minute at a wait: what a program answers, or a person who is at it, is answered by then, and a restore of some milliseconds is no
    /// matter later. `None`: none stays.
    pub residence: Option<Residence>,
    /// The most durable invocations that have not ended. Default: 100 000. Each takes some kilobytes on the disk, or as
    /// much memory as it has. Beyond it no asynchronous call is accepted, and another call ends when it comes to wait.
    pub durable: u64,
    /// How long what runs may go on after SIGTERM. Default: 25 s, within the 30 s that service managers commonly give.
    pub drain: Duration,
    /// The service ends when nothing has been under way for so long, and nothing is due within this time either. Default: `None`, it never
    /// does: without a service manager that starts it again, what sleeps would not be woken.
    pub idle: Option<Duration>,
    /// What is kept in memory of calls that have ended and whose clients have waited for the result.
    pub keep: Keep,
    /// The same of asynchronous calls and of all others that have waited, on the disk. Default: 10 000, 1 GiB, and a week: clients ask late for the
    /// results of workflows that sleep for days.
    pub keep_durable: Keep,
    /// `HOST` or `HOST:PORT` that callbacks may go to. Default: none, because a callback makes this machine send
    /// requests to wherever a client says.
    pub callbacks: Vec<String>,
    /// The most callbacks that are under way. Default: 256. Each holds its invocation's document and a connection, for some
    /// forty seconds if there is no answer. Further callbacks are dropped.
    pub callbacks_max: usize,
    /// What keeps functions from the system.
    pub isolation: IsolationWish,
    /// Whether the process of each workflow gets a control group of its own. Default: where the host permits; what it is given
    /// by the host's service manager is this service's to use.
    pub cgroup: cgroup::CgroupMode,
    /// How slow clients may be, and how many.
    pub clients: ClientLimits,
}

/// Bounds of processes that stay with invocations which wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Residence {
    /// Beyond `high` bytes of all together those end that were not used for longest, until there are at most `low`.
    pub low: u64,
    /// See `low`.
    pub high: u64,
    /// The most processes.
    pub number: usize,
    /// How long one stays at one wait, unless that is over within as long again.
    pub idle: Duration,
}

/// Where to listen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// An address and a port; port 0 takes any that is free.
    Tcp(SocketAddr),
    /// A Unix socket, which only its owner can open.
    Unix(PathBuf),
    /// The listening socket that a service manager passes: the first one of `LISTEN_FDS` (systemd's socket activation).
    Passed,
}

/// What is kept of invocations that have ended: the oldest goes first when any bound is reached.
#[derive(Clone, Debug)]
pub struct Keep {
    /// How many. Default of those in memory: 1000.
    pub number: usize,
    /// Bytes of reports, printed lines and results, of all together. Default of those in memory: 256 MiB.
    pub bytes: u64,
    /// How long. Default: an hour.
    pub time: Duration,
}

impl Settings {
    /// The defaults, with this folder for the state.
    pub fn new(state: PathBuf) -> Settings {
        Settings {
            listen: Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 7070))),
            tls: None,
            state,
            state_key: None,
            grants: None,
            public_url: String::new(),
            token: None,
            threads: (cores() / 4).clamp(1, 8),
            prefork: (4 * cores()).max(16),
            process: None,
            reused_memory: None,
            concurrency: 64,
            queue: 256,
            body: 256 << 20,
            bodies: 1 << 30,
            answers: 1 << 30,
            template_bytes: 256 << 20,
            timeout: Duration::from_secs(60),
            suspend: Some(Duration::from_secs(1)),
            residence: Some(Residence { low: 192 << 20, high: 256 << 20, number: 256, idle: Duration::from_secs(60) }),
            durable: 100_000,
            drain: Duration::from_secs(25),
            idle: None,
            keep: Keep { number: 1000, bytes: 256 << 20, time: Duration::from_secs(3600) },
            keep_durable: Keep { number: 10_000, bytes: 1 << 30, time: Duration::from_secs(7 * 86_400) },
            callbacks: Vec::new(),
            callbacks_max: 256,
            isolation: IsolationWish::Auto,
            cgroup: cgroup::CgroupMode::Auto,
            clients: ClientLimits::default(),
        }
    }
}

/// The part of the memory that processes may have which wait for another invocation: one in so many bytes.
const PART_REUSED: u64 = 8;

/// The memory of processes that wait for another invocation, unless an operator chooses: a part of the host's, or of what this process may have.
pub(crate) fn usual_reused_memory() -> u64 {
    // The host's is unknown only where there is nothing to ask it by.
    let host = cgroup::memory_of_host().unwrap_or(2 << 30);
    cgroup::memory_limit().map_or(host, |limit| limit.min(host)) / PART_REUSED
}

/// The host's cores. They are counted once: the kernel is asked with a dozen system calls, and the command line wants the defaults, for each
/// of its options, whatever its verb is.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}
