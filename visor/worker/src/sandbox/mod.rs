//! The rights that a worker gives up before it knows its workflow.
//!
//! ```text
//! once (the spawner, or the worker of `monohull run`)                  each worker
//!   libos modules mapped; with keys, gadgets removed                    takes its address space
//!   no new privileges, no capabilities, limits, not dumpable            revokes the syscall cookie
//!   files: only the libos modules and /proc, only to read            opens the list of its own pages; files: no /proc
//!   system calls: a list, and some more with the cookie
//! ```
//!
//! Workers inherit what is given up once. All of it is in force before a worker receives its job. The report has what the
//! host could not restrict.
//!
//! The list of its pages tells a worker which of them a capture has to look at ([`monohull_sys::written_pages`]). Only a process that is dumpable can open
//! it. So a worker is for that moment, before it knows anything that others of the user must not see; and `/proc` is open until then.
//! Where the kernel cannot tell what has been written to, none of this is done.

mod seccomp;

pub use seccomp::allowed_calls;

use super::worker::DomainSettings;
use super::{Settings, warmup};
use monohull_domain::{DomainError, PreforkDomain, ReservedDomain, gadgets, hostcall};
use monohull_report::Sandbox;
use monohull_sandbox::files::Restriction;
use monohull_sys::dead_stack::StackBounds;
use monohull_sys::fork::OnlyThread;
use monohull_sys::libc_text::{self, OneByOne};
use monohull_sys::written_pages::PageMap;
use monohull_sys::{capabilities, hugepages, landlock, prefault, spawner, syscall_cookie};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use seccomp::Filters;
use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The most descriptors a worker has open: a thousand connections and more, besides two for each image and input.
///
/// The kernel counts descriptors in flight through sockets for all processes of a user together. It refuses to send one to a
/// process whose limit of open files is below that count. So workers have half the limit of the processes above them: nothing
/// they send keeps those from sending.
const FILES: u64 = 8192;

/// How many processes inherit the memory of this one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inherit {
    /// None, or hardly any.
    Little,
    /// One for each invocation.
    Much,
}

/// What workers of the same settings have in common, made once before they are forked.
pub(super) struct SandboxTemplate {
    /// The folder with the libos modules.
    pub(super) modules: PathBuf,
    /// Whether protection keys are to be in force.
    pub(super) keys: bool,
    /// Whether the kernel cannot deliver signals with keys in force, so that workers are traced.
    pub(super) traced: bool,
    /// How many descriptors each worker may have.
    files: u64,
    /// How many pending signals and timers its user may have when a worker makes a timer. The kernel counts those of all
    /// processes of the user together. A worker makes the timer that it needs before it is limited to half of the user's limit,
    /// so no worker can keep others from starting; further timers only cost other workers carriers.
    timers: u64,
    /// The reserved address space of its workers' domains, until the worker has taken it.
    site: Cell<Option<PreforkDomain>>,
    /// The stack of this thread, on which its workers go on.
    pub(super) stack: StackBounds,
    /// The allocator's memory that its workers will touch.
    pub(super) heap: prefault::Heap,
    /// In force until the first fork.
    one_by_one: Option<OneByOne>,
    /// What a worker restricts files to when it has opened the list of its own pages; `None` where that is of no use.
    pub(super) page_map_rules: Option<OwnedFd>,
    /// The parts of the sandbox that are in force already.
    given_up: Sandbox,
}

