//! Captures that compare have what memory was, however it has changed, and whether they are kept or not.

use super::*;
use crate::checkpoint::pages;
use crate::checkpoint::random::Random;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

const PAGES: u64 = 48;
/// Enough to have each kind of step in each state of a page.
const STEPS: u32 = 10_000;
/// Enough of them where pages are swapped out: on an emulated processor, which takes some seconds for that.
const STEPS_WITH_SWAP: u32 = 2000;
/// Set where the host swaps, so that pages must come to be swapped out.
const SWAPS: &str = "MONOHULL_TEST_SWAP";

/// Bits of an entry of `/proc/self/pagemap`.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;

/// Pages by their address.
type Contents = BTreeMap<u64, Vec<u8>>;

/// Memory of the test's own, of which a part is in use.
struct Region {
    start: u64,
    used: u64,
    mappings: Mappings,
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

    /// Has the pages in use swapped out: how many are then. None where the host does not swap.
    fn swap_out(&self) -> u32 {
        let before = self.kernels_entries();
        self.advise(0, self.used, libc::MADV_PAGEOUT);
        // A page that is protected and was never touched is told of as if it was swapped out.
        let is_out = |(before, after): &(u64, u64)| before & PRESENT != 0 && after & (PRESENT | SWAPPED) == SWAPPED;
        before.into_iter().zip(self.kernels_entries()).filter(is_out).count() as u32
    }

    /// What the kernel tells of each page in use.
    fn kernels_entries(&self) -> Vec<u64> {
        let mut bytes = vec![0; 8 * self.used as usize];
        let pages = File::open("/proc/self/pagemap").expect("a process that is dumpable");
        pages.read_exact_at(&mut bytes, self.start / PAGE * 8).expect("an entry for each page");
        let entries = bytes.chunks_exact(8).map(|entry| u64::from_le_bytes(entry.try_into().expect("eight bytes")));
        entries.collect()
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
        unsafe { pages::of_written(self.start..self.start + self.used * PAGE, self.mappings, &mut found) };
        found.into_parts()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: munmap(2): the region's own pages, which are not used any more.
        unsafe { libc::munmap(self.start as *mut _, (PAGES * PAGE) as usize) };
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
    captures_are_what_memory_was(None, Mappings::Any);
}

/// The kernel tells what is written to. `doctor` says where it cannot.
fn watch() -> Option<Arc<Watch>> {
    let watch = PageMap::of_process().and_then(Watch::on);
    let (can, must) = (watch.is_ok(), std::env::var_os(SWAPS).is_some());
    assert!(can || !must, "the kernel does not tell what is written to: {:?}", watch.err());
    watch.ok().map(Arc::new)
}

#[test]
fn captures_are_what_memory_was_where_the_kernel_tells_what_is_written_to() {
    if let Some(watch) = watch() {
        captures_are_what_memory_was(Some(watch), Mappings::Any);
    }
}

/// The same, as a heap is captured.
#[test]
fn captures_are_what_memory_was_that_shows_no_file() {
    if let Some(watch) = watch() {
        captures_are_what_memory_was(Some(watch), Mappings::Anonymous);
    }
}

/// Whatever happens to memory, a capture and what it leaves to the one before are what the memory was, and no page is there twice or
/// without a change.
fn captures_are_what_memory_was(watch: Option<Arc<Watch>>, mappings: Mappings) {
    let changes = with_watch(watch.clone());
    let mut region = Region { start: Region::map(std::ptr::null_mut(), PAGES, 0), used: PAGES / 4, mappings };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // What the last capture that was kept stands for.
    let mut kept: Option<Contents> = None;
    let (mut left_out, mut swapped_out) = (0, 0);
    let swaps = std::env::var_os(SWAPS).is_some();
    let steps = if swaps { STEPS_WITH_SWAP } else { STEPS };
    for step in 0..steps {
        let page = random.below(region.used);
        match random.below(14) {
            0..=3 => {
                let (at, byte) = (random.below(PAGE), random.below(256) as u8);
                region.page(page)[at as usize] = byte;
            }
            4 => region.page(page).fill(0),
            5 => region.advise(page, 1, libc::MADV_DONTNEED),
            6 => swapped_out += region.swap_out(),
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
    assert!(left_out > steps / 2, "{left_out} pages were left out");
    assert!(!swaps || swapped_out > steps / 10, "{swapped_out} pages were swapped out");
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
            unsafe { pages::of_written(start..start + HUGE * PAGE, Mappings::Anonymous, &mut found) };
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
    let mut region = Region { start: Region::map(std::ptr::null_mut(), PAGES, 0), used: 2, mappings: Mappings::Any };
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
