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
//! Where its process has stayed with an invocation, the next leg is in that process ([`residents`](crate::execution::residents)). If what it waits for
//! is there by the commit, as with a save point, that transaction claims it again, and the leg goes on with the next.
//!
//! A leg is an invocation like any other: it has a queue slot and a permit, a worker process of its own, and the server's timeout. The permit goes with
//! the process: what waits for the disk after that has its queue slot, and calls that need no disk run meanwhile.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use monohull_durable::{
    Adding, Claim, Claimed, Commit, Control, Controlled, InvocationId, Left, Meta, Outcome, Status as RowStatus,
    StoreError, nap,
};
use monohull_engine::mounts::Prospect;
use monohull_worker::{Job, SuspendedRun};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout_at};

use crate::execution::alarm::{Alarm, after};
use crate::execution::arrivals::Arrivals;
use crate::execution::basis::{Basis, NoBasis, unbegun};
use crate::execution::came::{Came, NotBegun, NotYet, Waiting};
use crate::execution::checkpoints::{Waits, Written, take_sent};
use crate::execution::commit::{Over, OwnRow, Pauses, TROUBLE_PAUSE, ended, later};
use crate::execution::leg::{Begun, Far, Here, Leg};
use crate::execution::process::Process;
use crate::http::error::{ApiError, Blame};
use crate::invocations::admission::{RunPermit, Turn};
use crate::invocations::invocation::Invocation;
use crate::invocations::ledger::{Ledger, Next, meta_kept, now};
use crate::invocations::residents::Ended;
use crate::invocations::status::Status;
use crate::invocations::stored::encode_printed;
use crate::invocations::workers::Run;
use crate::service::Watchdog;

/// How long is slept at most: the clock may be set meanwhile, and hints may be lost.
const NAP: Duration = Duration::from_secs(1);

/// Invocations that are claimed at once.
const TOGETHER: usize = 16;

impl Watchdog {
    /// Ends what has a row, and stops its process. One that has ended stays as it is.
    pub(crate) fn cancel_at_once(&self, ledger: &Ledger, id: &InvocationId) -> Result<Controlled, ApiError> {
        let came = ledger.meta().control(id, Control::Stop, now()).map_err(meta_kept)?;
        ledger.mark();
        self.end_resident(id);
        if came != Controlled::Unknown {
            // It is marked, and so it is not taken for one that failed.
            if let Some(invocation) = self.history.find(id.as_str()) {
                invocation.cancel();
            }
            ledger.changed(id);
            self.settle(id);
        }
        Ok(came)
    }

