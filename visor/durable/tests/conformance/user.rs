//! A user of a store: it does steps, and looks at all that can be asked.

use crate::steps::{EVENTS, How, IDS, OWNERS, SCHEDULES, Step, WORKFLOWS, id};
use monohull_durable::{
    Before, Children, Claimed, Commit, Control, Fork, Held, Invocation, InvocationId, Left, Mail, Member, Meta, Moving,
    NewInvocation, NewMail, Schedule, Schedules, Served, Step as Due, Versions, Want,
};
use std::fmt::Debug;

/// All that a store does.
pub(crate) trait All: Meta + Children + Served + Schedules + Versions {}

impl<T: Meta + Children + Served + Schedules + Versions> All for T {}

/// A commit takes events by their places in what is given. Beyond those its numbers are another's, or none.
fn of_its_mail(commit: &Commit, given: &[Mail]) -> Commit {
    let mut commit = commit.clone();
    if let Commit::Suspended { taken, .. } | Commit::Checkpointed { taken, .. } = &mut commit {
        for number in taken {
            *number = given.get(*number as usize).map_or(*number, |mail| mail.number);
        }
    }
    commit
}

/// What a user of a store remembers: the newest first.
pub(crate) struct User {
    pub(crate) now: u64,
    claims: Vec<Held>,
    moves: Vec<(Held, Before)>,
    looked_at: Vec<Invocation>,
    seen: Vec<Schedule>,
}

impl User {
    pub(crate) fn new() -> User {
        User { now: 1, claims: Vec::new(), moves: Vec::new(), looked_at: Vec::new(), seen: Vec::new() }
    }

    fn claimed(&mut self, claim: &Claimed) {
        if let Claimed::Yes(claim) = claim {
            self.claims.insert(0, claim.held.clone());
        }
    }

    fn commit(&mut self, meta: &mut impl All, held: &Held, commit: &Commit, left: &Left, how: &How) -> String {
        let commit = &of_its_mail(commit, &meta.given(held).unwrap_or_default());
        let came = match how {
            How::Alone => meta.commit(held, commit, self.now).map(|committed| (committed, None)),
            How::With => meta.commit_with(held, commit, left, self.now).map(|committed| (committed, None)),
            How::AndClaim(owner) => meta.commit_and_claim(held, commit, left, OWNERS[*owner], self.now),
        };
        if let Ok((_, Some(claim))) = &came {
            self.claims.insert(0, claim.held.clone());
        }
        format!("{came:?}")
    }

