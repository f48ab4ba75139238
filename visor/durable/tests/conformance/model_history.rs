//! What the transactions on histories mean, in memory.

use super::model::{Model, arrive};
use monohull_durable::{
    Branched, Checkpoint, Copied, ENTRIES_KEPT, Entry, Fork, Forks, Happened, History, Invocation, InvocationId,
    KEEP_MAX, Kept, Lineage, MetaError, Status,
};
use std::collections::BTreeSet;

impl Model {
    pub(crate) fn of(&self, id: &InvocationId) -> Lineage {
        self.lineage.get(id).cloned().unwrap_or_default()
    }

    /// Whether an invocation is a copy of another one, and not of one that had its name and was removed.
    pub(crate) fn is_copy(&self, copy: &InvocationId, of: &InvocationId) -> bool {
        let Lineage { parent, parent_started, .. } = self.of(copy);
        let started = self.rows.get(of).map(|row| row.started);
        parent.is_some_and(|(parent, _)| parent == *of) && parent_started == started
    }

    /// The checkpoints of an invocation with their numbers, the oldest first.
    fn kept(&self, id: &InvocationId) -> Vec<Kept> {
        self.history.iter().filter(|((of, _), _)| of == id).map(|(_, kept)| kept.clone()).collect()
    }

    /// Removes all checkpoints; those whose files nothing names any more.
    pub(crate) fn forget_history(&mut self, id: &InvocationId) -> Vec<Checkpoint> {
        self.keep_newest(id, 0)
    }

    /// The newest checkpoint.
    pub(crate) fn newest_checkpoint(&self, row: &Invocation) -> Option<Kept> {
        self.history.get(&(row.id.clone(), row.generation)).cloned()
    }

    /// Removes all but the newest `keep` checkpoints, and as many that have a label; those whose files nothing names any more.
    fn keep_newest(&mut self, id: &InvocationId, keep: usize) -> Vec<Checkpoint> {
        let newest = |of: Vec<Kept>| of.into_iter().rev().take(keep).map(|kept| kept.generation).collect::<Vec<_>>();
        let mut stay = newest(self.kept(id));
        stay.extend(newest(self.kept(id).into_iter().filter(|kept| kept.label.is_some()).collect()));
        let gone: Vec<_> = self.kept(id).into_iter().filter(|kept| !stay.contains(&kept.generation)).collect();
        for old in &gone {
            self.history.remove(&(id.clone(), old.generation));
            self.told.remove(&(id.clone(), old.generation));
        }
        if gone.is_empty() {
            return Vec::new();
        }
        let mut files: Vec<_> = gone.iter().map(|old| old.checkpoint.clone()).collect();
        files.extend(self.parents.values().cloned());
        let needed = self.needed();
        files.retain(|gone| !needed.contains(&gone.file));
        self.parents.retain(|file, _| needed.contains(file));
        files.sort_by(|one, other| one.file.cmp(&other.file));
        files.dedup_by(|one, other| one.file == other.file);
        files
    }

    /// What histories name, and what that takes pages from.
    pub(crate) fn needed(&self) -> BTreeSet<String> {
        let mut needed: BTreeSet<_> = self.history.values().map(|kept| kept.checkpoint.file.clone()).collect();
        let mut look_at: Vec<_> = needed.iter().cloned().collect();
        while let Some(file) = look_at.pop() {
            if let Some(parent) = self.parents.get(&file) {
                needed.insert(parent.file.clone());
                look_at.push(parent.file.clone());
            }
        }
        needed
    }

    pub(crate) fn suspended(&mut self, row: &Invocation, told: Option<String>) -> Vec<Checkpoint> {
        let kept = Kept {
            generation: row.generation,
            rewound_to: None,
            at: row.changed,
            moved: 0,
            checkpoint: row.checkpoint.clone().expect("it is suspended"),
            due: row.due,
            waits: row.waits.clone(),
            published: row.published.clone(),
            label: None,
        };
        let place = (row.id.clone(), row.generation);
        self.history.insert(place.clone(), kept);
        told.into_iter().for_each(|told| _ = self.told.insert(place.clone(), told));
        self.keep_newest(&row.id, self.of(&row.id).keep as usize)
    }

