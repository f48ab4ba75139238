//! How steps start, and their instances: as many at a time as the domain needs to have something to do.

use super::{Attempt, InstanceState, Outcome, State, StepScheduler, StepState, parts, token};
use crate::slots::filled;
use monohull_abi::effect::PERFORMS_TOGETHER;
use monohull_abi::layout::CELL_COUNT;
use monohull_domain::Shared;
use monohull_domain::instance::{InstanceConfig, Usage};
use monohull_report::failure::{Blame, FailureKind};
use monohull_report::text::quoted;
use monohull_report::{Failure, Line};
use monohull_workflow::plan::{Instances, TemplateInstance};
use std::collections::VecDeque;

/// The most instances that the domain has at a time. It runs fewer at once; the others are kept here as numbers, which take less.
const HANDED_OVER_MAX: usize = 2 * CELL_COUNT;

impl StepScheduler {
    /// The run has this instance alone, and ends with it: the others of its step do not start, and all other steps wait for ever.
    pub(crate) fn runs_only(&self, (step, index): TemplateInstance) {
        let mut state = self.lock();
        for (other, of_step) in state.steps.iter_mut().enumerate() {
            of_step.blocked_by = if other == step { 0 } else { usize::MAX };
        }
        state.open_steps = 1;
        state.only = Some(index);
    }
}

impl State {
    /// Starts steps, and those that can start because one of them has nothing to do.
    pub(super) fn start_steps(&mut self, mut steps: VecDeque<usize>, domain: &Shared) {
        while let Some(step) = steps.pop_front() {
            if self.is_told_to_end(domain) {
                break;
            }
            let plan = &self.plan.steps[step];
            let count = match &plan.instances {
                Instances::Fixed(count) => *count,
                Instances::Each { prefix, max } => match count_parts(domain, prefix, *max) {
                    Ok(count) => count,
                    Err((blame, text)) => {
                        let failure = Failure::blamed(FailureKind::Input, blame, text);
                        let failure = Failure { step: Some(plan.name.clone()), ..failure };
                        return self.stop(Outcome::Failed(failure), domain);
                    }
                },
            };
            self.start_step(step, count);
            if count == 0 {
                steps.extend(self.step_done(step, domain));
            }
        }
        self.hand_over(domain);
    }

    pub(super) fn start_step(&mut self, step: usize, count: u32) {
        let state = &mut self.steps[step];
        state.started = true;
        state.open = self.only.map_or(count, |_| 1);
        state.instances.resize_with(count as usize, InstanceState::default);
        if count > 0 {
            self.queue.push_back(step);
        }
        self.progress.step_started(&self.plan.steps[step].name, count);
    }

    /// Gives the domain instances of the steps that have started, as many as it needs to have something to do.
    pub(super) fn hand_over(&mut self, domain: &Shared) {
        if self.outcome.is_none() && self.is_told_to_end(domain) {
            return self.end_as_told(domain);
        }
        while self.outcome.is_none()
            && self.handed_over < HANDED_OVER_MAX
            && let Some(&step) = self.queue.front()
        {
            let state = &mut self.steps[step];
            let index = self.only.unwrap_or(state.next);
            state.next = index + 1;
            if self.only.is_some() || state.next as usize >= state.instances.len() {
                self.queue.pop_front();
            }
            self.start_instance(step, index, domain);
        }
    }

    /// Whether a function has taken the event that tells the workflow to end. It is remembered: another attempt may take it once more.
    pub(super) fn is_told_to_end(&mut self, domain: &Shared) -> bool {
        self.told_to_end |= domain.is_told_to_end();
        self.told_to_end
    }

    /// Of a workflow that was told to end only what has begun goes on; the run is done once nothing of that is left.
    fn end_as_told(&mut self, domain: &Shared) {
        let has_not_begun = |of: u64| {
            let (step, index) = parts(of);
            !self.is_handler(step) && self.steps[step].instances[index as usize].last.is_none()
        };
        for (step, index) in domain.take_back(has_not_begun).into_iter().map(parts) {
            self.handed_over = self.handed_over.saturating_sub(1);
            self.steps[step].open -= 1;
            self.steps[step].instances[index as usize].take_back();
        }
        let is_over = |(step, state): (usize, &StepState)| {
            self.is_handler(step) || state.open as usize == state.instances.len().saturating_sub(state.next as usize)
        };
        if self.steps.iter().enumerate().all(is_over) {
            self.outcome = Some(Outcome::Done);
            domain.finish();
        }
    }

