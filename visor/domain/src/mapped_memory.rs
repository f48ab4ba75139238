//! Memory that an instance maps and gives back (`MAP`, `UNMAP`, `DISCARD`, `PROTECT`, `MAP_IMAGE`).
//!
//! ```text
//!   cell   … | heap, committed → |            ← | range |   | range | range | thread stacks, from +32 GiB
//!                                |←──────────── area: one key, one mapping at first ───────────→|
//!
//!   kernel's rights   none          rw      none     r       none
//!   state             Reserved      ReadWrite        Read    Hidden
//!   charged           no            yes              yes     yes: it still holds what it held
//! ```
//!
//! Ranges come from the top of the room between heap and thread stacks, downwards. But for images, nothing is ever mapped anew there: the
//! area keeps its mapping, its key and its place, and only the rights of pages change and their memory is freed. So no page is
//! without its key at any moment. Free and reserved pages are alike to the kernel: no rights, no memory.
//!
//! Pages of the instance's image are mapped privately from its sealed file over pages of a range (`MAP_IMAGE`): one that is only read is shared
//! with all who map the image, one that is written becomes a copy. When they are discarded or taken back, anonymous memory without
//! rights takes their place, and gets the key. In between they have key 0, which no function may use.
//!
//! A slot buffer's pages can take the place of writable pages, and the other way round (`SLOT_MOVE_IN`, `SLOT_MOVE_OUT`, see
//! [`super::moved_pages`]). They stay what they were to the kernel, a mapping of its own, and so does what is to have huge pages: what a
//! program's memory grows by, if it is much. These [`pieces`](super::pieces) are noted: each of their boundaries counts as a range.
//!
//! The kernel joins neighbouring mappings of the same rights only if the memory in them has the same origin (`anon_vma`). The area gets
//! its origin before it is divided, from one page that is touched, and all parts inherit it. That is why the number of ranges
//! bounds the number of the kernel's mappings, of which a process has some 65 000.

use super::account::Account;
use super::address_space::{Access, AddressSpace, AddressSpaceError};
use super::keys::Key;
use super::mapped_ranges::{MappedRanges, RangeState};
use super::moved_pages::copy_bytes;
use super::pieces::{Kind, Pieces};
use monohull_abi::Errno;
use monohull_abi::layout::{PAGE, page_down, page_up};
use monohull_abi::types::{MAP_RANGES_MAX, MOVED_MIN, MapAccess};
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// What a change needs to know.
pub(super) struct Pages<'a> {
    /// Where the pages are.
    pub(super) space: &'a AddressSpace,
    /// Their key.
    pub(super) key: Key,
    /// What they are charged to.
    pub(super) account: &'a Account,
    /// Where new ones may lie.
    pub(super) room: Range<u64>,
}

/// What one instance has mapped.
#[derive(Default, Debug)]
pub struct MappedMemory {
    ranges: MappedRanges,
    /// What has been prepared for ranges with rights.
    area: Option<Range<u64>>,
    /// Bytes of the ranges that are charged.
    charged: u64,
    /// Pages that come from a file, the image's or a template's; their states mean nothing.
    images: MappedRanges,
    /// Mappings of the kernel that images have made, at most: what takes their place may have another origin than its neighbours, so this
    /// never falls while the instance lives. They count as ranges.
    divided: usize,
    /// Pages that were moved here, and those that may be huge.
    pieces: Pieces,
    /// How often an image has been mapped.
    images_made: u64,
    /// All that is charged has been mapped from a copy of the cell, and nothing has been mapped or freed since.
    copied: bool,
}

impl MappedMemory {
    /// How often an image has been mapped.
    pub(super) fn images_made(&self) -> u64 {
        self.images_made
    }

    /// Whether pages show the image's file.
    pub(super) fn has_images(&self) -> bool {
        self.images_made > 0
    }

