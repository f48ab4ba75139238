//! The life of an instance: from its configuration to a cell with a thread in it, and back to an empty cell.
//!
//! ```text
//! pending ── lease ── launch ──▶ cell, main thread ── … ── end ──▶ its threads stop ── the last has ended ──▶ reclaim
//!                                                                    │ ▲                            more left │ ▲
//!                                                                    ▼ │ a step                             ▼ │ a step
//!                                                                  Leaving::Threads          Leaving::Holdings
//!                                                   cell wiped ◀── driver, if the run goes on ◀── event ◀──┘
//! ```
//!
//! An instance may leave a million threads, hundreds of thousands of buffers and gigabytes of memory behind. So its end is divided into steps of some
//! milliseconds. What is left after a step is queued with the scheduler as [`Leaving`]; a carrier does other work before it
//! continues. The instance keeps its cell and its key until all steps are done, and the run does not end before. Most instances
//! need one step, which is done at once.
//!
//! Pending instances get cell and key strictly in their order.

use super::address_space::AddressSpaceError;
use super::cell::Cell;
use super::cell_pool::CellLease;
use super::checkpoint::Begun;
use super::dispatcher::SchedulerGuard;
use super::event::{Ended, Event};
use super::explanation::Explanations;
use super::fault_injection::{self, Mitigation};
use super::host_time::ticks;
use super::instance::{Counters, Instance, InstanceConfig, Output, Usage};
use super::leaving::{Holdings, Leaving, ReleaseProgress};
use super::preemption;
use super::sched::THREADS_MAX;
use super::shared::{Shared, cancelled};
use super::this_thread;
use monohull_abi::layout::CARRIER_MAX;
use monohull_abi::module::{Ending, NEVER};
use monohull_report::failure::{Blame, Failure, FailureKind};
use monohull_trampoline::system::frame_page;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex};

/// What an instance has from its start does not fit into its memory limit.
fn too_much_data(data: u64, limit: u64) -> Failure {
    let text = format!("the data of its image takes {data} bytes, its memory limit is {limit} bytes");
    Failure::blamed(FailureKind::MemoryLimit, Blame::Workflow, text)
}

/// The host has no room for the image of an instance.
fn unmapped(error: &AddressSpaceError) -> Failure {
    Failure::blamed(FailureKind::Load, Blame::Host, format!("its image cannot be mapped: {error}"))
}

impl Shared {
    /// Starts an instance in a cell that has been leased for it: its main thread is in the ready queue afterwards.
    pub(super) fn launch(&self, config: InstanceConfig, lease: CellLease) {
        let begin = ticks();
        let token = config.token;
        // Before it is mapped, which takes as much memory.
        let data = config.image.image.data_bytes();
        if data > config.memory_limit {
            self.cells.give_back(lease);
            return self.not_launched(token, too_much_data(data, config.memory_limit));
        }
        let mut cell = match self.cells.prepare(lease, &config.image, config.stack_size) {
            Ok(cell) => cell,
            Err(error) => return self.not_launched(token, unmapped(&error)),
        };
        let index = cell.index();
        let image_base = cell.image_base();
        let key = cell.key();
        self.milestones.mapped();
        let begun = match self.begin_from_template(&mut cell, &config) {
            Ok(begun) => begun,
            Err(error) => {
                // What has been written to the cell is of no use to anyone.
                if !self.template_unfit(&config, error) {
                    self.cells.release(cell);
                    return self.not_launched(token, cancelled());
                }
                cell.forget_ranges(&self.space);
                cell = match self.cells.prepare(CellLease::Other(cell), &config.image, config.stack_size) {
                    Ok(emptied) => emptied,
                    Err(error) => return self.not_launched(token, unmapped(&error)),
                };
                None
            }
        };
        self.note_beginning(&config, begun.is_some());
        let begun = begun.unwrap_or_else(|| Begun {
            user_rsp: cell.prepare_stack(None, image_base + config.image.image.start),
            value: 0,
            call: None,
            charged: data,
            fault_handler: None,
        });
        let charged = begun.charged;
        let deadline = config.timeout.map_or(NEVER, |timeout| self.clock.after(timeout));
        let instance = Arc::new(Instance {
            id: self.instances.next_id(index),
            cell: Mutex::new(Some(cell)),
            key,
            image_base,
            stop: AtomicBool::new(false),
            deadline,
            counters: Counters::default(),
            lines: Mutex::new(Output::default()),
            explanations: Explanations::default(),
            fault_handler: Mutex::new(begun.fault_handler),
            watched: AtomicBool::new(false),
            config,
        });
        instance.counters.load.store(ticks() - begin, Ordering::Relaxed);
        let limit = instance.config.memory_limit;
        self.instances.insert(instance.clone(), charged);
        let mut scheduler = self.lock();
        let armed = scheduler.insert(instance.id, instance.clone(), deadline);
        self.sched.announce(&mut scheduler, armed);
        // A template has what its function had allocated when it was ready.
        if charged > limit {
            drop(scheduler);
            return self.end(&instance, Err(Box::new(too_much_data(charged, limit))));
        }
        match scheduler.spawn(instance.id, None, begun.user_rsp, begun.value) {
            Some(thread) => {
                if let Some(call) = begun.call {
                    scheduler.begin_in_call(thread, call);
                }
                scheduler.enqueue(thread);
            }
            None => {
                drop(scheduler);
                let text = format!("the domain has {} threads already", THREADS_MAX);
                self.end(&instance, Err(Box::new(Failure::blamed(FailureKind::Load, Blame::Workflow, text))));
            }
        }
    }

