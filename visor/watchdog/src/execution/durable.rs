//! Durable invocations: how a call becomes one, what wakes them, and a leg of one, from a commit to the next.
//!
//! ```text
//!   a call waits ─▶ checkpoint, row ─┐      waker: the first that is due ─ queue slot, permit ─ claim ─▶ leg
//!   started with an id ─▶ row ───────┴─▶ … leg: start, checkpoint, events ─▶ worker ─┬─▶ it waits: checkpoint, commit `Suspended`
//!                                                                                    ├─▶ it has ended: outputs, commit `Ended`
//!                                                                                    ├─▶ the host failed: `Released`, again later
//!                                                                                    └─▶ what is kept is damaged: `Paused`
//! ```
//!
//! A leg is an invocation like any other: it has a queue slot and a permit, a worker process of its own, and the server's timeout.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use monohull_domain::checkpoint::{Continuation, Lineage};
use monohull_domain::image::map::LoadedImage;
use monohull_durable::{
    Adding, Checkpoint, Claim, Claimed, Commit, History as _, InvocationId, Left, Mail, Meta, MetaError, Outbox,
    Output, Wait,
};
use monohull_engine::{Event, Ready};
use monohull_ipc::sealed::{read_sealed, seal};
use monohull_report::{Outgoing, RunReport};
use monohull_saved::{Engine, FileError, Saved, Written};
use monohull_worker::{Data, Job, SuspendedRun};
use monohull_workflow::Plan;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout_at};

use crate::endpoints::durable::full;
use crate::execution::arrivals::Arrivals;
use crate::execution::run::{Came, Process};
use crate::http::content::Content;
use crate::http::error::{ApiError, Blame};
use crate::invocations::admission::QueueSlot;
use crate::invocations::callback::Callback;
use crate::invocations::invocation::{Invocation, Mode, Status};
use crate::invocations::ledger::{Ledger, Start, Told, encode_printed, meta_kept, now};
use crate::registry::plan_once_registered;
use crate::service::Watchdog;

/// The first pause before another attempt; each is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How long is slept at most while something is due: the clock may be set meanwhile.
const NAP: Duration = Duration::from_secs(1);
/// The pause after the ledger could not be used.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);
/// Bytes of a continuation besides memory of instances and slots.
const CONTINUATION_MORE: u64 = 64 << 20;
/// The most waits that are kept of one invocation, and the most bytes of a text in them: they are a worker's own words.
const WAITS_MAX: usize = 1000;
const WAIT_TEXT_MAX: usize = 256;

/// A call that is not durable yet.
pub(crate) struct First<'t> {
    pub(crate) invocation: &'t Arc<Invocation>,
    pub(crate) workflow: Arc<Ready>,
    pub(crate) document: Option<Bytes>,
    pub(crate) callback: Option<&'t Callback>,
}

/// What a claim goes on from.
struct Basis {
    start: Start,
    document: Vec<u8>,
    ready: Arc<Ready>,
    inputs: Vec<(String, Data)>,
    continuation: Option<OwnedFd>,
    events: Vec<Event>,
    copy: (u32, u32),
}

/// Why there is nothing to go on from.
enum NoBasis {
    /// What is kept is damaged, or refers to what is not granted any more.
    Pause(String),
    /// It was run, its server ended, and it may not be run again.
    Interrupted(Box<Start>),
    /// The ledger cannot be used.
    Host(String),
}

/// Whether the inputs of a workflow may be needed once more after it has begun.
pub(crate) fn needs_inputs_later(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| step.retry.max_attempts > 1)
}

/// Whether a workflow allows that it is run again from its beginning: each step may be tried again, whatever has failed.
pub(crate) fn may_begin_again(plan: &Plan) -> bool {
    plan.steps.iter().all(|step| step.retry.max_attempts > 1 && step.retry.on.is_empty())
}

/// What is needed to write the checkpoint of a run that waits.
struct Waits<'w> {
    id: &'w InvocationId,
    epoch: u64,
    generation: u64,
    document: &'w [u8],
    ready: &'w Ready,
    copy: (u32, u32),
}

