//! `monohull serve`: workflows over HTTP.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::exit::Exit;
use super::isolation::Isolation;
use super::measures::{Size, Time, duration, size};
use monohull_host_files::input;
use monohull_watchdog::{self as watchdog, Listen, Residence, ServeError, Settings, StateError, TlsFiles, Token};
use monohull_worker::cgroup::CgroupMode;
use monohull_workflow::plan::ProcessUse;

/// Serve functions and workflows over HTTP
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!(
    "monohull serve --listen 127.0.0.1:7070 --state /var/lib/monohull",
    "MONOHULL_TOKEN=secret monohull serve --listen 0.0.0.0:7070 --tls-cert chain.pem --tls-key key.pem"
))]
pub(super) struct Serve {
    /// Where to listen: ADDRESS:PORT, unix:PATH, or `systemd` for the socket that a service manager passes; port 0 takes any that is
    /// free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070", value_parser = listen)]
    listen: Listen,
    /// A file with the certificate of this server in PEM, and behind it those that lead to a root that clients know; read again
    /// at SIGHUP; with it there is HTTPS, by default plain HTTP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// A file with the private key of that certificate in PEM, not encrypted; read again at SIGHUP; no key by default
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The folder that keeps functions and workflows; by default $STATE_DIRECTORY, or monohull in the user's state folder
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// The file of the key that encrypts what invocations leave in the state folder; `monohull key new` makes one; by default nothing is
    /// encrypted
    #[arg(long, value_name = "FILE")]
    state_key: Option<PathBuf>,
    /// A file that says which networks, directories, disk images and secrets of this host workflows may use; read again at
    /// SIGHUP; by default none
    #[arg(long, value_name = "FILE")]
    grants: Option<PathBuf>,
    /// What begins addresses by which clients reach this server, such as `https://ships.example`; functions write links for callbacks
    /// with it; by default they have the path alone
    #[arg(long, value_name = "URL", value_parser = public_url)]
    public_url: Option<String>,
    /// A file with the bearer token that clients must send; $MONOHULL_TOKEN does the same; by default there is none
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Threads that serve clients; by default one for each four cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), default_value_t = number(usual().threads))]
    threads: u16,
    /// Processes kept ready for the next invocation
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), default_value_t = number(usual().prefork))]
    prefork: u16,
    /// How many invocations a process serves if the workflow's file does not say; by default `reused` where protection keys are
    /// in force
    #[arg(long, value_enum)]
    process: Option<Process>,
    /// Memory that processes may have which wait for another invocation of their workflow; 0: none waits; by default an eighth of the
    /// host's memory, or of what the server's control group may have
    #[arg(long, value_name = "SIZE", value_parser = size_or_none)]
    reused_memory: Option<Size>,
    /// Invocations that run at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), default_value_t = number(usual().concurrency))]
    concurrency: u16,
    /// Invocations that may wait; more are refused with status 429
    #[arg(long, value_name = "N", default_value_t = number(usual().queue))]
    queue: u16,
    /// The longest an invocation may take, such as 30s
    #[arg(long, value_name = "TIME", value_parser = duration, default_value_t = Time(usual().timeout))]
    timeout: Time,
    /// How long a workflow must only wait to become durable, and to wait without a process; `never`: it waits in its process
    #[arg(long, value_name = "TIME", value_parser = suspend, default_value = "1s")]
    suspend: Suspend,
    /// Memory of processes that stay with durable invocations which wait, to go on without being restored: beyond HIGH those end that
    /// were not used for longest, until there are at most LOW; 0: none stays
    #[arg(long, value_name = "LOW..HIGH", value_parser = resident_memory, default_value_t = Watermarks::usual())]
    resident_memory: Watermarks,
    /// The most such processes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), default_value_t = number(usual().residence.map_or(1, |most| most.number)))]
    residents: u16,
    /// How long such a process stays at one wait; one whose time is due within as long again stays until then
    #[arg(long, value_name = "TIME", value_parser = duration, default_value_t = Time(usual().residence.map_or(Duration::MAX, |most| most.idle)))]
    resident_idle: Time,
    /// Durable invocations and asynchronous calls that have not ended; more are answered 429
    #[arg(long, value_name = "N", default_value_t = usual().durable)]
    max_durable: u64,
    /// How long running invocations may go on after SIGTERM
    #[arg(long, value_name = "TIME", value_parser = duration, default_value_t = Time(usual().drain))]
    drain: Time,
    /// End when nothing has been under way for this long, by default 5s, and nothing is due by itself. A service manager starts the
    /// server again at the next connection, and when the next durable invocation is due
    #[arg(long, value_name = "TIME", value_parser = duration, num_args = 0..=1, require_equals = true, default_missing_value = "5s")]
    exit_when_idle: Option<Time>,
    /// The largest body of a request, such as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = size, default_value_t = Size(usual().body))]
    max_body: Size,
    /// Memory that all large bodies together may take
    #[arg(long, value_name = "SIZE", value_parser = size, default_value_t = Size(usual().bodies))]
    max_bodies: Size,
    /// Memory that all large answers together may take until their clients have taken them
    #[arg(long, value_name = "SIZE", value_parser = size, default_value_t = Size(usual().answers))]
    max_answers: Size,
    /// Memory that all templates of functions together may take; 0 for no templates
    #[arg(long, value_name = "SIZE", value_parser = size_or_none, default_value_t = Size(usual().template_bytes))]
    template_bytes: Size,
    /// Ended calls that are remembered in memory, of clients that waited for the result
    #[arg(long, value_name = "N", default_value_t = number(usual().keep.number))]
    keep: u32,
    /// Memory that those may take
    #[arg(long, value_name = "SIZE", value_parser = size, default_value_t = Size(usual().keep.bytes))]
    keep_bytes: Size,
    /// How long those are remembered
    #[arg(long, value_name = "TIME", value_parser = duration, default_value_t = Time(usual().keep.time))]
    keep_time: Time,
    /// Ended durable invocations, and so asynchronous calls, that are remembered
    #[arg(long, value_name = "N", default_value_t = number(usual().keep_durable.number))]
    keep_durable: u32,
    /// Bytes on the disk that remembered durable invocations may take
    #[arg(long, value_name = "SIZE", value_parser = size, default_value_t = Size(usual().keep_durable.bytes))]
    keep_durable_bytes: Size,
    /// How long ended durable invocations are remembered
    #[arg(long, value_name = "TIME", value_parser = duration, default_value_t = Time(usual().keep_durable.time))]
    keep_durable_time: Time,
    /// How long a client may pause: while it sends its head or body, while it takes its answer; by default 30s while it
    /// sends its head and 10s otherwise
    #[arg(long, value_name = "TIME", value_parser = duration)]
    client_pause: Option<Time>,
    /// Connections at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), default_value_t = number(usual().clients.connections))]
    connections: u16,
    /// A host that X-Callback-Url may name, HOST or HOST:PORT; may be given several times; by default there is none
    #[arg(long = "callback-host", value_name = "HOST")]
    callback_hosts: Vec<String>,
    /// Maximum concurrent callbacks; further callbacks are dropped
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), default_value_t = number(usual().callbacks_max))]
    max_callbacks: u16,
    /// How functions are isolated from the system
    #[arg(long, value_enum, default_value_t)]
    isolation: Isolation,
    /// Whether the process of each workflow has a control group of its own, with limits of memory and tasks
    #[arg(long, value_enum, default_value_t)]
    cgroup: CgroupMode,
    /// How messages are written to standard error; RUST_LOG chooses which
    #[arg(long, value_enum, default_value_t)]
    pub(super) log: Log,
}