    /// An instance could not be launched, for this reason.
    fn not_launched(&self, token: u64, failure: Failure) {
        self.lock().push_event(Event::Ended(Box::new(Ended {
            token,
            id: 0,
            result: Err(Box::new(failure)),
            refusal: None,
            inputs_intact: true,
            usage: Usage::default(),
            lines: Vec::new(),
            lines_dropped: false,
            ended: ticks(),
        })));
    }

    /// Ends an instance, once: its threads stop, and when the last has left its carrier everything is reclaimed.
    pub(super) fn end(&self, instance: &Instance, ending: Result<(), Box<Failure>>) {
        let mut scheduler = self.lock();
        if !scheduler.end(instance.id, ending) {
            return;
        }
        instance.stop.store(true, Ordering::Release);
        // See `Carrier::bind_instance`.
        fence(Ordering::SeqCst);
        for index in 0..scheduler.carriers() {
            if preemption::runs(index, &instance.stop) && index != this_thread::carrier() {
                preemption::preempt(index);
            }
        }
        self.retire_threads(scheduler, instance.id);
    }

    /// Takes a step of what is left to do for an instance that has ended.
    pub(super) fn continue_leaving(&self, leaving: Leaving) {
        match leaving {
            Leaving::Threads(id) => self.retire_threads(self.lock(), id),
            Leaving::Holdings(holdings) => self.release_holdings(holdings),
        }
    }

    /// Does everything that is left to do for instances that have ended, when no carrier runs any more.
    pub(super) fn finish_leaving(&self) {
        loop {
            // Not as a condition of the loop: the lock is not to be held meanwhile.
            let next = self.lock().take_leaving();
            let Some(leaving) = next else { return };
            self.continue_leaving(leaving);
        }
    }

    /// Puts what is left to do behind other work.
    fn put_off(&self, mut scheduler: SchedulerGuard<'_>, leaving: Leaving) {
        scheduler.push_leaving(leaving);
        self.sched.wake_carrier(&mut scheduler);
    }

    /// Takes some threads of an ended instance off the table.
    fn retire_threads(&self, mut scheduler: SchedulerGuard<'_>, id: u32) {
        if scheduler.retire_some(id) {
            self.put_off(scheduler, Leaving::Threads(id));
        } else if scheduler.is_over(id) {
            self.reclaim(scheduler, id);
        }
    }

    /// Reclaims everything of an ended instance, which has no threads any more.
    pub(super) fn reclaim(&self, mut scheduler: SchedulerGuard<'_>, id: u32) {
        let Some(threads) = scheduler.remove(id) else { return };
        drop(scheduler);
        let result = threads.ending.expect("only ended instances are reclaimed");
        let modules = ReleaseProgress::default();
        self.release_holdings(Holdings { id, result, run: threads.run, park: threads.park, modules, freed: 0 });
    }

    /// Reclaims what an instance without threads holds, or a part of it.
    fn release_holdings(&self, mut holdings: Holdings) {
        let ending = if holdings.result.is_ok() { Ending::Done } else { Ending::Failed };
        if !self.hostcalls.modules.release(holdings.id, ending, &mut holdings.modules) {
            return self.put_off(self.lock(), Leaving::Holdings(holdings));
        }
        // The module may never have been loaded, or not know of all.
        self.files.pager.unmap_all(holdings.id);
        let instance = self.instance(holdings.id);
        if instance.and_then(|instance| instance.with_cell(Cell::free_some_of_copy)) == Some(true) {
            return self.put_off(self.lock(), Leaving::Holdings(holdings));
        }
        let free_some = |cell: &mut Cell| cell.free_some(&self.space, holdings.freed);
        if let Some(freed) = self.instance(holdings.id).and_then(|instance| instance.with_cell(free_some)).flatten() {
            holdings.freed = freed;
            return self.put_off(self.lock(), Leaving::Holdings(holdings));
        }
        let Holdings { id, result, run, park, modules, freed: _ } = holdings;
        let (instance, usage) = self.instances.remove(id);
        let usage = Usage { run, park, ..usage };
        let cell = instance.cell.lock().expect("cell").take();
        if let Some(cell) = cell {
            if self.space.keys().separate() && !fault_injection::disabled(Mitigation::Frames) {
                // Entry frames are memory of its key: what it has left there must not lead into the next one with that key.
                for carrier in 0..CARRIER_MAX {
                    let frame = frame_page(carrier, cell.key().number());
                    self.space.empty_page(frame);
                }
            }
            self.cells.release(cell);
        }
        let output = std::mem::take(&mut *instance.lines.lock().expect("lines"));
        let ended = ticks();
        let mut scheduler = self.lock();
        scheduler.push_event(Event::Ended(Box::new(Ended {
            token: instance.config.token,
            id,
            result,
            refusal: instance.explanations.refusal(),
            inputs_intact: modules.inputs_intact(),
            usage,
            lines: output.lines,
            lines_dropped: output.full,
            ended,
        })));
        self.sched.wake_carrier(&mut scheduler);
    }
}

