//! Memory for buffers: pages that are committed and zero when they are handed out.
//!
//! Free pages are of two kinds. Those in the [`PageSpace`] have never been used or have been discarded, and read as
//! zero. *Warm* runs were given back a moment ago; they keep their memory, up to a budget, and are zeroed when they are
//! used again. That is much cheaper than a page fault per page.
//!
//! ```text
//!  take ──▶ warm run of that size? ──▶ zero it ──▶ buffer ──▶ give ──▶ warm, while the budget lasts
//!              └─ no ─▶ free pages that fit, commit up to them         └─ else discard, free pages
//! ```

use crate::pages::{HUGE, PageSpace, Run};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use monohull_abi::layout::{ARENA_BASE, ARENA_END, PAGE, page_up};
use monohull_abi::module::SYSTEM_INSTANCE;
use monohull_module::HostRef;

/// Most bytes that warm runs may hold.
const WARM_BUDGET: u64 = 64 << 20;
/// Least and most that is committed at a time.
const COMMIT_MIN: u64 = 1 << 20;
const COMMIT_MAX: u64 = 64 << 20;
/// Who needs this much at once gets whole huge pages: a fault for each small page would take longer than zeroing a huge one.
const HUGE_NEED: u64 = HUGE / 4;

/// Pages as they come from the arena.
pub(crate) struct Taken {
    pub(crate) run: Run,
    /// Whether the memory must be zeroed before anybody sees it.
    pub(crate) dirty: bool,
}

/// The arena of one domain.
pub(crate) struct Arena {
    host: HostRef,
    space: PageSpace,
    /// Runs that keep their memory, by size.
    warm: BTreeMap<u64, Vec<Run>>,
    warm_bytes: u64,
    /// Everything below has been committed.
    committed: u64,
    /// Runs that still have the key of their last owner, or that could not be wiped.
    stuck: VecDeque<Run>,
    /// Pages of different owners are different mappings: so it was with the last that were handed over.
    kept_apart: bool,
}

impl Arena {
    pub(crate) fn new(host: HostRef) -> Arena {
        let (space, warm) = (PageSpace::new(ARENA_BASE..ARENA_END), BTreeMap::new());
        Arena { host, space, warm, warm_bytes: 0, committed: ARENA_BASE, stuck: VecDeque::new(), kept_apart: false }
    }

    /// Takes at least `bytes`, at least one page. `None` if there is no more.
    pub(crate) fn take(&mut self, bytes: u64, align: u64) -> Option<Taken> {
        let bytes = page_up(bytes.max(1));
        if bytes > ARENA_END - ARENA_BASE {
            return None;
        }
        let align = if bytes >= HUGE { HUGE } else { align.max(PAGE) };
        if let Some(run) = self.take_warm(bytes, align) {
            return Some(Taken { run, dirty: true });
        }
        let run = self.space.take(bytes, align)?;
        if self.commit(run.end()) {
            return Some(Taken { run, dirty: false });
        }
        self.space.give(run);
        None
    }

    /// Makes a run longer in place, by zeroed memory, if what lies behind it is free.
    pub(crate) fn extend(&mut self, run: &mut Run, bytes: u64) -> bool {
        // Committed first, so that nothing has to be undone.
        let Some(end) = run.end().checked_add(bytes).filter(|end| *end <= ARENA_END) else { return false };
        self.commit(end) && self.space.extend(run, bytes)
    }

    /// Hands pages to an instance, or to nobody but the system.
    pub(crate) fn assign(&mut self, run: &Run, owner: u32) -> bool {
        let answer = self.host.arena_assign(owner, run.address(), run.bytes());
        self.kept_apart = answer.unwrap_or(self.kept_apart);
        answer.is_ok()
    }

    /// Whether each buffer that an instance holds costs the process mappings, of which it has only so many.
    pub(crate) fn is_kept_apart(&self) -> bool {
        self.kept_apart
    }

    /// Takes memory back.
    pub(crate) fn give(&mut self, run: Run) {
        if !self.assign(&run, SYSTEM_INSTANCE) {
            // An instance with the key of its last owner, now or later, can reach it: it is emptied, and stays out of use.
            let _ = self.host.arena_discard(run.address(), run.bytes());
            self.stuck.push_back(run);
            return;
        }
        self.keep(run);
        // What was refused then, for want of a mapping say, may be had now.
        if let Some(stuck) = self.stuck.pop_front() {
            if self.assign(&stuck, SYSTEM_INSTANCE) {
                self.discard(stuck);
            } else {
                self.stuck.push_back(stuck);
            }
        }
    }

    /// Keeps free memory warm, while the budget lasts.
    fn keep(&mut self, run: Run) {
        if run.bytes() > WARM_BUDGET {
            return self.discard(run);
        }
        while self.warm_bytes + run.bytes() > WARM_BUDGET {
            // The largest first: they are the fewest, and cost the most memory.
            let Some(largest) = self.take_largest_warm() else { break };
            self.discard(largest);
        }
        self.warm_bytes += run.bytes();
        self.warm.entry(run.bytes()).or_default().push(run);
    }

    fn take_warm(&mut self, bytes: u64, align: u64) -> Option<Run> {
        let run = self.warm.get_mut(&bytes)?.pop_if(|run| run.address().is_multiple_of(align))?;
        self.warm_bytes -= bytes;
        Some(run)
    }

    fn take_largest_warm(&mut self) -> Option<Run> {
        loop {
            let mut class = self.warm.last_entry()?;
            if let Some(run) = class.get_mut().pop() {
                self.warm_bytes -= run.bytes();
                return Some(run);
            }
            class.remove();
        }
    }

    /// Empties memory and makes it free. What cannot be emptied is not used until it can.
    fn discard(&mut self, run: Run) {
        match self.host.arena_discard(run.address(), run.bytes()) {
            Ok(()) => self.space.give(run),
            Err(_) => self.stuck.push_back(run),
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
    /// The memory goes with the arena. What cannot be emptied goes with the domain's address space, right after.
    fn drop(&mut self) {
        if self.committed > ARENA_BASE {
            let _ = self.host.arena_discard(ARENA_BASE, self.committed - ARENA_BASE);
        }
    }
}
