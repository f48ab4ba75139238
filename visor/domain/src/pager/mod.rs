//! Files of the libos mapped into cells, filled as they are touched.
//!
//! ```text
//!   cell, from +48 GiB     | mapping | gap | mapping | gap | …
//!                             │ missing page                        MappingTable: address ─▶ Mapping { range, source, present pages }
//!                             └─▶ userfaultfd ─▶ pager thread ─▶ copies from where the file's bytes are
//! ```
//!
//! A page is a private copy, made when it is first touched, together with some around it or, where a file is read from start to
//! end, with more and more behind it. So what a function has read of a mapping never changes, even if the file is written to,
//! and nothing that happens to the file later removes a page.
//!
//! Copying costs a fresh page. Where the bytes are pages of a file that the domain alone changes ([`Window`]: files in memory, images
//! that it has to itself) the mapping shows these pages instead, as the kernel's own mappings do, and the copy is made before they
//! change:
//!
//! ```text
//!   mapping   │ shown │ copies │ shown │ …          shown: MAP_PRIVATE of the file    copies: userfaultfd
//!                ▲
//!   store to a file ─▶ Shown: which mappings ─▶ the kernel makes their copies ─▶ the bytes are stored
//! ```
//!
//! What remains different: if another process cuts such a file, pages that were shown are gone, even those that had been touched.
//!
//! The descriptor and the thread are made for the first mapping that is not filled when it is made. Small mappings are, and all
//! mappings where the kernel refuses `userfaultfd`; the report then has a note.
//!
//! Locks: the table's, that of what is shown, each mapping's own, and that of memory that is filled [later]. None is held together with another lock, nor while pages are
//! touched that could be missing; see [`thread`].

mod captured;
pub mod faults;
mod later;
mod mapping;
pub(crate) mod record;
mod runs;
mod scratch;
mod shown;
mod source;
mod stores;
#[cfg(test)]
mod tests;
mod thread;
mod window;

use super::account::Account;
use super::address_space::AddressSpace;
use super::cell;
use super::epoll_set::EpollSet;
use super::instance::{Instance, cell_of};
use super::this_thread::is_interrupted;
use captured::Again;
use faults::Faults;
use later::Later;
pub use later::{PageError, PageSource};
use mapping::{AROUND, Mapping};
use monohull_abi::Errno;
use monohull_abi::file::{Advice, FILLED_AT_ONCE, MAPPINGS_MAX, MapRequest, map};
use monohull_abi::layout::{
    CELL_SIZE, CELLS_BASE, CELLS_END, MAPPINGS_OFFSET, PAGE, THREAD_STACKS_OFFSET, page_down, page_up,
};
use monohull_abi::module::UserBounds;
use runs::Planned;
use shown::Shown;
pub(crate) use source::Source;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use thread::PagerThread;
pub(crate) use window::Window;

/// Most mappings of all instances together: each takes up to three of the kernel's, of which a process has some 65 000.
const DOMAIN_MAX: usize = 12 * 1024;
/// Mappings up to this size are filled when they are made: it takes no longer than one fault.
const SMALL: u64 = AROUND * PAGE;
/// Why a page cannot be filled any more.
const ENDED: &str = "the pager thread has ended";
/// Bytes of a huge page.
const HUGE: u64 = 2 << 20;
const _: () = assert!(THREAD_STACKS_OFFSET < MAPPINGS_OFFSET && MAPPINGS_OFFSET < CELL_SIZE);

/// The mapped files of a domain.
pub(super) struct Pager {
    table: Arc<MappingTable>,
    epoll_set: Option<Arc<EpollSet>>,
    /// Started when it is first needed; or why it could not be.
    thread: OnceLock<Result<PagerThread, String>>,
    made: AtomicU64,
    bytes: AtomicU64,
    /// Of a domain that goes on from a captured one.
    again: Mutex<Again>,
}

