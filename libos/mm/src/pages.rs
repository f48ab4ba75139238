//! Which pages of the arena are free, kept where no function can write.
//!
//! A free-list allocator writes its list into the free memory it manages. The arena's free memory may be written by
//! functions, so the list would be theirs to forge. `linked_list_allocator` therefore manages a *shadow* of the arena in
//! trusted memory, in which sixteen bytes (the size of its list node) stand for one page:
//!
//! ```text
//!  arena    | page 0 | page 1 | page 2 | page 3 | …          4 GiB per generation
//!  shadow   |  16 B  |  16 B  |  16 B  |  16 B  | …         16 MiB, touched only where the arena is used
//! ```
//!
//! The shadow comes in generations, made when the previous ones are full; the first serves all but huge workflows.
#![allow(unsafe_code, reason = "the allocator's interface is unsafe; the tokens below make it safe")]

use alloc::vec::Vec;
use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use linked_list_allocator::Heap;
use monohull_abi::layout::{ARENA_BASE, ARENA_END, PAGE};

/// Buffers from this size on are aligned to it, so that they can be backed by huge pages.
pub(crate) const HUGE: u64 = 2 << 20;
/// Bytes of the arena in one generation, unless a buffer needs more.
const GENERATION: u64 = 4 << 30;
/// Bytes of the shadow that stand for one page: a node of the free list.
const NODE: u64 = 16;

/// The shadow of one huge page. Its alignment makes that the shadow of a huge-page boundary is aligned alike.
#[repr(align(8192))]
struct Chunk {
    _nodes: [MaybeUninit<u8>; (HUGE / PAGE * NODE) as usize],
}

/// Consecutive pages that nobody else has. Neither copied nor made by anyone but [`PageSpace`].
#[derive(Debug)]
pub(crate) struct Run {
    address: u64,
    bytes: u64,
}

impl Run {
    /// First byte, in the arena.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Whole pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// First byte behind.
    pub(crate) fn end(&self) -> u64 {
        self.address + self.bytes
    }
}

/// A part of the arena and the shadow that describes it.
struct Generation {
    start: u64,
    bytes: u64,
    free: Heap,
    /// The memory of `free`: reserved, never used as a vector.
    shadow: Vec<Chunk>,
}

// SAFETY: the pointers in `free` lead into `shadow`, which this value owns; nothing is tied to a thread.
unsafe impl Send for Generation {}

/// The free pages of the arena.
#[derive(Default)]
pub(crate) struct PageSpace {
    generations: Vec<Generation>,
}

impl PageSpace {
    /// Takes `bytes` (whole pages, not none), first fit. `None` if the arena or the trusted heap is full.
    pub(crate) fn take(&mut self, bytes: u64, align: u64) -> Option<Run> {
        let fitting = |generation: &mut Generation| generation.take(bytes, align);
        if let Some(run) = self.generations.iter_mut().find_map(fitting) {
            return Some(run);
        }
        let start = self.generations.last().map_or(ARENA_BASE, |last| last.start + last.bytes);
        let size = bytes.checked_next_multiple_of(HUGE)?.max(GENERATION).min(ARENA_END - start);
        self.generations.push(Generation::new(start, size)?);
        self.generations.last_mut()?.take(bytes, align)
    }

    /// Makes a run longer if the pages behind it are the first free ones that fit.
    pub(crate) fn extend(&mut self, run: &mut Run, bytes: u64) -> bool {
        let Some(generation) = self.generation_of(run) else { return false };
        match generation.take(bytes, PAGE) {
            Some(more) if more.address == run.end() => {
                run.bytes += more.bytes;
                true
            }
            Some(elsewhere) => {
                generation.give(elsewhere);
                false
            }
            None => false,
        }
    }

    /// Gives pages back.
    pub(crate) fn give(&mut self, run: Run) {
        if let Some(generation) = self.generation_of(&run) {
            generation.give(run);
        }
    }

    fn generation_of(&mut self, run: &Run) -> Option<&mut Generation> {
        self.generations.iter_mut().find(|g| (g.start..g.start + g.bytes).contains(&run.address))
    }
}

impl Generation {
    fn new(start: u64, bytes: u64) -> Option<Generation> {
        if bytes == 0 {
            return None;
        }
        let mut shadow: Vec<Chunk> = Vec::new();
        shadow.try_reserve_exact((bytes / HUGE) as usize).ok()?;
        let size = (bytes / PAGE * NODE) as usize;
        // SAFETY: the reserved memory has this size and alignment, and is used for nothing else as long as the vector
        // lives, which is as long as the heap.
        let free = unsafe { Heap::new(shadow.as_mut_ptr().cast(), size) };
        Some(Generation { start, bytes, free, shadow })
    }

    fn take(&mut self, bytes: u64, align: u64) -> Option<Run> {
        let layout = Layout::from_size_align(nodes(bytes), nodes(align)).ok()?;
        let node = self.free.allocate_first_fit(layout).ok()?;
        let offset = node.as_ptr() as u64 - self.shadow.as_ptr() as u64;
        Some(Run { address: self.start + offset / NODE * PAGE, bytes })
    }

    fn give(&mut self, run: Run) {
        let offset = nodes(run.address - self.start);
        let Ok(layout) = Layout::from_size_align(nodes(run.bytes), NODE as usize) else { return };
        // SAFETY: the offset lies in the shadow, because the run came from this generation.
        let node = unsafe { NonNull::new_unchecked(self.shadow.as_mut_ptr().cast::<u8>().add(offset)) };
        // SAFETY: the nodes of a run were allocated and are given back once, since a run is a token that `give`
        // consumes. The list knows holes only, by address and size, so neither the alignment that was asked for nor
        // whether a run was allocated in two parts (`extend`) makes a difference to it.
        unsafe { self.free.deallocate(node, layout) }
    }
}

/// Bytes of the shadow that stand for whole pages.
fn nodes(bytes: u64) -> usize {
    (bytes / PAGE * NODE) as usize
}
