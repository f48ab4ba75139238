//! Messages of refused hostcalls, kept until the thread reads them (`LAST_ERROR_MESSAGE`) or ends.
//!
//! A refusal has an error number, and may have a message. One without a message gets a general message, so that a thread
//! never reads that of an earlier call.

use monohull_abi::{Errno, number};
use std::collections::HashMap;
use std::sync::Mutex;

/// The explanations for the threads of one instance.
#[derive(Default)]
pub struct Explanations {
    by_thread: Mutex<HashMap<u32, Explanation>>,
    /// The first refusal by what the workflow file allows.
    refusal: Mutex<Option<String>>,
}

struct Explanation {
    /// The number of the call that was refused.
    call: u64,
    text: String,
}

impl Explanations {
    /// `call` of `thread` is about to be refused for this reason.
    pub fn set(&self, thread: u32, call: u64, text: String) {
        self.lock().insert(thread, Explanation { call, text });
    }

    /// `call` of `thread` has been refused: keeps a general message, unless there is one for this call.
    #[cold]
    pub fn complete(&self, thread: u32, call: u64, errno: Errno) {
        // These two are answers rather than refusals, and frequent.
        if matches!(errno, Errno::Again | Errno::TimedOut) {
            return;
        }
        let mut explanations = self.lock();
        if let Some(own) = explanations.get(&thread).filter(|own| own.call == call) {
            self.note(errno, &own.text);
            return;
        }
        let name = u32::try_from(call).ok().and_then(number::name_of);
        let text = match name {
            _ if errno == Errno::NotFound => {
                // A question that was answered: nothing to add.
                explanations.remove(&thread);
                return;
            }
            Some(name) => format!("{name}: {errno}"),
            None => format!("no hostcall has number {call}"),
        };
        self.note(errno, &text);
        explanations.insert(thread, Explanation { call, text });
    }

    /// Keeps the first refusal by a list of slots or addresses, or by the access to files: it comes again in each attempt.
    fn note(&self, errno: Errno, text: &str) {
        if matches!(errno, Errno::NotPermitted | Errno::ReadOnly) {
            self.refusal.lock().expect("refusal").get_or_insert_with(|| text.to_owned());
        }
    }

    /// As they are after the first refusal by what the workflow file allows, if there was one.
    pub fn restored(refusal: Option<String>) -> Explanations {
        Explanations { refusal: Mutex::new(refusal), ..Explanations::default() }
    }

    /// The first refusal by what the workflow file allows.
    pub fn refusal(&self) -> Option<String> {
        self.refusal.lock().expect("refusal").clone()
    }

    /// Removes and returns the message for `thread`; empty if there is none.
    pub fn take(&self, thread: u32) -> String {
        self.lock().remove(&thread).map(|own| own.text).unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Explanation>> {
        self.by_thread.lock().expect("explanations")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: u32 = 7;
    const CALL: u64 = number::GET_INFO as u64;
    const OTHER: u64 = number::GETRANDOM as u64;

    #[test]
    fn a_message_is_for_one_thread_and_read_once() {
        let explanations = Explanations::default();
        explanations.set(THREAD, CALL, "because".into());
        explanations.complete(THREAD, CALL, Errno::Invalid);
        assert_eq!(explanations.take(THREAD + 1), "");
        assert_eq!(explanations.take(THREAD), "because");
        assert_eq!(explanations.take(THREAD), "");
    }

    #[test]
    fn a_refusal_without_a_message_does_not_get_an_earlier_one() {
        let explanations = Explanations::default();
        explanations.set(THREAD, OTHER, "because".into());
        explanations.complete(THREAD, CALL, Errno::Invalid);
        assert_eq!(explanations.take(THREAD), "GET_INFO: an argument is out of range");
        explanations.set(THREAD, OTHER, "because".into());
        explanations.complete(THREAD, CALL, Errno::NotFound);
        assert_eq!(explanations.take(THREAD), "");
        explanations.complete(THREAD, u64::MAX, Errno::NoSuchCall);
        assert_eq!(explanations.take(THREAD), "no hostcall has number 18446744073709551615");
    }
}