#[cfg(test)]
mod tests {
    use super::super::address_space::{Access, AddressSpace};
    use super::super::carrier::Carrier;
    use super::super::image::map::LoadedImage;
    use super::super::instance::Labels;
    use super::super::keys::{Key, Keys};
    use super::super::sched::Work;
    use super::super::{Domain, Options, ReservedDomain, one_at_a_time};
    use super::*;
    use monohull_abi::layout::{INFO_BASE, INFO_SIZE};
    use monohull_network::Network;
    use std::path::Path;

    /// Of a domain that never runs.
    fn domain(keys: Keys) -> Domain {
        let space = AddressSpace::reserve(keys).expect("address space");
        space.protect(INFO_BASE..INFO_BASE + INFO_SIZE, Access::ReadWrite, Key::INFO).expect("the info page");
        let carrier = Carrier::new(&space, 0).expect("a carrier");
        let options = Options {
            carriers: 1,
            modules: "nowhere".into(),
            keys: false,
            separate: false,
            time_slice: None,
            time_stamp_counter: true,
            load_all: false,
            network: Network::default(),
            epoll_set: None,
            sink: None,
            mounts: Arc::new([]),
            suspend: None,
            halt: None,
            skip_time: false,
            invocation: "".into(),
            handed_over: "".into(),
            public_url: "".into(),
            keeper: None,
            residence: None,
            inbox: None,
            may_wait_for_events: false,
            no_sending: None,
            no_branches: None,
            starts: Ok(Vec::new()),
            effects: Default::default(),
            published: Default::default(),
            lineage: Default::default(),
            template: Default::default(),
            template_instances: Arc::new([]),
            first_begins_alone: false,
            template_finds_no_files: false,
            template_at_first_wait: false,
        };
        Domain::on(ReservedDomain { carrier, space, cells: Vec::new() }, options)
    }

    fn config(token: u64, image: &Arc<LoadedImage>) -> InstanceConfig {
        InstanceConfig {
            token,
            image: image.clone(),
            labels: Arc::new(Labels::default()),
            index: 0,
            count: 1,
            attempt: 1,
            args: "null".into(),
            env: "{}".into(),
            stdin: "".into(),
            slots: None,
            files: None,
            performs: None,
            handles: None,
            stack_size: 64 << 10,
            memory_limit: 1 << 20,
            max_threads: 1,
            output_limit: 1 << 10,
            timeout: None,
        }
    }

    /// A carrier that finds no cell takes no pending instance: the others would be started before it.
    #[test]
    fn pending_instances_get_cells_in_their_order_however_many_carriers_ask() {
        let _one = one_at_a_time();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/images/no-op.so");
        let image =
            Arc::new(LoadedImage::open("no-op", &path).expect("images are built first: run `cargo xtask test`"));
        let one_cell: fn(&Domain) = |domain| domain.cells.limit(1);
        let enough: fn(&Domain) = |_| {};
        for (keys, scarce) in [(Keys::disabled(), one_cell), (Keys::scarce(1), enough)] {
            let domain = domain(keys);
            scarce(&domain);
            let ask = || match domain.lock().launch::<Shared>(&domain) {
                Some(Work::Launch(config, lease)) => Some((config, lease)),
                _ => None,
            };
            let token = |taken: &Option<(InstanceConfig, CellLease)>| taken.as_ref().map(|(config, _)| config.token);
            (1..=5).for_each(|token| domain.start(config(token, &image)));
            for expected in 1..=5 {
                let taken = ask();
                assert_eq!(token(&taken), Some(expected));
                // Other carriers ask before the cell is prepared, and again afterwards.
                assert!((0..3).all(|_| ask().is_none()), "there is one cell");
                let (config, lease) = taken.expect("an instance");
                let cell = domain.cells.prepare(lease, &config.image, config.stack_size).expect("memory");
                assert!((0..3).all(|_| ask().is_none()), "there is one cell");
                domain.cells.release(cell);
                assert!((0..3).all(|_| ask().is_none()), "it is not wiped yet");
                domain.cells.wipe_dirty();
            }
            assert!(ask().is_none(), "there are no more");
        }
    }
}
