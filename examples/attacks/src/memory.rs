//! Reads, writes and runs memory.
//!
//! `what` names the place: something of the victim's, something of one's own that one has no more, `left-in-frame`, or a
//! place of the system's (see [`crate::places`]). `how` is `read`, `write`, or `run` (jump there, as if
//! it were code that returns the secret).

use crate::own::{carrier, own_key};
use crate::victim::Dear;
use crate::{Attack, Booty, MARK, SECRET, number};
use core::arch::asm;
use core::mem::transmute;
use monohull_abi::layout::{CELL_SIZE, CELLS_BASE, FRAMES_BASE, KEY_COUNT, PAGE};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};
use monohull_trampoline::user::stack_pointer;

pub(crate) fn strike(attack: &Attack) -> Booty {
    if attack.what == "left-in-frame" {
        return left_in_frame();
    }
    touch(target(attack)?, &attack.how)
}

/// Reads, writes or runs an address.
#[inline(never)]
pub(crate) fn touch(address: u64, how: &str) -> Booty {
    match how {
        // SAFETY: none; it is an attack.
        "read" => number(unsafe { (address as *const u64).read_volatile() }),
        "write" => {
            // SAFETY: none; it is an attack.
            unsafe { (address as *mut u64).write_volatile(MARK) };
            Ok("written".into())
        }
        "run" => {
            // SAFETY: none; it is an attack.
            let code: extern "C" fn() -> u64 = unsafe { transmute(address) };
            number(code())
        }
        _ => Err("how is read, write or run".into()),
    }
}

fn target(attack: &Attack) -> Result<u64, Box<dyn Error>> {
    Ok(match attack.what.as_str() {
        "stack" => dear(Dear::Stack)?,
        "heap" => dear(Dear::Heap)?,
        "grown-heap" => dear(Dear::Large)?,
        "data" => dear(Dear::Data)?,
        "code" => dear(Dear::Code)?,
        "buffer" => dear(Dear::Buffer)?,
        "mapped" => dear(Dear::Mapped)?,
        "unfilled" => dear(Dear::Unfilled)?,
        "handed-on" => hand_on()?,
        "freed" => free(attack),
        "moved" => moved(attack),
        "guard" => bottom_of_stack(),
        "tls" => thread_pointer(),
        name => attack.places.find(name)?,
    })
}

/// What an earlier instance with the same key has left in the entry frame of this carrier; then leaves something there.
fn left_in_frame() -> Booty {
    let frame = FRAMES_BASE + (carrier() * KEY_COUNT as u64 + u64::from(own_key())) * PAGE;
    // The first words change with every entry.
    let spare = (frame + PAGE / 2) as *mut u64;
    // SAFETY: none; it is an attack.
    unsafe {
        match spare.read_volatile() {
            0 => spare.write_volatile(MARK),
            left => return number(left),
        }
    }
    Err("nothing was left".into())
}

/// Something of the victim's. What was taken goes back if the attempt fails, so that the next one finds it too.
pub(crate) fn dear(which: Dear) -> Result<u64, Box<dyn Error>> {
    static KNOWN: monohull_std::sync::Mutex<Option<Vec<u64>>> = monohull_std::sync::Mutex::new(None);
    let mut known = KNOWN.lock().map_err(|_| "a thread has failed")?;
    if known.is_none() {
        let addresses = SlotBuffer::<[u64]>::from_slot("addresses")?;
        *known = Some(addresses.to_vec());
    }
    known.as_ref().and_then(|known| known.get(which as usize).copied()).ok_or_else(|| "the victim is silent".into())
}

/// A buffer of one's own, given away; its address is still known.
fn hand_on() -> Result<u64, Box<dyn Error>> {
    let mut gift = gift("gift");
    gift.push(SECRET);
    let address = gift.as_ptr() as u64;
    gift.publish()?;
    Ok(address)
}

/// A buffer of one's own, freed when each instance of the crowd has one: a later allocation may get its place.
fn free(attack: &Attack) -> u64 {
    let mut gift = gift("gift");
    gift.push(SECRET);
    let address = gift.as_ptr() as u64;
    attack.crowd.wait();
    gift.discard();
    attack.crowd.wait();
    address
}

/// Where a buffer of one's own was, which has grown and had to move; again no instance of the crowd gets its place.
fn moved(attack: &Attack) -> u64 {
    // The lower of two cannot grow past the other.
    let mut both = ["gift", "wall"].map(gift);
    both.sort_by_key(|buffer| buffer.as_ptr() as u64);
    let [mut lower, upper] = both;
    lower.push(SECRET);
    let address = lower.as_ptr() as u64;
    attack.crowd.wait();
    while lower.as_ptr() as u64 == address {
        lower.reserve(lower.capacity());
    }
    attack.crowd.wait();
    // They are still there.
    core::mem::forget([lower, upper]);
    address
}

/// A buffer under a name that no other thread uses.
fn gift(name: &str) -> SlotVec<u64> {
    SlotVec::with_slot(&format!("{name}-{:#x}", stack_pointer()))
}

/// The lowest page of the main stack, which lies at the bottom of the cell.
fn bottom_of_stack() -> u64 {
    CELLS_BASE + (stack_pointer() - CELLS_BASE) / CELL_SIZE * CELL_SIZE
}

/// Where the carrier's thread has its thread-local data.
fn thread_pointer() -> u64 {
    let base: u64;
    // SAFETY: reads a register.
    unsafe { asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    base
}
