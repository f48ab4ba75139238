//! One instance's memory: a cell of the user side of the address space.
//!
//! A cell keeps its image mapped when the instance ends, so that the next instance of the same image starts without a
//! single mapping: writable pages get their first contents back, everything anonymous is dropped, and no data of the old
//! instance remains.
//!
//! ```text
//! base                  image base                        heap start          heap end              +32 GiB
//! | guard | main stack  | code | constants | data | bss  | heap, committed    | … ← mapped memory   | thread stacks … mapped files
//! ```

use super::address_space::{Access, AddressSpace, AddressSpaceError};
use super::fault_injection::{self, Mitigation};
use super::image::Access as SegmentAccess;
use super::image::map::{LoadedImage, Pristine};
use super::keys::Key;
use super::mapped_memory::{MappedMemory, rights};
use super::ranges::joined;
use super::rewinding::{PointError, Points, Record};
use monohull_abi::layout::{
    CELL_SIZE, MAPPINGS_OFFSET, PAGE, THREAD_HEADER_SIZE, THREAD_STACKS_OFFSET, cell_base, page_down, page_up,
};
use monohull_abi::module::UserBounds;
use monohull_sys::written_pages::Mappings;
use monohull_trampoline::system::copy;
use std::io;
use std::iter;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Bytes at the top of the main stack that are wiped by hand instead of being dropped and faulted in again.
const WARM_STACK: u64 = 2 * PAGE;
/// Zeroed data up to this size is written to instead of being dropped: a fault takes as long as to write to a dozen pages.
const SMALL_ZEROS: u64 = 64 << 10;
/// Heap growth from this size on asks for huge pages.
const HUGE: u64 = 2 << 20;

/// Bytes of an ended instance that are freed in one step.
const FREED_AT_ONCE: u64 = 64 << 20;

/// The addresses of the cell with this index.
pub fn bounds(index: usize) -> UserBounds {
    UserBounds { start: cell_base(index), end: cell_base(index) + CELL_SIZE }
}

/// The stack of thread stack slot `slot` in cell `index`, or its main stack.
fn stack_in(index: usize, stack_size: u64, slot: Option<u32>) -> Range<u64> {
    let start = match slot {
        None => cell_base(index),
        Some(slot) => cell_base(index) + THREAD_STACKS_OFFSET + u64::from(slot) * stack_size,
    };
    start..start + stack_size
}

/// Where the header of the thread is that was started on this stack.
pub fn thread_header(index: usize, stack_size: u64, slot: Option<u32>) -> u64 {
    stack_in(index, stack_size, slot).end - THREAD_HEADER_SIZE
}

/// A cell with an image in it.
#[derive(Debug)]
pub struct Cell {
    index: usize,
    key: Key,
    image: Arc<LoadedImage>,
    stack_size: u64,
    pristine: Vec<Pristine>,
    zeros: Vec<Range<u64>>,
    heap_start: u64,
    heap_end: u64,
    /// How far pages behind the heap may have rights: as far as was ever asked for, whatever the host has answered.
    heap_reached: u64,
    /// Whether the heap asks for huge pages.
    is_heap_huge: bool,
    mapped: MappedMemory,
    /// Thread stacks that have ever been used, and those among them that are free.
    stacks: u32,
    free_stacks: Vec<u32>,
    /// Checkpoints of the instance, and the copy of its memory that data, heap and mapped memory are mappings of.
    points: Option<Box<Points>>,
    /// Pages of data or heap are a mapping of captured memory.
    shows_file: bool,
}

