//! The mailbox: a row for each event that waits, and for each key of one that was taken.

use super::encrypted::digest as kept_digest;
use super::{Sqlite, find, find_sound, integer, time};
use crate::mail::{KEYS_KEPT, MAIL_BYTES_MAX, MAIL_MAX, Mail, NewMail, Sent};
use crate::meta::MetaError;
use crate::timeline::without_tokens;
use crate::{ExportedMail, Invocation, InvocationId, Status, Wait, Woken};
use monohull_abi::callback::is_token;
use monohull_abi::event::{EVENT_BYTES_MAX, is_event_name};
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};
use std::iter;

/// `bytes` is NULL once the event was taken. `digest` is that of name and bytes, if there is a key.
pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS mail (
        number     INTEGER PRIMARY KEY AUTOINCREMENT,
        invocation TEXT    NOT NULL,
        name       TEXT    NOT NULL,
        bytes      BLOB,
        key        TEXT,
        digest     BLOB
    ) STRICT;
    CREATE INDEX IF NOT EXISTS mail_waiting ON mail (invocation, number) WHERE bytes IS NOT NULL;
    CREATE UNIQUE INDEX IF NOT EXISTS mail_keys ON mail (invocation, key) WHERE key IS NOT NULL;
    CREATE INDEX IF NOT EXISTS mail_taken ON mail (invocation, number) WHERE bytes IS NULL;
";