    /// Makes copies of an invocation that go on from a checkpoint.
    pub(crate) fn copy(
        &mut self,
        row: &Invocation,
        kept: &Kept,
        ids: &[InvocationId],
        paused: bool,
        now: u64,
    ) -> Vec<Copied> {
        let mut made = Vec::new();
        for (index, id) in ids.iter().enumerate() {
            let lineage = Lineage {
                parent: Some((row.id.clone(), kept.generation)),
                parent_started: Some(row.started),
                copy: index as u32 + 1,
                copies: ids.len() as u32,
                keep: self.of(&row.id).keep,
            };
            if self.rows.contains_key(id) {
                let there = self.of(id);
                let same = Lineage { keep: lineage.keep, ..there } == lineage;
                made.push(if same { Copied::Same } else { Copied::Taken });
                continue;
            }
            let new = Invocation {
                id: id.clone(),
                workflow: row.workflow.clone(),
                status: if paused { Status::Paused } else { Status::Suspended },
                started: now,
                changed: now,
                due: kept.due,
                epoch: self.gone.get(id).copied().unwrap_or(0),
                attempts: 0,
                generation: kept.generation,
                owner: None,
                checkpoint: Some(kept.checkpoint.clone()),
                waits: kept.waits.clone(),
                reason: paused.then(|| "by hand".to_owned()),
                wanted: None,
                start: row.start.clone(),
                report: None,
                published: kept.published.clone(),
                began: None,
                woken: None,
                entries: 0,
            };
            self.rows.insert(id.clone(), new);
            let of = format!("of {}, generation {}", row.id, kept.generation);
            self.note(id, None, Happened::Copied, &of, [now, kept.generation]);
            self.lineage.insert(id.clone(), lineage);
            self.history.insert((id.clone(), kept.generation), Kept { rewound_to: None, ..kept.clone() });
            self.copied(&row.id, id, kept.generation, now);
            made.push(Copied::New);
        }
        made
    }

    /// Notes that copies were made of an invocation.
    pub(crate) fn note_copies(&mut self, id: &InvocationId, generation: u64, new: &[&InvocationId], now: u64) {
        let about = match new {
            [] => return,
            [only] => only.to_string(),
            [first, more @ ..] => format!("{first}, and {} more", more.len()),
        };
        self.note(id, None, Happened::Forked, &about, [now, generation]);
    }

    fn branch(&self, id: &InvocationId, at: Option<u64>) -> Branched<(Invocation, Kept)> {
        let Some(row) = self.rows.get(id) else { return Branched::Unknown };
        if !matches!(row.status, Status::Suspended | Status::Paused | Status::Failed) {
            return Branched::Refused(row.status);
        }
        let kept = self.kept(id);
        let at = at.unwrap_or(row.generation);
        match kept.iter().find(|kept| kept.generation == at) {
            Some(found) => Branched::Done((row.clone(), found.clone())),
            None => Branched::NoCheckpoint(kept.iter().map(|kept| kept.generation).collect()),
        }
    }
}

/// With the time that was left when it was committed.
fn from_now(kept: &Kept, now: u64) -> Kept {
    let mut kept = kept.clone();
    let by = now as i64 - kept.at as i64;
    let later = |at: u64| at.saturating_add_signed(by);
    (kept.at, kept.moved) = (now, kept.moved + by);
    kept.due = kept.due.map(later);
    kept.waits.iter_mut().for_each(|wait| wait.until = wait.until.map(later));
    kept
}

fn otherwise<T>(found: Branched<(Invocation, Kept)>) -> Result<(Invocation, Kept), Branched<T>> {
    match found {
        Branched::Done(found) => Ok(found),
        Branched::Unknown => Err(Branched::Unknown),
        Branched::Refused(status) => Err(Branched::Refused(status)),
        Branched::NoCheckpoint(has) => Err(Branched::NoCheckpoint(has)),
    }
}