impl Cell {
    /// Maps an image into a clean cell, whose pages get this key.
    pub fn new(
        space: &AddressSpace,
        index: usize,
        image: Arc<LoadedImage>,
        stack_size: u64,
        key: Key,
    ) -> Result<Cell, AddressSpaceError> {
        let base = cell_base(index);
        let image_base = base + stack_size;
        space.protect(base + PAGE..base + stack_size, Access::ReadWrite, key)?;
        let pristine = image.map(space, image_base, key)?;
        let heap_start = image.end(image_base);
        Ok(Cell {
            zeros: image.zeros(image_base),
            index,
            key,
            image,
            stack_size,
            pristine,
            heap_start,
            heap_end: heap_start,
            heap_reached: heap_start,
            is_heap_huge: false,
            mapped: MappedMemory::default(),
            stacks: 0,
            free_stacks: Vec::new(),
            points: None,
            shows_file: false,
        })
    }

    /// Which cell this is.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The key its pages have.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Whether an instance of `image` with stacks of this size can start in it as it is.
    pub fn suits(&self, image: &Arc<LoadedImage>, stack_size: u64) -> bool {
        Arc::ptr_eq(&self.image, image) && self.stack_size == stack_size
    }

    /// The image.
    pub fn image(&self) -> &Arc<LoadedImage> {
        &self.image
    }

    /// First address of the cell.
    pub fn base(&self) -> u64 {
        cell_base(self.index)
    }

    /// Where the image's address 0 is.
    pub fn image_base(&self) -> u64 {
        self.base() + self.stack_size
    }

    /// The committed heap.
    pub fn heap(&self) -> Range<u64> {
        self.heap_start..self.heap_end
    }

    /// What that consists of: anonymous memory, unless a part of it shows, or has shown, captured memory or a copy of the instance's own.
    pub(crate) fn mappings_of_heap(&self) -> Mappings {
        match self.shows_file || self.points.is_some() {
            true => Mappings::Any,
            false => Mappings::Anonymous,
        }
    }

    /// Bytes that have been made accessible besides image and main stack.
    pub fn used(&self) -> u64 {
        let mapped = self.mapped.ranges().filter(|(_, state)| state.is_charged()).map(|(range, _)| range);
        let ranges = mapped.chain([self.heap(), self.thread_stacks()]);
        ranges.map(|range| range.end - range.start).sum()
    }

    /// What the instance has mapped.
    pub fn mapped(&self) -> &MappedMemory {
        &self.mapped
    }

    /// The same, to be changed: it has room between the heap and the thread stacks. Its pages get the key.
    pub fn mapped_mut(&mut self) -> (&mut MappedMemory, Range<u64>, Key) {
        let room = self.heap_end + PAGE..self.base() + THREAD_STACKS_OFFSET;
        (&mut self.mapped, room, self.key)
    }

    /// Bytes of the image that an instance may write to, bss included.
    pub fn data_bytes(&self) -> u64 {
        self.image.image.data_bytes()
    }

    /// Where the image's file has the constants that these pages of the cell show; `None` if not all of them are such pages.
    pub fn constants(&self, address: u64, bytes: u64) -> Option<u64> {
        let start = address.checked_sub(self.image_base()).filter(|start| start.is_multiple_of(PAGE))?;
        let end = start.checked_add(bytes)?;
        let mut constant = self.image.image.segments.iter().filter(|s| s.access == SegmentAccess::Read);
        let segment = constant.find(|s| s.pages().start <= start && end <= s.pages().end)?;
        Some(page_down(segment.file_offset) + (start - page_down(segment.address)))
    }

    /// The image's pages, bss included.
    pub fn image_range(&self) -> Range<u64> {
        self.image_base()..self.heap_start
    }

    /// The stack of thread stack slot `slot`, or the main stack: its lowest page is the guard.
    pub fn stack(&self, slot: Option<u32>) -> Range<u64> {
        stack_in(self.index, self.stack_size, slot)
    }

    /// Every thread stack that has ever been used.
    pub fn thread_stacks(&self) -> Range<u64> {
        self.stack(Some(0)).start..self.stack(Some(self.stacks)).start
    }

