//! What SQLite says, as the errors that every store has.

use crate::meta::{MetaError, Trouble};
use crate::value::{self, INPUTS};
use rusqlite::ErrorCode::{DatabaseCorrupt, DiskFull, NotADatabase};
use rusqlite::{Error, ffi};

impl From<Error> for MetaError {
    fn from(error: Error) -> MetaError {
        let message = match &error {
            Error::SqliteFailure(_, Some(message)) => value::read_changed(message),
            _ => None,
        };
        match message {
            Some((INPUTS, what, name)) => MetaError::Schedule { name, what },
            Some((_, what, id)) => MetaError::Damaged { id, what },
            None => MetaError::Database { trouble: trouble(&error), source: error.into() },
        }
    }
}

fn trouble(error: &Error) -> Trouble {
    match error.sqlite_error() {
        Some(error) if matches!(error.code, DatabaseCorrupt | NotADatabase) => Trouble::Damage,
        // Of a limit of this process only it says that a write has failed; where there is no room for its index of the log, that it cannot become longer.
        Some(error)
            if error.code == DiskFull
                || matches!(error.extended_code, ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE) =>
        {
            Trouble::Full
        }
        _ => Trouble::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sqlite_says_is_told_with_what_it_means() {
        let failure = |code| MetaError::from(Error::SqliteFailure(ffi::Error::new(code), None));
        for (code, is_damage, is_full) in [
            (ffi::SQLITE_CORRUPT, true, false),
            (ffi::SQLITE_NOTADB, true, false),
            (ffi::SQLITE_FULL, false, true),
            (ffi::SQLITE_IOERR_WRITE, false, true),
            (ffi::SQLITE_IOERR_SHMSIZE, false, true),
            (ffi::SQLITE_IOERR_READ, false, false),
            (ffi::SQLITE_BUSY, false, false),
        ] {
            let error = failure(code);
            assert_eq!((error.is_damage(), error.is_full()), (is_damage, is_full), "{error}");
        }
        let error = failure(ffi::SQLITE_BUSY);
        let source = std::error::Error::source(&error).expect("what SQLite says").to_string();
        assert!(source.contains("database is locked"), "{source}");
        assert_eq!(error.to_string(), format!("the database of the state folder: {source}"));
    }
}