impl Ledger {
    /// Writes the checkpoint of a run that waits: the commit that names it, which is to be made before the other is dropped, and the events that
    /// leave with it.
    fn write_checkpoint(&self, waits: &Waits<'_>, run: SuspendedRun) -> Result<(Commit, Outbox, Adding), ApiError> {
        let plan = waits.ready.plan();
        let most = most_bytes(plan);
        if run.bytes > most {
            return Err(ApiError::monohull(format!("its continuation has {} bytes, and may have {most}", run.bytes)));
        }
        let lost = |why: String| ApiError::monohull(format!("the workflow's process has sent {why}"));
        let bytes = read_sealed(run.continuation.as_fd(), most).map_err(|error| lost(error.to_string()))?;
        let mut continuation: Continuation = match postcard::take_from_bytes(&bytes) {
            Ok((continuation, [])) => continuation,
            _ => return Err(lost("a continuation that cannot be read".to_owned())),
        };
        drop(bytes);
        if waits.generation == 1 {
            continuation.run_deadline = own_deadline(&plan.name, waits.document, plan, continuation.run_deadline)?;
        }
        let images = waits.ready.images().iter().map(|image| (image.image.hash, image.image.bytes));
        let functions = plan.functions.iter().zip(images);
        let (file, copy) = (file_of(&plan.name), waits.copy);
        let saved = Saved {
            workflow: plan.name.clone(),
            generation: waits.generation,
            document: waits.document.to_vec(),
            functions: functions.map(|(function, (hash, bytes))| (function.name.clone(), hash, bytes)).collect(),
            engine: Engine {
                file,
                settings: Vec::new(),
                outputs: Vec::new(),
                inputs: Vec::new(),
                events: Vec::new(),
                given: 0,
                copy,
            },
            continuation,
        };
        let adding = self.adding()?;
        let folder = self.store().checkpoints();
        let name = new_name(&folder, waits.id, waits.epoch);
        let Written { path, bytes, .. } = saved.write(&folder, &name, self.key(), None).map_err(unwritten)?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = |mut text: String| {
            text.truncate(text.floor_char_boundary(WAIT_TEXT_MAX));
            text
        };
        let of_wait = |wait: monohull_domain::checkpoint::Wait| Wait {
            step: text(wait.step),
            instance: wait.index,
            what: text(wait.what),
            until: wait.until,
            event: wait.event.map(text),
        };
        let listed = run.waits.into_iter().take(WAITS_MAX).map(of_wait).collect();
        let checkpoint = Checkpoint { file, bytes };
        let (taken, published) = (run.events_taken, run.published);
        let sent = outbox(plan, run.sent);
        Ok((Commit::Suspended { checkpoint, due: run.until, waits: listed, taken, published }, sent, adding))
    }
}

/// The most bytes that the rest of a run of this plan has.
fn most_bytes(plan: &Plan) -> u64 {
    let of_step = |step: &monohull_workflow::plan::Step| {
        u64::from(step.instances.most()).saturating_mul(step.memory.saturating_add(step.stack).saturating_add(64 << 10))
    };
    let instances = plan.steps.iter().map(of_step).fold(0, u64::saturating_add);
    instances.saturating_add(plan.limits.slots).saturating_add(CONTINUATION_MORE)
}

/// Events that leave with a commit, if the plan permits it.
fn outbox(plan: &Plan, events: Vec<Outgoing>) -> Outbox {
    Outbox { events, workflows: plan.sends_to.clone() }
}

/// The events that leave with the end of a run. They are no part of its report.
pub(crate) fn take_sent(plan: &Plan, report: Option<&mut RunReport>) -> Outbox {
    outbox(plan, report.map(|report| std::mem::take(&mut report.sent)).unwrap_or_default())
}

/// When the time of a workflow is up that was captured for the first time: its own timeout is not the server's, which is for the time in a
/// process.
fn own_deadline(name: &str, document: &[u8], plan: &Plan, captured: Option<u64>) -> Result<Option<u64>, ApiError> {
    let own = plan_once_registered(name, document).map_err(ApiError::monohull)?.limits.timeout;
    let more = own.zip(plan.limits.timeout).map(|(own, had)| own.saturating_sub(had).as_nanos());
    let more = more.map(|more| u64::try_from(more).unwrap_or(u64::MAX));
    Ok(captured.zip(more).map(|(at, more)| at.saturating_add(more)))
}

fn file_of(workflow: &str) -> PathBuf {
    format!("{workflow}.json").into()
}

