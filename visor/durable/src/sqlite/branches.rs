//! Save points and forks that a function has asked for, in the transaction that commits the checkpoint.
//!
//! ```text
//!   commit of `one` with CHECKPOINT a ─▶ its checkpoint has the label `a`, and an event in its mailbox: it went on
//!                   with FORK 2       ─▶ two copies of that checkpoint, and an event in three mailboxes: original, copy 1, copy 2
//!   rewind, fork by hand              ─▶ what waits for such an event in the checkpoint is told: it came back; it is the original
//! ```
//!
//! The thread that has asked waits for the event, so the invocation is due at once. Whatever is killed, what was asked for is done once.

use super::history::{checkpoint_of, copy, lineage};
use super::{find, history, integer, mail, told};
use crate::history::Lineage;
use crate::meta::MetaError;
use crate::outbox::WhyUndelivered;
use crate::{Copied, Invocation, InvocationId, Wait};
use monohull_abi::branch::{CHECKPOINT_EVENT, FORK_EVENT};
use monohull_report::{Outgoing, child_invocation};
use rusqlite::{Connection, params};

/// What is told of a save point that an invocation came back to. See [`told::WENT_ON`].
const CAME_BACK: [u8; 1] = [1];

/// The invocation that has asked, unless it has ended, or is not in the store.
fn living(connection: &Connection, id: &InvocationId) -> Result<Option<Invocation>, MetaError> {
    Ok(find(connection, id)?.filter(|row| !row.status.is_end()))
}

/// Gives the checkpoint that was committed a label.
pub(super) fn label(
    connection: &Connection,
    id: &InvocationId,
    asked: &Outgoing,
    now: u64,
) -> Result<Option<WhyUndelivered>, MetaError> {
    let Some(row) = living(connection, id)? else { return Ok(None) };
    connection.prepare_cached("UPDATE history SET label = ?3 WHERE id = ?1 AND generation = ?2")?.execute(params![
        id.as_str(),
        integer(row.generation),
        asked.name
    ])?;
    // The checkpoint may tell it by itself.
    if told::of(connection, id, row.generation)?.as_ref() != Some(&asked.to) {
        mail::deliver(connection, id, &asked.to, &told::WENT_ON, now)?;
    }
    Ok(None)
}

/// A copy that a commit has made.
pub(super) struct Made {
    copy: InvocationId,
    /// The event by which it was asked for.
    event: String,
}

/// Makes copies of an invocation as it was committed, and adds them to those that the commit has made before; why there are none, if there are none.
///
/// What else they wait for is told by [`tell_copies`], when the commit has made all of them.
pub(super) fn fork(
    connection: &Connection,
    id: &InvocationId,
    asked: &Outgoing,
    (copies, made): (u32, &mut Vec<Made>),
    room: Option<u64>,
    now: u64,
) -> Result<Option<WhyUndelivered>, MetaError> {
    let Some(row) = living(connection, id)? else { return Ok(None) };
    let Some(kept) = checkpoint_of(connection, &row)? else { return Ok(None) };
    let (ids, were_made) = ids(connection, &row, &asked.to, copies)?;
    if were_made {
        // The same place once more, after a rewind or in another attempt.
        mail::deliver(connection, id, &asked.to, original(&ids).as_bytes(), now)?;
        return Ok(None);
    }
    let why = match room.map(|room| room.saturating_sub(made.len() as u64)) {
        Some(room) if room < u64::from(copies) => Some(format!("there is room for {room} more invocations")),
        _ => None,
    };
    if let Some(why) = why {
        mail::deliver(connection, id, &asked.to, format!("refused\n{why}").as_bytes(), now)?;
        return Ok(Some(WhyUndelivered::NotStarted(why)));
    }
    let came = copy(connection, &row, &kept, (&ids, false), now)?;
    let mut whole = Vec::new();
    for ((number, copy), came) in (1_u32..).zip(&ids).zip(came) {
        // A name may be another's, by a chance that is none.
        if came == Copied::Taken {
            continue;
        }
        mail::deliver(connection, copy, &asked.to, format!("copy\n{number}").as_bytes(), now)?;
        made.push(Made { copy: copy.clone(), event: asked.to.clone() });
        whole.push(copy.clone());
    }
    history::note_copies(connection, &row, kept.generation, &whole.iter().collect::<Vec<_>>(), now)?;
    mail::deliver(connection, id, &asked.to, original(&whole).as_bytes(), now)?;
    Ok(None)
}

