//! Pages that move between slot buffers and mapped memory: contents, charges, and how many mappings the kernel has afterwards.

use super::*;
use crate::moved_pages::MOVED_AT_ONCE;
use monohull_abi::layout::{ARENA_BASE, WINDOW_BASE, WINDOW_SIZE};
use monohull_abi::types::MAP_RANGES_MAX;

const WINDOW: Range<u64> = WINDOW_BASE..WINDOW_BASE + WINDOW_SIZE;
/// Bytes that are moved: no whole number of huge pages.
const SIZE: u64 = (2 << 20) + 5 * PAGE;

impl Bench {
    /// A buffer of the arena.
    fn buffer(&self, pages_behind: u64, bytes: u64) -> u64 {
        let start = ARENA_BASE + pages_behind * PAGE;
        self.space.commit_arena(start..start + page_up(bytes), Key::FUNCTIONS).expect("memory");
        start
    }

    fn move_in(&mut self, buffer: u64, to: Range<u64>) -> Result<(), Errno> {
        self.with(|memory, pages| memory.move_in(pages, buffer, to))
    }

    fn move_out(&mut self, from: Range<u64>, buffer: u64) -> Result<bool, Errno> {
        self.with(|memory, pages| memory.move_out(pages, from, buffer, true))
    }
}

/// A byte for each page.
fn fill(range: Range<u64>, seed: u8) {
    assert!(range.step_by(PAGE as usize).enumerate().all(|(page, at)| write(at, seed ^ page as u8 | 1)));
}

fn holds(range: Range<u64>, seed: u8) -> bool {
    range.step_by(PAGE as usize).enumerate().all(|(page, at)| read(at) == Some(seed ^ page as u8 | 1))
}

fn is_zero(range: Range<u64>) -> bool {
    range.step_by(PAGE as usize).all(|at| read(at) == Some(0))
}

/// The kernel's mappings in a range.
fn mappings_in(range: &Range<u64>) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").expect("it is there");
    let ends = maps.lines().filter_map(|line| line.split_once(' ')?.0.split_once('-'));
    let ends = ends.map(|(start, end)| [start, end].map(|end| u64::from_str_radix(end, 16).expect("hexadecimal")));
    ends.filter(|[start, end]| *start < range.end && *end > range.start).count()
}

#[test]
fn pages_move_in_and_out_with_what_they_hold() {
    let _one = one_at_a_time();
    let mut bench = Bench::new();
    // Aligned alike, and not.
    for behind in [0, 512, 3] {
        let at = bench.map(SIZE + 2 * PAGE, MapAccess::ReadWrite).expect("memory");
        let buffer = bench.buffer(behind, SIZE + PAGE);
        let place = at + PAGE..at + PAGE + SIZE;
        fill(buffer..buffer + SIZE, 0x40);
        fill(at..at + SIZE + 2 * PAGE, 0x20);
        let charged = bench.charged();
        bench.move_in(buffer, place.clone()).expect("it is moved");
        assert!(holds(place.clone(), 0x40) && is_zero(buffer..buffer + SIZE));
        assert_eq!(
            (read(at), read(place.end)),
            (Some(0x21), Some(0x20 ^ (SIZE / PAGE + 1) as u8 | 1)),
            "what is beside"
        );
        assert!(write(place.start, 9) && write(buffer, 8), "both may be written to");
        assert_eq!((read(place.start), read(buffer), bench.charged()), (Some(9), Some(8), charged));
        fill(place.clone(), 0x60);
        assert_eq!(bench.move_out(place.clone(), buffer), Ok(true));
        assert!(holds(buffer..buffer + SIZE, 0x60) && is_zero(place.clone()));
        assert_eq!(bench.charged(), charged);
        // Once more to the same place, from which nothing had been taken back.
        fill(place.clone(), 0x10);
        bench.move_in(buffer, place.clone()).expect("it is moved");
        assert!(holds(place, 0x60) && is_zero(buffer..buffer + SIZE));
        assert_eq!(mappings_in(&WINDOW), 1, "the window is a part of the reservation");
        bench.unmap(at..at + SIZE + 2 * PAGE).expect("it is mapped");
        bench.space.renew_arena(buffer..buffer + SIZE, Key::FUNCTIONS).expect("new pages");
    }
}

