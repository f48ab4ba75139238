//! The answers to captures of a run that goes on.

use super::keeper::Answer;
use crate::shared::Shared;

impl Shared {
    /// Whether there is an answer to the last capture.
    pub(crate) fn has_answer(&self) -> bool {
        self.options.keeper.as_ref().is_some_and(|keeper| keeper.has_answer())
    }

    /// Takes the answer, unless another carrier has.
    pub(crate) fn take_answer(&self) {
        let answer = self.options.keeper.as_ref().and_then(|keeper| keeper.take_answer());
        if let Some(answer) = answer {
            self.accept(answer);
        }
    }

    /// Waits until a capture that is on its way has been kept, or has not.
    pub fn settle_capture(&self) {
        let answer = self.options.keeper.as_ref().and_then(|keeper| keeper.wait_for_answer());
        if let Some(answer) = answer {
            self.accept(answer);
        }
    }

    fn accept(&self, answer: Answer) {
        self.changes.answered(answer.next);
        self.given.forget(&answer.taken);
        self.outbox.forget(answer.sent);
        self.give_events(answer.events);
        self.suspension.captured_is_answered();
    }
}
