//! The checkpoints of one cell.

use super::changes::Changes;
use super::copy::{Copy, read_cell};
use super::numbers::{Number, Since};
use crate::address_space::{Access, AddressSpace, AddressSpaceError};
use crate::fault::FaultHandler;
use crate::keys::Key;
use crate::mapped_ranges::RangeState;
use crate::ranges::{contain, joined, total};
use monohull_abi::layout::{PAGE, page_up};
use monohull_abi::types::{CHECKPOINTS_MAX, HeldBuffer};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// Bytes of an ended instance's copy that are freed in one step.
const FREED_AT_ONCE: u64 = 64 << 20;

/// A checkpoint could not be made, or not be gone back to. Nothing has changed then, unless it is the host's refusal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PointError {
    /// The memory limit is reached.
    #[error("the memory limit is reached")]
    Limit,
    /// There are as many as there may be.
    #[error("an instance has at most {CHECKPOINTS_MAX} checkpoints at a time")]
    TooMany,
    /// What was mapped may not be mapped again.
    #[error("there are too many ranges of mapped memory")]
    Mappings,
    /// There is none with this number.
    #[error("this instance has no checkpoint {0}")]
    Unknown(u64),
    /// The host has refused something half-way.
    #[error(transparent)]
    Host(#[from] AddressSpaceError),
    /// The memory file could not be made or written.
    #[error("memory for checkpoints: {0}")]
    Memory(#[from] io::Error),
}

/// What a checkpoint has besides the pages.
#[derive(Default)]
pub(crate) struct Record {
    /// The stack pointer of the only thread.
    pub(crate) user_rsp: u64,
    /// The stack from there up.
    pub(crate) stack: Vec<u8>,
    /// Where the function is told where it is.
    pub(crate) out: u64,
    /// Where it gets a value, and how many bytes it has room for.
    pub(crate) value: (u64, u64),
    /// Slot buffers, and what they had.
    pub(crate) buffers: Vec<(HeldBuffer, Vec<u8>)>,
    /// Descriptors that are open.
    pub(crate) files: BTreeSet<u64>,
    /// The end of the heap.
    pub(crate) heap_end: u64,
    /// What was mapped.
    pub(crate) mapped: Vec<(Range<u64>, RangeState)>,
    /// Images that had been mapped over that.
    pub(crate) images: u64,
    /// Where faults went on.
    pub(crate) fault_handler: Option<FaultHandler>,
}

impl Record {
    fn bytes(&self) -> u64 {
        let buffers: usize = self.buffers.iter().map(|(_, bytes)| bytes.len()).sum();
        let entries =
            size_of_val(&*self.mapped) + size_of_val(&*self.buffers) + self.files.len() * size_of::<[u64; 3]>();
        Record::bytes_of(self.stack.len() as u64, (buffers + entries) as u64)
    }

    /// What one takes with so much of a stack, and of slot buffers.
    pub(crate) fn bytes_of(stack: u64, buffers: u64) -> u64 {
        // Entries take some, too.
        PAGE + page_up(stack.saturating_add(buffers))
    }
}

struct Point {
    number: u64,
    record: Record,
    rewinds: u64,
    /// Leads from here to the one before.
    back: Changes,
    since: Since,
}

impl Point {
    fn bytes(&self) -> u64 {
        self.record.bytes() + self.back.bytes()
    }
}

/// The checkpoints of one cell, and the copy of its memory.
pub(crate) struct Points {
    copy: Copy,
    /// What the copy has ever held.
    covered: Vec<Range<u64>>,
    /// The last is the latest.
    points: Vec<Point>,
    /// Leads from the copy to the latest, if others behind it have been freed.
    back: Changes,
    /// How far data and heap are a mapping of the copy.
    backed_end: u64,
    /// How many have been made.
    made: u64,
}

impl fmt::Debug for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Points").field("made", &self.made).field("points", &self.points.len()).finish_non_exhaustive()
    }
}

impl Points {
    /// For the cell that begins at `base`.
    pub(crate) fn new(base: u64) -> io::Result<Points> {
        Ok(Points {
            copy: Copy::new(base)?,
            covered: Vec::new(),
            points: Vec::new(),
            back: Changes::default(),
            backed_end: 0,
            made: 0,
        })
    }

