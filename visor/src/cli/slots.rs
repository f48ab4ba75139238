//! `SLOT=PATH` on the command line. The path may be any that the system has, also one that is not UTF-8. A path alone is for the only slot.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use monohull_report::escape::shown;
use monohull_report::text::quoted;

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

/// Where an output goes: to this file, or to standard output (`-`), and of which slot, if that is said in front of it. A file with `=` in its name is
/// given with its folder, as `./a=b.txt`.
pub(super) fn of_output<'o>(
    to: &'o OsStr,
    chosen: Option<&'o str>,
) -> Result<(Option<&'o str>, &'o Path), &'static str> {
    match split(to).filter(|(slot, _)| !slot.contains('/')) {
        Some((slot, path)) if slot.is_empty() || path.is_empty() => Err("--output: expected FILE or SLOT=FILE"),
        Some((slot, _)) if chosen.is_some_and(|chosen| chosen != slot) => {
            Err("--output and --slot name different slots")
        }
        Some((slot, path)) => Ok((Some(slot), path.as_ref())),
        None => Ok((chosen, to.as_ref())),
    }
}

/// A parser of an input: the path may be empty. A file alone has an empty slot, which [`name_only_slot`] names.
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
        None if !text.is_empty() => Ok((String::new(), PathBuf::from(text))),
        _ => Err("expected SLOT=PATH"),
    })
}

/// Gives a file that stands alone the name of the only slot. If there is none or several, what was expected.
pub(super) fn name_only_slot<'s>(
    option: &'static str,
    given: &mut [(String, PathBuf)],
    slots: impl ExactSizeIterator<Item = &'s str>,
) -> Result<(), String> {
    let slots: Vec<&str> = slots.collect();
    for (slot, path) in given.iter_mut().filter(|(slot, _)| slot.is_empty()) {
        match slots.as_slice() {
            [only] => (*only).clone_into(slot),
            [] => return Err(format!("--{option} {}: the workflow has no {option} slot", shown(path))),
            several => {
                let names: Vec<_> = several.iter().map(|slot| quoted(slot)).collect();
                return Err(format!(
                    "--{option} {}: expected SLOT=PATH; the workflow has the {option} slots {}",
                    shown(path),
                    names.join(", ")
                ));
            }
        }
    }
    Ok(())
}
