//! Schedules: a workflow is started at times that a cron expression says.
//!
//! ```text
//!        next ──────────────▶ it is due: one transaction ──┬─▶ the invocation NAME-YYYYMMDDTHHMMZ, if there is none yet
//!         ▲                                                └─▶ the next due time ──┐
//!         └────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The row of a schedule has the due time that is the next one. The transaction that starts an invocation moves it on, so each due time has
//! one invocation, whenever a process is killed. It only moves forward: a clock that is set back starts nothing a second time, and a
//! schedule then waits until the time that it has come to.
//!
//! Times that passed unnoticed (no server ran, or the clock was set forward) have been *missed*. [`Missed`] says what becomes of them.
//! Nothing here reads a clock.

use std::fmt;
use std::str::FromStr;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::{InvocationId, MetaError, NewInvocation};

/// The most bytes of a name: the ids of its invocations have a time besides.
const NAME_MAX: usize = 48;
/// The most bytes of a cron expression.
const CRON_MAX: usize = 256;
/// A time that is looked at this much later has not been missed.
pub const GRACE_NS: u64 = 60_000_000_000;

/// The name of a schedule: 1 to 48 letters, digits, `-` and `_`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ScheduleName(String);

impl ScheduleName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ScheduleName {
    type Err = InvalidSchedule;

    fn from_str(text: &str) -> Result<ScheduleName, InvalidSchedule> {
        // What is fit for an invocation's id.
        let fits = text.len() <= NAME_MAX && text.parse::<InvocationId>().is_ok();
        if fits { Ok(ScheduleName(text.to_owned())) } else { Err(InvalidSchedule::Name) }
    }
}

impl fmt::Display for ScheduleName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

/// What becomes of due times that have been missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missed {
    /// Nothing.
    Skip,
    /// One invocation, for the last of them.
    Once,
    /// An invocation for each of them, the first one first.
    All,
}

impl Missed {
    /// All of them.
    pub const ALL: [Missed; 3] = [Missed::Skip, Missed::Once, Missed::All];

    /// Its name in documents and on terminals.
    pub const fn name(self) -> &'static str {
        match self {
            Missed::Skip => "skip",
            Missed::Once => "once",
            Missed::All => "all",
        }
    }
}

/// This is no schedule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidSchedule {
    /// Its name.
    #[error("the name of a schedule has 1 to {NAME_MAX} letters, digits, `-` and `_`")]
    Name,
    /// Its expression.
    #[error("the cron expression: {0}")]
    Cron(String),
    /// It is never due.
    #[error("the cron expression: there is no such time")]
    Never,
    /// Its zone.
    #[error("this host knows no time zone {0:?}; a zone is a name such as UTC or Europe/Berlin")]
    Zone(String),
}

/// The times at which a schedule is due: a cron expression of five fields, in a time zone.
///
/// Minutes, hours, days of the month, months, days of the week (0 and 7 are Sunday); numbers or names, `*`, lists, ranges and steps. If
/// both kinds of days are restricted, one that matches is enough. A time that a change to summer time leaves out is due right after the
/// gap; one that is there twice is due at its first occurrence, unless minutes or hours are not single numbers.
#[derive(Clone, Debug)]
pub struct Times {
    cron: Cron,
    zone: TimeZone,
}

/// The fields of a cron expression, and what may stand there, alone and in lists, ranges and steps.
const FIELDS: [(&str, &str); 5] = [
    ("minute", "`*` or 0 to 59"),
    ("hour", "`*` or 0 to 23"),
    ("day of the month", "`*` or 1 to 31"),
    ("month", "`*`, 1 to 12, or JAN to DEC"),
    ("day of the week", "`*`, 0 to 7, or SUN to SAT"),
];

