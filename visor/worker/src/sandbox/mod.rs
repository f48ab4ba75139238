//! What a worker gives up before it knows its workflow.
//!
//! ```text
//! the family, once (the spawner, or the worker of `monohull run`)      each worker
//!   libos modules mapped; with keys, gadgets removed                    its ground laid
//!   no new privileges, no capabilities, limits, not dumpable            the word forgotten
//!   files: only the libos modules, only to read
//!   system calls: a list, and others for those who know a word
//! ```
//!
//! What the family gives up its workers never had. All of it is in force before a worker hears of a job, and what could
//! not be had is in the report.

mod calls;
mod files;

use super::code::{self, OneByOne};
use super::worker::Home;
use super::{Settings, huge, rehearsal, warm, word};
use calls::Filters;
use monohull_domain::{DomainError, PreforkDomain, ReservedDomain, gadgets, hostcall};
use monohull_report::Sandbox;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::cell::Cell;
use std::io;
use std::path::PathBuf;

/// Most descriptors a worker has open: a thousand connections and more, besides two for each image and input.
///
/// The kernel counts descriptors that are on their way through a socket for all processes of a user together, and refuses one
/// to whoever may have fewer open than that. So workers have half of what the processes above them may have: nothing they send keeps
/// those from sending.
const FILES: u64 = 8192;

/// Whether what this process has in its memory is to be had by many that it forks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inherit {
    /// By nobody, or hardly anybody.
    Little,
    /// By one for each invocation.
    Much,
}

/// All that workers of the same settings have in common, made once before they are forked.
pub(super) struct Preparation {
    /// The folder with the libos modules.
    pub(super) modules: PathBuf,
    /// Whether protection keys are to be in force.
    pub(super) keys: bool,
    /// Whether the kernel cannot report faults with keys in force, so that workers are to be traced.
    pub(super) traced: bool,
    /// How many descriptors each worker may have.
    files: u64,
    /// How many pending signals and timers its user may have when a worker makes a timer. The kernel counts those of all
    /// processes of the user together. A worker makes the timer that it cannot do without before it is limited to half of
    /// what the user may have, so no worker can keep others from starting; what it takes besides only costs them carriers.
    timers: u64,
    /// Where the domain of each of its workers will stand, until the worker has taken it.
    site: Cell<Option<PreforkDomain>>,
    /// What the allocator of its workers will touch.
    pub(super) heap: warm::Heap,
    /// In force until the first fork.
    one_by_one: Option<OneByOne>,
    /// What is in force already.
    given_up: Sandbox,
}

