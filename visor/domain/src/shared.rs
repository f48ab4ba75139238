//! What carriers, handlers and the driver share of a domain.
//!
//! Each field is a part with a type of its own, which has its own lock if it needs one. Locks are taken in the order of the
//! fields, outermost first: driver, scheduler, an instance's cell, the table of instances, the cell pool. Module locks are
//! taken around the scheduler's, never inside it.

use super::account::Account;
use super::address_space::AddressSpace;
use super::cell_pool::CellPool;
use super::checkpoint::{Changes, Lineage, Suspended, Suspension, TemplateState};
use super::clock::DomainClock;
use super::dispatcher::{Dispatcher, SchedulerGuard};
use super::driver::Driver;
use super::effects::Effects;
use super::files::OpenFiles;
use super::given_events::GivenEvents;
use super::hostcall::{Datagrams, Hostcalls, Loaded, Relayed};
use super::instance::{Instance, InstanceConfig};
use super::instance_table::InstanceTable;
use super::milestones::Milestones;
use super::options::Options;
use super::outbox::Outbox;
use super::pager::Mapped;
use super::published::Published;
use super::sched::TimerKind;
use super::threads::HostThreads;
use monohull_abi::module::Host;
use monohull_report::Outgoing;
use monohull_report::failure::{Blame, Failure, FailureKind};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// What carriers, handlers and the driver share of a domain.
pub struct Shared {
    pub(crate) weak: Weak<Shared>,
    pub(crate) options: Options,
    pub(crate) clock: DomainClock,
    pub(crate) driver: Mutex<Option<Box<dyn Driver>>>,
    pub(crate) sched: Dispatcher,
    pub(crate) suspension: Suspension,
    pub(crate) changes: Changes,
    pub(crate) lineage: Mutex<Lineage>,
    pub(crate) template: TemplateState,
    pub(crate) given: GivenEvents,
    pub(crate) instances: InstanceTable,
    pub(crate) cells: CellPool,
    /// The pager's thread in it ends before what it reads is unmapped.
    pub(crate) files: OpenFiles,
    pub(crate) space: Arc<AddressSpace>,
    pub(crate) hostcalls: Hostcalls,
    pub(crate) datagrams: Datagrams,
    pub(crate) relayed: Relayed,
    pub(crate) threads: HostThreads,
    pub(crate) milestones: Milestones,
    pub(crate) published: Published,
    pub(crate) outbox: Outbox,
    pub(crate) effects: Effects,
}

// SAFETY: `hostcalls` holds a pointer to this very structure, which the services use as `&Shared`; the rest is Send.
unsafe impl Send for Shared {}
// SAFETY: as above; everything mutable is behind locks or atomic.
unsafe impl Sync for Shared {}

/// For the driver, and for reports.
impl Shared {
    /// Queues an instance to be started; an event has its result.
    pub fn start(&self, config: InstanceConfig) {
        self.lock().push_pending(config);
    }

    /// The run is over now: nothing more is started, and everything alive is ended as cancelled.
    pub fn abort(&self) {
        self.finish();
        for instance in self.instances.live() {
            self.end(&instance, Err(Box::new(cancelled())));
        }
    }

    /// [`Event::Timer`](crate::Event::Timer) with `token` comes after `delay`.
    pub fn set_timer(&self, token: u64, delay: Duration) {
        self.sched.arm(self.clock.after(delay), TimerKind::Driver(token));
    }

    /// [`Event::Deadline`](crate::Event::Deadline) comes after `delay`.
    pub fn set_deadline(&self, delay: Duration) {
        self.sched.set_run_deadline(self.clock.after(delay));
    }

    /// The run is over: carriers stop as soon as they leave user code.
    pub fn finish(&self) {
        self.lock().finish();
        self.sched.wake_all();
    }

    /// What the workflow has published.
    pub fn published(&self) -> BTreeMap<String, String> {
        self.published.all()
    }

    /// Events for other invocations that have not left.
    pub fn sent(&self) -> Vec<Outgoing> {
        self.outbox.all()
    }

    /// What it had published when the run began, or last went on after it had stood still.
    pub fn published_before(&self) -> BTreeMap<String, String> {
        self.published.before()
    }

    /// Where this run stands among those of its workflow.
    pub fn lineage(&self) -> Lineage {
        *self.lineage.lock().expect("lineage")
    }

    /// Whether the run has ended with its continuation.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspension.is_done()
    }

    /// What the run ended with, if it was suspended. Given once.
    pub fn take_suspended(&self) -> Option<Box<Suspended>> {
        self.suspension.take()
    }

    /// Whether the run has ended because it goes on elsewhere, with a capture that was given away before.
    pub fn is_handed_over(&self) -> bool {
        self.suspension.is_handed_over()
    }

    /// Why the run was not suspended although the workflow only waited.
    pub fn suspension_refused(&self) -> Option<String> {
        self.suspension.refused()
    }

    /// The isolation in force: `process` or `mpk`.
    pub fn isolation(&self) -> &'static str {
        self.space.keys().isolation()
    }

    /// Modules loaded so far.
    pub fn modules(&self) -> Vec<Loaded> {
        self.hostcalls.modules.loaded()
    }

    /// What files have been mapped so far, if any have.
    pub fn mapped(&self) -> Option<Mapped> {
        self.files.pager.so_far()
    }

    /// Ticks when the first image was mapped and relocated; 0 if none has been.
    pub fn first_mapped(&self) -> u64 {
        self.milestones.first_mapped()
    }

    /// Ticks when the first instruction of a function ran; 0 if none has.
    pub fn first_entry(&self) -> u64 {
        self.milestones.first_entry()
    }

    /// The services for modules.
    pub fn host(&self) -> &Host {
        &self.hostcalls.host
    }
}

impl Shared {
    /// Locks the scheduler.
    pub(crate) fn lock(&self) -> SchedulerGuard<'_> {
        self.sched.lock()
    }

    /// The first argument of handlers that serve hostcalls with this.
    pub(crate) fn as_state(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// A live instance.
    pub(crate) fn instance(&self, id: u32) -> Option<Arc<Instance>> {
        self.instances.get(id)
    }

    /// The account of a live instance.
    pub(crate) fn account(&self, id: u32) -> Option<&Account> {
        self.instances.account(id)
    }
}

impl Shared {
    /// What another domain may take over; the rest is dropped.
    pub(super) fn into_ground(self) -> (CellPool, Arc<AddressSpace>) {
        let Shared { cells, space, .. } = self;
        (cells, space)
    }
}

/// The failure of an instance that is ended because the run ends.
pub(crate) fn cancelled() -> Failure {
    Failure::blamed(FailureKind::Cancelled, Blame::Workflow, "ended because the workflow ends")
}
