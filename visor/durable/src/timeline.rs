//! The timeline of an invocation: what has happened to it across its suspensions.
//!
//! ```text
//!   start ── leg ──▶ suspended … leg ──▶ suspended … paused … resumed … leg ──▶ completed
//!          entry 0             entry 1             entry 2  entry 3   entry 4
//! ```
//!
//! A *leg* is the time in which a process runs an invocation: from its claim to the commit by which it waits or ends. Each leg is an entry, and so is each thing that
//! was done to an invocation which did not run. An entry is part of the transaction that it tells of. A checkpoint of an invocation that goes on (
//! [`Commit::Checkpointed`](crate::Commit::Checkpointed)) ends no leg.

use crate::{Invocation, Status, Wait};
use monohull_abi::branch::{CHECKPOINT_EVENT, FORK_EVENT};
use monohull_abi::callback::{CALLBACK_EVENT_MAX, Told, is_token};
use monohull_abi::child::CHILD_EVENT;
use monohull_abi::event::CANCEL_EVENT;
use serde_json::{Value, json};

/// So many entries of an invocation are kept: the newest. How many there have been is [`Invocation::entries`].
pub const ENTRIES_KEPT: u64 = 200;
/// What is left of a token.
const CALLBACK: &str = "callback";
/// The most bytes of what an entry is about.
const ABOUT_MAX: usize = 200;

/// What an entry tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// It came to a wait.
    Suspended,
    /// It has ended well.
    Completed,
    /// It has ended, not well.
    Failed,
    /// It was ended by hand, or with its parent.
    Cancelled,
    /// It goes on only by hand.
    Paused,
    /// It could not be run, and is tried again later.
    Released,
    /// The process that ran it has ended before it came to a wait or an end.
    Lost,
    /// It was paused, and goes on when it is due.
    Resumed,
    /// It was taken back to an earlier checkpoint.
    Rewound,
    /// Copies were made of it.
    Forked,
    /// It is a copy, and this is its beginning.
    Copied,
    /// It came from another store, or has left this one before.
    Imported,
    /// It was moved to another version of its workflow, and is at its first wait there.
    Migrated,
}

impl Happened {
    /// All of them. Their places are their numbers in a store, and never change.
    pub const ALL: [Happened; 13] = [
        Happened::Suspended,
        Happened::Completed,
        Happened::Failed,
        Happened::Cancelled,
        Happened::Paused,
        Happened::Released,
        Happened::Lost,
        Happened::Resumed,
        Happened::Rewound,
        Happened::Forked,
        Happened::Copied,
        Happened::Imported,
        Happened::Migrated,
    ];

    /// Its name in documents and on terminals.
    pub const fn name(self) -> &'static str {
        match self {
            Happened::Suspended => "suspended",
            Happened::Completed => "completed",
            Happened::Failed => "failed",
            Happened::Cancelled => "cancelled",
            Happened::Paused => "paused",
            Happened::Released => "released",
            Happened::Lost => "lost",
            Happened::Resumed => "resumed",
            Happened::Rewound => "rewound",
            Happened::Forked => "forked",
            Happened::Copied => "copied",
            Happened::Imported => "imported",
            Happened::Migrated => "migrated",
        }
    }

    /// What has become of an invocation by what is not a wait: this, or what it is now.
    pub(crate) fn or(self, status: Status) -> Happened {
        match status {
            Status::Pending | Status::Running | Status::Suspended => self,
            Status::Paused => Happened::Paused,
            Status::Completed => Happened::Completed,
            Status::Failed => Happened::Failed,
            Status::Cancelled => Happened::Cancelled,
        }
    }
}

/// Why a leg began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Woken {
    /// It was started.
    Start,
    /// The leg before ended before it came to a wait or an end.
    Again,
    /// It was due.
    Time,
    /// An event of this name was there.
    Event(String),
}

impl Woken {
    /// Why an invocation runs that has been claimed.
    pub(crate) fn of(row: &Invocation) -> Woken {
        match &row.woken {
            _ if row.attempts > 1 => Woken::Again,
            Some(Woken::Event(name)) => Woken::Event(name.clone()),
            _ if row.checkpoint.is_none() => Woken::Start,
            _ => Woken::Time,
        }
    }

    /// What it is called in documents, and which event, child or label it was.
    pub fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Woken::Start => ("start", None),
            Woken::Again => ("again", None),
            Woken::Time => ("time", None),
            Woken::Event(name) => {
                // Behind the label or the number is the place in the function.
                let label = |rest: &'_ str| rest.rfind(':').unwrap_or(rest.len());
                match (name.strip_prefix(CHILD_EVENT), name.strip_prefix(CHECKPOINT_EVENT)) {
                    (Some(child), _) => ("child", Some(child)),
                    (_, Some(rest)) => ("checkpoint", Some(&rest[..label(rest)])),
                    _ if name.starts_with(FORK_EVENT) => ("fork", None),
                    _ if name == CANCEL_EVENT => ("cancel", None),
                    _ => ("event", Some(name)),
                }
            }
        }
    }
}

/// A leg, and what it led to; or what was done to an invocation that did not run. Times are in ns since 1970.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its number, from 0.
    pub number: u64,
    /// When it happened: of a leg its end.
    pub at: u64,
    /// Of a leg: its beginning, which may be later than its end if the clock was set.
    pub began: Option<u64>,
    /// What has happened.
    pub what: Happened,
    /// The generation of the invocation then.
    pub generation: u64,
    /// Of a leg: why it began.
    pub woken: Option<Woken>,
    /// Of a leg: the number of the process that ran it, if its owner's name has one.
    pub process: Option<u32>,
    /// What it waits for, the reason, or which other invocations and checkpoints it is about.
    pub about: String,
}

