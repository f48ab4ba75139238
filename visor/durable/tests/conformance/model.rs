//! What the transactions mean, in memory.

use monohull_abi::event::CANCEL_EVENT;
use monohull_durable::{
    ATTEMPTS, Before, Checkpoint, Claim, Claimed, Commit, Committed, Control, Controlled, Entry, Happened, Held,
    Invocation, InvocationId, Kept, Lineage, Listed, Lost, MAIL_BYTES_MAX, MAIL_MAX, Mail, Meta, MetaError,
    NewInvocation, NewMail, Output, Schedule, ScheduleName, Sent, Started, Status, Want, Woken,
};
use std::collections::{BTreeMap, BTreeSet};

use super::model_children::Known;

/// The number of the event that tells of a checkpoint itself.
pub(crate) const TOLD: u64 = 0;

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) rows: BTreeMap<InvocationId, Invocation>,
    pub(crate) history: BTreeMap<(InvocationId, u64), Kept>,
    pub(crate) lineage: BTreeMap<InvocationId, Lineage>,
    /// What a file takes pages from.
    pub(crate) parents: BTreeMap<String, Checkpoint>,
    /// What is told of a checkpoint.
    pub(crate) told: BTreeMap<(InvocationId, u64), String>,
    pub(crate) mail: Vec<Letter>,
    /// How many events have been kept.
    sent: u64,
    pub(crate) children: Vec<Known>,
    /// Children whose parents were removed, and how deep they are.
    pub(crate) orphans: BTreeMap<InvocationId, u32>,
    pub(crate) lost: BTreeMap<InvocationId, Vec<Lost>>,
    pub(crate) outputs: BTreeMap<(InvocationId, String), Output>,
    pub(crate) printed: Vec<(InvocationId, Vec<u8>)>,
    pub(crate) owed: BTreeMap<InvocationId, String>,
    /// Each with the time at which it is looked at.
    pub(crate) schedules: BTreeMap<ScheduleName, (Schedule, Option<u64>)>,
    /// Workflow and version, and when.
    pub(crate) versions: BTreeMap<(String, String), u64>,
    /// The epochs of those that were removed by hand: another one of the name begins behind it.
    pub(crate) gone: BTreeMap<InvocationId, u64>,
    /// All that has happened to each.
    pub(crate) timelines: BTreeMap<InvocationId, Vec<Entry>>,
}

/// An event that was sent to an invocation.
pub(crate) struct Letter {
    to: InvocationId,
    key: Option<String>,
    mail: Mail,
    taken: bool,
}

/// What else a commit does.
#[derive(Clone, Copy, Default)]
pub(crate) struct More<'m> {
    /// The event that tells of the checkpoint.
    pub(crate) told: Option<&'m str>,
    /// Which owner claims it again.
    pub(crate) claimer: Option<&'m str>,
    /// It is in another version from now on.
    pub(crate) is_move: bool,
}