#[test]
fn a_part_of_a_page_is_copied() {
    let _one = one_at_a_time();
    let mut bench = Bench::new();
    let at = bench.map(MOVED_MIN + 2 * PAGE, MapAccess::ReadWrite).expect("memory");
    let buffer = bench.buffer(0, MOVED_MIN + PAGE);
    for bytes in [1, PAGE, PAGE + 1, MOVED_MIN - 1, MOVED_MIN, MOVED_MIN + 100] {
        let last = bytes - 1;
        assert!(write(buffer + last, 7) && write(buffer + bytes, 6) && write(at + bytes, 5));
        bench.move_in(buffer, at..at + bytes).expect("it is moved");
        assert_eq!((read(at + last), read(at + bytes)), (Some(7), Some(5)), "{bytes}");
        assert!(is_zero(buffer..buffer + page_down(bytes)));
        let moved = bench.move_out(at..at + bytes, buffer);
        assert_eq!((moved, read(buffer + last)), (Ok(bytes >= MOVED_MIN), Some(7)), "{bytes}");
        assert!(is_zero(at..at + page_down(bytes)));
        assert_eq!(read(at + bytes), Some(5));
    }
}

#[test]
fn only_writable_memory_is_moved() {
    use MapAccess::{None as Nothing, Read, ReadWrite};
    let _one = one_at_a_time();
    let mut bench = Bench::new();
    let buffer = bench.buffer(0, SIZE);
    fill(buffer..buffer + SIZE, 0x40);
    let at = bench.map(SIZE, ReadWrite).expect("memory");
    fill(at..at + SIZE, 0x20);
    for (access, writable) in [(Read, false), (Nothing, false), (ReadWrite, true)] {
        bench.protect(at + 3 * PAGE..at + 4 * PAGE, access).expect("rights");
        let refused = |range: Range<u64>, bench: &mut Bench| {
            assert_eq!(bench.move_in(buffer, range.clone()), Err(Errno::Fault));
            assert_eq!(bench.move_out(range, buffer), Err(Errno::Fault));
        };
        if !writable {
            refused(at..at + SIZE, &mut bench);
        }
        refused(at + 8..at + MOVED_MIN, &mut bench);
        refused(at - PAGE..at + MOVED_MIN, &mut bench);
        refused(at + PAGE..at + SIZE + 1, &mut bench);
        refused(at..at, &mut bench);
        refused(buffer..buffer + SIZE, &mut bench);
    }
    assert!(holds(at..at + SIZE, 0x20) && holds(buffer..buffer + SIZE, 0x40));
    assert_eq!(bench.move_in(buffer, at..at + SIZE), Ok(()));
}

/// A source that is several mappings, because parts of it were moved before, from places far from each other, is copied: moved, it would be as many
/// wherever it goes, and the next time more.
#[test]
fn a_source_of_many_mappings_is_copied() {
    let _one = one_at_a_time();
    let mut bench = Bench::new();
    let (buffer, other) = (bench.buffer(0, SIZE), bench.buffer(4096, SIZE));
    let at = bench.map(SIZE, MapAccess::ReadWrite).expect("memory");
    for (index, page) in [3u64, 40, 90, 300].into_iter().enumerate() {
        let from = buffer + (20 * index as u64 + 5) * PAGE;
        fill(from..from + MOVED_MIN, 0x30);
        bench.move_in(from, at + page * PAGE..at + page * PAGE + MOVED_MIN).expect("it is moved");
    }
    assert!(mappings_in(&(at..at + SIZE)) > 4, "otherwise this shows nothing");
    fill(at..at + SIZE, 0x50);
    assert_eq!(bench.move_out(at..at + SIZE, other), Ok(false));
    assert!(holds(other..other + SIZE, 0x50) && is_zero(at..at + SIZE));
    assert_eq!(mappings_in(&(other..other + SIZE)), 1);
    bench.move_in(other, at..at + SIZE).expect("it is moved");
    assert!(holds(at..at + SIZE, 0x50) && is_zero(other..other + SIZE));
    assert_eq!(mappings_in(&WINDOW), 1);
}

/// Pages of an image are its file's: what leaves are copies, and the place is ordinary memory afterwards.
#[test]
fn pages_of_an_image_are_copied_out_and_replaced() {
    let _one = one_at_a_time();
    let mut bench = Bench::new();
    let buffer = bench.buffer(0, SIZE);
    let file = nix::sys::memfd::memfd_create(c"image", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).expect("a file");
    let file = fs::File::from(file);
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![7; SIZE as usize], 0).expect("written");
    let at = bench.map(SIZE, MapAccess::ReadWrite).expect("memory");
    let map = |bench: &mut Bench| {
        bench.with(|memory, pages| memory.map_image(pages, at..at + SIZE, file.as_fd(), 0)).expect("an image");
    };
    map(&mut bench);
    assert!(write(at + PAGE, 8));
    assert_eq!(bench.move_out(at..at + SIZE, buffer), Ok(false));
    assert_eq!((read(buffer), read(buffer + PAGE), read(buffer + SIZE - 1)), (Some(7), Some(8), Some(7)));
    assert!(is_zero(at..at + SIZE) && write(at, 1));
    map(&mut bench);
    bench.move_in(buffer, at..at + SIZE).expect("it is moved");
    assert_eq!((read(at), read(at + PAGE)), (Some(7), Some(8)));
    bench.discard(at..at + SIZE).expect("it is freed");
    assert!(is_zero(at..at + SIZE), "nothing of the file shows");
    let mut byte = [0];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, PAGE).expect("read");
    assert_eq!(byte, [7]);
}

