//! An attack on memory, with its victim. The victim leaves the addresses of what is dear to it and waits; the attacker
//! touches one of them. If that ends it, it is tried again, and then lets the victim go on without attacking: the victim
//! looks whether everything is as it was.
//!
//! `role` is `victim` or `attacker`; `what` names the target and `how` is `read`, `write` or `run`. An attack that
//! succeeds says so on standard output, with what it has read.
#![no_std]
#![allow(unsafe_code, reason = "it is an attack: the addresses are not its own")]

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::layout::{CARRIER_BASE, INFO_BASE};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};

/// What the victim keeps, everywhere.
const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;
/// What an attacker writes.
const MARK: u64 = 0xbad_bad_bad;

/// The secret in the image's data.
static DATA: AtomicU64 = AtomicU64::new(SECRET);

#[monohull::main]
fn main(role: String, what: Option<String>, how: Option<String>) -> Result<(), Box<dyn Error>> {
    match (role.as_str(), what, how) {
        ("victim", ..) => victim(),
        ("attacker", Some(what), Some(how)) => attacker(&what, &how),
        _ => Err("role is victim, or attacker with what and how".into()),
    }
}

/// Code of the victim's, which knows where the secret is.
#[inline(never)]
extern "C" fn tell() -> u64 {
    DATA.load(Ordering::Relaxed)
}

fn victim() -> Result<(), Box<dyn Error>> {
    let on_stack = AtomicU64::new(SECRET);
    let in_heap = Box::new(AtomicU64::new(SECRET));
    let mut kept = SlotVec::<u64>::with_slot("kept");
    kept.push(SECRET);
    let mut addresses = SlotVec::<u64>::with_slot("addresses");
    addresses.extend_from_slice(&[
        black_box(&on_stack).as_ptr() as u64,
        in_heap.as_ptr() as u64,
        DATA.as_ptr() as u64,
        tell as *const () as u64,
        kept.as_ptr() as u64,
    ]);
    addresses.publish()?;
    SlotBuffer::<[u64]>::from_slot("done")?.discard();
    let now = [on_stack.load(Ordering::Relaxed), in_heap.load(Ordering::Relaxed), tell(), kept[0]];
    println!("{}", if now == [SECRET; 4] { "intact" } else { "harmed" });
    kept.discard();
    Ok(())
}

fn attacker(what: &str, how: &str) -> Result<(), Box<dyn Error>> {
    let addresses = SlotBuffer::<[u64]>::from_slot("addresses")?;
    if monohull::instance().attempt == 1 {
        let target = match what {
            "stack" => addresses[0],
            "heap" => addresses[1],
            "data" => addresses[2],
            "code" => addresses[3],
            "buffer" => addresses[4],
            "handed-on" => hand_on()?,
            // The first carrier's line: its gate, then the selector of its system calls.
            "info-page" => INFO_BASE,
            "selector" => INFO_BASE + 8,
            // Stack of the signal handlers and context of the first carrier.
            "signal-stack" => CARRIER_BASE + 0x8000,
            "carrier" => CARRIER_BASE + 0xf000,
            _ => return Err("nothing is called that".into()),
        };
        attack(target, how);
    }
    SlotVec::<u64>::with_slot("done").publish()?;
    Ok(())
}

/// A buffer of one's own, given away; its address is still known.
fn hand_on() -> Result<u64, Box<dyn Error>> {
    let mut gift = SlotVec::<u64>::with_slot("gift");
    gift.push(SECRET);
    let address = gift.as_ptr() as u64;
    gift.publish()?;
    Ok(address)
}

#[inline(never)]
fn attack(target: u64, how: &str) {
    match how {
        // SAFETY: none; it is an attack.
        "read" => println!("read {:#x}", unsafe { (target as *const u64).read_volatile() }),
        "write" => {
            // SAFETY: none; it is an attack.
            unsafe { (target as *mut u64).write_volatile(MARK) };
            println!("wrote");
        }
        _ => {
            // SAFETY: none; it is an attack.
            let code: extern "C" fn() -> u64 = unsafe { core::mem::transmute(target) };
            println!("ran: {:#x}", code());
        }
    }
}
