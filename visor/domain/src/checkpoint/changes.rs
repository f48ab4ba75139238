//! Which pages have changed since the last capture that was kept.
//!
//! ```text
//!   capture 1      pages of all                      ──▶ kept:      hashes 1 are what the next one compares with
//!   capture 2      pages that are not as in 1        ──▶ not kept:  as if there had been none
//!   capture 3      pages that are not as in 1        ──▶ kept:      hashes 3
//!   …              …                                 ──▶ kept, and the next one has to be whole: no hashes
//! ```
//!
//! Pages are compared by hashes of what a capture has, so it does not matter how a page came to be what it is: written, swapped out,
//! dropped, mapped anew, or given to another owner. A page that a capture does not have is in none of its two lists, so nothing of an
//! earlier one comes back in its place.
//!
//! Where the kernel can tell which pages have not been written to since the latest capture ([`Watch`], Linux 6.7), these take over their
//! hash from it, and are not read. All others are: what the kernel has lost sight of, and what no capture has looked at.
//!
//! ```text
//!   latest    at the time of the latest capture, kept or not     what an unwritten page takes over
//!   base      of the last one that was kept                      what both kinds are compared with
//! ```

use super::keeper::Base;
use super::page_hash::PageHasher;
use super::record::PageRun;
use monohull_abi::layout::PAGE;
use monohull_sys::written_pages::{PageMap, Watch};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// Memory of at least so many bytes side by side is watched. Less is hashed in the time that it takes to ask the kernel, and a store to a
/// page that is watched takes longer, once.
const WATCHED_MIN: u64 = if cfg!(test) { 4 * PAGE } else { 1 << 20 };

/// A domain that stands still is compared with its last capture if that had so many bytes.
const WORTH_MIN: u64 = 1 << 20;

/// Stands for the hash of a page that was looked at and that the capture does not have: it is as in a fresh mapping.
const NOTHING: u128 = 0;

/// The hashes of the last captures of a domain that goes on after each.
#[derive(Default)]
pub(crate) struct Changes(Mutex<State>);

#[derive(Default)]
struct State {
    hasher: Option<Arc<PageHasher>>,
    /// Where the kernel tells what has been written to; `None` inside: it cannot.
    watch: Option<Option<Arc<Watch>>>,
    /// Of the capture that the next one is compared with, if there is one.
    base: Option<Arc<Hashes>>,
    /// Of the latest capture. None while one is made: what is watched from then on is not what this was made of.
    latest: Option<Arc<Hashes>>,
    /// The latest one has not been answered.
    unanswered: bool,
    /// Bytes of the pages that the latest one stands for.
    bytes: u64,
}

/// The hash of each page that a capture has looked at, by address.
pub(super) type Hashes = Vec<(u64, u128)>;

/// Hashes that are asked for in the order of their addresses, or nearly.
struct Lookup {
    hashes: Arc<Hashes>,
    /// Where the next page is expected.
    next: usize,
}

impl Lookup {
    fn of(hashes: Option<Arc<Hashes>>) -> Lookup {
        Lookup { hashes: hashes.unwrap_or_default(), next: 0 }
    }

    fn hash(&mut self, page: u64) -> Option<u128> {
        let is_page = |(known, _): &&(u64, u128)| *known == page;
        let at = match self.hashes.get(self.next).filter(is_page) {
            Some(_) => self.next,
            None => self.hashes.partition_point(|(known, _)| *known < page),
        };
        let known = self.hashes.get(at).filter(is_page);
        self.next = at + usize::from(known.is_some());
        known.map(|(_, hash)| *hash)
    }
}

