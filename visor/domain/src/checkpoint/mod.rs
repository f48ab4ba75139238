//! Continuations: the rest of a domain's run as data.
//!
//! While user code runs, a thread may be anywhere. If it is interrupted, its registers are a record like any other
//! ([`RegistersRecord`](record::RegistersRecord)). At a hostcall it is two things: its frame (number, arguments, stack pointer)
//! and its stack. The gate has saved the callee-saved registers there, and no vector or scratch register is live. User memory
//! holds no address of trusted memory. So a domain whose threads are all off the carriers is a few records and some pages:
//!
//! ```text
//!   domain                                       continuation                      fresh domain
//!   ┌ scheduler: threads, waits, timers ──────▶  records, times in domain time ──▶ built anew, each field checked
//!   ├ instances ──────────────────────────────▶  id, heap, stacks, attempt ──────▶ built anew from the plan
//!   ├ modules: slots, descriptors, lines ─────▶  a record of each module ────────▶ `restore` of each module
//!   ├ cell:  code, constants ─────────────────▶  -                                 mapped again from the image
//!   │        data, bss ───────────────────────▶  pages that differ from the image  ┐
//!   │        heap, slot buffers ──────────────▶  pages that are not zero           ├ written into pages that were tagged
//!   │        stacks, from the red zone up ────▶  pages that are not zero           ┘
//!   ├ files in memory ────────────────────────▶  pages that are not zero, with names ─▶ written where their module has them
//!   └ carriers, keys, descriptors, secrets ───▶  -                                 made anew
//! ```
//!
//! No trusted pointer is ever written, so an attacker who changes a continuation gains no more than a hostile function has.
//!
//! **When.** [`quiesce`]: a carrier that finds nothing to do asks whether the workflow only waits; or it is time to come to rest, and all
//! carriers have come back. Then no thread is on a carrier,
//! no handler runs, and no module's lock is held. The capture happens under the locks of driver and scheduler.
//!
//! **What.** [`capture`]: threads are ready, or wait in one of the calls that need nothing but their arguments: `FUTEX_WAIT`,
//! `THREAD_JOIN`, `NANOSLEEP`, `SLOT_TAKE`, `EVENT_WAIT`, and `QUEUE_WAIT` of a queue that watches no socket. A thread in any other call is a
//! refusal that names the call, and the run goes on.
//!
//! **Back.** [`restore`] takes an untrusted record, see [`check`]. Limits come from the plan, not from the record. Pages that are in sealed
//! memory are mapped from there where they are many, see [`putting_back`].
//!
//! **Templates.** [`template`]: a domain that is to make one is captured where its function says that it is ready; later instances begin there.
//! Before that there are only calls that all instances have in common: [`common_calls`].
//!
//! **Or stay.** A workflow that only waits may stand still in its process after its capture, and go on there: see [`residence`].
//!
//! **And on.** A run ends with its capture, or goes on in place and gives it to a [`Keeper`]. Then the next capture has only what has
//! changed since, see [`changes`].
//!
//! **Time.** While a workflow is suspended its clock runs up to its next timer and then stops. A sleep ends in time, and a
//! timeout does not pass because the workflow was not resumed.

mod adopt;
mod answer;
pub(crate) mod capture;
mod captured_pages;
mod changes;
mod check;
mod common_calls;
mod file_pages;
mod keeper;
mod names;
mod page_hash;
mod page_hashes;
mod pages;
mod putting_back;
mod quiesce;
#[cfg(test)]
mod random;
pub mod record;
mod residence;
pub(crate) mod restore;
mod restore_error;
mod standing;
mod suspension;
mod template;
mod template_memory;
mod template_use;

pub use crate::pager::{PageError, PageSource};
pub use capture::{CaptureError, Wait};
pub use captured_pages::CapturedPages;
pub(crate) use changes::Changes;
pub use check::Rejected;
pub use keeper::{Answer, Base, Keeper};
pub use record::{Continuation, Lineage};
pub use residence::{GoOn, Order, Residence};
pub use restore::check_before_restore;
pub use restore_error::RestoreError;
pub(crate) use suspension::Suspension;
pub(crate) use template::{Begun, ready};
pub use template_memory::TemplateMemory;
pub(crate) use template_use::TemplateState;
pub use template_use::TemplateUse;

use std::time::Duration;

/// How a run came to rest before its end.
pub struct Suspended {
    /// The rest of it.
    pub continuation: Continuation,
    /// What its threads wait for, one entry per instance and kind of wait.
    pub waits: Vec<Wait>,
    /// When the first timer is due (wall clock, ns since 1970); `None` if nothing happens by itself.
    pub until: Option<u64>,
    /// The numbers of the events that were given to the domain ([`Shared::give_event`](crate::Shared::give_event)), have been taken, and are in
    /// no earlier capture that was kept. They are the continuation's; the others are not in it.
    pub events_taken: Vec<u64>,
    /// How long the capture took, while the domain stood still.
    pub captured_in: Duration,
    /// What the workflow has published.
    pub published: std::collections::BTreeMap<String, String>,
    /// Events for other invocations, which leave if this is kept.
    pub sent: Vec<monohull_report::Outgoing>,
}
