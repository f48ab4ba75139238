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

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use monohull_durable::{Adding, Claim, Claimed, Commit, InvocationId, Left, Meta, MetaError, Outbox, Output};
use monohull_engine::{Event, Ready};
use monohull_report::Outgoing;
use monohull_worker::{Data, Job, SuspendedRun};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout_at};

use crate::endpoints::durable::full;
use crate::execution::arrivals::Arrivals;
use crate::execution::basis::{Basis, NoBasis};
use crate::execution::checkpoints::{Waits, take_sent};
use crate::execution::process::Process;
use crate::execution::run::Came;
use crate::http::content::Content;
use crate::http::error::{ApiError, Blame};
use crate::invocations::admission::QueueSlot;
use crate::invocations::callback::Callback;
use crate::invocations::invocation::Invocation;
use crate::invocations::ledger::{Told, encode_printed, meta_kept, now};
use crate::invocations::record::End;
use crate::invocations::report::Report;
use crate::invocations::status::{Mode, Status};
use crate::service::Watchdog;

/// The first pause before another attempt; each is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How long is slept at most while something is due: the clock may be set meanwhile.
const NAP: Duration = Duration::from_secs(1);
/// The pause after the ledger could not be used.
pub(crate) const TROUBLE_PAUSE: Duration = Duration::from_secs(1);

/// A call that is not durable yet.
pub(crate) struct First<'t> {
    pub(crate) invocation: &'t Arc<Invocation>,
    pub(crate) workflow: Arc<Ready>,
    pub(crate) document: Option<Bytes>,
    pub(crate) callback: Option<&'t Callback>,
}

/// What a leg begins with.
pub(crate) struct Leg {
    pub(crate) ready: Arc<Ready>,
    pub(crate) inputs: Vec<(String, Data)>,
    /// What it goes on from; without it it begins.
    pub(crate) continuation: Option<OwnedFd>,
    pub(crate) events: Vec<Event>,
    /// What an earlier version has handed over to it.
    pub(crate) handed_over: String,
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
                let waits = Waits {
                    id: &id,
                    epoch: 1,
                    generation: 1,
                    is_first: true,
                    document: &document,
                    ready: &workflow,
                    copy: (0, 0),
                };
                let (commit, sent, adding) = ledger.write_checkpoint(&waits, run)?;
                let sent = watchdog.outbox(&adding, &id, workflow.plan(), sent);
                let start = ledger.add_start(&adding, of_call.head(), &document, &workflow, &inputs, url)?;
                let left = Left { printed: encode_printed(&of_call.printed()), sent, ..Left::default() };
                let family = left.sent.has_children().then_some(id.clone());
                ledger.start_suspended(&id, &start, &commit, &left)?;
                drop(adding);
                if let Some(id) = family {
                    watchdog.settle(&id);
                }
                Ok(())
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

