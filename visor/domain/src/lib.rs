//! One workflow domain: an address space with a libos in it, running instances of functions.
//!
//! It knows nothing of JSON, HTTP or processes. A [`Driver`] tells it what to start and hears how it ended; the domain
//! decides who runs where and keeps everybody apart.
//!
//! ```text
//!  Driver ──start(Spec)──▶ jobs ─▶ cell + instance ─▶ threads ─▶ carriers: enter … exit … park
//!     ▲                                                              │
//!     └───────────────── events: Ended, Timer, Deadline ◀────────────┘
//! ```
//!
//! Locks, outermost first: driver, scheduler, an instance's cell. Module locks are taken around the scheduler's, never
//! inside it.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod account;
pub mod carrier;
pub mod cell;
mod ears;
mod explanation;
pub mod fault;
pub mod files;
pub mod gadgets;
pub mod hostcall;
pub mod image;
pub mod instance;
pub mod keys;
mod lifecycle;
mod mapped;
mod outside;
pub mod region;
mod run;
mod sched;
pub mod slot_access;
mod threads;
mod timekeeper;
#[allow(clippy::print_stderr, reason = "it warns of a program that does not ship, before there is a command line")]
pub mod weaken;

use account::{Account, Accounts};
use carrier::{Berth, Carrier, CarrierError, monotonic_ns};
pub use ears::Ears;
use files::host::HostFiles;
pub use files::host::RWF_APPEND;
use files::{Images, Mount};
use gadgets::GadgetsError;
use hostcall::network::Datagrams;
use hostcall::{Loaded, Modules, Table};
use instance::{CELL_BITS, Instance, Line, Spec, Usage};
use keys::{Key, Keys, KeysError};
use lifecycle::cancelled;
pub use mapped::Mapped;
use mapped::Mappings;
pub use mapped::faults;
use monohull_abi::layout::{CARRIER_MAX, CELL_COUNT, CELL_SIZE, INFO_BASE, INFO_SIZE, cell_base};
use monohull_abi::module::{Call, Host, NEVER, UserBounds};
use monohull_network::Network;
use monohull_report::failure::Failure;
use monohull_trampoline::system::Variant;
use outside::Outside;
use region::{Access, Partition, RegionError};
use sched::{Scheduler, ThreadIndex, TimerKind};
use std::cell::Cell;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, RwLock, Weak};
use std::time::Duration;
use weaken::Defence;

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
    /// Functions may read the time-stamp counter.
    pub time_stamp_counter: bool,
    /// Load every module before the first instance instead of on demand.
    pub load_all: bool,
    /// What functions may reach of the network.
    pub network: Network,
    /// What it hears of sockets and of mapped files through. Without it there are no sockets, and files are filled at once.
    pub ears: Option<Arc<Ears>>,
    /// Hears every line of output as it is written.
    pub sink: Option<Arc<dyn Sink>>,
    /// The file systems functions see.
    pub mounts: Arc<[Mount]>,
}

/// Hears lines of output as they are written.
pub trait Sink: Send + Sync {
    /// One whole line of an instance's stream 1 or 2.
    fn line(&self, spec: &Spec, stream: u32, text: &str);
}

/// Decides what runs. Called by whichever carrier has heard the event; never by two at once.
pub trait Driver: Send {
    /// Something happened. The driver may start and cancel instances, set timers, and finish the run.
    fn on_event(&mut self, event: Event, domain: &Shared);
}

/// What a driver hears.
pub enum Event {
    /// The run begins.
    Begin,
    /// An instance has ended and everything it held is reclaimed.
    Ended(Box<Ended>),
    /// A timer set with [`Shared::set_timer`] is due.
    Timer {
        /// Which.
        token: u64,
    },
    /// The deadline set with [`Shared::set_deadline`] has passed.
    Deadline,
}

