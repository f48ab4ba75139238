//! What the transactions mean, in memory.

use monohull_durable::{
    ATTEMPTS, Checkpoint, Claim, Claimed, Commit, Committed, Control, Controlled, Held, Invocation, InvocationId, Kept,
    Lineage, Listed, MAIL_BYTES_MAX, MAIL_MAX, Mail, Meta, MetaError, NewInvocation, NewMail, Sent, Started, Status,
    Want,
};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) rows: BTreeMap<InvocationId, Invocation>,
    pub(crate) history: BTreeMap<(InvocationId, u64), Kept>,
    pub(crate) lineage: BTreeMap<InvocationId, Lineage>,
    /// What a file takes pages from.
    pub(crate) parents: BTreeMap<String, Checkpoint>,
    pub(crate) mail: Vec<Letter>,
    /// How many events have been kept.
    sent: u64,
}

/// An event that was sent to an invocation.
pub(crate) struct Letter {
    to: InvocationId,
    key: Option<String>,
    mail: Mail,
    taken: bool,
}

impl Model {
    fn waiting<'m>(mail: &'m [Letter], id: &InvocationId) -> impl Iterator<Item = &'m Mail> {
        mail.iter().filter(move |letter| letter.to == *id && !letter.taken).map(|letter| &letter.mail)
    }

    /// Those that have ended have no events, and those that were removed no keys.
    fn sweep(&mut self) {
        let rows = &self.rows;
        let has_ended = |letter: &Letter| rows.get(&letter.to).is_some_and(|row| row.status.is_end());
        self.mail.retain(|letter| rows.contains_key(&letter.to) && (letter.key.is_some() || !has_ended(letter)));
        self.mail.iter_mut().for_each(|letter| letter.taken |= has_ended(letter));
    }
}

fn awaits(row: &Invocation, name: &str) -> bool {
    row.waits.iter().any(|wait| wait.event.as_deref() == Some(name))
}

/// An invocation is due if an event is there that it waits for.
pub(crate) fn arrive(mail: &[Letter], row: &mut Invocation, now: u64) {
    if Model::waiting(mail, &row.id).any(|mail| awaits(row, &mail.name)) {
        row.due = Some(row.due.map_or(now, |due| due.min(now)));
    }
}

/// An invocation that no process runs any more becomes what was wanted of it, or waits.
fn let_go(row: &mut Invocation, otherwise: Status, now: u64) {
    row.owner = None;
    row.changed = now;
    match row.wanted.take() {
        Some(wanted) => (row.status, row.reason) = (wanted, Some("by hand".to_owned())),
        None => row.status = otherwise,
    }
    tidy(row);
}

fn tidy(row: &mut Invocation) {
    if row.status.is_end() {
        (row.due, row.waits) = (None, Vec::new());
    }
    if matches!(row.status, Status::Completed | Status::Cancelled) {
        row.checkpoint = None;
    }
}

fn at_rest(row: &Invocation) -> Status {
    match row.checkpoint {
        Some(_) => Status::Suspended,
        None => Status::Pending,
    }
}

impl Meta for Model {
    fn start(&mut self, new: &NewInvocation<'_>, now: u64) -> Result<Started, MetaError> {
        if let Some(row) = self.rows.get(new.id) {
            let same = (row.workflow.as_str(), row.start.as_slice()) == (new.workflow, new.start);
            return Ok(if same { Started::Same(row.status) } else { Started::Taken });
        }
        let row = Invocation {
            id: new.id.clone(),
            workflow: new.workflow.to_owned(),
            status: Status::Pending,
            started: now,
            changed: now,
            due: Some(new.due),
            epoch: 0,
            attempts: 0,
            generation: 0,
            owner: None,
            checkpoint: None,
            waits: Vec::new(),
            reason: None,
            wanted: None,
            start: new.start.to_vec(),
            report: None,
            published: BTreeMap::new(),
        };
        self.rows.insert(new.id.clone(), row);
        Ok(Started::New)
    }