    /// Goes on with what is due, as much at a time as may run.
    pub(crate) async fn wake(self: &Arc<Self>) -> Infallible {
        let alarm = Alarm::new().inspect_err(|error| tracing::warn!(%error, "what is due goes on a moment later")).ok();
        let (mut known, mut read_at) = (None, Instant::now());
        loop {
            let next = match known.take() {
                // Hints may be lost.
                Some(due) if read_at.elapsed() < NAP => Ok(Ok(Some(due))),
                _ => {
                    read_at = Instant::now();
                    let watchdog = self.clone();
                    spawn_blocking(move || watchdog.ledger.next_due()).await
                }
            };
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
                    known = self.claim((slot, permit)).await;
                }
                due => tokio::select! {
                    // Whether it is due is looked at by the clock; that it is there, by the claim.
                    () = after(alarm.as_ref(), nap(due, now(), NAP.saturating_sub(read_at.elapsed()))) => known = due.filter(|due| *due <= now()),
                    () = self.ledger.hurried() => known = self.ledger.sooner(due),
                },
            }
        }
    }

    /// Claims what is due first, and what is due besides as far as it may run, and begins with it. When the next one is due, if that is known.
    async fn claim(self: &Arc<Self>, turn: Turn) -> Option<u64> {
        if self.is_ending() {
            return None;
        }
        let (watchdog, runtime) = (self.clone(), Handle::current());
        let claim = spawn_blocking(move || {
            let (mut turns, marked) = (vec![turn], watchdog.ledger.marked());
            let claimed = watchdog.ledger.claim(|| {
                let turn = watchdog.admission.turn().filter(|_| turns.len() < TOGETHER);
                let is_one = turn.is_some();
                turns.extend(turn);
                is_one
            })?;
            let has_claimed = !claimed.is_empty();
            for claimed in claimed {
                match (claimed, turns.pop()) {
                    (Claimed::Yes(claim), Some(turn)) => {
                        let here = watchdog.resident_of(&claim, marked);
                        let (watchdog, guard) = (watchdog.clone(), watchdog.work.track());
                        // Without waiting for the others.
                        runtime.spawn(async move {
                            let _guard = guard;
                            watchdog.legs(*claim, here, turn).await;
                        });
                    }
                    (Claimed::Paused(id), _) => tracing::warn!(%id, "paused: too many attempts"),
                    _ => {}
                }
            }
            drop(turns);
            Ok::<_, StoreError>(if has_claimed { watchdog.ledger.next_due().ok().flatten() } else { None })
        });
        match claim.await {
            Ok(Ok(next)) => return next,
            Ok(Err(error)) => {
                tracing::error!(%error, "nothing can be claimed");
                sleep(TROUBLE_PAUSE).await;
            }
            Err(error) => tracing::error!(%error, "claim"),
        }
        None
    }

    /// Runs a claimed invocation, leg by leg, until it waits for something that is not there or has ended. Each leg is committed.
    async fn legs(self: &Arc<Self>, claim: Claim, here: Option<Here>, (slot, permit): Turn) {
        let (mut claim, mut here, mut permit) = (Arc::new(claim), here, permit);
        loop {
            let far = match here {
                Some(here) => Box::pin(self.go_on_resident(&claim, here, permit)).await,
                None => Err(permit),
            };
            let far = match far {
                Ok(far) => far,
                Err(permit) => Box::pin(self.restore(&claim, permit)).await,
            };
            match far {
                Far::Over => return,
                Far::GoesOn(next, process) => (claim, here) = (next, process.map(|process| *process)),
            }
            permit = slot.run_permit().await;
            if self.is_ending() {
                // Its process ends, and the next server goes on from the commit before.
                drop((here, permit));
                let released = Commit::Released { due: now(), reason: "the server ended".to_owned() };
                if self.commit(&claim.held, released, Left::default()).await.is_some_and(RowStatus::is_end) {
                    self.call_back(&claim.held.id);
                }
                return;
            }
        }
    }

    /// A leg in another process, from the last checkpoint or from the beginning.
    async fn restore(self: &Arc<Self>, claim: &Arc<Claim>, permit: RunPermit) -> Far {
        let since = std::time::Instant::now();
        let (watchdog, of_claim) = (self.clone(), claim.clone());
        let basis = spawn_blocking(move || watchdog.basis(&of_claim)).await;
        let basis = basis.unwrap_or_else(|error| Err(NoBasis::Host(error.to_string())));
        match &basis {
            Err(NoBasis::Pause(_)) => self.metrics.not_resumed("unusable"),
            Err(NoBasis::Host(_)) => self.metrics.not_resumed("host"),
            Ok(_) | Err(NoBasis::Interrupted(_)) => {}
        }
        let (commit, left, told) = match basis {
            Ok(basis) => return self.go_on(claim.clone(), basis, since, permit).await,
            Err(NoBasis::Pause(reason)) => {
                (Commit::Paused { reason }, Left { start: unbegun(claim), ..Left::default() }, None)
            }
            Err(NoBasis::Host(reason)) => {
                tracing::warn!(id = %claim.held.id, error = reason, "an invocation goes on later");
                (later(claim.attempt, reason), Left { start: unbegun(claim), ..Left::default() }, None)
            }
            Err(NoBasis::Interrupted(start)) => {
                let invocation = Invocation::durable(claim.held.id.to_string(), start.head.clone(), Status::Running);
                let why = ApiError::interrupted();
                let outcome = Outcome { message: why.error.message.clone(), ..Outcome::default() };
                let end = invocation.ending(Status::Failed, None, Err(why));
                let left = Left { outcome, callback: start.callback.clone(), ..Left::default() };
                (ended(&end), left, Some((invocation, end)))
            }
        };
        drop(permit);
        self.commit(&claim.held, commit, left).await;
        if let Some((invocation, end)) = told {
            self.log_end(&invocation, &end);
            self.call_back(&claim.held.id);
        }
        Far::Over
    }

    /// The leg itself: in a worker, within the server's timeout.
    async fn go_on(
        self: &Arc<Self>,
        claim: Arc<Claim>,
        basis: Basis,
        since: std::time::Instant,
        permit: RunPermit,
    ) -> Far {
        let Basis { start, document, ready, inputs, continuation, base, events, copy } = basis;
        let id = claim.held.id.to_string();
        let invocation = Arc::new(Invocation::durable(id, start.head.clone(), Status::Running));
        let handed_over = start.handed_over();
        // Copies that are woken meanwhile go on from the same memory.
        let (continuation, _read) = continuation.unzip();
        let leg = Leg { ready: ready.clone(), inputs, continuation, events, handed_over, resident: true };
        let came = self.run_leg(&claim, &invocation, leg, permit).await;
        let begun = Begun { callback: start.callback, again: start.again, document, ready, copy, base, since };
        self.arrive(claim, begun, invocation, came).await
    }

    /// A leg is over: commits how far it came, or `None` if it was stopped.
    pub(crate) async fn arrive(
        self: &Arc<Self>,
        claim: Arc<Claim>,
        begun: Begun,
        invocation: Arc<Invocation>,
        came: Option<Came>,
    ) -> Far {
        let (callback, ready) = (begun.callback.clone(), begun.ready.clone());
        let is_refused = matches!(came, Some(Came::Refused(_)));
        let may_try_again = (claim.checkpoint.is_some() || begun.again) && !is_refused;
        let printed = encode_printed(&invocation.printed());
        let has_callback = callback.is_some();
        let (left, mut sent) = (Left { printed, callback: callback.clone(), ..Left::default() }, Vec::new());
        let (status, report, result) = match came {
            Some(Came::Suspended(waiting)) => {
                let Waiting { run, process, .. } = *waiting;
                let mut waits = (begun, run, process);
                let mut pauses = Pauses::default();
                let kept = loop {
                    let (watchdog, of_claim, of_wait) = (self.clone(), claim.clone(), left.clone());
                    let keep = move || {
                        let (begun, run, process) = waits;
                        let kept = watchdog.keep_wait(&of_claim, &begun, of_wait, &run, process);
                        (kept, begun, run)
                    };
                    match spawn_blocking(keep).await {
                        // There is nothing that it could go on from instead.
                        Ok((Err(refusal), begun, run))
                            if !may_try_again && refusal.error.blame == Blame::Host && !self.is_ending() =>
                        {
                            let error = &refusal.error.message;
                            tracing::error!(id = %claim.held.id, error, "a checkpoint is written again later");
                            waits = (begun, run, None);
                            if !pauses.wait(&invocation, refusal.status).await {
                                break Err(refusal);
                            }
                        }
                        Ok((kept, ..)) => break kept,
                        Err(error) => break Err(ApiError::monohull(error.to_string())),
                    }
                };
                match kept {
                    Ok(KeptWait::GoesOn(next, here)) => {
                        self.leave(&invocation, Status::Suspended);
                        return Far::GoesOn(Arc::new(next), here);
                    }
                    Ok(KeptWait::Committed) => {
                        return self.leave_and_call((&claim, has_callback), &invocation, Status::Suspended).await;
                    }
                    Ok(KeptWait::NotYet(NotYet { both, resident, adding })) => {
                        let status = self.commit_both(&claim.held, both).await;
                        self.settle_resident(resident, status);
                        drop(adding);
                        return self.leave_and_call((&claim, has_callback), &invocation, Status::Suspended).await;
                    }
                    Err(_) if invocation.is_cancelled() => (Status::Cancelled, None, Err(self.given_up())),
                    Err(refusal) => (Status::Failed, None, Err(refusal)),
                }
            }
            Some(Came::Unfit(reason)) => {
                self.metrics.not_resumed("unusable");
                self.commit(&claim.held, Commit::Paused { reason }, left).await;
                return self.leave_and_call((&claim, has_callback), &invocation, Status::Paused).await;
            }
            Some(Came::NotBegun(not_begun)) => {
                self.metrics.not_resumed("host");
                let error = &not_begun.refusal.error.message;
                tracing::warn!(id = %claim.held.id, error, "an invocation goes on later");
                let commit = later(claim.attempt, not_begun.refusal.error.message);
                let left = Left { start: unbegun(&claim), ..left };
                self.commit(&claim.held, commit, left).await;
                return self.leave_and_call((&claim, has_callback), &invocation, Status::Suspended).await;
            }
            Some(Came::Refused(refusal)) => (Status::Failed, None, Err(*refusal)),
            Some(Came::Ended(ended)) => {
                let (mut report, result) = *ended;
                sent = take_sent(report.as_mut());
                let (report, result) = self.redact(report, result).await;
                let status = if result.is_ok() { Status::Completed } else { Status::Failed };
                (status, report, result)
            }
            None if self.is_ending() && may_try_again => {
                let reason = "the server ended".to_owned();
                self.commit(&claim.held, Commit::Released { due: now(), reason }, left).await;
                return self.leave_and_call((&claim, has_callback), &invocation, Status::Suspended).await;
            }
            None => (Status::Cancelled, None, Err(self.given_up())),
        };
        match &result {
            // A full disk, a process that was killed: not what the workflow did.
            Err(refusal) if refusal.error.blame == Blame::Host && may_try_again && status == Status::Failed => {
                self.metrics.not_resumed("host");
                let commit = later(claim.attempt, refusal.error.message.clone());
                drop(report);
                // Others with a long report do not wait for the disk.
                invocation.release_permit();
                // What it has sent it sends again.
                self.commit(&claim.held, commit, left).await;
                return self.leave_and_call((&claim, has_callback), &invocation, Status::Suspended).await;
            }
            _ => {}
        }
        let row = OwnRow { held: claim.held.clone(), callback };
        let attempt = may_try_again.then_some(claim.attempt);
        let over = Over { row, invocation, workflow: ready, status, report, result, sent, attempt };
        Box::pin(self.conclude(over, ())).await;
        Far::Over
    }

    /// A leg is over. If the invocation was cancelled meanwhile it has ended, and that is told.
    async fn leave_and_call(
        self: &Arc<Self>,
        (claim, has_callback): (&Claim, bool),
        invocation: &Arc<Invocation>,
        status: Status,
    ) -> Far {
        self.leave(invocation, status);
        if has_callback {
            self.call_back(&claim.held.id);
        }
        Far::Over
    }

    /// Runs a claimed invocation in a worker, within the server's timeout: how far it came, or `None` if it was stopped.
    pub(crate) async fn run_leg(
        self: &Arc<Self>,
        claim: &Claim,
        invocation: &Arc<Invocation>,
        leg: Leg,
        permit: RunPermit,
    ) -> Option<Came> {
        let Leg { ready, inputs, continuation, events, handed_over, resident } = leg;
        self.show(&claim.held, invocation, None);
        let latest = Instant::from_std(invocation.begin) + self.settings.timeout;
        let arrivals = Arrivals::new(self, &claim.held, &events);
        let is_resumed = continuation.is_some();
        let run = async {
            let worker = match timeout_at(latest, self.workers.idle_worker()).await {
                Ok(Ok(worker)) => worker,
                Ok(Err(refusal)) => return Some(Came::NotBegun(Box::new(NotBegun { refusal, inputs }))),
                Err(_) => {
                    let refusal = ApiError::host("no worker process was available in time");
                    return Some(Came::NotBegun(Box::new(NotBegun { refusal, inputs })));
                }
            };
            let files = match self.open_files(&ready).await {
                Ok(files) => files,
                // What it had when it began may be there again, or no longer in use, at a later attempt.
                Err((refusal, prospect)) if prospect == Prospect::Passing || is_resumed => {
                    return Some(Came::NotBegun(Box::new(NotBegun { refusal, inputs })));
                }
                Err((refusal, _)) => return Some(Came::Refused(Box::new(refusal))),
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
                resident: resident && self.residents.is_on(),
                invocation: invocation.id.clone(),
                handed_over,
                public_url: self.settings.public_url.clone(),
                published: claim.published.clone(),
                ..Job::new(ready, inputs)
            };
            invocation.point("dispatched");
            self.metrics.given_to_process(false);
            if is_resumed {
                self.metrics.resumed();
                self.metrics.woken(false);
            } else {
                self.metrics.started(false);
            }
            let (process, used) = Process::alone(worker);
            Some(self.run_job(invocation, (process, used, permit), job, latest, Some(arrivals)).await)
        };
        tokio::select! {
            biased;
            came = run => came,
            () = invocation.cancelled() => None,
        }
    }

    /// Keeps a leg that waits: its checkpoint, and the commit. If it is due at once, and its process stays, it is claimed again, for as long as one
    /// leg may take.
    fn keep_wait(
        self: &Arc<Self>,
        claim: &Claim,
        begun: &Begun,
        left: Left,
        run: &SuspendedRun,
        process: Option<Run>,
    ) -> Result<KeptWait, ApiError> {
        let (id, epoch, generation) = (&claim.held.id, claim.held.epoch, claim.generation + 1);
        let (document, ready, copy) = (&begun.document[..], &begun.ready, begun.copy);
        // Others have their turns after that, and grants that were read meanwhile are for a new process.
        let may_go_on = process.is_some()
            && !self.is_ending()
            && begun.since.elapsed() < self.settings.timeout
            && !self.residents.is_outdated(begun.since);
        let is_first = claim.checkpoint.is_none();
        let base = begun.base.as_ref();
        let waits = Waits { id, epoch, generation, is_first, document, ready, copy, base, may_go_on };
        let Written { commit, sent, unsynced, adding, deadline, next_base, goes_on } =
            self.ledger.write_checkpoint(&waits, run)?;
        let sent = self.outbox(&adding, id, ready.plan(), sent);
        let both = Arc::new((commit, Left { sent, unsynced, ..left }));
        if goes_on
            && let Some(keeps_deadline) = deadline.is_kept()
            && let Some(process) = process
        {
            let Begun { callback, again, document, ready, copy, since, .. } = begun;
            let (callback, document, ready) = (callback.clone(), document.clone(), ready.clone());
            let begun = Begun { callback, again: *again, document, ready, copy: *copy, base: next_base, since: *since };
            return Ok(self.commit_and_go_on(claim, begun, both, (process, keeps_deadline), adding));
        }
        let wait = (&claim.held, generation, &claim.start[..]);
        let of_process = (ready, &begun.document, copy, deadline, next_base);
        let resident = self.keep_resident(process, wait, begun.since, &both.0, of_process);
        // A panic may be that of another one's transaction, which was to be made in the same.
        match catch_unwind(AssertUnwindSafe(|| self.commit_once(&claim.held, &both))) {
            Ok(Ok(status)) => {
                self.settle_resident(resident, Some(status));
                Ok(KeptWait::Committed)
            }
            // That is told when it is tried again.
            _ => Ok(KeptWait::NotYet(NotYet { both, resident, adding })),
        }
    }

    /// Commits a leg that waits for what is there, and claims it again at once. Without a claim, its process ends.
    fn commit_and_go_on(
        self: &Arc<Self>,
        claim: &Claim,
        begun: Begun,
        both: Arc<(Commit, Left)>,
        process: (Run, bool),
        adding: Adding,
    ) -> KeptWait {
        let (changes, marked) = (self.ledger.changes(), self.ledger.marked());
        let committed = catch_unwind(AssertUnwindSafe(|| self.ledger.commit_and_claim(&claim.held, &both)));
        let Ok(Ok((committed, next))) = committed else {
            return KeptWait::NotYet(NotYet { both, resident: None, adding });
        };
        if committed.status.is_end() || both.1.sent.has_children() {
            self.settle(&claim.held.id);
        }
        match next {
            Some(Next { claim: next, mail }) => {
                let here = mail.and_then(|mail| Watchdog::here((&next, mail), (changes, marked), process, begun));
                KeptWait::GoesOn(next, here.map(Box::new))
            }
            None => {
                self.count_ended(Ended { changed: 1, ..Ended::default() });
                KeptWait::Committed
            }
        }
    }
}

/// A leg that waits, and is kept.
enum KeptWait {
    /// It has been claimed again, and goes on: in its process, if that can.
    GoesOn(Claim, Option<Box<Here>>),
    /// It is committed.
    Committed,
    /// The commit is to be made once more, before files may be removed.
    NotYet(NotYet),
}