    /// The stack (main or thread) that `address` lies on.
    pub fn stack_around(&self, address: u64) -> Option<Range<u64>> {
        if self.stack(None).contains(&address) {
            return Some(self.stack(None));
        }
        let stacks = self.thread_stacks();
        stacks.contains(&address).then(|| {
            let slot = (address - stacks.start) / self.stack_size;
            self.stack(Some(slot as u32))
        })
    }

    /// Adds whole pages to the heap; the address of the first.
    pub fn grow_heap(&mut self, space: &AddressSpace, bytes: u64) -> Result<Option<u64>, AddressSpaceError> {
        let start = self.heap_end;
        // A page stays free before mapped memory.
        let limit = self.mapped.lowest().map_or(self.base() + THREAD_STACKS_OFFSET, |lowest| lowest - PAGE);
        let Some(end) = start.checked_add(page_up(bytes)).filter(|end| *end <= limit) else { return Ok(None) };
        self.heap_reached = self.heap_reached.max(end);
        space.protect(start..end, Access::ReadWrite, self.key)?;
        // Once it does it goes on to: where the advice differs, the kernel has another mapping.
        self.is_heap_huge |= end - start >= HUGE;
        if self.is_heap_huge {
            space.prefer_huge(start..end);
        }
        self.heap_end = end;
        Ok(Some(start))
    }

    /// Whether a new thread gets a stack that no thread has had.
    pub fn needs_stack(&self) -> bool {
        self.free_stacks.is_empty()
    }

    /// Takes a stack slot for a new thread; `None` if the cell has no room for another stack.
    pub fn open_stack(&mut self, space: &AddressSpace) -> Result<Option<u32>, AddressSpaceError> {
        if let Some(slot) = self.free_stacks.pop() {
            return Ok(Some(slot));
        }
        let slot = self.stacks;
        Ok(self.open_stacks(space, 1)?.then_some(slot))
    }

    /// Gives rights to so many more stacks. No other pages get any: an instance is charged for each of its stacks. False if the cell has no room
    /// for them.
    fn open_stacks(&mut self, space: &AddressSpace, count: u32) -> Result<bool, AddressSpaceError> {
        let new = self.stacks..self.stacks.saturating_add(count);
        let range = self.stack(Some(new.start)).start..self.stack(Some(new.end)).start;
        if range.end > self.base() + MAPPINGS_OFFSET {
            return Ok(false);
        }
        // They count from now on: what the host has done before it refuses is undone with the cell.
        self.stacks = new.end;
        space.protect(range, Access::ReadWrite, self.key)?;
        for slot in new {
            space.guard(self.stack(Some(slot)).start)?;
        }
        Ok(true)
    }

    /// Opens heap and stacks of a fresh cell as they were in a captured one: so many bytes of heap, and so many thread stacks, of
    /// which these are free. False if the cell has no room for them.
    pub fn adopt(
        &mut self,
        space: &AddressSpace,
        heap: u64,
        stacks: u32,
        free_stacks: &[u32],
    ) -> Result<bool, AddressSpaceError> {
        if heap > 0 && self.grow_heap(space, heap)?.is_none() {
            return Ok(false);
        }
        if stacks > 0 && !self.open_stacks(space, stacks)? {
            return Ok(false);
        }
        self.free_stacks = free_stacks.to_vec();
        Ok(true)
    }

    /// How many thread stacks have ever been used, and those among them that are free.
    pub fn used_stacks(&self) -> (u32, &[u32]) {
        (self.stacks, &self.free_stacks)
    }

    /// Writable pages of the image that held something before the first instruction ran, and those that were zero.
    pub fn first_state(&self) -> (&[Pristine], &[Range<u64>]) {
        (&self.pristine, &self.zeros)
    }

    /// Frees the stack slot of a thread that has ended.
    pub fn close_stack(&mut self, slot: u32) {
        self.free_stacks.push(slot);
    }

