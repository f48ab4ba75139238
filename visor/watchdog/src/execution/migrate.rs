//! A durable invocation is moved to the registered version of its workflow.
//!
//! ```text
//!   claim ─▶ a leg in the new version, from its beginning ─┬─▶ it waits or has ended well: it is moved, in one transaction
//!                                                          └─▶ anything else: it is what it was, in its own version
//! ```
//!
//! What the invocation had published at its last checkpoint is handed over. Its inputs and its mailbox stay. Until the commit nothing of the
//! trial has left: events for others, children and printed lines go with the commit, or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use monohull_durable::{
    Adding, Before, Claim, Commit, History as _, Invocation as Row, InvocationId, Left, Mail, Meta, MetaError, Moving,
};
use monohull_engine::{Event, Ready};
use monohull_report::Outgoing;
use monohull_report::text::quoted;
use monohull_worker::{Data, SuspendedRun};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::endpoints::versions::Version;
use crate::execution::basis::{may_begin_again, may_have_begun};
use crate::execution::came::Came;
use crate::execution::checkpoints::{Waits, Written, take_sent};
use crate::execution::commit::TROUBLE_PAUSE;
use crate::execution::leg::Leg;
use crate::http::error::ApiError;
use crate::invocations::invocation::Invocation;
use crate::invocations::ledger::{Ledger, meta_kept, now};
use crate::invocations::record::{End, Head};
use crate::invocations::status::Status;
use crate::invocations::stored::{Start, encode_end, encode_printed};
use crate::service::Watchdog;

/// The version that invocations are moved to.
pub(crate) struct Target {
    pub(crate) version: Version,
    pub(crate) document: Bytes,
    pub(crate) ready: Arc<Ready>,
}

/// What became of an invocation.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Moved {
    /// It is in the new version.
    Yes,
    /// It could be: this was only a trial.
    Could,
    /// It was in the new version already.
    Already,
    /// It stays where it is, for this reason.
    No(String),
}

/// An invocation that is claimed.
struct Claimed {
    claim: Claim,
    before: Before,
    /// What it begins with in the new version, or why it cannot.
    beginning: Result<Beginning, String>,
}

/// What an invocation begins with.
struct Beginning {
    start: Start,
    inputs: Vec<(String, Data)>,
    events: Vec<Event>,
}

/// How far an invocation has come in the new version.
enum Far {
    Waits(SuspendedRun),
    Ended(Arc<End>, Vec<Outgoing>),
}

impl Watchdog {
    /// Tries the beginning of an invocation in another version, and moves it there if it comes to its first wait or ends well. `is_trial`: it is only
    /// tried.
    pub(crate) async fn move_to(
        self: &Arc<Self>,
        target: &Arc<Target>,
        id: InvocationId,
        is_trial: bool,
    ) -> Result<Moved, ApiError> {
        let slot = self.admission.wait().await;
        let permit = slot.run_permit().await;
        self.refuse_if_draining()?;
        if !self.registry.is_current(&target.ready) {
            return Ok(Moved::No("another version was registered, or the grants were changed, meanwhile".to_owned()));
        }
        let of_target = target.clone();
        let begun = self.with_ledger(move |_, ledger| ledger.begin_to_move(&of_target, &id, is_trial));
        let Claimed { claim, before, beginning } = match begun.await? {
            Ok(claimed) => *claimed,
            Err(moved) => return Ok(moved),
        };
        let claim = Arc::new(claim);
        // Whether it is moved or not: the claim that follows is another one.
        self.end_resident(&claim.held.id);
        let Beginning { start, inputs, events } = match beginning {
            Ok(beginning) => beginning,
            Err(reason) => {
                self.give_back(&claim, before).await;
                return Ok(Moved::No(reason));
            }
        };
        let head = start.head.clone();
        let invocation = Arc::new(Invocation::durable(claim.held.id.to_string(), head, Status::Running));
        let handed_over = start.handed_over();
        // Its process goes with the trial.
        let leg = Leg { ready: target.ready.clone(), inputs, continuation: None, events, handed_over, resident: false };
        let far = match self.run_leg(&claim, &invocation, leg, permit).await {
            Some(Came::Suspended(waiting)) => Ok(Far::Waits(waiting.run)),
            Some(Came::Ended(ended)) => {
                let (mut report, result) = *ended;
                let sent = take_sent(report.as_mut());
                let (report, result) = self.redact(report, result).await;
                match result {
                    Ok(outputs) => Ok(Far::Ended(invocation.ending(Status::Completed, report, Ok(outputs)), sent)),
                    Err(refusal) => Err(refusal.error.message.clone()),
                }
            }
            Some(Came::Unfit(reason)) => Err(reason),
            Some(Came::NotBegun(not_begun)) => Err(not_begun.refusal.error.message.clone()),
            Some(Came::Refused(refusal)) => Err(refusal.error.message.clone()),
            None => Err("it was stopped before it came to its first wait".to_owned()),
        };
        // Others with a long report do not wait for the disk.
        invocation.release_permit();
        let end = if let Ok(Far::Ended(end, _)) = &far { Some(end.clone()) } else { None };
        let moved = match far {
            Ok(_) if is_trial => Ok(None),
            Ok(far) => self.keep_moved(target, &claim, (start, invocation.clone()), far).await.map(Some),
            Err(reason) => Err(reason),
        };
        match (&moved, end) {
            (Ok(Some(status)), Some(end)) => {
                let mut end = Arc::unwrap_or_clone(end);
                end.committed_as(Some(*status));
                let end = Arc::new(end);
                self.history.leave(&invocation);
                self.log_end(&invocation, &end);
                invocation.end(end);
                self.call_back(&claim.held.id);
            }
            (Ok(Some(status)), None) => self.leave(&invocation, *status),
            (Ok(None) | Err(_), _) => {
                let status = self.give_back(&claim, before).await;
                self.leave(&invocation, status);
            }
        }
        let (moved, outcome) = match moved {
            Ok(Some(_)) => (Moved::Yes, "migrated"),
            Ok(None) => (Moved::Could, "possible"),
            Err(reason) => (Moved::No(reason), "failed"),
        };
        self.metrics.migrated(outcome);
        Ok(moved)
    }