    fn claim(&mut self, owner: &str, want: Want<'_>, now: u64) -> Result<Claimed, MetaError> {
        let is_due = |row: &&mut Invocation| {
            matches!(row.status, Status::Pending | Status::Suspended) && row.due.is_some_and(|due| due <= now)
        };
        let found = match want {
            Want::Due => self.rows.values_mut().filter(is_due).min_by_key(|row| row.due),
            Want::Id(id) => self.rows.get_mut(id).filter(is_due),
        };
        let Some(row) = found else { return Ok(Claimed::Nothing) };
        row.changed = now;
        if row.attempts == ATTEMPTS {
            row.status = Status::Paused;
            row.reason = Some(format!("{ATTEMPTS} attempts ended before its next wait or its end"));
            return Ok(Claimed::Paused(row.id.clone()));
        }
        (row.status, row.owner) = (Status::Running, Some(owner.to_owned()));
        (row.epoch, row.attempts) = (row.epoch + 1, row.attempts + 1);
        Ok(Claimed::Yes(Box::new(Claim {
            held: Held { id: row.id.clone(), epoch: row.epoch },
            workflow: row.workflow.clone(),
            generation: row.generation,
            checkpoint: row.checkpoint.clone(),
            start: row.start.clone(),
            published: row.published.clone(),
            attempt: row.attempts,
        })))
    }

    fn commit(&mut self, held: &Held, commit: &Commit, now: u64) -> Result<Committed, MetaError> {
        let row = match self.rows.get_mut(&held.id) {
            Some(row) if row.owner.is_some() && row.epoch == held.epoch => row,
            _ => return Err(MetaError::Stale(held.id.clone())),
        };
        row.reason = None;
        let mut waits = None;
        let stays = matches!(commit, Commit::Checkpointed { .. }) && row.wanted.is_none();
        let owner = row.owner.clone().filter(|_| stays);
        let status = match commit.clone() {
            Commit::Suspended { checkpoint, parent, due, waits: waiting, taken, published }
            | Commit::Checkpointed { checkpoint, parent, due, waits: waiting, taken, published } => {
                if let Some(parent) = parent {
                    self.parents.insert(checkpoint.file.clone(), parent);
                }
                row.published = published;
                (row.checkpoint, row.due, row.waits) = (Some(checkpoint), due, waiting);
                (row.generation, row.attempts) = (row.generation + 1, u32::from(stays));
                waits = Some(Invocation { changed: now, ..row.clone() });
                for letter in self.mail.iter_mut().filter(|letter| letter.to == held.id) {
                    letter.taken |= taken.contains(&letter.mail.number);
                }
                arrive(&self.mail, row, now);
                if stays { Status::Running } else { Status::Suspended }
            }
            Commit::Ended { well, report, published } => {
                row.published = published.unwrap_or_else(|| row.published.clone());
                (row.report, row.wanted) = (Some(report), None);
                if well { Status::Completed } else { Status::Failed }
            }
            Commit::Released { due, reason } => {
                (row.due, row.reason) = (Some(due), Some(reason));
                at_rest(row)
            }
            Commit::Paused { reason } => {
                row.reason = Some(reason);
                Status::Paused
            }
        };
        let_go(row, status, now);
        row.owner = owner;
        let status = row.status;
        let mut obsolete = waits.map(|waits| self.suspended(&waits)).unwrap_or_default();
        self.sweep();
        if matches!(status, Status::Completed | Status::Cancelled) {
            obsolete.extend(self.keep_newest(&held.id, 0));
        }
        Ok(Committed { status, obsolete, undelivered: Vec::new() })
    }

    fn owners(&self) -> Result<Vec<String>, MetaError> {
        let mut owners: Vec<_> = self.rows.values().filter_map(|row| row.owner.clone()).collect();
        owners.sort();
        owners.dedup();
        Ok(owners)
    }

    fn expire(&mut self, owner: &str, now: u64) -> Result<(), MetaError> {
        let mut cancelled = Vec::new();
        for row in self.rows.values_mut().filter(|row| row.owner.as_deref() == Some(owner)) {
            let status = at_rest(row);
            let_go(row, status, now);
            if row.status == Status::Cancelled {
                cancelled.push(row.id.clone());
            }
        }
        for id in cancelled {
            self.keep_newest(&id, 0);
        }
        self.sweep();
        Ok(())
    }

