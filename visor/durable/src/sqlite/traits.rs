//! The transactions of [`Sqlite`] as those of any store. They are methods of its own as well, as most programs have no other store.

use super::Sqlite;
use crate::meta::{Claim, Claimed, Commit, Committed, Controlled, Held, MetaError, NewInvocation, Started};
use crate::schedule::{DamagedSchedule, Defined, Definition, Fired, Schedule, ScheduleName, Schedules, Step};
use crate::served::{Bounds, Filter, Left, Output, Served, Tally};
use crate::versions::{Before, Look, Member, Moving, Versions};
use crate::{Child, Children, Invocation, InvocationId, Listed, Lost, Mail, Outbox, Status, Undelivered};

impl Children for Sqlite {
    fn children(&self, id: &InvocationId) -> Result<Vec<Child>, MetaError> {
        Sqlite::children(self, id)
    }

    fn started_by(&self, id: &InvocationId) -> Result<Option<(InvocationId, String)>, MetaError> {
        Sqlite::started_by(self, id)
    }

    fn relatives(&self, id: &InvocationId) -> Result<Vec<InvocationId>, MetaError> {
        Sqlite::relatives(self, id)
    }

    fn undelivered(&self, id: &InvocationId) -> Result<Vec<Lost>, MetaError> {
        Sqlite::undelivered(self, id)
    }
}

impl Served for Sqlite {
    fn start_suspended(
        &mut self,
        new: &NewInvocation<'_>,
        commit: &Commit,
        left: &Left,
        times: [u64; 2],
    ) -> Result<Started, MetaError> {
        Sqlite::start_suspended(self, new, commit, left, times)
    }

    fn start_running(
        &mut self,
        new: &NewInvocation<'_>,
        owner: &str,
        times: [u64; 2],
    ) -> Result<Option<Held>, MetaError> {
        Sqlite::start_running(self, new, owner, times)
    }

    fn claim_due(
        &mut self,
        owner: &str,
        now: u64,
        another: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Claimed>, MetaError> {
        Sqlite::claim_due(self, owner, now, another)
    }

    fn commit_with(&mut self, held: &Held, commit: &Commit, left: &Left, now: u64) -> Result<Committed, MetaError> {
        Sqlite::commit_with(self, held, commit, left, now)
    }

    fn commit_and_claim(
        &mut self,
        held: &Held,
        commit: &Commit,
        left: &Left,
        owner: &str,
        now: u64,
    ) -> Result<(Committed, Option<Claim>), MetaError> {
        Sqlite::commit_and_claim(self, held, commit, left, owner, now)
    }

    fn send_all(&mut self, sender: &InvocationId, sent: &Outbox, now: u64) -> Result<Vec<Undelivered>, MetaError> {
        Sqlite::send_all(self, sender, sent, now)
    }

    fn given(&self, held: &Held) -> Result<Vec<Mail>, MetaError> {
        Sqlite::given(self, held)
    }

    fn kill(&mut self, id: &InvocationId, now: u64) -> Result<Controlled, MetaError> {
        Sqlite::kill(self, id, now)
    }

    fn is_gone(&self, id: &InvocationId) -> Result<bool, MetaError> {
        Sqlite::is_gone(self, id)
    }

    fn knows_key(&self, id: &InvocationId, key: &str) -> Result<bool, MetaError> {
        Sqlite::knows_key(self, id, key)
    }

    fn beat(&mut self, id: &InvocationId, name: &str, now: u64) -> Result<(), MetaError> {
        Sqlite::beat(self, id, name, now)
    }

    fn outputs(&self, id: &InvocationId) -> Result<Vec<Output>, MetaError> {
        Sqlite::outputs(self, id)
    }

    fn printed(&self, id: &InvocationId) -> Result<Vec<Vec<u8>>, MetaError> {
        Sqlite::printed(self, id)
    }

    fn owed(&self) -> Result<Vec<InvocationId>, MetaError> {
        Sqlite::owed(self)
    }

    fn owed_to(&self, id: &InvocationId) -> Result<Option<String>, MetaError> {
        Sqlite::owed_to(self, id)
    }

    fn paid(&mut self, id: &InvocationId) -> Result<(), MetaError> {
        Sqlite::paid(self, id)
    }

    fn newest(&self, filter: &Filter, limit: usize) -> Result<Vec<Listed>, MetaError> {
        Sqlite::newest(self, filter, limit)
    }

    fn living(&self) -> Result<u64, MetaError> {
        Sqlite::living(self)
    }

    fn tally(&self, now: u64) -> Result<Tally, MetaError> {
        Sqlite::tally(self, now)
    }

    fn first_end(&self) -> Result<Option<u64>, MetaError> {
        Sqlite::first_end(self)
    }

    fn forget(&mut self, bounds: Bounds) -> Result<usize, MetaError> {
        Sqlite::forget(self, bounds)
    }
}

impl Schedules for Sqlite {
    fn define_schedule(
        &mut self,
        name: &ScheduleName,
        definition: &Definition,
        next: &mut dyn FnMut(u64) -> Option<u64>,
        now: u64,
    ) -> Result<Defined, MetaError> {
        Sqlite::define_schedule(self, name, definition, next, now)
    }

    fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, MetaError> {
        Sqlite::schedule(self, name)
    }

    fn schedules(&self) -> Result<Vec<Result<Schedule, DamagedSchedule>>, MetaError> {
        Sqlite::schedules(self)
    }

    fn stop_schedule(&mut self, name: &str, reason: &str) -> Result<(), MetaError> {
        Sqlite::stop_schedule(self, name, reason)
    }

    fn remove_schedule(&mut self, name: &str) -> Result<bool, MetaError> {
        Sqlite::remove_schedule(self, name)
    }

    fn next_look(&self) -> Result<Option<u64>, MetaError> {
        Sqlite::next_look(self)
    }

    fn due_schedule(&self, now: u64) -> Result<Option<Schedule>, MetaError> {
        Sqlite::due_schedule(self, now)
    }

    fn fire(
        &mut self,
        seen: &Schedule,
        step: Step,
        new: Option<&NewInvocation<'_>>,
        now: u64,
    ) -> Result<Fired, MetaError> {
        Sqlite::fire(self, seen, step, new, now)
    }

    fn put_off(&mut self, seen: &Schedule, reason: &str, look: u64) -> Result<(), MetaError> {
        Sqlite::put_off(self, seen, reason, look)
    }

    fn look_again(&mut self) -> Result<bool, MetaError> {
        Sqlite::look_again(self)
    }
}

impl Versions for Sqlite {
    fn registered(&mut self, workflow: &str, version: &str, now: u64) -> Result<(), MetaError> {
        Sqlite::registered(self, workflow, version, now)
    }

    fn registrations(&self, workflow: &str) -> Result<Vec<(String, u64)>, MetaError> {
        Sqlite::registrations(self, workflow)
    }

    fn each_member(
        &self,
        workflow: &str,
        look: &mut dyn FnMut(&InvocationId, Member<'_>) -> Result<(), MetaError>,
    ) -> Result<(), MetaError> {
        Sqlite::each_member(self, workflow, look)
    }

    fn living_members(&self, workflow: &str, after: &str, look: Look<'_>) -> Result<(), MetaError> {
        Sqlite::living_members(self, workflow, after, look)
    }

    fn claim_to_move(&mut self, owner: &str, id: &InvocationId, now: u64) -> Result<Moving, MetaError> {
        Sqlite::claim_to_move(self, owner, id, now)
    }

    fn commit_moved(
        &mut self,
        held: &Held,
        start: &[u8],
        commit: &Commit,
        left: &Left,
        now: u64,
    ) -> Result<Committed, MetaError> {
        Sqlite::commit_moved(self, held, start, commit, left, now)
    }

    fn give_back(&mut self, held: &Held, before: &Before, now: u64) -> Result<Status, MetaError> {
        Sqlite::give_back(self, held, before, now)
    }

    fn replace_start(&mut self, looked_at: &Invocation, start: &[u8], now: u64) -> Result<bool, MetaError> {
        Sqlite::replace_start(self, looked_at, start, now)
    }
}
