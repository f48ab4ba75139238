//! A plan becomes steps, instances, retries and deadlines.
//!
//! ```text
//! Plan ─ Ready::new: images read, verified, sealed ─▶ Ready ─ run ─▶ Domain, input slots ─▶ StepScheduler ─▶ RunReport
//!                    (once; never on the cold path)                                          │ Ended, Timer
//!                                                                                            ▼
//!                                                                     start, retry, cancel, or run it all again
//! ```
//!
//! ```no_run
//! use monohull_engine::{Ready, RunOptions};
//! use monohull_report::Silent;
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! let plan = monohull_workflow::load(Path::new("workflows/word-count.json"))?;
//! // Runs in this process. The worker crate runs workflows in processes of their own.
//! let report = Ready::new(plan)?.run(&RunOptions::default(), Arc::new(Silent))?;
//! println!("{:?}", report.status);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

mod clock;
mod events;
pub mod mounts;
pub mod options;
pub mod output_file;
mod packed;
mod slots;
mod step_scheduler;
mod unread;
pub mod workflow_io;

pub use monohull_domain::Inbox;
pub use options::{Event, IsolationWish, RunOptions, StagedOutputs, modules_folder};
pub use workflow_io::{Filling, Source, WorkflowIo};

use clock::Clock;
use monohull_domain::checkpoint::{
    CapturedPages, Continuation, Keeper, Residence, RestoreError, Suspended, TemplateUse, check_before_restore,
};
use monohull_domain::host_time::monotonic_ns;
use monohull_domain::image::map::{LoadError, LoadedImage};
use monohull_domain::instance::InstanceConfig;
use monohull_domain::{Domain, DomainError, EpollSet, Options, ReservedDomain, Sink, TIME_SLICE, keys};
use monohull_network::{self as network, NetworkError, Way};
use monohull_report::failure::{Blame, FailureKind};
use monohull_report::{Failure, Progress, RunReport, Silent, Status, Stream};
use monohull_workflow::Plan;
use monohull_workflow::plan::{Mount, MountSource, Separation, TemplatePoint, TimeStampCounter};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
pub use step_scheduler::StateError;
use step_scheduler::{Outcome, StepScheduler};
use workflow_io::Files;

/// Why the host cannot run the workflow.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The modules were not built or not found.
    #[error("there is no folder with the libos modules; `cargo xtask build` makes one")]
    NoModules,
    /// The network cannot be set up.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A descriptor cannot be made.
    #[error("the workflow's files cannot be passed to its process: {0}")]
    Files(io::Error),
    /// The job has fewer files than the workflow.
    #[error("the job lacks files of the workflow; this is a bug in Monohull")]
    FilesMissing,
    /// A template was asked for of an instance that cannot have one.
    #[error("the workflow has no such instance that could have a template; this is a bug in Monohull")]
    NoTemplate,
    /// The rest of a run cannot be gone on with.
    #[error("the checkpoint cannot be gone on with: {0}")]
    Restore(#[from] RestoreError),
    /// As above.
    #[error("the checkpoint cannot be gone on with: {0}")]
    State(#[from] StateError),
    /// There is no address space.
    #[error("the host cannot hold a workflow domain: {0}")]
    Domain(#[from] DomainError),
}

impl HostError {
    /// Whether the continuation is at fault, with which a run was to go on.
    pub fn is_continuations(&self) -> bool {
        match self {
            HostError::Restore(error) => !error.is_hosts(),
            HostError::State(_) => true,
            _ => false,
        }
    }
}

/// A plan with its images verified and in memory: what can be run, any number of times.
#[derive(Clone, Debug)]
pub struct Ready {
    plan: Arc<Plan>,
    images: Vec<Arc<LoadedImage>>,
    carriers: usize,
    /// Made when it is first sent to a process.
    packed: OnceLock<Box<[u8]>>,
}

/// The settings of one run.
#[derive(Clone)]
pub struct RunContext {
    /// The folder with the libos modules.
    pub modules: PathBuf,
    /// Whether protection keys are in force.
    pub keys: bool,
    /// How long a function computes before others get their turn; `None` for as long as it likes.
    pub time_slice: Option<Duration>,
    /// Load all libos modules at the start instead of each on its first call.
    pub load_all: bool,
    /// When the run was requested (CLOCK_MONOTONIC, ns): times in the report count from here.
    pub requested_ns: u64,
    /// When its process was sent the job, if it was sent one (CLOCK_MONOTONIC, ns).
    pub dispatched_ns: Option<u64>,
    /// When it has to end, if that is before the workflow's own timeout.
    pub latest: Option<Latest>,
    /// If the workflow only waits, and for at least this long, the run ends with its continuation.
    pub suspend: Option<Duration>,
    /// After so long the run comes to rest wherever it is, and ends with its continuation.
    pub halt: Option<Duration>,
    /// If the workflow only waits for a time, its clock is moved there.
    pub skip_time: bool,
    /// The id of the invocation.
    pub invocation: Arc<str>,
    /// What the version before has [handed over](monohull_abi::handed).
    pub handed_over: Arc<str>,
    /// What begins addresses by which clients reach the server, if it is known.
    pub public_url: Arc<str>,
    /// Takes the continuation instead, each time, and the run goes on.
    pub keeper: Option<Arc<dyn Keeper>>,
    /// Takes the continuation of a workflow that only waits, and the run stands still until it is to go on.
    pub residence: Option<Arc<dyn Residence>>,
    /// Whether events for other invocations are passed on.
    pub sends: bool,
    /// Where events come while it runs.
    pub inbox: Option<Arc<Inbox>>,
    /// What an earlier part of the run has published.
    pub published: BTreeMap<String, String>,
}

/// How a run ended.
pub enum RunEnd {
    /// The workflow has ended.
    Report(Box<RunReport>),
    /// The workflow waits, and this is the rest of it.
    Suspended(Box<Suspended>),
    /// The workflow has stood still, and goes on elsewhere with what its [`Residence`] was given.
    HandedOver,
}

/// When a run has to end that began with less time than its timeout.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Latest {
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// What took the rest of the time.
    pub delay: Delay,
}

/// What took time before a run began.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub enum Delay {
    /// It was queued. The host is at fault if there is not enough time left.
    Queue,
    /// Its inputs came slowly. The workflow is at fault.
    Inputs,
}

