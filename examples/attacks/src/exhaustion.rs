//! Takes all there is of something. The offender gets an error; the victim beside is served.
//!
//! `what` is `memory`, `slots`, `names`, `mappings` (`how` says how many pairs), `parked`, `recursion`, `output`.

use crate::{Attack, Booty};
use core::hint::black_box;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, indexed_name};
use monohull_std::thread;
use monohull_std::time::Duration;

pub(crate) fn strike(attack: &Attack) -> Booty {
    match attack.what.as_str() {
        "memory" => {
            let mut hoard = Vec::new();
            loop {
                hoard.push(black_box(vec![1u8; 1 << 20]));
            }
        }
        "slots" => {
            for index in 0.. {
                SlotBuffer::<[u8]>::with_slot_len(&indexed_name("hoard", index), 1 << 20).fill(1);
            }
        }
        "names" => {
            for index in 0.. {
                SlotBuffer::<[u8]>::with_slot_len(&indexed_name("hoard", index), 1).fill(1);
            }
        }
        // Own pages between pages without an owner: where keys isolate instances each is a mapping.
        "mappings" => {
            let mut hoard = Vec::new();
            for index in 0..attack.how.parse()? {
                SlotBuffer::<[u8]>::with_slot_len(&indexed_name("hoard", index), 1).publish()?;
                hoard.push(SlotBuffer::<[u8]>::with_slot_len("own", 1));
            }
            core::mem::forget(hoard);
        }
        "parked" => loop {
            thread::spawn(|| thread::sleep(Duration::from_secs(1_000_000)));
        },
        "recursion" => return crate::number(recurse(black_box(1))),
        "output" => {
            for line in 0..100_000 {
                println!("line {line} of very many");
            }
        }
        _ => return Err("there is nothing of that to be had".into()),
    }
    Ok("everything".into())
}

#[inline(never)]
#[allow(unconditional_recursion, reason = "that is the point")]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 32]);
    recurse(depth + 1) + frame[(depth % 32) as usize]
}
