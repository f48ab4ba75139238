//! `SLOT=PATH` on the command line. The path may be any that the system has, also one that is not UTF-8.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};

/// What is before and after the first `=`, if the first part is text.
pub(super) fn split(text: &OsStr) -> Option<(&str, &OsStr)> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    let name = std::str::from_utf8(&bytes[..at]).ok()?;
    Some((name, OsStr::from_bytes(&bytes[at + 1..])))
}

/// Refuses two files that are standard input: what reads it second gets nothing.
pub(super) fn one_standard_input<'p>(paths: impl Iterator<Item = &'p OsStr>) -> Result<(), &'static str> {
    match paths.filter(|path| *path == "-").count() {
        0 | 1 => Ok(()),
        _ => Err("standard input (`-`) is given twice, and is read once"),
    }
}

/// A parser of a file that is neither of the standard ones.
pub(super) fn file() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|text: OsString| match text == "-" {
        true => Err("`-` is no file here; `./-` is a file of that name"),
        false => Ok(PathBuf::from(text)),
    })
}

/// A parser of an input: the path may be empty.
pub(super) fn input() -> impl TypedValueParser<Value = (String, PathBuf)> {
    parser(|slot, _| !slot.is_empty())
}

/// A parser of an output.
pub(super) fn output() -> impl TypedValueParser<Value = (String, PathBuf)> {
    parser(|slot, path| !slot.is_empty() && !path.is_empty())
}

fn parser(may: fn(&str, &OsStr) -> bool) -> impl TypedValueParser<Value = (String, PathBuf)> {
    OsStringValueParser::new().try_map(move |text: OsString| match split(&text) {
        Some((slot, path)) if may(slot, path) => Ok((slot.to_owned(), PathBuf::from(path))),
        _ => Err("expected SLOT=PATH"),
    })
}
