//! Instances that are all there at once, so that each has a cell and a key that no other instance has meanwhile.
//!
//! The first of a step waits for so many others, in their order, and lets them go. If there is no cell, or no key, for one of them, all
//! wait for that one. The rest of the step does not wait.

use crate::own::own_key;
use monohull_abi::layout::{CELL_SIZE, CELLS_BASE};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec, indexed_name};
use monohull_trampoline::user::stack_pointer;

/// Comes together with the others of the first so many, and says where it lives.
pub(crate) fn gather(together: usize) -> Result<(), Box<dyn Error>> {
    match monohull::instance().index {
        0 => {
            for other in 1..together {
                SlotBuffer::<[u8]>::from_slot(&indexed_name("here", other))?.discard();
            }
            for other in 1..together {
                SlotVec::<u8>::with_slot(&indexed_name("go", other)).publish()?;
            }
        }
        own if own < together => {
            SlotVec::<u8>::with_slot(&indexed_name("here", own)).publish()?;
            SlotBuffer::<[u8]>::from_slot(&indexed_name("go", own))?.discard();
        }
        _ => {}
    }
    println!("cell {} key {}", (stack_pointer() - CELLS_BASE) / CELL_SIZE, own_key());
    Ok(())
}
