//! Memory of each kind that is written, zeroed, dropped, grown, mapped, hidden and handed on, in an order that looks random and is always the same.
//! What each page must hold is known at any time, and is looked at again and again.

use core::iter;
use core::slice;
use monohull_abi::layout::PAGE;
use monohull_abi::number::{DISCARD, MAP, PROTECT, UNMAP};
use monohull_abi::types::MapAccess;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, indexed_name};
use monohull_std::thread;
use monohull_std::time::Duration;
use monohull_trampoline::user::hostcall;

/// The most blocks at a time, and the most pages of one.
const BLOCKS: u64 = 24;
const PAGES: u64 = 8;
/// Pages beside them that stay as they are.
const UNCHANGED: u64 = 1024;
/// The slots in which buffers are, while they are in none of the function's variables.
const SLOT: &str = "part";

/// Some pages.
struct Block {
    place: Place,
    /// What each page was filled from; zero for one that is zero.
    seeds: Vec<u64>,
    /// It has been mapped, and is not accessible now.
    hidden: bool,
}

/// Where they are.
enum Place {
    Heap(Vec<u8>),
    Mapped(u64),
    /// In the slot with this number.
    Slot(usize),
}

/// Does so many steps; a number that depends on each.
pub(super) fn change(steps: u64) -> u64 {
    let (mut random, mut blocks, mut slots) = (Random(0x2545_f491_4f6c_dd1d), Vec::new(), 0);
    let seeds: Vec<u64> = (1..=UNCHANGED).collect();
    let mut unchanged = vec![0; (UNCHANGED * PAGE) as usize];
    fill(&mut unchanged, &seeds);
    for _ in 0..steps {
        step(&mut random, &mut blocks, &mut slots);
    }
    check(&unchanged, &seeds);
    blocks.drain(..).fold(random.next(), |sum, mut block| {
        block.check();
        let sum = block.seeds.iter().fold(sum, |sum, seed| sum.rotate_left(7).wrapping_add(*seed));
        block.drop();
        sum
    })
}

/// So many parts of so many pages, with as many pages of zeros between them. They are looked at after each of two naps, with a line for each; behind the
/// first one a page of each gap is written to.
pub(super) fn alternate((parts, pages): (usize, usize), nap: Duration) {
    let mut seeds: Vec<u64> = (0..parts as u64).flat_map(|part| gapped(part + 1, pages)).collect();
    let mut room = vec![0; (seeds.len() + 1) * PAGE as usize];
    let first = room.as_ptr().align_offset(PAGE as usize);
    let bytes = &mut room[first..][..seeds.len() * PAGE as usize];
    fill_parts(bytes, &seeds);
    for time in 0..2 {
        thread::sleep(nap);
        check(bytes, &seeds);
        println!("whole after nap {time}");
        seeds.iter_mut().skip(pages).step_by(2 * pages).for_each(|seed| *seed = 7);
        fill_parts(bytes, &seeds);
    }
    check(bytes, &seeds);
}

/// A part and the gap behind it.
fn gapped(seed: u64, pages: usize) -> impl Iterator<Item = u64> {
    iter::repeat_n(seed, pages).chain(iter::repeat_n(0, pages))
}

/// Fills the pages that are not zero.
fn fill_parts(bytes: &mut [u8], seeds: &[u64]) {
    for (page, seed) in bytes.chunks_exact_mut(PAGE as usize).zip(seeds).filter(|(_, seed)| **seed != 0) {
        fill(page, &[*seed]);
    }
}

fn step(random: &mut Random, blocks: &mut Vec<Block>, slots: &mut usize) {
    let seeds = |random: &mut Random| (0..=random.below(PAGES - 1)).map(|_| random.seed()).collect::<Vec<_>>();
    let kind = if blocks.is_empty() { 0 } else { random.below(13) };
    if blocks.len() as u64 == BLOCKS {
        blocks.swap_remove(random.below(BLOCKS) as usize).drop();
    }
    match kind {
        0 => {
            let seeds = seeds(random);
            let mut bytes = vec![0; seeds.len() * PAGE as usize];
            fill(&mut bytes, &seeds);
            blocks.push(Block::new(Place::Heap(bytes), seeds));
        }
        1 => {
            let seeds = vec![0; 1 + random.below(PAGES) as usize];
            let bytes = seeds.len() as u64 * PAGE;
            let address = hostcall(MAP, [bytes, 0, MapAccess::ReadWrite as u64, 0, 0, 0]);
            blocks.push(Block::new(Place::Mapped(u64::try_from(address).expect("there is room")), seeds));
        }
        2 => {
            let seeds = seeds(random);
            let mut block = Block::new(Place::Slot(*slots), seeds);
            let mut buffer = SlotBuffer::<[u8]>::with_slot_len(&indexed_name(SLOT, *slots), block.bytes());
            fill(&mut buffer, &block.seeds);
            *slots += 1;
            blocks.push(block);
        }
        _ => {
            let index = random.below(blocks.len() as u64) as usize;
            let page = random.below(blocks[index].seeds.len() as u64) as usize;
            match kind {
                3..=7 => blocks[index].write(page, random.seed(), slots),
                8 => blocks.swap_remove(index).drop(),
                9 => blocks[index].grow(random.seed()),
                10 => blocks[index].discard(page),
                11 => blocks[index].protect(MapAccess::None),
                _ => blocks[index].check(),
            }
        }
    }
}