/// Pages that show the copy of a cell belong to the copy: what leaves are copies, and what comes is memory of the cell.
#[test]
fn pages_of_a_checkpoint_are_copied_out_and_replaced() {
    let _one = one_at_a_time();
    let mut bench = Bench::new();
    let buffer = bench.buffer(0, SIZE);
    let at = bench.map(2 * SIZE, MapAccess::ReadWrite).expect("memory");
    let ranges: Vec<_> = bench.memory.ranges().collect();
    let file = nix::sys::memfd::memfd_create(c"copy", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).expect("a file");
    let file = fs::File::from(file);
    file.set_len(THREAD_STACKS_OFFSET).expect("a length");
    let held = |offset: u64, bytes: &[u8]| {
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, at - CELLS_BASE + offset).expect("written");
    };
    held(0, &vec![7; 2 * SIZE as usize]);
    let room = CELLS_BASE + (1 << 30)..TOP;
    let Bench { space, memory, .. } = &mut bench;
    memory.rebuild(space, Key::FUNCTIONS, room, &ranges, file.as_fd(), CELLS_BASE).expect("a mapping of the copy");
    assert!(bench.memory.shows(&ranges));
    assert_eq!(bench.move_out(at..at + SIZE, buffer), Ok(false));
    held(0, &vec![9; SIZE as usize]);
    assert_eq!((read(buffer), read(buffer + SIZE - 1)), (Some(7), Some(7)), "the copy is not the buffer's");
    assert!(is_zero(at..at + SIZE) && !bench.memory.shows(&ranges), "a rewind maps it anew");
    bench.move_in(buffer, at + SIZE..at + 2 * SIZE).expect("it is moved");
    held(SIZE, &vec![9; SIZE as usize]);
    assert_eq!(read(at + SIZE), Some(7), "the copy does not show");
    bench.discard(at + SIZE..at + 2 * SIZE).expect("it is freed");
    assert!(is_zero(at + SIZE..at + 2 * SIZE));
}

/// Memory that grows by much may have huge pages, and the kernel's mappings are counted.
#[test]
fn memory_that_grows_by_much_is_counted_with_its_ends() {
    let _one = one_at_a_time();
    let mut bench = Bench::new();
    let at = bench.map(48 << 20, MapAccess::None).expect("a reservation");
    let grow = |bench: &mut Bench, from: u64, to: u64| {
        bench.protect(at + (from << 20)..at + (to << 20), MapAccess::ReadWrite).expect("memory");
    };
    grow(&mut bench, 0, 4);
    assert_eq!(bench.memory.count(), 2, "the first piece is as it was");
    // What older kernels make of a reservation is not what is counted here.
    let first = mappings_in(&(at..at + (48 << 20)));
    let more = || mappings_in(&(at..at + (48 << 20))) - first;
    grow(&mut bench, 4, 5);
    assert_eq!(bench.memory.count(), 2, "a little");
    grow(&mut bench, 5, 9);
    grow(&mut bench, 9, 20);
    assert!(more() <= bench.memory.count() - 2);
    assert_eq!(bench.memory.count(), 4, "two that touch are one");
    let buffer = bench.buffer(0, SIZE);
    bench.move_in(buffer, at + (8 << 20)..at + (8 << 20) + SIZE).expect("it is moved");
    assert!(more() <= bench.memory.count() - 2);
}

