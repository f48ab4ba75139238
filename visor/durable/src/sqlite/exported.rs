//! An invocation leaves the store as one file, or comes into it.

use super::history::{self, kept_at, lineage};
use super::{SERVED, Sqlite, find, mail, told};
use crate::history::{Branched, Lineage, has_branches};
use crate::{Exported, Happened, InvocationId, MetaError, Started, Status};
use rusqlite::params;

impl Sqlite {
    /// Whether it is a server's.
    fn is_served(&self) -> Result<bool, MetaError> {
        let application: i64 = self.connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        Ok(application == SERVED)
    }

    /// An invocation that waits, is paused or has failed, as it goes on from this checkpoint; without a number the newest.
    pub fn export(&self, id: &InvocationId, at: Option<u64>) -> Result<Branched<Box<Exported>>, MetaError> {
        let transaction = self.connection.unchecked_transaction()?;
        let Some(row) = find(&transaction, id)? else { return Ok(Branched::Unknown) };
        if !has_branches(row.status) {
            return Ok(Branched::Refused(row.status));
        }
        let Some(kept) = kept_at(&transaction, id, at.unwrap_or(row.generation))? else {
            return Ok(Branched::NoCheckpoint(history::generations(&transaction, id)?));
        };
        let waits_in_it = row.status != Status::Failed && kept.generation == row.generation;
        let told = if waits_in_it { told::of(&transaction, id, kept.generation)? } else { None };
        let Lineage { copy, copies, keep, .. } = lineage(&transaction, id)?;
        let mail = mail::export(&transaction, id, self.key.is_none())?;
        let printed = self.printed(id)?;
        Ok(Branched::Done(Box::new(Exported {
            id: id.to_string(),
            served: self.is_served()?,
            workflow: row.workflow,
            started: row.started,
            start: row.start,
            kept,
            waits_in_it,
            told,
            copy: (copy, copies, keep),
            mail,
            printed,
        })))
    }

    /// Adds an invocation that has left another store, or this one. The name of its checkpoint's file is that of one in this store, and `start` is what this
    /// store's caller makes of its start. The caller prevents that files are removed meanwhile ([`Store::adding`](crate::Store::adding)).
    pub fn import(
        &mut self,
        id: &InvocationId,
        from: &Exported,
        start: &[u8],
        paused: bool,
        now: u64,
    ) -> Result<Started, MetaError> {
        let transaction = self.begin()?;
        if find(&transaction, id)?.is_some() {
            return Ok(Started::Taken);
        }
        let kept = if from.waits_in_it { from.kept.clone() } else { from.kept.clone().anew(now) };
        let of = (from.workflow.as_str(), start);
        let came = (Happened::Imported, "");
        history::add(&transaction, id, of, &kept, (paused, from.started, now), came)?;
        let (copy, copies, keep) = from.copy;
        history::set(&transaction, id, &Lineage { copy, copies, keep, ..Lineage::default() })?;
        history::insert(&transaction, id, &kept, from.told.as_deref())?;
        mail::import(&transaction, id, &from.mail)?;
        for printed in from.printed.iter().filter(|printed| !printed.is_empty()) {
            transaction
                .prepare_cached("INSERT INTO printed (id, bytes) VALUES (?1, encrypted(?2, 'printed', ?1))")?
                .execute(params![id.as_str(), printed])?;
        }
        if !from.waits_in_it {
            super::branches::tell_again(&transaction, id, id, &kept.waits, now)?;
        }
        // An event that it waits for may have come with it.
        if let Some(before) = find(&transaction, id)? {
            let mut row = before.clone();
            mail::take(&transaction, &mut row, &[], now)?;
            super::store(&transaction, &before, &row, None)?;
        }
        transaction.commit()?;
        Ok(Started::New)
    }
}
