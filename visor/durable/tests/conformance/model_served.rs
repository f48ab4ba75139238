//! What the transactions of a server mean, in memory: those with results, on schedules and on versions.

use super::model::{Model, More, claim_of};
use monohull_durable::{
    Before, Bounds, Claim, Claimed, Commit, Committed, Controlled, DamagedSchedule, Defined, Definition, Filter, Fired,
    Happened, Held, Invocation, InvocationId, Left, Listed, Look, Mail, Member, Meta, MetaError, Moving, NewInvocation,
    Outbox, Output, OutputAt, Schedule, ScheduleName, Schedules, Served, Started, Status, Step, Tally, Undelivered,
    Versions, Want, Woken,
};
use monohull_report::What;
use std::collections::BTreeMap;

impl Model {
    /// The hashes of files that are outputs.
    pub(crate) fn hashes(&self) -> Vec<[u8; 32]> {
        let hashes = self.outputs.values().filter_map(|output| match output.at {
            OutputAt::File(hash) => Some(hash),
            OutputAt::Row(_) => None,
        });
        let mut hashes: Vec<_> = hashes.collect();
        hashes.sort();
        hashes.dedup();
        hashes
    }

    fn leave(&mut self, id: &InvocationId, left: &Left, has_ended: bool) {
        for output in &left.outputs {
            self.outputs.insert((id.clone(), output.slot.clone()), output.clone());
        }
        if let Some(url) = left.callback.as_ref().filter(|_| has_ended) {
            self.owed.insert(id.clone(), url.clone());
        }
        if !left.printed.is_empty() {
            self.printed.push((id.clone(), left.printed.clone()));
        }
    }

    /// Keeps what a commit leaves, and sends what it sends.
    fn leave_and_send(
        &mut self,
        id: &InvocationId,
        left: &Left,
        committed: &mut Committed,
        now: u64,
    ) -> Result<(), MetaError> {
        self.leave(id, left, committed.status.is_end());
        committed.undelivered = self.send_outbox(id, &left.sent, now)?;
        self.lose(id, &committed.undelivered.clone(), now);
        Ok(())
    }

    fn commit_left(
        &mut self,
        held: &Held,
        commit: &Commit,
        left: &Left,
        claimer: Option<&str>,
        now: u64,
    ) -> Result<(Committed, Option<Claim>), MetaError> {
        self.held(held)?;
        if let Commit::Ended { well, .. } = commit {
            self.prepare(&held.id, *well, &left.outcome);
        }
        if let Some(start) = &left.start {
            self.rows.get_mut(&held.id).expect("it is held").start.clone_from(start);
        }
        let asked = left.sent.events.iter().filter(|event| matches!(event.what, What::Checkpoint | What::Fork { .. }));
        let told = match asked.collect::<Vec<_>>()[..] {
            [only] if only.what == What::Checkpoint && claimer.is_some() => Some(only.to.as_str()),
            _ => None,
        };
        let (mut committed, claim) = self.commit_more(held, commit, More { told, claimer, is_move: false }, now)?;
        self.leave_and_send(&held.id, left, &mut committed, now)?;
        Ok((committed, claim))
    }
}

impl Served for Model {
    fn start_suspended(
        &mut self,
        new: &NewInvocation<'_>,
        commit: &Commit,
        left: &Left,
        [started, now]: [u64; 2],
    ) -> Result<Started, MetaError> {
        if let Some(there) = self.there(new) {
            return Ok(there);
        }
        self.insert(new, started);
        let row = self.rows.get_mut(new.id).expect("it is new");
        (row.status, row.epoch) = (Status::Running, row.epoch + 1);
        (row.began, row.woken) = (Some(started), Some(Woken::Start));
        let held = Held { id: new.id.clone(), epoch: row.epoch };
        self.commit_more(&held, commit, More::default(), now)?;
        self.leave(new.id, left, false);
        let lost = self.send_outbox(new.id, &left.sent, now)?;
        self.lose(new.id, &lost, now);
        Ok(Started::New)
    }