    /// Writes what a new thread finds on its stack: a zeroed header and the address it begins at. Returns the stack
    /// pointer to enter it with.
    pub fn prepare_stack(&self, slot: Option<u32>, entry: u64) -> u64 {
        let header = thread_header(self.index, self.stack_size, slot);
        // SAFETY: the top of a stack of this cell, which is writable and has no thread yet.
        unsafe {
            std::ptr::write_bytes(header as *mut u8, 0, THREAD_HEADER_SIZE as usize);
            ((header - 8) as *mut u64).write(entry);
        }
        header - 8
    }

    /// Frees a part of the memory of an instance that has ended, behind the first `freed` bytes of it: how many bytes those are now. `None`
    /// if the rest is so little that [`Self::wipe`] can free it at once.
    pub fn free_some(&self, space: &AddressSpace, freed: u64) -> Option<u64> {
        let charged = || self.mapped.ranges().filter(|(_, state)| state.is_charged()).map(|(range, _)| range);
        let of_cell = || self.zeros.iter().cloned().chain([self.heap(), self.thread_stacks()]);
        let all = || of_cell().chain(charged());
        let total: u64 = all().map(|range| range.end - range.start).sum();
        if total.saturating_sub(freed) <= FREED_AT_ONCE {
            return None;
        }
        let (mut skipped, mut left) = (freed, FREED_AT_ONCE);
        for range in all() {
            let start = range.start + skipped.min(range.end - range.start);
            skipped -= start - range.start;
            let end = range.end.min(start + left);
            left -= end - start;
            // What cannot be freed now is cleared with the cell.
            space.discard(start..end).ok()?;
            if left == 0 {
                break;
            }
        }
        Some(freed + FREED_AT_ONCE)
    }

    /// Its checkpoints, if it has ever had one.
    pub(crate) fn points(&mut self) -> Option<&mut Points> {
        self.points.as_deref_mut()
    }

    /// Writable data of the image.
    fn data(&self) -> impl Iterator<Item = Range<u64>> {
        let data = self.pristine.iter().map(Pristine::range);
        data.chain(self.zeros.iter().cloned())
    }

    /// The parts of a range, upwards, that can be a mapping of a file: data, heap and mapped memory.
    pub(crate) fn parts_to_show(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mapped = self.mapped.ranges().filter(|(_, state)| state.is_charged()).map(|(mapped, _)| mapped);
        let all = joined(self.data().chain([self.heap()]).collect()).into_iter().chain(mapped);
        let part = |part: Range<u64>| part.start.max(range.start)..part.end.min(range.end);
        all.map(part).filter(|part| !part.is_empty()).collect()
    }

    /// Makes such a part a private mapping of a file: what is written to becomes a copy. False if there may be no more mappings.
    pub(crate) fn show_file(
        &mut self,
        space: &AddressSpace,
        part: Range<u64>,
        file: BorrowedFd<'_>,
        offset: u64,
    ) -> Result<bool, AddressSpaceError> {
        if part.start >= self.heap_end {
            return self.mapped.show_file(space, self.key, part, file, offset);
        }
        self.shows_file = true;
        space.map_file(part, file, offset, Access::ReadWrite, self.key)?;
        Ok(true)
    }

    /// Makes such a part empty, so that it can be filled as it is touched. No function runs yet.
    pub(crate) fn empty(&mut self, space: &AddressSpace, part: Range<u64>) -> Result<(), AddressSpaceError> {
        if part.start >= self.heap_end {
            return space.discard(part);
        }
        // Data may be a mapping of the image.
        self.shows_file = true;
        space.reset(part.clone())?;
        space.protect(part, Access::ReadWrite, self.key)
    }

    /// What a checkpoint copies of the main stack, whose thread has this stack pointer; `None` if that is no place of it.
    pub(crate) fn live_stack(&self, user_rsp: u64) -> Option<Range<u64>> {
        let stack = self.stack(None);
        let is_inside = (stack.start + PAGE..stack.end - THREAD_HEADER_SIZE).contains(&user_rsp);
        (is_inside && user_rsp.is_multiple_of(8)).then_some(user_rsp..stack.end)
    }

