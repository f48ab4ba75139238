//! What the transactions on children, and what a commit sends, mean in memory.

use super::model::Model;
use monohull_abi::branch::{CHECKPOINT_EVENT, FORK_EVENT};
use monohull_abi::child::{CHILD_DEPTH_MAX, CHILD_EVENT, Ending};
use monohull_durable::{
    Child, Children, Copied, Happened, Invocation, InvocationId, Lost, Mail, Meta, MetaError, NewInvocation, NewMail,
    Outbox, Outcome, Sent, Status, Undelivered, Wait, WhyUndelivered,
};
use monohull_report::{Outgoing, What, child_invocation};
use std::collections::BTreeSet;

/// What a parent knows of a child.
#[derive(Clone)]
pub(crate) struct Known {
    parent: InvocationId,
    name: String,
    id: InvocationId,
    workflow: String,
    input: Vec<u8>,
    detached: bool,
    depth: u32,
    /// The generation of the parent that has started it.
    since: u64,
    /// From this one on the parent does not know of it.
    gone: Option<u64>,
    /// The one that has taken its end.
    joined: Option<u64>,
    ending: Option<Ending>,
    outcome: Option<Vec<u8>>,
    /// It was removed when it had ended.
    removed: bool,
}

impl Known {
    /// Whether a parent had this child, which is not detached, at a generation.
    fn was_there(&self, parent: &InvocationId, at: u64) -> bool {
        self.parent == *parent && !self.detached && self.since <= at && self.gone.is_none_or(|gone| gone > at)
    }

    /// What is told of one that has ended, and whose end was not taken.
    fn untold(&self) -> Option<Vec<u8>> {
        let ending = self.ending.filter(|_| !self.detached && self.gone.is_none() && self.joined.is_none())?;
        Some(match (&self.outcome, ending) {
            (Some(bytes), _) => bytes.clone(),
            (None, Ending::Completed) => {
                Outcome::without_outputs(Ending::TooLarge, "its outputs are not kept any more")
            }
            (None, ending) => Outcome::without_outputs(ending, ""),
        })
    }

    /// An invocation has taken this event: what is told behind it, if it was only that another child of the name was refused.
    pub(crate) fn joined(
        children: &mut [Known],
        parent: &InvocationId,
        event: &Mail,
        generation: u64,
    ) -> Option<Vec<u8>> {
        let name = event.name.strip_prefix(CHILD_EVENT)?;
        let known = children.iter_mut().find(|known| known.parent == *parent && known.name == name)?;
        let is_refusal = event.bytes.first() == Some(&(Ending::Refused as u8));
        if is_refusal && known.ending != Some(Ending::Refused) {
            return known.untold();
        }
        known.joined = Some(generation);
        None
    }
}

impl Model {
    /// What is known of an invocation by the one that has started it.
    fn started(&self, id: &InvocationId) -> Option<usize> {
        self.children.iter().position(|known| known.id == *id && !known.removed)
    }

    fn named(&self, parent: &InvocationId, name: &str) -> Option<usize> {
        self.children.iter().position(|known| known.parent == *parent && known.name == name)
    }

    fn all_of(&self, is_it: impl Fn(&Known) -> bool) -> Vec<usize> {
        (0..self.children.len()).filter(|index| is_it(&self.children[*index])).collect()
    }

    fn tell(&mut self, index: usize, now: u64) {
        let known = &self.children[index];
        if let Some(bytes) = known.untold() {
            let (parent, name) = (known.parent.clone(), format!("{CHILD_EVENT}{}", known.name));
            self.deliver(&parent, &name, &bytes, now);
        }
    }

    /// What is to be told of an invocation that the next commit ends.
    pub(crate) fn prepare(&mut self, id: &InvocationId, well: bool, outcome: &Outcome) {
        let Some(index) = self.started(id).filter(|index| self.children[*index].ending.is_none()) else { return };
        let ending = if well { Ending::Completed } else { Ending::Failed };
        self.children[index].outcome = Some(outcome.encode(ending));
    }