/// Keeps an event. The invocation is due if it waits for it.
pub(super) fn send(
    connection: &Connection,
    id: &InvocationId,
    mail: &NewMail<'_>,
    now: u64,
) -> Result<Sent, MetaError> {
    let Some(row) = find(connection, id)? else { return Ok(Sent::Unknown) };
    // The key is the sender's word, as the content is.
    let key = mail.key().map(|key| kept_digest(connection, "key", key.to_owned())).transpose()?;
    let digest = mail.key().map(|_| kept_digest(connection, "event", digest(mail))).transpose()?;
    if let Some(key) = &key {
        let known: Option<Vec<u8>> = connection
            .prepare_cached("SELECT digest FROM mail WHERE invocation = ?1 AND key = ?2")?
            .query_row(params![id.as_str(), key], |row| row.get(0))
            .optional()?;
        if let Some(known) = known {
            return Ok(if Some(known) == digest { Sent::Duplicate } else { Sent::KeyTaken });
        }
    }
    if row.status.is_end() {
        return Ok(Sent::Ended(row.status));
    }
    let (count, bytes): (i64, i64) = connection
        .prepare_cached(
            "SELECT count(*), coalesce(sum(plain_length(bytes)), 0) FROM mail WHERE invocation = ?1 AND bytes IS NOT NULL",
        )?
        .query_row(params![id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if time(count) >= MAIL_MAX || time(bytes) + mail.bytes().len() as u64 > MAIL_BYTES_MAX {
        return Ok(Sent::Full);
    }
    connection
        .prepare_cached("INSERT INTO mail (invocation, name, bytes, key, digest) VALUES (?1, ?2, encrypted(?3, 'event', ?1 || '/' || ?2), ?4, ?5)")?
        .execute(params![id.as_str(), mail.name(), mail.bytes(), key, digest])?;
    arrived(connection, row, mail.name(), now)?;
    Ok(Sent::New)
}

/// Keeps an event of the system's own, if none of its name waits. It is bounded by its sender. One that has ended has no events.
pub(super) fn deliver(
    connection: &Connection,
    id: &InvocationId,
    name: &str,
    bytes: &[u8],
    now: u64,
) -> Result<(), MetaError> {
    deliver_all(connection, id, name, (bytes, &[None]), now)
}

/// The same of so many empty ones. The first is remembered once it was taken: by a key that it has alone.
pub(super) fn deliver_for_each(
    connection: &Connection,
    id: &InvocationId,
    name: &str,
    (count, key): (usize, &str),
    now: u64,
) -> Result<(), MetaError> {
    let keys: Vec<_> = iter::once(Some(key)).chain(iter::repeat(None)).take(count).collect();
    deliver_all(connection, id, name, (&[], &keys), now)
}

/// Keeps an event of the system's own behind those of its name, unless one that is like it waits.
pub(super) fn deliver_behind(
    connection: &Connection,
    id: &InvocationId,
    name: &str,
    (bytes, is_like_it): (&[u8], impl Fn(&[u8]) -> bool),
    now: u64,
) -> Result<(), MetaError> {
    let Some(row) = find_sound(connection, id)?.filter(|row| !row.status.is_end()) else { return Ok(()) };
    let mut query = connection.prepare_cached(
        "SELECT decrypted(bytes, 'event', invocation || '/' || name) FROM mail \
         WHERE invocation = ?1 AND name = ?2 AND bytes IS NOT NULL",
    )?;
    let waiting = query.query_map(params![id.as_str(), name], |row| row.get::<_, Vec<u8>>(0))?;
    if waiting.collect::<Result<Vec<_>, _>>()?.iter().any(|bytes| is_like_it(bytes)) {
        return Ok(());
    }
    insert(connection, id, name, bytes, None)?;
    arrived(connection, row, name, now)
}

/// One with each of these keys.
fn deliver_all(
    connection: &Connection,
    id: &InvocationId,
    name: &str,
    (bytes, keys): (&[u8], &[Option<&str>]),
    now: u64,
) -> Result<(), MetaError> {
    let Some(row) = find_sound(connection, id)?.filter(|row| !row.status.is_end()) else { return Ok(()) };
    if put(connection, id, name, (bytes, keys))? { arrived(connection, row, name, now) } else { Ok(()) }
}

/// Puts events into a mailbox, one with each of these keys, unless one of their name is there. Whether there was none.
pub(super) fn put(
    connection: &Connection,
    id: &InvocationId,
    name: &str,
    (bytes, keys): (&[u8], &[Option<&str>]),
) -> Result<bool, MetaError> {
    let waits: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM mail WHERE invocation = ?1 AND name = ?2 AND bytes IS NOT NULL)")?
        .query_row(params![id.as_str(), name], |row| row.get(0))?;
    if waits {
        return Ok(false);
    }
    keys.iter().try_for_each(|key| insert(connection, id, name, bytes, *key))?;
    Ok(true)
}

fn insert(
    connection: &Connection,
    id: &InvocationId,
    name: &str,
    bytes: &[u8],
    key: Option<&str>,
) -> Result<(), MetaError> {
    let key = key.map(|key| kept_digest(connection, "key", key.to_owned())).transpose()?;
    // What is found by a key has a digest.
    let digest = key.as_ref().map(|_| kept_digest(connection, "event", Vec::new())).transpose()?;
    connection
        .prepare_cached("INSERT INTO mail (invocation, name, bytes, key, digest) VALUES (?1, ?2, encrypted(?3, 'event', ?1 || '/' || ?2), ?4, ?5)")?
        .execute(params![id.as_str(), name, bytes, key, digest])?;
    Ok(())
}

/// Whether an event with this key was sent, or its key is still remembered.
fn knows_key(connection: &Connection, id: &InvocationId, key: &str) -> Result<bool, MetaError> {
    let key = kept_digest(connection, "key", key.to_owned())?;
    let mut query =
        connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM mail WHERE invocation = ?1 AND key = ?2)")?;
    Ok(query.query_row(params![id.as_str(), key], |row| row.get(0))?)
}

/// The number of an event that is none of the mailbox.
pub(super) const NO_NUMBER: u64 = 0;

impl Sqlite {
    /// Whether an event with this key was sent to an invocation, as far as that is remembered.
    pub fn knows_key(&self, id: &InvocationId, key: &str) -> Result<bool, MetaError> {
        knows_key(&self.connection, id, key)
    }

