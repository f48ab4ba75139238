//! The driver of a run: it starts steps whose predecessors are done, retries instances, and ends the run.

mod away;
mod effects;
mod record;
mod report;
mod starts;
mod timeline;

pub(crate) use effects::effects;
pub use record::StateError;
pub(crate) use starts::token_of;

use super::clock::{Clock, Scale};
use super::{Delay, Latest};
use away::Away;
use effects::Serving;
use monohull_domain::checkpoint::Continuation;
use monohull_domain::host_time::{monotonic_ns, ticks};
use monohull_domain::image::map::LoadedImage;
use monohull_domain::instance::{Labels, Usage};
use monohull_domain::{Driver, Ended, Event, Shared};
use monohull_report::failure::{Blame, FailureKind};
use monohull_report::{FailedAttempt, Failure, Line, Progress, Stream, Suspensions};
use monohull_workflow::Plan;
use monohull_workflow::plan::Step;
use record::Spent;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use timeline::Timeline;

/// How a run through the whole plan ended.
pub(super) enum Outcome {
    /// Every step is done.
    Done,
    /// A step failed for good, or the time was up.
    Failed(Failure),
    /// A step failed after it had used its inputs up: the whole workflow is to be run again. Its first steps start after a pause.
    RetryWorkflow(Duration),
}

impl Outcome {
    /// Why it is not done.
    pub(super) fn why(self) -> Option<String> {
        match self {
            Outcome::Failed(failure) => Some(failure.message),
            _ => None,
        }
    }
}

/// Keeps the state of a run across domains.
pub(super) struct StepScheduler {
    state: Arc<Mutex<State>>,
}

struct State {
    plan: Arc<Plan>,
    images: Vec<Arc<LoadedImage>>,
    progress: Arc<dyn Progress>,
    steps: Vec<StepState>,
    /// Steps that have not ended, without those that handle effects.
    open_steps: usize,
    /// The steps that handle effects, in the order of these.
    handlers: Vec<usize>,
    /// What instances of these are doing, by step and index.
    serving: BTreeMap<(usize, u32), Serving>,
    /// Steps with instances that the domain does not have yet, in the order in which they started.
    queue: VecDeque<usize>,
    /// Instances that the domain has.
    handed_over: usize,
    /// Attempts that failed and were followed by another, by step and instance: few have any.
    failed: BTreeMap<(usize, u32), Vec<FailedAttempt>>,
    /// How many they are.
    failed_kept: usize,
    outcome: Option<Outcome>,
    /// The pause before the first steps start, of a run that is repeated.
    pause: Option<Duration>,
    begin: Instant,
    clock: Clock,
    /// From the request to the last capture of the run, if it is the rest of one.
    elapsed_us: u64,
    /// When it stood still in this process since.
    away: Away,
    /// How often it has gone on from a capture, here or in another process, and how long it was away.
    suspended: Suspensions,
    /// When it did so for the first time in this process (monotonic ns).
    gone_on: Option<u64>,
    /// Moments that the report names.
    timeline: Timeline,
    /// From the request to the first instruction, if that was in another process.
    cold_start_us: Option<u64>,
    /// When the run has to end, if that is before its own timeout.
    latest: Option<(Instant, Delay)>,
    /// The instance of the one step that starts, if it is to be the only one.
    only: Option<u32>,
    /// A function has taken the event that tells the workflow to end: no step or instance starts that has not begun.
    told_to_end: bool,
}

struct StepState {
    labels: Arc<Labels>,
    args: Arc<str>,
    env: Arc<str>,
    /// The mount points that it may use, if it has a list.
    files: Option<Arc<[String]>>,
    /// The effects that it may ask for, if it has a list.
    performs: Option<Arc<[String]>>,
    /// Steps before this one that have not ended.
    blocked_by: usize,
    /// Instances that have not ended.
    open: u32,
    started: bool,
    /// The first instance that the domain has not got yet.
    next: u32,
    /// Its instances; none before it has started, as a plan may have many that never do.
    instances: Vec<InstanceState>,
    /// The requests for which it has had an instance, if it handles an effect.
    handled: u64,
}

