//! What a durable invocation is started with, and what it goes on from.

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use monohull_domain::checkpoint::Lineage;
use monohull_domain::image::map::LoadedImage;
use monohull_durable::{Adding, Claim, History as _, Mail, MetaError};
use monohull_engine::{Event, Ready};
use monohull_saved::{Base, Engine, Saved};
use monohull_worker::{Data, Rest};
use monohull_workflow::Plan;
use sha2::{Digest, Sha256};

use super::read_once::InMemory;
use crate::http::error::ApiError;
use crate::invocations::ledger::Ledger;
use crate::invocations::record::Head;
use crate::invocations::stored::Start;
use crate::registry::documents::plan_once_registered;
use crate::service::Watchdog;

/// What a claim goes on from.
pub(crate) struct Basis {
    pub(crate) start: Start,
    pub(crate) document: Bytes,
    pub(crate) ready: Arc<Ready>,
    pub(crate) inputs: Vec<(String, Data)>,
    /// Where it goes on; if other copies may go on there as well, also what has been read for all of them.
    pub(crate) continuation: Option<(Rest, Option<InMemory>)>,
    /// The file that it goes on from, if the next one may take pages from that.
    pub(crate) base: Option<Base>,
    pub(crate) events: Vec<Event>,
    pub(crate) copy: (u32, u32),
}

/// Why there is nothing to go on from.
pub(crate) enum NoBasis {
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

impl Watchdog {
    /// Reads what is kept of an invocation.
    pub(crate) fn basis(&self, claim: &Claim) -> Result<Basis, NoBasis> {
        let ledger = &self.ledger;
        let host = |error: &dyn std::fmt::Display| NoBasis::Host(error.to_string());
        let start = Start::decode(&claim.start)
            .ok_or("what it was started with cannot be read by this version of Monohull".to_owned())
            .map_err(NoBasis::Pause)?;
        if claim.checkpoint.is_none() && may_have_begun(claim.attempt, claim.held.epoch, start.unbegun) && !start.again
        {
            return Err(NoBasis::Interrupted(Box::new(start)));
        }
        let (mail, lineage, kept) = {
            let meta = ledger.reader();
            let mail = match meta.given(&claim.held) {
                Err(error @ MetaError::Damaged { .. }) => return Err(NoBasis::Pause(error.to_string())),
                mail => mail.map_err(|error| host(&error))?,
            };
            let lineage = meta.lineage(&claim.held.id).map_err(|error| host(&error))?;
            (mail, lineage, meta.kept(&claim.held.id, claim.generation).map_err(|error| host(&error))?)
        };
        let missing = |what: &str, error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => NoBasis::Pause(format!("{what} is missing")),
            io::ErrorKind::InvalidData => NoBasis::Pause(format!("{what} cannot be used: {error}")),
            _ => NoBasis::Host(format!("{what} cannot be read: {error}")),
        };
        let document = ledger.read(&start.document).map_err(|error| missing("its workflow document", error))?;
        let unreadable = OnceCell::new();
        let load = |name: &str, hash: &[u8; 32]| {
            let loaded = LoadedImage::open(name, &ledger.store().file(hash));
            let cannot_read = match &loaded {
                Ok(image) => image.hash().err().map(|error| error.to_string()),
                Err(error) => error.is_hosts().then(|| error.to_string()),
            };
            if let Some(why) = cannot_read {
                let _ = unreadable.set(why);
            }
            loaded
        };
        let plan = Arc::new(plan_once_registered(start.head.workflow(), &document).map_err(NoBasis::Pause)?);
        let ready = self.registry.prepare_again(start.head.workflow(), &plan, &start.functions, load);
        let ready = Arc::new(ready.map_err(|why| unreadable.into_inner().map_or(NoBasis::Pause(why), NoBasis::Host))?);
        let input = |(slot, hash): &(String, [u8; 32])| {
            let file = ledger.store().open_whole_data(hash).map_err(|error| missing("an input", error))?;
            Ok((slot.clone(), Data::File(file.into())))
        };
        let is_needed = claim.checkpoint.is_none() || needs_inputs_later(ready.plan());
        let inputs = start.inputs.iter().filter(|_| is_needed).map(input).collect::<Result<_, NoBasis>>()?;
        let copy = (lineage.copy, lineage.copies);
        let lineage = Lineage { generation: claim.generation, copy: copy.0, copies: copy.1 };
        let mut base = None;
        let continuation = match &claim.checkpoint {
            None => None,
            Some(checkpoint) => {
                let path = ledger.checkpoint(&checkpoint.file).map_err(|error| host(&error))?;
                let plan = |of_checkpoint: &[u8], _: &Engine| match *of_checkpoint == document {
                    true => Ok((*plan).clone()),
                    false => plan_once_registered(start.head.workflow(), of_checkpoint),
                };
                // Copies read it once, and as a whole.
                let read = match lineage.copies {
                    0 => Saved::read_for_one(&path, ledger.keys(), plan)
                        .map(|(saved, later, base)| (Arc::new(saved), later, base)),
                    _ => self
                        .read_once
                        .get(&path, || Saved::read(&path, ledger.keys(), plan))
                        .map(|all| (all, None, None)),
                };
                let (saved, later, of_file) = read.map_err(|error| match error.is_hosts() {
                    true => host(&error),
                    false => NoBasis::Pause(error.to_string()),
                })?;
                let functions = functions_of(&ready).map_err(|refusal| NoBasis::Host(refusal.error.message))?;
                if !saved.functions.iter().map(|(_, hash, _)| *hash).eq(functions.iter().map(|(_, hash)| *hash)) {
                    return Err(NoBasis::Pause("its checkpoint is one of other images".to_owned()));
                }
                let moved = kept.map_or(0, |kept| kept.moved);
                let memory = saved.continuation.try_clone().map_err(|error| host(&error))?;
                let may_take = |base: &Base| !ledger.reader().is_unsynced(base.file()).unwrap_or(true);
                base = of_file.filter(may_take);
                let rest = Rest { memory, later, may_leave: base.is_some(), lineage: Some(lineage), moved };
                Some((rest, (lineage.copies > 0).then_some(saved)))
            }
        };
        let events = mail.into_iter().map(|Mail { number, name, bytes }| Event { number, name, bytes }).collect();
        Ok(Basis { start, document: document.into(), ready, inputs, continuation, base, events, copy })
    }
}