    /// Makes the commit that moves an invocation: its status, or why that cannot be kept.
    async fn keep_moved(
        self: &Arc<Self>,
        target: &Arc<Target>,
        claim: &Arc<Claim>,
        (start, invocation): (Start, Arc<Invocation>),
        far: Far,
    ) -> Result<Status, String> {
        let (watchdog, target, claim) = (self.clone(), target.clone(), claim.clone());
        let keep = move || {
            watchdog.ledger.change(|ledger| {
                let (id, plan) = (&claim.held.id, target.ready.plan());
                let own = ledger.adding()?;
                let start = ledger.start_in(&own, &target, start)?;
                let (commit, left, adding): (Commit, Left, Option<Adding>) = match far {
                    Far::Waits(run) => {
                        let lineage = ledger.meta().lineage(id).map_err(meta_kept)?;
                        let waits = Waits {
                            id,
                            epoch: claim.held.epoch,
                            generation: claim.generation + 1,
                            is_first: true,
                            document: &target.document,
                            ready: &target.ready,
                            copy: (lineage.copy, lineage.copies),
                            base: None,
                            may_go_on: false,
                        };
                        let Written { commit, sent, unsynced, adding, .. } = ledger.write_checkpoint(&waits, &run)?;
                        let sent = watchdog.outbox(&adding, id, plan, sent);
                        let printed = encode_printed(&invocation.printed());
                        (commit, Left { printed, sent, unsynced, ..Left::default() }, Some(adding))
                    }
                    Far::Ended(end, sent) => {
                        let (commit, left, adding) = watchdog.keep_end(&claim.held, &target.ready, &end, sent)?;
                        let printed = encode_end(&invocation.printed());
                        (commit, Left { printed, callback: start.callback.clone(), ..left }, adding)
                    }
                };
                let moved = ledger.commit_moved(&claim.held, &start.encode()?, &commit, &left);
                let moved = moved.map_err(meta_kept)?;
                drop((adding, own));
                if moved.status.is_end() || left.sent.has_children() {
                    watchdog.settle(id);
                }
                Ok(moved.status.into())
            })
        };
        let kept = spawn_blocking(keep).await.map_err(|error| ApiError::monohull(error.to_string())).flatten();
        kept.map_err(|refusal| refusal.error.message.clone())
    }

    /// Lets an invocation go on in its own version: its status. As long as the disk does not take that, nothing else can be done with it.
    async fn give_back(self: &Arc<Self>, claim: &Arc<Claim>, before: Before) -> Status {
        loop {
            let (watchdog, claim, before) = (self.clone(), claim.clone(), before.clone());
            let given = spawn_blocking(move || {
                let given = watchdog.ledger.meta().give_back(&claim.held, &before, now())?;
                watchdog.ledger.changed(&claim.held.id);
                if given.is_end() {
                    watchdog.settle(&claim.held.id);
                }
                Ok(given)
            });
            match given.await {
                Ok(Ok(status)) => return status.into(),
                Ok(Err(MetaError::Stale(_))) | Err(_) => return Status::Suspended,
                Ok(Err(error)) => {
                    tracing::error!(%error, "an invocation that was not moved cannot go on: tried again");
                    if self.is_ending() {
                        // The next server lets it go on.
                        return Status::Suspended;
                    }
                    sleep(TROUBLE_PAUSE).await;
                }
            }
        }
    }
}

