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
//! The kernel joins neighbouring mappings of the same rights only if the memory in them has the same origin (`anon_vma`). The area gets
//! its origin before it is divided, from one page that is touched, and all parts inherit it. That is why the number of ranges
//! bounds the number of the kernel's mappings, of which a process has some 65 000.

use super::account::Account;
use super::address_space::{Access, AddressSpace, AddressSpaceError};
use super::keys::Key;
use super::mapped_ranges::{MappedRanges, RangeState};
use monohull_abi::Errno;
use monohull_abi::layout::{PAGE, page_up};
use monohull_abi::types::{MAP_RANGES_MAX, MapAccess};
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
    /// Pages that come from the image's file; their states mean nothing.
    images: MappedRanges,
    /// Mappings of the kernel that images have made, at most: what takes their place may have another origin than its neighbours, so this
    /// never falls while the instance lives. They count as ranges.
    divided: usize,
}

impl MappedMemory {
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
        self.change(pages, range, 0, |state| Some(to(state)), |space, range| space.protect(range, rights, pages.key))
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
            self.images.set(range, Some(RangeState::ReadWrite));
        }
        mapped
    }

    /// The parts of a range that come from the image's file, with their states.
    fn images_in(&self, range: &Range<u64>) -> Vec<(Range<u64>, RangeState)> {
        let parts = self.images.within(range).into_iter();
        parts.flat_map(|(part, _)| self.ranges.within(&part)).collect()
    }

    /// How many ranges there are, and mappings that images have made.
    fn count(&self) -> usize {
        self.ranges.len() + self.divided
    }

    /// Frees mapped pages and their memory.
    pub(super) fn unmap(&mut self, pages: &Pages<'_>, range: Range<u64>) -> Result<(), Errno> {
        let images = self.images_in(&range);
        let free = |space: &AddressSpace, range: Range<u64>| {
            for (part, _) in &images {
                space.reset(part.clone())?;
            }
            // In this order: what another thread writes meanwhile is freed as well.
            space.protect(range.clone(), Access::None, pages.key)?;
            space.discard(range)
        };
        self.change(pages, range.clone(), DIVIDES * images.len(), |_| None, free)?;
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

    /// Gives the area its key and its origin, before any page of it has rights.
    fn prepare(&mut self, space: &AddressSpace, key: Key, room: &Range<u64>) -> Result<(), AddressSpaceError> {
        if self.area.is_some() {
            return Ok(());
        }
        let area = room.clone();
        // It is reset at the end, however far this comes.
        self.area = Some(area.clone());
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

    /// Ends what [`MappedMemory::adopt`] has begun: what is only to be read is no more writable.
    pub(super) fn settle(&self, space: &AddressSpace, key: Key) -> Result<(), AddressSpaceError> {
        let mut read_only = self.ranges.iter().filter(|(_, state)| *state == RangeState::Read);
        read_only.try_for_each(|(range, _)| space.protect(range, Access::Read, key))
    }

    /// Back to nothing mapped; no thread of the instance exists any more, and its account is closed.
    pub(super) fn reset(&mut self, space: &AddressSpace) -> Result<(), AddressSpaceError> {
        space.count_ranges(self.count(), 0);
        self.ranges = MappedRanges::default();
        self.images = MappedRanges::default();
        (self.charged, self.divided) = (0, 0);
        match self.area.take() {
            Some(area) => space.reset(area),
            None => Ok(()),
        }
    }
}

/// Mappings of the kernel that come into being where part of one is replaced.
const DIVIDES: usize = 2;

/// The kernel's rights of pages in a state.
fn rights(state: RangeState) -> Access {
    match state {
        RangeState::Reserved | RangeState::Hidden => Access::None,
        RangeState::Read => Access::Read,
        RangeState::ReadWrite => Access::ReadWrite,
    }
}

#[cfg(test)]
mod tests {
    use super::super::account::Accounts;
    use super::super::carrier::Carrier;
    use super::super::keys::Keys;
    use super::super::{install_fault_handlers, one_at_a_time};
    use super::*;
    use monohull_abi::layout::{CELLS_BASE, INFO_BASE, INFO_SIZE, THREAD_STACKS_OFFSET};
    use monohull_trampoline::system::copy;
    use std::fs;
    use std::os::fd::AsFd;

    const TOP: u64 = CELLS_BASE + THREAD_STACKS_OFFSET;
    const LIMIT: u64 = 64 << 20;
    /// The instance that has the account.
    const ID: u32 = 256;

    struct Bench {
        /// The test's thread, which survives faults of the copy routine. Dropped before the address space.
        _carrier: Carrier,
        space: AddressSpace,
        accounts: Accounts,
        memory: MappedMemory,
    }

    impl Bench {
        fn new() -> Bench {
            install_fault_handlers();
            let (space, accounts) = (AddressSpace::reserve(Keys::disabled()).expect("address space"), Accounts::new());
            space.protect(INFO_BASE..INFO_BASE + INFO_SIZE, Access::ReadWrite, Key::INFO).expect("the info page");
            let _carrier = Carrier::new(&space, 0).expect("a carrier");
            accounts.open(0, ID, LIMIT, 0);
            Bench { _carrier, space, accounts, memory: MappedMemory::default() }
        }

        fn with<R>(&mut self, work: impl FnOnce(&mut MappedMemory, &Pages<'_>) -> R) -> R {
            let account = self.accounts.of(0, ID).expect("it is open");
            let room = CELLS_BASE + (1 << 30)..TOP;
            work(&mut self.memory, &Pages { space: &self.space, key: Key::FUNCTIONS, account, room })
        }

        fn map(&mut self, bytes: u64, access: MapAccess) -> Result<u64, Errno> {
            self.with(|memory, pages| memory.map(pages, bytes, 0, access))
        }

        fn protect(&mut self, range: Range<u64>, access: MapAccess) -> Result<(), Errno> {
            self.with(|memory, pages| memory.protect(pages, range, access))
        }

        fn discard(&mut self, range: Range<u64>) -> Result<(), Errno> {
            self.with(|memory, pages| memory.discard(pages, range))
        }

        fn unmap(&mut self, range: Range<u64>) -> Result<(), Errno> {
            self.with(|memory, pages| memory.unmap(pages, range))
        }

        fn charged(&self) -> u64 {
            let account = self.accounts.of(0, ID).expect("it is open");
            assert_eq!(account.charged() as u64, self.memory.charged());
            self.memory.charged()
        }
    }

    /// A byte, if it can be read.
    fn read(address: u64) -> Option<u8> {
        let mut byte = 0xff;
        // SAFETY: the byte is the test's own; an address without rights is survived.
        unsafe { copy(&raw mut byte, address as *const u8, 1) }.then_some(byte)
    }

    /// Whether a byte can be written.
    fn write(address: u64, byte: u8) -> bool {
        // SAFETY: the address lies in the reserved cells, where nothing else lives; one without rights is survived.
        unsafe { copy(address as *mut u8, &raw const byte, 1) }
    }

    /// The kernel's mappings that overlap the room, in rights and bytes that are in memory.
    fn kernel_mappings() -> usize {
        let maps = fs::read_to_string("/proc/self/maps").expect("it is there");
        let ends = maps.lines().filter_map(|line| line.split_once(' ')?.0.split_once('-'));
        let ends = ends.map(|(start, end)| [start, end].map(|end| u64::from_str_radix(end, 16).expect("hexadecimal")));
        ends.filter(|[start, end]| *start < TOP && *end > CELLS_BASE).count()
    }

    fn resident() -> u64 {
        let statm = fs::read_to_string("/proc/self/statm").expect("it is there");
        statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * PAGE
    }

    #[test]
    fn rights_contents_and_charges_follow_each_change() {
        use MapAccess::{None as Nothing, Read, ReadWrite};
        let _one = one_at_a_time();
        let mut bench = Bench::new();
        let at = bench.map(8 * PAGE, Nothing).expect("a reservation");
        assert_eq!((at, read(at), bench.charged()), (TOP - 8 * PAGE, None, 0));
        bench.protect(at..at + 4 * PAGE, ReadWrite).expect("memory");
        assert!(write(at, 7) && write(at + 3 * PAGE, 8) && !write(at + 4 * PAGE, 9));
        assert_eq!((read(at), bench.charged()), (Some(7), 4 * PAGE));
        bench.protect(at..at + PAGE, Read).expect("fewer rights");
        assert!(!write(at, 9));
        assert_eq!((read(at), bench.charged()), (Some(7), 4 * PAGE));
        // Without rights it is kept, until it is discarded.
        bench.protect(at..at + 8 * PAGE, Nothing).expect("no rights");
        assert_eq!((read(at), read(at + 3 * PAGE), bench.charged()), (None, None, 4 * PAGE));
        bench.protect(at..at + PAGE, Read).expect("rights");
        assert_eq!((read(at), bench.charged()), (Some(7), 4 * PAGE));
        bench.discard(at..at + 8 * PAGE).expect("the memory goes");
        assert_eq!((read(at), read(at + 3 * PAGE), bench.charged()), (Some(0), None, PAGE));
        bench.unmap(at + PAGE..at + 3 * PAGE).expect("a part");
        assert_eq!(bench.protect(at..at + 4 * PAGE, Read), Err(Errno::Fault));
        assert_eq!(bench.unmap(at..at + 2 * PAGE), Err(Errno::Fault));
        assert_eq!(bench.discard(at + PAGE..at + 2 * PAGE), Err(Errno::Fault));
        assert_eq!((read(at), bench.charged()), (Some(0), PAGE));
        // What is mapped there next is zero.
        assert!(bench.protect(at..at + PAGE, ReadWrite).is_ok() && write(at, 5));
        bench.unmap(at..at + PAGE).expect("the first page");
        assert_eq!((read(at), bench.charged()), (None, 0));
        assert_eq!(bench.map(3 * PAGE, ReadWrite), Ok(at));
        assert_eq!((read(at), bench.charged()), (Some(0), 3 * PAGE));
    }

    #[test]
    fn memory_that_is_given_back_is_the_hosts_again() {
        let _one = one_at_a_time();
        let mut bench = Bench::new();
        let before = resident();
        let at = bench.map(LIMIT, MapAccess::ReadWrite).expect("memory");
        assert_eq!(bench.map(PAGE, MapAccess::Read), Err(Errno::OutOfMemory));
        assert!((at..at + LIMIT).step_by(PAGE as usize).all(|page| write(page, 1)));
        assert!(resident() - before > LIMIT - LIMIT / 8, "{} {before}", resident());
        bench.discard(at..at + LIMIT / 2).expect("one half");
        bench.unmap(at + LIMIT / 2..at + LIMIT).expect("the other");
        assert!(resident().saturating_sub(before) < LIMIT / 8, "{} {before}", resident());
        assert_eq!(bench.charged(), LIMIT / 2);
        assert!(bench.map(LIMIT / 2, MapAccess::ReadWrite).is_ok());
    }

    /// Changes by chance, with pages touched in between: the kernel never has more mappings than the ranges allow.
    #[test]
    fn ranges_bound_the_kernels_mappings() {
        use MapAccess::{None as Nothing, Read, ReadWrite};
        const PAGES: u64 = 512;
        let _one = one_at_a_time();
        let mut bench = Bench::new();
        let at = bench.map(PAGES * PAGE, Nothing).expect("a reservation");
        let mut random = 0x0123_4567_89ab_cdefu64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % below
        };
        let (mut most, mut refused) = (0, 0);
        for round in 0..4000 {
            let start = next(PAGES);
            let range = at + start * PAGE..at + (start + 1 + next(4.min(PAGES - start))) * PAGE;
            let done = match next(8) {
                0 => bench.discard(range.clone()),
                1..=4 => bench.protect(range.clone(), ReadWrite),
                5 => bench.protect(range.clone(), Read),
                _ => bench.protect(range.clone(), Nothing),
            };
            refused += u32::from(done.is_err());
            if bench.memory.state(range.start) == Some(RangeState::ReadWrite) {
                assert!(write(range.start, 1));
            }
            if round % 100 == 0 {
                let (kernels, ranges) = (kernel_mappings(), bench.memory.ranges.len());
                assert!(kernels <= 2 * ranges + 3, "{kernels} mappings of the kernel for {ranges} ranges");
                most = most.max(ranges);
            }
        }
        assert_eq!(refused, 0);
        assert!(most > 100, "{most}");
        bench.protect(at..at + PAGES * PAGE, ReadWrite).expect("all of it");
        // Linux 6.18 joins all of it; 6.1 and 6.12 keep some of the parts.
        let left = kernel_mappings();
        assert!(left <= most, "{left} mappings of the kernel after {most} ranges at most");
        bench.memory.reset(&bench.space).expect("nothing");
        assert_eq!((kernel_mappings(), read(at)), (1, None));
    }

    #[test]
    fn ranges_are_limited_in_number_and_a_refusal_changes_nothing() {
        let _one = one_at_a_time();
        let mut bench = Bench::new();
        let at = bench.map(4 * MAP_RANGES_MAX as u64 * PAGE, MapAccess::None).expect("a reservation");
        let odd = |n: u64| at + (2 * n + 1) * PAGE..at + (2 * n + 2) * PAGE;
        let made = (0..).take_while(|n| bench.protect(odd(*n), MapAccess::Read).is_ok()).count();
        assert!((MAP_RANGES_MAX / 2 - 1..=MAP_RANGES_MAX / 2).contains(&made), "{made}");
        let charged = bench.charged();
        assert_eq!(bench.protect(odd(made as u64), MapAccess::Read), Err(Errno::TooMany));
        assert_eq!((bench.charged(), read(odd(made as u64).start)), (charged, None));
        let mut apart = || bench.with(|memory, pages| memory.map(pages, PAGE, 1 << 21, MapAccess::Read));
        assert!((0..3).any(|_| apart() == Err(Errno::TooMany)));
        // What takes no more of them is served.
        bench.protect(odd(0).start + PAGE..odd(1).start, MapAccess::Read).expect("three ranges become one");
        bench.protect(odd(made as u64), MapAccess::Read).expect("two more");
        bench.unmap(at..at + 4 * MAP_RANGES_MAX as u64 * PAGE).expect("all of it");
        assert!(kernel_mappings() <= 7, "{}", kernel_mappings());
        assert!(bench.map(PAGE, MapAccess::Read).is_ok());
    }

    /// A file of so many pages, which hold their numbers from 1 on.
    fn file(pages: u8) -> std::os::fd::OwnedFd {
        let bytes: Vec<u8> = (1..=pages).flat_map(|page| [page; PAGE as usize]).collect();
        monohull_ipc::sealed::seal(&bytes, bytes.len() as u64).expect("a file in memory")
    }

    #[test]
    fn an_image_is_private_charged_and_gone_when_discarded() {
        use MapAccess::{None as Nothing, Read, ReadWrite};
        let _one = one_at_a_time();
        let (mut bench, file) = (Bench::new(), file(4));
        let at = bench.map(8 * PAGE, Nothing).expect("a reservation");
        let image = |bench: &mut Bench, range, offset| {
            bench.with(|memory, pages| memory.map_image(pages, range, file.as_fd(), offset))
        };
        let page = |n: u64| at + n * PAGE;
        assert_eq!(image(&mut bench, page(6)..page(10), 0), Err(Errno::Fault));
        assert_eq!((read(page(6)), bench.charged()), (None, 0));
        image(&mut bench, page(2)..page(6), 0).expect("the image");
        assert_eq!([1, 2, 3, 4, 5, 6].map(|n| read(page(n))), [None, Some(1), Some(2), Some(3), Some(4), None]);
        assert_eq!(bench.charged(), 4 * PAGE);
        assert!(write(page(3), 9));
        image(&mut bench, page(0)..page(2), PAGE).expect("the image again");
        assert_eq!([0, 1, 3].map(|n| read(page(n))), [Some(2), Some(3), Some(9)], "the file is as it was");
        // Rights change, what is written stays.
        bench.protect(page(2)..page(6), Read).expect("fewer rights");
        assert!(!write(page(4), 7));
        bench.protect(page(2)..page(6), Nothing).expect("none");
        bench.protect(page(3)..page(4), ReadWrite).expect("rights");
        assert_eq!([2, 3, 4].map(|n| read(page(n))), [None, Some(9), None]);
        bench.discard(page(1)..page(5)).expect("zeros");
        assert_eq!([0, 1, 2, 3].map(|n| read(page(n))), [Some(2), Some(0), None, Some(0)]);
        assert_eq!(bench.charged(), 4 * PAGE, "0, 1, 3 and what is hidden at 5");
        bench.protect(page(2)..page(6), ReadWrite).expect("rights");
        assert_eq!([2, 4, 5].map(|n| read(page(n))), [Some(0), Some(0), Some(4)]);
        bench.unmap(page(0)..page(6)).expect("all of it");
        assert_eq!(bench.charged(), 0);
        let at = bench.map(6 * PAGE, ReadWrite).expect("memory");
        assert!((0..6).all(|n| read(at + n * PAGE) == Some(0)));
        bench.memory.reset(&bench.space).expect("nothing");
        assert_eq!((kernel_mappings(), read(at)), (1, None));
    }

    #[test]
    fn images_are_limited_in_number_and_so_are_the_kernels_mappings() {
        let _one = one_at_a_time();
        let (mut bench, file) = (Bench::new(), file(4));
        let at = bench.map(1 << 30, MapAccess::None).expect("a reservation");
        let mut made = 0;
        let refused = loop {
            let start = at + made * 8 * PAGE;
            let image = |memory: &mut MappedMemory, pages: &Pages<'_>| {
                memory.map_image(pages, start..start + 4 * PAGE, file.as_fd(), 0)
            };
            let done = bench.with(image).and_then(|()| bench.discard(start + PAGE..start + 2 * PAGE));
            assert!(done.is_err() || write(start + PAGE, 1));
            match done {
                Ok(()) => made += 1,
                Err(errno) => break errno,
            }
        };
        assert_eq!((refused, made > 10), (Errno::TooMany, true), "{made}");
        let ranges = bench.memory.ranges.len() + bench.memory.divided;
        assert!(ranges <= MAP_RANGES_MAX && kernel_mappings() <= 2 * ranges + 3, "{ranges} {}", kernel_mappings());
        // What is in use can still be given back as a whole.
        bench.memory.reset(&bench.space).expect("nothing");
        assert_eq!(kernel_mappings(), 1);
        assert!(bench.map(PAGE, MapAccess::ReadWrite).is_ok());
    }
}
