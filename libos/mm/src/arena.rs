//! Memory for buffers: pages that are committed and zeroed.
//!
//! Free pages are of two kinds. Those in the [`PageSpace`] have never been used or have been emptied, and read as
//! zero. *Warm* runs have been freed but keep their memory, up to a budget; they are zeroed when they are used again. That is much
//! cheaper than a page fault per page.
//!
//! ```text
//!  take ──▶ warm run of that size? ──▶ zero it ──▶ buffer
//!              └─ no ─▶ free pages that fit, commit up to them ──▶ buffer
//!
//!  locked                                not locked: [`Returns::settle`]           locked
//!  retire ──▶ kept, while the budget lasts? ──▶ to the system's key ────────────▶ accept ──▶ warm
//!               └─ no ─▶                        to the system's key, emptied ──▶           ──▶ free pages
//! ```
//!
//! Memory that a function has moved here from its cell keeps the place that it had there in the kernel's books, so it never becomes one mapping
//! with its neighbours. When it is freed the pages are renewed. There are only so many of such runs at a time.
//!
//! Freeing memory takes system calls, whose time grows with the memory. They are made without the lock that all buffers of the
//! domain share, while the runs are in no list.

use crate::pages::{HUGE, Origin, PageSpace, Run};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;
use monohull_abi::layout::{ARENA_BASE, ARENA_END, PAGE, page_up};
use monohull_abi::module::SYSTEM_INSTANCE;
use monohull_module::HostRef;

/// Most bytes that warm runs may hold.
const WARM_BUDGET: u64 = 64 << 20;
/// Least and most that is committed at a time.
const COMMIT_MIN: u64 = 1 << 20;
const COMMIT_MAX: u64 = 64 << 20;
/// A request of this size gets whole huge pages: a fault for each small page would take longer than zeroing a huge one.
const HUGE_NEED: u64 = HUGE / 4;
/// Most bytes that are emptied by one system call: the kernel holds a lock of the whole address space meanwhile.
const EMPTY_STEP: u64 = 4 << 20;
/// The same, where most of it holds nothing.
const MOVED_STEP: u64 = 32 << 20;
/// Most warm runs that make room for another one.
const EVICTIONS_MAX: usize = 128;

/// Most runs whose memory comes from cells: each is up to two more mappings, of which a process has some 65 000.
pub(crate) const FROM_CELLS_MAX: usize = 2048;

/// Pages taken from the arena.
pub(crate) struct Taken {
    pub(crate) run: Run,
    /// Whether the memory must be zeroed before a function sees it.
    pub(crate) dirty: bool,
}

/// Runs on their way back to the arena.
#[derive(Default)]
pub(crate) struct Returns(Vec<Returned>);

struct Returned {
    run: Run,
    /// It may have the key of an instance.
    held: bool,
    /// It becomes warm; otherwise it is emptied.
    keep: bool,
    /// It still has the key of its last owner, or still holds its last owner's data.
    stuck: bool,
}