impl Ledger {
    /// Claims an invocation and reads what it begins with in the new version. One that has not begun is moved at once.
    fn begin_to_move(
        &self,
        target: &Target,
        id: &InvocationId,
        is_trial: bool,
    ) -> Result<Result<Box<Claimed>, Moved>, ApiError> {
        let no = |reason: &str| Ok(Err(Moved::No(reason.to_owned())));
        let row = match self.meta().get(id) {
            // The others can be moved.
            Err(error @ MetaError::Damaged { .. }) => return no(&error.to_string()),
            row => row.map_err(meta_kept)?,
        };
        // The id may be that of another invocation by now.
        if row.as_ref().is_some_and(|row| row.workflow != target.ready.plan().name) {
            return no("it was removed");
        }
        let is_there = |row: Row| Start::decode(&row.start).is_some_and(|start| Version::of(&start) == target.version);
        if row.is_some_and(is_there) {
            return Ok(Err(Moved::Already));
        }
        let (claim, before) = match self.claim_to_move(id).map_err(meta_kept)? {
            Moving::Claimed(claim, before) if claim.workflow != target.ready.plan().name => {
                let beginning = Err("it was removed".to_owned());
                return Ok(Ok(Box::new(Claimed { claim: *claim, before, beginning })));
            }
            Moving::Claimed(claim, before) => (*claim, before),
            Moving::NotBegun(row) => return self.move_pending(target, &row, is_trial).map(Err),
            Moving::Refused(status) => return no(&format!("it is {}", status.name())),
            Moving::Unknown => return no("it was removed"),
        };
        let beginning = self.beginning(target, &claim);
        Ok(Ok(Box::new(Claimed { claim, before, beginning })))
    }

    fn beginning(&self, target: &Target, claim: &Claim) -> Result<Beginning, String> {
        let start = Start::decode(&claim.start).ok_or("what it was started with cannot be read")?;
        let start = adapted(target, start, claim.published.clone())?;
        let open = |(slot, hash): &(String, [u8; 32])| {
            let file =
                self.store().open_whole_data(hash).map_err(|error| format!("an input cannot be read: {error}"))?;
            Ok((slot.clone(), Data::File(file.into())))
        };
        let inputs = start.inputs.iter().map(open).collect::<Result<_, String>>()?;
        let mail = self.meta().given(&claim.held).map_err(|error| error.to_string())?;
        let events = mail.into_iter().map(|Mail { number, name, bytes }| Event { number, name, bytes });
        Ok(Beginning { start, inputs, events: events.collect() })
    }

    fn move_pending(&self, target: &Target, row: &Row, is_trial: bool) -> Result<Moved, ApiError> {
        let Some(start) = Start::decode(&row.start) else {
            return Ok(Moved::No("what it was started with cannot be read".to_owned()));
        };
        // What may have run already, and is not to be run again, is not run again in another version either.
        let may_have_begun = may_have_begun(row.attempts + 1, row.epoch + 1, start.unbegun);
        if may_have_begun && !may_begin_again(target.ready.plan()) {
            return Ok(Moved::No("it may have begun, and the new version is run once at most".to_owned()));
        }
        let may_again = start.again;
        let start = match adapted(target, start, BTreeMap::new()) {
            Ok(_) if is_trial => return Ok(Moved::Could),
            Ok(start) => start,
            Err(reason) => return Ok(Moved::No(reason)),
        };
        let adding = self.adding()?;
        let start = self.start_in(&adding, target, start)?;
        let start = Start { again: start.again && (may_again || !may_have_begun), ..start };
        let is_done = self.meta().replace_start(row, &start.encode()?, now()).map_err(meta_kept)?;
        drop(adding);
        self.changed(&row.id);
        Ok(if is_done { Moved::Yes } else { Moved::No("it has begun meanwhile".to_owned()) })
    }

    /// A start with the code of the new version, whose files are added.
    fn start_in(&self, adding: &Adding, target: &Target, start: Start) -> Result<Start, ApiError> {
        let Start { head, inputs, callback, handed_over, unbegun, .. } = start;
        let start = self.add_start(adding, head, &target.document, &target.ready, &[], callback)?;
        Ok(Start { inputs, handed_over, unbegun, ..start })
    }
}

/// What an invocation begins with in the new version: of its inputs those that this has. Its code is still that of the version before.
fn adapted(target: &Target, start: Start, handed_over: BTreeMap<String, String>) -> Result<Start, String> {
    let plan = target.ready.plan();
    let mut inputs = start.inputs;
    inputs.retain(|(slot, _)| plan.inputs.iter().any(|input| input.slot == *slot));
    if let Some(missing) = plan.inputs.iter().find(|input| !inputs.iter().any(|(slot, _)| *slot == input.slot)) {
        return Err(format!("its input {} was not kept, or it has none", quoted(&missing.slot)));
    }
    let typed = plan.outputs.iter().filter_map(|output| Some((output.slot.clone(), output.content_type.clone()?)));
    let head = Head { content_types: typed.collect(), ..start.head };
    Ok(Start { head, inputs, handed_over, ..start })
}
