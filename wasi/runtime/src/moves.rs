//! Slots without copies: the pages of a buffer become pages of the program's memory, and the other way round.
//!
//! That needs a place that begins with a page, and enough bytes for it to be quicker than a copy. Whatever else is asked for is copied, with
//! the same result.
//!
//! ```text
//!   pointer            whole pages               end
//!      │ moved │ moved │ moved │ moved │ moved │ co- │       MOVED_MIN bytes or more
//! ```

use crate::errno::WasiError;
use crate::host::plain as call;
use crate::slot_refusal::SlotRefusal;
use monohull_abi::Errno;
use monohull_abi::layout::PAGE;
use monohull_abi::number::{SLOT_FREE, SLOT_MOVE_IN, SLOT_MOVE_OUT, SLOT_PUBLISH};
use monohull_abi::types::{BYTES_FINGERPRINT, MOVED_MIN, TEXT_FINGERPRINT, TypeDesc};

fn is_moved(place: &[u8]) -> bool {
    (place.as_ptr() as u64).is_multiple_of(PAGE) && place.len() as u64 >= MOVED_MIN
}

/// Puts a buffer that was taken over into a place of the same length in the program's memory. What is left of the buffer is of no use.
pub(crate) fn take_into(taken: &[u8], place: &mut [u8]) -> Result<(), WasiError> {
    if is_moved(place) {
        match call(SLOT_MOVE_IN, [taken.as_ptr() as u64, place.as_mut_ptr() as u64, place.len() as u64]) {
            // The memory is none that can be moved: nothing has changed.
            Err(Errno::Fault) => {}
            moved => return moved.map(drop).map_err(WasiError::from),
        }
    }
    place.copy_from_slice(taken);
    Ok(())
}

/// Fills a slot with bytes or a text of the program's memory, which are zero afterwards. False if they have to be copied. Then, and after an
/// error, they are as they were.
pub(crate) fn publish(name: &str, bytes: &mut [u8], is_text: bool) -> Result<bool, SlotRefusal> {
    if !is_moved(bytes) {
        return Ok(false);
    }
    let (at, len) = (bytes.as_mut_ptr() as u64, bytes.len() as u64);
    let buffer = match call(SLOT_MOVE_OUT, [at, len]) {
        Err(Errno::Fault) => return Ok(false),
        moved => moved.map_err(WasiError::from)?,
    };
    let published = publish_buffer(name, buffer, len, is_text);
    if published.is_err() {
        // It goes back where it came from.
        let back = call(SLOT_MOVE_IN, [buffer, at, len]);
        let _ = call(SLOT_FREE, [buffer]);
        back.map_err(WasiError::from)?;
    }
    published?;
    // The last bytes were copied, if they are no whole page.
    let rest = bytes.len() - bytes.len() % PAGE as usize;
    bytes[rest..].fill(0);
    Ok(true)
}

/// Fills a slot with a buffer that the instance holds.
fn publish_buffer(name: &str, buffer: u64, len: u64, is_text: bool) -> Result<(), SlotRefusal> {
    let (kind, fingerprint) = if is_text { ("str", TEXT_FINGERPRINT) } else { ("[u8]", BYTES_FINGERPRINT) };
    let desc = TypeDesc { fingerprint, name: kind.as_ptr() as u64, name_len: kind.len() as u64, element_size: 1 };
    let published = call(SLOT_PUBLISH, [name.as_ptr() as u64, name.len() as u64, buffer, len, &raw const desc as u64]);
    published.map(drop).map_err(SlotRefusal::of_system)
}