/// Descriptors that the host has opened for a workflow.
#[derive(Debug, Default)]
pub struct RunResources {
    /// For its file systems, as [`mounts::open`] returned them.
    pub files: Vec<OwnedFd>,
    /// For its network.
    pub network: Way,
    /// Epoll instances: see [`Ready::epoll_set`].
    pub epoll_set: Option<Arc<EpollSet>>,
    /// The rest of a run that was captured, instead of a run from the beginning.
    pub continuation: Option<Continuation<CapturedPages>>,
    /// Events for functions that wait for them.
    pub events: Vec<Event>,
    /// Whether the run makes a template, or instances start from some.
    pub template: TemplateUse,
}

impl Ready {
    /// Reads and verifies the images of a plan; the same file is read once.
    pub fn new(plan: Plan) -> Result<Ready, LoadError> {
        let mut known: HashMap<PathBuf, Arc<LoadedImage>> = HashMap::new();
        let mut images = Vec::new();
        for function in &plan.functions {
            let image = match known.get(&function.image) {
                Some(image) => image.clone(),
                None => {
                    let opened = LoadedImage::open(&function.name, &function.image);
                    Arc::new(opened.map_err(|error| error.of_file(function.file()))?)
                }
            };
            known.insert(function.image.clone(), image.clone());
            images.push(image);
        }
        // Asking for the host's cores reads files of its control groups: not something for the cold path.
        let carriers = plan.limits.carriers.unwrap_or_else(cores);
        Ok(Ready::of_parts(Arc::new(plan), images, carriers))
    }