impl Changes {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("changes")
    }

    /// Begins a capture after which the domain goes on.
    pub(super) fn begin(&self) -> io::Result<Found> {
        let mut state = self.lock();
        let hasher = match &state.hasher {
            Some(hasher) => hasher.clone(),
            None => state.hasher.insert(Arc::new(PageHasher::new()?)).clone(),
        };
        let watch =
            state.watch.get_or_insert_with(|| PageMap::of_process().and_then(Watch::on).ok().map(Arc::new)).clone();
        let (base, latest) = (state.base.clone(), state.latest.take());
        let seen = Hashes::with_capacity(latest.as_deref().map_or(0, Vec::len));
        let compared = Compared { hasher, watch, base: Lookup::of(base), latest: Lookup::of(latest), seen };
        Ok(Found { compared: Some(compared), ..Found::default() })
    }

    /// Whether there is so much memory that it takes less time to look for what has changed than to copy all of it.
    pub(super) fn are_worth_it(&self) -> bool {
        self.lock().bytes >= WORTH_MIN
    }

    /// The capture is complete, and an answer follows; with the hashes of its pages if it was compared, and the bytes of all.
    pub(super) fn captured(&self, seen: Option<Hashes>, bytes: u64) {
        let seen = seen.map(|mut seen| {
            // It consists of few runs that are in order.
            seen.sort_by_key(|(page, _)| *page);
            Arc::new(seen)
        });
        let mut state = self.lock();
        (state.unanswered, state.latest, state.bytes) = (seen.is_some(), seen, bytes);
    }

    /// There is an answer.
    pub(super) fn answered(&self, next: Base) {
        let mut state = self.lock();
        let is_answer = std::mem::take(&mut state.unanswered);
        match next {
            Base::This => state.base = state.latest.clone().filter(|_| is_answer),
            Base::Before => {}
            Base::None => state.base = None,
        }
    }
}

/// What a capture has found.
pub(super) struct Parts {
    /// The pages whose contents are in it.
    pub(super) pages: Vec<PageRun>,
    /// Those that are as in the capture before: addresses and bytes.
    pub(super) unchanged: Vec<(u64, u64)>,
    /// The hashes of both, if it was compared.
    pub(super) seen: Option<Hashes>,
}

/// The pages of a capture that is being made.
#[derive(Default)]
pub(super) struct Found {
    /// See [`Parts`].
    pages: Vec<PageRun>,
    unchanged: Vec<(u64, u64)>,
    /// Without it all pages are in the capture.
    compared: Option<Compared>,
    /// Pages that have not been read since the domain went on, upwards: they are as in the checkpoint that it has gone on from.
    unread: Vec<Range<u64>>,
}

struct Compared {
    hasher: Arc<PageHasher>,
    watch: Option<Arc<Watch>>,
    base: Lookup,
    latest: Lookup,
    seen: Hashes,
}

impl Compared {
    /// Whether a page is as it was.
    fn is_unchanged(&mut self, page: u64, bytes: &[u8]) -> bool {
        let hash = self.hasher.of(bytes).max(NOTHING + 1);
        self.seen.push((page, hash));
        self.base.hash(page) == Some(hash)
    }
}

impl Found {
    /// The same for a capture that leaves out these pages.
    pub(super) fn leaving(self, unread: Vec<Range<u64>>) -> Found {
        Found { unread, ..self }
    }

    /// Whether there are such.
    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Adds a page that has not been read, without reading it. False if it has been, or if that is not known.
    pub(super) fn add_unread(&mut self, page: u64) -> bool {
        let index = self.unread.partition_point(|range| range.end <= page);
        let is_unread = self.unread.get(index).is_some_and(|range| range.start <= page);
        if is_unread {
            self.add_unchanged(page);
        }
        is_unread
    }

    /// Adds a page, to the last run if it follows it.
    pub(super) fn add(&mut self, page: u64, bytes: &[u8]) {
        if self.compared.as_mut().is_some_and(|compared| compared.is_unchanged(page, bytes)) {
            return self.add_unchanged(page);
        }
        match self.pages.last_mut() {
            Some(last) if last.address + last.bytes.len() as u64 == page => last.bytes.extend_from_slice(bytes),
            _ => self.pages.push(PageRun { address: page, bytes: bytes.to_vec() }),
        }
    }

    fn add_unchanged(&mut self, page: u64) {
        match self.unchanged.last_mut() {
            Some((start, len)) if *start + *len == page => *len += PAGE,
            _ => self.unchanged.push((page, PAGE)),
        }
    }

    /// Where it is known what memory has been written to: a range of memory about which the kernel can be asked.
    fn watch(&self, range: &Range<u64>) -> Option<Arc<Watch>> {
        let watch = self.compared.as_ref()?.watch.clone();
        watch.filter(|_| range.end.saturating_sub(range.start) >= WATCHED_MIN)
    }

