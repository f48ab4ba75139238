//! One link of a chain. Link 0 makes a payload of `bytes` bytes, every link but the last hands it on changed, the last
//! one verifies it; each has to read all of it to get the checksum right. Link I hands on in slot `payload.I`; the last
//! one leaves a line of text in slot `result`.
#![no_std]
#![deny(unsafe_code)]

use example_kernels::chain::{create, forward, verify};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotString, indexed_name};

#[monohull::main]
fn main(link: usize, links: usize, bytes: usize) -> Result<(), Box<dyn Error>> {
    let mut payload = match link.checked_sub(1) {
        Some(before) => SlotBuffer::<[u8]>::from_slot(&indexed_name("payload", before))?,
        None => SlotBuffer::with_slot_len("payload", bytes),
    };
    if link == 0 {
        create(&mut payload)?;
    }
    if link + 1 < links {
        forward(&mut payload)?;
        payload.hand_on(&indexed_name("payload", link))?;
        return Ok(());
    }
    let hops = verify(&payload)?;
    SlotString::with_slot("result").push_str(&format!("{hops} hops, {} bytes\n", payload.len()));
    payload.discard();
    Ok(())
}
