//! What a cell leaves to the next instance, and what it gives back.

use super::super::account::Accounts;
use super::super::carrier::Carrier;
use super::super::keys::Keys;
use super::super::{install_fault_handlers, one_at_a_time};
use super::*;
use crate::mapped_memory::Pages;
use crate::mapped_ranges::RangeState;
use monohull_abi::layout::{INFO_BASE, INFO_SIZE};
use monohull_abi::types::MapAccess;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

const STACK: u64 = 64 << 10;

/// An address space in which the test's thread survives faults of the copy routine, and an image for a cell there. The carrier is dropped before the space, so it comes last.
fn survivable() -> (AddressSpace, Arc<LoadedImage>, Carrier) {
    install_fault_handlers();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/images/no-op.so");
    let image = Arc::new(LoadedImage::open("no-op", &path).expect("images are built first: run `cargo xtask test`"));
    let space = AddressSpace::reserve(Keys::disabled()).expect("address space");
    space.protect(INFO_BASE..INFO_BASE + INFO_SIZE, Access::ReadWrite, Key::INFO).expect("the info page");
    let carrier = Carrier::new(&space, 0).expect("a carrier");
    (space, image, carrier)
}

/// Data of an instance deep in its stack stays there if the host does not wipe locked memory. Then the cell gets no other
/// instance before it has been cleared, and the data does not survive that.
#[test]
fn a_cell_that_cannot_be_wiped_is_refused_and_can_be_cleared() {
    let _one = one_at_a_time();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/images/no-op.so");
    let image = Arc::new(LoadedImage::open("no-op", &path).expect("images are built first: run `cargo xtask test`"));
    let space = AddressSpace::reserve(Keys::disabled()).expect("address space");
    let make = || Cell::new(&space, 0, image.clone(), STACK, Key::FUNCTIONS).expect("a cell");
    let page = cell_base(0) + PAGE;
    // SAFETY: a page of the main stack, which is mapped while there is a cell; no thread runs on it.
    let page_of_stack = || unsafe { std::slice::from_raw_parts_mut(page as *mut u8, PAGE as usize) };

    let mut cell = make();
    page_of_stack().fill(7);
    cell.wipe(&space).expect("memory that is not locked is wiped");
    assert_eq!(page_of_stack(), [0; PAGE as usize]);

    page_of_stack().fill(7);
    // SAFETY: the page is mapped; locking it changes nothing of what it holds.
    assert_eq!(unsafe { libc::mlock(page as *const _, PAGE as usize) }, 0, "one page may be locked");
    cell.wipe(&space).expect_err("locked memory is not wiped");
    assert_eq!(page_of_stack()[0], 7, "otherwise this shows nothing");
    assert_eq!(cell.clear(&space).expect("it is cleared"), 0);
    let _cell = make();
    assert_eq!(page_of_stack(), [0; PAGE as usize]);
}

/// What an instance leaves in its heap and in what it has mapped is freed piece by piece. Little is left to the wipe.
#[test]
fn much_memory_is_freed_in_steps() {
    let _one = one_at_a_time();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/images/no-op.so");
    let image = Arc::new(LoadedImage::open("no-op", &path).expect("images are built first: run `cargo xtask test`"));
    let space = AddressSpace::reserve(Keys::disabled()).expect("address space");
    let mut cell = Cell::new(&space, 0, image, STACK, Key::FUNCTIONS).expect("a cell");
    assert_eq!(cell.free_some(&space, 0), None, "there is little to free");
    let heap = cell.grow_heap(&space, 2 * FREED_AT_ONCE + PAGE).expect("rights").expect("room");
    let at = |step: u64| {
        // SAFETY: a page of the heap, which no thread uses.
        unsafe { &mut *((heap + step * FREED_AT_ONCE) as *mut u8) }
    };
    let held = |byte: u8| (0..3).map(|step| *at(step) == byte).collect::<Vec<_>>();
    (0..3).for_each(|step| *at(step) = 7);
    // The data of the image, which is zero at first, comes before the heap.
    let zeros: u64 = cell.zeros.iter().map(|range| range.end - range.start).sum();
    assert!(zeros < FREED_AT_ONCE);
    let mut steps = vec![held(7)];
    let mut freed = 0;
    while let Some(more) = cell.free_some(&space, freed) {
        assert_eq!(more - freed, FREED_AT_ONCE);
        freed = more;
        steps.push(held(7));
    }
    let (gone, left) = (false, true);
    assert_eq!(steps, [[left, left, left], [gone, left, left], [gone, gone, left]]);
    cell.wipe(&space).expect("memory that is not locked is wiped");
}

