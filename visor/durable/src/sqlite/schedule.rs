//! Schedules in the SQLite file: a row for each.

use super::{Sqlite, find, insert, integer, time};
use crate::meta::{MetaError, NewInvocation};
use crate::schedule::{DamagedSchedule, Defined, Definition, Fired, Missed, Schedule, ScheduleName, Step};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// `look` is when a row is looked at next: at its next due time, or later if that could not be started.
pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS schedule (
        name     TEXT    PRIMARY KEY,
        workflow TEXT    NOT NULL,
        cron     TEXT    NOT NULL,
        zone     TEXT    NOT NULL,
        missed   INTEGER NOT NULL,
        inputs   BLOB    NOT NULL,
        paused   INTEGER NOT NULL,
        changed  INTEGER NOT NULL,
        next     INTEGER,
        last     INTEGER,
        look     INTEGER,
        reason   TEXT
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS looked_at ON schedule (look, name) WHERE look IS NOT NULL;
";

/// The columns, in the order in which [`read`] takes them.
const COLUMNS: &str =
    "name, workflow, cron, zone, missed, decrypted(inputs, 'inputs', name), paused, changed, next, last, reason";
/// Those of a definition, as they are written.
const WRITTEN: &str = "name, workflow, cron, zone, missed, inputs, paused, changed, next, last, reason";

impl Sqlite {
    /// Defines a schedule, whose next due time is `next`. A definition that is there already is left as it is; another one begins
    /// anew, but no due time that has an invocation comes again: `next` is asked for a time after the last one.
    pub fn define_schedule(
        &mut self,
        name: &ScheduleName,
        definition: &Definition,
        next: impl FnOnce(u64) -> Option<u64>,
        now: u64,
    ) -> Result<Defined, MetaError> {
        let transaction = self.begin()?;
        // One that is damaged is replaced.
        let there = match one(&transaction, name) {
            Err(MetaError::Schedule { .. }) => None,
            there => there?,
        };
        if there.as_ref().is_some_and(|there| there.definition == *definition) {
            return Ok(Defined::Same);
        }
        let last = there.as_ref().and_then(|there| there.last);
        let next = if definition.paused { None } else { next(last.unwrap_or(0).max(now)) };
        transaction.execute(
            &format!(
                "INSERT OR REPLACE INTO schedule ({WRITTEN}, look) VALUES (?1, ?2, ?3, ?4, ?5, encrypted(?6, 'inputs', ?1), ?7, ?8, \
                 ?9, ?10, NULL, ?9)"
            ),
            params![
                name.as_str(),
                definition.workflow,
                definition.cron,
                definition.zone,
                number(definition.missed),
                definition.inputs,
                definition.paused,
                integer(now),
                next.map(integer),
                last.map(integer),
            ],
        )?;
        transaction.commit()?;
        Ok(if there.is_some() { Defined::Changed } else { Defined::New })
    }

    /// A schedule.
    pub fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, MetaError> {
        one(&self.connection, name)
    }

    /// All schedules, by name, also those whose rows are damaged.
    pub fn schedules(&self) -> Result<Vec<Result<Schedule, DamagedSchedule>>, MetaError> {
        let mut query =
            self.connection.prepare_cached("SELECT name, workflow, cron, zone, changed FROM schedule ORDER BY name")?;
        let mut rows = query.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            match by_name(&self.connection, &name) {
                Ok(schedule) => found.extend(schedule.map(Ok)),
                Err(MetaError::Schedule { what, .. }) => {
                    let (workflow, cron, zone) = (row.get(1)?, row.get(2)?, row.get(3)?);
                    found.push(Err(DamagedSchedule { name, workflow, cron, zone, changed: time(row.get(4)?), what }));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// A schedule whose row is damaged, whatever its name is, is not looked at any more.
    pub fn stop_schedule(&mut self, name: &str, reason: &str) -> Result<(), MetaError> {
        self.connection.execute("UPDATE schedule SET look = NULL, reason = ?2 WHERE name = ?1", [name, reason])?;
        Ok(())
    }

    /// Removes a schedule, whatever its name is; whether there was one. What it has started goes on.
    pub fn remove_schedule(&mut self, name: &str) -> Result<bool, MetaError> {
        Ok(self.connection.execute("DELETE FROM schedule WHERE name = ?1", [name])? > 0)
    }

    /// When the first schedule is to be looked at.
    pub fn next_look(&self) -> Result<Option<u64>, MetaError> {
        let query = "SELECT look FROM schedule WHERE look IS NOT NULL ORDER BY look LIMIT 1";
        let look: Option<i64> = self.connection.prepare_cached(query)?.query_row([], |row| row.get(0)).optional()?;
        Ok(look.map(time))
    }

    /// The schedule that is to be looked at first, if its time has come.
    pub fn due_schedule(&self, now: u64) -> Result<Option<Schedule>, MetaError> {
        let query = format!("SELECT {COLUMNS} FROM schedule WHERE look <= ?1 ORDER BY look, name LIMIT 1");
        let mut query = self.connection.prepare_cached(&query)?;
        let mut rows = query.query([integer(now)])?;
        rows.next()?.map(read).transpose()
    }

    /// Takes a schedule one step on, from the due time that it was seen at. An invocation that the step starts is added in the same
    /// transaction, unless there is one of its id: that is of the same due time.
    pub fn fire(
        &mut self,
        seen: &Schedule,
        step: Step,
        new: Option<&NewInvocation<'_>>,
        now: u64,
    ) -> Result<Fired, MetaError> {
        let transaction = self.begin()?;
        let there = one(&transaction, &seen.name)?;
        if there.is_none_or(|there| (there.next, there.changed) != (seen.next, seen.changed)) {
            return Ok(Fired::Stale);
        }
        let fired = match new {
            Some(new) if find(&transaction, new.id)?.is_none() => {
                insert(&transaction, new, now)?;
                Fired::New
            }
            _ => Fired::Known,
        };
        transaction.execute(
            "UPDATE schedule SET next = ?2, look = ?2, last = coalesce(?3, last), reason = NULL WHERE name = ?1",
            params![seen.name.as_str(), step.next.map(integer), step.start.map(integer)],
        )?;
        transaction.commit()?;
        Ok(fired)
    }

    /// What a schedule has to start cannot be started now: it is looked at again at `look`. Its due time stays.
    pub fn put_off(&mut self, seen: &Schedule, reason: &str, look: u64) -> Result<(), MetaError> {
        self.connection.execute(
            "UPDATE schedule SET look = ?2, reason = ?3 WHERE name = ?1 AND changed = ?4 AND next IS ?5",
            params![seen.name.as_str(), integer(look), reason, integer(seen.changed), seen.next.map(integer)],
        )?;
        Ok(())
    }

    /// What could not be started before is looked at again at once; whether there is any.
    pub fn look_again(&mut self) -> Result<bool, MetaError> {
        let change = "UPDATE schedule SET look = next WHERE reason IS NOT NULL AND look <> next";
        Ok(self.connection.execute(change, [])? > 0)
    }
}

fn one(connection: &Connection, name: &ScheduleName) -> Result<Option<Schedule>, MetaError> {
    by_name(connection, name.as_str())
}

fn by_name(connection: &Connection, name: &str) -> Result<Option<Schedule>, MetaError> {
    let mut query = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM schedule WHERE name = ?1"))?;
    let mut rows = query.query([name])?;
    rows.next()?.map(read).transpose()
}

fn read(row: &Row<'_>) -> Result<Schedule, MetaError> {
    let name: String = row.get(0)?;
    let damaged = |what| MetaError::Schedule { name: name.clone(), what };
    let missed: i64 = row.get(4)?;
    let missed = Missed::ALL.into_iter().find(|policy| number(*policy) == missed);
    Ok(Schedule {
        name: name.parse().map_err(|_| damaged("name"))?,
        definition: Definition {
            workflow: row.get(1)?,
            cron: row.get(2)?,
            zone: row.get(3)?,
            missed: missed.ok_or_else(|| damaged("policy"))?,
            inputs: row.get(5)?,
            paused: row.get(6)?,
        },
        changed: time(row.get(7)?),
        next: row.get::<_, Option<i64>>(8)?.map(time),
        last: row.get::<_, Option<i64>>(9)?.map(time),
        reason: row.get(10)?,
    })
}

/// A policy in the database. The numbers never change their meaning.
const fn number(missed: Missed) -> i64 {
    match missed {
        Missed::Skip => 0,
        Missed::Once => 1,
        Missed::All => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Meta, Store};
    use tempfile::TempDir;

    const MINUTE: u64 = 60_000_000_000;

    fn each_minute(missed: Missed) -> Definition {
        Definition {
            workflow: "w".to_owned(),
            cron: "* * * * *".to_owned(),
            zone: "UTC".to_owned(),
            missed,
            inputs: b"{}".to_vec(),
            paused: false,
        }
    }

    fn open(folder: &TempDir) -> Sqlite {
        Store::open_served(folder.path(), None).and_then(|store| store.meta()).expect("a store")
    }

    fn define(meta: &mut Sqlite, definition: &Definition, now: u64) -> Defined {
        let times = crate::Times::new(&definition.cron, &definition.zone).expect("times");
        let name = "s".parse().expect("a name");
        meta.define_schedule(&name, definition, |after| times.next(after, false), now).expect("defined")
    }

    /// Starts all that is due at this moment; the ids of what is new.
    fn run(meta: &mut Sqlite, now: u64) -> Vec<String> {
        let mut started = Vec::new();
        while let Some(schedule) = meta.due_schedule(now).expect("read") {
            let step = schedule.step(&schedule.times().expect("times"), now).expect("it is due");
            let id = step.start.and_then(|due| schedule.id(due));
            let new = id.as_ref().map(|id| NewInvocation { id, workflow: "w", start: b"start", due: now });
            match meta.fire(&schedule, step, new.as_ref(), now).expect("done") {
                Fired::New => started.extend(id.map(|id| id.to_string())),
                Fired::Known => {}
                Fired::Stale => panic!("nothing else changes it"),
            }
        }
        started
    }

    /// The clock jumps forth and back, the store is closed and opened between any two looks, and a process may be killed after a commit
    /// whose answer it never saw: each due time has one invocation.
    #[test]
    fn each_due_time_has_one_invocation_whatever_the_clock_does() {
        let folder = TempDir::new().expect("a folder");
        let start = 1_795_600_000_000_000_000 / MINUTE * MINUTE;
        assert_eq!(define(&mut open(&folder), &each_minute(Missed::All), start), Defined::New);
        let hour = 60 * MINUTE;
        let month = 30 * 24 * hour;
        let mut all = Vec::new();
        for now in [
            start,
            start + MINUTE,
            start + MINUTE,
            start + 3 * MINUTE,
            start + hour,
            start,
            start + hour - MINUTE,
            start + 2 * hour,
            start - month,
            start + 2 * hour + MINUTE,
        ] {
            all.extend(run(&mut open(&folder), now));
        }
        assert_eq!(all.len(), 121, "one a minute, for two hours and a minute");
        let mut distinct = all.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct, all, "in order, none twice");
        assert_eq!(open(&folder).list(&[], "", 1000).expect("read").len(), all.len());
        // Thirty days at once, with the other policies.
        let mut meta = open(&folder);
        assert_eq!(define(&mut meta, &each_minute(Missed::Once), start + 2 * hour + MINUTE), Defined::Changed);
        assert_eq!(run(&mut meta, start + month).len(), 1);
        assert_eq!(define(&mut meta, &each_minute(Missed::Skip), start + month), Defined::Changed);
        assert_eq!(run(&mut meta, start + 2 * month + MINUTE / 2).len(), 1, "the minute that has begun");
        assert_eq!(run(&mut meta, start + month), [""; 0], "and back");
        assert_eq!(define(&mut meta, &each_minute(Missed::Skip), start + month), Defined::Same);
        // Another definition does not bring back what has been started.
        assert_eq!(define(&mut meta, &each_minute(Missed::All), start + month), Defined::Changed);
        assert_eq!(run(&mut meta, start + 2 * month + MINUTE / 2), [""; 0]);
        assert_eq!(run(&mut meta, start + 2 * month + MINUTE).len(), 1);
    }

    #[test]
    fn a_start_counts_only_for_the_schedule_that_was_seen() {
        let folder = TempDir::new().expect("a folder");
        let mut meta = open(&folder);
        define(&mut meta, &each_minute(Missed::Once), MINUTE);
        let seen = meta.due_schedule(3 * MINUTE).expect("read").expect("it is due");
        let step = seen.step(&seen.times().expect("times"), 3 * MINUTE).expect("it is due");
        let id = seen.id(step.start.expect("a time")).expect("an id");
        let new = NewInvocation { id: &id, workflow: "w", start: b"", due: 1 };
        // It was killed before it saw the answer, and tries again.
        assert_eq!(meta.fire(&seen, step, Some(&new), 4).expect("done"), Fired::New);
        assert_eq!(meta.fire(&seen, step, Some(&new), 4).expect("done"), Fired::Stale);
        let seen = meta.schedule(&seen.name).expect("read").expect("there");
        assert_eq!((seen.next, seen.last), (Some(4 * MINUTE), Some(3 * MINUTE)));
        // What cannot be started is looked at later, and its time stays.
        meta.put_off(&seen, "no such workflow", 9 * MINUTE).expect("done");
        assert_eq!(meta.due_schedule(8 * MINUTE).expect("read"), None);
        assert_eq!(meta.next_look().expect("read"), Some(9 * MINUTE));
        assert!(meta.look_again().expect("done") && !meta.look_again().expect("done"));
        assert_eq!(meta.next_look().expect("read"), Some(4 * MINUTE));
        meta.put_off(&seen, "no such workflow", 9 * MINUTE).expect("done");
        let late = meta.due_schedule(9 * MINUTE).expect("read").expect("it is due");
        assert_eq!((late.next, late.reason.as_deref()), (Some(4 * MINUTE), Some("no such workflow")));
        // Paused meanwhile.
        define(&mut meta, &Definition { paused: true, ..each_minute(Missed::Once) }, 9 * MINUTE);
        assert_eq!(meta.fire(&late, step, None, 9 * MINUTE).expect("done"), Fired::Stale);
        assert_eq!((meta.next_look().expect("read"), meta.due_schedule(u64::MAX).expect("read")), (None, None));
        assert!(
            meta.remove_schedule(late.name.as_str()).expect("done")
                && !meta.remove_schedule(late.name.as_str()).expect("done")
        );
    }

    #[test]
    fn a_row_that_was_edited_is_named_and_stops_no_other() {
        let folder = TempDir::new().expect("a folder");
        let mut meta = open(&folder);
        let [name, other] = ["s", "t"].map(|name| name.parse::<ScheduleName>().expect("a name"));
        for (change, damaged, what) in [("missed = 9", "s", "policy"), ("name = '../s'", "../s", "name")] {
            for name in [&name, &other] {
                meta.remove_schedule(name.as_str()).expect("done");
                let next = |after| Some(after + MINUTE);
                meta.define_schedule(name, &each_minute(Missed::Once), next, MINUTE).expect("defined");
            }
            meta.connection.execute(&format!("UPDATE schedule SET {change} WHERE name = 's'"), []).expect("edited");
            let listed = meta.schedules().expect("read");
            let found = listed.iter().find_map(|listed| listed.as_ref().err()).expect("it is damaged");
            assert_eq!((&*found.name, &*found.workflow, found.what, listed.len()), (damaged, "w", what, 2));
            // It is the first that is due.
            match meta.due_schedule(9 * MINUTE).expect_err("it is damaged") {
                MetaError::Schedule { name, what: of } => assert_eq!((&*name, of), (damaged, what)),
                error => panic!("{error}"),
            }
            meta.stop_schedule(damaged, "damaged").expect("done");
            assert_eq!(meta.due_schedule(9 * MINUTE).expect("read").expect("the other").name, other);
            meta.look_again().expect("done");
            assert_eq!(meta.due_schedule(9 * MINUTE).expect("read").expect("the other").name, other);
            assert!(meta.remove_schedule(damaged).expect("done"), "whatever its name is");
        }
        // It is mended by a definition.
        meta.connection.execute("UPDATE schedule SET missed = 9 WHERE name = 's'", []).expect("edited");
        assert_eq!(define(&mut meta, &each_minute(Missed::All), MINUTE), Defined::New);
        assert!(meta.schedules().expect("read").iter().all(Result::is_ok));
    }
}
