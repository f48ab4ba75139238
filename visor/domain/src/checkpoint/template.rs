//! Templates: an instance that begins where another one of its function has said that it is ready.
//!
//! ```text
//!   a domain that makes one    main ─▶ start, tables, imports ─▶ READY ─▶ at rest ─▶ capture, and the run ends
//!                                      │ any call that is the instance's own: the run ends, no template
//!                                      ▼
//!   a later domain             launch: cell, heap, pages, fault handler as they were; READY returns 1 ─▶ inputs, …
//! ```
//!
//! **What a template has** is the memory of one instance with one thread, and nothing else. No slot, open file, module, timer or time of
//! the domain that made it is used: the later instance gets its own from its own domain, as in a start from the image.
//!
//! **What comes before READY** is common to all instances, so it may depend only on what they have in common: the image, and the step's
//! place, arguments and environment in one version of a workflow. The domain that makes the template has no inputs and serves no other
//! call before READY than those of [`COMMON`]. So it has no effect, and nothing of an invocation can be in its memory.
//!
//! **A template is untrusted**, like any continuation: each field is checked when it is used.

use super::adopt::adopt_memory;
use super::check::{Rejected, check_instance};
use super::pages;
use super::record::ThreadState;
use super::restore::check_runs;
use super::restore_error::RestoreError;
use super::template_use::TemplateUse;
use crate::cell::Cell;
use crate::fault::FaultHandler;
use crate::instance::{InstanceConfig, cell_of};
use crate::shared::Shared;
use monohull_abi::Errno;
use monohull_abi::module::{Call, Outcome};
use monohull_abi::number::{self, SYSTEM_ONLY};
use monohull_abi::types::{InfoString, RANDOM_SHARED};
use monohull_report::StartKind;
use std::ffi::c_void;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// How long a domain that makes a template may take to come to rest. No invocation waits for it, and a busy host must not leave a
/// version of a workflow without a template for good.
const REST_LIMIT_NS: u64 = 30_000_000_000;

/// The calls before READY. The handlers of `GET_STRING`, `GET_STRING_LEN` and `GETRANDOM` refuse a part of theirs.
const COMMON: [u32; 23] = [
    number::NULL,
    number::EXIT,
    number::ABORT,
    number::THREAD_EXIT,
    number::THREAD_YIELD,
    number::FUTEX_WAIT,
    number::FUTEX_WAKE,
    number::GET_STRING_LEN,
    number::GET_STRING,
    number::GET_INFO,
    number::GETRANDOM,
    number::LAST_ERROR_MESSAGE,
    number::FAULT_HANDLER,
    number::READY,
    number::HEAP_GROW,
    number::MEMORY_STATS,
    number::MAP,
    number::UNMAP,
    number::DISCARD,
    number::PROTECT,
    number::STDIO_FLUSH,
    number::CLOCK_GETTIME,
    number::NANOSLEEP,
];

/// The first moments of an instance.
pub(crate) struct Begun {
    /// Where its main thread finds its return address.
    pub(crate) user_rsp: u64,
    /// What that thread gets.
    pub(crate) value: i64,
    /// Bytes it is charged.
    pub(crate) charged: u64,
    /// Where its faults go on.
    pub(crate) fault_handler: Option<FaultHandler>,
}

/// Serves READY.
pub(crate) fn ready(domain: &Shared, call: &mut Call) -> Outcome {
    if domain.caller(call).is_none() {
        return Outcome::error(Errno::Invalid);
    }
    domain.template.is_ready.store(true, Ordering::Relaxed);
    if !domain.makes_template() {
        return Outcome::ready(0);
    }
    // Not a step further: the thread goes on in other domains, where the call returns 1.
    let mut scheduler = domain.lock();
    scheduler.begin_halt(domain.clock.host_now().saturating_add(REST_LIMIT_NS));
    drop(scheduler);
    Outcome { tag: Outcome::YIELD, value: 1 }
}

/// Serves the calls that are not [`COMMON`] in a domain that makes a template.
unsafe extern "C" fn not_ready(state: *mut c_void, call: *mut Call) -> Outcome {
    // SAFETY: bound with the domain as its state; the call is the carrier's while its handler runs.
    let (domain, call) = unsafe { (&*state.cast::<Shared>(), &*call) };
    let name = u32::try_from(call.number).ok().and_then(number::name_of).unwrap_or("an unknown call");
    domain.not_common(call, name)
}