impl Returns {
    /// Adds a run whose memory is not to be used again before it is emptied.
    pub(crate) fn add(&mut self, run: Run) {
        self.0.push(Returned { run, held: true, keep: false, stuck: false });
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes the system calls that the runs need; neighbours share theirs. Call it without a lock.
    pub(crate) fn settle(&mut self, host: HostRef) {
        self.0.sort_unstable_by_key(|returned| returned.run.address());
        let kind = |returned: &Returned| (returned.held, returned.keep, returned.run.origin());
        let together = |a: &Returned, b: &Returned| a.run.end() == b.run.address() && kind(a) == kind(b);
        for group in self.0.chunk_by_mut(together) {
            let [first, ..] = &*group else { continue };
            let ((held, keep, origin), start) = (kind(first), first.run.address());
            let range = start..group.last().map_or(start, |last| last.run.end());
            if origin.is_cell() {
                // What was moved out holds nothing, if nothing was written to it since.
                let step = if origin == Origin::Cell { EMPTY_STEP } else { MOVED_STEP };
                let is_renewed = in_steps(range.clone(), step, |start, bytes| host.arena_renew(start, bytes).is_ok());
                if !is_renewed {
                    // They are renewed later, and keep the key of their last owner until then.
                    empty(host, range);
                }
                group.iter_mut().for_each(|returned| returned.stuck = !is_renewed);
                continue;
            }
            let is_systems = !held || host.arena_assign(SYSTEM_INSTANCE, start, range.end - start).is_ok();
            // Pages that keep the key of their last owner are readable with that key, so they are emptied in any case.
            let is_clean = (keep && is_systems) || empty(host, range);
            group.iter_mut().for_each(|returned| returned.stuck = !is_systems || !is_clean);
        }
    }
}

/// Empties memory.
fn empty(host: HostRef, range: Range<u64>) -> bool {
    in_steps(range, EMPTY_STEP, |start, bytes| host.arena_discard(start, bytes).is_ok())
}

/// Does something with a range step by step: start and bytes of each.
fn in_steps(range: Range<u64>, step: u64, work: impl Fn(u64, u64) -> bool) -> bool {
    let mut starts = range.clone().step_by(step as usize);
    starts.all(|start| work(start, step.min(range.end - start)))
}

/// The arena of one domain.
pub(crate) struct Arena {
    host: HostRef,
    space: PageSpace,
    /// Runs that keep their memory, by size.
    warm: BTreeMap<u64, Vec<Run>>,
    /// Bytes in them, and in those on their way there.
    warm_bytes: u64,
    /// Everything below has been committed.
    committed: u64,
    /// Runs that still have the key of their last owner, or that could not be emptied.
    stuck: VecDeque<Run>,
    /// Runs whose memory comes from cells, in use and on their way back.
    from_cells: usize,
    /// Pages of different owners are different mappings, as the last change of an owner has shown.
    kept_apart: bool,
}

impl Arena {
    pub(crate) fn new(host: HostRef) -> Arena {
        let (space, warm) = (PageSpace::new(ARENA_BASE..ARENA_END), BTreeMap::new());
        let stuck = VecDeque::new();
        Arena { host, space, warm, warm_bytes: 0, committed: ARENA_BASE, stuck, from_cells: 0, kept_apart: false }
    }

    /// Takes at least `bytes`, at least one page. `None` if the arena is full.
    pub(crate) fn take(&mut self, bytes: u64, align: u64) -> Option<Taken> {
        let bytes = page_up(bytes.max(1));
        if bytes > ARENA_END - ARENA_BASE {
            return None;
        }
        let align = if bytes >= HUGE { HUGE } else { align.max(PAGE) };
        if let Some(run) = self.take_warm(bytes, align) {
            return Some(Taken { run, dirty: true });
        }
        self.take_free(bytes, align).map(|run| Taken { run, dirty: false })
    }

    /// Takes whole pages that hold nothing.
    fn take_free(&mut self, bytes: u64, align: u64) -> Option<Run> {
        let run = self.space.take(bytes, align)?;
        if self.commit(run.end()) {
            return Some(run);
        }
        self.space.give(run);
        None
    }

    /// Takes pages for so many bytes that are to get memory of a cell; without it they are zero. Fewer runs than that may be had: then
    /// the memory is to be copied, and the run's origin is the arena. `None` if the arena is full.
    pub(crate) fn take_for_cell(&mut self, bytes: u64) -> Option<Run> {
        let bytes = page_up(bytes);
        if bytes > ARENA_END - ARENA_BASE {
            return None;
        }
        let mut run = self.take_free(bytes, if bytes >= HUGE { HUGE } else { PAGE })?;
        if self.from_cells < FROM_CELLS_MAX {
            self.from_cells += 1;
            run.expect_cell();
        }
        Some(run)
    }

    /// The memory of a run is the arena's: none of a cell has come, or it has been renewed.
    pub(crate) fn keep_own(&mut self, run: &mut Run) {
        self.from_cells -= usize::from(run.origin().is_cell());
        run.forget_origin();
    }

    /// Splits off everything behind the first `bytes` of a run.
    pub(crate) fn split_off(&mut self, run: &mut Run, bytes: u64) -> Run {
        self.from_cells += usize::from(run.origin().is_cell());
        run.split_off(bytes)
    }

    /// Extends a run in place by zeroed memory if the pages behind it are free.
    pub(crate) fn extend(&mut self, run: &mut Run, bytes: u64) -> bool {
        // Committed first, so that nothing has to be undone.
        let Some(end) = run.end().checked_add(bytes).filter(|end| *end <= ARENA_END) else { return false };
        self.commit(end) && self.space.extend(run, bytes)
    }

