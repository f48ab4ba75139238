//! The victim: keeps a secret on its stack, in its heap, its image's data and a slot buffer, and says at the end whether
//! everything is as it was.
//!
//! `what` is `watch`, or how it spends its time until it is asked: `call` makes hostcalls, as fast as it can.

use crate::SECRET;
use crate::jumps::own_key;
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::number;
use monohull_abi::types::{Fact, Text};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};
use monohull_trampoline::user::hostcall;

/// Heap that is large enough to have been grown for it alone.
const LARGE: usize = 4 << 20;

/// The secret in the image's data.
static DATA: AtomicU64 = AtomicU64::new(SECRET);

/// Code of the victim's, which knows where the secret is.
#[inline(never)]
extern "C" fn tell() -> u64 {
    DATA.load(Ordering::Relaxed)
}

/// What the victim leaves for the attacker, in the order of [`Dear`].
#[derive(Clone, Copy)]
pub(crate) enum Dear {
    Stack,
    Heap,
    Data,
    Code,
    Buffer,
    Large,
    Key,
}

pub(crate) fn watch(how: &str) -> Result<(), Box<dyn Error>> {
    let on_stack = AtomicU64::new(SECRET);
    let in_heap = Box::new(AtomicU64::new(SECRET));
    let large = black_box(vec![SECRET; LARGE / 8]);
    let mut kept = SlotVec::<u64>::with_slot("kept");
    kept.push(SECRET);
    let mut addresses = SlotVec::<u64>::with_slot("addresses");
    addresses.extend_from_slice(&[
        black_box(&on_stack).as_ptr() as u64,
        in_heap.as_ptr() as u64,
        DATA.as_ptr() as u64,
        tell as *const () as u64,
        kept.as_ptr() as u64,
        &raw const large[LARGE / 16] as u64,
        own_key().into(),
    ]);
    addresses.publish()?;
    match how {
        "call" => call_until_done()?,
        _ => SlotBuffer::<[u64]>::from_slot("done")?.discard(),
    }
    let now = [on_stack.load(Ordering::Relaxed), in_heap.load(Ordering::Relaxed), tell(), kept[0]];
    let intact = now == [SECRET; 4] && large.iter().all(|word| *word == SECRET);
    println!("{}", if intact { "intact" } else { "harmed" });
    SlotVec::<u8>::with_slot("verdict").publish()?;
    // Its memory stays its own until the attacker is done.
    SlotBuffer::<[u64]>::from_slot("end")?.discard();
    kept.discard();
    Ok(())
}

/// Makes hostcalls until the attacker is done. Who runs this code without being the victim says so.
fn call_until_done() -> Result<(), Box<dyn Error>> {
    loop {
        hostcall(number::NULL, [0; 6]);
        if !is_victim() {
            println!("got into the victim's code");
            monohull_std::process::exit(0);
        }
        if let Some(done) = SlotBuffer::<[u64]>::try_from_slot("done")? {
            done.discard();
            return Ok(());
        }
    }
}

/// Whether the thread that runs this belongs to the step `victim`, as far as the libos knows.
fn is_victim() -> bool {
    let mut name = [0u8; 6];
    let args = [Text::Step as u64, name.as_mut_ptr() as u64, name.len() as u64, 0, 0, 0];
    hostcall(number::FACT, [Fact::Attempt as u64, 0, 0, 0, 0, 0]);
    hostcall(number::TEXT_READ, args);
    name == *b"victim"
}