#[test]
fn memory_goes_back_to_each_checkpoint_and_nothing_of_the_copy_is_left_in_a_wiped_cell() {
    let _one = one_at_a_time();
    let (space, image, _carrier) = survivable();
    let mut cell = Cell::new(&space, 0, image, STACK, Key::FUNCTIONS).expect("a cell");
    let charged = std::cell::Cell::new(0_i64);
    let charge = |bytes: i64| {
        charged.set(charged.get() + bytes);
        true
    };
    let heap = cell.grow_heap(&space, 4 * PAGE).expect("rights").expect("room");
    let user_rsp = cell.stack(None).end - 4096;
    let page = |index: u64| {
        // SAFETY: a page of the heap, which no thread uses.
        unsafe { &mut *((heap + index * PAGE) as *mut [u8; PAGE as usize]) }
    };
    let record = || Record { user_rsp, stack: vec![5; 4096], ..Record::default() };
    page(0).fill(1);
    let first = cell.add_point(&space, record(), charge).expect("a checkpoint");
    let alone = charged.get();
    page(0)[4000] = 2;
    page(1).fill(2);
    let second = cell.add_point(&space, record(), charge).expect("a checkpoint");
    assert!(charged.get() >= alone + 2 * PAGE as i64, "two pages have changed");
    page(1).fill(3);
    page(2).fill(3);
    assert_eq!(cell.go_back(&space, second, charge).expect("it goes back").1, 1);
    assert_eq!((page(0)[0], page(0)[4000], page(1)[7], page(2)[7]), (1, 2, 2, 0));
    page(3).fill(4);
    let grown = cell.grow_heap(&space, PAGE).expect("rights").expect("room");
    cell.go_back(&space, first, charge).expect("it goes back");
    assert_eq!((*page(0), *page(1), *page(3)), ([1; 4096], [0; 4096], [0; 4096]));
    assert_eq!((cell.heap().end, charged.get()), (grown, alone), "what came later has gone");
    assert!(matches!(cell.go_back(&space, second, charge), Err(PointError::Unknown(_))));
    // SAFETY: the top of the main stack, which no thread uses.
    assert_eq!(unsafe { *(user_rsp as *const u8) }, 5);

    let mapped = || std::fs::read_to_string("/proc/self/maps").expect("mappings").contains("monohull-rewind");
    assert!(mapped(), "otherwise this shows nothing");
    page(0).fill(7);
    cell.wipe(&space).expect("memory that is not locked is wiped");
    assert!(!mapped());
    cell.grow_heap(&space, 4 * PAGE).expect("rights").expect("room");
    assert!((0..4).all(|index| *page(index) == [0; 4096]));
}

/// What the host has done of a call before it refused the rest is undone with the cell.
#[test]
fn memory_of_calls_that_the_host_has_refused_is_wiped() {
    let _one = one_at_a_time();
    let (space, image, _carrier) = survivable();
    let mut cell = Cell::new(&space, 0, image, STACK, Key::FUNCTIONS).expect("a cell");
    let write = |address: u64| {
        let byte = 7_u8;
        // SAFETY: a page of the cell, which no thread uses; one that is not writable is survived.
        unsafe { copy(address as *mut u8, &raw const byte, 1) }
    };
    let heap = cell.grow_heap(&space, PAGE).expect("rights").expect("room");
    let stack = cell.open_stack(&space).expect("rights").expect("room");
    let top = |slot: u32| cell.stack(Some(slot)).end - PAGE;
    let (first, second) = (top(stack), top(stack + 1));
    assert!(write(first) && !write(second), "one stack has rights");
    // As if the guard of the stack, and the second part of the heap, had been refused.
    cell.heap_end = heap;
    assert!(write(heap));
    cell.wipe(&space).expect("memory that is not locked is wiped");
    assert!(!write(heap) && !write(first), "nothing of them has rights");
}

