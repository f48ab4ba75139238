//! The caller of a hostcall, and the messages that it can read besides an error number.

use crate::dispatcher::SchedulerGuard;
use crate::instance::Instance;
use crate::sched::ThreadIndex;
use crate::shared::Shared;
use crate::this_thread;
use monohull_abi::module::Call;

impl Shared {
    /// The instance of a function's call, which the calling thread serves.
    pub(crate) fn caller(&self, call: &Call) -> Option<&Instance> {
        this_thread::instance(call)
    }

    /// The thread of a function's call. Trusted callers have none.
    pub(crate) fn thread_of(&self, scheduler: &SchedulerGuard<'_>, call: &Call) -> Option<ThreadIndex> {
        scheduler.find(call.thread, call.instance)
    }

    /// Keeps a text for `LAST_ERROR_MESSAGE`.
    pub(crate) fn explain(&self, call: &Call, text: String) {
        if let Some(instance) = self.caller(call) {
            instance.explanations.set(call.thread, call.number, text);
        }
    }

    /// The text that is kept for the calling thread.
    pub(crate) fn explanation(&self, call: &Call) -> String {
        self.caller(call).map_or_else(String::new, |instance| instance.explanations.take(call.thread))
    }
}