    /// Whether all that is charged is a mapping of the cell's copy, or nothing is charged.
    pub(super) fn is_copied(&self) -> bool {
        self.copied || self.charged == 0
    }

    /// Whether these ranges are what is mapped, and all that is charged of them is a mapping of the cell's copy.
    pub(super) fn shows(&self, ranges: &[(Range<u64>, RangeState)]) -> bool {
        self.is_copied() && self.ranges().eq(ranges.iter().cloned())
    }

    /// Whether there may be mappings for [`MappedMemory::rebuild`] with these ranges.
    pub(super) fn may_be_rebuilt(&self, space: &AddressSpace, ranges: &[(Range<u64>, RangeState)]) -> bool {
        let (before, after) = (self.count(), Self::mappings_of(ranges));
        let may = space.count_ranges(before, after);
        if may {
            space.count_ranges(after, before);
        }
        may
    }

    fn mappings_of(ranges: &[(Range<u64>, RangeState)]) -> usize {
        ranges.len() + DIVIDES * ranges.iter().filter(|(_, state)| state.is_charged()).count()
    }

    /// Maps these ranges in place of what is mapped; what is charged among them shows the copy of the cell that begins at `base`. After an
    /// error the instance must end. Charging is the caller's.
    pub(super) fn rebuild(
        &mut self,
        space: &AddressSpace,
        key: Key,
        room: Range<u64>,
        ranges: &[(Range<u64>, RangeState)],
        copy: BorrowedFd<'_>,
        base: u64,
    ) -> Result<(), AddressSpaceError> {
        let after = Self::mappings_of(ranges);
        if !space.count_ranges(self.count(), after) {
            return Err(AddressSpaceError::TooManyRanges);
        }
        (self.ranges, self.images) = (MappedRanges::default(), MappedRanges::default());
        self.pieces.clear();
        (self.charged, self.divided) = (0, after - ranges.len());
        if let Some(area) = &mut self.area {
            *area = area.start.min(room.start)..area.end;
            // Heap may have grown into the lowest part of it.
            space.reset(room.clone())?;
            Self::prepare_room(space, key, room)?;
        }
        for (range, state) in ranges {
            self.ranges.set(range.clone(), Some(*state));
            if state.is_charged() {
                space.map_file(range.clone(), copy, range.start - base, rights(*state), key)?;
                self.images.set(range.clone(), Some(RangeState::ReadWrite));
                self.charged += range.end - range.start;
            }
        }
        self.copied = true;
        Ok(())
    }

    /// Makes pages that are charged a private mapping of a file's, from `offset` on, with all rights until [`MappedMemory::settle`]. False if there
    /// may be no more mappings.
    pub(super) fn show_file(
        &mut self,
        space: &AddressSpace,
        key: Key,
        range: Range<u64>,
        file: BorrowedFd<'_>,
        offset: u64,
    ) -> Result<bool, AddressSpaceError> {
        let before = self.count();
        if !space.count_ranges(before, before + DIVIDES) {
            return Ok(false);
        }
        self.divided += DIVIDES;
        space.map_file(range.clone(), file, offset, Access::ReadWrite, key)?;
        self.images.set(range, Some(RangeState::ReadWrite));
        Ok(true)
    }

    /// Bytes charged.
    pub(super) fn charged(&self) -> u64 {
        self.charged
    }

