//! How a domain is set up.

use super::checkpoint::{Keeper, Lineage, Residence, TemplateUse};
use super::epoll_set::EpollSet;
use super::files::Mount;
use super::inbox::Inbox;
use super::instance::Sink;
use monohull_network::Network;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a function usually computes before others get their turn.
pub const TIME_SLICE: Duration = Duration::from_millis(5);

/// How a domain is set up.
#[derive(Clone)]
pub struct Options {
    /// Most carrier threads, at least 1.
    pub carriers: usize,
    /// Where `NAME.so` of the libos modules are.
    pub modules: PathBuf,
    /// Put protection keys in force; fails where there are none.
    pub keys: bool,
    /// With keys: one for each instance, so that functions are kept from each other too.
    pub separate: bool,
    /// How long a function computes before others get their turn; `None`: until it makes a hostcall that waits.
    pub time_slice: Option<Duration>,
    /// Functions may read the time-stamp counter.
    pub time_stamp_counter: bool,
    /// Load every module before the first instance instead of on demand.
    pub load_all: bool,
    /// What functions may reach of the network.
    pub network: Network,
    /// For sockets and for page faults in mapped files. Without it there are no sockets, and files are filled at once.
    pub epoll_set: Option<Arc<EpollSet>>,
    /// If the workflow only waits, and for at least this long, the run ends with its continuation.
    pub suspend: Option<Duration>,
    /// After so long the run comes to rest wherever it is, and ends with its continuation. If it cannot be captured it goes on, and that
    /// is tried again.
    pub halt: Option<Duration>,
    /// If the workflow only waits for a time, the clock is moved there.
    pub skip_time: bool,
    /// The id of the invocation.
    pub invocation: Arc<str>,
    /// What the version before has [handed over](monohull_abi::handed).
    pub handed_over: Arc<str>,
    /// What begins addresses by which clients reach the server, if it is known.
    pub public_url: Arc<str>,
    /// Takes the continuation instead, each time, and the run goes on; the next time is so much later again.
    pub keeper: Option<Arc<dyn Keeper>>,
    /// Takes the continuation of a workflow that only waits, if that is not to end the run: it stands still until it is told to go on.
    pub residence: Option<Arc<dyn Residence>>,
    /// Where events come while it runs.
    pub inbox: Option<Arc<Inbox>>,
    /// Whether functions may wait for events.
    pub may_wait_for_events: bool,
    /// Why functions cannot send events to other invocations, if they cannot.
    pub no_sending: Option<&'static str>,
    /// Why functions cannot have save points or copies of their invocation, if they cannot.
    pub no_branches: Option<&'static str>,
    /// The workflows of which functions may start children, or why there are none.
    pub starts: Result<Vec<String>, &'static str>,
    /// The effects that functions may ask for: the driver starts a handler for each request.
    pub effects: Arc<[String]>,
    /// What an earlier part of the run has published.
    pub published: BTreeMap<String, String>,
    /// Where the run stands among those of its workflow.
    pub lineage: Lineage,
    /// Whether a template is to be made, or an instance starts from one.
    pub template: TemplateUse,
    /// The tokens of the instances that may have one, by the cell in which each begins; 64 at most.
    pub template_instances: Arc<[u64]>,
    /// Whether the first of these begins before any other instance, so that the run can begin again without templates.
    pub first_begins_alone: bool,
    /// Whether the instance of which a template is made may ask for files before it is ready: the answer is that there are none.
    pub template_finds_no_files: bool,
    /// A template may be before the first call that is an instance's own: the function need not say when it is ready.
    pub template_at_first_wait: bool,
    /// Gets every line of output as it is written.
    pub sink: Option<Arc<dyn Sink>>,
    /// The file systems functions see.
    pub mounts: Arc<[Mount]>,
}