/// Whether an earlier attempt may have run a part of an invocation. Attempts are counted anew after a resume, epochs are not.
pub(crate) fn may_have_begun(attempt: u32, epoch: u64, unbegun: u64) -> bool {
    attempt > 1 && epoch != unbegun + 1
}

/// What an invocation is started with after an attempt of which nothing was run: the next one is as the first, also in a version of the workflow that runs
/// once at most. `None` if an earlier one may have begun.
pub(crate) fn unbegun(claim: &Claim) -> Option<Vec<u8>> {
    let start = Start::decode(&claim.start).filter(|_| claim.checkpoint.is_none())?;
    if may_have_begun(claim.attempt, claim.held.epoch, start.unbegun) {
        return None;
    }
    Start { unbegun: claim.held.epoch, ..start }.encode().ok()
}

/// What a call is started with that is not run again without a checkpoint: none of its files is added before there is one.
pub(crate) fn start_without_files(
    head: Head,
    document: &[u8],
    workflow: &Ready,
    callback: Option<String>,
) -> Result<Start, ApiError> {
    Ok(Start {
        head,
        document: Sha256::digest(document).into(),
        inputs: Vec::new(),
        functions: functions_of(workflow)?,
        callback,
        again: false,
        handed_over: Default::default(),
        unbegun: 0,
    })
}

/// The functions of a workflow, and the hash of each one's image.
pub(crate) fn functions_of(workflow: &Ready) -> Result<Vec<(String, [u8; 32])>, ApiError> {
    let functions = workflow.plan().functions.iter().zip(workflow.images());
    let functions = functions.map(|(function, image)| Ok((function.name.clone(), image.hash()?)));
    functions.collect::<io::Result<_>>().map_err(|error| ApiError::host(error.to_string()))
}

impl Ledger {
    /// Adds the files of a start.
    pub(crate) fn add_start(
        &self,
        adding: &Adding,
        head: Head,
        document: &[u8],
        workflow: &Ready,
        inputs: &[(String, Data)],
        callback: Option<String>,
    ) -> Result<Start, ApiError> {
        for image in workflow.distinct_images() {
            self.add_image(adding, image)?;
        }
        Ok(Start {
            head,
            document: self.add_bytes(adding, document)?,
            inputs: inputs
                .iter()
                .map(|(slot, data)| Ok((slot.clone(), self.add_data(adding, data)?)))
                .collect::<Result<_, ApiError>>()?,
            functions: functions_of(workflow)?,
            callback,
            again: may_begin_again(workflow.plan()),
            handed_over: Default::default(),
            unbegun: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::may_have_begun;

    #[test]
    fn an_attempt_is_as_the_first_only_if_nothing_was_run_before_it() {
        assert!(!may_have_begun(1, 1, 0));
        assert!(may_have_begun(2, 2, 0), "its server ended");
        assert!(!may_have_begun(2, 2, 1), "the host failed");
        assert!(may_have_begun(3, 3, 1), "the second one began");
        // Five failed, it was paused and resumed: attempts are counted from 1.
        assert!(!may_have_begun(1, 6, 5));
        assert!(may_have_begun(2, 7, 5), "the first one after that began");
        assert!(!may_have_begun(2, 7, 6));
    }
}