#[derive(Default)]
struct InstanceState {
    /// How often it was started, and how often it failed; it is also started again because others failed.
    attempts: u32,
    failures: u32,
    last: Option<Attempt>,
    /// What the current attempt used before its run was captured.
    before: Option<Spent>,
    /// Output of all attempts.
    lines: Vec<Line>,
    lines_dropped: bool,
}

/// How the last attempt at an instance ended.
struct Attempt {
    /// The instance's id in the domain.
    id: u32,
    result: Result<(), Box<Failure>>,
    usage: Usage,
}

/// The most failed attempts of a run that its report has besides the last of each instance.
const FAILED_KEPT_MAX: usize = 1000;

impl StepScheduler {
    /// `latest` is when the run has to end, if that is before its own timeout.
    pub(super) fn new(
        plan: Arc<Plan>,
        images: Vec<Arc<LoadedImage>>,
        progress: Arc<dyn Progress>,
        latest: Option<Latest>,
        clock: Clock,
    ) -> StepScheduler {
        let steps: Vec<_> = plan.steps.iter().map(|step| StepState::new(&plan, step)).collect();
        let begin = Instant::now();
        let latest = latest
            .map(|Latest { at_ns, delay }| (begin + Duration::from_nanos(at_ns.saturating_sub(monotonic_ns())), delay));
        let handlers = effects::handlers(&plan);
        let state = State {
            plan,
            images,
            progress,
            open_steps: steps.len() - handlers.len(),
            handlers,
            serving: BTreeMap::new(),
            steps,
            queue: VecDeque::new(),
            handed_over: 0,
            failed: BTreeMap::new(),
            failed_kept: 0,
            outcome: None,
            pause: None,
            begin,
            clock,
            elapsed_us: 0,
            away: Away::default(),
            suspended: Suspensions::default(),
            gone_on: None,
            timeline: Timeline::default(),
            cold_start_us: None,
            latest,
            only: None,
            told_to_end: false,
        };
        StepScheduler { state: Arc::new(Mutex::new(state)) }
    }

    /// The rest of a run that was captured. Nothing of it may have been run here.
    pub(super) fn restore<P>(&self, continuation: &Continuation<P>) -> Result<(), StateError> {
        self.restore_state(continuation)
    }

    /// A driver for one run through the plan.
    pub(super) fn driver(&self) -> Box<dyn Driver> {
        Box::new(Handle(self.state.clone()))
    }

    /// How the run ended; afterwards everything but the counts of attempts and the output is as before it.
    pub(super) fn outcome(&mut self) -> Outcome {
        let mut state = self.lock();
        let outcome = state.outcome.take().unwrap_or_else(|| {
            let text = "the run ended before its last step; this is a bug in Monohull";
            Outcome::Failed(Failure::blamed(FailureKind::Deadlock, Blame::Monohull, text))
        });
        if let Outcome::RetryWorkflow(pause) = outcome {
            state.pause = Some(pause);
            let plan = state.plan.clone();
            for (state, step) in state.steps.iter_mut().zip(&plan.steps) {
                state.rewind(step);
            }
            state.open_steps = plan.steps.len() - state.handlers.len();
            state.serving.clear();
            state.queue.clear();
            state.handed_over = 0;
        }
        outcome
    }