    fn start_running(
        &mut self,
        new: &NewInvocation<'_>,
        owner: &str,
        [started, now]: [u64; 2],
    ) -> Result<Option<Held>, MetaError> {
        if self.rows.contains_key(new.id) {
            return Ok(None);
        }
        self.insert(new, started);
        let row = self.rows.get_mut(new.id).expect("it is new");
        (row.status, row.epoch, row.attempts) = (Status::Running, row.epoch + 1, 1);
        (row.owner, row.changed) = (Some(owner.to_owned()), now);
        (row.began, row.woken) = (Some(now), Some(Woken::Start));
        Ok(Some(Held { id: new.id.clone(), epoch: row.epoch }))
    }

    fn claim_due(
        &mut self,
        owner: &str,
        now: u64,
        _another: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Claimed>, MetaError> {
        Ok(match self.claim(owner, Want::Due, now)? {
            Claimed::Nothing => Vec::new(),
            claimed => vec![claimed],
        })
    }

    fn commit_with(&mut self, held: &Held, commit: &Commit, left: &Left, now: u64) -> Result<Committed, MetaError> {
        Ok(self.commit_left(held, commit, left, None, now)?.0)
    }

    fn commit_and_claim(
        &mut self,
        held: &Held,
        commit: &Commit,
        left: &Left,
        owner: &str,
        now: u64,
    ) -> Result<(Committed, Option<Claim>), MetaError> {
        let (committed, claim) = self.commit_left(held, commit, left, Some(owner), now)?;
        // What it has sent may have made it due.
        if committed.status == Status::Suspended && claim.is_none() {
            return Ok(match self.claim(owner, Want::Id(&held.id), now)? {
                Claimed::Yes(claim) => (committed, Some(*claim)),
                _ => (committed, None),
            });
        }
        Ok((committed, claim))
    }

    fn send_all(&mut self, sender: &InvocationId, sent: &Outbox, now: u64) -> Result<Vec<Undelivered>, MetaError> {
        self.send_outbox(sender, sent, now)
    }

    fn given(&self, held: &Held) -> Result<Vec<Mail>, MetaError> {
        let row = self.held(held)?;
        let mut given: Vec<_> = Model::waiting(&self.mail, &held.id).cloned().collect();
        let told = self.told.get(&(held.id.clone(), row.generation));
        given.extend(told.map(|name| Mail { number: super::model::TOLD, name: name.clone(), bytes: vec![0] }));
        Ok(given)
    }

    fn kill(&mut self, id: &InvocationId, now: u64) -> Result<Controlled, MetaError> {
        let Some(row) = self.rows.get_mut(id) else { return Ok(Controlled::Unknown) };
        if row.status.is_end() {
            return Ok(Controlled::Ended(row.status));
        }
        let leg = Some(row.clone()).filter(|row| row.status == Status::Running);
        (row.status, row.changed, row.reason) = (Status::Cancelled, now, Some("by hand".to_owned()));
        (row.owner, row.wanted) = (None, None);
        self.note_now(id, leg.as_ref(), Happened::Cancelled);
        self.settle(id, now);
        Ok(Controlled::Now(Status::Cancelled))
    }

    fn is_gone(&self, id: &InvocationId) -> Result<bool, MetaError> {
        Ok(self.gone.contains_key(id) && !self.rows.contains_key(id))
    }

    fn knows_key(&self, id: &InvocationId, key: &str) -> Result<bool, MetaError> {
        Ok(self.has_key(id, key))
    }

    fn beat(&mut self, id: &InvocationId, name: &str, now: u64) -> Result<(), MetaError> {
        self.deliver(id, name, &[], now);
        Ok(())
    }

    fn outputs(&self, id: &InvocationId) -> Result<Vec<Output>, MetaError> {
        Ok(self.outputs.iter().filter(|((of, _), _)| of == id).map(|(_, output)| output.clone()).collect())
    }

    fn printed(&self, id: &InvocationId) -> Result<Vec<Vec<u8>>, MetaError> {
        Ok(self.printed.iter().filter(|(of, _)| of == id).map(|(_, bytes)| bytes.clone()).collect())
    }

    fn owed(&self) -> Result<Vec<InvocationId>, MetaError> {
        Ok(self.owed.keys().cloned().collect())
    }

    fn owed_to(&self, id: &InvocationId) -> Result<Option<String>, MetaError> {
        Ok(self.owed.get(id).cloned())
    }

    fn paid(&mut self, id: &InvocationId) -> Result<(), MetaError> {
        self.owed.remove(id);
        Ok(())
    }

    fn newest(&self, filter: &Filter, limit: usize) -> Result<Vec<Listed>, MetaError> {
        let place = |row: &Invocation| (row.started, row.id.to_string());
        let fits = |row: &&Invocation| {
            filter.workflow.as_ref().is_none_or(|workflow| *workflow == row.workflow)
                && (filter.statuses.is_empty() || filter.statuses.contains(&row.status))
                && filter.started_after.is_none_or(|after| row.started > after)
                && filter.before.as_ref().is_none_or(|before| place(row) < *before)
        };
        let mut rows: Vec<_> = self.rows.values().filter(fits).cloned().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(place(row)));
        Ok(rows.into_iter().take(limit).map(|row| Ok(Invocation { report: None, ..row })).collect())
    }

