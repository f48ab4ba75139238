//! The standard input: the bytes of the slot that the workflow names as the step's `stdin`. It is taken over at the first
//! read, which parks until the slot has been filled. A step without one reads nothing.

use crate::errno::Answer;
use crate::host;
use crate::lock::Lock;
use monohull_abi::errno::Errno;
use monohull_abi::number;
use monohull_abi::types::{BYTES_FINGERPRINT, InfoString, SlotView, TEXT_FINGERPRINT, TypeDesc};

/// What is left to read.
struct Input {
    taken: bool,
    next: u64,
    end: u64,
}

static INPUT: Lock<Input> = Lock::new(Input { taken: false, next: 0, end: 0 });

/// `read` from the standard input.
pub(crate) fn read(buffer: u64, len: u64) -> Answer {
    let mut input = INPUT.hold();
    if !input.taken {
        match take() {
            Ok((start, bytes)) => *input = Input { taken: true, next: start, end: start + bytes },
            Err(error) => return error,
        }
    }
    let bytes = len.min(input.end - input.next);
    // SAFETY: the caller's buffer; the slot's bytes are this instance's until it ends.
    unsafe { core::ptr::copy_nonoverlapping(input.next as *const u8, buffer as *mut u8, bytes as usize) };
    input.next += bytes;
    bytes as Answer
}

/// Takes the slot over, as bytes or as text: its first byte and how many there are.
fn take() -> Result<(u64, u64), Answer> {
    let name = host::text(InfoString::Stdin);
    if name.is_empty() {
        return Ok((0, 0));
    }
    let mut answer = 0;
    for (fingerprint, text) in [(BYTES_FINGERPRINT, "[u8]"), (TEXT_FINGERPRINT, "str")] {
        let mut view = SlotView::default();
        let (address, len) = (text.as_ptr() as u64, text.len() as u64);
        let kind = TypeDesc { fingerprint, name: address, name_len: len, element_size: 1 };
        let (kind, out) = ((&raw const kind) as u64, (&raw mut view) as u64);
        let call = [name.as_ptr() as u64, name.len() as u64, kind, out, 0, 0];
        answer = monohull_trampoline::user::hostcall(number::SLOT_TAKE, call);
        if answer >= 0 {
            return Ok((view.address, view.count));
        }
        if answer != Errno::WrongType.to_value() {
            break;
        }
    }
    Err(crate::errno::of_host(answer))
}