impl History for Model {
    fn keep(&mut self, id: &InvocationId, checkpoints: u32) -> Result<(), MetaError> {
        if self.rows.contains_key(id) {
            let lineage = Lineage { keep: checkpoints.clamp(1, KEEP_MAX), ..self.of(id) };
            self.lineage.insert(id.clone(), lineage);
        }
        Ok(())
    }

    fn lineage(&self, id: &InvocationId) -> Result<Lineage, MetaError> {
        Ok(self.of(id))
    }

    fn forks(&self, id: &InvocationId, most: usize) -> Result<Forks, MetaError> {
        let all = || self.lineage.keys().filter(|copy| self.is_copy(copy, id)).cloned();
        Ok(Forks { first: all().take(most).collect(), count: all().count() as u64 })
    }

    fn history(&self, id: &InvocationId) -> Result<Vec<Kept>, MetaError> {
        Ok(self.kept(id))
    }

    fn timeline(&self, id: &InvocationId, before: u64, most: usize) -> Result<Vec<Entry>, MetaError> {
        let all = self.timelines.get(id).map(Vec::as_slice).unwrap_or_default();
        let kept = &all[all.len().saturating_sub(ENTRIES_KEPT as usize)..];
        let asked: Vec<_> = kept.iter().filter(|entry| entry.number < before).cloned().collect();
        Ok(asked[asked.len().saturating_sub(most)..].to_vec())
    }

    fn fork(&mut self, fork: Fork<'_>, now: u64) -> Result<Branched<Vec<Copied>>, MetaError> {
        let (row, kept) = match otherwise(self.branch(fork.id, fork.at)) {
            Ok(found) => found,
            Err(other) => return Ok(other),
        };
        // It waits in this one: its timers go on.
        let goes_on = row.status != Status::Failed && row.generation == kept.generation;
        let kept = if goes_on { kept } else { from_now(&kept, now) };
        self.make_room_for_copies(&row.id, kept.generation, fork.copies, &[]);
        let made = self.copy(&row, &kept, fork.copies, fork.paused, now);
        let new = fork.copies.iter().zip(&made).filter(|(_, came)| **came == Copied::New);
        let new: Vec<_> = new.map(|(id, _)| id).collect();
        for id in &new {
            self.tell_again(id, &row.id, &kept.waits, now);
        }
        self.note_copies(&row.id, kept.generation, &new, now);
        Ok(Branched::Done(made))
    }

    fn rewind(&mut self, id: &InvocationId, to: u64, paused: bool, now: u64) -> Result<Branched<u64>, MetaError> {
        let (row, kept) = match otherwise(self.branch(id, Some(to))) {
            Ok(found) => found,
            Err(other) => return Ok(other),
        };
        let generation = row.generation + 1;
        let kept = Kept { generation, rewound_to: Some(to), ..from_now(&kept, now) };
        let waits = kept.waits.clone();
        let mut row = Invocation {
            status: if paused { Status::Paused } else { Status::Suspended },
            reason: paused.then(|| "by hand".to_owned()),
            changed: now,
            attempts: 0,
            generation,
            due: kept.due,
            waits: kept.waits.clone(),
            checkpoint: Some(kept.checkpoint.clone()),
            report: None,
            published: kept.published.clone(),
            began: None,
            woken: None,
            ..row
        };
        self.forget_to_end(id);
        arrive(&self.mail, &mut row, now);
        self.rows.insert(id.clone(), row);
        self.note(id, None, Happened::Rewound, &format!("to generation {to}"), [now, generation]);
        self.history.insert((id.clone(), generation), kept);
        self.keep_newest(id, self.of(id).keep as usize);
        self.rewound(id, to, generation, now);
        self.tell_again(id, id, &waits, now);
        Ok(Branched::Done(generation))
    }

    fn files(&self) -> Result<Vec<String>, MetaError> {
        Ok(self.needed().into_iter().collect())
    }
}