    fn control(&mut self, id: &InvocationId, control: Control, now: u64) -> Result<Controlled, MetaError> {
        let Some(row) = self.rows.get_mut(id) else { return Ok(Controlled::Unknown) };
        if row.status.is_end() {
            return Ok(Controlled::Ended(row.status));
        }
        row.changed = now;
        let wanted = match control {
            Control::Pause => Status::Paused,
            Control::Cancel => Status::Cancelled,
            Control::Resume if row.status == Status::Running => {
                row.wanted = None;
                return Ok(Controlled::Now(Status::Running));
            }
            Control::Resume => {
                if row.status == Status::Paused {
                    if row.checkpoint.is_some() || row.reason.as_deref() != Some("by hand") {
                        row.attempts = 0;
                    }
                    row.reason = None;
                }
                at_rest(row)
            }
        };
        if row.status == Status::Running {
            row.wanted = Some(wanted);
            return Ok(Controlled::AtNextCommit(wanted));
        }
        if row.status != wanted && control != Control::Resume {
            row.reason = Some("by hand".to_owned());
        }
        row.status = wanted;
        tidy(row);
        self.sweep();
        if wanted == Status::Cancelled {
            self.keep_newest(id, 0);
        }
        Ok(Controlled::Now(wanted))
    }

    fn purge(&mut self, id: &InvocationId, _now: u64) -> Result<bool, MetaError> {
        let has_ended = self.rows.get(id).is_some_and(|row| row.status.is_end());
        if has_ended {
            self.rows.remove(id);
            self.sweep();
            self.lineage.remove(id);
            self.keep_newest(id, 0);
        }
        Ok(has_ended)
    }

    fn send(&mut self, id: &InvocationId, mail: &NewMail<'_>, now: u64) -> Result<Sent, MetaError> {
        let Some(row) = self.rows.get_mut(id) else { return Ok(Sent::Unknown) };
        let mut letters = self.mail.iter().filter(|letter| letter.to == *id && letter.key.is_some());
        if let Some(known) = letters.find(|letter| letter.key.as_deref() == mail.key()) {
            let same = (known.mail.name.as_str(), known.mail.bytes.as_slice()) == (mail.name(), mail.bytes());
            return Ok(if same { Sent::Duplicate } else { Sent::KeyTaken });
        }
        if row.status.is_end() {
            return Ok(Sent::Ended(row.status));
        }
        let waiting = Model::waiting(&self.mail, id).map(|mail| mail.bytes.len() as u64);
        let (count, bytes) = waiting.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
        if count == MAIL_MAX || bytes + mail.bytes().len() as u64 > MAIL_BYTES_MAX {
            return Ok(Sent::Full);
        }
        self.sent += 1;
        let (to, key) = (id.clone(), mail.key().map(str::to_owned));
        let kept = Mail { number: self.sent, name: mail.name().to_owned(), bytes: mail.bytes().to_vec() };
        self.mail.push(Letter { to, key, mail: kept, taken: false });
        if awaits(row, mail.name()) && row.due.is_none_or(|due| due > now) {
            (row.due, row.changed) = (Some(now), now);
        }
        Ok(Sent::New)
    }

    fn mail(&self, held: &Held, after: u64) -> Result<Vec<Mail>, MetaError> {
        let owned = self.rows.get(&held.id).filter(|row| row.owner.is_some() && row.epoch == held.epoch);
        owned.ok_or_else(|| MetaError::Stale(held.id.clone()))?;
        Ok(Model::waiting(&self.mail, &held.id).filter(|mail| mail.number > after).cloned().collect())
    }

    fn mail_count(&self, id: &InvocationId) -> Result<u64, MetaError> {
        Ok(Model::waiting(&self.mail, id).count() as u64)
    }

    fn next_due(&self) -> Result<Option<u64>, MetaError> {
        let waiting = self.rows.values().filter(|row| matches!(row.status, Status::Pending | Status::Suspended));
        Ok(waiting.filter_map(|row| row.due).min())
    }

    fn get(&self, id: &InvocationId) -> Result<Option<Invocation>, MetaError> {
        Ok(self.rows.get(id).cloned())
    }

    fn list(&self, statuses: &[Status], after: &str, limit: usize) -> Result<Vec<Listed>, MetaError> {
        let matching = self
            .rows
            .values()
            .filter(|row| row.id.as_str() > after && (statuses.is_empty() || statuses.contains(&row.status)));
        Ok(matching.take(limit).cloned().map(Ok).collect())
    }
}
