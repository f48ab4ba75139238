//! Invocations: what is known of each, the ledger, admission, the workers that run them, and those in memory.

pub(crate) mod admission;
pub(crate) mod callback;
pub(crate) mod history;
pub(crate) mod invocation;
pub(crate) mod kept;
pub(crate) mod ledger;
mod lines;
pub(crate) mod record;
pub(crate) mod redact;
pub(crate) mod report;
pub(crate) mod residents;
pub(crate) mod shown;
pub(crate) mod size;
pub(crate) mod slots;
pub(crate) mod status;
pub(crate) mod stored;
pub(crate) mod templates;
mod together;
pub(crate) mod workers;
