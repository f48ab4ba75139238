//! Fails twice and then succeeds.

use monohull_abi::number;
use monohull_abi::types::Info;
use monohull_std::Permanent;
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotString};
use monohull_trampoline::user::hostcall;

/// The attempt that succeeds.
const LUCKY: i64 = 3;

/// Fails unless this is the attempt that succeeds.
fn try_once() -> Result<i64, Box<dyn Error>> {
    let attempt = hostcall(number::GET_INFO, [Info::Attempt as u64, 0, 0, 0, 0, 0]);
    if attempt < LUCKY { Err(format!("attempt {attempt} has no luck").into()) } else { Ok(attempt) }
}

/// Leaves the number of the attempt in slot `result`.
fn leave(attempt: i64) {
    SlotString::with_slot("result").push_str(&format!("attempt {attempt}"));
}

/// Leaves numbers in slot `numbers`.
#[inline(never)]
pub(crate) fn make_input() {
    SlotBuffer::<[u64]>::with_slot_from("numbers", &[1, 2, 3]);
}

#[inline(never)]
pub(crate) fn flaky() -> Result<(), Box<dyn Error>> {
    leave(try_once()?);
    Ok(())
}

/// Says that another attempt would not help.
#[inline(never)]
pub(crate) fn permanent_error() -> Result<(), Box<dyn Error>> {
    let number: u32 = "twelve".parse().map_err(Permanent::new)?;
    println!("{number}");
    Ok(())
}

/// Fills a slot that the step's list does not have.
#[inline(never)]
pub(crate) fn not_allowed() -> Result<(), Box<dyn Error>> {
    SlotBuffer::<[u64]>::with_slot_from("forbidden", &[1]).publish()?;
    Ok(())
}

/// Fails after it has taken its input, which it leaves whole: only this instance is tried again.
#[inline(never)]
pub(crate) fn flaky_with_input() -> Result<(), Box<dyn Error>> {
    let numbers = SlotBuffer::<[u64]>::from_slot("numbers")?;
    let attempt = try_once()?;
    check(&numbers)?;
    leave(attempt);
    Ok(())
}

/// Fails after it has written to its input: the whole workflow is tried again, or the sum would be wrong.
#[inline(never)]
pub(crate) fn flaky_after_writing() -> Result<(), Box<dyn Error>> {
    let mut numbers = SlotBuffer::<[u64]>::from_slot("numbers")?;
    check(&numbers)?;
    numbers[0] = 100;
    leave(try_once()?);
    Ok(())
}

fn check(numbers: &[u64]) -> Result<(), Box<dyn Error>> {
    match numbers.iter().sum() {
        6u64 => Ok(()),
        other => Err(format!("the input is not whole: its sum is {other}").into()),
    }
}
