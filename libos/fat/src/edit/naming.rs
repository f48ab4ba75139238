//! Giving a file or directory a name, or another one.

use super::library::{Fat, LibraryError, as_library_error};
use super::stage::Stage;
use super::{Move, Store};
use crate::directory::{FLAGS, MOVED};
use crate::{Entry, Error, Found, Geometry, Image, find};
use alloc::format;
use spin::Mutex;

/// Makes an empty file, or a directory.
pub(crate) fn make<S: Store>(
    fat: &Fat<S>,
    stage: &Mutex<Stage<S>>,
    geometry: &Geometry,
    path: &str,
    directory: bool,
) -> Result<(), LibraryError> {
    named(stage, geometry, path, |path| match directory {
        true => fat.root_dir().create_dir(path).map(drop),
        false => fat.root_dir().create_file(path).map(drop),
    })
}

/// Has the library make a name. It cannot make one that begins with a character of several bytes, so such a name first
/// begins with ASCII. The short name is the same for both, and the beginning is put right in the long one.
fn named<S: Store>(
    stage: &Mutex<Stage<S>>,
    geometry: &Geometry,
    path: &str,
    make: impl FnOnce(&str) -> Result<(), LibraryError>,
) -> Result<(), LibraryError> {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    let Some(first) = name.chars().next().filter(|first| !first.is_ascii()) else { return make(path) };
    let rest = &name[first.len_utf8()..];
    let mut units = [0; 2];
    let units = first.encode_utf16(&mut units);
    // Nothing else may have the name that is only for the moment.
    let stand_ins = "_-~!#$%&@^0123456789abcdefghijklmnopqrstuvwxyz".chars();
    let mut paths = stand_ins.map(|c| match units.len() {
        1 => format!("{parent}/{c}{rest}"),
        _ => format!("{parent}/{c}{c}{rest}"),
    });
    let unused = paths.find(|path| find(geometry, &*stage.lock(), path) == Err(Error::NotFound));
    let stand_in = unused.ok_or(lamfat::Error::AlreadyExists)?;
    make(stand_in.trim_start_matches('/'))?;
    let mut stage = stage.lock();
    let found = find(geometry, &*stage, &stand_in).map_err(as_library_error)?;
    let Found::Entry(Entry { long_slot: Some(slot), .. }) = found else {
        return Err(lamfat::Error::CorruptedFileSystem);
    };
    for (index, unit) in (0..).zip(units.iter()) {
        stage.write(slot + 1 + 2 * index, &unit.to_le_bytes()).map_err(as_library_error)?;
    }
    Ok(())
}

/// Changes a name.
pub(crate) fn rename<S: Store>(
    fat: &Fat<S>,
    stage: &Mutex<Stage<S>>,
    geometry: &Geometry,
    change: &Move<'_>,
) -> Result<(), LibraryError> {
    let (root, Move { from, to, .. }) = (fat.root_dir(), change);
    if change.respelled {
        // To the library both are one name; by way of a third they are not.
        root.rename(from, &root, change.aside)?;
        return named(stage, geometry, to, |to| root.rename(change.aside, &root, to));
    }
    // The replaced file frees its clusters last, so that nothing new uses them before its name is removed.
    let replaced = change.hidden.or(change.replaced.then_some(change.aside));
    if let Some(aside) = replaced {
        root.rename(to, &root, aside)?;
    }
    named(stage, geometry, to, |to| root.rename(from, &root, to))?;
    mark_moved(stage, change.moved.slot)?;
    if replaced.is_some() && change.hidden.is_none() {
        root.remove(change.aside)?;
    }
    if change.moved.directory { lead_up(stage, geometry, change) } else { Ok(()) }
}

/// Marks a slot that is being removed: if an interruption leaves two names, a repair keeps the other one.
fn mark_moved<S: Store>(stage: &Mutex<Stage<S>>, slot: u64) -> Result<(), LibraryError> {
    let mut stage = stage.lock();
    let mut flags = [0];
    stage.read(slot + FLAGS, &mut flags).map_err(as_library_error)?;
    stage.write(slot + FLAGS, &[flags[0] | MOVED]).map_err(as_library_error)
}

/// `..` of a directory that has moved leads to its new parent, which the library does not update.
fn lead_up<S: Store>(stage: &Mutex<Stage<S>>, geometry: &Geometry, change: &Move<'_>) -> Result<(), LibraryError> {
    const SLOT: u64 = 32;
    let mut stage = stage.lock();
    let parent = change.to.rsplit_once('/').map_or("", |(parent, _)| parent);
    let cluster = match find(geometry, &*stage, parent).map_err(as_library_error)? {
        Found::Root => 0,
        Found::Entry(entry) => entry.cluster,
    };
    let slot = geometry.offset(change.moved.cluster).map_err(as_library_error)? + SLOT;
    let mut name = [0; 11];
    stage.read(slot, &mut name).map_err(as_library_error)?;
    if name != *b"..         " {
        return Ok(());
    }
    let [low0, low1, high0, high1] = cluster.to_le_bytes();
    stage.write(slot + 20, &[high0, high1]).map_err(as_library_error)?;
    stage.write(slot + 26, &[low0, low1]).map_err(as_library_error)
}
