//! Templates: an instance that begins where another one of its function has said that it is ready.
//!
//! ```text
//!   a domain that makes one    main ─▶ start, tables, imports ─┬─▶ READY ───────────────▶ at rest ─▶ capture, and the run ends
//!                                                              └─▶ a call of its own ──▶ the same, or the run ends without a template
//!
//!   a later domain             launch: cell, heap, pages, fault handler as they were; READY returns 1, or the call is served ─▶ inputs, …
//! ```
//!
//! **Where it is.** At READY; or, if the workflow file has the template after the first wait, also at the first call that is an instance's own.
//! Such a call is not served by the domain that makes the template. It is the first thing that happens in a later one, which serves it as any call.
//!
//! **Which instances.** The first few of a workflow. Addresses in the memory of a template are of one cell, so each of them has a cell of its own,
//! the same in each process: the one that has a template gets it, and others get it only where there is no other
//! ([`CellPool`](crate::cell_pool::CellPool)). All others start from their images, and may say that they are ready without an effect. The domain
//! that makes a template has that one instance alone, whichever step it is of: what comes before it in the workflow has not been.
//!
//! **What a template has** is the memory of one instance with one thread, and nothing else. No slot, open file, module, timer or time of
//! the domain that made it is used: the later instance gets its own from its own domain, as in a start from the image.
//!
//! **What comes before READY** is common to all instances, so it may depend only on what they have in common: the image, and the step's
//! place, arguments and environment in one version of a workflow. The domain that makes the template has no inputs and serves no other
//! call before READY than [common ones](super::common_calls). So it has no effect, and nothing of an invocation can be in its memory.
//!
//! **A template is untrusted**, like any continuation: each field is checked when it is used. One that does not fit is left out, and the instance
//! starts from its image. Where nothing has run yet, the run ends instead, so that it can be begun again without.

use super::adopt::adopt_memory;
use super::check::{Rejected, check_instance, check_runs};
use super::pages;
use super::putting_back::{Mappable, put_back};
use super::record::{Continuation, ThreadState};
use super::restore_error::RestoreError;
use super::template_memory::TemplateMemory;
use super::template_use::{Beginning, TemplateUse};
use crate::cell::Cell;
use crate::fault::FaultHandler;
use crate::instance::{InstanceConfig, cell_of};
use crate::shared::Shared;
use monohull_abi::Errno;
use monohull_abi::module::{Call, Outcome};
use monohull_report::{StartKind, StartReport};
use std::sync::{Arc, PoisonError};

/// How long a domain that makes a template may take to come to rest. No invocation waits for it, and a busy host must not leave a
/// version of a workflow without a template for good.
const REST_LIMIT_NS: u64 = 30_000_000_000;

/// The first moments of an instance.
pub(crate) struct Begun {
    /// Where its main thread finds its return address.
    pub(crate) user_rsp: u64,
    /// What that thread gets.
    pub(crate) value: i64,
    /// The call in which it is instead, and its arguments.
    pub(crate) call: Option<(u32, [u64; 6])>,
    /// Bytes it is charged.
    pub(crate) charged: u64,
    /// Where its faults go on.
    pub(crate) fault_handler: Option<FaultHandler>,
}

/// Serves READY.
pub(crate) fn ready(domain: &Shared, call: &mut Call) -> Outcome {
    let Some(instance) = domain.caller(call) else { return Outcome::error(Errno::Invalid) };
    let Some(cell) = domain.template_cell(&instance.config) else { return Outcome::ready(0) };
    domain.begins(cell, |beginning| beginning.is_ready = true);
    match domain.makes_template() {
        true => domain.rest_for_template(),
        false => Outcome::ready(0),
    }
}

impl Shared {
    /// The cell in which an instance begins that may have a template.
    fn template_cell(&self, config: &InstanceConfig) -> Option<usize> {
        self.options.template_instances.iter().position(|token| *token == config.token)
    }

    /// The template from which an instance is to start, and its cell. A later attempt starts from the image.
    fn template_of(&self, config: &InstanceConfig) -> Option<(usize, &Arc<TemplateMemory>)> {
        let TemplateUse::From(templates) = &self.options.template else { return None };
        let cell = self.template_cell(config).filter(|_| config.attempt == 1)?;
        templates.iter().find(|(of, _)| *of == cell).map(|(_, template)| (cell, template))
    }

    /// The cell that an instance must have so that it can start from its template, or so that one is made of it.
    pub(crate) fn cell_for_template(&self, config: &InstanceConfig) -> Option<usize> {
        match &self.options.template {
            TemplateUse::No => None,
            TemplateUse::Make(cell) => self.template_cell(config).filter(|of| of == cell),
            TemplateUse::From(_) => self.template_of(config).map(|(cell, _)| cell),
        }
    }

    /// Notes something of an instance that may have a template.
    fn begins(&self, cell: usize, note: impl FnOnce(&mut Beginning)) {
        let mut beginnings = self.template.beginnings.lock().unwrap_or_else(PoisonError::into_inner);
        note(beginnings.entry(cell).or_default());
    }

    /// Comes to rest in a call of the one thread, which goes on in other domains. There READY returns 1.
    fn rest_for_template(&self) -> Outcome {
        // Not a step further.
        let mut scheduler = self.lock();
        scheduler.begin_halt(self.clock.host_now().saturating_add(REST_LIMIT_NS));
        drop(scheduler);
        Outcome { tag: Outcome::YIELD, value: 1 }
    }