fn unwritten(error: FileError) -> ApiError {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match &error {
        FileError::Unwritable { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge) => {
            ApiError::new(hyper::StatusCode::INSUFFICIENT_STORAGE, "storage", Blame::Host, error.to_string())
        }
        FileError::Continuation(_) => ApiError::monohull(error.to_string()),
        _ => ApiError::host(error.to_string()),
    }
}

/// A name for a checkpoint that no file has: copies may still have files of an invocation that was removed and whose id is used again.
fn new_name(folder: &Path, id: &InvocationId, epoch: u64) -> String {
    let name = format!("{id}.{epoch}");
    let others = (2..).map(|number: u64| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(others);
    names.find(|name| !folder.join(format!("{name}.checkpoint")).exists()).unwrap_or(name)
}

impl Watchdog {
    /// Keeps a call that waits. From now on it is in the ledger, and goes on from there.
    pub(crate) async fn become_durable(
        self: &Arc<Self>,
        first: First<'_>,
        run: SuspendedRun,
        inputs: Vec<(String, Data)>,
    ) -> Result<(), ApiError> {
        let First { invocation, workflow, document, callback } = first;
        let Some(document) = document else {
            return Err(ApiError::monohull("the workflow was suspended, which was not asked for"));
        };
        invocation.point("suspended");
        let (watchdog, of_call, url) = (self.clone(), invocation.clone(), callback.map(Callback::url));
        let was_recorded = invocation.mode == Mode::Async;
        let keep = spawn_blocking(move || {
            let ledger = &watchdog.ledger;
            ledger.change(|ledger| {
                let id: InvocationId = of_call.id.parse().map_err(|_| ApiError::monohull("an id is none"))?;
                if ledger.meta().living().map_err(meta_kept)? >= watchdog.settings.durable {
                    return Err(full(watchdog.settings.durable));
                }
                let waits =
                    Waits { id: &id, epoch: 1, generation: 1, document: &document, ready: &workflow, copy: (0, 0) };
                let (commit, sent, adding) = ledger.write_checkpoint(&waits, run)?;
                let start = ledger.add_start(&adding, of_call.head(), &document, &workflow, &inputs, url)?;
                let left = Left { printed: encode_printed(&of_call.printed()), sent, ..Left::default() };
                ledger.start_suspended(&id, &start, &commit, &left)
            })?;
            if was_recorded {
                // The ledger tells of it now. A record that stays is passed over by the next server.
                let forgotten = watchdog.journal.forget(std::slice::from_ref(&of_call.id));
                if let Err(error) = forgotten.and_then(|()| watchdog.journal.callback_done(&of_call.id)) {
                    tracing::warn!(id = of_call.id, %error, "the record of a call that became durable stays");
                }
            }
            Ok(())
        });
        keep.await.map_err(|error| ApiError::monohull(error.to_string()))??;
        tracing::info!(id = invocation.id, workflow = invocation.workflow, "suspended");
        invocation.end(invocation.ending(Status::Suspended, None, Ok(Vec::new())), true);
        self.history.leave(invocation);
        Ok(())
    }

    /// Goes on with what is due, as much at a time as may run.
    pub(crate) async fn wake(self: &Arc<Self>) -> Infallible {
        loop {
            let watchdog = self.clone();
            let next = spawn_blocking(move || watchdog.ledger.next_due()).await;
            let due = match next {
                Ok(Ok(due)) => due,
                Ok(Err(error)) => {
                    tracing::error!(%error, "the ledger cannot be read");
                    sleep(TROUBLE_PAUSE).await;
                    continue;
                }
                Err(_) => std::future::pending().await,
            };
            match due {
                _ if self.is_ending() => std::future::pending().await,
                Some(due) if due <= now() => {
                    let slot = self.admission.wait().await;
                    let permit = slot.run_permit().await;
                    self.claim(slot, permit).await;
                }
                Some(due) => {
                    let nap = Duration::from_nanos(due.saturating_sub(now())).min(NAP);
                    tokio::select! {
                        () = sleep(nap) => {}
                        () = self.ledger.hurried() => {}
                    }
                }
                None => self.ledger.hurried().await,
            }
        }
    }

    /// Claims what is due first, and begins a leg of it.
    async fn claim(self: &Arc<Self>, slot: QueueSlot, permit: OwnedSemaphorePermit) {
        if self.is_ending() {
            return;
        }
        let watchdog = self.clone();
        match spawn_blocking(move || watchdog.ledger.claim()).await {
            Ok(Ok(Claimed::Yes(claim))) => {
                let (watchdog, guard) = (self.clone(), self.work.track());
                tokio::spawn(async move {
                    let _held = (guard, slot, permit);
                    watchdog.leg(*claim).await;
                });
            }
            Ok(Ok(Claimed::Paused(id))) => tracing::warn!(%id, "paused: too many attempts"),
            Ok(Ok(Claimed::Nothing)) => {}
            Ok(Err(error)) => {
                tracing::error!(%error, "nothing can be claimed");
                sleep(TROUBLE_PAUSE).await;
            }
            Err(error) => tracing::error!(%error, "claim"),
        }
    }

    /// Runs a claimed invocation to its next wait or to its end, and commits how far it came.
    async fn leg(self: &Arc<Self>, claim: Claim) {
        let claim = Arc::new(claim);
        let (watchdog, of_claim) = (self.clone(), claim.clone());
        let basis = spawn_blocking(move || watchdog.basis(&of_claim)).await;
        let basis = basis.unwrap_or_else(|error| Err(NoBasis::Host(error.to_string())));
        match &basis {
            Err(NoBasis::Pause(_)) => self.metrics.not_resumed("unusable"),
            Err(NoBasis::Host(_)) => self.metrics.not_resumed("host"),
            Ok(_) | Err(NoBasis::Interrupted(_)) => {}
        }
        let (commit, left, told) = match basis {
            Ok(basis) => return self.go_on(claim, basis).await,
            Err(NoBasis::Pause(reason)) => (Commit::Paused { reason }, Left::default(), None),
            Err(NoBasis::Host(reason)) => (later(&claim, reason), Left::default(), None),
            Err(NoBasis::Interrupted(start)) => {
                let refusal = ApiError::interrupted_once();
                let invocation = Invocation::durable(claim.held.id.to_string(), start.head.clone(), Status::Running);
                let end = invocation.ending(Status::Failed, None, Err(refusal));
                let told =
                    Told { duration_us: end.duration_us, report: None, refusal: end.result.as_ref().err().cloned() };
                invocation.end(end, true);
                let left = Left { callback: start.callback.clone(), ..Left::default() };
                (ended(false, &told), left, Some(invocation))
            }
        };
        self.commit(&claim, commit, left).await;
        if let Some(invocation) = told {
            self.log_end(&invocation);
            self.call_back_durable(&claim.held.id).await;
        }
    }

    /// Reads what is kept of an invocation.
    fn basis(&self, claim: &Claim) -> Result<Basis, NoBasis> {
        let ledger = &self.ledger;
        let host = |error: &dyn std::fmt::Display| NoBasis::Host(error.to_string());
        let start = Start::decode(&claim.start)
            .ok_or("what it was started with cannot be read by this version of Monohull".to_owned())
            .map_err(NoBasis::Pause)?;
        if claim.checkpoint.is_none() && claim.attempt > 1 && !start.again {
            return Err(NoBasis::Interrupted(Box::new(start)));
        }
        let (mail, lineage, history) = {
            let meta = ledger.meta();
            let mail = match meta.mail(&claim.held, 0) {
                Err(error @ MetaError::Damaged { .. }) => return Err(NoBasis::Pause(error.to_string())),
                mail => mail.map_err(|error| host(&error))?,
            };
            let lineage = meta.lineage(&claim.held.id).map_err(|error| host(&error))?;
            (mail, lineage, meta.history(&claim.held.id).map_err(|error| host(&error))?)
        };
        let missing = |what: &str, error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => NoBasis::Pause(format!("{what} is missing")),
            _ => NoBasis::Host(format!("{what} cannot be read: {error}")),
        };
        let document = ledger.read(&start.document).map_err(|error| missing("its workflow document", error))?;
        let load = |name: &str, hash: &[u8; 32]| LoadedImage::open(name, &ledger.store().file(hash));
        let ready = self.registry.prepare_again(start.head.workflow(), &document, &start.functions, load);
        let ready = Arc::new(ready.map_err(NoBasis::Pause)?);
        let input = |(slot, hash): &(String, [u8; 32])| {
            let file = File::open(ledger.store().file(hash)).map_err(|error| missing("an input", error))?;
            Ok((slot.clone(), Data::File(file.into())))
        };
        let is_needed = claim.checkpoint.is_none() || needs_inputs_later(ready.plan());
        let inputs = start.inputs.iter().filter(|_| is_needed).map(input).collect::<Result<_, NoBasis>>()?;
        let copy = (lineage.copy, lineage.copies);
        let continuation = match &claim.checkpoint {
            None => None,
            Some(checkpoint) => {
                let path = ledger.store().checkpoints().join(&checkpoint.file);
                let plan = |document: &[u8], _: &Engine| plan_once_registered(start.head.workflow(), document);
                let saved = Saved::read(&path, ledger.key(), plan).map_err(|error| match error.is_hosts() {
                    true => host(&error),
                    false => NoBasis::Pause(error.to_string()),
                })?;
                let hashes = ready.images().iter().map(|image| image.image.hash);
                if !saved.functions.iter().map(|(_, hash, _)| *hash).eq(hashes) {
                    return Err(NoBasis::Pause("its checkpoint is one of other images".to_owned()));
                }
                let mut continuation = saved.continuation;
                let kept = history.into_iter().find(|kept| kept.generation == claim.generation);
                continuation.wall = continuation.wall.saturating_add_signed(kept.map_or(0, |kept| kept.moved));
                continuation.lineage = Lineage { generation: claim.generation, copy: copy.0, copies: copy.1 };
                let encoded = postcard::to_extend(&continuation, Vec::new()).map_err(io::Error::other);
                Some(encoded.and_then(|encoded| seal(&encoded, 0)).map_err(|error| host(&error))?)
            }
        };
        let events = mail.into_iter().map(|Mail { number, name, bytes }| Event { number, name, bytes }).collect();
        Ok(Basis { start, document, ready, inputs, continuation, events, copy })
    }

    /// The leg itself: in a worker, within the server's timeout.
    async fn go_on(self: &Arc<Self>, claim: Arc<Claim>, basis: Basis) {
        let Basis { start, document, ready, inputs, continuation, events, copy } = basis;
        let id = claim.held.id.to_string();
        let invocation = Arc::new(Invocation::durable(id, start.head.clone(), Status::Running));
        self.history.begin(invocation.clone());
        let latest = Instant::from_std(invocation.begin) + self.settings.timeout;
        let arrivals = Arrivals::new(self, &claim.held, &events);
        let run = async {
            let worker = match timeout_at(latest, self.workers.idle_worker()).await {
                Ok(Ok(worker)) => worker,
                Ok(Err(refusal)) => return Some(refusal.into()),
                Err(_) => return Some(ApiError::host("no worker process was available in time").into()),
            };
            let files = match self.open_files(&ready).await {
                Ok(files) => files,
                Err(refusal) => return Some(refusal.into()),
            };
            let job = Job {
                files,
                lines: true,
                progress: true,
                suspend: self.settings.suspend.or(Some(Duration::from_secs(1))),
                continuation,
                events,
                sends: true,
                listens: true,
                invocation: invocation.id.clone(),
                published: claim.published.clone(),
                ..Job::new(ready.clone(), inputs)
            };
            invocation.point("dispatched");
            if claim.checkpoint.is_some() {
                self.metrics.resumed();
            }
            Some(self.run_job(&invocation, Process::alone(worker), job, latest, Some(arrivals)).await)
        };
        let came = tokio::select! {
            biased;
            came = run => came,
            () = invocation.cancelled() => None,
        };
        let may_try_again = claim.checkpoint.is_some() || start.again;
        let printed = encode_printed(&invocation.printed());
        let mut left = Left { printed, ..Left::default() };
        let (status, report, result) = match came {
            Some(Came::Suspended(run, _)) => {
                let kept = self.write_leg(&claim, document, ready, copy, run).await;
                match kept {
                    Ok((commit, sent, adding)) => {
                        self.commit(&claim, commit, Left { sent, ..left }).await;
                        drop(adding);
                        return self.leave(&invocation, Status::Suspended);
                    }
                    Err(refusal) => (Status::Failed, None, Err(refusal)),
                }
            }
            Some(Came::Unfit(reason)) => {
                self.metrics.not_resumed("unusable");
                self.commit(&claim, Commit::Paused { reason }, left).await;
                return self.leave(&invocation, Status::Paused);
            }
            Some(Came::Ended(ended)) => {
                let (mut report, result) = *ended;
                left.sent = take_sent(ready.plan(), report.as_mut());
                let (report, result) = self.redact(report, result).await;
                let status = if result.is_ok() { Status::Completed } else { Status::Failed };
                (status, report, result)
            }
            None if self.is_ending() && may_try_again => {
                let reason = "the server ended".to_owned();
                self.commit(&claim, Commit::Released { due: now(), reason }, left).await;
                return self.leave(&invocation, Status::Suspended);
            }
            None => (Status::Cancelled, None, Err(self.given_up())),
        };
        match &result {
            // A full disk, a process that was killed: not what the workflow did.
            Err(refusal) if refusal.error.blame == Blame::Host && may_try_again && status == Status::Failed => {
                self.metrics.not_resumed("host");
                let commit = later(&claim, refusal.error.message.clone());
                // What it has sent it sends again.
                self.commit(&claim, commit, Left { sent: Outbox::default(), ..left }).await;
                return self.leave(&invocation, Status::Suspended);
            }
            _ => {}
        }
        let end = invocation.ending(status, report, result);
        let (watchdog, told, url) = (self.clone(), end.clone(), start.callback.clone());
        let (of_claim, was_cancelled) = (claim.clone(), status == Status::Cancelled);
        let kept = spawn_blocking(move || {
            let adding = watchdog.ledger.adding()?;
            let mut left = Left { callback: url, ..left };
            let outputs = told.result.as_deref().unwrap_or_default();
            for (slot, content) in outputs {
                let hash = watchdog.ledger.add_content(&adding, content)?;
                left.outputs.push(Output { slot: slot.clone(), hash, bytes: Content::len(content) });
            }
            let refusal = told.result.as_ref().err().cloned();
            let well = refusal.is_none();
            let told = Told { duration_us: told.duration_us, report: told.report.clone(), refusal };
            let commit = match was_cancelled {
                // It was marked as cancelled before its process was stopped, and becomes that now.
                true if watchdog.is_marked(&of_claim) => {
                    Commit::Released { due: now(), reason: "its process was stopped".to_owned() }
                }
                _ => ended(well, &told),
            };
            Ok::<_, ApiError>((commit, left, adding))
        });
        let kept = kept.await.map_err(|error| ApiError::monohull(error.to_string())).flatten();
        match kept {
            Ok((commit, left, adding)) => {
                self.commit(&claim, commit, left).await;
                drop(adding);
            }
            // Its outputs cannot be kept now; a later attempt may have room for them.
            Err(refusal) if may_try_again => {
                let commit = later(&claim, refusal.error.message.clone());
                self.commit(&claim, commit, Left::default()).await;
                return self.leave(&invocation, Status::Suspended);
            }
            Err(refusal) => {
                let told = Told { duration_us: end.duration_us, report: None, refusal: Some(refusal) };
                self.commit(&claim, ended(false, &told), Left::default()).await;
            }
        }
        invocation.end(end, true);
        self.history.leave(&invocation);
        self.log_end(&invocation);
        invocation.release_permit();
        self.call_back_durable(&claim.held.id).await;
    }

    /// Whether an invocation that runs is to be cancelled at its next commit.
    fn is_marked(&self, claim: &Claim) -> bool {
        let row = self.ledger.meta().get(&claim.held.id);
        row.is_ok_and(|row| row.is_some_and(|row| row.wanted == Some(monohull_durable::Status::Cancelled)))
    }

    async fn write_leg(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        document: Vec<u8>,
        ready: Arc<Ready>,
        copy: (u32, u32),
        run: SuspendedRun,
    ) -> Result<(Commit, Outbox, Adding), ApiError> {
        let (watchdog, claim) = (self.clone(), claim.clone());
        let written = spawn_blocking(move || {
            let (id, epoch, generation) = (&claim.held.id, claim.held.epoch, claim.generation + 1);
            let waits = Waits { id, epoch, generation, document: &document, ready: &ready, copy };
            watchdog.ledger.write_checkpoint(&waits, run)
        });
        written.await.map_err(|error| ApiError::monohull(error.to_string()))?
    }

    /// Those who follow a leg see that it is over.
    fn leave(&self, invocation: &Arc<Invocation>, status: Status) {
        invocation.end(invocation.ending(status, None, Ok(Vec::new())), true);
        self.history.leave(invocation);
        invocation.release_permit();
    }

    /// Makes a commit. As long as the disk does not take it nothing else can be done with the invocation, which is this server's.
    async fn commit(self: &Arc<Self>, claim: &Arc<Claim>, commit: Commit, left: Left) {
        let both = Arc::new((commit, left));
        loop {
            let (watchdog, of_claim, both) = (self.clone(), claim.clone(), both.clone());
            let done = spawn_blocking(move || watchdog.ledger.commit(&of_claim.held, &both.0, &both.1)).await;
            match done {
                Ok(Ok(_)) | Err(_) => return,
                Ok(Err(error @ MetaError::Stale(_))) => return tracing::warn!(%error, "a leg counts for nothing"),
                Ok(Err(error)) => {
                    tracing::error!(id = %claim.held.id, %error, "a commit is tried again");
                    if self.is_ending() {
                        // The next server goes on from the commit before.
                        return;
                    }
                    sleep(TROUBLE_PAUSE).await;
                }
            }
        }
    }

    /// Tells the end of a durable invocation, if somebody is to be told.
    pub(crate) async fn call_back_durable(self: &Arc<Self>, id: &InvocationId) {
        let (watchdog, of) = (self.clone(), id.clone());
        let owed = spawn_blocking(move || -> Result<Option<String>, MetaError> {
            let owed = watchdog.ledger.meta().owed()?;
            Ok(owed.into_iter().find(|(owed, _)| *owed == of).map(|(_, url)| url))
        });
        let Ok(Ok(Some(url))) = owed.await else { return };
        let Ok(Some(known)) = self.recall(id.as_str()).await else { return };
        match (Callback::to(url.as_bytes(), &self.settings.callbacks), self.callbacks.try_acquire()) {
            (Ok(callback), Ok(_turn)) => {
                if !callback.send(&known.invocation, || self.is_ending()).await {
                    return;
                }
            }
            (Ok(_), Err(_)) => tracing::warn!(%id, "no callback: too many are under way"),
            (Err(refusal), _) => tracing::warn!(%id, why = refusal.error.message, "no callback"),
        }
        let (watchdog, of) = (self.clone(), id.clone());
        let paid = spawn_blocking(move || watchdog.ledger.meta().paid(&of)).await;
        if let Ok(Err(error)) = paid {
            tracing::warn!(%id, %error, "a callback may come twice");
        }
    }

    /// Tells the ends that an earlier server has not told.
    pub(crate) async fn call_back_late_durable(self: Arc<Self>) {
        let watchdog = self.clone();
        let owed = spawn_blocking(move || watchdog.ledger.meta().owed()).await;
        let Ok(Ok(owed)) = owed.inspect_err(|error| tracing::warn!(%error, "callbacks")) else { return };
        for (id, _) in owed {
            if self.is_ending() {
                return;
            }
            self.call_back_durable(&id).await;
        }
    }
}