    /// Adds a checkpoint of the memory as it is now: its number. The instance's only thread is in a call with `record.user_rsp`, which has a
    /// [live stack](Self::live_stack). After an error of the host the instance must end.
    pub(crate) fn add_point(
        &mut self,
        space: &AddressSpace,
        mut record: Record,
        charge: impl Fn(i64) -> bool,
    ) -> Result<u64, PointError> {
        let base = self.base();
        // All at once takes less time than page by page.
        space.fill_missing(&(base..base + CELL_SIZE))?;
        let fixed = joined(self.data().chain([self.heap()]).collect());
        let mapped: Vec<_> = self.mapped.ranges().collect();
        let charged = mapped.iter().filter(|(_, state)| state.is_charged()).map(|(range, _)| range.clone());
        let all: Vec<_> = fixed.iter().cloned().chain(charged).collect();
        (record.heap_end, record.mapped, record.images) = (self.heap_end, mapped, self.mapped.images_made());
        if self.points.is_none() {
            self.points = Some(Box::new(Points::new(base)?));
        }
        let (key, room) = (self.key, self.heap_end + PAGE..base + THREAD_STACKS_OFFSET);
        let points = self.points.as_deref_mut().expect("it has just been made");
        if !self.mapped.is_copied() && !self.mapped.may_be_rebuilt(space, &record.mapped) {
            return Err(PointError::Mappings);
        }
        let number = points.add(&all, record, charge)?;
        points.back(space, key, base, &fixed)?;
        if !self.mapped.is_copied() {
            let mapped: Vec<_> = self.mapped.ranges().collect();
            self.mapped.rebuild(space, key, room, &mapped, points.file(), base)?;
        }
        Ok(number)
    }

    /// Bytes that would be charged more for heap and mapped memory as a checkpoint has them. An error if there may not be so many ranges.
    pub(crate) fn cost_of_point(&self, space: &AddressSpace, number: u64) -> Result<i64, PointError> {
        let points = self.points.as_deref().ok_or(PointError::Unknown(number))?;
        let (record, _) = points.record(number)?;
        if !self.mapped.shows(&record.mapped) && !self.mapped.may_be_rebuilt(space, &record.mapped) {
            return Err(PointError::Mappings);
        }
        let charged = record.mapped.iter().filter(|(_, state)| state.is_charged());
        let then: u64 = charged.map(|(range, _)| range.end - range.start).sum();
        Ok(then as i64 - self.mapped.charged() as i64 - (self.heap_end - record.heap_end) as i64)
    }

    /// Makes the memory what it was at a checkpoint, and frees those that came later: the record of the checkpoint, and how often that has
    /// been done. After an error of the host the instance must end.
    pub(crate) fn go_back(
        &mut self,
        space: &AddressSpace,
        number: u64,
        charge: impl Fn(i64) -> bool,
    ) -> Result<(&Record, u64), PointError> {
        let (base, key) = (self.base(), self.key);
        let data: Vec<_> = self.data().collect();
        let points = self.points.as_deref_mut().ok_or(PointError::Unknown(number))?;
        let heap_end = points.find(number)?.0.heap_end;
        if heap_end < self.heap_end {
            space.reset(heap_end..self.heap_end)?;
            self.heap_end = heap_end;
        }
        let room = self.heap_end + PAGE..base + THREAD_STACKS_OFFSET;
        points.go_back(number, charge)?;
        let (record, rewinds) = points.record(number)?;
        for range in joined(data.into_iter().chain(iter::once(self.heap_start..heap_end)).collect()) {
            points.show(space, key, base, range)?;
        }
        if self.mapped.shows(&record.mapped) {
            for (range, state) in record.mapped.iter().filter(|(_, state)| state.is_charged()) {
                space.discard(range.clone()).or_else(|_| {
                    space.map_file(range.clone(), points.file(), range.start - base, rights(*state), key)
                })?;
            }
        } else {
            self.mapped.rebuild(space, key, room, &record.mapped, points.file(), base)?;
        }
        let stack = &record.stack;
        // SAFETY: the main stack above its guard, whose thread is in the call that does this; a fault is survived.
        if !unsafe { copy(record.user_rsp as *mut u8, stack.as_ptr(), stack.len()) } {
            return Err(PointError::Memory(io::Error::from_raw_os_error(libc::EFAULT)));
        }
        Ok((record, rewinds))
    }