/// However often pages are moved to whatever places, the kernel's mappings are within what is counted; where there would be too many,
/// bytes are copied.
#[test]
fn moves_by_chance_stay_within_the_count_of_mappings() {
    const PAGES: u64 = 4096;
    let _one = one_at_a_time();
    let mut bench = Bench::new();
    let buffer = bench.buffer(0, PAGES * PAGE);
    let at = bench.map(PAGES * PAGE, MapAccess::ReadWrite).expect("memory");
    let mut random = 0x0123_4567_89ab_cdefu64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) % below
    };
    let mut expected = vec![0u8; PAGES as usize];
    for step in 0..1500u64 {
        let (len, byte) = (16 + next(4), step as u8 | 1);
        let (page, from) = (next(PAGES - len), next(PAGES - len));
        let place = at + page * PAGE..at + (page + len) * PAGE;
        if step % 8 == 7 {
            // The highest place that is free is the one that becomes free here.
            bench.unmap(place.clone()).expect("it is mapped");
            assert_eq!(bench.map(len * PAGE, MapAccess::ReadWrite), Ok(place.start));
            expected[page as usize..(page + len) as usize].fill(0);
            continue;
        }
        let source = buffer + from * PAGE;
        (0..len).for_each(|index| assert!(write(source + index * PAGE, byte)));
        bench.move_in(source, place).expect("it is moved or copied");
        expected[page as usize..(page + len) as usize].fill(byte);
        let counted = bench.memory.count();
        assert!(counted <= MAP_RANGES_MAX, "{counted}");
        if step % 100 == 0 {
            let mappings = mappings_in(&(at..at + PAGES * PAGE));
            assert!(mappings <= counted + 1, "step {step}: {mappings} and {counted} counted");
        }
    }
    let found: Vec<_> = (0..PAGES).map(|page| read(at + page * PAGE)).collect();
    assert!(found.iter().zip(&expected).all(|(found, byte)| *found == Some(*byte)));
    // Another instance finds none of them, in one mapping.
    let Bench { space, memory, .. } = &mut bench;
    memory.reset(space).expect("it is reset");
    assert!(mappings_in(&(at..at + PAGES * PAGE)) == 1 && memory.count() == 0);
    bench.accounts.open(0, ID, LIMIT, 0);
    assert_eq!(bench.map(PAGES * PAGE, MapAccess::ReadWrite), Ok(at));
    assert!(is_zero(at..at + PAGES * PAGE));
}

/// Pages of the arena that memory of a cell has come to are one mapping with their neighbours again when they have been renewed.
#[test]
fn renewed_pages_of_the_arena_are_as_their_neighbours() {
    let _one = one_at_a_time();
    let mut bench = Bench::new();
    let whole = ARENA_BASE..ARENA_BASE + (16 << 20);
    bench.buffer(0, 16 << 20);
    whole.clone().step_by(PAGE as usize).for_each(|page| assert!(write(page, 1)));
    let at = bench.map(SIZE, MapAccess::ReadWrite).expect("memory");
    fill(at..at + SIZE, 0x40);
    let before = mappings_in(&whole);
    let place = ARENA_BASE + (4 << 20);
    assert_eq!(bench.move_out(at..at + SIZE, place), Ok(true));
    assert_eq!(mappings_in(&whole), before + 2);
    bench.space.renew_arena(place..place + SIZE, Key::FUNCTIONS).expect("new pages");
    assert!(is_zero(place..place + SIZE) && write(place, 1));
    assert_eq!((mappings_in(&whole), read(place - PAGE)), (before, Some(1)));
}

/// More than is moved under one lock.
#[test]
fn very_much_is_moved_piece_by_piece() {
    let _one = one_at_a_time();
    let mut bench = Bench::new();
    let account = bench.accounts.of(0, ID).expect("it is open");
    let size = 2 * MOVED_AT_ONCE + MOVED_MIN;
    assert!(!account.charge(size as i64), "more than the test may use");
    bench.accounts.open(0, ID, 2 * size, 0);
    let buffer = bench.buffer(0, size);
    let at = bench.map(size, MapAccess::ReadWrite).expect("memory");
    fill(buffer..buffer + size, 0x40);
    bench.move_in(buffer, at..at + size).expect("it is moved");
    assert!(holds(at..at + size, 0x40) && is_zero(buffer..buffer + size));
}

/// A thread that reads the place all the time finds what was there or what is moved there, and never a hole.
#[test]
fn who_looks_meanwhile_sees_the_old_pages_or_the_new_ones() {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    let _one = one_at_a_time();
    let mut bench = Bench::new();
    let buffer = bench.buffer(0, SIZE);
    let at = bench.map(SIZE, MapAccess::ReadWrite).expect("memory");
    let (stop, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for page in [at, at + SIZE / 2 / PAGE * PAGE, at + SIZE - PAGE] {
                    // SAFETY: a page that is readable and writable all the time; otherwise this thread faults and the test fails.
                    let byte = unsafe { (page as *const u8).read_volatile() };
                    assert!([0, 3, 5].contains(&byte), "{byte}");
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let mut round = 0u32;
        while round < 200 || seen.load(Ordering::Relaxed) < 1000 {
            let byte = if round.is_multiple_of(2) { 3 } else { 5 };
            (buffer..buffer + SIZE).step_by(PAGE as usize).for_each(|page| assert!(write(page, byte)));
            bench.move_in(buffer, at..at + SIZE).expect("it is moved");
            if round.is_multiple_of(3) {
                bench.move_out(at..at + SIZE, buffer).expect("it is moved");
            }
            round += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
}