    /// The leg itself: in a worker, within the server's timeout.
    async fn go_on(self: &Arc<Self>, claim: Arc<Claim>, basis: Basis) {
        let Basis { start, document, ready, inputs, continuation, events, copy } = basis;
        let id = claim.held.id.to_string();
        let invocation = Arc::new(Invocation::durable(id, start.head.clone(), Status::Running));
        let handed_over = start.handed_over();
        let leg = Leg { ready: ready.clone(), inputs, continuation, events, handed_over };
        let came = self.run_leg(&claim, &invocation, leg).await;
        let may_try_again = claim.checkpoint.is_some() || start.again;
        let printed = encode_printed(&invocation.printed());
        let (left, mut sent) = (Left { printed, ..Left::default() }, Vec::new());
        let (status, report, result) = match came {
            Some(Came::Suspended(run, _)) => {
                let kept = self.write_leg(&claim, document, ready.clone(), copy, run).await;
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
                sent = take_sent(report.as_mut());
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
                self.commit(&claim, commit, left).await;
                return self.leave(&invocation, Status::Suspended);
            }
            _ => {}
        }
        let end = invocation.ending(status, report, result);
        let (watchdog, told, url) = (self.clone(), end.clone(), start.callback.clone());
        let (of_claim, was_cancelled) = (claim.clone(), status == Status::Cancelled);
        let kept = spawn_blocking(move || {
            let (told, left, adding) = watchdog.keep_end(&of_claim.held.id, &ready, &told, (sent, url), left)?;
            let well = told.refusal.is_none();
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

    /// Runs a claimed invocation in a worker, within the server's timeout: how far it came, or `None` if it was stopped.
    pub(crate) async fn run_leg(
        self: &Arc<Self>,
        claim: &Claim,
        invocation: &Arc<Invocation>,
        leg: Leg,
    ) -> Option<Came> {
        let Leg { ready, inputs, continuation, events, handed_over } = leg;
        self.history.begin(invocation.clone());
        let latest = Instant::from_std(invocation.begin) + self.settings.timeout;
        let arrivals = Arrivals::new(self, &claim.held, &events);
        let is_resumed = continuation.is_some();
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
                handed_over,
                published: claim.published.clone(),
                ..Job::new(ready, inputs)
            };
            invocation.point("dispatched");
            if is_resumed {
                self.metrics.resumed();
            }
            Some(self.run_job(invocation, Process::alone(worker), job, latest, Some(arrivals)).await)
        };
        tokio::select! {
            biased;
            came = run => came,
            () = invocation.cancelled() => None,
        }
    }

    /// Keeps what is left of an end, before the commit that names it is made and the last one dropped.
    pub(crate) fn keep_end(
        &self,
        id: &InvocationId,
        ready: &Ready,
        end: &End,
        (sent, callback): (Vec<Outgoing>, Option<String>),
        left: Left,
    ) -> Result<(Told, Left, Adding), ApiError> {
        let adding = self.ledger.adding()?;
        let sent = self.outbox(&adding, id, ready.plan(), sent);
        let outcome = self.ledger.outcome(id, &end.result)?;
        let mut left = Left { callback, sent, outcome, ..left };
        for (slot, content) in end.result.as_deref().unwrap_or_default() {
            let hash = self.ledger.add_content(&adding, content)?;
            left.outputs.push(Output { slot: slot.clone(), hash, bytes: Content::len(content) });
        }
        let told = Told {
            duration_us: end.duration_us,
            report: end.report.clone().and_then(Report::into_whole),
            refusal: end.result.as_ref().err().cloned(),
        };
        Ok((told, left, adding))
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
            let is_first = claim.checkpoint.is_none();
            let waits = Waits { id, epoch, generation, is_first, document: &document, ready: &ready, copy };
            let (commit, sent, adding) = watchdog.ledger.write_checkpoint(&waits, run)?;
            let sent = watchdog.outbox(&adding, id, ready.plan(), sent);
            Ok((commit, sent, adding))
        });
        written.await.map_err(|error| ApiError::monohull(error.to_string()))?
    }

    /// Those who follow a leg see that it is over.
    pub(crate) fn leave(&self, invocation: &Arc<Invocation>, status: Status) {
        invocation.end(invocation.ending(status, None, Ok(Vec::new())), true);
        self.history.leave(invocation);
        invocation.release_permit();
    }

    /// Makes a commit. As long as the disk does not take it nothing else can be done with the invocation, which is this server's.
    async fn commit(self: &Arc<Self>, claim: &Arc<Claim>, commit: Commit, left: Left) {
        let both = Arc::new((commit, left));
        loop {
            let (watchdog, of_claim, of_both) = (self.clone(), claim.clone(), both.clone());
            let done = spawn_blocking(move || watchdog.ledger.commit(&of_claim.held, &of_both.0, &of_both.1)).await;
            match done {
                Ok(Ok(committed)) => {
                    if committed.status.is_end() || both.1.sent.has_children() {
                        let (watchdog, id) = (self.clone(), claim.held.id.clone());
                        let _ = spawn_blocking(move || watchdog.settle(&id)).await;
                    }
                    return;
                }
                Err(_) => return,
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
}

/// Another attempt, after a pause.
fn later(claim: &Claim, reason: String) -> Commit {
    let pause = FIRST_PAUSE.saturating_mul(1 << claim.attempt.min(8));
    let due = now().saturating_add(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX));
    Commit::Released { due, reason }
}

pub(crate) fn ended(well: bool, told: &Told) -> Commit {
    let published = told.report.as_ref().map(|report| report.published.clone());
    Commit::Ended { well, report: serde_json::to_vec(told).unwrap_or_default(), published }
}
