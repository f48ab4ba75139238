//! The life of an instance: from a job to a cell with a thread in it, and back to a clean cell.
//!
//! ```text
//! job ── place ── launch ──▶ cell, main thread ── … ── end ──▶ its threads stop ── the last has left ──▶ reclaim
//!                                                 cell wiped ◀── driver, if the run goes on ◀── event ◀──┘
//! ```
//!
//! Jobs get places, cell and key, strictly in their order.

use super::carrier::{self, ticks};
use super::cell::Cell;
use super::explanation::Explanations;
use super::instance::{CELL_BITS, Counters, Instance, Output, Spec, Usage};
use super::keys::Key;
use super::region::RegionError;
use super::sched::{Scheduler, THREADS_MAX};
use super::{Ended, Event, SchedulerGuard, Shared, after, bounds_of_cell};
use crate::weaken::{self, Defence};
use monohull_abi::layout::CARRIER_MAX;
use monohull_abi::module::{Ending, NEVER};
use monohull_report::failure::{Blame, Failure, FailureKind};
use monohull_trampoline::system::frame_page;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex};

/// Where an instance is to live. Whoever has this has taken it from what is free.
pub(super) enum Place {
    /// The image is in it.
    Warm(Cell),
    /// Nothing is in it, and this key is to be on its pages.
    Clean(usize, Key),
    /// Kept for another image: it is cleared first, and its key stays on its pages.
    Other(Cell),
}

impl Shared {
    /// The job that has waited longest, if there is a place for it. They go together while the queue is locked, so that
    /// of several carriers none serves a later job first.
    pub(super) fn next_job(&self, scheduler: &mut Scheduler<Arc<Instance>>) -> Option<(Spec, Place)> {
        let place = self.take_place(scheduler.jobs.front()?)?;
        scheduler.jobs.pop_front().map(|spec| (spec, place))
    }

    /// Whether [`Self::next_job`] would find a place.
    pub(super) fn has_place(&self) -> bool {
        let cells = self.cells.lock().expect("cells");
        !cells.warm.is_empty() || !cells.clean.is_empty() && self.partition.keys().has_free()
    }

