//! The requests of a domain's instances that handlers have not answered, or whose replies have not been taken.
//!
//! ```text
//!   PERFORM ─▶ open ── the driver has a handler run ──▶ answered ── the asker takes the reply ──▶ forgotten
//!                └────────────── the asker has ended ──────┴──▶ forgotten
//! ```
//!
//! No call says that a reply has been taken: it is looked up when the asker asks again. So there are bounds on how much of it
//! waits, without a word between the module that has the buffers and this table.

use crate::checkpoint::record::RequestsRecord;
use monohull_abi::effect::{EffectPart, EffectSlot, PERFORMS_MAX, PERFORMS_TOGETHER, PerformId};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// The request that an instance was started for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handled {
    /// Which.
    pub id: PerformId,
    /// How many handlers there are above one another, with this one.
    pub depth: u32,
}

/// A request that is to be handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Performed {
    /// Which.
    pub id: PerformId,
    /// The place of the effect in [`Options::effects`](crate::Options::effects).
    pub effect: usize,
    /// How many handlers there are above one another, with the one that it gets.
    pub depth: u32,
}

/// Which bound a request is beyond.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beyond {
    /// That of an instance.
    OfInstance,
    /// That of the workflow.
    OfWorkflow,
}

/// All requests.
#[derive(Default)]
pub(crate) struct Effects(Mutex<Requests>);

#[derive(Default)]
struct Requests {
    /// Whether each has been answered.
    answered: BTreeMap<PerformId, bool>,
    /// The number of the last one.
    last: u32,
}

impl Effects {
    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().expect("effects")
    }

    /// Enters a new request. `waits` says whether the reply to one that has been answered has not been taken.
    pub(crate) fn open(&self, asker: u32, waits: impl Fn(PerformId) -> bool) -> Result<PerformId, Beyond> {
        let mut requests = self.lock();
        let of_asker = requests.of(asker);
        for id in &of_asker {
            if requests.answered[id] && !waits(*id) {
                requests.answered.remove(id);
            }
        }
        if requests.of(asker).len() >= PERFORMS_MAX {
            return Err(Beyond::OfInstance);
        }
        if requests.answered.len() >= PERFORMS_TOGETHER {
            return Err(Beyond::OfWorkflow);
        }
        loop {
            requests.last = requests.last.wrapping_add(1);
            let id = PerformId { asker, number: requests.last };
            if id.number != 0 && !requests.answered.contains_key(&id) {
                requests.answered.insert(id, false);
                return Ok(id);
            }
        }
    }

    /// What a checkpoint has of the requests of these instances. Those that have not been answered are their handlers'.
    pub(crate) fn record(&self, is_live: impl Fn(u32) -> bool) -> RequestsRecord {
        let requests = self.lock();
        let answered = requests.answered.iter().filter(|(id, answered)| **answered && is_live(id.asker));
        let answered = answered.map(|(id, _)| (id.asker, id.number)).collect();
        RequestsRecord { last: requests.last, answered }
    }

    /// Goes on from there: numbers are not used again while a reply to one waits.
    pub(crate) fn restore(&self, record: RequestsRecord) {
        let mut requests = self.lock();
        requests.last = record.last;
        let answered = record.answered.into_iter();
        requests.answered.extend(answered.map(|(asker, number)| (PerformId { asker, number }, true)));
    }

    /// A request that was captured before it was answered.
    pub(crate) fn reopen(&self, id: PerformId) {
        let mut requests = self.lock();
        requests.last = requests.last.max(id.number);
        requests.answered.insert(id, false);
    }

    /// There is a reply. False if nothing waits for one.
    pub(crate) fn answer(&self, id: PerformId) -> bool {
        self.lock().answered.get_mut(&id).map(|answered| *answered = true).is_some()
    }

    /// There never was one.
    pub(crate) fn forget(&self, id: PerformId) {
        self.lock().answered.remove(&id);
    }

    /// Its instance has ended.
    pub(crate) fn forget_all_of(&self, asker: u32) {
        self.lock().answered.retain(|id, _| id.asker != asker);
    }
}

/// The name of a slot of a request.
pub(crate) fn slot(part: EffectPart, id: PerformId) -> String {
    EffectSlot { part, id }.to_string()
}

impl Requests {
    fn of(&self, asker: u32) -> Vec<PerformId> {
        let (first, last) = (PerformId { asker, number: 0 }, PerformId { asker, number: u32::MAX });
        self.answered.range(first..=last).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_has_as_many_requests_as_it_may_and_no_more() {
        let effects = Effects::default();
        let untaken = |_| true;
        let ids: Vec<_> = (0..PERFORMS_MAX).map(|_| effects.open(7, untaken).expect("there is room")).collect();
        assert_eq!(effects.open(7, untaken), Err(Beyond::OfInstance));
        assert!(effects.answer(ids[3]) && effects.answer(ids[4]));
        assert_eq!(effects.open(7, untaken), Err(Beyond::OfInstance), "no reply has been taken");
        let fresh = effects.open(7, |id| id != ids[3]).expect("one has been taken");
        assert!(!ids.contains(&fresh));
        assert_eq!(effects.open(7, untaken), Err(Beyond::OfInstance));
        // What has not been answered counts, whatever there is in the slots.
        assert_eq!(effects.open(7, |_| false).map(drop), Ok(()));
        assert_eq!(effects.open(7, |_| false), Err(Beyond::OfInstance));
        effects.forget(fresh);
        assert!(!effects.answer(fresh) && effects.open(7, untaken).is_ok());
    }

    #[test]
    fn the_workflow_has_a_bound_of_its_own_and_the_end_of_an_instance_makes_room() {
        let effects = Effects::default();
        let askers = (PERFORMS_TOGETHER / PERFORMS_MAX) as u32;
        for asker in 1..=askers {
            (0..PERFORMS_MAX).for_each(|_| assert!(effects.open(asker, |_| true).is_ok()));
        }
        assert_eq!(effects.open(askers + 1, |_| true), Err(Beyond::OfWorkflow));
        effects.forget_all_of(2);
        assert!(effects.open(askers + 1, |_| true).is_ok());
        let known = PerformId { asker: 2, number: 1000 };
        effects.reopen(known);
        let next = effects.open(2, |_| true).expect("there is room");
        assert!(effects.answer(known) && next.number > known.number);
    }
    /// A reply that has not been taken keeps its place and its number in another process, and a number that was used does not come back.
    #[test]
    fn requests_go_on_where_they_were() {
        let effects = Effects::default();
        let ids: Vec<_> = (0..3).map(|_| effects.open(7, |_| true).expect("there is room")).collect();
        assert!(effects.answer(ids[0]) && effects.answer(ids[1]) && effects.open(9, |_| true).is_ok());
        effects.forget(ids[2]);
        let record = effects.record(|asker| asker == 7);
        assert_eq!(record, RequestsRecord { last: 4, answered: vec![(7, 1), (7, 2)] });
        let other = Effects::default();
        other.restore(record.clone());
        assert_eq!(other.record(|_| true), record);
        let next = other.open(7, |id| id == ids[0]).expect("there is room");
        assert_eq!(next.number, 5, "the numbers go on");
        assert_eq!(other.record(|_| true).answered, [(7, 1)], "the other reply has been taken");
        for _ in 2..PERFORMS_MAX {
            assert!(other.open(7, |_| true).is_ok());
        }
        assert_eq!(other.open(7, |_| true), Err(Beyond::OfInstance), "the reply that waits counts");
    }
}
