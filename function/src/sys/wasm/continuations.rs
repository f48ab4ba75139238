//! Continuations as values: what the system knows by a buffer's address is a handle here, which is told as an address that no memory has.

use super::{BETWEEN, Pair, answered, fetch, free as free_buffer};
use monohull_abi::Errno;
use monohull_abi::effect::{EFFECT_SLOT_LEN, EffectPart, EffectSlot, PerformId};
use monohull_abi::types::SlotView;

#[link(wasm_import_module = "monohull")]
unsafe extern "C" {
    fn continuation(number: *mut u64) -> i32;
    fn continuation_wait(number: u64, out: *mut Pair) -> i32;
    fn continuation_take(slot: *const u8, slot_len: usize, wait: u32) -> i32;
    fn continuation_publish(handle: u32, slot: *const u8, slot_len: usize) -> i32;
    fn continuation_resume(handle: u32, value: *const u8, len: usize) -> i32;
    fn continuation_free(handle: u32, at_once: u32) -> i32;
}

/// Where addresses of continuations begin: behind all memory.
const FIRST: u64 = 1 << 32;

/// The handle of the continuation with this address; `None` for that of a buffer.
pub(super) fn handle_of(address: u64) -> Option<u32> {
    (address >= FIRST).then_some(address as u32)
}

/// The number of the wait for what is in this slot.
pub(super) fn number_of(slot: &[u8]) -> Option<u64> {
    let slot = EffectSlot::parse(core::str::from_utf8(slot).ok()?)?;
    (slot.part == EffectPart::Resume).then(|| slot.id.to_raw())
}

/// What an import has answered. The runtime knows why, also in place of a hostcall on slots.
fn explained(answer: i32) -> Result<u64, Errno> {
    BETWEEN.0.borrow_mut().is_unexplained = false;
    answered(answer)
}

/// Makes one: its address, and the name of the slot of what it is used with.
pub(super) fn make() -> Result<(u64, [u8; EFFECT_SLOT_LEN]), Errno> {
    let mut number = 0;
    // SAFETY: there is room for the answer.
    let handle = explained(unsafe { continuation(&raw mut number) })?;
    let id = PerformId::from_raw(number).ok_or(Errno::Io)?;
    Ok((FIRST | handle, EffectSlot { part: EffectPart::Resume, id }.to_bytes()))
}

/// Waits for what a continuation is used with.
pub(super) fn wait(number: u64) -> Result<SlotView, Errno> {
    let mut pair = Pair::default();
    // SAFETY: there is room for the answer.
    explained(unsafe { continuation_wait(number, &raw mut pair) })?;
    fetch(&pair)
}

/// Takes one from a slot.
pub(super) fn take(slot: &[u8], now: bool) -> Result<SlotView, Errno> {
    // SAFETY: a name of this length.
    let handle = explained(unsafe { continuation_take(slot.as_ptr(), slot.len(), (!now).into()) })?;
    Ok(SlotView { address: FIRST | handle, count: 1, capacity: 1 })
}

/// Hands the one of this address on.
pub(super) fn publish(slot: &[u8], address: u64) -> Result<u64, Errno> {
    let handle = handle_of(address).ok_or(Errno::Invalid)?;
    // SAFETY: a name of this length.
    explained(unsafe { continuation_publish(handle, slot.as_ptr(), slot.len()) })
}

/// Uses the one of this address with so many bytes of a buffer, which is the caller's no more.
///
/// # Safety
/// The buffer is the caller's, and has as many.
pub(super) unsafe fn resume(address: u64, value: u64, len: u64) -> Result<u64, Errno> {
    let handle = handle_of(address).ok_or(Errno::Invalid)?;
    // SAFETY: the caller's promise.
    let used = explained(unsafe { continuation_resume(handle, value as *const u8, len as usize) })?;
    free_buffer(value);
    Ok(used)
}

/// The one of this handle is freed at once when it is freed.
pub(super) fn discard(handle: u32) {
    BETWEEN.0.borrow_mut().discarded = Some(handle);
}

/// Frees the one of this handle.
pub(super) fn free(handle: u32) -> Result<u64, Errno> {
    let is_discarded = BETWEEN.0.borrow_mut().discarded.take_if(|discarded| *discarded == handle).is_some();
    // SAFETY: it takes numbers.
    answered(unsafe { continuation_free(handle, is_discarded.into()) })
}