/// What was mapped while there was more heap says nothing of where memory is mapped once the heap has become smaller.
#[test]
fn what_is_mapped_where_the_heap_was_is_wiped() {
    const ID: u32 = 256;
    let _one = one_at_a_time();
    let (space, image, _carrier) = survivable();
    let accounts = Accounts::new();
    accounts.open(0, ID, 64 << 20, 0);
    let account = accounts.of(0, ID).expect("it is open");
    let mut cell = Cell::new(&space, 0, image, STACK, Key::FUNCTIONS).expect("a cell");
    let user_rsp = cell.stack(None).end - 4096;
    let record = Record { user_rsp, stack: vec![5; 4096], ..Record::default() };
    let point = cell.add_point(&space, record, |_| true).expect("a checkpoint");
    cell.grow_heap(&space, 1 << 20).expect("rights").expect("room");
    let work = |cell: &mut Cell, work: &dyn Fn(&mut MappedMemory, &Pages<'_>) -> u64| {
        let (mapped, room, key) = cell.mapped_mut();
        work(mapped, &Pages { space: &space, key, account, room })
    };
    work(&mut cell, &|mapped, pages| {
        let at = mapped.map(pages, PAGE, 0, MapAccess::ReadWrite).expect("a page");
        mapped.unmap(pages, at..at + PAGE).expect("it is mapped");
        at
    });
    cell.go_back(&space, point, |_| true).expect("it goes back");
    let lowest = work(&mut cell, &|mapped, pages| {
        let room = &pages.room;
        let at = mapped.map(pages, room.end - room.start, 0, MapAccess::None).expect("the whole room");
        mapped.protect(pages, at..at + PAGE, MapAccess::ReadWrite).expect("a page of it");
        at
    });
    let mut byte = 7_u8;
    // SAFETY: a page of the cell, which no thread uses; one that is not readable is survived.
    assert!(unsafe { copy(lowest as *mut u8, &raw const byte, 1) }, "otherwise this shows nothing");
    cell.wipe(&space).expect("memory that is not locked is wiped");
    // SAFETY: as above.
    assert!(!unsafe { copy(&raw mut byte, lowest as *const u8, 1) }, "nothing is mapped");
    cell.grow_heap(&space, 1 << 20).expect("rights").expect("room");
    // SAFETY: as above.
    assert!(unsafe { copy(&raw mut byte, lowest as *const u8, 1) } && byte == 0, "heap is zero");
}

/// What is written where a file is shown stays out of the file, and in a wiped cell there is nothing of it: neither in data, which is dropped
/// there and would show it again, nor in heap and mapped memory.
#[test]
fn nothing_of_a_file_is_left_in_a_wiped_cell() {
    let _one = one_at_a_time();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/images/no-op.so");
    let image = Arc::new(LoadedImage::open("no-op", &path).expect("images are built first: run `cargo xtask test`"));
    let space = AddressSpace::reserve(Keys::disabled()).expect("address space");
    let mut cell = Cell::new(&space, 0, image, STACK, Key::FUNCTIONS).expect("a cell");
    let pages = |start: u64, count: u64| {
        // SAFETY: pages of the cell that are writable, and no thread uses.
        unsafe { std::slice::from_raw_parts_mut(start as *mut u8, (count * PAGE) as usize) }
    };
    let data: Vec<_> = joined(cell.data().collect());
    let first: Vec<_> = data.iter().map(|range| pages(range.start, 1).to_vec()).collect();
    let heap = cell.grow_heap(&space, 4 * PAGE).expect("rights").expect("room");
    let (mapped, room, key) = cell.mapped_mut();
    let top = room.end - 4 * PAGE..room.end - PAGE;
    assert!(mapped.adopt(&space, key, &room, &[(top.clone(), RangeState::ReadWrite)]).expect("memory"));
    let file = memfd_create(c"shown", MFdFlags::MFD_CLOEXEC).expect("a file");
    let file = std::fs::File::from(file);
    file.write_all_at(&[7; 8 * PAGE as usize], 0).expect("written");

    let parts = cell.parts_to_show(&(cell.base()..cell.base() + CELL_SIZE));
    let starts: Vec<_> = data.iter().map(|range| range.start).chain([top.start]).collect();
    assert_eq!(parts.iter().map(|part| part.start).collect::<Vec<_>>(), starts, "the heap is behind the data");
    let wanted = data.iter().map(|range| range.start..range.start + PAGE);
    for part in wanted.chain([heap..heap + 2 * PAGE, top.clone()]) {
        assert!(cell.show_file(&space, part.clone(), file.as_fd(), PAGE).expect("a mapping"), "there may be more");
        assert_eq!(pages(part.start, 1), [7; PAGE as usize]);
        pages(part.start, 1).fill(8);
    }
    assert_eq!(pages(heap + 2 * PAGE, 2), [0; 2 * PAGE as usize]);
    let mut held = vec![0; 8 * PAGE as usize];
    file.read_exact_at(&mut held, 0).expect("read");
    assert!(held.iter().all(|byte| *byte == 7), "the file is as before");

    cell.wipe(&space).expect("memory that is not locked is wiped");
    let now: Vec<_> = data.iter().map(|range| pages(range.start, 1).to_vec()).collect();
    assert!(now == first, "data is the image's");
    cell.grow_heap(&space, 4 * PAGE).expect("rights").expect("room");
    assert_eq!(pages(heap, 4), [0; 4 * PAGE as usize]);
    let (mapped, room, key) = cell.mapped_mut();
    assert!(mapped.adopt(&space, key, &room, &[(top.clone(), RangeState::ReadWrite)]).expect("memory"));
    assert_eq!(pages(top.start, 3), [0; 3 * PAGE as usize]);
    let mappings = std::fs::read_to_string("/proc/self/maps").expect("mappings");
    assert!(!mappings.contains("memfd:shown"), "{mappings}");
}