    fn living(&self) -> Result<u64, MetaError> {
        Ok(self.rows.values().filter(|row| !row.status.is_end()).count() as u64)
    }

    fn tally(&self, now: u64) -> Result<Tally, MetaError> {
        let count = |is_it: &dyn Fn(&Invocation) -> bool| self.rows.values().filter(|row| is_it(row)).count() as u64;
        let living = Status::ALL.into_iter().filter(|status| !status.is_end());
        let living = living.map(|status| (status, count(&|row| row.status == status)));
        let is_due = |row: &Invocation| row.status.is_waiting() && row.due.is_some_and(|due| due <= now);
        let files: BTreeMap<_, _> =
            self.history.values().map(|kept| (&kept.checkpoint.file, kept.checkpoint.bytes)).collect();
        Ok(Tally {
            living: living.filter(|(_, count)| *count > 0).collect(),
            due: count(&is_due),
            checkpoint_bytes: files.values().sum(),
            schedules: self.schedules.len() as u64,
        })
    }

    fn first_end(&self) -> Result<Option<u64>, MetaError> {
        Ok(self.rows.values().filter(|row| row.status.is_end()).map(|row| row.changed).min())
    }

    fn forget(&mut self, bounds: Bounds) -> Result<usize, MetaError> {
        let mut ended: Vec<_> = self.rows.values().filter(|row| row.status.is_end()).cloned().collect();
        ended.sort_by_key(|row| std::cmp::Reverse((row.changed, row.id.clone())));
        let (mut bytes, mut removed) = (0, 0);
        for (index, row) in ended.iter().enumerate() {
            bytes += (row.start.len() + row.report.as_ref().map_or(0, Vec::len)) as u64;
            bytes += self.outputs(&row.id)?.iter().map(|output| output.bytes).sum::<u64>();
            bytes += self.printed(&row.id)?.iter().map(|printed| printed.len() as u64).sum::<u64>();
            let kept = self.history.iter().filter(|((id, _), _)| *id == row.id);
            bytes += kept.map(|(_, kept)| kept.checkpoint.bytes).sum::<u64>();
            let is_surplus = index >= bounds.number || bytes > bounds.bytes || row.changed < bounds.ended_after;
            if is_surplus && !self.owed.contains_key(&row.id) {
                removed += usize::from(self.purge_ended(&row.id));
            }
        }
        Ok(removed)
    }
}