    /// Takes exactly these pages. `None` if some of them are not free, or cannot be committed.
    pub(crate) fn claim(&mut self, address: u64, bytes: u64) -> Option<Run> {
        let run = self.space.claim(address, bytes)?;
        self.commit(run.end()).then_some(run)
    }

    /// Transfers pages to an instance, or to the system.
    pub(crate) fn assign(&mut self, run: &Run, owner: u32) -> bool {
        let answer = self.host.arena_assign(owner, run.address(), run.bytes());
        self.kept_apart = answer.unwrap_or(self.kept_apart);
        answer.is_ok()
    }

    /// Whether each buffer that an instance holds costs the process mappings, of which it has only so many.
    pub(crate) fn is_kept_apart(&self) -> bool {
        self.kept_apart
    }

    /// Takes back memory that may have the key of an instance. It is free once it has been settled and accepted.
    pub(crate) fn retire(&mut self, run: Run, returns: &mut Returns) {
        // To zero memory that has yet to come takes longer than to get it zeroed.
        let is_full = run.origin() == Origin::Own;
        if is_full {
            self.make_room(run.bytes(), returns);
        }
        let keep = is_full && self.warm_bytes + run.bytes() <= WARM_BUDGET;
        if keep {
            self.warm_bytes += run.bytes();
        }
        returns.0.push(Returned { run, held: true, keep, stuck: false });
        // What failed before, for lack of a mapping for example, may succeed now.
        if let Some(stuck) = self.stuck.pop_front() {
            returns.add(stuck);
        }
    }

    /// Makes memory that has been settled free.
    pub(crate) fn accept(&mut self, returns: &mut Returns) {
        for Returned { mut run, keep, stuck, .. } in returns.0.drain(..) {
            match (stuck, keep) {
                (false, true) => self.warm.entry(run.bytes()).or_default().push(run),
                (false, false) => {
                    self.keep_own(&mut run);
                    self.space.give(run);
                }
                (true, _) => {
                    if keep {
                        self.warm_bytes -= run.bytes();
                    }
                    self.stuck.push_back(run);
                }
            }
        }
    }

    /// Evicts warm runs in favour of one of this size, the largest first: they are the fewest, and hold the most memory.
    fn make_room(&mut self, bytes: u64, returns: &mut Returns) {
        while bytes <= WARM_BUDGET && self.warm_bytes + bytes > WARM_BUDGET && returns.0.len() < EVICTIONS_MAX {
            let Some(run) = self.take_largest_warm(bytes) else { return };
            returns.0.push(Returned { run, held: false, keep: false, stuck: false });
        }
    }

    fn take_warm(&mut self, bytes: u64, align: u64) -> Option<Run> {
        let run = self.warm.get_mut(&bytes)?.pop_if(|run| run.address().is_multiple_of(align))?;
        self.warm_bytes -= bytes;
        Some(run)
    }

    /// Removes the largest, unless it has exactly this size and would be evicted for its equal.
    fn take_largest_warm(&mut self, size: u64) -> Option<Run> {
        loop {
            let mut class = self.warm.last_entry()?;
            match class.get_mut().pop_if(|run| run.bytes() != size) {
                Some(run) => {
                    self.warm_bytes -= run.bytes();
                    return Some(run);
                }
                None if !class.get().is_empty() => return None,
                None => _ = class.remove(),
            }
        }
    }

    fn commit(&mut self, end: u64) -> bool {
        if end <= self.committed {
            return true;
        }
        let ahead = (self.committed - ARENA_BASE).clamp(COMMIT_MIN, COMMIT_MAX);
        let unit = if end - self.committed >= HUGE_NEED { HUGE } else { PAGE };
        let target = end.saturating_add(ahead).next_multiple_of(unit).min(ARENA_END);
        let done = self.host.arena_commit(self.committed, target - self.committed).is_ok();
        if done {
            self.committed = target;
        }
        done
    }
}

impl Drop for Arena {
    /// Frees the memory. What cannot be emptied is freed with the domain's address space, right after.
    fn drop(&mut self) {
        if self.committed > ARENA_BASE {
            let _ = self.host.arena_discard(ARENA_BASE, self.committed - ARENA_BASE);
        }
    }
}