    /// An invocation has ended: those that know it as a child are told, and its children are cancelled.
    pub(crate) fn ended(&mut self, id: &InvocationId, status: Status, now: u64) {
        let ending = match status {
            Status::Completed => Ending::Completed,
            Status::Failed => Ending::Failed,
            _ => Ending::Cancelled,
        };
        for index in self.all_of(|known| known.id == *id && known.ending.is_none() && !known.removed) {
            let known = &mut self.children[index];
            known.ending = Some(ending);
            if ending == Ending::Cancelled {
                known.outcome = None;
            }
            self.tell(index, now);
        }
        for index in self.all_of(|known| known.parent == *id && known.ending.is_none() && !known.detached) {
            let child = self.children[index].id.clone();
            self.cancel_child(&child, "its parent has ended", now);
        }
    }

    fn cancel_child(&mut self, id: &InvocationId, reason: &str, now: u64) {
        if !self.lives(id) || self.tell_to_end(id, now) {
            return;
        }
        let row = self.rows.get_mut(id).expect("it lives");
        row.changed = now;
        if row.status == Status::Running {
            row.wanted = Some(Status::Cancelled);
            return;
        }
        (row.status, row.reason) = (Status::Cancelled, Some(reason.to_owned()));
        self.note_now(id, None, Happened::Cancelled);
        self.settle(id, now);
    }

    /// A copy has children of its own in the place of those that had not ended.
    pub(crate) fn copied(&mut self, original: &InvocationId, copy: &InvocationId, at: u64, now: u64) {
        for index in self.all_of(|known| known.was_there(original, at)) {
            let known = self.children[index].clone();
            let joined = known.joined.filter(|joined| *joined <= at);
            let mut own = Known { parent: copy.clone(), gone: None, joined, ..known };
            if own.ending.is_none() {
                let id: InvocationId = child_invocation(copy.as_str(), &own.name).parse().expect("a name");
                match (self.rows.get(&own.id).cloned(), self.rows.contains_key(&id)) {
                    (Some(model), false) => {
                        let new = NewInvocation { id: &id, workflow: &model.workflow, start: &model.start, due: now };
                        self.insert(&new, now);
                    }
                    _ => {
                        let why = format!("there is an invocation `{id}` already, or no start any more");
                        own.ending = Some(Ending::Refused);
                        own.outcome = Some(Outcome::without_outputs(Ending::Refused, &why));
                    }
                }
                own.id = id;
            }
            self.children.push(own);
            self.tell(self.children.len() - 1, now);
        }
    }

    /// An invocation went back: it is told again what it has taken since, and does not know what it has started since.
    pub(crate) fn rewound(&mut self, id: &InvocationId, to: u64, generation: u64, now: u64) {
        for known in self.children.iter_mut().filter(|known| known.parent == *id) {
            if known.since > to {
                known.gone = known.gone.or(Some(generation));
            } else {
                known.gone = known.gone.filter(|gone| *gone <= to);
            }
            known.joined = known.joined.filter(|joined| *joined <= to);
        }
        for index in self.all_of(|known| known.parent == *id) {
            self.tell(index, now);
        }
    }

    pub(crate) fn forget_children(&mut self, id: &InvocationId) {
        let rows = &self.rows;
        let is_elsewhere =
            |child: &InvocationId| self.children.iter().any(|other| other.id == *child && other.parent != *id);
        let is_orphan = |known: &&Known| {
            let is_own = known.parent == *id && !known.removed && known.ending != Some(Ending::Refused);
            is_own && rows.contains_key(&known.id) && !is_elsewhere(&known.id)
        };
        let orphans: Vec<_> =
            self.children.iter().filter(is_orphan).map(|known| (known.id.clone(), known.depth)).collect();
        self.orphans.extend(orphans);
        self.children.retain(|known| known.parent != *id);
        self.orphans.remove(id);
        self.children.retain(|known| known.id != *id || rows.contains_key(&known.parent));
        self.children.iter_mut().filter(|known| known.id == *id).for_each(|known| known.removed = true);
    }

    /// Children that have ended, and whose parent was removed, make room for those that another parent of its name starts, and for those of its copies.
    fn make_room(&mut self, parent: &InvocationId, outbox: &Outbox) {
        let mut started = Vec::new();
        for event in &outbox.events {
            match event.what {
                What::Start { detached } => {
                    self.make_room_for(parent, &event.to);
                    started.extend((!detached).then(|| event.to.clone()));
                }
                What::Fork { copies } => {
                    let Some(row) = self.rows.get(parent).filter(|row| !row.status.is_end()).cloned() else { continue };
                    let (ids, were_made) = self.ids_of_copies(&row, &event.to, copies);
                    if !were_made {
                        self.make_room_for_copies(parent, row.generation, &ids, &started);
                    }
                }
                _ => {}
            }
        }
    }