/// How many invocations a process serves.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Process {
    /// One
    PerInvocation,
    /// Several of the same workflow, one after the other; it is reset in between
    Reused,
}

impl Process {
    fn plan(self) -> ProcessUse {
        match self {
            Process::PerInvocation => ProcessUse::PerInvocation,
            Process::Reused => ProcessUse::Reused,
        }
    }
}

/// How messages are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(super) enum Log {
    /// One JSON object per line, for programs.
    #[default]
    Json,
    /// For people.
    Text,
}

/// The invocation is wrong.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
enum UsageError {
    #[error("--state is required: neither $STATE_DIRECTORY nor $HOME is set")]
    NoState,
    #[error("the token file {path} cannot be read: {source}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("--tls-cert and --tls-key need an ADDRESS:PORT: a Unix socket has no TLS")]
    UnixTls,
    #[error("a token is one word of visible ASCII characters")]
    Token,
}

impl Serve {
    pub(super) fn run(self) -> Exit {
        let isolation = match self.isolation.wish() {
            Ok(isolation) => isolation,
            Err(why) => return super::fail(Exit::Host, &why),
        };
        let settings = match self.settings() {
            Ok(settings) => Settings { isolation, ..settings },
            Err(error) => return super::fail(Exit::Usage, &error),
        };
        let announce = |address: &str| super::output::text(format_args!("monohull listens on {address}\n"));
        match watchdog::serve(settings, announce) {
            Ok(()) => Exit::Done,
            Err(ServeError::Ledger(error)) if error.is_of_key() => super::fail(Exit::Usage, &error),
            Err(
                error @ (ServeError::Listen { .. }
                | ServeError::Passed(_)
                | ServeError::UnixTls
                | ServeError::Taken(_)
                | ServeError::Tls(_)
                | ServeError::Grants(_)
                | ServeError::State(StateError::Unsuitable { .. })),
            ) => super::fail(Exit::Usage, &error),
            Err(error) => super::fail(Exit::Host, &error),
        }
    }