/// What is mapped where.
#[derive(Debug)]
struct MappingTable {
    space: Arc<AddressSpace>,
    by_start: Mutex<BTreeMap<u64, Arc<Mapping>>>,
    /// What of it is shown, and the stores that have to keep it.
    shown: Shown,
    /// Memory that is filled from a checkpoint.
    later: OnceLock<Arc<Later>>,
    /// Page faults that have been served.
    served: AtomicU64,
    /// The thread has ended by a failure.
    failed: AtomicBool,
}

/// What has been mapped so far.
#[derive(Clone, Debug)]
pub struct Mapped {
    /// How many mappings were made.
    pub mappings: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How often a function has waited for a page.
    pub faults: u64,
    /// Why mappings were filled when they were made, where that was not their size.
    pub at_once: Option<String>,
}

/// The mapping in which a function has faulted.
pub(super) struct FaultedMapping {
    /// For a message.
    pub(super) what: String,
    /// The page should have been present, and could not be read.
    pub(super) lost: bool,
}

impl Pager {
    pub(super) fn new(space: Arc<AddressSpace>, epoll_set: Option<Arc<EpollSet>>) -> Pager {
        let table = MappingTable {
            space,
            by_start: Mutex::default(),
            shown: Shown::default(),
            later: OnceLock::new(),
            served: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        };
        let (made, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let again = Mutex::default();
        Pager { table: Arc::new(table), epoll_set, thread: OnceLock::new(), made, bytes, again }
    }

    /// What has been mapped, if anything has.
    pub(super) fn so_far(&self) -> Option<Mapped> {
        let mappings = self.made.load(Ordering::Relaxed);
        (mappings > 0).then(|| Mapped {
            mappings,
            bytes: self.bytes.load(Ordering::Relaxed),
            faults: self.table.served.load(Ordering::Relaxed),
            at_once: self.thread.get().and_then(|thread| thread.as_ref().err().cloned()),
        })
    }

    /// Maps a part of a file into the cell of an instance: its first address. `window` finds the files that can be shown.
    pub(super) fn map<'f>(
        &self,
        instance: &Instance,
        account: &Account,
        request: &MapRequest,
        path: String,
        source: Source,
        window: impl Fn(u64) -> Option<Window<'f>>,
    ) -> Result<u64, Errno> {
        if request.len == 0 || request.len > CELL_SIZE - MAPPINGS_OFFSET {
            return Err(Errno::NoSpace);
        }
        let size = page_up(request.len);
        if !account.charge(size as i64) {
            return Err(Errno::OutOfMemory);
        }
        let plan = runs::plan(&source, request.len, window);
        let make = |range: Range<u64>| {
            let place = (path, request.offset);
            let writable = request.flags & map::WRITE != 0;
            Mapping::new(range, request.len, instance.id, instance.key, place, source, writable)
        };
        let mapped = self.table.enter(instance, size, make).and_then(|mapping| {
            let made = self.make_accessible(&mapping, plan, request.flags & map::POPULATE != 0);
            made.inspect_err(|_| self.end(&mapping))?;
            Ok(mapping.range.start)
        });
        match mapped {
            Ok(_) => self.count(request.len),
            Err(_) => _ = account.charge(-(size as i64)),
        }
        mapped
    }

