//! An attack on memory, with its victim. The victim leaves the addresses of what is dear to it and waits; the attacker
//! touches one of them and lets the victim go on; the victim then looks whether all is as it was.
//!
//! `role` is `victim` or `attacker`; `what` says what is attacked, `how` is `read`, `write` or `run`. What is read is
//! printed: the tests look for the secret, or for its absence.
#![no_std]
#![allow(unsafe_code, reason = "it is an attack: the addresses are not its own")]

use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::layout::{INFO_BASE, context_for_attacks};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};

/// What the victim keeps, everywhere.
const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;

/// In the image's data.
static DATA: AtomicU64 = AtomicU64::new(SECRET);

#[monohull::main]
fn main(role: String, what: Option<String>, how: Option<String>) -> Result<(), Box<dyn Error>> {
    match role.as_str() {
        "victim" => victim(),
        _ => attacker(&what.unwrap_or_default(), &how.unwrap_or_default()),
    }
}