impl SandboxTemplate {
    /// Maps the modules, and gives up the rights that neither this process nor any that it forks needs. An error is a text for
    /// people.
    pub(super) fn new(only: &OnlyThread, settings: &Settings, inherit: Inherit) -> Result<SandboxTemplate, String> {
        // The kernel's version cannot be read later.
        let traced = settings.keys_are_silent();
        // Nor can the bounds of the stack.
        let stack = StackBounds::of_this_thread().map_err(|error| format!("finding the stack: {error}"))?;
        monohull_domain::prepare_forks(settings.keys);
        for name in &settings.preload {
            // Only workflows that use it fail, with the reason.
            if let Err(error) = hostcall::preload(&settings.modules, name) {
                tracing::warn!("libos module `{name}` cannot be preloaded: {error}");
            }
        }
        if settings.keys {
            // Workers inherit the changed code, and cannot change code in their sandbox.
            gadgets::remove().map_err(|error| format!("protection keys cannot be put in force: {error}"))?;
            gadgets::close();
        }
        let one_by_one = (inherit == Inherit::Much)
            .then(|| {
                warm_up(only, DomainSettings { modules: settings.modules.clone(), keys: settings.keys, silent: traced })
            })
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
        let modules = || hostcall::NAMES.iter().map(|name| settings.modules.join(format!("{name}.so")));
        let prepare = |folders: &[&Path]| {
            Restriction::prepare(modules(), folders).map_err(|error| format!("restricting files: {error}"))
        };
        let page_map_rules = match PageMap::is_of_use() {
            Ok(()) => prepare(&[])?.into_file(),
            Err(error) => {
                tracing::debug!("captures find changes without the kernel: {error}");
                None
            }
        };
        let opened_later: &[&Path] = if page_map_rules.is_some() { &[Path::new("/proc")] } else { &[] };
        let landlock = prepare(opened_later)?.restrict().map_err(|error| format!("restricting files: {error}"))?;
        capabilities::drop_all().map_err(|error| format!("giving up capabilities: {error}"))?;
        // Other processes of the same user, other workers among them, can neither trace this one nor open its memory.
        prctl::set_dumpable(false).map_err(failed("making the process undumpable"))?;
        let filters =
            Filters::compile(traced).map_err(|error| format!("compiling the list of system calls: {error}"))?;
        syscall_cookie::generate().map_err(|error| format!("generating the syscall cookie: {error}"))?;
        filters.apply().map_err(|error| format!("putting the list of system calls in force: {error}"))?;
        Ok(SandboxTemplate {
            modules: settings.modules.clone(),
            keys: settings.keys,
            traced,
            files: FILES.min(most / 2),
            timers: timers / 2,
            site: Cell::new(Some(site)),
            stack,
            heap: prefault::Heap::default(),
            one_by_one,
            page_map_rules,
            given_up: Sandbox {
                no_new_privs: true,
                seccomp: false,
                landlock: landlock.to_owned(),
                // Replaced where a worker has a group of its own.
                cgroup: settings.groups.describe(),
            },
        })
    }

    /// Arranges the allocator's memory for the processes that are forked from here on. To be called when no block that was
    /// taken before is freed any more.
    pub(super) fn compact_heap(&mut self, only: &OnlyThread) -> Result<(), String> {
        self.heap = prefault::compact_heap(only).map_err(|error| error.to_string())?;
        self.one_by_one = None;
        Ok(())
    }

    /// The reserved address space, once; a new one afterwards.
    pub(super) fn take_address_space(&self) -> Result<ReservedDomain, DomainError> {
        self.site.take().map_or_else(|| ReservedDomain::reserve(self.keys), PreforkDomain::into_reserved)
    }

    /// Puts the rest of the sandbox in force. From here on the system calls of a spawner end the process too. `rules`: those of
    /// [`SandboxTemplate::page_map_rules`], which close `/proc`.
    pub(super) fn enter_sandbox(&self, rules: Option<OwnedFd>) -> io::Result<Sandbox> {
        if let Some(rules) = rules {
            let pages = PageMap::open_undumpable()?;
            landlock::restrict(&rules)?;
            drop(rules);
            // Without it captures are slower, and nothing else.
            pages.and_then(PageMap::keep).inspect_err(|error| tracing::debug!("the list of pages: {error}")).ok();
        }
        spawner::limit(libc::RLIMIT_NOFILE, self.files)?;
        spawner::limit(libc::RLIMIT_SIGPENDING, self.timers)?;
        syscall_cookie::revoke();
        Ok(Sandbox { seccomp: true, ..self.given_up.clone() })
    }
}

/// Runs a workflow that does nothing, and arranges that workers inherit the pages that it has touched. If this fails workers are
/// slower, and nothing else.
fn warm_up(only: &OnlyThread, settings: DomainSettings) -> Option<OneByOne> {
    let one_by_one = OneByOne::begin()
        .inspect_err(|error| tracing::debug!("workers inherit more pages of code than they run: {error}"));
    if let Err(error) = libc_text::discard_clean_pages() {
        tracing::debug!("pages of code that was only read stay mapped: {error}");
    }
    if let Err(error) = warmup::run(settings) {
        tracing::warn!("the workflow that warms workers up has failed: {error}");
    }
    if let Err(error) = hugepages::move_program(only) {
        tracing::debug!("the program's code is not on huge pages: {error}");
    }
    if let Err(error) = libc_text::make_inheritable() {
        tracing::debug!("workers fault on code that they share: {error}");
    }
    one_by_one.ok()
}

fn limit(resource: Resource, most: u64) -> nix::Result<()> {
    setrlimit(resource, most, most)
}