    /// One more of so many bytes has been made.
    fn count(&self, bytes: u64) {
        self.made.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether an instance has mapped files, of which these are the addresses of its cell.
    pub(super) fn has_any(&self, cell: UserBounds) -> bool {
        self.table.lock().range(cell.start..cell.end).next().is_some()
    }

    /// Makes a new mapping accessible: what can be is shown.
    fn make_accessible(&self, mapping: &Arc<Mapping>, plan: Vec<Planned<'_>>, populate: bool) -> Result<(), Errno> {
        let space = &self.table.space;
        let runs = plan.iter().map(|planned| planned.run.clone());
        let shows = !plan.is_empty() && self.table.shown.enter(mapping, runs.collect());
        if shows {
            mapping.show(space, &mut mapping.lock(), plan)?;
        }
        self.fill_or_watch(mapping, populate)?;
        if shows {
            // No lock is held: a store may be in want of the mapping's.
            self.table.shown.wait_for_stores(is_interrupted)?;
        }
        match shows && populate {
            true => mapping.prefetch(space, 0, FILLED_AT_ONCE).map_err(fill_error),
            false => Ok(()),
        }
    }

    /// Makes what is not shown of a new mapping accessible.
    fn fill_or_watch(&self, mapping: &Mapping, populate: bool) -> Result<(), Errno> {
        let space = &self.table.space;
        // Under this lock: `fail_all` sets its flag before it locks each mapping.
        let mut state = mapping.lock();
        if mapping.not_shown(&state) > if populate { FILLED_AT_ONCE } else { SMALL }
            && let Some(faults) = self.faults()
        {
            mapping.open(space, faults, &mut state).map_err(|_| Errno::OutOfMemory)?;
            drop(state);
            return match populate {
                true => mapping.populate(faults, 0, FILLED_AT_ONCE).map_err(fill_error),
                false => Ok(()),
            };
        }
        mapping.fill_all(space, &state)
    }

    /// Where faults are served; `None` if they cannot be.
    fn faults(&self) -> Option<&Faults> {
        if self.table.failed.load(Ordering::Acquire) {
            return None;
        }
        let start = || {
            let epoll_set = self.epoll_set.as_ref().ok_or("no epoll instance for page faults")?;
            let epoll = epoll_set.userfaults.try_clone().map_err(|error| error.to_string())?;
            PagerThread::start(self.table.clone(), epoll).map_err(|error| format!("userfaultfd: {error}"))
        };
        let thread = self.thread.get_or_init(start);
        thread.as_ref().ok().map(|thread| &*thread.faults)
    }

    /// Watches parts of cells, upwards, that get their pages from a source when these are touched: those that can be. The others are as they were.
    /// Of the pages that are `given`, none is the source's.
    pub(crate) fn fill_later(
        &self,
        parts: Vec<Range<u64>>,
        given: &[Range<u64>],
        source: &Arc<dyn PageSource>,
    ) -> Vec<Range<u64>> {
        let Some(Ok(thread)) = self.faults().and(self.thread.get()) else { return Vec::new() };
        let watched: Vec<_> = parts.into_iter().filter(|part| thread.faults.watch(part.clone()).is_ok()).collect();
        let later = Arc::new(Later::new(source.clone(), thread.faults.clone(), watched.clone(), given));
        if self.table.later.set(later.clone()).is_ok() {
            self.table.space.fill_when_touched(later);
        }
        watched
    }

    /// Fills pages of such a part that are not the source's, before anything runs. False if they have to be stored there.
    pub(crate) fn give(&self, at: u64, bytes: &[u8]) -> bool {
        self.table.later.get().is_some_and(|later| later.give(at, bytes).is_ok())
    }

    /// What an earlier part of the run has touched, and whether a capture `may_leave` what this one does not touch where it is.
    pub(crate) fn touched_before(&self, touched: Vec<(u64, u64)>, may_leave: bool) {
        if let Some(later) = self.table.later.get() {
            later.touched_before(touched, may_leave);
        }
    }

    /// What need not be in a capture: it is as in the checkpoint that the domain has gone on from.
    pub(crate) fn unread(&self) -> Vec<Range<u64>> {
        self.table.later.get().map(|later| later.unread()).unwrap_or_default()
    }

    /// From now on captures have all of it.
    pub(crate) fn capture_all(&self) {
        if let Some(later) = self.table.later.get() {
            later.capture_all();
        }
    }

    /// What of its memory the run has touched since it went on, or in an earlier part, as far as that is known: addresses and bytes. To be asked for
    /// before a capture touches it.
    pub(crate) fn all_touched(&self) -> Vec<(u64, u64)> {
        self.table.later.get().map(|later| later.touched()).unwrap_or_default()
    }

    /// The same, if anything is filled so already.
    fn known_faults(&self) -> Option<&Faults> {
        Some(&*self.thread.get()?.as_ref().ok()?.faults)
    }

    /// Removes the mapping of an instance that begins at `address`; the module ensures that this is done once.
    pub(super) fn unmap(&self, instance: u32, account: Option<&Account>, address: u64) -> Result<(), Errno> {
        let mapping = self.table.of(instance, address)?;
        self.end(&mapping);
        if let Some(account) = account {
            account.charge(-((mapping.range.end - mapping.range.start) as i64));
        }
        Ok(())
    }

    /// Removes all mappings of an instance, which has no threads any more.
    pub(super) fn unmap_all(&self, instance: u32) {
        let cell = cell::bounds(cell_of(instance));
        let in_cell = |by_start: &BTreeMap<u64, Arc<Mapping>>| -> Vec<_> {
            by_start.range(cell.start..cell.end).map(|(_, mapping)| mapping.clone()).collect()
        };
        let mappings = in_cell(&self.table.lock());
        for mapping in mappings {
            self.end(&mapping);
        }
    }

    /// Removes a mapping. Its addresses are free only after its pages have been removed.
    fn end(&self, mapping: &Arc<Mapping>) {
        mapping.end(&self.table.space, self.known_faults());
        self.table.shown.remove(mapping);
        self.table.lock().remove(&mapping.range.start);
    }

    /// Notes how a function will use a part of a mapping.
    pub(super) fn advise(
        &self,
        instance: u32,
        address: u64,
        place: u64,
        len: u64,
        advice: Advice,
    ) -> Result<(), Errno> {
        let mapping = self.table.of(instance, address)?;
        if place.checked_add(len).is_none_or(|end| end > mapping.len) {
            return Err(Errno::Invalid);
        }
        if advice != Advice::WillNeed {
            mapping.set_order(advice);
            return Ok(());
        }
        let len = len.min(FILLED_AT_ONCE);
        mapping.prefetch(&self.table.space, place, len).map_err(fill_error)?;
        match self.known_faults() {
            Some(faults) => mapping.populate(faults, place, len).map_err(fill_error),
            None => Ok(()),
        }
    }

    /// Trusted code is about to store bytes at an address of its own: what mappings show of them is kept for these. A number for
    /// [`Pager::store_ended`]. `OutOfMemory` if the host has no memory for that; then nothing may be stored.
    pub(super) fn store_begins(&self, address: u64, len: u64) -> Result<u64, Errno> {
        self.table.shown.store_begins(address, len, |mapping, bytes| mapping.keep(&self.table.space, bytes))
    }

    /// The store is over.
    pub(super) fn store_ended(&self, number: u64) {
        self.table.shown.store_ended(number);
    }

    /// Changes whether a mapping may be written to.
    pub(super) fn protect(&self, instance: u32, address: u64, writable: bool) -> Result<(), Errno> {
        let mapping = self.table.of(instance, address)?;
        mapping.set_writable(&self.table.space, writable).map_err(|_| Errno::OutOfMemory)
    }

    /// Fills what is missing of a buffer that a system call is about to be given, which would fail there; returns how much of the
    /// buffer to give it. What cannot be filled stays missing: the call fails with `EFAULT`.
    pub(super) fn populate_for_syscall(&self, address: u64, len: u64) -> u64 {
        let Some(faults) = self.known_faults() else { return len };
        if !(CELLS_BASE..CELLS_END).contains(&address) {
            return len;
        }
        if self.table.later.get().is_some() {
            let len = len.min(FILLED_AT_ONCE);
            if self.table.space.fill_missing(&(address..address.saturating_add(len))).is_err() {
                return len;
            }
        }
        let Some(mapping) = self.table.around(address) else { return len };
        let len = len.min(FILLED_AT_ONCE);
        let _ = mapping.populate(faults, page_down(address - mapping.range.start), len + address % PAGE);
        len
    }

    /// What a function has touched, if it was a mapping. `no_page`: the kernel has found no page behind what is mapped.
    pub(super) fn touched(&self, address: u64, no_page: bool) -> Option<FaultedMapping> {
        if let Some(why) = self.table.later.get().and_then(|later| later.why_lost(address)) {
            let what = format!("memory whose checkpoint cannot be read: {why}");
            return Some(FaultedMapping { what, lost: true });
        }
        let mapping = self.table.around(address)?;
        let state = mapping.lock();
        let (place, path) = (address - mapping.range.start, &mapping.path);
        let removed = state.truncated.as_ref().filter(|(page, _)| place / PAGE >= *page).map(|(_, why)| &**why);
        let lost = removed.or_else(|| state.lost(place / PAGE).filter(|_| no_page));
        Some(match lost {
            Some(why) => {
                let byte = mapping.offset + place;
                FaultedMapping {
                    what: format!("byte {byte} of `/{path}`, mapped there, which cannot be read: {why}"),
                    lost: true,
                }
            }
            _ if state.writable => {
                FaultedMapping { what: format!("`/{path}`, mapped there, which is not executable"), lost: false }
            }
            _ => FaultedMapping { what: format!("`/{path}`, mapped there, which is read-only"), lost: false },
        })
    }
}

/// Why a part of a mapping could not be filled.
fn fill_error(error: std::io::Error) -> Errno {
    if error.kind() == std::io::ErrorKind::TimedOut { Errno::TimedOut } else { Errno::Io }
}

impl MappingTable {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Mapping>>> {
        self.by_start.lock().expect("the table of mappings")
    }