    /// A plan with the image of each of its functions, in their order, verified before; and how many carriers it gets.
    pub fn of_parts(plan: Arc<Plan>, images: Vec<Arc<LoadedImage>>, carriers: usize) -> Ready {
        Ready { plan, images, carriers, packed: OnceLock::new() }
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Epoll instances for its domain, if it has files that can be mapped, a network, or memory that is filled `later`.
    pub fn epoll_set(&self, later: bool) -> std::io::Result<Option<EpollSet>> {
        let needed = later || !self.plan.files.is_empty() || !matches!(self.plan.network, network::Plan::None);
        needed.then(EpollSet::create).transpose()
    }

    /// Whether a run of it takes nothing from the host but its inputs: no network, no file, no directory.
    pub fn is_self_contained(&self) -> bool {
        let in_memory = |mount: &Mount| matches!(mount.source, MountSource::Memory { .. });
        matches!(self.plan.network, network::Plan::None) && self.plan.files.iter().all(in_memory)
    }

    /// The image of each of the plan's functions.
    pub fn images(&self) -> &[Arc<LoadedImage>] {
        &self.images
    }

    /// The images without repetition.
    pub fn distinct_images(&self) -> Vec<&Arc<LoadedImage>> {
        let mut distinct: Vec<&Arc<LoadedImage>> = Vec::new();
        for image in &self.images {
            if !distinct.iter().any(|known| Arc::ptr_eq(known, image)) {
                distinct.push(image);
            }
        }
        distinct
    }

    /// Most carrier threads.
    pub fn carriers(&self) -> usize {
        self.carriers
    }

    /// Runs the workflow to its end in the caller's own process, in a domain of its own. Only one domain can exist per
    /// process at a time.
    pub fn run(&self, options: &RunOptions, progress: Arc<dyn Progress>) -> Result<RunReport, HostError> {
        match self.run_from(None, None, options, progress)? {
            RunEnd::Report(report) => Ok(*report),
            RunEnd::Suspended(_) | RunEnd::HandedOver => unreachable!("it was not to be suspended"),
        }
    }

    /// Looks at a continuation as a run that is to go on with it does before it has a domain: at the engine's state and at all records, by the plan.
    pub fn check<P>(&self, continuation: &Continuation<P>) -> Result<(), HostError> {
        let clock = Clock::start(monotonic_ns());
        let scheduler = StepScheduler::new(self.plan.clone(), self.images.clone(), Arc::new(Silent), None, clock);
        scheduler.restore(continuation)?;
        check_before_restore(continuation, |token, attempt| scheduler.config(token, attempt))?;
        Ok(())
    }

    /// The same from a continuation, if there is one; and until the workflow only waits, for at least as long as `suspend`.
    pub fn run_from(
        &self,
        continuation: Option<Continuation>,
        suspend: Option<Duration>,
        options: &RunOptions,
        progress: Arc<dyn Progress>,
    ) -> Result<RunEnd, HostError> {
        self.run_kept(continuation, suspend, None, options, progress)
    }

    /// The same; a keeper takes the continuation each time that `options.halt` is over, and the run goes on.
    pub fn run_kept(
        &self,
        continuation: Option<Continuation>,
        suspend: Option<Duration>,
        keeper: Option<Arc<dyn Keeper>>,
        options: &RunOptions,
        progress: Arc<dyn Progress>,
    ) -> Result<RunEnd, HostError> {
        let continuation = continuation.map(|continuation| continuation.map_pages(CapturedPages::from));
        self.run_captured(continuation, suspend, keeper, options, progress)
    }

    /// The same from a continuation whose pages may be in sealed memory.
    pub fn run_captured(
        &self,
        continuation: Option<Continuation<CapturedPages>>,
        suspend: Option<Duration>,
        keeper: Option<Arc<dyn Keeper>>,
        options: &RunOptions,
        progress: Arc<dyn Progress>,
    ) -> Result<RunEnd, HostError> {
        let requested_ns = monotonic_ns();
        let decision = options.isolation.decide();
        let context = RunContext {
            modules: options.modules.clone().or_else(modules_folder).ok_or(HostError::NoModules)?,
            keys: decision.keys,
            // No tracer delivers the signals here.
            time_slice: (!decision.keys || keys::by_default()).then(|| options.time_slice.unwrap_or(TIME_SLICE)),
            load_all: options.load_all,
            requested_ns,
            dispatched_ns: None,
            latest: None,
            suspend,
            halt: options.halt,
            skip_time: options.skip_time,
            invocation: options.invocation().into(),
            handed_over: "".into(),
            public_url: "".into(),
            keeper,
            residence: None,
            inbox: options.inbox.clone(),
            sends: options.sends,
            published: options.published.clone(),
        };
        let opened = match mounts::open(&self.plan) {
            Ok(opened) => opened,
            Err(unopened) => {
                let report = report_without_run(&self.plan, "none", requested_ns, *unopened.failure);
                return Ok(RunEnd::Report(Box::new(report)));
            }
        };
        let files = opened.iter().map(mounts::Opened::hand_over).collect::<Result<_, _>>().map_err(HostError::Files)?;
        let ground = ReservedDomain::reserve(context.keys).map_err(HostError::Domain)?;
        let later = continuation.as_ref().is_some_and(|continuation| continuation.pages.are_elsewhere());
        let epoll_set = self.epoll_set(later).map_err(HostError::Files)?.map(Arc::new);
        let mut files_of_slots = Files { options, limit: self.plan.limits.slots };
        let (network, events) = (self.plan.network.open()?, options.events.clone());
        let template = options.template.clone();
        let resources = RunResources { files, network, epoll_set, continuation, events, template };
        let ran = self.run_on(ground, &context, resources, &mut files_of_slots, progress, |mut end| {
            if let RunEnd::Report(report) = &mut end {
                report.isolation_note = decision.note;
            }
            end
        });
        ran.map(|(end, _domain)| end)
    }

    /// Runs the workflow to its end in an address space that was reserved before. `answer` gets the report while the domain still
    /// exists, so that a process that ends with it need not take it down piece by piece. What it returns, and the domain.
    pub fn run_on<T>(
        &self,
        ground: ReservedDomain,
        context: &RunContext,
        resources: RunResources,
        workflow_io: &mut dyn WorkflowIo,
        progress: Arc<dyn Progress>,
        answer: impl FnOnce(RunEnd) -> T,
    ) -> Result<(T, Domain), HostError> {
        let ended = |report| RunEnd::Report(Box::new(report));
        let clock = Clock::start(context.requested_ns);
        let mut scheduler =
            StepScheduler::new(self.plan.clone(), self.images.clone(), progress.clone(), context.latest, clock);
        let mut continuation = resources.continuation;
        let mut events = resources.events;
        // A run that is repeated from its beginning is the same copy still.
        let mut lineage = continuation.as_ref().map(|continuation| continuation.lineage).unwrap_or_default();
        if let Some(continuation) = &continuation {
            scheduler.restore(continuation)?;
        }
        let template_instances = self.plan.template_instances();
        let tokens: Arc<[u64]> = template_instances.iter().map(|one| step_scheduler::token_of(*one)).collect();
        let first_begins_alone = template_instances.first().is_some_and(|first| self.plan.begins_alone(*first));
        let mut makes_template = None;
        if let TemplateUse::Make(cell) = resources.template {
            let instance = *template_instances.get(cell).ok_or(HostError::NoTemplate)?;
            scheduler.runs_only(instance);
            makes_template = Some(instance);
        }
        let template_finds_no_files = makes_template.is_some_and(|instance| self.plan.finds_no_files(instance));
        let makes_template = makes_template.is_some();
        context.dispatched_ns.map(|at| scheduler.note("dispatched", at));
        let mut published = context.published.clone();
        let mounts = mounts::build(&self.plan, resources.files).ok_or(HostError::FilesMissing)?;
        let network = self.plan.network.enter(resources.network)?;
        let may_wait_for_events = context.suspend.is_some() || context.skip_time;
        let mut ground = Some(ground);
        loop {
            // A run that is repeated has a new address space, with nothing of the failed run in it.
            let fresh = ground.take().map_or_else(|| ReservedDomain::reserve(context.keys), Ok)?;
            let options = Options {
                carriers: self.carriers,
                modules: context.modules.clone(),
                keys: context.keys,
                time_slice: context.time_slice,
                separate: self.plan.separation == Separation::Function,
                time_stamp_counter: self.plan.time_stamp_counter == TimeStampCounter::Allow,
                load_all: context.load_all,
                network: network.clone(),
                epoll_set: resources.epoll_set.clone(),
                sink: Some(Arc::new(Lines(progress.clone()))),
                mounts: mounts.clone(),
                suspend: context.suspend,
                halt: context.halt,
                skip_time: context.skip_time,
                invocation: context.invocation.clone(),
                handed_over: context.handed_over.clone(),
                public_url: context.public_url.clone(),
                keeper: context.keeper.clone(),
                residence: context.residence.clone(),
                inbox: context.inbox.clone(),
                may_wait_for_events,
                no_sending: no_sending(&self.plan, context.sends),
                no_branches: no_branches(context.sends),
                starts: starts(&self.plan, context.sends),
                effects: step_scheduler::effects(&self.plan).into(),
                published: published.clone(),
                lineage,
                template: resources.template.clone(),
                template_instances: tokens.clone(),
                first_begins_alone,
                template_finds_no_files,
                template_at_first_wait: self.plan.template == TemplatePoint::AfterFirstWait,
            };
            let mut domain = Domain::on(fresh, options);
            if let Some(continuation) = continuation.take() {
                domain.restore(continuation, |token, attempt| scheduler.config(token, attempt))?;
                scheduler.reopen_requests(&domain);
            } else if !makes_template && let Err(failure) = slots::fill(&domain, &self.plan, workflow_io) {
                let report = scheduler.report(&domain, &clock, Some(*failure));
                return Ok((answer(ended(report)), domain));
            }
            if let Err(failure) = events::give(&domain, std::mem::take(&mut events)) {
                let report = scheduler.report(&domain, &clock, Some(*failure));
                return Ok((answer(ended(report)), domain));
            }
            let ready = monotonic_ns();
            if scheduler.note("domain-ready", ready) {
                progress.point("domain-ready", ready);
            }
            domain.run(scheduler.driver())?;
            if let Some(suspended) = domain.take_suspended() {
                domain.close_files();
                return Ok((answer(RunEnd::Suspended(suspended)), domain));
            }
            if domain.is_handed_over() {
                domain.close_files();
                return Ok((answer(RunEnd::HandedOver), domain));
            }
            if let Some(unfit) = domain.take_unfit_template() {
                return Err(HostError::Restore(unfit));
            }
            if makes_template {
                let why = domain.suspension_refused().or_else(|| scheduler.outcome().why());
                let why = why.unwrap_or_else(|| "it has ended and was not ready before".to_owned());
                let failure = Failure::blamed(FailureKind::Cancelled, Blame::Workflow, why);
                let report = scheduler.report(&domain, &clock, Some(failure));
                return Ok((answer(ended(report)), domain));
            }
            match scheduler.outcome() {
                Outcome::Done => {
                    let mut report = scheduler.report(&domain, &clock, None);
                    if report.told_to_end {
                        // It has no outputs, and what was for steps that have not begun is not read.
                        domain.close_files();
                        return Ok((answer(ended(report)), domain));
                    }
                    let (unread, failure) = unread::find(&domain, &self.plan, || scheduler.producers());
                    report.unread = unread;
                    // A missing output explains more than an unread slot, so it is reported first.
                    let failure = slots::outputs(&domain, &self.plan).err().or(failure);
                    match failure.map_or_else(|| slots::collect(&domain, &self.plan, workflow_io), Err) {
                        Ok(output) => report.output = output,
                        Err(failure) => {
                            report.status = Status::Failed;
                            report.error = Some(*failure);
                        }
                    }
                    domain.close_files();
                    return Ok((answer(ended(report)), domain));
                }
                Outcome::Failed(failure) => {
                    domain.close_files();
                    let report = scheduler.report(&domain, &clock, Some(failure));
                    return Ok((answer(ended(report)), domain));
                }
                // It begins with the pause, in which it may be suspended.
                Outcome::RetryWorkflow(_) => {
                    // An event that a checkpoint of the failed run has is not given again.
                    domain.settle_capture();
                    events = domain.events_for_another();
                    // Of the last checkpoint, also if it stood still here after that.
                    (lineage, published) = (domain.lineage(), domain.published_before());
                    drop(domain);
                }
            }
        }
    }
}

/// Why functions of a plan cannot send events to other invocations, if they cannot.
fn no_sending(plan: &Plan, sends: bool) -> Option<&'static str> {
    match (plan.sends_to.is_empty(), sends) {
        (true, _) => Some("the workflow file does not permit it: `sends_to` names no workflow"),
        (_, false) => {
            Some("only a run with a state folder, or of a workflow that is registered with a server, can send events")
        }
        (false, true) => None,
    }
}

