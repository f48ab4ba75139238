//! What happens to threads that wait for pages. A thread of the test is made a carrier and touches a mapping as hostcalls do, by
//! the copy routine, which survives faults. Only the test itself serves faults here.

use super::MappingTable;
use super::faults::Faults;
use super::mapping::Mapping;
use super::shown::Shown;
use super::source::Source;
use crate::address_space::{Access, AddressSpace};
use crate::carrier::Carrier;
use crate::keys::{Key, Keys};
use crate::{install_fault_handlers, one_at_a_time};
use monohull_abi::file::Extent;
use monohull_abi::layout::{INFO_BASE, INFO_SIZE, MAPPINGS_OFFSET, PAGE, cell_base};
use monohull_trampoline::system::copy;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

const PAGES: u64 = 64;
const START: u64 = cell_base(0) + MAPPINGS_OFFSET;

struct Scene {
    table: MappingTable,
    faults: Faults,
    mapping: Arc<Mapping>,
    bytes: Vec<u8>,
}

impl Scene {
    /// Everything but the thread that serves.
    fn new() -> Scene {
        install_fault_handlers();
        let space = AddressSpace::reserve(Keys::disabled()).expect("the address space");
        space.protect(INFO_BASE..INFO_BASE + INFO_SIZE, Access::ReadWrite, Key::INFO).expect("the info page");
        let faults = Faults::new().expect("userfaultfd");
        let bytes: Vec<u8> = (0..PAGES * PAGE - 100).map(|place| (place / 3) as u8).collect();
        let extents = [Extent { address: bytes.as_ptr() as u64, len: bytes.len() as u64 }];
        let (range, file) = (START..START + PAGES * PAGE, ("file".to_owned(), 0));
        let source = Source::of_extents(&extents);
        let mapping = Mapping::new(range, bytes.len() as u64, 1, Key::FUNCTIONS, file, source, false);
        mapping.open(&space, &faults, &mut mapping.lock()).expect("open");
        let mapping = Arc::new(mapping);
        let table = MappingTable {
            space: Arc::new(space),
            by_start: Mutex::new([(START, mapping.clone())].into()),
            shown: Shown::default(),
            served: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            later: OnceLock::new(),
        };
        Scene { table, faults, mapping, bytes }
    }

    /// A carrier touches a byte, and when it waits `then` happens: what it has seen.
    fn touch(&self, place: u64, then: impl FnOnce(u64)) -> Option<u8> {
        thread::scope(|scope| {
            let touching = scope.spawn(|| {
                let _carrier = Carrier::new(&self.table.space, 0).expect("a carrier");
                let mut byte = 0u8;
                // SAFETY: the byte is ours; a fault at the address is survived, as this thread is a carrier.
                unsafe { copy(&raw mut byte, (START + place) as *const u8, 1) }.then_some(byte)
            });
            let waited_for = loop {
                let waiting = self.faults.take().expect("readable");
                if let Some(address) = waiting.addresses().next() {
                    break Some(address);
                }
                if touching.is_finished() {
                    break None;
                }
                thread::yield_now();
            };
            if let Some(address) = waited_for {
                then(address);
            }
            touching.join().expect("it ends")
        })
    }
}

/// There is one address space in a process: all of it in one test after the other.
#[test]
fn a_thread_that_waits_for_a_page_always_goes_on() {
    let _one = one_at_a_time();
    a_thread_that_waits_gets_the_page();
    a_thread_that_waits_when_the_pager_ends_goes_on();
    a_thread_that_waits_when_the_mapping_is_removed_goes_on();
    pages_that_cannot_be_read_are_removed();
}

fn a_thread_that_waits_gets_the_page() {
    let scene = Scene::new();
    let place = 20 * PAGE + 5;
    let seen = scene.touch(place, |address| {
        assert_eq!(address / PAGE, (START + place) / PAGE);
        scene.table.serve_fault(&scene.faults, address);
    });
    assert_eq!(seen, Some(scene.bytes[place as usize]));
    let alone = |_| panic!("it came with the pages around the first");
    assert_eq!(scene.touch(16 * PAGE, alone), Some(scene.bytes[(16 * PAGE) as usize]));
    let answer = |address| scene.table.serve_fault(&scene.faults, address);
    let last = PAGES * PAGE - 101;
    assert_eq!(scene.touch(last, answer), Some(scene.bytes[last as usize]), "a page that is not full");
    assert_eq!(scene.touch(last + 1, |_| panic!("it is there")), Some(0), "and the rest of it");
}

fn a_thread_that_waits_when_the_pager_ends_goes_on() {
    let scene = Scene::new();
    assert_eq!(scene.touch(5, |_| scene.table.fail_all(&scene.faults)), None);
    let (page, why) = scene.mapping.lock().truncated.clone().expect("it is cut off");
    assert!(page == 0 && why.contains("thread"), "{page}: {why}");
}

fn a_thread_that_waits_when_the_mapping_is_removed_goes_on() {
    let scene = Scene::new();
    let end = |_| scene.mapping.end(&scene.table.space, Some(&scene.faults));
    assert_eq!(scene.touch(5, end), None);
    // The message of the thread that waited may be read after that.
    scene.table.serve_fault(&scene.faults, START + 5);
    assert_eq!(scene.touch(PAGE, |_| panic!("nothing is mapped")), None);
}

fn pages_that_cannot_be_read_are_removed() {
    let scene = Scene::new();
    let extents = [
        Extent { address: scene.bytes.as_ptr() as u64, len: 10 * PAGE },
        // There is no mapping.
        Extent { address: PAGE, len: 10 * PAGE },
    ];
    let range = START + 100 * PAGE..START + 120 * PAGE;
    let source = Source::of_extents(&extents);
    let file = ("damaged".to_owned(), 0);
    let mapping = Arc::new(Mapping::new(range.clone(), 20 * PAGE, 1, Key::FUNCTIONS, file, source, false));
    mapping.open(&scene.table.space, &scene.faults, &mut mapping.lock()).expect("open");
    scene.table.lock().insert(range.start, mapping.clone());
    let answer = |address| scene.table.serve_fault(&scene.faults, address);
    // A page that is read ahead and cannot be read does not harm a thread that does not touch it.
    assert_eq!(scene.touch(109 * PAGE, answer), Some(scene.bytes[(9 * PAGE) as usize]));
    assert!(mapping.lock().truncated.is_none());
    assert_eq!(scene.touch(112 * PAGE, answer), None);
    assert_eq!(mapping.lock().truncated.as_ref().map(|(page, _)| *page), Some(12));
    assert_eq!(scene.touch(110 * PAGE, answer), None);
    assert_eq!(mapping.lock().truncated.as_ref().map(|(page, _)| *page), Some(10));
    assert_eq!(scene.touch(102 * PAGE, answer), Some(scene.bytes[(2 * PAGE) as usize]), "what lies before goes on");
}