/// Tells the copies that a commit has made what their other threads wait for. One that has asked for copies at the same time is told of them.
pub(super) fn tell_copies(
    connection: &Connection,
    id: &InvocationId,
    made: &[Made],
    now: u64,
) -> Result<(), MetaError> {
    if made.is_empty() {
        return Ok(());
    }
    let Some(row) = living(connection, id)? else { return Ok(()) };
    let Some(kept) = checkpoint_of(connection, &row)? else { return Ok(()) };
    for Made { copy, event } in made {
        let others = kept.waits.iter().filter(|wait| wait.event.as_ref() != Some(event));
        tell_again(connection, copy, id, others, now)?;
    }
    Ok(())
}

/// The ids of the copies that an invocation makes at a place, which the name of the event has, and whether it has made them before. If an earlier
/// invocation of its name has made copies there, which it has left, they are others.
pub(super) fn ids(
    connection: &Connection,
    row: &Invocation,
    event: &str,
    copies: u32,
) -> Result<(Vec<InvocationId>, bool), MetaError> {
    let (id, place) = (row.id.as_str(), event.strip_prefix(FORK_EVENT).unwrap_or(event));
    let hashed = |of: &str, number| {
        let name = child_invocation(of, &format!("{place}-{number}"));
        name.parse().map_err(|_| MetaError::Damaged { id: name, what: "copy" })
    };
    // A name that is too long is made shorter.
    let plain = |number| format!("{id}-{place}-{number}").parse().or_else(|_| hashed(id, number));
    let plain: Vec<InvocationId> = (1..=copies).map(plain).collect::<Result<_, _>>()?;
    let of_this = format!("{id}, started {}", row.started);
    let others: Vec<_> = (1..=copies).map(|number| hashed(&of_this, number)).collect::<Result<_, _>>()?;
    for ids in [&plain, &others] {
        if let Some(true) = is_copy_of(connection, row, ids)? {
            return Ok((ids.clone(), true));
        }
    }
    let is_free = is_copy_of(connection, row, &plain)?.is_none();
    Ok((if is_free { plain } else { others }, false))
}

/// Whether the first of these, if it is there, is a copy of this invocation.
fn is_copy_of(connection: &Connection, row: &Invocation, copies: &[InvocationId]) -> Result<Option<bool>, MetaError> {
    let Some(first) = copies.first() else { return Ok(None) };
    if find(connection, first)?.is_none() {
        return Ok(None);
    }
    let Lineage { parent, parent_started, .. } = lineage(connection, first)?;
    let is_of_it = parent.is_some_and(|(parent, _)| parent == row.id);
    Ok(Some(is_of_it && parent_started.is_none_or(|started| started == row.started)))
}

fn original(ids: &[InvocationId]) -> String {
    ids.iter().fold("original".to_owned(), |text, id| text + "\n" + id.as_str())
}

/// Tells an invocation that goes on from a checkpoint once more what its threads wait for there. The copies were made of the other one.
pub(super) fn tell_again<'w>(
    connection: &Connection,
    id: &InvocationId,
    of: &InvocationId,
    waits: impl IntoIterator<Item = &'w Wait>,
    now: u64,
) -> Result<(), MetaError> {
    for event in waits.into_iter().filter_map(|wait| wait.event.as_deref()) {
        if event.starts_with(CHECKPOINT_EVENT) {
            mail::deliver(connection, id, event, &CAME_BACK, now)?;
        } else if event.starts_with(FORK_EVENT) {
            let copies = history::copies_of(connection, of, event.strip_prefix(FORK_EVENT).unwrap_or_default())?;
            mail::deliver(connection, id, event, original(&copies).as_bytes(), now)?;
        }
    }
    Ok(())
}
