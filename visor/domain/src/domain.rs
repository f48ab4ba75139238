//! A workflow domain as its users see it: made, run once, dropped.

use super::address_space::AddressSpace;
use super::carrier::Carrier;
use super::cell_pool::CellPool;
use super::checkpoint::{Changes, Suspension, TemplateState, TemplateUse};
use super::clock::DomainClock;
use super::dispatcher::Dispatcher;
use super::driver::Driver;
use super::effects::Effects;
use super::error::DomainError;
use super::fault_injection::{self, Mitigation};
use super::files::{Images, Mount, OpenFiles};
use super::given_events::GivenEvents;
use super::hostcall::{self, Datagrams, Hostcalls, Relayed};
use super::instance_table::InstanceTable;
use super::milestones::Milestones;
use super::options::Options;
use super::outbox::Outbox;
use super::published::Published;
use super::reservation::ReservedDomain;
use super::shared::Shared;
use super::threads::HostThreads;
use monohull_abi::layout::CARRIER_MAX;
use monohull_abi::module::{Host, NEVER};
use std::cell::Cell;
use std::sync::{Arc, Mutex, Weak};

/// A workflow domain. Its address space is unmapped when it is dropped.
pub struct Domain {
    /// The thread that made the reservation, but for the time of the run. Dropped before the address space.
    first: Cell<Option<Carrier>>,
    shared: Arc<Shared>,
}

impl Domain {
    /// A domain in a reservation of its own. There is one domain per process at a time.
    pub fn new(options: Options) -> Result<Domain, DomainError> {
        Ok(Domain::on(ReservedDomain::reserve(options.keys)?, options))
    }

    /// A domain in a reservation that was made with the same `keys`.
    pub fn on(reserved: ReservedDomain, mut options: Options) -> Domain {
        let ReservedDomain { carrier, mut space, cells } = reserved;
        if options.separate {
            space.separate_instances();
        }
        options.carriers = options.carriers.clamp(1, CARRIER_MAX);
        let space = Arc::new(space);
        let shared = Arc::new_cyclic(|weak: &Weak<Shared>| Shared {
            weak: weak.clone(),
            clock: DomainClock::start(),
            driver: Mutex::new(None),
            sched: Dispatcher::new(),
            suspension: Suspension::default(),
            changes: Changes::default(),
            lineage: Mutex::new(options.lineage),
            template: TemplateState::default(),
            given: GivenEvents::default(),
            instances: InstanceTable::new(),
            cells: CellPool::new(space.clone(), cells),
            files: OpenFiles::new(space.clone(), options.epoll_set.clone()),
            space,
            hostcalls: Hostcalls::new(
                // SAFETY: the services expect the address of this value, and the table goes with it.
                unsafe { Host::of::<hostcall::Services>(weak.as_ptr().cast_mut().cast()) },
                options.modules.clone(),
            ),
            datagrams: Datagrams::default(),
            relayed: Relayed::default(),
            threads: HostThreads::default(),
            milestones: Milestones::default(),
            published: Published::of(options.published.clone()),
            outbox: Outbox::default(),
            effects: Effects::default(),
            options,
        });
        if let TemplateUse::From(templates) = &shared.options.template {
            shared.cells.reserve(templates.iter().map(|(cell, _)| *cell));
        }
        hostcall::bind_core(&shared);
        shared.bind_not_ready(None);
        if shared.options.load_all {
            for name in hostcall::NAMES {
                shared.load_module(name);
            }
        }
        Domain { first: Cell::new(Some(carrier)), shared }
    }

    /// Runs until the driver finishes. The calling thread is the first carrier: the one that made the reservation.
    pub fn run(&mut self, driver: Box<dyn Driver>) -> Result<(), DomainError> {
        *self.driver.lock().expect("driver") = Some(driver);
        self.suspension.begin(self.options.halt.map_or(NEVER, |after| self.clock.after(after)));
        self.open_inbox();
        self.lock().begin();
        let carrier = self.first.take().map_or_else(|| Carrier::new(&self.space, 0), Ok);
        let result = carrier.and_then(|mut carrier| {
            let ran = self.run_carrier(&mut carrier).and_then(|()| carrier.rest());
            self.first.set(Some(carrier));
            ran
        });
        match &result {
            Ok(()) => self.finish(),
            // Other carriers may be in user code that never ends by itself.
            Err(_) => self.abort(),
        }
        self.threads.join();
        self.close_inbox();
        if self.is_suspended() {
            // Its instances have not ended: they go on elsewhere, and nothing of them may be seen to end here.
            *self.driver.lock().expect("driver") = None;
            return Ok(result?);
        }
        // An instance that was being launched while the run ended is alive still, and is on no carrier.
        self.lock().clear_pending();
        self.abort();
        self.finish_leaving();
        debug_assert!(self.instances.live().is_empty());
        if result.is_ok() {
            self.drain_network();
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
            self.hostcalls.modules.stop();
            Images::release(&self.options.mounts);
        }
    }
}

impl Domain {
    /// Whether it has so little memory that a [reset](Self::reset) takes no longer than to send a message.
    pub fn is_small(&self) -> bool {
        self.shared.cells.is_small() && self.shared.space.is_small()
    }

    /// Ends the domain, which has run, and takes it apart: the calling thread as its first carrier, the cells, and the address space.
    /// `None` if something else still has it.
    pub(super) fn take_apart(self) -> Option<(Carrier, CellPool, Arc<AddressSpace>)> {
        let (carrier, shared) = (self.first.take()?, self.shared.clone());
        // Stops the modules.
        drop(self);
        let (cells, space) = Arc::into_inner(shared)?.into_ground();
        Some((carrier, cells, space))
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        if !fault_injection::disabled(Mitigation::ResetModules) {
            self.shared.hostcalls.modules.stop();
        }
    }
}