/// How an instance ended.
pub struct Ended {
    /// The driver's name for it.
    pub token: u64,
    /// The domain's own name for it; 0 if it never started.
    pub id: u32,
    /// Success, or what went wrong.
    pub result: Result<(), Box<Failure>>,
    /// The first call of it that the workflow file does not allow, in words.
    pub refusal: Option<String>,
    /// It could be started again with the inputs it had.
    pub inputs_intact: bool,
    /// What it used; times in ticks.
    pub usage: Usage,
    /// What it printed.
    pub lines: Vec<Line>,
    /// Some of what it printed was dropped.
    pub lines_dropped: bool,
    /// Ticks when it ended.
    pub ended: u64,
}

/// A domain could not be made or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// protection keys cannot be put in force: {0}
    #[error("protection keys cannot be put in force: {0}")]
    Keys(#[from] KeysError),
    /// protection keys cannot be put in force: {0}
    #[error("protection keys cannot be put in force: {0}")]
    Gadgets(#[from] GadgetsError),
    /// the address space of the domain: {0}
    #[error("the address space of the domain: {0}")]
    Region(#[from] RegionError),
    /// a carrier thread cannot be set up: {0}
    #[error("a carrier thread cannot be set up: {0}")]
    Carrier(#[from] CarrierError),
}

/// A workflow domain. Its address space goes when it is dropped.
pub struct Domain {
    /// The thread that laid the ground, until the run begins. Dropped before the address space.
    first: Cell<Option<Carrier>>,
    shared: Arc<Shared>,
}

/// What a process that forks others should do before, because they inherit it: the signal handlers, and the answers to
/// questions that take long.
pub fn prepare_forks(keys: bool) {
    carrier::know_processor();
    keys::support();
    fault::install(if keys { Variant::Keys } else { Variant::Plain });
    keep_large_blocks_apart();
}

/// Makes each large block a mapping of its own, however many have been given back: it is zero without being written to, as a
/// connection's buffers are to be, of which most connections use little.
fn keep_large_blocks_apart() {
    const LARGE: i32 = 256 << 10;
    // SAFETY: has no preconditions.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

/// The ground a domain stands on: address space, keys and signal handlers, which are the same for every workflow. Laying
/// it takes longer than starting a workflow, so a process can do it before it knows which one it will run.
#[derive(Debug)]
pub struct Ground {
    /// The calling thread. Dropped before the partition, in which its block lies.
    carrier: Carrier,
    partition: Partition,
}

/// As much of a [`Ground`] as processes inherit that are forked by the thread that has laid it out: a process that forks
/// many does this once for all.
#[derive(Debug)]
pub struct Site {
    /// Dropped before the partition, in which it lies.
    berth: Berth,
    partition: Partition,
}

impl Site {
    /// Reserves the address space, and gives the calling thread what is inherited of its first carrier. There is one site or
    /// ground per process at a time.
    pub fn lay_out(keys: bool) -> Result<Site, DomainError> {
        let keys = if keys {
            gadgets::remove()?;
            Keys::enabled()?
        } else {
            Keys::disabled()
        };
        fault::install(keys.variant());
        let partition = Partition::reserve(keys)?;
        let info = if weaken::is_off(Defence::Selector) { Key::FUNCTIONS } else { Key::INFO };
        partition.protect(INFO_BASE..INFO_BASE + INFO_SIZE, Access::ReadWrite, info)?;
        Ok(Site { berth: Berth::take(&partition, 0)?, partition })
    }

    /// Makes the calling thread the first carrier: the one that has laid this out, or was forked by it.
    pub fn into_ground(self) -> Result<Ground, DomainError> {
        let Site { berth, partition } = self;
        Ok(Ground { carrier: Carrier::board(&partition, berth)?, partition })
    }
}

impl Ground {
    /// Reserves the address space, and makes the calling thread its first carrier. There is one per process at a time.
    pub fn lay(keys: bool) -> Result<Ground, DomainError> {
        Site::lay_out(keys)?.into_ground()
    }
}

/// The scheduler, locked.
type SchedulerGuard<'s> = MutexGuard<'s, Scheduler<Arc<Instance>>>;

/// The exit status of a process in which trusted code has panicked: nothing of it can be relied on any more.
pub const PANICKED: i32 = 101;

/// What carriers, handlers and the driver share of a domain.
pub struct Shared {
    weak: Weak<Shared>,
    host: Host,
    options: Options,
    /// Its thread ends before what it reads is unmapped.
    mappings: Mappings,
    partition: Arc<Partition>,
    table: Table,
    modules: Modules,
    /// Unmapped after the modules that use them have been stopped.
    images: Images,
    host_files: HostFiles,
    scheduler: Mutex<Scheduler<Arc<Instance>>>,
    /// Idle carriers wait here, with the scheduler's lock.
    work: Condvar,
    /// The timekeeper sleeps here, with the same lock.
    time: Condvar,
    instances: RwLock<Vec<Option<Arc<Instance>>>>,
    accounts: Accounts,
    cells: Mutex<Cells>,
    started: AtomicU32,
    /// When the run's time is up (monotonic ns); carriers in user code are interrupted then.
    run_deadline: AtomicU64,
    driver: Mutex<Option<Box<dyn Driver>>>,
    helpers: Mutex<Vec<std::thread::JoinHandle<()>>>,
    /// Ticks when the first image was mapped and relocated; 0 before.
    first_mapped: AtomicU64,
    /// Ticks when the first instruction of a function ran; 0 before.
    first_entry: AtomicU64,
    /// Made when the first socket is.
    outside: OnceLock<Outside>,
    datagrams: Datagrams,
}

/// Cells that are not in use.
#[derive(Default)]
struct Cells {
    clean: Vec<usize>,
    warm: Vec<cell::Cell>,
    /// Those that the host refused to clear, and the keys on their pages: out of use until it does.
    broken: Vec<(usize, keys::Key)>,
    /// Those whose instance has ended, until the driver has heard of it: after the last nobody needs them.
    left: Vec<cell::Cell>,
}

// SAFETY: `host` holds a pointer to this very structure, which the services use as `&Shared`; the rest is Send.
unsafe impl Send for Shared {}
// SAFETY: as above; everything mutable is behind locks or atomic.
unsafe impl Sync for Shared {}

impl Domain {
    /// A domain on ground of its own. There is one domain per process at a time.
    pub fn new(options: Options) -> Result<Domain, DomainError> {
        Ok(Domain::on(Ground::lay(options.keys)?, options))
    }

    /// A domain on ground that was laid with the same `keys`.
    pub fn on(ground: Ground, mut options: Options) -> Domain {
        let Ground { carrier, mut partition } = ground;
        if options.separate {
            partition.separate_instances();
        }
        options.carriers = options.carriers.clamp(1, CARRIER_MAX);
        let ears = options.ears.clone();
        let partition = Arc::new(partition);
        let shared = Arc::new_cyclic(|weak: &Weak<Shared>| Shared {
            weak: weak.clone(),
            // SAFETY: the services expect the address of this value, and the table goes with it.
            host: unsafe { Host::of::<hostcall::Services>(weak.as_ptr().cast_mut().cast()) },
            modules: Modules::new(options.modules.clone()),
            images: Images::default(),
            host_files: HostFiles::default(),
            options,
            mappings: Mappings::new(partition.clone(), ears),
            partition,
            table: Table::new(),
            scheduler: Mutex::new(Scheduler::new()),
            work: Condvar::new(),
            time: Condvar::new(),
            instances: RwLock::new(vec![None; CELL_COUNT]),
            accounts: Accounts::new(),
            cells: Mutex::new(Cells { clean: (0..CELL_COUNT).rev().collect(), ..Cells::default() }),
            started: AtomicU32::new(0),
            run_deadline: AtomicU64::new(NEVER),
            driver: Mutex::new(None),
            helpers: Mutex::new(Vec::new()),
            first_mapped: AtomicU64::new(0),
            first_entry: AtomicU64::new(0),
            outside: OnceLock::new(),
            datagrams: Datagrams::default(),
        });
        hostcall::core::bind(&shared);
        if shared.options.load_all {
            for name in hostcall::NAMES {
                shared.modules.load(&shared, name);
            }
        }
        Domain { first: Cell::new(Some(carrier)), shared }
    }

    /// Runs until the driver finishes; the calling thread is the first carrier: the one that laid the ground.
    pub fn run(&self, driver: Box<dyn Driver>) -> Result<(), DomainError> {
        *self.driver.lock().expect("driver") = Some(driver);
        {
            let mut scheduler = self.lock();
            scheduler.done = false;
            scheduler.carriers = 1;
            scheduler.idle = 0;
            scheduler.events.push_back(Event::Begin);
        }
        let carrier = self.first.take().map_or_else(|| Carrier::attach(&self.partition, 0), Ok);
        let result = carrier.and_then(|carrier| self.carry(carrier));
        match &result {
            Ok(()) => self.finish(),
            // Other carriers may be in user code that never ends by itself.
            Err(_) => self.abort(),
        }
        // One that is being joined may have started another before it heard of the end.
        loop {
            let helpers = std::mem::take(&mut *self.helpers.lock().expect("helpers"));
            if helpers.is_empty() {
                break;
            }
            for helper in helpers {
                helper.join().expect("a carrier thread does not panic");
            }
        }
        // An instance that was being launched while the run ended is alive still; nobody runs it.
        self.lock().jobs.clear();
        self.abort();
        debug_assert!(self.live().is_empty());
        if result.is_ok() {
            self.settle_network();
        }
        let events = self.lock().close();
        if let Some(mut driver) = self.driver.lock().expect("driver").take() {
            for event in events {
                driver.on_event(event, self);
            }
        }
        Ok(result?)
    }
}

impl std::ops::Deref for Domain {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Domain {
    /// Puts in order what outlives the domain: images that functions have written to are closed, and others may claim them.
    /// No function runs any more, and none runs afterwards.
    pub fn close_files(&self) {
        if self.options.mounts.iter().any(Mount::outlives_domain) {
            self.modules.stop();
            Images::release(&self.options.mounts);
        }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.shared.modules.stop();
    }
}

/// For unit tests, which run in several threads of one process: held while there is a domain.
#[cfg(test)]
pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The addresses of a cell.
fn bounds_of_cell(index: usize) -> UserBounds {
    UserBounds { start: cell_base(index), end: cell_base(index) + CELL_SIZE }
}

impl Shared {
    /// Asks for an instance; the driver hears how it ended.
    pub fn start(&self, spec: Spec) {
        self.lock().jobs.push_back(spec);
    }

    /// The run is over now: nothing more is started, and everything alive is ended as cancelled.
    pub fn abort(&self) {
        self.finish();
        for instance in self.live() {
            self.end(&instance, Err(Box::new(cancelled())));
        }
    }

    /// The driver hears of `token` after `delay`.
    pub fn set_timer(&self, token: u64, delay: Duration) {
        self.arm(after(delay), TimerKind::Driver(token));
    }

    /// The driver hears of the deadline after `delay`.
    pub fn set_deadline(&self, delay: Duration) {
        let at = after(delay);
        self.run_deadline.store(at, Ordering::Relaxed);
        self.arm(at, TimerKind::Run);
    }

    /// The run is over: carriers stop as soon as they leave user code.
    pub fn finish(&self) {
        self.lock().done = true;
        self.wake_all();
    }

    /// The isolation in force: `process` or `mpk`.
    pub fn isolation(&self) -> &'static str {
        self.partition.keys().isolation()
    }

    /// Modules loaded so far.
    pub fn modules(&self) -> Vec<Loaded> {
        self.modules.loaded()
    }

    /// What files have been mapped so far, if any have.
    pub fn mapped(&self) -> Option<Mapped> {
        self.mappings.so_far()
    }

    /// Ticks when the first image was mapped and relocated; 0 if none has been.
    pub fn first_mapped(&self) -> u64 {
        self.first_mapped.load(Ordering::Relaxed)
    }

    /// Ticks when the first instruction of a function ran; 0 if none has.
    pub fn first_entry(&self) -> u64 {
        self.first_entry.load(Ordering::Relaxed)
    }

    /// The services lent to modules.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The ear for what happens outside, made on first use.
    fn outside(&self) -> std::io::Result<&Outside> {
        if self.outside.get().is_none() {
            // If two are made at once, one is kept.
            let ears = self.options.ears.as_ref().ok_or(std::io::ErrorKind::NotFound)?;
            let _ = self.outside.set(Outside::new(ears.outside.try_clone()?)?);
        }
        Ok(self.outside.get().expect("just set"))
    }

    fn as_state(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    fn lock(&self) -> SchedulerGuard<'_> {
        self.scheduler.lock().expect("the scheduler does not panic")
    }

    /// The instance of a function's call, which the calling thread serves.
    fn caller(&self, call: &Call) -> Option<&Instance> {
        run::current_instance(call)
    }

    /// The thread of a function's call. Trusted callers have none.
    fn thread_of(&self, scheduler: &SchedulerGuard<'_>, call: &Call) -> Option<ThreadIndex> {
        scheduler.find(call.thread, call.instance)
    }

    fn instance(&self, id: u32) -> Option<Arc<Instance>> {
        self.instance_in_cell((id & ((1 << CELL_BITS) - 1)) as usize).filter(|i| i.id == id)
    }

    fn instance_in_cell(&self, cell: usize) -> Option<Arc<Instance>> {
        self.instances.read().expect("instances").get(cell)?.clone()
    }

    /// An id that is neither 0 nor [`monohull_abi::module::SYSTEM_INSTANCE`]; its low bits are the cell.
    fn next_id(&self, cell: usize) -> u32 {
        let count = self.started.fetch_add(1, Ordering::Relaxed) % ((1 << (32 - CELL_BITS)) - 2) + 1;
        count << CELL_BITS | cell as u32
    }

    fn account(&self, id: u32) -> Option<&Account> {
        self.accounts.of((id & ((1 << CELL_BITS) - 1)) as usize, id)
    }

    fn usage(&self, instance: &Instance) -> Usage {
        let (bytes_in, bytes_out) = self.account(instance.id).map_or((0, 0), Account::passed);
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (started, load) = (get(&instance.counters.started), get(&instance.counters.load));
        Usage { started, load, bytes_in, bytes_out, ..Usage::default() }
    }

    fn live(&self) -> Vec<Arc<Instance>> {
        self.instances.read().expect("instances").iter().flatten().cloned().collect()
    }

    /// Leaves words for `LAST_ERROR_MESSAGE`.
    fn explain(&self, call: &Call, text: String) {
        if let Some(instance) = self.caller(call) {
            instance.explanations.leave(call.thread, call.number, text);
        }
    }

    fn explanation(&self, call: &Call) -> String {
        self.caller(call).map_or_else(String::new, |instance| instance.explanations.take(call.thread))
    }

    /// Keeps a line of output and passes it on.
    fn print(&self, instance: &Instance, stream: u32, text: String) {
        let mut output = instance.lines.lock().expect("lines");
        let kept = output.keep(Line { stream, text }, instance.spec.output_limit);
        if let (Some(line), Some(sink)) = (kept, &self.options.sink) {
            sink.line(&instance.spec, stream, &line.text);
        }
    }
}

fn after(delay: Duration) -> u64 {
    monotonic_ns().saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(NEVER)).min(NEVER - 1)
}