impl Block {
    fn new(place: Place, seeds: Vec<u64>) -> Block {
        Block { place, seeds, hidden: false }
    }

    /// Changes the rights of mapped pages, which hold what they held.
    fn protect(&mut self, access: MapAccess) {
        let bytes = self.bytes() as u64;
        if let Place::Mapped(address) = self.place {
            assert_eq!(hostcall(PROTECT, [address, bytes, access as u64, 0, 0, 0]), 0);
            self.hidden = access == MapAccess::None;
        }
    }

    fn bytes(&mut self) -> usize {
        self.seeds.len() * PAGE as usize
    }

    /// Its pages, unless they are in a slot. They are accessible from here on.
    fn pages(&mut self) -> Option<&mut [u8]> {
        let len = self.bytes();
        if self.hidden {
            self.protect(MapAccess::ReadWrite);
        }
        match &mut self.place {
            Place::Heap(bytes) => Some(bytes),
            // SAFETY: the block has mapped these pages, and is borrowed.
            Place::Mapped(address) => Some(unsafe { slice::from_raw_parts_mut(*address as *mut u8, len) }),
            Place::Slot(_) => None,
        }
    }

    /// Takes its buffer out of the slot.
    fn take(&self) -> Option<SlotBuffer<[u8]>> {
        match self.place {
            Place::Slot(number) => Some(SlotBuffer::from_slot(&indexed_name(SLOT, number)).expect("it is there")),
            _ => None,
        }
    }

    /// Fills a page anew. A buffer in a slot goes to another one then.
    fn write(&mut self, page: usize, seed: u64, slots: &mut usize) {
        let place = page * PAGE as usize..(page + 1) * PAGE as usize;
        self.seeds[page] = seed;
        if let Some(pages) = self.pages() {
            return fill(&mut pages[place], &[seed]);
        }
        let mut buffer = self.take().expect("it is in a slot");
        fill(&mut buffer[place], &[seed]);
        buffer.hand_on(&indexed_name(SLOT, *slots)).expect("the slot is free");
        self.place = Place::Slot(*slots);
        *slots += 1;
    }

    /// A heap block becomes longer, and may move.
    fn grow(&mut self, seed: u64) {
        if let (Place::Heap(bytes), true) = (&mut self.place, (self.seeds.len() as u64) < PAGES) {
            let end = bytes.len();
            bytes.resize(end + PAGE as usize, 0);
            fill(&mut bytes[end..], &[seed]);
            self.seeds.push(seed);
        }
    }

    /// The memory of a mapped page is freed.
    fn discard(&mut self, page: usize) {
        if let Place::Mapped(address) = self.place {
            assert_eq!(hostcall(DISCARD, [address + page as u64 * PAGE, PAGE, 0, 0, 0, 0]), 0);
            self.seeds[page] = 0;
        }
    }

    fn check(&mut self) {
        let seeds = self.seeds.clone();
        if let Some(pages) = self.pages() {
            return check(pages, &seeds);
        }
        let buffer = self.take().expect("it is in a slot");
        check(&buffer, &seeds);
        let Place::Slot(number) = self.place else { return };
        buffer.hand_on(&indexed_name(SLOT, number)).expect("the slot is free");
    }

    /// Frees its memory.
    fn drop(mut self) {
        let bytes = self.bytes() as u64;
        match self.place {
            Place::Heap(_) => {}
            Place::Mapped(address) => assert_eq!(hostcall(UNMAP, [address, bytes, 0, 0, 0, 0]), 0),
            Place::Slot(_) => self.take().expect("it is in a slot").discard(),
        }
    }
}

/// What a word of a page holds.
pub(super) fn word(seed: u64, index: usize) -> u64 {
    match seed {
        0 => 0,
        seed => seed.rotate_left(index as u32 % 64) ^ index as u64,
    }
}

pub(super) fn fill(bytes: &mut [u8], seeds: &[u64]) {
    for (page, seed) in bytes.chunks_exact_mut(PAGE as usize).zip(seeds) {
        let words = page.chunks_exact_mut(8).enumerate();
        words.for_each(|(index, bytes)| bytes.copy_from_slice(&word(*seed, index).to_le_bytes()));
    }
}

pub(super) fn check(bytes: &[u8], seeds: &[u64]) {
    assert_eq!(bytes.len(), seeds.len() * PAGE as usize);
    for (page, seed) in bytes.chunks_exact(PAGE as usize).zip(seeds) {
        let mut words = page.chunks_exact(8).enumerate();
        assert!(
            words.all(|(index, bytes)| *bytes == word(*seed, index).to_le_bytes()),
            "a page does not hold {seed:#x}"
        );
    }
}

/// Xorshift.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A seed: now and then zero, and often one of few, so that pages become what they were.
    pub(super) fn seed(&mut self) -> u64 {
        match self.below(4) {
            0 => 0,
            1 => 1 + self.below(3),
            _ => self.next(),
        }
    }
}
