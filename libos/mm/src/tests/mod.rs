//! The module through its table, in a miniature visor.

mod arena;
mod batches;
mod continuations;
mod effects;
mod endings;
mod events;
mod hostile;
mod mapped;
mod moves;
mod pages;
mod pins;
mod records;
mod slots;
mod threads;

use crate::MONOHULL_MODULE;
use monohull_abi::layout::PAGE;
use monohull_abi::module::{Call, Ending};
use monohull_abi::types::{
    BYTES_FINGERPRINT, FilledSlot, HeldBuffer, MemoryStats, SlotInfo, SlotView, TAKE_NOW, fingerprint,
};
use monohull_abi::{Errno, number};
use monohull_module_testing::{CountingHeap, Domain, Step};
use std::ops::Deref;
use std::string::String;
use std::vec::Vec;

#[global_allocator]
static HEAP: CountingHeap = CountingHeap;

/// Two functions of one workflow.
const A: u32 = 1;
const B: u32 = 2;

const BYTES: Type = Type { name: "[u8]", fingerprint: BYTES_FINGERPRINT, size: 1 };
const WORDS: Type = Type { name: "[u64]", fingerprint: fingerprint(b"[u64]"), size: 8 };

#[derive(Clone, Copy)]
struct Type {
    name: &'static str,
    fingerprint: u64,
    size: u64,
}

/// A domain with the hostcalls as methods.
struct Mm(Domain);

impl Deref for Mm {
    type Target = Domain;

    fn deref(&self) -> &Domain {
        &self.0
    }
}

impl Mm {
    fn start() -> Mm {
        Mm(Domain::start(&MONOHULL_MODULE))
    }

    fn alloc(&self, instance: u32, bytes: u64) -> u64 {
        let address = self.call(instance, number::SLOT_ALLOC, [bytes, 8, 0, 0, 0, 0]);
        assert!(address > 0, "allocating {bytes} bytes: {address} {}", self.explained());
        address as u64
    }

    fn free(&self, instance: u32, address: u64) -> i64 {
        self.call(instance, number::SLOT_FREE, [address, 0, 0, 0, 0, 0])
    }

    fn resize(&self, instance: u32, address: u64, bytes: u64) -> i64 {
        self.call(instance, number::SLOT_RESIZE, [address, bytes, 0, 0, 0, 0])
    }

    fn touch(&self, instance: u32, address: u64) -> i64 {
        self.call(instance, number::SLOT_MARK_WRITTEN, [address, 0, 0, 0, 0, 0])
    }

    /// A `TypeDesc` in the instance's cell.
    fn describe(&self, instance: u32, ty: Type) -> u64 {
        let name = self.place(instance, ty.name.as_bytes());
        let words = [ty.fingerprint, name, ty.name.len() as u64, ty.size];
        self.place(instance, words.map(u64::to_ne_bytes).as_flattened())
    }

    fn publish(&self, instance: u32, name: &str, address: u64, count: u64, ty: Type) -> i64 {
        let at = self.place(instance, name.as_bytes());
        let desc = self.describe(instance, ty);
        self.call(instance, number::SLOT_PUBLISH, [at, name.len() as u64, address, count, desc, 0])
    }

    /// A `SLOT_TAKE`, and where its answer will be.
    fn prepare_take(&self, instance: u32, name: &str, ty: Type, flags: u64) -> (Call, u64) {
        let at = self.place(instance, name.as_bytes());
        let out = self.place(instance, &[0xff; 24]);
        let desc = self.describe(instance, ty);
        (self.prepare(instance, number::SLOT_TAKE, [at, name.len() as u64, desc, out, flags, 0]), out)
    }

    fn take(&self, instance: u32, name: &str, ty: Type) -> Result<SlotView, Errno> {
        let (mut call, out) = self.prepare_take(instance, name, ty, TAKE_NOW);
        match self.step(&mut call) {
            Step::Ready(value) => Errno::from_value(value).map(|_| self.view(out)),
            parked => panic!("{parked:?}"),
        }
    }

    fn words(&self, address: u64, count: usize) -> Vec<u64> {
        let bytes = self.peek(address, count * 8);
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
    }

    fn view(&self, out: u64) -> SlotView {
        let words = self.words(out, 3);
        SlotView { address: words[0], count: words[1], capacity: words[2] }
    }

    fn pin(&self, instance: u32, address: u64, len: u64) -> bool {
        self.system(number::SLOT_PIN, [instance.into(), address, len, 0, 0, 0]) == 1
    }

    fn unpin(&self, address: u64) {
        assert_eq!(self.system(number::SLOT_UNPIN, [address, 0, 0, 0, 0, 0]), 0);
    }

    fn owns(&self, instance: u32, address: u64, len: u64) -> bool {
        let owns = self.pin(instance, address, len);
        if owns {
            self.unpin(address);
        }
        owns
    }

    fn stats(&self, instance: u32) -> MemoryStats {
        let out = self.place(instance, &[0; 40]);
        assert_eq!(self.call(instance, number::MEMORY_STATS, [out, 0, 0, 0, 0, 0]), 0);
        let words = self.words(out, 5);
        MemoryStats { heap: words[0], owned: words[1], limit: words[2], arena_buffers: words[3], arena_bytes: words[4] }
    }

    fn look(&self, name: &str) -> Result<(SlotInfo, Vec<u8>), Errno> {
        let mut info = SlotInfo::default();
        let mut text = [0; 255];
        let (out, to) = ((&raw mut info) as u64, text.as_mut_ptr() as u64);
        let args = [name.as_ptr() as u64, name.len() as u64, out, to, text.len() as u64, 0];
        let len = Errno::from_value(self.system(number::SLOT_PEEK, args))?;
        Ok((info, text[..len as usize].to_vec()))
    }

    /// The buffers that an instance holds: their addresses and capacities.
    fn held(&self, instance: u32) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, u64)> = Vec::new();
        loop {
            let mut held = HeldBuffer::default();
            let behind = found.last().map_or(0, |(address, _)| *address);
            let args = [instance.into(), behind, (&raw mut held) as u64, 0, 0, 0];
            match self.system(number::SLOT_HELD, args) {
                0 => return found,
                answer => assert_eq!(answer, 1),
            }
            found.push((held.address, held.capacity));
        }
    }

    /// The filled slot after `name`: its own name, its bytes and its producer.
    fn next(&self, name: &str) -> Option<(String, FilledSlot)> {
        let mut filled = FilledSlot::default();
        let mut text = [0; 255];
        let (out, to) = ((&raw mut filled) as u64, text.as_mut_ptr() as u64);
        let args = [name.as_ptr() as u64, name.len() as u64, out, to, text.len() as u64, 0];
        let len = Errno::from_value(self.system(number::SLOT_NEXT, args)).expect("it is served");
        (len > 0).then(|| (String::from_utf8(text[..len as usize].to_vec()).expect("UTF-8"), filled))
    }
}