    /// What is mapped, upwards.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (Range<u64>, RangeState)> + '_ {
        self.ranges.iter()
    }

    /// The lowest mapped address.
    pub(super) fn lowest(&self) -> Option<u64> {
        self.ranges.iter().next().map(|(range, _)| range.start)
    }

    /// The state of the page at an address, if it is mapped.
    pub(super) fn state(&self, address: u64) -> Option<RangeState> {
        self.ranges.around(address).map(|(_, state)| state)
    }

    /// Whether all of a range is mapped, page by page.
    pub(super) fn covers(&self, range: Range<u64>) -> bool {
        range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE) && self.ranges.covers(&range)
    }

    /// Maps zeroed pages: the first address.
    pub(super) fn map(&mut self, pages: &Pages<'_>, bytes: u64, align: u64, access: MapAccess) -> Result<u64, Errno> {
        let size = page_up(bytes);
        let start = self.ranges.find_room(size, align.max(PAGE), &pages.room).ok_or(Errno::NoSpace)?;
        let range = start..start + size;
        let before = self.count();
        self.ranges.set(range.clone(), Some(RangeState::Reserved));
        let done = match pages.space.count_ranges(before, self.count()) {
            false => Err(Errno::TooMany),
            true if access == MapAccess::None => Ok(()),
            true => self.protect(pages, range.clone(), access).inspect_err(|_| {
                pages.space.count_ranges(self.count(), before);
            }),
        };
        match done {
            Ok(()) => Ok(start),
            Err(errno) => {
                self.ranges.set(range, None);
                Err(errno)
            }
        }
    }

    /// Changes the rights of mapped pages.
    pub(super) fn protect(&mut self, pages: &Pages<'_>, range: Range<u64>, access: MapAccess) -> Result<(), Errno> {
        let to = |state: RangeState| match access {
            MapAccess::None if state == RangeState::Reserved => RangeState::Reserved,
            MapAccess::None => RangeState::Hidden,
            MapAccess::Read => RangeState::Read,
            MapAccess::ReadWrite => RangeState::ReadWrite,
        };
        let rights = match access {
            MapAccess::None => Access::None,
            MapAccess::Read => Access::Read,
            MapAccess::ReadWrite => Access::ReadWrite,
        };
        let grows = access == MapAccess::ReadWrite
            && range.end - range.start >= GROWS_BY
            && self.state(range.start - PAGE) == Some(RangeState::ReadWrite)
            && self.ranges.within(&range).iter().all(|(_, state)| *state == RangeState::Reserved)
            && !self.pieces.overlap(&range);
        let protect = |space: &AddressSpace, range| space.protect(range, rights, pages.key);
        self.change(pages, range.clone(), 0, |state| Some(to(state)), protect)?;
        if grows && self.set_apart(pages.space, &range, Kind::Huge) {
            pages.space.prefer_huge(range);
        }
        Ok(())
    }

    /// Frees the memory of mapped pages.
    pub(super) fn discard(&mut self, pages: &Pages<'_>, range: Range<u64>) -> Result<(), Errno> {
        let to = |state: RangeState| match state {
            RangeState::Reserved | RangeState::Hidden => RangeState::Reserved,
            accessible => accessible,
        };
        let images = self.images_in(&range);
        self.change(
            pages,
            range.clone(),
            DIVIDES * images.len(),
            |state| Some(to(state)),
            |space, range| {
                for (part, state) in &images {
                    space.reset(part.clone())?;
                    space.protect(part.clone(), rights(*state), pages.key)?;
                }
                space.discard(range)
            },
        )?;
        self.images.set(range, None);
        Ok(())
    }

    /// Replaces mapped pages by a private copy of a file's, from `offset` on. After `OutOfMemory` they hold the one or the other.
    pub(super) fn map_image(
        &mut self,
        pages: &Pages<'_>,
        range: Range<u64>,
        file: BorrowedFd<'_>,
        offset: u64,
    ) -> Result<(), Errno> {
        if !self.covers(range.clone()) {
            return Err(Errno::Fault);
        }
        let map = |space: &AddressSpace, range| space.map_file(range, file, offset, Access::ReadWrite, pages.key);
        let mapped = self.change(pages, range.clone(), DIVIDES, |_| Some(RangeState::ReadWrite), map);
        if matches!(mapped, Ok(()) | Err(Errno::OutOfMemory)) {
            self.images_made += 1;
            self.images.set(range, Some(RangeState::ReadWrite));
        }
        mapped
    }

    /// The parts of a range that come from the image's file, with their states.
    fn images_in(&self, range: &Range<u64>) -> Vec<(Range<u64>, RangeState)> {
        let parts = self.images.within(range).into_iter();
        parts.flat_map(|(part, _)| self.ranges.within(&part)).collect()
    }

    /// What is here counts no longer, and is not used any more.
    pub(super) fn forget_count(&self, space: &AddressSpace) {
        space.count_ranges(self.count(), 0);
    }

    /// How many ranges there are, and mappings that images and moved pages have made.
    fn count(&self) -> usize {
        self.ranges.len() + self.divided + self.pieces.boundaries()
    }

    /// Whether all pages of a range are mapped and may be written to.
    pub(super) fn is_writable(&self, range: &Range<u64>) -> bool {
        let inside = |(around, state): (Range<u64>, RangeState)| {
            state == RangeState::ReadWrite && page_up(range.end) <= around.end
        };
        range.start.is_multiple_of(PAGE) && !range.is_empty() && self.ranges.around(range.start).is_some_and(inside)
    }

    /// Moves bytes of a buffer to writable pages, which lose what they held. After `OutOfMemory` some have been moved.
    pub(super) fn move_in(&mut self, pages: &Pages<'_>, buffer: u64, to: Range<u64>) -> Result<(), Errno> {
        if !self.is_writable(&to) {
            return Err(Errno::Fault);
        }
        self.copied = false;
        let whole = to.start..page_down(to.end);
        let from = buffer..buffer + (whole.end - whole.start);
        let rest = from.end..buffer + (to.end - to.start);
        let moved = if whole.end - whole.start >= MOVED_MIN && self.set_apart(pages.space, &whole, Kind::Moved) {
            pages.space.move_pages(from, whole.start, pages.key).map(|all| {
                if all {
                    // The place shows no image any more.
                    self.images.set(whole.clone(), None);
                }
            })
        } else {
            pages.space.copy_pages(from, to.start)
        };
        moved.and_then(|()| copy_bytes(rest, whole.end)).map_err(|_| Errno::OutOfMemory)
    }

    /// Moves bytes of writable pages to a buffer; whole pages read as zero afterwards. Whether any page was moved, and not copied. After
    /// `OutOfMemory` some have been moved.
    pub(super) fn move_out(
        &mut self,
        pages: &Pages<'_>,
        from: Range<u64>,
        buffer: u64,
        remap: bool,
    ) -> Result<bool, Errno> {
        if !self.is_writable(&from) {
            return Err(Errno::Fault);
        }
        let whole = from.start..page_down(from.end);
        // Pages of an image belong to its file, and those of a copy to the copy.
        let is_own = self.images.within(&whole).is_empty();
        let is_large = whole.end - whole.start >= MOVED_MIN;
        // A boundary inside would be a mapping more wherever the pages go from there.
        let moves = remap && is_own && is_large && self.pieces.boundaries_inside(&whole) == 0;
        let moved = if moves {
            self.copied = false;
            pages.space.move_pages(whole.clone(), buffer, pages.key).map(drop)
        } else {
            copy_bytes(whole.clone(), buffer)
        };
        let rest = buffer + (whole.end - whole.start);
        moved.and_then(|()| copy_bytes(whole.end..from.end, rest)).map_err(|_| Errno::OutOfMemory)?;
        if !moves && !whole.is_empty() {
            self.discard(pages, whole)?;
        }
        Ok(moves)
    }

    /// Notes that a range is to be a mapping of its own to the kernel: false, and nothing is noted, if there may be no more of them.
    fn set_apart(&mut self, space: &AddressSpace, range: &Range<u64>, kind: Kind) -> bool {
        let (before, pieces) = (self.count(), self.pieces.clone());
        self.pieces.insert(range, kind);
        let is_counted = space.count_ranges(before, self.count());
        if !is_counted {
            self.pieces = pieces;
        }
        is_counted
    }

    /// Frees mapped pages and their memory.
    pub(super) fn unmap(&mut self, pages: &Pages<'_>, range: Range<u64>) -> Result<(), Errno> {
        let images = self.images_in(&range);
        let anew = self.pieces.overlap(&range);
        let free = |space: &AddressSpace, range: Range<u64>| {
            if anew {
                // Nothing of pages that were moved here is left, so that the kernel joins them with what is beside them.
                space.reset(range.clone())?;
                return space.protect(range, Access::None, pages.key);
            }
            for (part, _) in &images {
                space.reset(part.clone())?;
            }
            // In this order: what another thread writes meanwhile is freed as well.
            space.protect(range.clone(), Access::None, pages.key)?;
            space.discard(range)
        };
        let (before, mut pieces) = (self.pieces.boundaries(), self.pieces.clone());
        pieces.remove(&range);
        // Where a piece is divided there are more of them.
        let more = pieces.boundaries().saturating_sub(before);
        if !pages.space.count_ranges(self.count(), self.count() + more) {
            return Err(Errno::TooMany);
        }
        let freed = self.change(pages, range.clone(), DIVIDES * images.len(), |_| None, free);
        if let Err(errno) = freed {
            pages.space.count_ranges(self.count() + more, self.count());
            return Err(errno);
        }
        self.pieces = pieces;
        let less = before.saturating_sub(self.pieces.boundaries());
        pages.space.count_ranges(self.count() + less, self.count());
        self.images.set(range, None);
        Ok(())
    }

    /// Changes the state of all pages of a range, and then the pages, which divides the kernel's mappings so many times; nothing if
    /// that fails.
    fn change(
        &mut self,
        pages: &Pages<'_>,
        range: Range<u64>,
        divided: usize,
        to: impl Fn(RangeState) -> Option<RangeState>,
        apply: impl FnOnce(&AddressSpace, Range<u64>) -> Result<(), AddressSpaceError>,
    ) -> Result<(), Errno> {
        // Another thread of the instance may have unmapped a part since this was asked for.
        if !self.covers(range.clone()) {
            return Err(Errno::Fault);
        }
        self.copied = false;
        let (old, before) = (self.ranges.within(&range), self.count());
        if old.iter().all(|(_, state)| *state == RangeState::Reserved && to(*state) == Some(*state)) {
            return Ok(());
        }
        let charge = |state: Option<RangeState>| i64::from(state.is_some_and(RangeState::is_charged));
        let cost: i64 = old
            .iter()
            .map(|(part, state)| (charge(to(*state)) - charge(Some(*state))) * (part.end - part.start) as i64)
            .sum();
        for (part, state) in &old {
            self.ranges.set(part.clone(), to(*state));
        }
        let done = match pages.space.count_ranges(before, self.count() + divided) {
            false => Err(Errno::TooMany),
            true => {
                self.divided += divided;
                let applied = self.apply(pages, range, cost, apply);
                if applied.is_err() {
                    // It had as many before, and has them again; what was divided may be.
                    pages.space.count_ranges(self.count(), before + divided);
                }
                applied
            }
        };
        if done.is_err() {
            for (part, state) in old {
                self.ranges.set(part, Some(state));
            }
        }
        done
    }

    /// Charges, and changes the kernel's pages; refunds only what has been freed.
    fn apply(
        &mut self,
        pages: &Pages<'_>,
        range: Range<u64>,
        cost: i64,
        apply: impl FnOnce(&AddressSpace, Range<u64>) -> Result<(), AddressSpaceError>,
    ) -> Result<(), Errno> {
        if cost > 0 && !pages.account.charge(cost) {
            return Err(Errno::OutOfMemory);
        }
        let applied = self.prepare(pages.space, pages.key, &pages.room).and_then(|()| apply(pages.space, range));
        match applied {
            Ok(()) => {
                if cost < 0 {
                    pages.account.charge(cost);
                }
                self.charged = self.charged.saturating_add_signed(cost);
                Ok(())
            }
            Err(_) => {
                if cost > 0 {
                    pages.account.charge(-cost);
                }
                Err(Errno::OutOfMemory)
            }
        }
    }

    /// Gives the area its key and its origin, before any page of it has rights. Where the heap has become smaller since (a rewind), the area
    /// begins lower from now on.
    fn prepare(&mut self, space: &AddressSpace, key: Key, room: &Range<u64>) -> Result<(), AddressSpaceError> {
        let Some(area) = &mut self.area else {
            // It is reset at the end, however far this comes.
            self.area = Some(room.clone());
            return Self::prepare_room(space, key, room.clone());
        };
        let more = room.start..area.start;
        if more.is_empty() {
            return Ok(());
        }
        area.start = more.start;
        // Pages that were never touched get the origin of the mapping that they are joined with.
        space.protect(more, Access::None, key)
    }

    fn prepare_room(space: &AddressSpace, key: Key, area: Range<u64>) -> Result<(), AddressSpaceError> {
        let last = area.end - PAGE..area.end;
        space.protect(area, Access::None, key)?;
        space.protect(last.clone(), Access::ReadWrite, key)?;
        space.touch_page(last.start);
        space.protect(last.clone(), Access::None, key)?;
        space.discard(last)
    }

    /// Maps in a fresh cell what a captured one had, upwards and without overlaps: false if there is no room for it. What is charged
    /// is writable until [`MappedMemory::settle`], and is for the caller to charge.
    pub(super) fn adopt(
        &mut self,
        space: &AddressSpace,
        key: Key,
        room: &Range<u64>,
        ranges: &[(Range<u64>, RangeState)],
    ) -> Result<bool, AddressSpaceError> {
        for (range, state) in ranges {
            if range.start < room.start || range.end > room.end {
                // What is not counted is not there.
                self.ranges = MappedRanges::default();
                return Ok(false);
            }
            self.ranges.set(range.clone(), Some(*state));
        }
        if self.ranges.len() > MAP_RANGES_MAX || !space.count_ranges(0, self.ranges.len()) {
            self.ranges = MappedRanges::default();
            return Ok(false);
        }
        for (range, _) in ranges.iter().filter(|(_, state)| state.is_charged()) {
            self.prepare(space, key, room)?;
            space.protect(range.clone(), Access::ReadWrite, key)?;
            self.charged += range.end - range.start;
        }
        Ok(true)
    }

    /// Ends what [`MappedMemory::adopt`] has begun: what is only to be read is no more writable, and what is hidden not accessible.
    pub(super) fn settle(&self, space: &AddressSpace, key: Key) -> Result<(), AddressSpaceError> {
        let mut others = self.ranges.iter().filter(|(_, state)| matches!(state, RangeState::Read | RangeState::Hidden));
        others.try_for_each(|(range, state)| space.protect(range, rights(state), key))
    }

    /// Back to nothing mapped; no thread of the instance exists any more, and its account is closed.
    pub(super) fn reset(&mut self, space: &AddressSpace) -> Result<(), AddressSpaceError> {
        space.count_ranges(self.count(), 0);
        self.ranges = MappedRanges::default();
        self.images = MappedRanges::default();
        self.pieces.clear();
        (self.charged, self.divided) = (0, 0);
        (self.images_made, self.copied) = (0, false);
        match self.area.take() {
            Some(area) => space.reset(area),
            None => Ok(()),
        }
    }
}

/// Memory that grows by so much at a time is asked for in huge pages, as heap is.
const GROWS_BY: u64 = 2 << 20;

/// Mappings of the kernel that come into being where part of one is replaced.
const DIVIDES: usize = 2;

/// The kernel's rights of pages in a state.
pub(super) fn rights(state: RangeState) -> Access {
    match state {
        RangeState::Reserved | RangeState::Hidden => Access::None,
        RangeState::Read => Access::Read,
        RangeState::ReadWrite => Access::ReadWrite,
    }
}

#[cfg(test)]
mod tests;
