//! Invocations that go on in the process that has stayed with them.
//!
//! ```text
//!   leg ─▶ waits, its process stays ─▶ kept ─▶ commit ─▶ … ─▶ claim ─▶ order to go on, with the mailbox ─┬─▶ leg, in the same process
//!                                                                                                      └─▶ it does not: restored
//! ```
//!
//! The process is kept before the commit: something may be due right after it. If the commit is not one to a wait, it is ended.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use monohull_domain::checkpoint::{GoOn, Lineage};
use monohull_durable::{Claim, Commit, Held, InvocationId, Mail, Status as RowStatus};
use monohull_engine::{Event, Ready};
use monohull_saved::Base;
use monohull_worker::Message;
use tokio::sync::broadcast::Receiver;
use tokio::time::Instant;

use crate::execution::arrivals::Arrivals;
use crate::execution::came::Came;
use crate::execution::checkpoints::Deadline;
use crate::execution::leg::{Begun, Far, Here};
use crate::execution::messages::{MessageReader, Postman};
use crate::execution::process::alone;
use crate::invocations::admission::RunPermit;
use crate::invocations::invocation::Invocation;
use crate::invocations::residents::{Ended, Gauge, Process, Resident, WaitOf};
use crate::invocations::status::Status;
use crate::invocations::stored::Start;
use crate::invocations::workers::Run;
use crate::service::Watchdog;

/// How long a process may take to say that it goes on; it takes less than a millisecond.
const ANSWER: Duration = Duration::from_secs(5);

impl Watchdog {
    /// Keeps the process of a run that waits, if it stays, until its checkpoint is committed and after that.
    pub(crate) fn keep_resident(
        &self,
        process: Option<Run>,
        (held, generation, start): (&Held, u64, &[u8]),
        since: std::time::Instant,
        commit: &Commit,
        (ready, document, copy, deadline, base): (&Arc<Ready>, &Bytes, (u32, u32), Deadline, Option<Base>),
    ) -> Option<WaitOf> {
        let Commit::Suspended { checkpoint, due, .. } = commit else { return None };
        let keeps_deadline = deadline.is_kept()?;
        let process = process.filter(|_| !self.is_ending())?;
        let Held { id, epoch } = held.clone();
        let of = WaitOf { id, epoch, generation, checkpoint: checkpoint.file.clone(), start: start.into() };
        let (ready, document) = (ready.clone(), document.clone());
        let (waits_since, due) = (std::time::Instant::now(), *due);
        let resident =
            Resident { of: of.clone(), process, ready, document, copy, keeps_deadline, base, since, waits_since, due };
        self.count_ended(self.residents.put(resident));
        Some(of)
    }

    /// The commit of a wait has been made, or not: then nothing waits there.
    pub(crate) fn settle_resident(&self, kept: Option<WaitOf>, status: Option<RowStatus>) {
        let Some(kept) = kept else { return };
        let ended = match status {
            Some(RowStatus::Suspended) if !self.is_ending() => self.residents.weigh(&kept),
            _ => self.residents.end_of(&kept),
        };
        self.count_ended(ended);
    }

    /// Ends the process that stays with an invocation, which is changed by hand. It is restored if it goes on.
    pub(crate) fn end_resident(&self, id: &InvocationId) {
        self.count_ended(self.residents.end(id));
    }

    pub(crate) fn count_ended(&self, ended: Ended) {
        let Ended { number, memory, idle, died, changed } = ended;
        let by_reason = [("number", number), ("memory", memory), ("idle", idle), ("died", died), ("changed", changed)];
        self.metrics.residents_ended(by_reason);
    }

    /// The process that has stayed with a claimed invocation, if there is one. What is wrong with the invocation's row, its checkpoint tells.
    /// `marked` is of before the claim.
    pub(crate) fn resident_of(&self, claim: &Claim, marked: u64) -> Option<Here> {
        let since = std::time::Instant::now();
        let (resident, ended) = self.residents.take(claim);
        self.count_ended(ended);
        let Resident { process, ready, document, copy, keeps_deadline, base, .. } = resident?;
        let start = Start::decode(&claim.start)?;
        let (callback, again) = (start.callback.clone(), start.again);
        let begun = Begun { callback, again, document, ready, copy, base, since };
        let changes = self.ledger.changes();
        let mail = self.ledger.reader().given(&claim.held).ok()?;
        Watchdog::here((claim, mail), (changes, marked), (process, keeps_deadline), begun)
    }

