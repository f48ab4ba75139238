//! Rights, contents and charges of mapped memory, and how many mappings the kernel has of it.

mod moves;

use super::*;
use crate::account::Accounts;
use crate::carrier::Carrier;
use crate::keys::Keys;
use crate::{install_fault_handlers, one_at_a_time};
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

/// Memory that grows step by step is one mapping of the kernel, however many steps there were.
#[test]
fn steps_of_growth_are_no_ranges() {
    let _one = one_at_a_time();
    let mut bench = Bench::new();
    let steps = LIMIT / GROWS_BY;
    let at = bench.map(LIMIT, MapAccess::None).expect("a reservation");
    for step in 0..steps {
        bench.protect(at + step * GROWS_BY..at + (step + 1) * GROWS_BY, MapAccess::ReadWrite).expect("memory");
        assert!(write(at + step * GROWS_BY, 7));
    }
    // The first step is like any memory, and the others may be huge.
    assert!(bench.memory.count() <= 4, "{}", bench.memory.count());
    assert!(kernel_mappings() <= 6, "{}", kernel_mappings());
    bench.unmap(at..at + LIMIT).expect("all of it");
    assert_eq!((bench.memory.count(), bench.charged()), (0, 0));
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