impl Times {
    /// The times of an expression in a zone.
    pub fn new(cron: &str, zone: &str) -> Result<Times, InvalidSchedule> {
        let wrong = |why: String| InvalidSchedule::Cron(why);
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b" *,-/".contains(&byte);
        if cron.len() > CRON_MAX || !cron.bytes().all(is_known) || cron.split_ascii_whitespace().count() != 5 {
            let why = "five fields are expected: minute, hour, day of the month, month, day of the week";
            return Err(wrong(why.to_owned()));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(cron).map_err(|error| {
            // The parser does not say in which field it is.
            let is_wrong = |field: usize, text: &str| {
                let mut alone = ["*"; FIELDS.len()];
                alone[field] = text;
                parser.parse(&alone.join(" ")).is_err()
            };
            let fields = FIELDS.iter().zip(cron.split_ascii_whitespace()).enumerate();
            let first = fields.into_iter().find(|(field, (_, text))| is_wrong(*field, text));
            wrong(match first {
                Some((_, ((name, expected), text))) => format!("the {name} is `{text}`, expected {expected}"),
                None => error.to_string(),
            })
        })?;
        let zone = match zone {
            "UTC" => TimeZone::UTC,
            _ => TimeZone::get(zone).map_err(|_| InvalidSchedule::Zone(zone.to_owned()))?,
        };
        Ok(Times { cron, zone })
    }

    /// The first due time after this one, or at it if `inclusive` (ns since 1970).
    pub fn next(&self, after: u64, inclusive: bool) -> Option<u64> {
        let found = self.cron.find_next_occurrence(&self.zoned(after, inclusive)?, inclusive).ok()?;
        ns(&found)
    }

    /// The last due time that is not after this one.
    pub fn last(&self, until: u64) -> Option<u64> {
        let found = self.cron.find_previous_occurrence(&self.zoned(until, false)?, true).ok()?;
        ns(&found)
    }

    /// A time in the zone, in full seconds: those are what an expression is about.
    fn zoned(&self, at: u64, up: bool) -> Option<Zoned> {
        let seconds = at / NS + u64::from(up && !at.is_multiple_of(NS));
        Some(Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?.to_zoned(self.zone.clone()))
    }
}

const NS: u64 = 1_000_000_000;

fn ns(time: &Zoned) -> Option<u64> {
    u64::try_from(time.timestamp().as_second()).ok()?.checked_mul(NS)
}

/// What is to be started, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    /// The name of the workflow.
    pub workflow: String,
    /// The cron expression.
    pub cron: String,
    /// The time zone.
    pub zone: String,
    /// What becomes of missed times.
    pub missed: Missed,
    /// What each invocation is given, in the caller's own encoding.
    pub inputs: Vec<u8>,
    /// Whether it starts nothing for now. What is due meanwhile is not missed.
    pub paused: bool,
}

/// A schedule, as its row says. Times are in ns since 1970.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Its name.
    pub name: ScheduleName,
    /// What is to be started, and when.
    pub definition: Definition,
    /// When it was defined as it is.
    pub changed: u64,
    /// The due time that is the next one. None: it is paused, or there is no other.
    pub next: Option<u64>,
    /// The due time whose invocation was started last.
    pub last: Option<u64>,
    /// Why the invocation of `next` was not started so far.
    pub reason: Option<String>,
}

/// A row of a schedule with a value that no transaction writes. It starts nothing until it is defined anew, and the others go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedSchedule {
    /// The name that the row has.
    pub name: String,
    /// The workflow that it would start.
    pub workflow: String,
    /// The expression that it has.
    pub cron: String,
    /// The time zone that it has.
    pub zone: String,
    /// When it says that it was defined (ns since 1970).
    pub changed: u64,
    /// Which of its values is wrong.
    pub what: &'static str,
}

impl fmt::Display for DamagedSchedule {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "its row in the database is damaged: it has a wrong {}", self.what)
    }
}

/// What a schedule does at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The due time for which an invocation is started.
    pub start: Option<u64>,
    /// The due time that is the next one.
    pub next: Option<u64>,
}

impl Schedule {
    /// The times at which it is due. They were looked at when it was defined; a zone may have been removed from the host since.
    pub fn times(&self) -> Result<Times, InvalidSchedule> {
        Times::new(&self.definition.cron, &self.definition.zone)
    }

    /// What it does at this moment; `None`: nothing.
    pub fn step(&self, times: &Times, now: u64) -> Option<Step> {
        let next = self.next.filter(|next| *next <= now)?;
        let started = |time| Some(Step { start: Some(time), next: times.next(time, false) });
        match self.definition.missed {
            Missed::All => started(next),
            Missed::Once => started(times.last(now).filter(|last| *last >= next).unwrap_or(next)),
            Missed::Skip => match times.next(next.max(now.saturating_sub(GRACE_NS)), true) {
                Some(fresh) if fresh <= now => started(fresh),
                later => Some(Step { start: None, next: later }),
            },
        }
    }

    /// The id of the invocation for a due time. It is the same however often that time is looked at.
    pub fn id(&self, due: u64) -> Option<InvocationId> {
        let due = Timestamp::from_second(i64::try_from(due / NS).ok()?).ok()?;
        format!("{}-{}", self.name, due.strftime("%Y%m%dT%H%MZ")).parse().ok()
    }
}

/// What came of a definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defined {
    /// There was none of this name.
    New,
    /// There was another one.
    Changed,
    /// It was there.
    Same,
}

/// What came of a start that a schedule has asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fired {
    /// An invocation was started.
    New,
    /// There was one for this time.
    Known,
    /// The schedule has changed meanwhile: nothing was done.
    Stale,
}