    /// The same for those of copies that are not there yet: of an invocation as it was then, with these further children.
    pub(crate) fn make_room_for_copies(
        &mut self,
        original: &InvocationId,
        at: u64,
        copies: &[InvocationId],
        more: &[String],
    ) {
        let living = self.all_of(|known| known.was_there(original, at) && known.ending.is_none());
        let mut names: Vec<_> = living.into_iter().map(|index| self.children[index].name.clone()).collect();
        names.extend_from_slice(more);
        for copy in copies {
            if !self.rows.contains_key(copy) {
                names.iter().for_each(|name| self.make_room_for(copy, name));
            }
        }
    }

    fn make_room_for(&mut self, parent: &InvocationId, name: &str) {
        let child = child_invocation(parent.as_str(), name).parse().expect("a name");
        if self.orphans.contains_key(&child) {
            self.purge_ended(&child);
        }
    }

    fn depth(&self, id: &InvocationId) -> u32 {
        let known = self.started(id).map(|index| self.children[index].depth);
        known.or(self.orphans.get(id).copied()).unwrap_or(0)
    }

    fn start_child(
        &mut self,
        parent: &InvocationId,
        asked: &Outgoing,
        detached: bool,
        start: &Result<Vec<u8>, String>,
        now: u64,
    ) -> Option<WhyUndelivered> {
        let since = self.rows.get(parent).map_or(0, |row| row.generation);
        if let Some(index) = self.named(parent, &asked.to) {
            let known = &mut self.children[index];
            if (&known.workflow, &known.input, known.detached) != (&asked.name, &asked.bytes, detached) {
                let why = "its id is that of another child, with another workflow or input".to_owned();
                return self.refuse(parent, asked, detached, why, now);
            }
            if known.gone.take().is_some() {
                known.since = since;
            }
            known.joined = None;
            self.tell(index, now);
            return None;
        }
        if !self.lives(parent) && !detached {
            return None;
        }
        let id: InvocationId = child_invocation(parent.as_str(), &asked.to).parse().expect("a name");
        let depth = self.depth(parent) + 1;
        let start = match start {
            Ok(start) if depth <= CHILD_DEPTH_MAX && !self.rows.contains_key(&id) => start,
            Err(why) => return self.refuse(parent, asked, detached, why.clone(), now),
            Ok(_) => {
                let deep = format!("there are {CHILD_DEPTH_MAX} invocations above it, as many as may be");
                let there = format!("there is an invocation `{id}` already");
                let why = if depth > CHILD_DEPTH_MAX { deep } else { there };
                return self.refuse(parent, asked, detached, why, now);
            }
        };
        self.insert(&NewInvocation { id: &id, workflow: &asked.name, start, due: now }, now);
        self.children.push(Known {
            parent: parent.clone(),
            name: asked.to.clone(),
            id,
            workflow: asked.name.clone(),
            input: asked.bytes.clone(),
            detached,
            depth,
            since,
            gone: None,
            joined: None,
            ending: None,
            outcome: None,
            removed: false,
        });
        None
    }

    fn refuse(
        &mut self,
        parent: &InvocationId,
        asked: &Outgoing,
        detached: bool,
        why: String,
        now: u64,
    ) -> Option<WhyUndelivered> {
        if !detached {
            let told = Outcome::without_outputs(Ending::Refused, &why);
            let name = format!("{CHILD_EVENT}{}", asked.to);
            let refusal = Some(&(Ending::Refused as u8));
            let waits =
                Model::waiting(&self.mail, parent).any(|mail| mail.name == name && mail.bytes.first() == refusal);
            if self.lives(parent) && !waits {
                self.keep_mail(parent, &name, &told, None, now);
            }
        }
        Some(WhyUndelivered::NotStarted(why))
    }

    fn label(&mut self, id: &InvocationId, asked: &Outgoing, now: u64) {
        let Some(row) = self.rows.get(id).filter(|row| !row.status.is_end()) else { return };
        let place = (id.clone(), row.generation);
        if let Some(kept) = self.history.get_mut(&place) {
            kept.label = Some(asked.name.clone());
        }
        if self.told.get(&place) != Some(&asked.to) {
            self.deliver(id, &asked.to, &[0], now);
        }
    }