impl Model {
    pub(crate) fn waiting<'m>(mail: &'m [Letter], id: &InvocationId) -> impl Iterator<Item = &'m Mail> {
        mail.iter().filter(move |letter| letter.to == *id && !letter.taken).map(|letter| &letter.mail)
    }

    /// The one that is the holder's.
    pub(crate) fn held(&self, held: &Held) -> Result<&Invocation, MetaError> {
        let row = self.rows.get(&held.id).filter(|row| row.status == Status::Running && row.epoch == held.epoch);
        row.ok_or_else(|| MetaError::Stale(held.id.clone()))
    }

    pub(crate) fn lives(&self, id: &InvocationId) -> bool {
        self.rows.get(id).is_some_and(|row| !row.status.is_end())
    }

    pub(crate) fn insert(&mut self, new: &NewInvocation<'_>, now: u64) {
        let row = Invocation {
            id: new.id.clone(),
            workflow: new.workflow.to_owned(),
            status: Status::Pending,
            started: now,
            changed: now,
            due: Some(new.due),
            epoch: self.gone.get(new.id).copied().unwrap_or(0),
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
            began: None,
            woken: None,
            entries: 0,
        };
        self.rows.insert(new.id.clone(), row);
    }

    /// Something has happened to an invocation; `leg` is its row in the leg that this ends.
    pub(crate) fn note(
        &mut self,
        id: &InvocationId,
        leg: Option<&Invocation>,
        what: Happened,
        about: &str,
        [at, generation]: [u64; 2],
    ) {
        let row = self.rows.get_mut(id).expect("it is there");
        let entry = Entry {
            number: row.entries,
            at,
            began: leg.map(|leg| leg.began.expect("it runs")),
            what,
            generation,
            woken: leg.and_then(|leg| leg.woken.clone()),
            // The owners of this suite are no processes.
            process: None,
            about: about.to_owned(),
        };
        row.entries += 1;
        self.timelines.entry(id.clone()).or_default().push(entry);
    }

    /// The same, as the row is now: what has become of it is told with its reason.
    pub(crate) fn note_now(&mut self, id: &InvocationId, leg: Option<&Invocation>, what: Happened) {
        let row = &self.rows[id];
        let what = match row.status {
            Status::Paused => Happened::Paused,
            Status::Completed => Happened::Completed,
            Status::Failed => Happened::Failed,
            Status::Cancelled => Happened::Cancelled,
            _ => what,
        };
        let waits: Vec<_> =
            row.waits.iter().map(|wait| format!("{}[{}] {}", wait.step, wait.instance, wait.what)).collect();
        let about = match what {
            Happened::Suspended | Happened::Migrated => waits.join(", "),
            Happened::Paused | Happened::Cancelled | Happened::Released => row.reason.clone().unwrap_or_default(),
            _ => String::new(),
        };
        let place = [row.changed, row.generation];
        self.note(id, leg, what, &about, place);
    }

    /// Whether an event with this key was sent.
    pub(crate) fn has_key(&self, id: &InvocationId, key: &str) -> bool {
        self.mail.iter().any(|letter| letter.to == *id && letter.key.as_deref() == Some(key))
    }

    /// What was there before a start.
    pub(crate) fn there(&self, new: &NewInvocation<'_>) -> Option<Started> {
        let row = self.rows.get(new.id)?;
        let same = (row.workflow.as_str(), row.start.as_slice()) == (new.workflow, new.start);
        Some(if same { Started::Same(row.status) } else { Started::Taken })
    }

    /// What follows if an invocation has ended: it has no events, its parent is told, its children are cancelled, and what is not gone on with has no
    /// history; the files of that.
    pub(crate) fn settle(&mut self, id: &InvocationId, now: u64) -> Vec<Checkpoint> {
        let Some(row) = self.rows.get_mut(id).filter(|row| row.status.is_end()) else { return Vec::new() };
        let status = row.status;
        (row.due, row.waits, row.began, row.woken) = (None, Vec::new(), None, None);
        if status != Status::Failed {
            row.checkpoint = None;
        }
        self.mail.retain(|letter| letter.to != *id || letter.key.is_some());
        self.mail.iter_mut().for_each(|letter| letter.taken |= letter.to == *id);
        self.ended(id, status, now);
        if status == Status::Failed { Vec::new() } else { self.forget_history(id) }
    }

    /// Keeps an event that is the system's own, unless one of its name waits.
    pub(crate) fn deliver(&mut self, id: &InvocationId, name: &str, bytes: &[u8], now: u64) {
        if self.lives(id) && !Model::waiting(&self.mail, id).any(|mail| mail.name == name) {
            self.keep_mail(id, name, bytes, None, now);
        }
    }

    /// Tells an invocation that it is to end; false if it does not wait for that.
    pub(crate) fn tell_to_end(&mut self, id: &InvocationId, now: u64) -> bool {
        let row = &self.rows[id];
        let listens = matches!(row.status, Status::Suspended | Status::Running);
        let is_told = self.told_to_end(id).is_some();
        let waits = row.waits.iter().filter(|wait| wait.event.as_deref() == Some(CANCEL_EVENT));
        let waiting: BTreeSet<_> = waits.map(|wait| (wait.step.clone(), wait.instance)).collect();
        let is_new = listens && !is_told && !waiting.is_empty();
        if is_new && !Model::waiting(&self.mail, id).any(|mail| mail.name == CANCEL_EVENT) {
            for number in 0..waiting.len() {
                self.keep_mail(id, CANCEL_EVENT, &[], (number == 0).then_some(""), now);
            }
        }
        is_new || listens && is_told
    }

    /// Whether it was told, and then whether it has taken notice.
    fn told_to_end(&self, id: &InvocationId) -> Option<bool> {
        let told = |letter: &&Letter| letter.to == *id && letter.key.as_deref() == Some("");
        self.mail.iter().find(told).map(|letter| letter.taken)
    }

    /// What it was told does not count any more.
    pub(crate) fn forget_to_end(&mut self, id: &InvocationId) {
        self.mail.retain(|letter| letter.to != *id || letter.mail.name != CANCEL_EVENT);
    }

    fn put_mail(&mut self, id: &InvocationId, name: &str, bytes: &[u8], key: Option<&str>) {
        self.sent += 1;
        let mail = Mail { number: self.sent, name: name.to_owned(), bytes: bytes.to_vec() };
        self.mail.push(Letter { to: id.clone(), key: key.map(str::to_owned), mail, taken: false });
    }

    pub(crate) fn keep_mail(&mut self, id: &InvocationId, name: &str, bytes: &[u8], key: Option<&str>, now: u64) {
        self.put_mail(id, name, bytes, key);
        let row = self.rows.get_mut(id).expect("it was looked at");
        if wake(row, name, now) {
            row.changed = now;
        }
    }

    /// The events that an invocation takes with its commit.
    fn take(&mut self, id: &InvocationId, taken: &[u64], generation: u64) {
        let mut behind = Vec::new();
        for letter in self.mail.iter_mut().filter(|letter| letter.to == *id && taken.contains(&letter.mail.number)) {
            if !letter.taken {
                let end = Known::joined(&mut self.children, id, &letter.mail, generation);
                behind.extend(end.map(|end| (letter.mail.name.clone(), end)));
            }
            letter.taken = true;
        }
        for (name, bytes) in behind {
            if !Model::waiting(&self.mail, id).any(|mail| mail.name == name) {
                self.put_mail(id, &name, &bytes, None);
            }
        }
    }

    pub(crate) fn commit_more(
        &mut self,
        held: &Held,
        commit: &Commit,
        more: More<'_>,
        now: u64,
    ) -> Result<(Committed, Option<Claim>), MetaError> {
        let leg = self.held(held)?.clone();
        let mut row = leg.clone();
        let before = row.generation;
        let mut obsolete = Vec::new();
        row.reason = None;
        let stays = matches!(commit, Commit::Checkpointed { .. }) && row.wanted.is_none();
        let owner = row.owner.take().filter(|_| stays);
        row.changed = now;
        if !stays {
            (row.began, row.woken) = (None, None);
        }
        row.status = match commit.clone() {
            Commit::Suspended { checkpoint, parent, due, waits, taken, published }
            | Commit::Checkpointed { checkpoint, parent, due, waits, taken, published } => {
                if let Some(parent) = parent {
                    self.parents.insert(checkpoint.file.clone(), parent);
                }
                row.published = published;
                (row.checkpoint, row.due, row.waits) = (Some(checkpoint), due, waits);
                (row.generation, row.attempts) = (row.generation + 1, u32::from(stays));
                let old = self.told.get(&(held.id.clone(), before)).filter(|_| !taken.contains(&TOLD)).cloned();
                let told = old.or(more.told.map(str::to_owned));
                obsolete = self.suspended(&row, told.clone());
                self.take(&held.id, &taken, row.generation);
                row.status = if stays { Status::Running } else { Status::Suspended };
                arrive(&self.mail, &mut row, now);
                if let Some(told) = told {
                    wake(&mut row, &told, now);
                }
                row.status
            }
            Commit::Ended { well, cancelled, report, published } => {
                row.published = published.unwrap_or(row.published);
                (row.report, row.wanted) = (Some(report), None);
                match self.told_to_end(&held.id) {
                    told if well && (cancelled || told == Some(true)) => {
                        row.reason = Some("it was told to end".to_owned());
                        Status::Cancelled
                    }
                    _ if well => Status::Completed,
                    _ => Status::Failed,
                }
            }
            Commit::Released { due, reason } => {
                (row.due, row.reason) = (Some(due), Some(reason));
                at_rest(&row)
            }
            Commit::Paused { reason } => {
                row.reason = Some(reason);
                Status::Paused
            }
        };
        let_go(&mut row);
        row.owner = owner;
        let status = row.status;
        let due = row.due.filter(|_| status == Status::Suspended);
        let is_due = status == Status::Suspended && row.due.is_some_and(|due| due <= now);
        self.rows.insert(held.id.clone(), row);
        if status != Status::Running {
            let what = match commit {
                Commit::Released { .. } => Happened::Released,
                _ if more.is_move => Happened::Migrated,
                _ => Happened::Suspended,
            };
            self.note_now(&held.id, Some(&leg), what);
        }
        let row = self.rows.get_mut(&held.id).expect("it was put there");
        let claim = more.claimer.filter(|_| is_due).map(|owner| take_over(row, owner, now));
        obsolete.extend(self.settle(&held.id, now));
        Ok((Committed { status, due, obsolete, undelivered: Vec::new() }, claim))
    }

    /// What a claim for a move is given back as.
    pub(crate) fn back(&mut self, held: &Held, before: &Before, now: u64) -> Result<Status, MetaError> {
        let mut row = self.held(held)?.clone();
        (row.changed, row.owner, row.due, row.reason) = (now, None, before.due, None);
        (row.status, row.began) = (at_rest(&row), None);
        let is_asked = match row.wanted {
            Some(Status::Paused) => !before.was_paused,
            Some(_) => true,
            None => before.was_paused,
        };
        match row.wanted.take() {
            Some(Status::Paused) if before.was_paused => {
                (row.status, row.reason) = (Status::Paused, before.reason.clone());
            }
            Some(wanted) => (row.status, row.reason) = (wanted, Some("by hand".to_owned())),
            None if before.was_paused => row.attempts = 0,
            None => row.reason.clone_from(&before.reason),
        }
        arrive(&self.mail, &mut row, now);
        let status = row.status;
        self.rows.insert(held.id.clone(), row);
        if is_asked {
            self.note_now(&held.id, None, Happened::Resumed);
        }
        self.settle(&held.id, now);
        Ok(status)
    }

    pub(crate) fn purge_ended(&mut self, id: &InvocationId) -> bool {
        let has_ended = self.rows.get(id).is_some_and(|row| row.status.is_end());
        if has_ended {
            self.rows.remove(id);
            self.mail.retain(|letter| letter.to != *id);
            self.forget_history(id);
            self.lineage.remove(id);
            self.outputs.retain(|(of, _), _| of != id);
            self.printed.retain(|(of, _)| of != id);
            self.owed.remove(id);
            self.lost.remove(id);
            self.forget_children(id);
            self.timelines.remove(id);
        }
        has_ended
    }
}