    /// The pages of a range that have not been written to since the latest capture, as far as that is known; they are in order.
    pub(super) fn unwritten(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        // If the kernel does not tell, all are read.
        self.watch(range).and_then(|watch| watch.unwritten(range.clone()).ok()).unwrap_or_default()
    }

    /// All of a range has been looked at: from now on the kernel notes what is written to.
    pub(super) fn looked_at(&self, range: Range<u64>) {
        if let Some(watch) = self.watch(&range) {
            // What cannot be watched is read the next time.
            let _ = watch.watch(range);
        }
    }

    /// A page has been looked at, and is not in the capture: it is as in a fresh mapping.
    pub(super) fn leave_out(&mut self, page: u64) {
        if let Some(compared) = self.compared.as_mut().filter(|compared| compared.watch.is_some()) {
            compared.seen.push((page, NOTHING));
        }
    }

    /// Adds a page that has not been written to since the latest capture, without reading it. False if it has to be read: that capture has
    /// not looked at it, or has what no capture has that was kept.
    pub(super) fn add_unwritten(&mut self, page: u64) -> bool {
        let Some(compared) = &mut self.compared else { return false };
        let Some(hash) = compared.latest.hash(page) else { return false };
        if hash == NOTHING {
            compared.seen.push((page, NOTHING));
            return true;
        }
        let is_unchanged = compared.base.hash(page) == Some(hash);
        if is_unchanged {
            compared.seen.push((page, hash));
            self.add_unchanged(page);
        }
        is_unchanged
    }