    /// Gives an instance its main thread in the cell that is its place; it is in the ready queue afterwards.
    pub(super) fn launch(&self, spec: Spec, place: Place) {
        let begin = ticks();
        let token = spec.token;
        let cell = match self.furnish(&spec, place) {
            Ok(cell) => cell,
            Err(error) => {
                let failure =
                    Failure::blamed(FailureKind::Load, Blame::Host, format!("its image cannot be mapped: {error}"));
                self.lock().events.push_back(Event::Ended(Box::new(Ended {
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
                return;
            }
        };
        let index = cell.index();
        let image_base = cell.image_base();
        let key = cell.key();
        if self.first_mapped.load(Ordering::Relaxed) == 0 {
            self.first_mapped.store(ticks(), Ordering::Relaxed);
        }
        let user_rsp = cell.prepare_stack(None, image_base + spec.image.image.start);
        let data = cell.data_bytes();
        let deadline = spec.timeout.map_or(NEVER, after);
        let instance = Arc::new(Instance {
            id: self.next_id(index),
            cell: Mutex::new(Some(cell)),
            key,
            image_base,
            stop: AtomicBool::new(false),
            deadline,
            counters: Counters::default(),
            lines: Mutex::new(Output::default()),
            explanations: Explanations::default(),
            spec,
        });
        instance.counters.load.store(ticks() - begin, Ordering::Relaxed);
        let limit = instance.spec.memory_limit;
        self.accounts.open(index, instance.id, limit, data);
        self.instances.write().expect("instances")[index] = Some(instance.clone());
        let mut scheduler = self.lock();
        let armed = scheduler.insert(instance.id, instance.clone(), deadline);
        self.announce(&mut scheduler, armed);
        if data > limit {
            drop(scheduler);
            let text = format!("the data of its image takes {data} bytes, its memory limit is {limit} bytes");
            return self
                .end(&instance, Err(Box::new(Failure::blamed(FailureKind::MemoryLimit, Blame::Workflow, text))));
        }
        match scheduler.spawn(instance.id, None, user_rsp, 0) {
            Some(thread) => scheduler.enqueue(thread),
            None => {
                drop(scheduler);
                let text = format!("the domain has {} threads already", THREADS_MAX);
                self.end(&instance, Err(Box::new(Failure::blamed(FailureKind::Load, Blame::Workflow, text))));
            }
        }
    }

    /// A place for this instance; `None` if all are in use.
    fn take_place(&self, spec: &Spec) -> Option<Place> {
        let mut cells = self.cells.lock().expect("cells");
        if let Some(found) = cells.warm.iter().rposition(|cell| cell.suits(&spec.image, spec.stack_size)) {
            return Some(Place::Warm(cells.warm.swap_remove(found)));
        }
        if !cells.clean.is_empty()
            && let Some(key) = self.partition.keys().lend()
        {
            return cells.clean.pop().map(|index| Place::Clean(index, key));
        }
        (!cells.warm.is_empty()).then(|| Place::Other(cells.warm.swap_remove(0)))
    }

    /// A cell with the image in it, at its place.
    fn furnish(&self, spec: &Spec, place: Place) -> Result<Cell, RegionError> {
        let (index, key) = match place {
            Place::Warm(cell) => return Ok(cell),
            Place::Clean(index, key) => (index, key),
            Place::Other(cell) => {
                let (index, key) = (cell.index(), cell.key());
                if let Err(error) = cell.clear(&self.partition) {
                    self.cells.lock().expect("cells").broken.push((index, key));
                    return Err(error);
                }
                (index, key)
            }
        };
        let cell = Cell::new(&self.partition, index, spec.image.clone(), spec.stack_size, key);
        if cell.is_err() {
            self.cells.lock().expect("cells").broken.push((index, key));
            self.mend_cells();
        }
        cell
    }

    /// Clears cells that could not be cleared before: what was missing, a mapping say, may have been given back. How many
    /// are clean now.
    pub(super) fn mend_cells(&self) -> usize {
        // Mapping takes its time: not under the lock that everyone needs who looks for a place.
        let broken = std::mem::take(&mut self.cells.lock().expect("cells").broken);
        let mut mended = 0;
        for (index, key) in broken {
            let all = bounds_of_cell(index);
            let cleared = self.partition.reset(all.start..all.end).is_ok();
            let mut cells = self.cells.lock().expect("cells");
            if cleared {
                cells.clean.push(index);
                self.partition.keys().give_back(key);
                mended += 1;
            } else {
                cells.broken.push((index, key));
            }
        }
        mended
    }

    /// Ends an instance, once: its threads stop, and when the last has left its carrier everything is reclaimed.
    pub(super) fn end(&self, instance: &Instance, ending: Result<(), Box<Failure>>) {
        let mut scheduler = self.lock();
        if !scheduler.end(instance.id, ending) {
            return;
        }
        instance.stop.store(true, Ordering::Release);
        // See `Carrier::turn_to`.
        fence(Ordering::SeqCst);
        for index in 0..scheduler.carriers {
            if carrier::runs(index, &instance.stop) && index != self.this_carrier() {
                carrier::nudge(index);
            }
        }
        // It may have a million threads; other instances are not to wait for all of them to be put away.
        while scheduler.retire_some(instance.id) {
            drop(scheduler);
            scheduler = self.lock();
        }
        if scheduler.is_over(instance.id) {
            self.reclaim(scheduler, instance.id);
        }
    }

    /// Takes back everything an ended instance held. No thread of it exists any more.
    pub(super) fn reclaim(&self, mut scheduler: SchedulerGuard<'_>, id: u32) {
        let Some(threads) = scheduler.remove(id) else { return };
        drop(scheduler);
        let result = threads.ending.expect("only ended instances are reclaimed");
        let index = (id & ((1 << CELL_BITS) - 1)) as usize;
        let ending = if result.is_ok() { Ending::Done } else { Ending::Failed };
        let inputs_intact = self.modules.ended(id, ending);
        // The module may never have been loaded, or not know of all.
        self.mappings.unmap_all(id);
        let instance = self.instances.write().expect("instances")[index].take().expect("the instance is live");
        let usage = Usage { run: threads.run, park: threads.park, ..self.usage(&instance) };
        self.accounts.close(index);
        let cell = instance.cell.lock().expect("cell").take();
        if let Some(cell) = cell {
            if self.partition.keys().separate() && !weaken::is_off(Defence::Frames) {
                // Entry frames are memory of its key: what it has left there must not lead into the next one with that key.
                for carrier in 0..CARRIER_MAX {
                    let frame = frame_page(carrier, cell.key().number());
                    self.partition.empty_page(frame);
                }
            }
            self.cells.lock().expect("cells").left.push(cell);
        }
        let output = std::mem::take(&mut *instance.lines.lock().expect("lines"));
        let ended = ticks();
        let mut scheduler = self.lock();
        scheduler.events.push_back(Event::Ended(Box::new(Ended {
            token: instance.spec.token,
            id,
            result,
            refusal: instance.explanations.refusal(),
            inputs_intact,
            usage,
            lines: output.lines,
            lines_dropped: output.full,
            ended,
        })));
        self.wake_carrier(&mut scheduler);
    }
}

impl Shared {
    /// Makes the cells of ended instances fit for others.
    pub(super) fn wipe_cells(&self) {
        self.mend_cells();
        loop {
            // Not as a condition of the loop: the lock is not to be held meanwhile.
            let left = self.cells.lock().expect("cells").left.pop();
            let Some(mut cell) = left else { return };
            match cell.wipe(&self.partition) {
                Ok(()) => self.cells.lock().expect("cells").warm.push(cell),
                Err(error) => {
                    tracing::warn!("cell {} cannot be wiped now and is cleared later: {error}", cell.index());
                    self.cells.lock().expect("cells").broken.push((cell.index(), cell.key()));
                }
            }
        }
    }
}

/// How an instance ends that nobody waits for any more.
pub(super) fn cancelled() -> Failure {
    Failure::blamed(FailureKind::Cancelled, Blame::Workflow, "ended because the workflow ends")
}

#[cfg(test)]
mod tests {
    use super::super::image::map::LoadedImage;
    use super::super::instance::Labels;
    use super::super::keys::Keys;
    use super::super::region::{Access, Partition};
    use super::super::{Carrier, Domain, Ground, Options, one_at_a_time};
    use super::*;
    use monohull_abi::layout::{INFO_BASE, INFO_SIZE};
    use monohull_network::Network;
    use std::path::Path;

    /// Of a domain that never runs.
    fn domain(keys: Keys) -> Domain {
        let partition = Partition::reserve(keys).expect("address space");
        partition.protect(INFO_BASE..INFO_BASE + INFO_SIZE, Access::ReadWrite, Key::INFO).expect("the info page");
        let carrier = Carrier::attach(&partition, 0).expect("a carrier");
        let options = Options {
            carriers: 1,
            modules: "nowhere".into(),
            keys: false,
            separate: false,
            time_stamp_counter: true,
            load_all: false,
            network: Network::default(),
            ears: None,
            sink: None,
            mounts: Arc::new([]),
        };
        Domain::on(Ground { carrier, partition }, options)
    }

    fn spec(token: u64, image: &Arc<LoadedImage>) -> Spec {
        Spec {
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
            stack_size: 64 << 10,
            memory_limit: 1 << 20,
            max_threads: 1,
            output_limit: 1 << 10,
            timeout: None,
        }
    }

    /// Who finds no place takes no job: the others would be served before it.
    #[test]
    fn jobs_get_places_in_their_order_however_many_carriers_ask() {
        let _one = one_at_a_time();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/images/no-op.so");
        let image =
            Arc::new(LoadedImage::open("no-op", &path).expect("images are built first: run `cargo xtask test`"));
        let one_cell: fn(&Domain) = |domain| domain.cells.lock().expect("cells").clean.truncate(1);
        let enough: fn(&Domain) = |_| {};
        for (keys, scarce) in [(Keys::disabled(), one_cell), (Keys::scarce(1), enough)] {
            let domain = domain(keys);
            scarce(&domain);
            let ask = || domain.next_job(&mut domain.lock());
            let token = |job: &Option<(Spec, Place)>| job.as_ref().map(|(spec, _)| spec.token);
            (1..=5).for_each(|token| domain.start(spec(token, &image)));
            for expected in 1..=5 {
                let job = ask();
                assert_eq!(token(&job), Some(expected));
                // Other carriers ask before the place is furnished, and again afterwards.
                assert!((0..3).all(|_| ask().is_none()), "there is one place");
                let (spec, place) = job.expect("a job");
                let cell = domain.furnish(&spec, place).expect("memory");
                assert!((0..3).all(|_| ask().is_none()), "there is one place");
                domain.cells.lock().expect("cells").warm.push(cell);
            }
            assert!(ask().is_none(), "there are no more jobs");
        }
    }
}