    /// The copy, to be mapped.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.copy.file()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.points.len()
    }

    /// Adds a checkpoint of what these ranges hold now: its number. `charge` is asked for what it takes.
    pub(crate) fn add(
        &mut self,
        ranges: &[Range<u64>],
        record: Record,
        charge: impl Fn(i64) -> bool,
    ) -> Result<u64, PointError> {
        if self.points.len() >= CHECKPOINTS_MAX {
            return Err(PointError::TooMany);
        }
        let covered = joined(self.covered.iter().cloned().chain(ranges.iter().cloned()).collect());
        let mut bytes = total(&covered) - total(&self.covered) + record.bytes();
        let take = |bytes: u64| i64::try_from(bytes).is_ok_and(&charge);
        if !take(bytes) {
            return Err(PointError::Limit);
        }
        let refund = |bytes: u64| {
            charge(-(bytes as i64));
        };
        // Nothing leads back where there is nothing before.
        let wants_back = !self.points.is_empty();
        let (mut changed, mut back) = (Vec::new(), Changes::default());
        let mut look = || {
            let (mut now, mut before) = ([0; PAGE as usize], [0; PAGE as usize]);
            for page in ranges.iter().cloned().flat_map(|range| range.step_by(PAGE as usize)) {
                // SAFETY: the ranges are of the cell, whose only thread is in this call.
                unsafe { read_cell(page, &mut now)? };
                match contain(&self.covered, page) {
                    true => self.copy.read(page, &mut before)?,
                    // The copy has not been touched there, and is not to be for zeros.
                    false => before = [0; PAGE as usize],
                }
                if now == before {
                    continue;
                }
                changed.push(page);
                if wants_back && !self.back.has(page) {
                    if !take(PAGE) {
                        return Err(PointError::Limit);
                    }
                    bytes += PAGE;
                    back.note(page, &before);
                }
            }
            Ok(())
        };
        if let Err(error) = look() {
            refund(bytes);
            return Err(error);
        }
        let mut now = [0; PAGE as usize];
        for page in changed {
            // SAFETY: as above.
            unsafe { read_cell(page, &mut now)? };
            self.copy.write(page, &now)?;
        }
        self.covered = covered;
        let pending = std::mem::take(&mut self.back);
        back.then(pending);
        self.made += 1;
        let since = Since::with_files(record.files.clone());
        self.points.push(Point { number: self.made, record, rewinds: 0, back, since });
        Ok(self.made)
    }

    /// Makes these ranges of data and heap, from the lowest up, a mapping of the copy, unless they are.
    pub(crate) fn back(
        &mut self,
        space: &AddressSpace,
        key: Key,
        base: u64,
        ranges: &[Range<u64>],
    ) -> Result<(), AddressSpaceError> {
        for range in ranges {
            let start = range.start.max(self.backed_end);
            if start < range.end {
                space.map_file(start..range.end, self.copy.file(), start - base, Access::ReadWrite, key)?;
            }
        }
        self.backed_end = ranges.last().map_or(0, |range| range.end).max(self.backed_end);
        Ok(())
    }

    /// A checkpoint, and the first number that was open then and has been closed.
    pub(crate) fn find(&self, number: u64) -> Result<(&Record, Option<Number>), PointError> {
        let point = self.point(number)?;
        Ok((&point.record, point.since.missing()))
    }

    fn point(&self, number: u64) -> Result<&Point, PointError> {
        self.points.iter().find(|point| point.number == number).ok_or(PointError::Unknown(number))
    }

    /// The record of a checkpoint, and how often it has been gone back to.
    pub(crate) fn record(&self, number: u64) -> Result<(&Record, u64), PointError> {
        let point = self.point(number)?;
        Ok((&point.record, point.rewinds))
    }

    /// Shows the copy in pages of data and heap: those that the cell has of its own are dropped.
    pub(crate) fn show(
        &self,
        space: &AddressSpace,
        key: Key,
        base: u64,
        range: Range<u64>,
    ) -> Result<(), AddressSpaceError> {
        // The host refuses to drop locked memory.
        let again = |_| space.map_file(range.clone(), self.copy.file(), range.start - base, Access::ReadWrite, key);
        space.discard(range.clone()).or_else(again)
    }

    /// Makes the copy what it was at a checkpoint, and frees those behind it. The pages of the cell that are its own still hide it.
    pub(crate) fn go_back(&mut self, number: u64, charge: impl Fn(i64) -> bool) -> Result<(), PointError> {
        let at = self.points.iter().position(|point| point.number == number).ok_or(PointError::Unknown(number))?;
        let mut freed = self.back.bytes();
        std::mem::take(&mut self.back).apply(&self.copy)?;
        for later in self.points.drain(at + 1..).rev().collect::<Vec<_>>() {
            later.back.apply(&self.copy)?;
            freed += later.bytes();
            self.points[at].since.join(later.since);
        }
        charge(-(freed as i64));
        let point = &mut self.points[at];
        point.rewinds += 1;
        self.backed_end = self.backed_end.min(point.record.heap_end);
        Ok(())
    }

    /// Frees a checkpoint.
    pub(crate) fn forget(&mut self, number: u64, charge: impl Fn(i64) -> bool) -> Result<(), PointError> {
        let at = self.points.iter().position(|point| point.number == number).ok_or(PointError::Unknown(number))?;
        let before = self.bytes();
        let Point { back, since, .. } = self.points.remove(at);
        if at == 0 {
            // There is nothing before that this would lead back to.
            if self.points.is_empty() {
                self.back = Changes::default();
            } else {
                self.points[0].back = Changes::default();
            }
        } else {
            self.points.get_mut(at).map_or(&mut self.back, |later| &mut later.back).then(back);
            self.points[at - 1].since.join(since);
        }
        charge(self.bytes() as i64 - before as i64);
        Ok(())
    }

    /// Bytes charged, without the copy.
    fn bytes(&self) -> u64 {
        self.points.iter().map(Point::bytes).sum::<u64>() + self.back.bytes()
    }

    /// A number has been given out.
    pub(crate) fn opened(&mut self, number: Number) {
        if let Some(last) = self.points.last_mut() {
            last.since.opened(number);
        }
    }

    /// A number has been taken back.
    pub(crate) fn closed(&mut self, number: Number) {
        for point in self.points.iter_mut().rev() {
            if !point.since.closed(number) {
                return;
            }
        }
    }

    /// Frees a part of the copy, of a cell whose instance has ended: whether it was so much that the rest can wait.
    pub(crate) fn free_some(&mut self) -> bool {
        let mut left = FREED_AT_ONCE;
        while let Some(last) = self.covered.last_mut() {
            let part = left.min(last.end - last.start);
            last.end -= part;
            left -= part;
            // What cannot be freed now is freed with the file.
            if self.copy.cut(last.end).is_err() {
                return false;
            }
            if left == 0 {
                return true;
            }
            self.covered.pop();
        }
        false
    }
}