    /// Sends an empty event, unless one of its name waits already. One that has ended, or is not there, gets none.
    pub fn beat(&mut self, id: &InvocationId, name: &str, now: u64) -> Result<(), MetaError> {
        let transaction = self.begin()?;
        deliver(&transaction, id, name, &[], now)?;
        Ok(transaction.commit()?)
    }
}

/// The events with numbers above `after` that wait for an invocation, in the order in which they were sent.
pub(super) fn waiting(connection: &Connection, id: &InvocationId, after: u64) -> Result<Vec<Mail>, MetaError> {
    let mut query = connection.prepare_cached(
        "SELECT number, name, decrypted(bytes, 'event', invocation || '/' || name) FROM mail \
         WHERE invocation = ?1 AND bytes IS NOT NULL AND number > ?2 ORDER BY number",
    )?;
    let rows = query.query_map(params![id.as_str(), integer(after)], |row| {
        Ok(Mail { number: time(row.get(0)?), name: row.get(1)?, bytes: row.get(2)? })
    })?;
    let mail = rows.collect::<Result<Vec<_>, _>>()?;
    match mail.iter().all(|mail| is_event_name(&mail.name) && mail.bytes.len() <= EVENT_BYTES_MAX) {
        true => Ok(mail),
        false => Err(MetaError::Damaged { id: id.to_string(), what: "event" }),
    }
}

/// How many events wait for an invocation.
pub(super) fn count(connection: &Connection, id: &InvocationId) -> Result<u64, MetaError> {
    let mut query =
        connection.prepare_cached("SELECT count(*) FROM mail WHERE invocation = ?1 AND bytes IS NOT NULL")?;
    Ok(time(query.query_row(params![id.as_str()], |row| row.get(0))?))
}

/// The mailbox of an invocation. In a folder that is encrypted the keys are only known by digests that are of no use elsewhere.
pub(super) fn export(
    connection: &Connection,
    id: &InvocationId,
    with_keys: bool,
) -> Result<Vec<ExportedMail>, MetaError> {
    let mut query = connection.prepare_cached(
        "SELECT name, CASE WHEN bytes IS NOT NULL THEN decrypted(bytes, 'event', invocation || '/' || name) END, key, digest \
         FROM mail WHERE invocation = ?1 ORDER BY number",
    )?;
    let rows = query.query_map([id.as_str()], |row| {
        let key: Option<String> = row.get(2)?;
        let digest: Option<Vec<u8>> = row.get(3)?;
        Ok(ExportedMail { name: row.get(0)?, bytes: row.get(1)?, key: key.zip(digest).filter(|_| with_keys) })
    })?;
    let mail = rows.collect::<Result<Vec<_>, _>>()?;
    Ok(mail.into_iter().filter(|mail| mail.bytes.is_some() || mail.key.is_some()).collect())
}

/// Puts a mailbox in place.
pub(super) fn import(connection: &Connection, id: &InvocationId, all: &[ExportedMail]) -> Result<(), MetaError> {
    for mail in all {
        let (key, digest) = match &mail.key {
            None => (None, None),
            Some((key, digest)) => {
                let key = kept_digest(connection, "key", key.clone())?;
                (Some(key), Some(kept_digest(connection, "event", digest.clone())?))
            }
        };
        let content = if mail.bytes.is_some() { "encrypted(?3, 'event', ?1 || '/' || ?2)" } else { "?3" };
        let add = format!("INSERT INTO mail (invocation, name, bytes, key, digest) VALUES (?1, ?2, {content}, ?4, ?5)");
        connection.prepare_cached(&add)?.execute(params![id.as_str(), mail.name, mail.bytes, key, digest])?;
    }
    Ok(())
}

/// Forgets the answers to these callbacks that an invocation has taken and waits for once more: the next answer is no repetition.
pub(super) fn forget_answers(connection: &Connection, id: &InvocationId, waits: &[Wait]) -> Result<(), MetaError> {
    for token in waits.iter().filter_map(|wait| wait.event.as_deref()).filter(|event| is_token(event)) {
        // Answers have their token as the key.
        let key = kept_digest(connection, "key", token.to_owned())?;
        connection
            .prepare_cached("DELETE FROM mail WHERE invocation = ?1 AND key = ?2 AND bytes IS NULL")?
            .execute(params![id.as_str(), key])?;
    }
    Ok(())
}

