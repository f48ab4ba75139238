//! Instances that are all there at once, so that each has a cell and a key that nobody else has meanwhile.
//!
//! Those of a step come together in groups, in their order: the first of a group waits for the others and lets them go. If there is no
//! cell, or no key, for one of a group, all of it waits for that one.

use crate::jumps::own_key;
use monohull_abi::layout::{CELL_SIZE, USER_BASE};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec, indexed_name};
use monohull_trampoline::user::stack_pointer;

/// Comes together with the rest of its group, and says where it lives.
pub(crate) fn gather(group: usize) -> Result<(), Box<dyn Error>> {
    let instance = monohull::instance();
    let first = instance.index / group * group;
    let others = first + 1..(first + group).min(instance.count);
    if instance.index == first {
        for other in others.clone() {
            SlotBuffer::<[u8]>::from_slot(&indexed_name("here", other))?.discard();
        }
        for other in others {
            SlotVec::<u8>::with_slot(&indexed_name("go", other)).publish()?;
        }
    } else {
        SlotVec::<u8>::with_slot(&indexed_name("here", instance.index)).publish()?;
        SlotBuffer::<[u8]>::from_slot(&indexed_name("go", instance.index))?.discard();
    }
    println!("cell {} key {}", (stack_pointer() - USER_BASE) / CELL_SIZE, own_key());
    Ok(())
}
