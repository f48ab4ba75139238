//! Invocations: the record of each, who may start one, the workers that run them, and what is kept afterwards.

pub(crate) mod admission;
pub(crate) mod callback;
pub(crate) mod history;
pub(crate) mod invocation;
pub(crate) mod journal;
pub(crate) mod redact;
pub(crate) mod slots;
pub(crate) mod workers;
