//! What SQLite says, as the errors that every store has.

use crate::meta::{MetaError, Trouble};
use crate::value::{self, INPUTS};
use nix::unistd::{AccessFlags, access};
use rusqlite::ErrorCode::{CannotOpen, DatabaseCorrupt, DiskFull, NotADatabase, ReadOnly};
use rusqlite::{Error, ffi};
use std::path::Path;

impl From<Error> for MetaError {
    fn from(error: Error) -> MetaError {
        let message = match &error {
            Error::SqliteFailure(_, Some(message)) => value::read_changed(message),
            _ => None,
        };
        match message {
            Some((INPUTS, what, name)) => MetaError::Schedule { name, what },
            Some((_, what, id)) => MetaError::Damaged { id, what },
            None => {
                let trouble = trouble(&error);
                // It says only that a write has failed, as if the disk were at fault.
                let says_less = trouble == Trouble::Full && error.sqlite_error_code() != Some(DiskFull);
                let source =
                    if says_less { format!("{error}: the disk has no room for it").into() } else { error.into() };
                MetaError::Database { trouble, source }
            }
        }
    }
}

/// Why the file at a path has not been opened. Of one that may not be written SQLite does not tell the reason: the system is asked, but does not open it,
/// because to close it would end the locks that this process has on it.
pub(super) fn not_opened(path: &Path, error: Error) -> MetaError {
    if !matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly)) {
        return error.into();
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The database has further files beside its own.
    let refused = [folder, path].into_iter().find_map(|path| {
        let errno = access(path, AccessFlags::R_OK | AccessFlags::W_OK).err()?;
        Some(MetaError::Unwritable { path: path.to_owned(), source: errno.into() })
    });
    refused.unwrap_or_else(|| error.into())
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
            let said = error.to_string();
            assert_eq!(said.contains("full") || said.contains("no room"), is_full, "{said}");
        }
        let error = failure(ffi::SQLITE_BUSY);
        let source = std::error::Error::source(&error).expect("what SQLite says").to_string();
        assert!(source.contains("database is locked"), "{source}");
        assert_eq!(error.to_string(), format!("the database of the state folder: {source}"));
    }

    #[test]
    fn what_cannot_be_opened_is_told_with_the_reason_of_the_system() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("meta.sqlite");
        let said = |path: &Path, code| not_opened(path, Error::SqliteFailure(ffi::Error::new(code), None)).to_string();
        let missing = folder.path().join("missing");
        let error = said(&missing.join("meta.sqlite"), ffi::SQLITE_CANTOPEN);
        assert!(error.contains(&format!("{}: No such file", missing.display())), "{error}");
        let error = said(&path, ffi::SQLITE_READONLY);
        assert!(error.contains(&format!("{}: No such file", path.display())), "{error}");
        // What may be written is not the reason, and neither is it one of other errors.
        std::fs::write(&path, "").expect("written");
        assert!(said(&path, ffi::SQLITE_CANTOPEN).contains("unable to open"));
        assert!(said(&missing.join("meta.sqlite"), ffi::SQLITE_BUSY).contains("is locked"));
    }
}