    /// The capture is complete. Pages are in the order of their addresses.
    pub(super) fn into_parts(mut self) -> Parts {
        self.pages.sort_unstable_by_key(|run| run.address);
        self.unchanged.sort_unstable();
        Parts { pages: self.pages, unchanged: self.unchanged, seen: self.compared.map(|compared| compared.seen) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pages;
    use super::*;
    use std::collections::BTreeMap;

    const PAGES: u64 = 48;
    /// Enough to have each kind of step in each state of a page.
    const STEPS: u32 = 10_000;

    /// Pages by their address.
    type Contents = BTreeMap<u64, Vec<u8>>;

    /// Memory of the test's own, of which a part is in use.
    struct Region {
        start: u64,
        used: u64,
    }

    impl Region {
        fn map(at: *mut libc::c_void, pages: u64, fixed: i32) -> u64 {
            let (flags, len) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed, (pages * PAGE) as usize);
            // SAFETY: mmap(2): a new mapping, or one in the place of pages that are the region's own.
            let start = unsafe { libc::mmap(at, len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
            assert_ne!(start, libc::MAP_FAILED);
            start as u64
        }

        fn advise(&self, page: u64, pages: u64, advice: i32) {
            // SAFETY: madvise(2): pages of the region, to which nothing refers.
            unsafe { libc::madvise((self.start + page * PAGE) as *mut _, (pages * PAGE) as usize, advice) };
        }

        fn page(&mut self, page: u64) -> &mut [u8] {
            assert!(page < PAGES);
            // SAFETY: a page of the region, which is borrowed.
            unsafe { std::slice::from_raw_parts_mut((self.start + page * PAGE) as *mut u8, PAGE as usize) }
        }

        /// What a capture has to stand for: the pages in use that are not zero.
        fn contents(&mut self) -> Contents {
            let (start, used) = (self.start, self.used);
            let pages = (0..used).map(|page| (start + page * PAGE, self.page(page).to_vec()));
            pages.filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0)).collect()
        }

        /// Puts a new page in the place of one, as memory that comes from another owner: it was watched where it was.
        fn replace(&mut self, page: u64, byte: u8, watch: Option<&Watch>) {
            let other = Region::map(std::ptr::null_mut(), 1, 0);
            // SAFETY: a page that was mapped just above.
            unsafe { (other as *mut u8).write(byte) };
            if let Some(watch) = watch {
                watch.watch(other..other + PAGE).expect("a page of its own");
            }
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let place = (self.start + page * PAGE) as *mut libc::c_void;
            // SAFETY: mremap(2): a page that was mapped just above, and one of the region, to which nothing refers.
            let moved = unsafe { libc::mremap(other as *mut _, PAGE as usize, PAGE as usize, flags, place) };
            assert_eq!(moved, place);
        }

        fn capture(&mut self, mut found: Found) -> Parts {
            // SAFETY: the region is readable, and nothing else changes it.
            unsafe { pages::of_written(self.start..self.start + self.used * PAGE, &mut found) };
            found.into_parts()
        }
    }

    impl Drop for Region {
        fn drop(&mut self) {
            // SAFETY: munmap(2): the region's own pages, which are not used any more.
            unsafe { libc::munmap(self.start as *mut _, (PAGES * PAGE) as usize) };
        }
    }

    /// Numbers that are the same in each run of the test (xorshift).
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % end
        }
    }

    fn pages_of(runs: &[(u64, u64)]) -> impl Iterator<Item = u64> {
        runs.iter().flat_map(|(start, bytes)| (*start..*start + *bytes).step_by(PAGE as usize))
    }

    fn with_watch(watch: Option<Arc<Watch>>) -> Changes {
        Changes(Mutex::new(State { watch: Some(watch), ..State::default() }))
    }

    #[test]
    fn captures_with_those_before_them_are_what_memory_was() {
        captures_are_what_memory_was(None);
    }

    /// `doctor` says where the kernel cannot.
    #[test]
    fn captures_are_what_memory_was_where_the_kernel_tells_what_is_written_to() {
        if let Ok(watch) = PageMap::of_process().and_then(Watch::on) {
            captures_are_what_memory_was(Some(Arc::new(watch)));
        }
    }

    /// Whatever happens to memory, a capture and what it leaves to the one before are what the memory was, and no page is there twice or
    /// without a change.
    fn captures_are_what_memory_was(watch: Option<Arc<Watch>>) {
        let changes = with_watch(watch.clone());
        let mut region = Region { start: Region::map(std::ptr::null_mut(), PAGES, 0), used: PAGES / 4 };
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        // What the last capture that was kept stands for.
        let mut kept: Option<Contents> = None;
        let mut left_out = 0;
        for step in 0..STEPS {
            let page = random.below(region.used);
            match random.below(14) {
                0..=3 => {
                    let (at, byte) = (random.below(PAGE), random.below(256) as u8);
                    region.page(page)[at as usize] = byte;
                }
                4 => region.page(page).fill(0),
                5 => region.advise(page, 1, libc::MADV_DONTNEED),
                6 => region.advise(0, region.used, libc::MADV_PAGEOUT),
                7 => {
                    Region::map((region.start + page * PAGE) as *mut _, 1, libc::MAP_FIXED);
                }
                // Another owner gets the contents, or the place.
                8 => {
                    let other = random.below(region.used);
                    let (bytes, others) = (region.page(page).to_vec(), region.page(other).to_vec());
                    region.page(other).copy_from_slice(&bytes);
                    region.page(page).copy_from_slice(&others);
                }
                9 => {
                    let used = 1 + random.below(PAGES);
                    if used < region.used && random.below(2) == 0 {
                        // As a heap that shrinks: what is beyond its end is dropped.
                        region.advise(used, region.used - used, libc::MADV_DONTNEED);
                    }
                    region.used = used;
                }
                10 => region.replace(page, random.below(256) as u8, watch.as_deref()),
                // A capture that fails when its pages have been looked at.
                11 => drop(region.capture(changes.begin().expect("a capture"))),
                _ => {
                    let Parts { pages, unchanged, seen } = region.capture(changes.begin().expect("a capture"));
                    assert!(seen.is_some());
                    changes.captured(seen, 0);
                    let mut stands_for = Contents::new();
                    for run in &pages {
                        for (at, bytes) in (run.address..).step_by(PAGE as usize).zip(run.bytes.chunks(PAGE as usize)) {
                            let before = kept.as_ref().and_then(|kept| kept.get(&at));
                            assert_ne!(before.map(Vec::as_slice), Some(bytes), "step {step}: it has not changed");
                            assert!(stands_for.insert(at, bytes.to_vec()).is_none(), "step {step}: twice");
                        }
                    }
                    for at in pages_of(&unchanged) {
                        let before = kept.as_ref().and_then(|kept| kept.get(&at)).expect("the one before has it");
                        assert!(stands_for.insert(at, before.clone()).is_none(), "step {step}: twice");
                        left_out += 1;
                    }
                    assert!(stands_for == region.contents(), "step {step}");
                    let next = match random.below(8) {
                        0 => Base::None,
                        1 | 2 => Base::Before,
                        _ => Base::This,
                    };
                    match next {
                        Base::This => kept = Some(stands_for),
                        Base::Before => {}
                        Base::None => kept = None,
                    }
                    changes.answered(next);
                }
            }
        }
        assert!(left_out > STEPS / 2, "{left_out} pages were left out");
    }

    /// Memory on a huge page, of which a page is written to and one becomes zero, and that is zero as a whole in the end: then nothing of it is in a
    /// capture, and it is not as many pages as it was.
    #[test]
    fn memory_on_huge_pages_is_captured_page_by_page() {
        const HUGE: u64 = 512;
        /// `MADV_COLLAPSE` of `linux/mman.h`.
        const COLLAPSE: i32 = 25;
        let watch = PageMap::of_process().and_then(Watch::on).ok().map(Arc::new);
        for watch in [None, watch] {
            let changes = with_watch(watch);
            let mapped = Region::map(std::ptr::null_mut(), 2 * HUGE, 0);
            let start = mapped.next_multiple_of(HUGE * PAGE);
            // SAFETY: pages that were mapped just above, and that nothing else uses; they are unmapped below.
            let bytes = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, (HUGE * PAGE) as usize) };
            bytes.fill(7);
            // SAFETY: madvise(2): these pages. A host without huge pages leaves them where they are.
            unsafe { libc::madvise(start as *mut _, (HUGE * PAGE) as usize, COLLAPSE) };
            let capture = || {
                let mut found = changes.begin().expect("a capture");
                // SAFETY: the pages are readable, and nothing changes them now.
                unsafe { pages::of_written(start..start + HUGE * PAGE, &mut found) };
                let Parts { pages, unchanged, seen } = found.into_parts();
                changes.captured(seen, 0);
                changes.answered(Base::This);
                let number = |address: u64| (address - start) / PAGE;
                let changed = pages
                    .iter()
                    .flat_map(|run| (number(run.address)..).take(run.bytes.len() / PAGE as usize).collect::<Vec<_>>());
                (changed.collect::<Vec<_>>(), pages_of(&unchanged).map(number).collect::<Vec<_>>())
            };
            let others = |than: &[u64]| Vec::from_iter((0..HUGE).filter(|page| !than.contains(page)));
            assert_eq!(capture(), (others(&[]), Vec::new()));
            bytes[(100 * PAGE) as usize + 5] = 8;
            bytes[(200 * PAGE) as usize..][..PAGE as usize].fill(0);
            assert_eq!(capture(), (vec![100], others(&[100, 200])));
            bytes.fill(0);
            assert_eq!(capture(), (Vec::new(), Vec::new()));
            // SAFETY: as above; the slice is not used any more.
            unsafe { libc::munmap(mapped as *mut _, (2 * HUGE * PAGE) as usize) };
        }
    }

    /// A run that ends with its capture, and the first capture of one that goes on, are whole.
    #[test]
    fn what_has_none_before_it_is_whole() {
        let changes = Changes::default();
        let mut region = Region { start: Region::map(std::ptr::null_mut(), PAGES, 0), used: 2 };
        region.page(0).fill(7);
        let mut counts = |found: Found| {
            let Parts { pages, unchanged, seen } = region.capture(found);
            assert!(seen.is_some());
            changes.captured(seen, 0);
            (pages.len(), unchanged.len())
        };
        assert_eq!(counts(changes.begin().expect("a capture")), (1, 0));
        changes.answered(Base::Before);
        assert_eq!(counts(changes.begin().expect("a capture")), (1, 0), "the first was not kept");
        changes.answered(Base::This);
        assert_eq!(counts(changes.begin().expect("a capture")), (0, 1));
        changes.answered(Base::None);
        assert_eq!(counts(changes.begin().expect("a capture")), (1, 0));
        let Parts { pages, unchanged, seen } = region.capture(Found::default());
        assert!(pages.len() == 1 && unchanged.is_empty() && seen.is_none());
    }
}