    /// Finds room in the cell of an instance, and enters what is to be there. Between mappings a page stays free.
    fn enter(
        &self,
        instance: &Instance,
        size: u64,
        make: impl FnOnce(Range<u64>) -> Mapping,
    ) -> Result<Arc<Mapping>, Errno> {
        let cell = instance.bounds();
        let mut by_start = self.lock();
        if by_start.len() >= DOMAIN_MAX {
            return Err(Errno::TooMany);
        }
        // A large one begins where a huge page can.
        let align = if size >= HUGE { HUGE } else { PAGE };
        let (mut start, mut count) = (cell.start + MAPPINGS_OFFSET, 0);
        let mut room = None;
        for other in by_start.range(start..cell.end).map(|(_, mapping)| &mapping.range) {
            if room.is_none() && other.start >= start + size + PAGE {
                room = Some(start);
            }
            start = (other.end + PAGE).next_multiple_of(align);
            count += 1;
        }
        if count >= MAPPINGS_MAX {
            return Err(Errno::TooMany);
        }
        let start = room.or((start + size <= cell.end).then_some(start)).ok_or(Errno::NoSpace)?;
        let mapping = Arc::new(make(start..start + size));
        by_start.insert(start, mapping.clone());
        Ok(mapping)
    }

    /// The mapping of an instance that begins there.
    fn of(&self, instance: u32, address: u64) -> Result<Arc<Mapping>, Errno> {
        let found = self.lock().get(&address).cloned();
        found.filter(|mapping| mapping.instance == instance).ok_or(Errno::Invalid)
    }

    /// The mapping around an address.
    fn around(&self, address: u64) -> Option<Arc<Mapping>> {
        let by_start = self.lock();
        let (_, mapping) = by_start.range(..=address).next_back()?;
        (address < mapping.range.end).then(|| mapping.clone())
    }

    /// A thread waits for the page at an address.
    fn serve_fault(&self, faults: &Faults, address: u64) {
        if self.later.get().is_some_and(|later| later.serve_fault(&self.space, address)) {
            return;
        }
        self.served.fetch_add(1, Ordering::Relaxed);
        match self.around(address) {
            Some(mapping) => mapping.serve_fault(&self.space, faults, address),
            // It has been removed meanwhile.
            None => faults.wake(page_down(address)..page_down(address) + PAGE),
        }
    }

    /// No fault will be served any more: pages that are missing stay missing.
    fn fail_all(&self, faults: &Faults) {
        self.failed.store(true, Ordering::Release);
        let all: Vec<_> = self.lock().values().cloned().collect();
        for mapping in all {
            mapping.truncate_all(&self.space, faults, ENDED);
        }
        if let Some(later) = self.later.get() {
            later.end(&self.space, ENDED);
        }
    }
}