/// Why functions cannot have save points and copies of their invocation, if they cannot.
fn no_branches(is_kept: bool) -> Option<&'static str> {
    let why =
        "only a run with a state folder, or of a workflow that is registered with a server, has save points and copies";
    (!is_kept).then_some(why)
}

/// The workflows of which functions of a plan may start children, or why there are none.
fn starts(plan: &Plan, sends: bool) -> Result<Vec<String>, &'static str> {
    match (plan.starts.is_empty(), sends) {
        (true, _) => Err("the workflow file does not permit it: `starts` names no workflow"),
        (_, false) => {
            Err("only a run with a state folder, or of a workflow that is registered with a server, can start children")
        }
        (false, true) => Ok(plan.starts.clone()),
    }
}

/// The report of a plan that was never run, or whose run was lost, because of this failure.
pub fn report_without_run(plan: &Plan, isolation: &str, requested_ns: u64, error: Failure) -> RunReport {
    let clock = Clock::start(requested_ns);
    let scheduler = StepScheduler::new(Arc::new(plan.clone()), Vec::new(), Arc::new(Silent), None, clock);
    scheduler.bare_report(&clock, isolation, error)
}

/// Passes lines of output on as progress of the run.
struct Lines(Arc<dyn Progress>);

impl Sink for Lines {
    fn line(&self, spec: &InstanceConfig, stream: u32, text: &str) {
        let stream = if stream == 2 { Stream::Stderr } else { Stream::Stdout };
        self.0.line(&spec.labels.step, spec.index, stream, text);
    }
}

/// The host's cores, as far as this process may use them.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
