//! Changes of a database's file from outside, as by a damaged disk or an attacker.

use std::fs;
use std::path::Path;

/// Puts bytes in the place of others of the same length, wherever they are. They must be there.
#[track_caller]
pub(crate) fn exchange(database: &Path, from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    let mut bytes = fs::read(database).expect("a database");
    let places: Vec<_> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!places.is_empty(), "{} is in it", String::from_utf8_lossy(from));
    places.iter().for_each(|at| bytes[*at..at + to.len()].copy_from_slice(to));
    fs::write(database, bytes).expect("written");
}