    fn settings(self) -> Result<Settings, UsageError> {
        let state = self.state.clone().or_else(usual_state).ok_or(UsageError::NoState)?;
        let usual = Settings::new(state);
        let token = self.token()?;
        let tls = self.tls_cert.zip(self.tls_key).map(|(certificate, key)| TlsFiles { certificate, key });
        if tls.is_some() && matches!(self.listen, Listen::Unix(_)) {
            return Err(UsageError::UnixTls);
        }
        Ok(Settings {
            listen: self.listen,
            tls,
            state_key: self.state_key,
            grants: self.grants,
            public_url: self.public_url.unwrap_or_default(),
            token,
            threads: self.threads.into(),
            prefork: self.prefork.into(),
            process: self.process.map(Process::plan),
            reused_memory: self.reused_memory.map(|size| size.0),
            concurrency: self.concurrency.into(),
            queue: self.queue.into(),
            body: self.max_body.0,
            bodies: self.max_bodies.0,
            answers: self.max_answers.0,
            template_bytes: self.template_bytes.0,
            timeout: self.timeout.0,
            suspend: self.suspend.0,
            residence: self
                .resident_memory
                .bounds(self.residents.into(), self.resident_idle.0)
                .filter(|_| self.suspend.0.is_some()),
            durable: self.max_durable,
            drain: self.drain.0,
            idle: self.exit_when_idle.map(|time| time.0),
            keep: watchdog::Keep { number: self.keep as usize, bytes: self.keep_bytes.0, time: self.keep_time.0 },
            keep_durable: watchdog::Keep {
                number: self.keep_durable as usize,
                bytes: self.keep_durable_bytes.0,
                time: self.keep_durable_time.0,
            },
            callbacks: self.callback_hosts,
            callbacks_max: self.max_callbacks.into(),
            cgroup: self.cgroup,
            clients: watchdog::ClientLimits {
                head: self.client_pause.map_or(usual.clients.head, |pause| pause.0),
                pause: self.client_pause.map_or(usual.clients.pause, |pause| pause.0),
                connections: self.connections.into(),
                ..usual.clients
            },
            ..usual
        })
    }