pub(crate) fn awaits(row: &Invocation, name: &str) -> bool {
    row.waits.iter().any(|wait| wait.event.as_deref() == Some(name))
}

/// An invocation is due if an event is there that it waits for.
pub(crate) fn arrive(mail: &[Letter], row: &mut Invocation, now: u64) {
    let id = row.id.clone();
    let first = Model::waiting(mail, &id).find(|mail| awaits(row, &mail.name));
    first.map(|first| wake(row, &first.name, now));
}

/// Makes one due that waits for an event of this name, and is due later.
fn wake(row: &mut Invocation, name: &str, now: u64) -> bool {
    let is_later = awaits(row, name) && row.due.is_none_or(|due| due > now);
    if is_later {
        row.due = Some(now);
        if row.status != Status::Running {
            row.woken = Some(Woken::Event(name.to_owned()));
        }
    }
    is_later
}

/// An invocation that no process runs any more becomes what was wanted of it.
fn let_go(row: &mut Invocation) {
    if let Some(wanted) = row.wanted.take() {
        (row.status, row.reason) = (wanted, Some("by hand".to_owned()));
    }
}

fn at_rest(row: &Invocation) -> Status {
    match row.checkpoint {
        Some(_) => Status::Suspended,
        None => Status::Pending,
    }
}

