//! Connections to virtual addresses: made by the broker, served by a thread of its own while the broker lives.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread::JoinHandle;

use hyper::header::HeaderValue;
use monohull_abi::Errno;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::exchange::{self, Target};
use super::upstream::Ways;
use super::{HeaderError, Origin};
use crate::rule::Rule;

/// The most connections of one workflow at the same time: each takes two descriptors of the broker's process and some
/// buffers.
const CONNECTIONS_MAX: usize = 64;

/// What serves a workflow's connections over HTTPS. Dropped, it ends all of them, and waits for that.
pub(crate) struct Relay {
    targets: Vec<Arc<Target>>,
    connect: Vec<Rule>,
    places: Arc<Semaphore>,
    /// Started with the first connection.
    server: Option<Server>,
}

/// The thread that serves.
struct Server {
    sender: UnboundedSender<Accepted>,
    thread: JoinHandle<()>,
}

/// A function's connection.
struct Accepted {
    stream: UnixStream,
    target: Arc<Target>,
    /// Given back when it is closed.
    place: OwnedSemaphorePermit,
}

impl Relay {
    /// For these entries, in their order; `connect` is the list of addresses beside them. Reads the values of headers.
    pub(crate) fn new(origins: &[Origin], connect: &[Rule]) -> Result<Relay, HeaderError> {
        let target = |origin: &Origin| {
            Ok(Arc::new(Target {
                headers: origin.header_values()?,
                authority: HeaderValue::from_str(&origin.authority()).expect("a host's name and a port"),
                origin: origin.clone(),
                failures: AtomicU32::new(0),
            }))
        };
        Ok(Relay {
            targets: origins.iter().map(target).collect::<Result<_, _>>()?,
            connect: connect.to_vec(),
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            server: None,
        })
    }

    /// Whether there are entries, so that virtual addresses lead to them and nowhere else.
    pub(crate) fn is_used(&self) -> bool {
        !self.targets.is_empty()
    }

    /// The place of the entry that a name belongs to.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let bare = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let name = bare(name);
        self.targets.iter().position(|target| bare(&target.origin.host) == name)
    }

    /// The function's end of a connection to the entry at this place.
    pub(crate) fn connect(&mut self, place: usize, port: u16) -> Result<OwnedFd, Errno> {
        let target = self.targets.get(place).filter(|target| target.origin.answers_at(port));
        let target = target.ok_or(Errno::NotPermitted)?.clone();
        let place = self.places.clone().try_acquire_owned().map_err(|_| Errno::TooMany)?;
        let (ours, theirs) = pair().map_err(|_| Errno::TooMany)?;
        let accepted = Accepted { stream: ours, target, place };
        self.server().and_then(|server| server.sender.send(accepted).ok()).ok_or(Errno::NetworkDown)?;
        Ok(theirs)
    }

    fn server(&mut self) -> Option<&Server> {
        if self.server.is_none() {
            let (sender, receiver) = unbounded_channel();
            let connect = self.connect.clone();
            let thread = std::thread::Builder::new().name("network-https".to_owned());
            let thread = thread.spawn(move || run(receiver, connect));
            let thread = thread.inspect_err(|error| tracing::warn!(%error, "no thread for https")).ok()?;
            self.server = Some(Server { sender, thread });
        }
        self.server.as_ref()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(Server { sender, thread }) = self.server.take() {
            drop(sender);
            // If it panicked, it has ended as well.
            let _ = thread.join();
        }
    }
}

/// Both ends, neither of which waits.
fn pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    Ok((ours, theirs.into()))
}

/// Serves connections until the relay is dropped.
fn run(receiver: UnboundedReceiver<Accepted>, connect: Vec<Rule>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::warn!(%error, "no runtime for https"),
    };
    runtime.block_on(serve(receiver, connect));
    // A look-up of a name cannot be interrupted, and is not waited for.
    runtime.shutdown_background();
}

async fn serve(mut receiver: UnboundedReceiver<Accepted>, connect: Vec<Rule>) {
    let mut ways = None;
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = receiver.recv() => {
                let Some(Accepted { stream, target, place }) = accepted else { break };
                let ways = ways.get_or_insert_with(|| Arc::new(Ways::new(connect.clone()))).clone();
                connections.spawn(async move {
                    if let Ok(stream) = tokio::net::UnixStream::from_std(stream) {
                        exchange::serve(stream, target, ways).await;
                    }
                    drop(place);
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
    connections.shutdown().await;
}