impl Shared {
    /// Whether the run ends with a template.
    pub(crate) fn makes_template(&self) -> bool {
        matches!(self.options.template, TemplateUse::Make)
    }

    /// Where its instance began, if that has said that it is ready.
    pub fn start_kind(&self) -> Option<StartKind> {
        match (self.template.is_used.load(Ordering::Relaxed), self.template.is_ready.load(Ordering::Relaxed)) {
            (true, _) => Some(StartKind::Template),
            (false, true) => Some(StartKind::Main),
            (false, false) => None,
        }
    }

    /// Why no instance could start from the template. The run has ended then, before any of its instructions.
    pub fn take_unfit_template(&self) -> Option<RestoreError> {
        self.template.unfit.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The run ends, for this reason.
    pub(crate) fn template_unfit(&self, error: RestoreError) {
        *self.template.unfit.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.finish();
    }

    /// In a domain that makes a template: binds the calls that are not common to all instances to their refusal. Once more after each
    /// module that is loaded, which binds its own.
    pub(crate) fn bind_not_ready(&self) {
        if self.makes_template() {
            let refused = (0..SYSTEM_ONLY).filter(|number| !COMMON.contains(number));
            self.hostcalls.table.bind(refused, not_ready, self.as_state());
        }
    }

    /// Ends a run that makes a template because of a call that is an instance's own.
    fn not_common(&self, call: &Call, name: &str) -> Outcome {
        let Some(instance) = self.caller(call) else { return Outcome::error(Errno::NoSuchCall) };
        self.no_template(format!("{} has called {name} before it was ready", instance.described()));
        Outcome { tag: Outcome::ENDED, value: 0 }
    }

    /// Ends a run that makes a template, without one.
    pub(crate) fn no_template(&self, why: String) {
        self.suspension.refuse(why);
        self.abort();
    }

    /// Refuses those texts and random numbers before READY that instances do not have in common.
    pub(crate) fn refuse_own(&self, call: &Call) -> Option<Outcome> {
        let name = match u32::try_from(call.number).ok()? {
            number::GETRANDOM if call.args[2] & RANDOM_SHARED == 0 => "GETRANDOM",
            number::GET_STRING | number::GET_STRING_LEN if call.args[0] == InfoString::Invocation as u64 => {
                "GET_STRING for the id of the invocation"
            }
            number::GET_STRING | number::GET_STRING_LEN if call.args[0] == InfoString::HandedOver as u64 => {
                "GET_STRING for what was handed over to the invocation"
            }
            _ => return None,
        };
        self.makes_template().then(|| self.not_common(call, name))
    }

    /// Puts the memory of a template into the fresh cell of an instance that is to start from it.
    pub(crate) fn begin_from_template(
        &self,
        cell: &mut Cell,
        config: &InstanceConfig,
    ) -> Result<Option<Begun>, RestoreError> {
        let TemplateUse::From(template) = &self.options.template else { return Ok(None) };
        // A later attempt starts from the image, like those of functions without a template.
        if config.attempt != 1 {
            return Ok(None);
        }
        let [record] = &template.instances[..] else { return Err(RestoreError::UnknownInstance) };
        if record.token != config.token {
            return Err(RestoreError::UnknownInstance);
        }
        // Addresses in its memory are of the cell in which it was made.
        if cell_of(record.id) != cell.index() {
            return Ok(None);
        }
        check_instance(record, config)?;
        let [thread] = &record.threads[..] else { return Err(Rejected::Stacks.into()) };
        let ThreadState::Returns(value) = thread.state else { return Err(Rejected::Call(thread.call).into()) };
        if thread.registers.is_some() || record.stacks != 0 {
            return Err(Rejected::Stacks.into());
        }
        adopt_memory(&self.space, cell, record, config)?;
        check_runs(&template.pages, &mut pages::writable(cell))?;
        for run in &template.pages {
            // SAFETY: checked above; the cell has no thread yet.
            unsafe { pages::put_back(run) };
        }
        cell.mapped().settle(&self.space, cell.key())?;
        let charged = cell.data_bytes() + record.heap + cell.mapped().charged();
        if charged > config.memory_limit {
            return Err(Rejected::MemoryLimit.into());
        }
        self.template.is_used.store(true, Ordering::Relaxed);
        Ok(Some(Begun { user_rsp: thread.user_rsp, value, charged, fault_handler: record.fault_handler }))
    }
}