    /// The ids of the copies that an invocation makes with this event, and whether it has made them before.
    fn ids_of_copies(&self, row: &Invocation, event: &str, copies: u32) -> (Vec<InvocationId>, bool) {
        let (id, place) = (&row.id, event.strip_prefix(FORK_EVENT).expect("it is one of a fork"));
        let of_this = format!("{id}, started {}", row.started);
        let hashed = |number| child_invocation(&of_this, &format!("{place}-{number}")).parse().expect("a name");
        let plain: Vec<InvocationId> =
            (1..=copies).map(|number| format!("{id}-{place}-{number}").parse().expect("a name")).collect();
        let others: Vec<InvocationId> = (1..=copies).map(hashed).collect();
        let is_own = |ids: &[InvocationId]| self.rows.contains_key(&ids[0]) && self.is_copy(&ids[0], id);
        let were_made = is_own(&plain) || is_own(&others);
        let is_plain = is_own(&plain) || !is_own(&others) && !self.rows.contains_key(&plain[0]);
        (if is_plain { plain } else { others }, were_made)
    }

    fn fork_self(
        &mut self,
        id: &InvocationId,
        asked: &Outgoing,
        (copies, all): (u32, &mut Vec<(InvocationId, String)>),
        room: Option<u64>,
        now: u64,
    ) -> Option<WhyUndelivered> {
        let row = self.rows.get(id).filter(|row| !row.status.is_end())?.clone();
        let kept = self.newest_checkpoint(&row)?;
        let (ids, were_made) = self.ids_of_copies(&row, &asked.to, copies);
        if were_made {
            self.deliver(id, &asked.to, original(&ids).as_bytes(), now);
            return None;
        }
        let left = room.map(|room| room.saturating_sub(all.len() as u64));
        if let Some(room) = left.filter(|left| *left < u64::from(copies)) {
            let why = format!("there is room for {room} more invocations");
            self.deliver(id, &asked.to, format!("refused\n{why}").as_bytes(), now);
            return Some(WhyUndelivered::NotStarted(why));
        }
        let made = self.copy(&row, &kept, &ids, false, now);
        let mut whole = Vec::new();
        for (index, copy) in ids.iter().enumerate().filter(|(index, _)| made[*index] != Copied::Taken) {
            self.deliver(copy, &asked.to, format!("copy\n{}", index + 1).as_bytes(), now);
            all.push((copy.clone(), asked.to.clone()));
            whole.push(copy.clone());
        }
        self.note_copies(id, kept.generation, &whole.iter().collect::<Vec<_>>(), now);
        self.deliver(id, &asked.to, original(&whole).as_bytes(), now);
        None
    }

    /// Tells one that goes on from a checkpoint once more what it waits for there. The copies were made of the other one.
    pub(crate) fn tell_again(&mut self, id: &InvocationId, of: &InvocationId, waits: &[Wait], now: u64) {
        for event in waits.iter().filter_map(|wait| wait.event.as_deref()) {
            if event.starts_with(CHECKPOINT_EVENT) {
                self.deliver(id, event, &[1], now);
            } else if let Some(place) = event.strip_prefix(FORK_EVENT) {
                let is_copy = |copy: &InvocationId| copy.as_str().contains(place) && self.is_copy(copy, of);
                let mut copies: Vec<_> = self.lineage.keys().filter(|copy| is_copy(copy)).cloned().collect();
                copies.sort_by_key(|copy| self.of(copy).copy);
                self.deliver(id, event, original(&copies).as_bytes(), now);
            }
        }
    }

    fn send_one(
        &mut self,
        sender: &InvocationId,
        outbox: &Outbox,
        event: &Outgoing,
        now: u64,
    ) -> Result<Option<WhyUndelivered>, MetaError> {
        let receiver = event.to.parse::<InvocationId>().ok().filter(|to| self.rows.contains_key(to));
        let Some(to) = receiver else { return Ok(Some(WhyUndelivered::Unknown)) };
        let started = self.rows.get(sender).map_or(now, |row| row.started);
        let key = Outbox::key(sender, started, event);
        let mail = NewMail::new(&event.name, &event.bytes, Some(&key));
        let Some(mail) = mail.ok().filter(|_| outbox.permits(&self.rows[&to].workflow)) else {
            return Ok(Some(WhyUndelivered::NotPermitted));
        };
        Ok(match self.send(&to, &mail, now)? {
            Sent::New | Sent::Duplicate => None,
            Sent::KeyTaken => Some(WhyUndelivered::KeyTaken),
            Sent::Full => Some(WhyUndelivered::Full),
            Sent::Ended(_) => Some(WhyUndelivered::Ended),
            Sent::Unknown => Some(WhyUndelivered::Unknown),
        })
    }