impl Ledger {
    /// Adds the files of a start.
    pub(crate) fn add_start(
        &self,
        adding: &Adding,
        head: crate::invocations::invocation::Head,
        document: &[u8],
        workflow: &Ready,
        inputs: &[(String, Data)],
        callback: Option<String>,
    ) -> Result<Start, ApiError> {
        let plan = workflow.plan();
        let mut images = HashMap::new();
        for image in workflow.distinct_images() {
            images.insert(image.image.hash, self.add_image(adding, image)?);
        }
        let hashes = workflow.images().iter().map(|image| image.image.hash);
        let functions = plan.functions.iter().zip(hashes).map(|(function, hash)| (function.name.clone(), hash));
        Ok(Start {
            head,
            document: self.add_bytes(adding, document)?,
            inputs: inputs
                .iter()
                .map(|(slot, data)| Ok((slot.clone(), self.add_data(adding, data)?)))
                .collect::<Result<_, ApiError>>()?,
            functions: functions.collect(),
            callback,
            again: may_begin_again(plan),
        })
    }
}

/// Another attempt, after a pause.
fn later(claim: &Claim, reason: String) -> Commit {
    let pause = FIRST_PAUSE.saturating_mul(1 << claim.attempt.min(8));
    let due = now().saturating_add(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX));
    Commit::Released { due, reason }
}

fn ended(well: bool, told: &Told) -> Commit {
    let published = told.report.as_ref().map(|report| report.published.clone());
    Commit::Ended { well, report: serde_json::to_vec(told).unwrap_or_default(), published }
}