    /// In a domain that makes a template: the one thread has come to a call that is an instance's own. If that is where the template is, it
    /// comes to rest there; the call is left to later domains.
    pub(super) fn rest_before(&self, call: &Call) -> Option<Outcome> {
        let number = u32::try_from(call.number).ok().filter(|_| self.options.template_at_first_wait)?;
        *self.template.unserved.lock().unwrap_or_else(PoisonError::into_inner) = Some((number, call.args));
        Some(self.rest_for_template())
    }

    /// Says of a captured template in which call its thread is, if that has not been served.
    pub(super) fn note_unserved(&self, continuation: &mut Continuation) {
        let unserved = self.template.unserved.lock().unwrap_or_else(PoisonError::into_inner).take();
        let threads = continuation.instances.iter_mut().flat_map(|instance| &mut instance.threads);
        for (thread, (number, args)) in threads.zip(unserved) {
            (thread.call, thread.args, thread.state) = (number, args, ThreadState::Unserved);
        }
    }

    /// Where the instances have begun that may have templates, by their tokens, of those that have said that they are ready or need not say it;
    /// and why one could not start from the template that there was.
    pub fn starts(&self) -> Vec<(u64, StartReport)> {
        let beginnings = self.template.beginnings.lock().unwrap_or_else(PoisonError::into_inner);
        let starts = beginnings.iter().filter_map(|(cell, beginning)| {
            let kind = beginning.kind?;
            let is_ready = self.options.template_at_first_wait || beginning.is_ready || beginning.unfit.is_some();
            let start = StartReport { kind, no_template: beginning.unfit.clone() };
            (kind == StartKind::Template || is_ready).then_some((self.options.template_instances[*cell], start))
        });
        starts.collect()
    }

    /// Why no instance could start from the template. The run has ended then, before any of its instructions.
    pub fn take_unfit_template(&self) -> Option<RestoreError> {
        self.template.unfit.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// An instance cannot start from its template. Whether it can start from its image: the run ends, for this reason, if nothing of it has run.
    pub(crate) fn template_unfit(&self, config: &InstanceConfig, error: RestoreError) -> bool {
        match self.template_cell(config) {
            Some(cell) if cell > 0 || !self.options.first_begins_alone => {
                tracing::warn!(step = config.labels.step, %error, "a template is not used");
                // What the host lacks now is not the template's fault.
                if !error.is_hosts() {
                    self.begins(cell, |beginning| beginning.unfit = Some(error.to_string()));
                }
                true
            }
            _ => {
                *self.template.unfit.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                self.finish();
                false
            }
        }
    }

    /// An instance has begun.
    pub(crate) fn note_beginning(&self, config: &InstanceConfig, is_templates: bool) {
        if let Some(cell) = self.template_cell(config) {
            let kind = if is_templates { StartKind::Template } else { StartKind::Main };
            // A later attempt of one that has started from a template is no reason to make one.
            self.begins(cell, |beginning| beginning.kind = beginning.kind.or(Some(kind)));
        }
    }

    /// Puts the memory of a template into the fresh cell of an instance that is to start from it.
    pub(crate) fn begin_from_template(
        &self,
        cell: &mut Cell,
        config: &InstanceConfig,
    ) -> Result<Option<Begun>, RestoreError> {
        let Some((own, template)) = self.template_of(config) else { return Ok(None) };
        // Others had its cell.
        if cell.index() != own {
            return Ok(None);
        }
        let [record] = &template.instances[..] else { return Err(RestoreError::UnknownInstance) };
        // Addresses in its memory are of the cell in which it was made.
        if record.token != config.token || cell_of(record.id) != own {
            return Err(RestoreError::UnknownInstance);
        }
        // Its memory may say which attempt it is of.
        if record.attempt != config.attempt {
            return Err(RestoreError::UnknownInstance);
        }
        check_instance(record, config)?;
        let [thread] = &record.threads[..] else { return Err(Rejected::Stacks.into()) };
        let (value, call) = match thread.state {
            ThreadState::Returns(value) => (value, None),
            ThreadState::Unserved => (0, Some((thread.call, thread.args))),
            _ => return Err(Rejected::Call(thread.call).into()),
        };
        if thread.registers.is_some() || record.stacks != 0 {
            return Err(Rejected::Stacks.into());
        }
        if !record.files.is_empty() {
            return Err(Rejected::MappedFile.into());
        }
        adopt_memory(&self.space, cell, record, config)?;
        let runs = template.pages.runs();
        check_runs(runs.iter().map(|run| (run.address, run.len)), &mut pages::writable(cell))?;
        // SAFETY: checked above; the cell has no thread yet.
        unsafe { put_back(&self.space, &mut [&mut *cell], &runs, Mappable::All, None)? };
        cell.mapped().settle(&self.space, cell.key())?;
        let charged = cell.data_bytes() + record.heap + cell.mapped().charged();
        if charged > config.memory_limit {
            return Err(Rejected::MemoryLimit.into());
        }
        Ok(Some(Begun { user_rsp: thread.user_rsp, value, call, charged, fault_handler: record.fault_handler }))
    }
}