    /// Which step and instance had an id in the domain, of those whose last attempt had it.
    pub(super) fn producers(&self) -> Box<dyn Fn(u32) -> Option<(String, u32)>> {
        let state = self.lock();
        let mut producers = HashMap::new();
        for (step, of_step) in state.steps.iter().enumerate() {
            for (index, instance) in (0..).zip(&of_step.instances) {
                producers.extend(instance.last.as_ref().map(|last| (last.id, (step, index))));
            }
        }
        let plan = state.plan.clone();
        Box::new(move |id| producers.get(&id).map(|&(step, index)| (plan.steps[step].name.clone(), index)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the scheduler does not panic")
    }
}

struct Handle(Arc<Mutex<State>>);

impl Driver for Handle {
    fn on_event(&mut self, event: Event, domain: &Shared) {
        let mut state = self.0.lock().expect("the scheduler does not panic");
        match event {
            Event::Begin => state.begin(domain),
            Event::Ended(ended) => state.ended(*ended, domain),
            Event::Performed(performed) => state.performed(performed, domain),
            Event::Timer { token: BEGIN } => state.start_first(domain),
            Event::Timer { token } => {
                let (step, index) = parts(token);
                if !state.is_given_up(token) {
                    state.start_instance(step, index, domain);
                }
            }
            Event::Deadline => {
                let (blame, text) = match state.latest {
                    Some((latest, delay)) => {
                        let ran = latest - state.begin;
                        let (blame, before) = match delay {
                            Delay::Queue => (Blame::Host, "the workflow had to wait for its turn"),
                            Delay::Inputs => (Blame::Workflow, "the workflow had to wait for its inputs"),
                        };
                        (blame, format!("the time was up: {before}, and then ran for {ran:?}"))
                    }
                    None => {
                        let limit = state.plan.limits.timeout.unwrap_or_default();
                        (Blame::Workflow, format!("the workflow ran longer than {limit:?}, its timeout"))
                    }
                };
                state.stop(Outcome::Failed(Failure::blamed(FailureKind::Timeout, blame, text)), domain);
            }
        }
    }

    fn save(&mut self, live: &[(u64, Usage)], domain: &Shared) -> Vec<u8> {
        self.0.lock().expect("the scheduler does not panic").save(live, domain)
    }

    fn stood_still(&mut self, time: Duration, away: Duration) {
        let mut state = self.0.lock().expect("the scheduler does not panic");
        state.gone_on.get_or_insert_with(monotonic_ns);
        state.begin += time;
        state.away.add(ticks(), u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        state.suspended.add(away);
    }
}

impl State {
    /// µs that the run had taken at a moment.
    fn taken_until(&self, scale: &Scale, moment: u64) -> u64 {
        (self.elapsed_us + scale.since_request(moment)).saturating_sub(self.away.before(moment))
    }

    fn begin(&mut self, domain: &Shared) {
        let own = self.plan.limits.timeout.map(|timeout| self.begin + timeout);
        if let Some(end) = self.latest.map(|(latest, _)| latest).or(own) {
            // The rest of the time, if the workflow is run again.
            domain.set_deadline(end.saturating_duration_since(Instant::now()));
        }
        match self.pause.take() {
            Some(pause) => domain.set_timer(BEGIN, pause),
            None => self.start_first(domain),
        }
    }

    /// Starts the steps that wait for no other.
    fn start_first(&mut self, domain: &Shared) {
        let is_free = |step: &usize| self.steps[*step].blocked_by == 0 && !self.is_handler(*step);
        let free = (0..self.steps.len()).filter(is_free).collect();
        self.start_steps(free, domain);
    }

    fn ended(&mut self, mut ended: Ended, domain: &Shared) {
        let (step, index) = parts(ended.token);
        self.handed_over = self.handed_over.saturating_sub(1);
        let plan = self.plan.clone();
        let policy = &plan.steps[step].retry;
        let instance = &mut self.steps[step].instances[index as usize];
        instance.lines.extend(ended.lines.drain(..).map(|line| Line {
            stream: if line.stream == 2 { Stream::Stderr } else { Stream::Stdout },
            text: line.text,
        }));
        if ended.lines_dropped && !std::mem::replace(&mut instance.lines_dropped, true) {
            let line = Line { stream: Stream::Stderr, text: beyond_limit(&plan) };
            self.progress.line(&plan.steps[step].name, index, line.stream, &line.text);
            // In the order in which it is printed: lines of another attempt may come behind it.
            instance.lines.push(line);
        }
        let cancelled = ended.result.as_ref().is_err_and(|failure| failure.kind == FailureKind::Cancelled);
        instance.failures += u32::from(ended.result.is_err() && !cancelled);
        let failures = instance.failures;
        // What the workflow file refuses it refuses in each attempt.
        let refusal = ended.refusal.take();
        if let Err(failure) = &mut ended.result
            && let (Some(refusal), true) = (&refusal, is_own_error(failure.kind))
            && failures < policy.max_attempts
        {
            failure.message += &format!("\n  not tried again, as the workflow file does not allow it this: {refusal}");
        }
        let failed = ended.result.as_ref().err().map(|failure| (**failure).clone());
        let intact = ended.inputs_intact;
        instance.last = Some(Attempt { id: ended.id, result: ended.result, usage: ended.usage });
        let again = failed.as_ref().and_then(|failure| {
            let is_final = failure.kind == FailureKind::Permanent || refusal.is_some() && is_own_error(failure.kind);
            let wanted = !is_final && (policy.on.is_empty() || policy.on.contains(&failure.kind));
            let pause = || policy.interval.mul_f64(policy.backoff_rate.powi(failures as i32 - 1).min(1e6));
            (wanted && failures < policy.max_attempts).then(pause)
        });
        // The whole workflow is not begun again once it was told to end.
        let again = again.filter(|_| intact || self.is_handler(step) || !self.is_told_to_end(domain));
        if self.outcome.is_some() {
            return;
        }
        self.abandon(ended.id, domain);
        if self.is_handler(step) {
            // What it has used up is gone: only the asker can do something about that.
            let again = again.filter(|_| intact && !cancelled);
            if let (Some(_), Some(failure)) = (again, &failed) {
                self.keep_failed(step, index, failure.clone());
            }
            return self.handler_ended((step, index), failed, again, domain);
        }
        if cancelled {
            // The event with the reason for the cancellation was handled before, or is the next.
            return;
        }
        let Some(failure) = failed else {
            self.progress.instance_ended(&plan.steps[step].name, index, true);
            self.instance_done(step, domain);
            return self.hand_over(domain);
        };
        if let Some(pause) = again {
            self.keep_failed(step, index, failure);
            match intact {
                true => domain.set_timer(token(step, index), pause),
                false => self.stop(Outcome::RetryWorkflow(pause), domain),
            }
            return self.hand_over(domain);
        }
        self.progress.instance_ended(&plan.steps[step].name, index, false);
        let failure = of_instance(&plan, step, index, failure);
        self.stop(Outcome::Failed(failure), domain);
    }

    /// Keeps an attempt that is followed by another, for the report.
    fn keep_failed(&mut self, step: usize, index: u32, failure: Failure) {
        if self.failed_kept < FAILED_KEPT_MAX {
            self.failed_kept += 1;
            let attempt = self.steps[step].instances[index as usize].attempts;
            let error = of_instance(&self.plan, step, index, failure);
            self.failed.entry((step, index)).or_default().push(FailedAttempt { attempt, error });
        }
    }

    fn instance_done(&mut self, step: usize, domain: &Shared) {
        self.steps[step].open -= 1;
        if self.steps[step].open == 0 {
            let free = self.step_done(step, domain);
            self.start_steps(free, domain);
        }
    }

    /// A step has ended; gives the steps that can start now.
    fn step_done(&mut self, step: usize, domain: &Shared) -> VecDeque<usize> {
        let plan = self.plan.clone();
        let mut free = VecDeque::new();
        self.progress.step_ended(&plan.steps[step].name);
        for (next, other) in plan.steps.iter().enumerate() {
            if other.after.contains(&step) {
                self.steps[next].blocked_by -= 1;
                if self.steps[next].blocked_by == 0 {
                    free.push_back(next);
                }
            }
        }
        self.open_steps -= 1;
        if self.open_steps == 0 {
            self.outcome = Some(Outcome::Done);
            domain.finish();
        }
        free
    }

    fn stop(&mut self, outcome: Outcome, domain: &Shared) {
        if self.outcome.is_none() {
            self.outcome = Some(outcome);
            domain.abort();
        }
    }
}

impl StepState {
    fn new(plan: &Plan, step: &Step) -> StepState {
        let args = serde_json::Value::Object(step.args.clone()).to_string();
        let env = serde_json::to_string(&step.env).expect("strings are always JSON");
        let labels = Labels {
            workflow: plan.name.clone(),
            step: step.name.clone(),
            function: plan.functions[step.function].name.clone(),
        };
        let mut state = StepState {
            labels: Arc::new(labels),
            args: args.into(),
            env: env.into(),
            blocked_by: 0,
            open: 0,
            started: false,
            next: 0,
            instances: Vec::new(),
            handled: 0,
            files: step.files.clone().map(Arc::from),
            performs: step.performs.clone().map(Arc::from),
        };
        state.rewind(step);
        state
    }

    /// Back to the beginning; attempts stay counted and output stays.
    fn rewind(&mut self, step: &Step) {
        self.blocked_by = step.after.len();
        self.open = 0;
        self.started = false;
        self.next = 0;
        if step.handles.is_some() {
            (self.started, self.next) = (!self.instances.is_empty(), self.instances.len() as u32);
        }
        for instance in &mut self.instances {
            instance.last = None;
        }
    }
}

/// Whether a failure is how a function ends itself, perhaps because a call was refused.
fn is_own_error(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::Error | FailureKind::Panic | FailureKind::Exit)
}

/// Stands for lines that are not kept.
fn beyond_limit(plan: &Plan) -> String {
    format!("(output beyond the limit of {} bytes was dropped)", plan.limits.output)
}

/// The failure of an instance, with the names of its step and function.
fn of_instance(plan: &Plan, step: usize, index: u32, mut failure: Failure) -> Failure {
    let step = &plan.steps[step];
    failure.step = Some(step.name.clone());
    failure.instance = Some(index);
    failure.function = Some(plan.functions[step.function].name.clone());
    failure
}

/// The timer after which the first steps start of a run that is repeated. No instance has this token: there are not that many steps.
const BEGIN: u64 = u64::MAX;

/// Instances are known to the domain by step and index.
fn token(step: usize, index: u32) -> u64 {
    (step as u64) << 32 | u64::from(index)
}

fn parts(token: u64) -> (usize, u32) {
    ((token >> 32) as usize, token as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_report::{Silent, Status};

    fn plan(instances: u32) -> Arc<Plan> {
        let text = format!(
            r#"{{"name":"w","functions":{{"f":{{"image":"f.so"}}}},
            "steps":[{{"name":"s","function":"f","instances":{instances}}}]}}"#
        );
        Arc::new(monohull_workflow::load_str(std::path::Path::new("w.json"), &text).expect("a right workflow"))
    }

    /// A plan is a promise of instances; they take memory when their step starts, and not much.
    #[test]
    fn instances_take_memory_when_their_step_starts() {
        let scheduler = StepScheduler::new(plan(100_000), Vec::new(), Arc::new(Silent), None, Clock::start(0));
        let capacity = || scheduler.lock().steps[0].instances.capacity();
        assert_eq!(capacity(), 0);
        scheduler.lock().start_step(0, 100_000);
        assert_eq!(capacity(), 100_000);
        assert!(size_of::<InstanceState>() <= 176, "{}", size_of::<InstanceState>());
    }

    #[test]
    fn a_step_that_never_started_is_cancelled_and_has_no_instances() {
        let scheduler = StepScheduler::new(plan(100_000), Vec::new(), Arc::new(Silent), None, Clock::start(0));
        let failure = Failure::blamed(FailureKind::Load, Blame::Workflow, "missing".to_owned());
        let report = scheduler.bare_report(&Clock::start(0), "none", failure);
        assert_eq!((report.steps[0].status, report.steps[0].instances.len()), (Status::Cancelled, 0));
    }
}