/// Removes events that an invocation has taken; what is left of one that had a key is the key. Then the invocation is due if another
/// one waits for it.
pub(super) fn take(connection: &Connection, row: &mut Invocation, taken: &[u64], now: u64) -> Result<(), MetaError> {
    let id = row.id.as_str();
    let taken: Vec<u64> = taken.iter().copied().filter(|number| *number != NO_NUMBER).collect();
    for number in &taken {
        let number = integer(*number);
        connection
            .prepare_cached("DELETE FROM mail WHERE number = ?1 AND invocation = ?2 AND key IS NULL")?
            .execute(params![number, id])?;
        connection
            .prepare_cached("UPDATE mail SET bytes = NULL WHERE number = ?1 AND invocation = ?2")?
            .execute(params![number, id])?;
    }
    if !taken.is_empty() {
        connection
            .prepare_cached(
                "DELETE FROM mail WHERE invocation = ?1 AND bytes IS NULL AND number <= (SELECT number FROM mail \
                 WHERE invocation = ?1 AND bytes IS NULL ORDER BY number DESC LIMIT 1 OFFSET ?2)",
            )?
            .execute(params![id, integer(KEYS_KEPT)])?;
    }
    let mut query = connection
        .prepare_cached("SELECT name FROM mail WHERE invocation = ?1 AND bytes IS NOT NULL ORDER BY number")?;
    let mut events = query.query(params![id])?;
    while let Some(event) = events.next()? {
        if wake(row, event.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?, now) {
            break;
        }
    }
    Ok(())
}

/// Removes all events of an invocation that has ended. Their keys stay: a sender that got no answer may ask once more.
pub(super) fn remove_events(connection: &Connection, id: &InvocationId) -> Result<(), MetaError> {
    let id = params![id.as_str()];
    connection.prepare_cached("DELETE FROM mail WHERE invocation = ?1 AND key IS NULL")?.execute(id)?;
    let mut change =
        connection.prepare_cached("UPDATE mail SET bytes = NULL WHERE invocation = ?1 AND bytes IS NOT NULL")?;
    change.execute(id)?;
    Ok(())
}

/// Removes all events and keys of an invocation that is removed.
pub(super) fn remove(connection: &Connection, id: &InvocationId) -> Result<(), MetaError> {
    connection.prepare_cached("DELETE FROM mail WHERE invocation = ?1")?.execute(params![id.as_str()])?;
    Ok(())
}

/// An event of this name is in the mailbox: the invocation is due if it waits for it.
fn arrived(connection: &Connection, before: Invocation, name: &str, now: u64) -> Result<(), MetaError> {
    let mut row = before.clone();
    if wake(&mut row, name, now) {
        row.changed = now;
        super::store(connection, &before, &row, None)?;
    }
    Ok(())
}

/// Makes an invocation due if it waits for an event of this name; whether it was due later.
pub(super) fn wake(row: &mut Invocation, name: &str, now: u64) -> bool {
    let is_later = waits_for(&row.waits, name) && row.due.is_none_or(|due| due > now);
    if is_later {
        row.due = Some(now);
        // What has woken one that runs is known already.
        if row.status != Status::Running {
            row.woken = Some(Woken::Event(without_tokens(name)));
        }
    }
    is_later
}

fn waits_for(waits: &[Wait], name: &str) -> bool {
    waits.iter().any(|wait| wait.event.as_deref() == Some(name))
}

/// The SHA-256 of an event's name and contents.
fn digest(mail: &NewMail<'_>) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update((mail.name().len() as u64).to_le_bytes());
    hash.update(mail.name());
    hash.update(mail.bytes());
    hash.finalize().to_vec()
}