    pub(super) fn start_instance(&mut self, step: usize, index: u32, domain: &Shared) {
        if self.outcome.is_some() {
            return;
        }
        let instance = &mut self.steps[step].instances[index as usize];
        instance.attempts += 1;
        instance.before = None;
        self.handed_over += 1;
        domain.start(self.config(step, index));
    }

    /// An instance at its current attempt.
    pub(super) fn config(&self, step: usize, index: u32) -> InstanceConfig {
        let plan = &self.plan.steps[step];
        let state = &self.steps[step];
        let instance = &state.instances[index as usize];
        let handles = self.serving.get(&(step, index)).map(|serving| serving.handled);
        // All requests for which an index is used share what the report keeps of it.
        let printed = if handles.is_some() { instance.lines.iter().map(printed_bytes).sum() } else { 0 };
        InstanceConfig {
            token: token(step, index),
            image: self.images[plan.function].clone(),
            labels: state.labels.clone(),
            index,
            count: if handles.is_some() { PERFORMS_TOGETHER as u32 } else { state.instances.len() as u32 },
            attempt: instance.attempts,
            args: state.args.clone(),
            env: state.env.clone(),
            stdin: plan.stdin_of(index).into(),
            slots: plan.slots_of(index),
            files: state.files.clone(),
            performs: state.performs.clone(),
            handles,
            stack_size: plan.stack,
            memory_limit: plan.memory,
            max_threads: self.plan.limits.threads,
            output_limit: self.plan.limits.output.saturating_sub(printed),
            timeout: plan.timeout,
        }
    }
}

impl InstanceState {
    /// It was handed over, and has not begun.
    fn take_back(&mut self) {
        self.attempts = self.attempts.saturating_sub(1);
        let failure = Failure::new(FailureKind::Cancelled, "the workflow was told to end before this began");
        self.last = Some(Attempt { id: 0, result: Err(Box::new(failure)), usage: Usage::default() });
    }

    /// Whether it was taken back.
    pub(super) fn is_taken_back(&self) -> bool {
        let result = self.last.as_ref().map(|last| &last.result);
        matches!(result, Some(Err(failure)) if failure.kind == FailureKind::Cancelled)
    }
}

/// The token of an instance that may start from a template.
pub(crate) fn token_of((step, index): TemplateInstance) -> u64 {
    token(step, index)
}

/// How many slots `PREFIX0`, `PREFIX1`, … are filled; an error if there are more than `max`, or others of that prefix.
fn count_parts(domain: &Shared, prefix: &str, max: u32) -> Result<u32, (Blame, String)> {
    let slots = quoted(&format!("{prefix}*"));
    let (mut count, mut last) = (0, None);
    for next in filled(domain, prefix) {
        let (name, _) =
            next.map_err(|errno| (Blame::Monohull, format!("the slots {slots} cannot be counted: {errno}")))?;
        let Some(number) = name.strip_prefix(prefix) else { break };
        // A number has one form, so that no two slots have the same.
        let Some(number) = number.parse::<u32>().ok().filter(|parsed| parsed.to_string() == number) else {
            let text = format!("slot {} is one of {slots}, whose names end with numbers from 0 on", quoted(&name));
            return Err((Blame::Workflow, text));
        };
        count += 1;
        last = last.max(Some(number));
        if count > max {
            return Err((Blame::Workflow, format!("there are more than {max} slots {slots}, the step's `max`")));
        }
    }
    match last {
        Some(last) if last >= count => {
            let text = format!("the {count} slots {slots} are not numbered without a gap: the last is {prefix}{last}");
            Err((Blame::Workflow, text))
        }
        _ => Ok(count),
    }
}

/// What a line counts against the limit of output: it occupies something besides its text.
fn printed_bytes(line: &Line) -> u64 {
    line.text.len() as u64 + 32
}