    /// Does a step; what comes of it.
    pub(crate) fn run(&mut self, meta: &mut impl All, step: &Step) -> String {
        fn told(came: impl Debug) -> String {
            format!("{came:?}")
        }
        let now = self.now;
        match step {
            Step::Start { id: index, workflow, due } => {
                let workflow = WORKFLOWS[*workflow];
                let new = NewInvocation { id: &id(*index), workflow, start: workflow.as_bytes(), due: *due };
                told(meta.start(&new, now))
            }
            Step::StartSuspended { id: index, commit, left } => {
                let new = NewInvocation { id: &id(*index), workflow: "w", start: b"w", due: 3 };
                told(meta.start_suspended(&new, commit, left, [now / 2, now]))
            }
            Step::StartRunning { id: index, owner } => {
                let new = NewInvocation { id: &id(*index), workflow: "w", start: b"w", due: 3 };
                let held = meta.start_running(&new, OWNERS[*owner], [now / 2, now]);
                self.claims.splice(0..0, held.iter().flatten().cloned());
                told(held)
            }
            Step::ClaimDue { owner, most } => {
                let mut all = Vec::new();
                while all.len() < *most {
                    let mut more = *most - all.len();
                    let claimed = meta.claim_due(OWNERS[*owner], now, &mut || {
                        more -= 1;
                        more > 0
                    });
                    let claimed = claimed.expect("the database is whole");
                    claimed.iter().for_each(|claimed| self.claimed(claimed));
                    if claimed.is_empty() {
                        break;
                    }
                    all.extend(claimed);
                }
                told(all)
            }
            Step::Claim { owner, id: index } => {
                let claim = meta.claim(OWNERS[*owner], Want::Id(&id(*index)), now).expect("the database is whole");
                self.claimed(&claim);
                told(claim)
            }
            Step::Commit { claim, commit, left, how } => match self.claims.get(*claim).cloned() {
                Some(held) => self.commit(meta, &held, commit, left, how),
                None => String::new(),
            },
            Step::Leg { id: index, commit, left, how } => {
                let id = id(*index);
                let new = NewInvocation { id: &id, workflow: "w", start: b"w", due: now };
                let started = meta.start(&new, now);
                let resumed = meta.control(&id, Control::Resume, now);
                let due = meta.get(&id).expect("the database is whole").and_then(|row| row.due);
                self.now = now.max(due.unwrap_or(now));
                let claimed = meta.claim(OWNERS[0], Want::Id(&id), self.now).expect("the database is whole");
                let committed = match &claimed {
                    Claimed::Yes(claim) => self.commit(meta, &claim.held.clone(), commit, left, how),
                    _ => String::new(),
                };
                told((started, resumed, claimed, committed))
            }
            Step::Expire { owner } => told(meta.expire(OWNERS[*owner], now)),
            Step::Control { id: index, control } => told(meta.control(&id(*index), *control, now)),
            Step::Purge { id: index } => told(meta.purge(&id(*index), now)),
            Step::End { id: index } => told(meta.kill(&id(*index), now)),
            Step::Beat { id: index, event } => told(meta.beat(&id(*index), EVENTS[*event], now)),
            Step::Send { id: index, event, bytes, key } => {
                let (bytes, key) = (vec![7; *bytes], key.map(|key| ["k", "l", "m"][key]));
                let mail = NewMail::new(EVENTS[*event], &bytes, key).expect("it can be sent");
                told(meta.send(&id(*index), &mail, now))
            }
            Step::SendAll { id: index, sent } => told(meta.send_all(&id(*index), sent, now)),
            Step::Mail { claim, after } => match self.claims.get(*claim) {
                Some(held) => told((meta.mail(held, *after), meta.given(held))),
                None => String::new(),
            },
            Step::Keep { id: index, checkpoints } => told(meta.keep(&id(*index), *checkpoints)),
            Step::Fork { id: index, at, copies, paused } => {
                let copies: Vec<_> = copies.iter().map(|index| id(*index)).collect();
                told(meta.fork(Fork { id: &id(*index), at: *at, copies: &copies, paused: *paused }, now))
            }
            Step::Rewind { id: index, to, paused } => told(meta.rewind(&id(*index), *to, *paused, now)),
            Step::List { statuses, after, limit } => {
                let after = after.map(id);
                told(meta.list(statuses, after.as_ref().map_or("", InvocationId::as_str), *limit))
            }
            Step::Newest { filter, limit } => told(meta.newest(filter, *limit)),
            Step::Paid { id: index } => told(meta.paid(&id(*index))),
            Step::Forget { bounds } => told(meta.forget(*bounds)),
            Step::Define { name, definition, next } => {
                let name = SCHEDULES[*name].parse().expect("a name");
                let mut after = |time: u64| next.map(|next| time + next);
                let defined = meta.define_schedule(&name, definition, &mut after, now);
                self.seen.splice(0..0, meta.schedule(&name).expect("the database is whole"));
                told(defined)
            }
            Step::Fire { seen, id: index, starts } => {
                let Some(seen) = self.seen.get(*seen) else { return String::new() };
                let step = Due { start: seen.next, next: seen.next.map(|next| next + 50) };
                let new = NewInvocation { id: &id(*index), workflow: "w", start: b"w", due: now };
                told(meta.fire(seen, step, starts.then_some(&new), now))
            }
            Step::PutOff { seen, by } => match self.seen.get(*seen) {
                Some(seen) => told(meta.put_off(seen, "no room", now + by)),
                None => String::new(),
            },
            Step::LookAgain => told(meta.look_again()),
            Step::StopSchedule { name } => told(meta.stop_schedule(SCHEDULES[*name], "damaged")),
            Step::RemoveSchedule { name } => told(meta.remove_schedule(SCHEDULES[*name])),
            Step::Registered { workflow, version } => {
                told(meta.registered(WORKFLOWS[*workflow], ["1", "2", "3"][*version], now))
            }
            Step::ClaimToMove { owner, id: index } => {
                let moving = meta.claim_to_move(OWNERS[*owner], &id(*index), now).expect("the database is whole");
                let moving_told = told(&moving);
                match moving {
                    Moving::Claimed(claim, before) => {
                        self.claims.insert(0, claim.held.clone());
                        self.moves.insert(0, (claim.held, before));
                    }
                    Moving::NotBegun(row) => self.looked_at.insert(0, *row),
                    Moving::Refused(_) | Moving::Unknown => {}
                }
                moving_told
            }
            Step::CommitMoved { claim, commit, left } => match self.claims.get(*claim) {
                Some(held) => {
                    let commit = &of_its_mail(commit, &meta.given(held).unwrap_or_default());
                    told(meta.commit_moved(held, b"moved", commit, left, now))
                }
                None => String::new(),
            },
            Step::GiveBack { moved } => match self.moves.get(*moved) {
                Some((held, before)) => told(meta.give_back(held, before, now)),
                None => String::new(),
            },
            Step::ReplaceStart { looked_at } => match self.looked_at.get(*looked_at) {
                Some(row) => told(meta.replace_start(row, b"moved", now)),
                None => String::new(),
            },
            Step::Pass { ns } => {
                self.now += ns;
                String::new()
            }
            Step::Kill => String::new(),
        }
    }