    /// The token, from a file or from the environment: on the command line all users of the host could read it.
    fn token(&self) -> Result<Option<Token>, UsageError> {
        let secret = match &self.token_file {
            Some(path) => Some(read_token(path).map_err(|source| {
                let path = path.clone();
                UsageError::Unreadable { path, source }
            })?),
            None => std::env::var("MONOHULL_TOKEN").ok(),
        };
        secret.map(|secret| Token::new(secret.trim_end()).ok_or(UsageError::Token)).transpose()
    }
}

fn read_token(path: &Path) -> io::Result<String> {
    let bytes = input::read(path, input::WORKFLOW_MAX)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Where services, and then users, keep what should survive.
pub(super) fn usual_state() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("STATE_DIRECTORY") {
        return Some(folder.into());
    }
    let users = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let users = users.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")));
    Some(users?.join("monohull"))
}

fn listen(text: &str) -> Result<Listen, String> {
    match text.strip_prefix("unix:") {
        Some("") => Err("expected unix:PATH".to_owned()),
        None if text == "systemd" => Ok(Listen::Passed),
        Some(path) => Ok(Listen::Unix(path.into())),
        None => {
            let address = text.parse::<SocketAddr>().map(Listen::Tcp);
            let named =
                text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
            address.map_err(|_| match named {
                true => "expected a numeric address, such as 127.0.0.1:7070 or [::1]:7070".to_owned(),
                false => "expected ADDRESS:PORT, unix:PATH or systemd".to_owned(),
            })
        }
    }
}

/// The beginning of addresses, without a slash at its end.
fn public_url(text: &str) -> Result<String, String> {
    let uri: Option<hyper::Uri> = text.parse().ok();
    let is_one = |uri: &hyper::Uri| {
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        matches!(uri.scheme_str(), Some("http" | "https")) && has_host && !has_user && uri.query().is_none()
    };
    if !uri.as_ref().is_some_and(is_one) || text.contains('#') {
        return Err("expected http://HOST or https://HOST, with a port and a path if need be".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// The defaults; the folder is no matter here.
fn usual() -> Settings {
    Settings::new(PathBuf::new())
}

/// A size, or 0.
fn size_or_none(text: &str) -> Result<Size, String> {
    if text == "0" { Ok(Size(0)) } else { size(text) }
}

/// Bounds of the memory of processes that stay with what waits; `None` if there are none.
#[derive(Clone, Copy, Debug)]
struct Watermarks(Option<(u64, u64)>);

impl Watermarks {
    fn usual() -> Watermarks {
        Watermarks(usual().residence.map(|usual| (usual.low, usual.high)))
    }

    fn bounds(self, number: usize, idle: Duration) -> Option<Residence> {
        self.0.map(|(low, high)| Residence { low, high, number, idle })
    }
}

impl fmt::Display for Watermarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((low, high)) => write!(f, "{}..{}", Size(low), Size(high)),
            None => f.write_str("0"),
        }
    }
}

fn resident_memory(text: &str) -> Result<Watermarks, String> {
    if text == "0" {
        return Ok(Watermarks(None));
    }
    let expected = || "expected LOW..HIGH, such as 192MiB..256MiB, or 0".to_owned();
    let (low, high) = text.split_once("..").ok_or_else(expected)?;
    let [low, high] = [size_or_none(low), size(high)].map(|size| size.map(|Size(bytes)| bytes).map_err(|_| expected()));
    match (low?, high?) {
        (low, high) if low <= high => Ok(Watermarks(Some((low, high)))),
        _ => {
            Err("LOW is more than HIGH: processes are ended until they have LOW, once they have more than HIGH"
                .to_owned())
        }
    }
}

/// A default as an option has it.
fn number<N: TryFrom<usize>>(usual: usize) -> N {
    N::try_from(usual).unwrap_or_else(|_| unreachable!("defaults are small"))
}

/// A time on the command line, or never.
#[derive(Clone, Copy, Debug)]
struct Suspend(Option<Duration>);

fn suspend(text: &str) -> Result<Suspend, String> {
    match text {
        "never" => Ok(Suspend(None)),
        _ => duration(text).map(|time| Suspend(Some(time.0))).map_err(|why| format!("{why}, or never")),
    }
}