impl Preparation {
    /// Maps what is to be mapped, and gives up for this process and all it forks what none of them needs. An error is
    /// words for people.
    pub(super) fn new(settings: &Settings, inherit: Inherit) -> Result<Preparation, String> {
        // Asked while the kernel's version can still be read.
        let traced = settings.keys_are_silent();
        monohull_domain::prepare_forks(settings.keys);
        for name in &settings.preload {
            // It costs only the workflows that use it, which are told why.
            if let Err(error) = hostcall::preload(&settings.modules, name) {
                tracing::warn!("libos module `{name}` cannot be loaded beforehand: {error}");
            }
        }
        if settings.keys {
            // Workers inherit the changed code, and can change none when they have closed themselves in.
            gadgets::remove().map_err(|error| format!("protection keys cannot be put in force: {error}"))?;
            gadgets::close();
        }
        let one_by_one = (inherit == Inherit::Much)
            .then(|| rehearse(Home { modules: settings.modules.clone(), keys: settings.keys }))
            .flatten();
        let site = PreforkDomain::reserve(settings.keys).map_err(|error| error.to_string())?;
        let failed = |what: &'static str| move |error: nix::Error| format!("{what}: {error}");
        limit(Resource::RLIMIT_CORE, 0).map_err(failed("limiting core files"))?;
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed("reading the limit of descriptors"))?;
        limit(Resource::RLIMIT_NOFILE, most).map_err(failed("limiting descriptors"))?;
        let (timers, _) = getrlimit(Resource::RLIMIT_SIGPENDING).map_err(failed("reading the limit of timers"))?;
        limit(Resource::RLIMIT_MEMLOCK, 0).map_err(failed("limiting locked memory"))?;
        limit(Resource::RLIMIT_MSGQUEUE, 0).map_err(failed("limiting message queues"))?;
        prctl::set_no_new_privs().map_err(failed("giving up new privileges"))?;
        let landlock = files::restrict(&settings.modules).map_err(|error| format!("restricting files: {error}"))?;
        drop_capabilities().map_err(|error| format!("giving up capabilities: {error}"))?;
        // Other processes of the same user, other workers among them, can neither trace this one nor open its memory.
        prctl::set_dumpable(false).map_err(failed("making the process undumpable"))?;
        let filters =
            Filters::compile(traced).map_err(|error| format!("compiling the list of system calls: {error}"))?;
        word::choose().map_err(|error| format!("choosing a word: {error}"))?;
        filters.apply().map_err(|error| format!("putting the list of system calls in force: {error}"))?;
        Ok(Preparation {
            modules: settings.modules.clone(),
            keys: settings.keys,
            traced,
            files: FILES.min(most / 2),
            timers: timers / 2,
            site: Cell::new(Some(site)),
            heap: warm::Heap::default(),
            one_by_one,
            given_up: Sandbox {
                no_new_privs: true,
                seccomp: false,
                landlock,
                // Whoever gives it one says so.
                cgroup: settings.groups.describe(),
            },
        })
    }

    /// Arranges the memory for what is forked from here on. To be called when nothing is given back to the allocator any more
    /// that was taken before.
    pub(super) fn gather(&mut self) {
        self.heap = warm::gather();
        self.one_by_one = None;
    }

    /// The ground of this process, which can be had once.
    pub(super) fn ground(&self) -> Result<ReservedDomain, DomainError> {
        self.site.take().map_or_else(|| ReservedDomain::reserve(self.keys), PreforkDomain::into_reserved)
    }

    /// Gives up what is left to give up. From here on any system call that only a spawner may make ends the process too.
    pub(super) fn close_in(&self) -> io::Result<Sandbox> {
        word::limit(libc::RLIMIT_NOFILE, self.files)?;
        word::limit(libc::RLIMIT_SIGPENDING, self.timers)?;
        word::forget();
        Ok(Sandbox { seccomp: true, ..self.given_up.clone() })
    }
}

/// Runs a workflow that does nothing, and arranges that workers inherit what it leaves behind. Without that they are slower, and
/// nothing else.
fn rehearse(home: Home) -> Option<OneByOne> {
    let one_by_one =
        OneByOne::begin().inspect_err(|error| tracing::debug!("workers share more code than they run: {error}"));
    if let Err(error) = code::give_back_read() {
        tracing::debug!("pages of code that was only read stay mapped: {error}");
    }
    if let Err(error) = rehearsal::run(home) {
        tracing::warn!("nothing is put in place for workers beforehand: {error}");
    }
    if let Err(error) = huge::settle() {
        tracing::debug!("the program's code is not on huge pages: {error}");
    }
    if let Err(error) = code::hand_down() {
        tracing::debug!("workers have to ask for code that they share: {error}");
    }
    one_by_one.ok()
}

fn limit(resource: Resource, most: u64) -> nix::Result<()> {
    setrlimit(resource, most, most)
}

/// Gives up all capabilities: root without them is a user like others, who owns a few files more.
#[allow(unsafe_code, reason = "no safe wrapper has this system call")]
fn drop_capabilities() -> io::Result<()> {
    /// `_LINUX_CAPABILITY_VERSION_3` of `linux/capability.h`.
    const VERSION: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION, 0];
    // Effective, permitted and inheritable, twice 32 of each.
    let none = [0u32; 6];
    // SAFETY: both are as the kernel declares them, and it only reads them.
    match unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
