//! Mappings that show a memory file, and stores to it.

use super::*;
use crate::address_space::AddressSpace;
use crate::keys::{Key, Keys};
use crate::one_at_a_time;
use crate::pager::runs::plan;
use crate::pager::source::Source;
use crate::pager::window::Window;
use monohull_abi::file::Extent;
use monohull_abi::layout::{MAPPINGS_OFFSET, PAGE, cell_base};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::AtomicBool;
use std::thread;

const PAGES: u64 = 100;
const LEN: u64 = PAGES * PAGE;
/// Pages that are copied together.
const GROUP: u64 = 16;

/// The byte at the start of a page, wherever it is mapped.
fn byte(address: u64) -> u8 {
    // SAFETY: the tests name pages that are mapped and readable.
    unsafe { (address as *const u8).read_volatile() }
}

/// A memory file, where trusted code sees it, and an address space to map it into.
struct Scene {
    space: AddressSpace,
    file: File,
    view: u64,
    shown: Shown,
}

impl Scene {
    /// Each page begins with its number.
    fn new() -> Scene {
        let space = AddressSpace::reserve(Keys::disabled()).expect("the address space");
        let file = File::from(memfd_create(c"shown", MFdFlags::MFD_CLOEXEC).expect("a memory file"));
        file.set_len(LEN).expect("room");
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the kernel likes; it replaces nothing.
        let view =
            unsafe { libc::mmap(std::ptr::null_mut(), LEN as usize, rights, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(view, libc::MAP_FAILED);
        let scene = Scene { space, file, view: view as u64, shown: Shown::default() };
        (0..PAGES).for_each(|page| scene.write(page, page as u8));
        scene
    }

    /// Stores without asking.
    fn write(&self, page: u64, byte: u8) {
        // SAFETY: the view is the test's own, and no reference leads to it.
        unsafe { ((self.view + page * PAGE) as *mut u8).write_volatile(byte) };
    }

    /// Stores as modules do.
    fn store(&self, page: u64, byte: u8) {
        let keep = |mapping: &Mapping, bytes: &Range<u64>| mapping.keep(&self.space, bytes);
        let number = self.shown.store_begins(self.view + page * PAGE, 1, keep).expect("memory for copies");
        self.write(page, byte);
        self.shown.store_ended(number);
    }

    /// Maps all but the end of the last page into a cell, as the pager does.
    fn map(&self, cell: usize, writable: bool) -> Option<Arc<Mapping>> {
        let start = cell_base(cell) + MAPPINGS_OFFSET;
        let len = LEN - 100;
        let source = Source::of_extents(&[Extent { address: self.view, len }]);
        let window = |address: u64| {
            let offset = address - self.view;
            Some(Window { file: self.file.as_fd(), offset, len: LEN - offset })
        };
        let plan = plan(&source, len, window);
        assert_eq!(plan.len(), 1, "one run, without the last page");
        let file = ("file".to_owned(), 0);
        let mapping = Mapping::new(start..start + LEN, len, 1, Key::FUNCTIONS, file, source, writable);
        let mapping = Arc::new(mapping);
        if !self.shown.enter(&mapping, plan.iter().map(|planned| planned.run.clone()).collect()) {
            return None;
        }
        mapping.show(&self.space, &mut mapping.lock(), plan).expect("shown");
        assert_eq!(mapping.not_shown(&mapping.lock()), PAGE);
        // The last page is filled by the copy routine, whose faults only carriers survive; it has none here.
        mapping.fill_all(&self.space, &mapping.lock()).expect("filled");
        self.shown.wait_for_stores(|| false).expect("nothing interrupts");
        Some(mapping)
    }

    fn unmap(&self, mapping: &Arc<Mapping>) {
        mapping.end(&self.space, None);
        self.shown.remove(mapping);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // SAFETY: the mapping is the test's own.
        unsafe { libc::munmap(self.view as *mut libc::c_void, LEN as usize) };
    }
}

/// What the kernel says of the mapping around an address.
fn rights(address: u64) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("mappings");
    let around = maps.lines().find(|line| {
        let (start, rest) = line.split_once('-').expect("two addresses");
        let end = rest.split(' ').next().expect("an end");
        let of = |text| u64::from_str_radix(text, 16).expect("hexadecimal");
        (of(start)..of(end)).contains(&address)
    });
    around.and_then(|line| line.split(' ').nth(1)).expect("rights").to_owned()
}

#[test]
fn what_is_shown_is_copied_before_a_store() {
    let _one = one_at_a_time();
    let scene = Scene::new();
    for writable in [false, true] {
        let mapping = scene.map(0, writable).expect("mapped");
        let seen = |page: u64| byte(mapping.range.start + page * PAGE);
        let should = if writable { "rw-p" } else { "r--p" };
        assert!((0..PAGES).all(|page| seen(page) == page as u8));
        assert_eq!(rights(mapping.range.start), should);
        scene.write(3, 77);
        assert_eq!(seen(3), 77, "the positive control: without a word to the visor a store is seen");
        scene.store(3, 3);
        assert_eq!((seen(3), byte(scene.view + 3 * PAGE)), (77, 3));
        scene.write(GROUP - 1, 99);
        assert_eq!(seen(GROUP - 1), (GROUP - 1) as u8, "pages are copied in groups");
        scene.store(GROUP - 1, (GROUP - 1) as u8);
        for page in [GROUP, 60, PAGES - 2] {
            scene.store(page, 200);
            assert_eq!((seen(page), byte(scene.view + page * PAGE)), (page as u8, 200));
            scene.store(page, page as u8);
            assert_eq!(rights(mapping.range.start + page * PAGE), should, "its rights are what they were");
        }
        scene.store(PAGES - 1, 1);
        assert_eq!(seen(PAGES - 1), (PAGES - 1) as u8, "the page that is not full is a copy from the start");
        scene.store(PAGES - 1, (PAGES - 1) as u8);
        scene.unmap(&mapping);
        assert!(scene.shown.read().by_source.is_empty());
        scene.store(3, 3);
    }
}

#[test]
fn stores_to_a_mapping_are_in_no_other_and_not_in_the_file() {
    let _one = one_at_a_time();
    let scene = Scene::new();
    let [one, other] = [0, 1].map(|cell| scene.map(cell, true).expect("mapped"));
    // SAFETY: the page is mapped and writable, and no reference leads to it.
    unsafe { ((one.range.start + 5 * PAGE) as *mut u8).write_volatile(42) };
    assert_eq!((byte(scene.view + 5 * PAGE), byte(other.range.start + 5 * PAGE)), (5, 5));
    scene.store(5, 43);
    let all = [one.range.start, other.range.start, scene.view].map(|start| byte(start + 5 * PAGE));
    assert_eq!(all, [42, 5, 43]);
    scene.unmap(&one);
    scene.store(6, 44);
    assert_eq!(byte(other.range.start + 6 * PAGE), 6, "the other one is kept for still");
    scene.unmap(&other);
}

#[test]
fn a_byte_is_shown_by_few_mappings() {
    let _one = one_at_a_time();
    let scene = Scene::new();
    let mappings: Vec<_> = (0..OF_A_BYTE).map(|cell| scene.map(cell, false).expect("mapped")).collect();
    assert!(scene.map(OF_A_BYTE, false).is_none());
    scene.unmap(&mappings[3]);
    let again = scene.map(OF_A_BYTE, false).expect("there is room again");
    scene.store(50, 1);
    assert_eq!(byte(again.range.start + 50 * PAGE), 50);
    for mapping in mappings.iter().chain([&again]) {
        scene.unmap(mapping);
    }
}

/// What another process has cut off a file cannot be stored to, and stands in no other store's way.
#[test]
fn what_is_gone_is_not_copied() {
    let _one = one_at_a_time();
    let scene = Scene::new();
    let mapping = scene.map(0, false).expect("mapped");
    scene.file.set_len(10 * PAGE).expect("shorter");
    let keep = |mapping: &Mapping, bytes: &Range<u64>| mapping.keep(&scene.space, bytes);
    let number = scene.shown.store_begins(scene.view, LEN, keep).expect("what is there is copied");
    scene.write(9, 1);
    scene.shown.store_ended(number);
    assert_eq!(
        (0..10).map(|page| byte(mapping.range.start + page * PAGE)).collect::<Vec<_>>(),
        (0..10).collect::<Vec<_>>()
    );
    assert!(mapping.lock().lost(10).is_some() && mapping.lock().lost(PAGES - 1).is_none());
    scene.unmap(&mapping);
}

/// Mappings come and go while others store: what one has shown of a page it goes on showing.
#[test]
fn no_store_is_seen_in_a_page_that_was_looked_at() {
    let _one = one_at_a_time();
    let scene = Scene::new();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for first in 0..2 {
            let (scene, stop) = (&scene, &stop);
            scope.spawn(move || {
                let mut number = 0u8;
                while !stop.load(Ordering::Relaxed) {
                    number = number.wrapping_add(1);
                    (first..PAGES).step_by(2).for_each(|page| scene.store(page, number));
                }
            });
        }
        for round in 0..200 {
            let mapping = scene.map(round % 3, round % 2 == 0).expect("mapped");
            let look = || (0..PAGES).map(|page| byte(mapping.range.start + page * PAGE)).collect::<Vec<_>>();
            let seen = look();
            thread::yield_now();
            for _ in 0..20 {
                assert_eq!(look(), seen, "round {round}");
            }
            scene.unmap(&mapping);
        }
        stop.store(true, Ordering::Relaxed);
    });
}