    /// Sends what is in an outbox; what is not sent.
    pub(crate) fn send_outbox(
        &mut self,
        sender: &InvocationId,
        outbox: &Outbox,
        now: u64,
    ) -> Result<Vec<Undelivered>, MetaError> {
        self.make_room(sender, outbox);
        let mut starts = outbox.starts.iter();
        let (mut undelivered, mut copies_made) = (Vec::new(), Vec::new());
        for event in &outbox.events {
            let why = match event.what {
                What::Event => self.send_one(sender, outbox, event, now)?,
                What::Start { detached } => {
                    let start = starts.next().expect("one for each");
                    self.start_child(sender, event, detached, start, now)
                }
                What::Cancel => match self.named(sender, &event.to) {
                    None => Some(WhyUndelivered::Unknown),
                    Some(index) => {
                        let known = self.children[index].clone();
                        if known.ending.is_none() {
                            self.cancel_child(&known.id, "by its parent", now);
                        }
                        None
                    }
                },
                What::Checkpoint => {
                    self.label(sender, event, now);
                    None
                }
                What::Fork { copies } => self.fork_self(sender, event, (copies, &mut copies_made), outbox.room, now),
            };
            let (what, to, name) = (event.what, event.to.clone(), event.name.clone());
            undelivered.extend(why.map(|why| Undelivered { what, to, name, why }));
        }
        for (copy, event) in &copies_made {
            let kept = self.rows.get(sender).and_then(|row| self.newest_checkpoint(row));
            let others = kept.map_or_else(Vec::new, |kept| kept.waits);
            let others: Vec<_> = others.into_iter().filter(|wait| wait.event.as_ref() != Some(event)).collect();
            self.tell_again(copy, sender, &others, now);
        }
        Ok(undelivered)
    }

    /// Keeps what a commit could not send.
    pub(crate) fn lose(&mut self, id: &InvocationId, undelivered: &[Undelivered], now: u64) {
        for Undelivered { what, to, name, why } in undelivered {
            let what = match what {
                What::Event => "event",
                What::Start { .. } => "start",
                What::Cancel => "cancel",
                What::Checkpoint => "checkpoint",
                What::Fork { .. } => "fork",
            };
            let lost = Lost { at: now, what, to: to.clone(), name: name.clone(), why: why.to_string() };
            self.lost.entry(id.clone()).or_default().push(lost);
        }
    }
}

fn original(ids: &[InvocationId]) -> String {
    ids.iter().fold("original".to_owned(), |text, id| text + "\n" + id.as_str())
}

impl Children for Model {
    fn children(&self, id: &InvocationId) -> Result<Vec<Child>, MetaError> {
        let known = self.children.iter().filter(|known| known.parent == *id && known.gone.is_none());
        let child = |known: &Known| Child {
            name: known.name.clone(),
            id: known.id.clone(),
            workflow: known.workflow.clone(),
            detached: known.detached,
            status: self.rows.get(&known.id).filter(|_| !known.removed).map(|row| row.status),
            joined: known.joined.is_some(),
        };
        Ok(known.map(child).collect())
    }

    fn started_by(&self, id: &InvocationId) -> Result<Option<(InvocationId, String)>, MetaError> {
        let known = self.started(id).map(|index| &self.children[index]);
        Ok(known.map(|known| (known.parent.clone(), known.name.clone())))
    }

    fn relatives(&self, id: &InvocationId) -> Result<Vec<InvocationId>, MetaError> {
        let mut found = BTreeSet::new();
        let mut look_at = vec![id.clone()];
        while let Some(parent) = look_at.pop() {
            for known in self.children.iter().filter(|known| known.parent == parent && !known.removed) {
                if found.insert(known.id.clone()) {
                    look_at.push(known.id.clone());
                }
            }
        }
        let above = self.children.iter().filter(|known| known.id == *id && !known.removed);
        found.extend(above.map(|known| known.parent.clone()));
        Ok(found.into_iter().collect())
    }

    fn undelivered(&self, id: &InvocationId) -> Result<Vec<Lost>, MetaError> {
        Ok(self.lost.get(id).cloned().unwrap_or_default())
    }
}
