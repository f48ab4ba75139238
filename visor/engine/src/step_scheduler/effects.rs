//! Handlers of effects: a step that handles one has an instance for each request, and no other.
//!
//! ```text
//!   Performed ─▶ an index of the step that serves nothing ─▶ instance ── Ended: well ──────▶ its reply is the asker's
//!                        ▲                                      │ ▲  └── failed for good ──▶ the report is
//!                        └───────────── free again              ▼ │
//!                                                     Timer, after a failure
//!   Ended, of the asker ─▶ its handlers are cancelled
//! ```
//!
//! An index is used again, so the report of the step has as many instances as it has ever had at the same time. A request counts its attempts
//! anew. Handlers keep no step from starting, and the run does not wait for them.

use super::{State, of_instance, parts, token};
use monohull_abi::effect::{PERFORMS_TOGETHER, PerformId};
use monohull_domain::{Handled, NoReply, Performed, Shared};
use monohull_report::Failure;
use monohull_report::text::quoted;
use monohull_workflow::Plan;
use std::time::Duration;

/// What an instance of a step that handles an effect does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Serving {
    /// The request.
    pub(super) handled: Handled,
    /// Its asker has ended: nothing waits for a reply.
    pub(super) cancelled: bool,
}

/// The steps of a plan that handle effects, in the order of these.
pub(super) fn handlers(plan: &Plan) -> Vec<usize> {
    let steps = plan.steps.iter().enumerate();
    steps.filter(|(_, step)| step.handles.is_some()).map(|(index, _)| index).collect()
}

/// The effects that steps of a plan handle, in their order.
pub(crate) fn effects(plan: &Plan) -> Vec<String> {
    plan.steps.iter().filter_map(|step| step.handles.clone()).collect()
}

impl State {
    /// Whether a step handles an effect.
    pub(super) fn is_handler(&self, step: usize) -> bool {
        self.plan.steps[step].handles.is_some()
    }

    /// Starts a handler for a request.
    pub(super) fn performed(&mut self, performed: Performed, domain: &Shared) {
        let Performed { id, effect, depth } = performed;
        let Some(step) = self.handlers.get(effect).copied().filter(|_| self.outcome.is_none()) else { return };
        // The domain has no more requests than that; those whose handlers are being cancelled may come on top.
        let free = (0..2 * PERFORMS_TOGETHER as u32).find(|index| !self.serving.contains_key(&(step, *index)));
        let Some(index) = free else {
            return domain.fail_performed(id, "too many handlers of requests that nothing waits for have not ended");
        };
        let state = &mut self.steps[step];
        if index as usize >= state.instances.len() {
            state.instances.resize_with(index as usize + 1, Default::default);
        }
        state.started = true;
        state.next = state.instances.len() as u32;
        state.handled += 1;
        let instance = &mut state.instances[index as usize];
        (instance.attempts, instance.failures, instance.last) = (0, 0, None);
        self.serving.insert((step, index), Serving { handled: Handled { id, depth }, cancelled: false });
        self.start_instance(step, index, domain);
    }

    /// An instance has ended: nothing waits for the replies to its requests.
    pub(super) fn abandon(&mut self, asker: u32, domain: &Shared) {
        if self.handlers.is_empty() || asker == 0 {
            return;
        }
        for ((step, index), serving) in &mut self.serving {
            if serving.handled.id.asker == asker && !serving.cancelled {
                serving.cancelled = true;
                domain.cancel(token(*step, *index));
            }
        }
        domain.drop_performed(asker);
    }

    /// The pause before the next attempt at a request is over. False if it is that of another instance.
    pub(super) fn is_given_up(&mut self, of: u64) -> bool {
        let place = parts(of);
        let given_up = self.serving.get(&place).is_some_and(|serving| serving.cancelled);
        if given_up {
            self.serving.remove(&place);
        }
        given_up
    }

    /// The handler of a request has ended: with a failure, after which it is perhaps tried again.
    pub(super) fn handler_ended(
        &mut self,
        (step, index): (usize, u32),
        failure: Option<Failure>,
        again: Option<Duration>,
        domain: &Shared,
    ) {
        let Some(serving) = self.serving.get(&(step, index)).copied() else { return };
        let id = serving.handled.id;
        if serving.cancelled {
            self.serving.remove(&(step, index));
            // What it had taken may have come back.
            domain.drop_performed(id.asker);
            return self.hand_over(domain);
        }
        if let Some(pause) = again {
            domain.set_timer(token(step, index), pause);
            return self.hand_over(domain);
        }
        self.serving.remove(&(step, index));
        self.progress.instance_ended(&self.plan.steps[step].name, index, failure.is_none());
        match failure {
            Some(failure) => domain.fail_performed(id, &self.report_to_asker(step, index, failure)),
            None => match domain.answer_performed(id) {
                Ok(()) => {}
                Err(error) => domain.fail_performed(id, &self.no_reply(step, index, error)),
            },
        }
        self.hand_over(domain);
    }

    fn report_to_asker(&self, step: usize, index: u32, failure: Failure) -> String {
        let failure = of_instance(&self.plan, step, index, failure);
        format!("{} failed ({}): {}", self.handler(step, index), failure.kind.name(), failure.message)
    }

    fn no_reply(&self, step: usize, index: u32, error: NoReply) -> String {
        let handler = self.handler(step, index);
        match error {
            NoReply::Missing => format!("{handler} ended without filling the slot `reply`"),
            NoReply::Refused(errno) => format!("the reply of {handler} cannot be passed on: {errno}"),
        }
    }

    fn handler(&self, step: usize, index: u32) -> String {
        let plan = &self.plan.steps[step];
        let effect = plan.handles.as_deref().unwrap_or_default();
        format!("the handler of effect {}, {}[{index}],", quoted(effect), plan.name)
    }

    /// The requests that are being handled, and for which something waits.
    pub(super) fn open_requests(&self) -> Vec<PerformId> {
        let open = self.serving.values().filter(|serving| !serving.cancelled);
        open.map(|serving| serving.handled.id).collect()
    }
}
