//! Waiting for the standard input together with clocks.
//!
//! The input is a slot, and a thread that takes a slot waits until it is filled. So a thread of its own does, once a program polls the input,
//! and tells those that wait for it.

use super::changes;
use monohull_std::io::{BufRead, stdin};
use monohull_std::sync::{Mutex, MutexGuard, PoisonError};
use monohull_std::thread::{Builder, yield_now};

/// What is known of the input.
#[derive(PartialEq)]
enum Input {
    /// No program has asked.
    Unasked,
    /// A thread waits for it.
    Awaited,
    /// A read does not wait.
    Come,
}

static INPUT: Mutex<Input> = Mutex::new(Input::Unasked);

fn lock() -> MutexGuard<'static, Input> {
    INPUT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a read does not wait. Begins to wait for the input.
pub(super) fn has_come() -> bool {
    let is_first = {
        let mut input = lock();
        let is_first = *input == Input::Unasked;
        if is_first {
            *input = Input::Awaited;
        }
        is_first
    };
    if is_first {
        let come = || {
            *lock() = Input::Come;
            changes::tell();
        };
        let waiting = Builder::new().spawn(move || {
            // An error, such as that no step fills the slot, is the next read's.
            let _ = stdin().lock().fill_buf();
            come();
        });
        match waiting {
            // What is there already is found at once.
            Ok(_) => yield_now(),
            // Without a thread the next read waits.
            Err(_) => come(),
        }
    }
    *lock() == Input::Come
}