    /// Frees a part of the copy of an instance that has ended: whether it was so much that the rest can wait.
    pub(crate) fn free_some_of_copy(&mut self) -> bool {
        self.points.as_deref_mut().is_some_and(Points::free_some)
    }

    /// Makes the cell fit for another instance of the same image; no thread of it exists any more. After an error the cell may
    /// still hold data of the old instance, and nothing may run in it before it has been cleared.
    pub fn wipe(&mut self, space: &AddressSpace) -> Result<(), AddressSpaceError> {
        let resets = |part| !fault_injection::disabled(part);
        if self.points.is_some() || self.shows_file {
            // What is a mapping of the copy, or of captured memory, becomes anonymous memory, which is zero. Heap and mapped memory do so below.
            for range in joined(self.data().collect()) {
                if resets(Mitigation::ResetCellCopies) {
                    space.reset(range.clone())?;
                }
                space.protect(range, Access::ReadWrite, self.key)?;
            }
            (self.points, self.shows_file) = (None, false);
        }
        for pages in self.pristine.iter().filter(|_| resets(Mitigation::ResetCellData)) {
            let bytes = pages.bytes(&self.image);
            // SAFETY: these are writable pages of the image, as many as there are bytes.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pages.range().start as *mut u8, bytes.len()) };
        }
        for zeros in self.zeros.iter().filter(|_| resets(Mitigation::ResetCellZeros)) {
            if zeros.end - zeros.start > SMALL_ZEROS {
                space.discard(zeros.clone())?;
                continue;
            }
            // SAFETY: whole writable pages of the image, and no thread of the instance exists any more.
            unsafe { std::ptr::write_bytes(zeros.start as *mut u8, 0, (zeros.end - zeros.start) as usize) };
        }
        if self.heap_reached > self.heap_start && resets(Mitigation::ResetCellHeap) {
            space.reset(self.heap_start..self.heap_reached)?;
            (self.heap_end, self.heap_reached, self.is_heap_huge) = (self.heap_start, self.heap_start, false);
        }
        if resets(Mitigation::ResetCellMapped) {
            self.mapped.reset(space)?;
        }
        if resets(Mitigation::ResetCellStack) {
            let stack = self.stack(None);
            let warm = stack.end - WARM_STACK.min(self.stack_size - PAGE);
            space.discard(stack.start + PAGE..warm)?;
            // SAFETY: the top pages of the main stack, which no thread uses any more.
            unsafe { std::ptr::write_bytes(warm as *mut u8, 0, (stack.end - warm) as usize) };
        }
        if self.stacks > 0 && resets(Mitigation::ResetCellThreads) {
            space.reset(self.base() + THREAD_STACKS_OFFSET..self.base() + MAPPINGS_OFFSET)?;
            self.stacks = 0;
            self.free_stacks = Vec::new();
        }
        Ok(())
    }

    /// Its ranges count no longer: it cannot be wiped, and is cleared as addresses.
    pub(crate) fn forget_ranges(&self, space: &AddressSpace) {
        self.mapped.forget_count(space);
    }

    /// Unmaps everything; the cell is empty again.
    pub fn clear(self, space: &AddressSpace) -> Result<usize, AddressSpaceError> {
        space.reset(self.base()..self.base() + CELL_SIZE)?;
        Ok(self.index)
    }
}

#[cfg(test)]
mod tests;