impl Schedules for Model {
    fn define_schedule(
        &mut self,
        name: &ScheduleName,
        definition: &Definition,
        next: &mut dyn FnMut(u64) -> Option<u64>,
        now: u64,
    ) -> Result<Defined, MetaError> {
        let there = self.schedules.get(name).map(|(there, _)| there);
        let last = there.and_then(|there| there.last);
        let defined = match there {
            Some(there) if there.definition == *definition => return Ok(Defined::Same),
            Some(_) => Defined::Changed,
            None => Defined::New,
        };
        let next = if definition.paused { None } else { next(last.unwrap_or(0).max(now)) };
        let (name, definition) = (name.clone(), definition.clone());
        let new = Schedule { name: name.clone(), definition, changed: now, next, last, reason: None };
        self.schedules.insert(name, (new, next));
        Ok(defined)
    }

    fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, MetaError> {
        Ok(self.schedules.get(name).map(|(schedule, _)| schedule.clone()))
    }

    fn schedules(&self) -> Result<Vec<Result<Schedule, DamagedSchedule>>, MetaError> {
        Ok(self.schedules.values().map(|(schedule, _)| Ok(schedule.clone())).collect())
    }

    fn stop_schedule(&mut self, name: &str, reason: &str) -> Result<(), MetaError> {
        for (schedule, look) in self.schedules.values_mut().filter(|(schedule, _)| schedule.name.as_str() == name) {
            (*look, schedule.reason) = (None, Some(reason.to_owned()));
        }
        Ok(())
    }

    fn remove_schedule(&mut self, name: &str) -> Result<bool, MetaError> {
        let before = self.schedules.len();
        self.schedules.retain(|known, _| known.as_str() != name);
        Ok(self.schedules.len() < before)
    }

    fn next_look(&self) -> Result<Option<u64>, MetaError> {
        Ok(self.schedules.values().filter_map(|(_, look)| *look).min())
    }

    fn due_schedule(&self, now: u64) -> Result<Option<Schedule>, MetaError> {
        let due = self.schedules.values().filter(|(_, look)| look.is_some_and(|look| look <= now));
        Ok(due.min_by_key(|(_, look)| *look).map(|(schedule, _)| schedule.clone()))
    }

    fn fire(
        &mut self,
        seen: &Schedule,
        step: Step,
        new: Option<&NewInvocation<'_>>,
        now: u64,
    ) -> Result<Fired, MetaError> {
        let there = self.schedules.get_mut(&seen.name);
        let Some((schedule, look)) =
            there.filter(|(there, _)| (there.next, there.changed) == (seen.next, seen.changed))
        else {
            return Ok(Fired::Stale);
        };
        (schedule.next, *look, schedule.reason) = (step.next, step.next, None);
        schedule.last = step.start.or(schedule.last);
        match new.filter(|new| !self.rows.contains_key(new.id)) {
            Some(new) => {
                self.insert(new, now);
                Ok(Fired::New)
            }
            None => Ok(Fired::Known),
        }
    }

    fn put_off(&mut self, seen: &Schedule, reason: &str, later: u64) -> Result<(), MetaError> {
        let there = self.schedules.get_mut(&seen.name);
        if let Some((schedule, look)) =
            there.filter(|(there, _)| (there.next, there.changed) == (seen.next, seen.changed))
        {
            (*look, schedule.reason) = (Some(later), Some(reason.to_owned()));
        }
        Ok(())
    }

    fn look_again(&mut self) -> Result<bool, MetaError> {
        let mut any = false;
        for (schedule, look) in self.schedules.values_mut() {
            if schedule.reason.is_some() && look.is_some() && schedule.next.is_some() && *look != schedule.next {
                (*look, any) = (schedule.next, true);
            }
        }
        Ok(any)
    }
}

