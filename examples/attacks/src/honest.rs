//! What the attacker does in an invocation without an attack, before and after one with it in the same process: it looks whether
//! anything of an attack is left in memory that it gets, and has the victim look at its own.

use crate::{MARK, SECRET};
use core::hint::black_box;
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};

/// Heap that is looked at. An attacker that is to use up its memory has two mebibytes.
const HEAP: usize = 512 << 10;

pub(crate) fn serve() -> Result<(), Box<dyn Error>> {
    let mut heap = Vec::<u64>::with_capacity(HEAP / 8);
    for word in heap.spare_capacity_mut() {
        let at = black_box(word.as_ptr());
        // SAFETY: the memory is there; what is in it, which nothing has written yet in this instance, is what the test is about.
        let left = unsafe { at.read_volatile() };
        if left == SECRET || left == MARK {
            println!("got {left:#x}, which is left at {at:p}");
        }
    }
    heap.push(SECRET);
    black_box(&heap);
    SlotVec::<u64>::with_slot("done").publish()?;
    SlotBuffer::<[u8]>::from_slot("verdict")?.discard();
    SlotVec::<u64>::with_slot("end").publish()?;
    Ok(())
}