/// The transactions on schedules.
pub trait Schedules {
    /// Defines a schedule, whose next due time is `next`. A definition that is there already is left as it is; another one begins
    /// anew, but no due time that has an invocation comes again: `next` is asked for a time after the last one.
    fn define_schedule(
        &mut self,
        name: &ScheduleName,
        definition: &Definition,
        next: &mut dyn FnMut(u64) -> Option<u64>,
        now: u64,
    ) -> Result<Defined, MetaError>;

    /// A schedule.
    fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, MetaError>;

    /// All schedules, by name, also those whose rows are damaged.
    fn schedules(&self) -> Result<Vec<Result<Schedule, DamagedSchedule>>, MetaError>;

    /// A schedule whose row is damaged, whatever its name is, is not looked at any more.
    fn stop_schedule(&mut self, name: &str, reason: &str) -> Result<(), MetaError>;

    /// Removes a schedule, whatever its name is; whether there was one. What it has started goes on.
    fn remove_schedule(&mut self, name: &str) -> Result<bool, MetaError>;

    /// When the first schedule is to be looked at.
    fn next_look(&self) -> Result<Option<u64>, MetaError>;

    /// The schedule that is to be looked at first, if its time has come.
    fn due_schedule(&self, now: u64) -> Result<Option<Schedule>, MetaError>;

    /// Takes a schedule one step on, from the due time that it was seen at. An invocation that the step starts is added in the same
    /// transaction, unless there is one of its id: that is of the same due time.
    fn fire(
        &mut self,
        seen: &Schedule,
        step: Step,
        new: Option<&NewInvocation<'_>>,
        now: u64,
    ) -> Result<Fired, MetaError>;

    /// What a schedule has to start cannot be started now: it is looked at again at `look`. Its due time stays.
    fn put_off(&mut self, seen: &Schedule, reason: &str, look: u64) -> Result<(), MetaError>;

    /// What could not be started before is looked at again at once; whether there is any.
    fn look_again(&mut self) -> Result<bool, MetaError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time as RFC 3339 has it.
    fn at(text: &str) -> u64 {
        text.parse::<Timestamp>().expect("a time").as_second() as u64 * NS
    }

    fn shown(time: Option<u64>) -> String {
        let time = time.map(|time| Timestamp::from_second((time / NS) as i64).expect("a time").to_string());
        time.unwrap_or_else(|| "never".to_owned())
    }

    fn next(cron: &str, zone: &str, after: &str) -> String {
        shown(Times::new(cron, zone).expect("times").next(at(after), false))
    }

    #[test]
    fn expressions_have_the_meaning_that_cron_gives_them() {
        let from = "2026-11-25T10:30:00Z";
        for (cron, due) in [
            ("* * * * *", "2026-11-25T10:31:00Z"),
            ("*/20 * * * *", "2026-11-25T10:40:00Z"),
            ("30 10 * * *", "2026-11-26T10:30:00Z"),
            ("0 6 1 * *", "2026-12-01T06:00:00Z"),
            ("0 6 * * 0", "2026-11-29T06:00:00Z"),
            ("0 6 * * 7", "2026-11-29T06:00:00Z"),
            ("0 6 * * MON-FRI", "2026-11-26T06:00:00Z"),
            // Either kind of day.
            ("0 0 13 * 5", "2026-11-27T00:00:00Z"),
            ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
            ("15,45 9-17/4 * JAN *", "2027-01-01T09:15:00Z"),
        ] {
            assert_eq!(next(cron, "UTC", from), due, "{cron}");
        }
        let long = format!("{} * * * *", "1,".repeat(200) + "2");
        for wrong in
            ["", "* * * *", "* * * * * *", "@daily", "60 * * * *", "* 24 * * *", "a * * * *", "* * ? * *", &long]
        {
            assert!(matches!(Times::new(wrong, "UTC"), Err(InvalidSchedule::Cron(_))), "{wrong}");
        }
        for (wrong, field) in [
            ("61 * * * *", "minute is `61`, expected `*` or 0 to 59"),
            ("0 */0 * * *", "hour is `*/0`, expected `*` or 0 to 23"),
            ("0 0 32 * *", "day of the month is `32`, expected `*` or 1 to 31"),
            ("0 0 1 JUX *", "month is `JUX`, expected `*`, 1 to 12, or JAN to DEC"),
            ("0 0 * * 1-9", "day of the week is `1-9`, expected `*`, 0 to 7, or SUN to SAT"),
        ] {
            let error = Times::new(wrong, "UTC").expect_err("it is wrong").to_string();
            assert_eq!(error, format!("the cron expression: the {field}"));
        }
        assert_eq!(Times::new("0 0 30 2 *", "UTC").expect("well formed").next(at(from), false), None);
        assert!(matches!(Times::new("* * * * *", "Mars/Base"), Err(InvalidSchedule::Zone(_))));
    }