impl Entry {
    /// The end of a leg, as the row was in it and as it is now.
    pub(crate) fn leg(before: &Invocation, row: &Invocation, what: Happened, about: &str) -> Entry {
        Entry {
            // A leg of a program that did not note it has at least not begun later.
            began: Some(before.began.unwrap_or(before.changed)),
            woken: before.woken.clone(),
            process: before.owner.as_deref().and_then(crate::owner::process_of),
            ..Entry::done(row, what, about)
        }
    }

    /// What was done to an invocation that did not run, as its row is now.
    pub(crate) fn done(row: &Invocation, what: Happened, about: &str) -> Entry {
        Entry { number: row.entries, ..Entry::first(row.changed, row.generation, what, about) }
    }

    /// How an invocation began that goes on from another one's checkpoint.
    pub(crate) fn first(at: u64, generation: u64, what: Happened, about: &str) -> Entry {
        Entry {
            number: 0,
            at,
            began: None,
            what,
            generation,
            woken: None,
            process: None,
            about: short(&without_tokens(about)),
        }
    }

    /// What an invocation has become: its reason, or what it waits for.
    pub(crate) fn reason(row: &Invocation, what: Happened) -> String {
        match what {
            Happened::Suspended | Happened::Migrated => waits(&row.waits),
            Happened::Lost | Happened::Completed | Happened::Failed | Happened::Resumed => String::new(),
            _ => row.reason.clone().unwrap_or_default(),
        }
    }
}

/// The document of a timeline, for people and programs: some entries of an invocation, and whether there are more. `date` writes times, and `shown` texts that a
/// function chooses.
pub fn timeline_document(
    row: &Invocation,
    entries: &[Entry],
    date: impl Fn(u64) -> String,
    shown: impl Fn(&str) -> String,
) -> Value {
    let why = |woken: &Woken| {
        let (by, name) = woken.parts();
        json!({ "by": by, "name": name.map(&shown) })
    };
    let entry = |entry: &Entry| {
        json!({
            "number": entry.number,
            "what": entry.what.name(),
            "at": date(entry.at),
            "began": entry.began.map(&date),
            "duration_us": entry.began.map(|began| entry.at.saturating_sub(began) / 1000),
            "generation": entry.generation,
            "woken": entry.woken.as_ref().map(why),
            "process": entry.process,
            "about": shown(&entry.about),
        })
    };
    let older = row.entries.saturating_sub(ENTRIES_KEPT);
    let next = entries.first().map(|first| first.number).filter(|first| *first > older);
    let running = row.began.filter(|_| row.status == Status::Running);
    json!({
        "id": row.id.as_str(),
        "status": row.status.name(),
        "started": date(row.started),
        "entries": entries.iter().map(entry).collect::<Vec<_>>(),
        "older": older,
        "next_cursor": next.map(|next| next.to_string()),
        "running": running.map(|began| json!({ "began": date(began), "woken": row.woken.as_ref().map(why) })),
    })
}

/// The first of all waits, in words.
fn waits(waits: &[Wait]) -> String {
    const NAMED: usize = 3;
    let named: Vec<_> =
        waits.iter().take(NAMED).map(|wait| format!("{}[{}] {}", wait.step, wait.instance, wait.what)).collect();
    let more = waits.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

/// A text without the tokens of callbacks that are in it. Each is the right to answer a wait, and a timeline is not encrypted.
pub(crate) fn without_tokens(text: &str) -> String {
    const LEN: usize = CALLBACK_EVENT_MAX - Told::Heartbeat.ending().len();
    let (mut rest, mut without) = (text, String::new());
    while let Some(at) = rest.find(CALLBACK) {
        let is_one = rest.get(at..at + LEN).is_some_and(is_token);
        without += &rest[..at + CALLBACK.len()];
        rest = &rest[at + if is_one { LEN } else { CALLBACK.len() }..];
    }
    without + rest
}

/// A text that is not too long for an entry.
fn short(text: &str) -> String {
    if text.len() <= ABOUT_MAX {
        return text.to_owned();
    }
    let mark = "…";
    format!("{}{mark}", &text[..text.floor_char_boundary(ABOUT_MAX - mark.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = "ä".repeat(ABOUT_MAX);
        let cut = short(&long);
        assert!(cut.len() <= ABOUT_MAX && cut.len() > ABOUT_MAX - 4 && cut.ends_with("ä…"), "{cut}");
        assert_eq!(short("all of it"), "all of it");
    }

    #[test]
    fn no_token_of_a_callback_is_noted() {
        let token = format!("callback-{:032x}", 7);
        for (text, noted) in [
            (
                format!("s[0] event `{token}`, s[1] event `{token}:heartbeat`"),
                "s[0] event `callback`, s[1] event `callback:heartbeat`",
            ),
            (token, "callback"),
            ("a callback-7 of callback".to_owned(), "a callback-7 of callback"),
            ("callback-ä".to_owned(), "callback-ä"),
        ] {
            assert_eq!(without_tokens(&text), noted);
        }
    }

    #[test]
    fn what_wakes_an_invocation_is_called_as_users_call_it() {
        let parts = |name: &str| {
            let woken = Woken::Event(name.to_owned());
            let (kind, of) = woken.parts();
            format!("{kind} {}", of.unwrap_or("-"))
        };
        assert_eq!(parts("paid"), "event paid");
        assert_eq!(parts("child:hull"), "child hull");
        assert_eq!(parts("checkpoint:a:s/0/0"), "checkpoint a");
        assert_eq!(parts("fork:s/0/0"), "fork -");
        assert_eq!(parts(CANCEL_EVENT), "cancel -");
    }
}