impl Versions for Model {
    fn registered(&mut self, workflow: &str, version: &str, now: u64) -> Result<(), MetaError> {
        self.versions.entry((workflow.to_owned(), version.to_owned())).or_insert(now);
        Ok(())
    }

    fn registrations(&self, workflow: &str) -> Result<Vec<(String, u64)>, MetaError> {
        let known = self.versions.iter().filter(|((of, _), _)| of == workflow);
        Ok(known.map(|((_, version), at)| (version.clone(), *at)).collect())
    }

    fn each_member(
        &self,
        workflow: &str,
        look: &mut dyn FnMut(&InvocationId, Member<'_>) -> Result<(), MetaError>,
    ) -> Result<(), MetaError> {
        let needs = |row: &&Invocation| !row.status.is_end() || row.checkpoint.is_some();
        self.rows.values().filter(|row| row.workflow == workflow).filter(needs).try_for_each(|row| {
            let (status, started, due) = (row.status, row.started, row.due);
            look(&row.id, Member { status, started, due, start: &row.start })
        })
    }

    fn living_members(&self, workflow: &str, after: &str, look: Look<'_>) -> Result<(), MetaError> {
        let living = self.rows.values().filter(|row| row.workflow == workflow && !row.status.is_end());
        for row in living.filter(|row| row.id.as_str() > after) {
            let (status, started, due) = (row.status, row.started, row.due);
            if !look(&row.id, Member { status, started, due, start: &row.start })? {
                break;
            }
        }
        Ok(())
    }

    fn claim_to_move(&mut self, owner: &str, id: &InvocationId, now: u64) -> Result<Moving, MetaError> {
        let Some(row) = self.rows.get_mut(id) else { return Ok(Moving::Unknown) };
        let was_paused = row.status == Status::Paused;
        match row.status {
            Status::Pending | Status::Paused if row.checkpoint.is_none() => {
                return Ok(Moving::NotBegun(Box::new(row.clone())));
            }
            Status::Suspended | Status::Paused => {}
            status => return Ok(Moving::Refused(status)),
        }
        let before = Before { due: row.due, reason: row.reason.clone(), was_paused };
        (row.status, row.epoch, row.changed) = (Status::Running, row.epoch + 1, now);
        (row.owner, row.wanted) = (Some(owner.to_owned()), was_paused.then_some(Status::Paused));
        row.began = Some(now);
        Ok(Moving::Claimed(Box::new(Claim { attempt: 1, ..claim_of(row) }), before))
    }

    fn commit_moved(
        &mut self,
        held: &Held,
        start: &[u8],
        commit: &Commit,
        left: &Left,
        now: u64,
    ) -> Result<Committed, MetaError> {
        self.held(held)?;
        self.rows.get_mut(&held.id).expect("it is held").start = start.to_vec();
        let earlier = self.forget_history(&held.id);
        if let Commit::Ended { well, .. } = commit {
            self.prepare(&held.id, *well, &left.outcome);
        }
        let more = More { is_move: true, ..More::default() };
        let (mut committed, _) = self.commit_more(held, commit, more, now)?;
        committed.obsolete.extend(earlier);
        self.leave_and_send(&held.id, left, &mut committed, now)?;
        Ok(committed)
    }

    fn give_back(&mut self, held: &Held, before: &Before, now: u64) -> Result<Status, MetaError> {
        self.back(held, before, now)
    }

    fn replace_start(&mut self, looked_at: &Invocation, start: &[u8], now: u64) -> Result<bool, MetaError> {
        let Some(row) = self.rows.get_mut(&looked_at.id) else { return Ok(false) };
        let seen = |row: &Invocation| (row.status, row.epoch, row.start.clone());
        let is_same = seen(row) == seen(looked_at) && row.checkpoint.is_none();
        if is_same {
            (row.start, row.changed) = (start.to_vec(), now);
        }
        Ok(is_same)
    }
}
