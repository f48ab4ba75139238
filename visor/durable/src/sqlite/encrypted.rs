//! Encryption of values, as functions that queries call.
//!
//! ```text
//!   INSERT … VALUES (encrypted(?1, 'event', …))          SELECT decrypted(bytes, 'event', …)
//!                        kind, and place of the value
//! ```
//!
//! In a folder without a key they give back what they are given. A key is in the table `state_key`, wrapped; a folder has one from its beginning, or
//! never.

use crate::meta::MetaError;
use crate::value::changed;
use monohull_state_key::{Error, KeyFile, MORE_BYTES, Place, StateKey, StateKeyError};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;
use std::sync::Arc;

const SCHEMA: &str = "
    CREATE TABLE state_key (
        id      INTEGER PRIMARY KEY CHECK (id = 1),
        wrapped BLOB    NOT NULL
    ) STRICT;
";

/// What opens a state folder.
#[derive(Clone, Copy, Debug)]
pub enum Unlock<'k> {
    /// Nothing: it is not encrypted.
    Nothing,
    /// The key from a file.
    File(&'k KeyFile),
    /// The folder's own key, which was opened before.
    Opened(&'k Arc<StateKey>),
}

/// The key of a database that is new: it is made, if there is to be one.
pub(super) fn begin(connection: &Connection, unlock: Unlock<'_>) -> Result<Option<Arc<StateKey>>, MetaError> {
    match unlock {
        Unlock::Nothing => Ok(None),
        Unlock::Opened(key) => Ok(Some(key.clone())),
        Unlock::File(file) => {
            let (key, wrapped) = file.new_state_key().map_err(not_kept)?;
            connection.execute_batch(SCHEMA)?;
            connection.execute("INSERT INTO state_key (id, wrapped) VALUES (1, ?1)", [wrapped])?;
            Ok(Some(Arc::new(key)))
        }
    }
}

/// The key of a database that is there, in this folder.
pub(super) fn open(
    connection: &Connection,
    folder: &Path,
    unlock: Unlock<'_>,
) -> Result<Option<Arc<StateKey>>, MetaError> {
    let folder = || folder.to_owned();
    match (wrapped(connection)?, unlock) {
        (None, Unlock::Nothing) => Ok(None),
        (None, Unlock::File(_) | Unlock::Opened(_)) => Err(MetaError::NotEncrypted { folder: folder() }),
        (Some(_), Unlock::Nothing) => Err(MetaError::KeyMissing { folder: folder() }),
        (Some(_), Unlock::Opened(key)) => Ok(Some(key.clone())),
        (Some(wrapped), Unlock::File(file)) => match file.open(&wrapped) {
            Ok(key) => Ok(Some(Arc::new(key))),
            Err(StateKeyError::Wrong) => Err(MetaError::WrongKey { folder: folder(), file: file.path().to_owned() }),
            Err(error) => Err(not_kept(error)),
        },
    }
}

/// Lets another key open the database. What was kept of the first one is overwritten.
pub(super) fn change(
    connection: &mut Connection,
    folder: &Path,
    from: &KeyFile,
    to: &KeyFile,
) -> Result<(), MetaError> {
    connection.pragma_update(None, "secure_delete", true)?;
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let kept = wrapped(&transaction)?.ok_or_else(|| MetaError::NotEncrypted { folder: folder.to_owned() })?;
    let kept = from.hand_over(to, &kept).map_err(|error| match error {
        StateKeyError::Wrong => MetaError::WrongKey { folder: folder.to_owned(), file: from.path().to_owned() },
        error => not_kept(error),
    })?;
    transaction.execute("UPDATE state_key SET wrapped = ?1", [kept])?;
    transaction.commit()?;
    // It may be in the log as well, which is emptied unless others read it now: the next one that closes the database does so then.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

fn wrapped(connection: &Connection) -> Result<Option<Vec<u8>>, MetaError> {
    let known = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'state_key')";
    if !connection.query_row(known, [], |row| row.get::<_, bool>(0))? {
        return Ok(None);
    }
    let wrapped = connection.query_row("SELECT wrapped FROM state_key", [], |row| row.get(0)).optional()?;
    // A table without a row is no folder without a key.
    Ok(Some(wrapped.unwrap_or_default()))
}

fn not_kept(error: StateKeyError) -> MetaError {
    match error {
        StateKeyError::Io(error) => MetaError::Key(error),
        StateKeyError::Wrong => MetaError::Key(std::io::ErrorKind::InvalidData.into()),
    }
}

/// What a function does with a value.
type Change = fn(&StateKey, Place<'_>, Value) -> Result<Value, Error>;

/// Adds the functions to a connection.
pub(super) fn add_functions(connection: &Connection, key: Option<&Arc<StateKey>>) -> rusqlite::Result<()> {
    // Not for what the schema of a database says that was edited.
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY;
    let functions: [(&str, Change); 4] = [
        ("encrypted", |key, place, value| match value {
            Value::Blob(bytes) => Ok(Value::Blob(key.encrypt(place, &bytes)?)),
            _ => Err(Error::NotEncrypted),
        }),
        ("decrypted", |key, place, value| match value {
            Value::Blob(bytes) => Ok(Value::Blob(key.decrypt(place, &bytes)?)),
            _ => Err(Error::NotEncrypted),
        }),
        // A column of text has text.
        ("encrypted_text", |key, place, value| match value {
            Value::Text(text) => Ok(Value::Text(digits(&key.encrypt(place, text.as_bytes())?))),
            _ => Err(Error::NotEncrypted),
        }),
        ("decrypted_text", |key, place, value| match value {
            Value::Text(text) => {
                let plain = key.decrypt(place, &bytes(&text).ok_or(Error::NotEncrypted)?)?;
                Ok(Value::Text(String::from_utf8(plain).map_err(|_| Error::Changed)?))
            }
            _ => Err(Error::NotEncrypted),
        }),
    ];
    for (name, change) in functions {
        let key = key.cloned();
        connection.create_scalar_function(name, 3, flags, move |context: &mut Context<'_>| {
            let value: Value = context.get(0)?;
            let (Some(key), false) = (&key, value == Value::Null) else { return Ok(value) };
            let (kind, of): (String, String) = (context.get(1)?, context.get(2)?);
            match change(key, Place { kind: &kind, name: &of }, value) {
                Ok(value) => Ok(value),
                Err(Error::Io(error)) => Err(rusqlite::Error::UserFunctionError(error.into())),
                Err(Error::NotEncrypted | Error::Changed) => {
                    Err(rusqlite::Error::UserFunctionError(changed(&kind, &of).into()))
                }
            }
        })?;
    }
    let more = if key.is_some() { MORE_BYTES as i64 } else { 0 };
    connection.create_scalar_function("plain_length", 1, flags, move |context: &mut Context<'_>| {
        Ok(match context.get_raw(0) {
            ValueRef::Blob(bytes) => Some(bytes.len() as i64 - more),
            _ => None,
        })
    })?;
    // Of the client's words, and of contents: equal ones are found, and say nothing else.
    let key = key.cloned();
    connection.create_scalar_function("digest", 2, flags, move |context: &mut Context<'_>| {
        let value: Value = context.get(0)?;
        let Some(key) = &key else { return Ok(value) };
        let kind: String = context.get(1)?;
        let digest =
            |bytes: &[u8]| key.digest(&kind, bytes).map_err(|error| rusqlite::Error::UserFunctionError(error.into()));
        Ok(match value {
            Value::Blob(bytes) => Value::Blob(digest(&bytes)?.to_vec()),
            Value::Text(text) => Value::Text(digits(&digest(text.as_bytes())?)),
            value => value,
        })
    })
}

/// A value as the database has it that is compared with what it has.
pub(super) fn digest<T: rusqlite::ToSql + rusqlite::types::FromSql>(
    connection: &Connection,
    kind: &str,
    value: T,
) -> Result<T, MetaError> {
    Ok(connection.prepare_cached("SELECT digest(?1, ?2)")?.query_row(params![value, kind], |row| row.get(0))?)
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pairs = digits.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect()
}

#[cfg(test)]
mod tests;