    /// A zone whose rules are written out, so that the test needs no table of the host.
    fn in_summer_time(cron: &str) -> Times {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        Times { zone, ..Times::new(cron, "UTC").expect("times") }
    }

    #[test]
    fn a_day_of_a_change_of_the_clocks_has_each_time_once() {
        let after = |times: &Times, text| shown(times.next(at(text), false));
        let nightly = in_summer_time("30 2 * * *");
        assert_eq!(after(&nightly, "2026-03-28T12:00:00Z"), "2026-03-29T01:00:00Z", "the gap ends at 3:00");
        assert_eq!(after(&nightly, "2026-03-29T01:00:00Z"), "2026-03-30T00:30:00Z");
        assert_eq!(after(&nightly, "2026-10-24T12:00:00Z"), "2026-10-25T00:30:00Z", "the first half past two");
        assert_eq!(after(&nightly, "2026-10-25T00:30:00Z"), "2026-10-26T01:30:00Z");
        let hourly = in_summer_time("0 * * * *");
        assert_eq!(after(&hourly, "2026-10-25T00:00:00Z"), "2026-10-25T01:00:00Z", "hours that pass are hours");
    }

    fn schedule(missed: Missed, next: &str) -> (Schedule, Times) {
        let definition = Definition {
            workflow: "w".to_owned(),
            cron: "0 * * * *".to_owned(),
            zone: "UTC".to_owned(),
            missed,
            inputs: Vec::new(),
            paused: false,
        };
        let name = "hourly".parse().expect("a name");
        let schedule = Schedule { name, definition, changed: 0, next: Some(at(next)), last: None, reason: None };
        let times = schedule.times().expect("times");
        (schedule, times)
    }

    /// All that is started if the clock is looked at then: the due times, and the one that is next.
    fn started(missed: Missed, next: &str, now: &str) -> (Vec<String>, String) {
        let (mut schedule, times) = schedule(missed, next);
        let mut started = Vec::new();
        while let Some(step) = schedule.step(&times, at(now)) {
            assert!(step.next > schedule.next, "it only moves forward");
            started.extend(step.start.map(|time| shown(Some(time))));
            schedule.next = step.next;
        }
        (started, shown(schedule.next))
    }

    #[test]
    fn missed_times_are_skipped_or_made_up_for_once_or_all() {
        let next = "2026-11-25T10:00:00Z";
        let one = |time: &str| vec![time.to_owned()];
        for missed in Missed::ALL {
            assert_eq!(started(missed, next, "2026-11-25T09:59:59Z"), (vec![], next.to_owned()), "not due");
            let on_time = (one(next), "2026-11-25T11:00:00Z".to_owned());
            assert_eq!(started(missed, next, "2026-11-25T10:00:59Z"), on_time, "{missed:?}");
            // The clock is set back by an hour, or by thirty days: nothing, until it has come there again.
            assert_eq!(started(missed, next, "2026-10-26T10:00:00Z"), (vec![], next.to_owned()));
        }
        // Set forward by an hour and more.
        let now = "2026-11-25T11:30:00Z";
        let then = "2026-11-25T12:00:00Z".to_owned();
        assert_eq!(started(Missed::Skip, next, now), (vec![], then.clone()));
        assert_eq!(started(Missed::Once, next, now), (one("2026-11-25T11:00:00Z"), then.clone()));
        let both = vec![next.to_owned(), "2026-11-25T11:00:00Z".to_owned()];
        assert_eq!(started(Missed::All, next, now), (both, then));
        // Set forward by thirty days, to a time that is due itself.
        let now = "2026-12-25T10:00:30Z";
        let then = "2026-12-25T11:00:00Z".to_owned();
        assert_eq!(started(Missed::Skip, next, now), (one("2026-12-25T10:00:00Z"), then.clone()));
        assert_eq!(started(Missed::Once, next, now), (one("2026-12-25T10:00:00Z"), then.clone()));
        let (all, next) = started(Missed::All, next, now);
        assert_eq!((all.len(), next), (30 * 24 + 1, then));
    }

    #[test]
    fn an_id_tells_schedule_and_time() {
        let (schedule, _) = schedule(Missed::All, "2026-11-25T10:00:00Z");
        let id = schedule.id(at("2026-11-25T10:00:00Z")).expect("an id");
        assert_eq!(id.as_str(), "hourly-20261125T1000Z");
        let longest = ScheduleName("x".repeat(NAME_MAX));
        assert!(Schedule { name: longest, ..schedule }.id(at("2026-11-25T10:00:00Z")).is_some());
        for wrong in ["", "a b", "a/b", &"x".repeat(NAME_MAX + 1)] {
            assert_eq!(wrong.parse::<ScheduleName>(), Err(InvalidSchedule::Name), "{wrong}");
        }
    }
}
