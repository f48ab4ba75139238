//! The life of an instance: from a job to a cell with a thread in it, and back to a clean cell.
//!
//! ```text
//! job ── launch ──▶ cell, roster, main thread ── … ── end ──▶ its threads stop ── the last has left ──▶ reclaim
//!                                                 cell wiped ◀── driver, if the run goes on ◀── event ◀──┘
//! ```

use super::carrier::{self, ticks};
use super::cell::Cell;
use super::explanation::Explanations;
use super::failure::{Blame, Failure, FailureKind};
use super::instance::{CELL_BITS, Counters, Instance, Output, Roster, Spec, Usage};
use super::region::RegionError;
use super::scheduler::{Scheduler, TimerKind, get};
use super::thread::{State, THREADS_MAX, ThreadRef};
use super::{Cells, Ended, Event, Shared, after, bounds_of_cell};
use monohull_abi::layout::{CARRIER_MAX, PAGE};
use monohull_abi::module::{Ending, NEVER};
use monohull_trampoline::system::frame_page;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};

impl Shared {
    /// Whether a waiting job could start now.
    pub(super) fn has_cell(&self) -> bool {
        let mut cells = self.cells.lock().expect("cells");
        self.mend(&mut cells);
        !cells.warm.is_empty() || !cells.clean.is_empty() && self.partition.keys().has_free()
    }

    /// Gives an instance a cell and its main thread; it is in the ready queue afterwards.
    pub(super) fn launch(&self, spec: Spec) {
        let begin = ticks();
        let token = spec.token;
        let cell = match self.take_cell(&spec) {
            Ok(Some(cell)) => cell,
            Ok(None) => {
                // Another carrier was quicker: the job waits on.
                self.lock().jobs.push_front(spec);
                return;
            }
            Err(error) => {
                let failure =
                    Failure::blamed(FailureKind::Load, Blame::Host, format!("its image cannot be mapped: {error}"));
                self.lock().events.push_back(Event::Ended(Box::new(Ended {
                    token,
                    result: Err(Box::new(failure)),
                    inputs_whole: true,
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
            running: AtomicU32::new(0),
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
        scheduler.rosters.insert(instance.id, Roster::default());
        if deadline != NEVER {
            scheduler.set_timer(deadline, TimerKind::Instance(instance.id));
        }
        if data > limit {
            drop(scheduler);
            let text = format!("the data of its image takes {data} bytes, its memory limit is {limit} bytes");
            return self
                .end(&instance, Err(Box::new(Failure::blamed(FailureKind::MemoryLimit, Blame::Workflow, text))));
        }
        match scheduler.spawn(&instance, None, user_rsp, 0) {
            Some(thread) => scheduler.enqueue(thread),
            None => {
                drop(scheduler);
                let text = format!("the domain has {} threads already", THREADS_MAX);
                self.end(&instance, Err(Box::new(Failure::blamed(FailureKind::Load, Blame::Workflow, text))));
            }
        }
    }

    /// A cell with the image in it; `None` if all are in use.
    fn take_cell(&self, spec: &Spec) -> Result<Option<Cell>, RegionError> {
        let mut cells = self.cells.lock().expect("cells");
        self.mend(&mut cells);
        if let Some(found) = cells.warm.iter().rposition(|c| c.suits(&spec.image, spec.stack_size)) {
            return Ok(Some(cells.warm.swap_remove(found)));
        }
        let keys = self.partition.keys();
        let fresh = match cells.clean.pop() {
            Some(index) => match keys.lend() {
                Some(key) => Some((index, key)),
                None => {
                    cells.clean.push(index);
                    None
                }
            },
            None => None,
        };
        let (index, key) = match (fresh, cells.warm.is_empty()) {
            (Some(fresh), _) => fresh,
            (None, true) => return Ok(None),
            (None, false) => {
                // A cell that was kept for another image, and the key on its pages.
                let cell = cells.warm.swap_remove(0);
                drop(cells);
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
            let mut cells = self.cells.lock().expect("cells");
            cells.broken.push((index, key));
            self.mend(&mut cells);
        }
        cell.map(Some)
    }

    /// Clears cells that could not be cleared before: what was missing, a mapping say, may have been given back.
    fn mend(&self, cells: &mut Cells) {
        let Cells { clean, broken, .. } = cells;
        broken.retain(|&(index, key)| {
            let all = bounds_of_cell(index);
            let cleared = self.partition.reset(all.start..all.end).is_ok();
            if cleared {
                clean.push(index);
                self.partition.keys().give_back(key);
            }
            !cleared
        });
    }

    /// Ends an instance, once: its threads stop, and when the last has left its carrier everything is reclaimed.
    pub(super) fn end(&self, instance: &Instance, ending: Result<(), Box<Failure>>) {
        let mut scheduler = self.lock();
        let Some(roster) = scheduler.rosters.get_mut(&instance.id) else { return };
        if roster.ending.is_some() {
            return;
        }
        roster.ending = Some(ending);
        instance.stop.store(true, Ordering::Release);
        // See `Carrier::turn_to`.
        fence(Ordering::SeqCst);
        let off_carriers = |t: &ThreadRef| matches!(get(*t).state, State::Ready | State::Parked);
        let waiting: Vec<_> = roster.threads.iter().copied().filter(off_carriers).collect();
        for thread in waiting {
            scheduler.retire(thread);
        }
        if instance.running.load(Ordering::Relaxed) == 0 {
            self.reclaim(scheduler, instance.id);
            return;
        }
        for index in 0..scheduler.carriers {
            if carrier::runs(index, &instance.stop) && index != self.this_carrier() {
                carrier::nudge(index);
            }
        }
    }

    /// Takes back everything an ended instance held. No thread of it exists any more.
    pub(super) fn reclaim(&self, mut scheduler: MutexGuard<'_, Scheduler>, id: u32) {
        let Some(roster) = scheduler.rosters.remove(&id) else { return };
        drop(scheduler);
        let result = roster.ending.expect("only ended instances are reclaimed");
        let index = (id & ((1 << CELL_BITS) - 1)) as usize;
        let ending = if result.is_ok() { Ending::Done } else { Ending::Failed };
        let inputs_whole = self.modules.ended(self, id, ending);
        // A module that has failed takes nothing back.
        self.mappings.unmap_all(id);
        let instance = self.instances.write().expect("instances")[index].take().expect("the instance is live");
        let usage = self.usage(&instance);
        self.accounts.close(index);
        let cell = instance.cell.lock().expect("cell").take();
        if let Some(cell) = cell {
            if self.partition.keys().separate() {
                // Entry frames are memory of its key: what it has left there must not lead into the next one with that key.
                for carrier in 0..CARRIER_MAX {
                    let frame = frame_page(carrier, cell.key().number());
                    self.partition.discard(frame..frame + PAGE);
                }
            }
            self.cells.lock().expect("cells").left.push(cell);
        }
        let output = std::mem::take(&mut *instance.lines.lock().expect("lines"));
        let ended = ticks();
        let mut scheduler = self.lock();
        if instance.deadline != NEVER {
            scheduler.sweep_timers();
        }
        scheduler.events.push_back(Event::Ended(Box::new(Ended {
            token: instance.spec.token,
            result,
            inputs_whole,
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