    /// The process of an invocation that has been claimed again, and its mailbox. `changes` is there since before that was read, and `marked` is of before the
    /// claim.
    pub(crate) fn here(
        (claim, mail): (&Claim, Vec<Mail>),
        (changes, marked): (Receiver<Option<InvocationId>>, u64),
        (process, keeps_deadline): (Run, bool),
        begun: Begun,
    ) -> Option<Here> {
        let start = Start::decode(&claim.start)?;
        let lineage = Lineage { generation: claim.generation, copy: begun.copy.0, copies: begun.copy.1 };
        let events = mail.into_iter().map(|Mail { number, name, bytes }| Event { number, name, bytes }).collect();
        let order = GoOn { lineage, keeps_deadline, may_leave: begun.base.is_some(), events };
        Some(Here { process, begun, start, order, changes, marked })
    }

    /// Runs a leg of a claimed invocation in its process; how far it came. If the process does not go on nothing has happened, and the permit is
    /// for another one.
    pub(crate) async fn go_on_resident(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        here: Here,
        permit: RunPermit,
    ) -> Result<Far, RunPermit> {
        let Here { mut process, begun, start, order, changes, marked } = here;
        if !goes_on(&mut process, &order).await {
            tracing::info!(id = %claim.held.id, pid = process.pid(), "restored: its process does not go on");
            self.count_ended(Ended { died: 1, ..Ended::default() });
            return Err(permit);
        }
        self.metrics.woken(true);
        let id = claim.held.id.to_string();
        let invocation = Arc::new(Invocation::durable(id, start.head.clone(), Status::Running));
        invocation.point("dispatched");
        let arrivals = Arrivals::since(changes, self, &claim.held, &order.events);
        self.show(&claim.held, &invocation, Some(marked));
        let came = self.run_resident(&invocation, (process, permit), arrivals).await;
        Ok(self.arrive(claim.clone(), begun, invocation, came).await)
    }

    async fn run_resident(
        self: &Arc<Self>,
        invocation: &Arc<Invocation>,
        (process, permit): (Run, RunPermit),
        arrivals: Arrivals,
    ) -> Option<Came> {
        let latest = Instant::from_std(invocation.begin) + self.settings.timeout;
        let postman = Postman { post: process.post(), arrivals: Some(arrivals) };
        let run = (process, postman, permit);
        let run = self.read_messages(invocation, run, self.with_grace(latest), alone(), false);
        tokio::select! {
            biased;
            came = run => Some(came),
            () = invocation.cancelled() => None,
        }
    }
}

/// Orders a process to go on; whether it does.
async fn goes_on(process: &mut Run, order: &GoOn) -> bool {
    match process.go_on(order) {
        Ok(true) => {}
        Ok(false) => return false,
        Err(error) => {
            tracing::warn!(error = error.error.message, "a process that has stayed cannot be ordered to go on");
            return false;
        }
    }
    let mut reader = MessageReader { latest: Instant::now() + ANSWER, received: false };
    loop {
        match reader.next(process.next()).await {
            Ok(Ok(Message::WentOn(goes_on))) => return goes_on,
            Ok(Ok(Message::EventsTaken)) => {}
            _ => return false,
        }
    }
}

impl Process for Run {
    fn is_there(&self) -> bool {
        self.is_resident()
    }

    fn memory(&self) -> u64 {
        self.private_memory()
    }

    fn processor_ticks(&self) -> u64 {
        Run::processor_ticks(self)
    }

    fn seen(&mut self) -> &mut Option<(std::time::Instant, u64)> {
        &mut self.seen
    }

    fn gauge(&self) -> Gauge {
        let gauge = Run::gauge(self);
        Box::new(move || gauge.map_or((0, 0), |gauge| (gauge.private_memory(), gauge.processor_ticks())))
    }
}