/// Makes it one that this owner runs.
pub(crate) fn take_over(row: &mut Invocation, owner: &str, now: u64) -> Claim {
    (row.status, row.owner) = (Status::Running, Some(owner.to_owned()));
    (row.epoch, row.attempts) = (row.epoch + 1, row.attempts + 1);
    row.began = Some(now);
    row.woken = Some(match row.woken.take() {
        _ if row.attempts > 1 => Woken::Again,
        Some(event) => event,
        None if row.checkpoint.is_some() => Woken::Time,
        None => Woken::Start,
    });
    claim_of(row)
}

pub(crate) fn claim_of(row: &Invocation) -> Claim {
    Claim {
        held: Held { id: row.id.clone(), epoch: row.epoch },
        workflow: row.workflow.clone(),
        generation: row.generation,
        checkpoint: row.checkpoint.clone(),
        start: row.start.clone(),
        published: row.published.clone(),
        attempt: row.attempts,
    }
}

impl Meta for Model {
    fn start(&mut self, new: &NewInvocation<'_>, now: u64) -> Result<Started, MetaError> {
        if let Some(there) = self.there(new) {
            return Ok(there);
        }
        self.insert(new, now);
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
            let id = row.id.clone();
            self.note_now(&id, None, Happened::Paused);
            return Ok(Claimed::Paused(id));
        }
        Ok(Claimed::Yes(Box::new(take_over(row, owner, now))))
    }

    fn commit(&mut self, held: &Held, commit: &Commit, now: u64) -> Result<Committed, MetaError> {
        Ok(self.commit_more(held, commit, More::default(), now)?.0)
    }

    fn owners(&self) -> Result<Vec<String>, MetaError> {
        let mut owners: Vec<_> = self.rows.values().filter_map(|row| row.owner.clone()).collect();
        owners.sort();
        owners.dedup();
        Ok(owners)
    }

    fn expire(&mut self, owner: &str, now: u64) -> Result<(), MetaError> {
        let owned = self.rows.values().filter(|row| row.owner.as_deref() == Some(owner));
        for id in owned.map(|row| row.id.clone()).collect::<Vec<_>>() {
            let row = self.rows.get_mut(&id).expect("it is owned");
            let leg = row.clone();
            (row.owner, row.changed, row.status) = (None, now, at_rest(row));
            (row.began, row.woken) = (None, None);
            let_go(row);
            self.note_now(&id, Some(&leg), Happened::Lost);
            self.settle(&id, now);
        }
        Ok(())
    }

    fn control(&mut self, id: &InvocationId, control: Control, now: u64) -> Result<Controlled, MetaError> {
        let Some(row) = self.rows.get(id) else { return Ok(Controlled::Unknown) };
        let status = row.status;
        if status.is_end() {
            return Ok(Controlled::Ended(status));
        }
        if control == Control::Cancel && self.tell_to_end(id, now) {
            return Ok(Controlled::Told(status));
        }
        let row = self.rows.get_mut(id).expect("it is there");
        row.changed = now;
        let wanted = match control {
            Control::Pause => Status::Paused,
            Control::Cancel | Control::Stop => Status::Cancelled,
            Control::Resume if row.status == Status::Running => {
                row.wanted = None;
                return Ok(Controlled::Now(Status::Running));
            }
            Control::Resume => {
                if row.status == Status::Paused {
                    // Nothing in this suite may begin again.
                    row.attempts = if row.checkpoint.is_some() { 0 } else { row.attempts.min(1) };
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
        let is_other = row.status != wanted;
        row.status = wanted;
        if is_other {
            self.note_now(id, None, Happened::Resumed);
        }
        self.settle(id, now);
        Ok(Controlled::Now(wanted))
    }

    fn purge(&mut self, id: &InvocationId, _now: u64) -> Result<bool, MetaError> {
        if let Some(row) = self.rows.get(id).filter(|row| row.status.is_end()) {
            self.gone.insert(id.clone(), row.epoch);
        }
        Ok(self.purge_ended(id))
    }

    fn send(&mut self, id: &InvocationId, mail: &NewMail<'_>, now: u64) -> Result<Sent, MetaError> {
        let Some(row) = self.rows.get(id) else { return Ok(Sent::Unknown) };
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
        self.keep_mail(id, mail.name(), mail.bytes(), mail.key(), now);
        Ok(Sent::New)
    }

    fn mail(&self, held: &Held, after: u64) -> Result<Vec<Mail>, MetaError> {
        self.held(held)?;
        Ok(Model::waiting(&self.mail, &held.id).filter(|mail| mail.number > after).cloned().collect())
    }

    fn mail_count(&self, id: &InvocationId) -> Result<u64, MetaError> {
        Ok(Model::waiting(&self.mail, id).count() as u64)
    }

    fn output_files(&self) -> Result<Vec<[u8; 32]>, MetaError> {
        Ok(self.hashes())
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