    /// All that can be asked, and what is due is remembered.
    pub(crate) fn look(&mut self, meta: &impl All) -> String {
        let whole = "the database is whole";
        let rows: Vec<_> =
            meta.list(&[], "", usize::MAX).expect(whole).into_iter().map(|row| row.expect(whole)).collect();
        let mut ids: Vec<_> = (0..IDS).map(id).chain(rows.iter().map(|row| row.id.clone())).collect();
        ids.sort();
        ids.dedup();
        let of = |id: &InvocationId| {
            let mut relatives = meta.relatives(id).expect(whole);
            relatives.sort();
            let histories = (meta.history(id), meta.lineage(id), meta.forks(id, 2));
            let left = (meta.outputs(id), meta.printed(id), meta.owed_to(id));
            let known = (meta.is_gone(id), meta.knows_key(id, "k"));
            let timeline = (meta.timeline(id, u64::MAX, usize::MAX), meta.timeline(id, 3, 2));
            format!(
                "{id} {known:?} {:?} {histories:?} {:?} {relatives:?} {left:?} {timeline:?}",
                meta.mail_count(id),
                meta.family(id)
            )
        };
        let of: Vec<_> = ids.iter().map(of).collect();
        let mut members = Vec::new();
        let each = |id: &InvocationId, member: Member<'_>| {
            members.push(format!("{id} {member:?}"));
            Ok(())
        };
        meta.each_member("w", &mut { each }).expect(whole);
        members.sort();
        let mut living = Vec::new();
        let look = |id: &InvocationId, member: Member<'_>| {
            living.push(format!("{id} {member:?}"));
            Ok(living.len() < 3)
        };
        meta.living_members("w", "a", &mut { look }).expect(whole);
        let mut files = meta.output_files().expect(whole);
        files.sort();
        files.dedup();
        let due = meta.due_schedule(self.now).expect(whole);
        self.seen.splice(0..0, due.clone());
        format!(
            "{rows:#?} {of:#?} {members:?} {living:?} {files:?} {due:?} {:?} {:?} {:?} {:?}",
            (meta.files(), meta.owners(), meta.next_due(), meta.owed()),
            (meta.schedules(), meta.next_look(), meta.registrations("w")),
            (meta.living(), meta.tally(self.now), meta.first_end()),
            meta.get(&id(0)),
        )
    }
}
