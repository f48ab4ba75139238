//! One mounted image.

use crate::file::{File, SIZE_MAX, set_modified};
use crate::files::{Files, Place};
use crate::image::{Mapped, errno_of, errno_of_damage};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use monohull_abi::Errno;
use monohull_abi::file::{Extent, FileKind, FileStat, NAME_MAX, open};
use monohull_fat::check::left_over;
use monohull_fat::edit::{EditError, Editor};
use monohull_fat::{ASIDE, Entry, Found, Geometry, decode_time, encode_time, entries, find, runs};
use monohull_module::fs::{Listing, Times, in_pieces};
use monohull_module::{Checked, FutexMutex, HostRef};

/// A file that grows gets at most this many bytes of clusters more than it needs; they go back when it is closed.
const AHEAD_MAX: u64 = 16 << 20;
/// Most bytes of clusters that a file gets under one hold of the editor, and most that are zeroed under one hold of the file.
const GROWN_AT_ONCE: u64 = 256 << 20;
const CLEARED_AT_ONCE: u64 = 1 << 20;

/// One mounted image.
pub(crate) struct Volume {
    host: HostRef,
    mount: u32,
    writable: bool,
    pub(crate) image: Mapped,
    pub(crate) geometry: Geometry,
    pub(crate) editor: FutexMutex<Editor<Mapped>>,
    pub(crate) files: Files,
    /// The image has its dirty flag set.
    marked: AtomicBool,
    pub(crate) next_removed: AtomicU64,
    /// When bytes of files last changed that were open in the domain that this one goes on from, by slot.
    times: FutexMutex<BTreeMap<u64, i64>>,
}

impl Volume {
    pub(crate) fn mount(host: HostRef, mount: u32) -> Result<Volume, Errno> {
        Volume::of(host, mount, Mapped::new(host, mount)?, Vec::new())
    }

    /// The volume in an image. `times` are when bytes of files last changed that are about to be opened again, by slot.
    pub(crate) fn of(host: HostRef, mount: u32, image: Mapped, times: Vec<(u64, i64)>) -> Result<Volume, Errno> {
        let (info, _) = host.mount(mount).ok_or(Errno::Invalid)?;
        let geometry = Geometry::read(&image).map_err(errno_of_damage)?;
        let volume = Volume {
            host,
            mount,
            writable: info.read_only == 0,
            image: image.clone(),
            geometry,
            editor: FutexMutex::new(Editor::new(image, geometry, move || host.realtime() as i64)),
            files: Files::new(),
            marked: AtomicBool::new(false),
            next_removed: AtomicU64::new(0),
            times: FutexMutex::new(times.into_iter().collect()),
        };
        volume.sweep();
        Ok(volume)
    }

    /// Removes what was removed while it was open and never closed.
    fn sweep(&self) {
        let left = if self.writable { left_over(&self.image) } else { Ok(Vec::new()) };
        for name in left.unwrap_or_default() {
            // What cannot be removed stays, unseen.
            let _ = self.change(|editor| editor.remove(&name));
        }
    }

    /// Changes names or chains.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut Editor<Mapped>) -> Result<(), EditError>,
    ) -> Result<(), Errno> {
        change(&mut self.editor.lock()).map_err(errno_of)
    }

    /// Sets the image's dirty flag before a write.
    fn mark(&self) {
        if !self.marked.swap(true, Ordering::Relaxed) {
            // An image that cannot be written fails everywhere else too.
            let _ = self.editor.lock().mark();
        }
    }

    pub(crate) fn find(&self, path: &str) -> Result<Found, Errno> {
        match find(&self.geometry, &self.image, path).map_err(errno_of_damage)? {
            // However its name was spelt.
            Found::Entry(entry) if !path.contains('/') && entry.name.starts_with(ASIDE) => Err(Errno::NotFound),
            found => Ok(found),
        }
    }

    /// What a path leads to, if it is not the root.
    pub(crate) fn find_entry(&self, path: &str) -> Result<Entry, Errno> {
        match self.find(path)? {
            Found::Entry(entry) => Ok(entry),
            Found::Root => Err(Errno::Busy),
        }
    }

    /// Whether a path that leads nowhere could be made: its parent is a directory.
    pub(crate) fn check_parent(&self, path: &str) -> Result<(), Errno> {
        if path.get(..ASIDE.len()).is_some_and(|start| start.eq_ignore_ascii_case(ASIDE)) {
            return Err(Errno::InvalidName);
        }
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        if self.find(parent)?.is_directory() { Ok(()) } else { Err(Errno::NotDirectory) }
    }

    pub(crate) fn open(&self, path: &str, flags: u64) -> Result<(u64, FileStat), Errno> {
        let entry = match self.find(path) {
            Ok(_) if flags & open::EXCLUSIVE != 0 => return Err(Errno::Exists),
            Ok(found) if found.is_directory() => {
                let changes = open::WRITE | open::TRUNCATE | open::CREATE;
                return if flags & changes != 0 { Err(Errno::IsDirectory) } else { Ok((0, self.stat_of(&found))) };
            }
            Ok(Found::Entry(entry)) => entry,
            Ok(Found::Root) => return Err(Errno::IsDirectory),
            Err(Errno::NotFound) if flags & (open::CREATE | open::DIRECTORY) == open::CREATE => {
                self.check_parent(path)?;
                self.change(|editor| editor.make(path, false))?;
                self.find_entry(path)?
            }
            Err(errno) => return Err(errno),
        };
        if flags & open::DIRECTORY != 0 {
            return Err(Errno::NotDirectory);
        }
        if entry.read_only && flags & open::WRITE != 0 {
            return Err(Errno::NotPermitted);
        }
        let node = self.open_entry(path, &entry)?;
        if flags & open::TRUNCATE != 0
            && let Err(errno) = self.resize(node, 0)
        {
            self.close(node)?;
            return Err(errno);
        }
        Ok((node, self.stat_node(node)?))
    }

    fn open_entry(&self, path: &str, entry: &Entry) -> Result<u64, Errno> {
        // Against a close that finds no other descriptor of the file.
        let _editor = self.editor.lock();
        let node = match self.files.at(entry.slot) {
            Some(node) => node,
            None => {
                // It may have been written to and closed since it was looked up.
                let entry = &entry.again(&self.geometry, &self.image).map_err(errno_of_damage)?;
                let runs = runs(&self.geometry, &self.image, entry.cluster).map_err(errno_of_damage)?;
                if entry.size > runs.capacity() {
                    return Err(Errno::Io);
                }
                let node = self.files.insert(File::new(path.to_owned(), entry, runs))?;
                if let Some(time) = self.times.lock().remove(&entry.slot) {
                    self.files.place(node)?.touch(time);
                }
                node
            }
        };
        self.files.place(node)?.write(node, |file| {
            file.opened += 1;
            Ok(node)
        })
    }

    pub(crate) fn close(&self, node: u64) -> Result<(), Errno> {
        let place = self.files.place(node)?;
        let mut editor = self.editor.lock();
        let last = place.write(node, |file| {
            file.opened = file.opened.saturating_sub(1);
            Ok(file.opened == 0)
        })?;
        if !last {
            return Ok(());
        }
        // There are no more reads or writes: the descriptor table has dropped the number.
        let closed = place.write(node, |file| {
            if !file.named {
                editor.remove(&file.path).map_err(errno_of)
            } else if file.runs.capacity() - file.size >= self.geometry.cluster_size {
                editor.shorten(file.slot, &mut file.runs, file.size).map_err(errno_of)
            } else {
                Ok(())
            }
        });
        let stamped = self.stamp(node, place);
        self.files.remove(node);
        closed.and(stamped)
    }

    /// Writes down when a file's bytes last changed.
    fn stamp(&self, node: u64, place: &Place) -> Result<(), Errno> {
        match place.modified() {
            Some(time) => place.write(node, |file| set_modified(&self.image, file.slot, time)),
            None => Ok(()),
        }
    }

    /// Sets when a file or directory was written. When it was read is not kept, and the root has no times.
    pub(crate) fn set_times(&self, path: &str, times: Times) -> Result<(), Errno> {
        let (Found::Entry(entry), Some(written)) = (self.find(path)?, times.written) else { return Ok(()) };
        self.mark();
        // Against a close that writes down another time.
        let _editor = self.editor.lock();
        match self.files.at(entry.slot) {
            Some(node) => self.files.place(node)?.touch(as_kept(written)),
            None => set_modified(&self.image, entry.slot, written)?,
        }
        Ok(())
    }

    /// The same of an open file.
    pub(crate) fn set_node_times(&self, node: u64, times: Times) -> Result<(), Errno> {
        let place = self.files.place(node)?;
        place.read(node, |_| Ok(()))?;
        if let Some(written) = times.written {
            self.mark();
            place.touch(as_kept(written));
        }
        Ok(())
    }

    pub(crate) fn read(&self, node: u64, offset: u64, to: Checked) -> Result<u64, Errno> {
        let place = self.files.place(node)?;
        in_pieces(to, |done, piece| place.read(node, |file| file.read(&self.image, offset.saturating_add(done), piece)))
    }

    pub(crate) fn write(&self, node: u64, offset: Option<u64>, from: Checked) -> Result<(u64, u64), Errno> {
        let place = self.files.place(node)?;
        let mut end = offset.unwrap_or(0);
        let bytes = in_pieces(from, |done, piece| {
            let at = offset.map(|offset| offset.checked_add(done).ok_or(Errno::FileTooLarge)).transpose()?;
            end = self.write_piece(place, node, at, piece)?;
            Ok(piece.len())
        })?;
        place.touch(self.host.realtime() as i64);
        Ok((bytes, end))
    }

    /// Writes one piece, at an offset or at the end; gives the position behind it.
    fn write_piece(&self, place: &Place, node: u64, offset: Option<u64>, piece: Checked) -> Result<u64, Errno> {
        if let Some(offset) = offset {
            // Others may read and overwrite at the same time.
            let inside = |file: &File| match file.covers(offset, piece.len()) {
                true => file.overwrite(&self.image, offset, piece).map(|()| None),
                false => Ok(Some(file.size)),
            };
            let Some(size) = place.read(node, inside)? else { return Ok(offset + piece.len()) };
            self.mark();
            if offset.saturating_sub(size) > CLEARED_AT_ONCE && offset <= SIZE_MAX - piece.len() {
                self.clear(place, node, offset)?;
            }
        }
        self.mark();
        loop {
            let written = place.write(node, |file| {
                let at = offset.unwrap_or(file.size);
                let end = at.checked_add(piece.len()).filter(|end| *end <= SIZE_MAX).ok_or(Errno::FileTooLarge)?;
                if piece.is_empty() || end <= file.runs.capacity() {
                    file.write(&self.image, at, piece)?;
                    return Ok(Ok(end));
                }
                Ok(Err(end))
            })?;
            match written {
                Ok(end) => return Ok(end),
                // Longer, and once more: others may have been quicker meanwhile.
                Err(end) => self.grow(place, node, end)?,
            }
        }
    }

    /// Gives a file clusters for at least `size` bytes.
    fn grow(&self, place: &Place, node: u64, size: u64) -> Result<(), Errno> {
        let mut editor = self.editor.lock();
        place.write(node, |file| {
            let ahead = file.runs.capacity().min(AHEAD_MAX);
            let generous = (size + ahead).min(SIZE_MAX);
            let mut lengthen = |to: u64| editor.lengthen(file.slot, &mut file.runs, to);
            match lengthen(generous) {
                Err(EditError::NoSpace) if generous > size => lengthen(size),
                grown => grown,
            }
            .map_err(errno_of)
        })
    }

    pub(crate) fn resize(&self, node: u64, size: u64) -> Result<(), Errno> {
        if size > SIZE_MAX {
            return Err(Errno::FileTooLarge);
        }
        let place = self.files.place(node)?;
        self.mark();
        loop {
            let shorter = place.read(node, |file| Ok(size < file.size))?;
            let done = if shorter { self.shorten(place, node, size)? } else { self.lengthen(place, node, size)? };
            if done {
                break;
            }
            // Another thread has moved the end meanwhile.
        }
        place.touch(self.host.realtime() as i64);
        Ok(())
    }

    /// Moves the end of a file inwards; false if it lies there already.
    fn shorten(&self, place: &Place, node: u64, size: u64) -> Result<bool, Errno> {
        let mut editor = self.editor.lock();
        place.write(node, |file| {
            if size >= file.size {
                return Ok(false);
            }
            if file.pinned > 0 {
                // What was cut off goes back when the file is closed.
                return file.set_size(&self.image, size).map(|()| true);
            }
            let shortened = editor.shorten(file.slot, &mut file.runs, size).map_err(errno_of);
            // The disk may have stopped it half-way: then what lies behind the clusters is gone all the same.
            file.has_size(if shortened.is_ok() { size } else { file.size.min(file.runs.capacity()) });
            file.has_fewer_clusters();
            shortened.map(|()| true)
        })
    }

    /// Moves the end of a file outwards; false if it lies further out already.
    fn lengthen(&self, place: &Place, node: u64, size: u64) -> Result<bool, Errno> {
        self.clear(place, node, size)?;
        place.write(node, |file| {
            // Others may have moved it since.
            if size < file.size || size > file.cleared() {
                return Ok(false);
            }
            file.set_size(&self.image, size).map(|()| true)
        })
    }

    /// Allocates clusters up to an offset and zeroes them. That may be gigabytes: between two pieces the file is unlocked.
    fn clear(&self, place: &Place, node: u64, to: u64) -> Result<(), Errno> {
        loop {
            let capacity = place.read(node, |file| Ok(file.runs.capacity()))?;
            if capacity >= to {
                break;
            }
            if let Err(errno) = self.grow(place, node, to.min(capacity + GROWN_AT_ONCE)) {
                // The clusters allocated so far are of no use.
                let _ = self.give_back(place, node);
                return Err(errno);
            }
        }
        let piece = |file: &mut File| {
            let piece = to.min(file.cleared() + CLEARED_AT_ONCE).min(file.runs.capacity());
            file.clear(&self.image, piece)?;
            // The file may have been truncated meanwhile: then there is nothing more to clear.
            Ok(piece < to && piece < file.runs.capacity())
        };
        while place.write(node, piece)? {}
        Ok(())
    }

    /// Takes the clusters behind a file's end.
    fn give_back(&self, place: &Place, node: u64) -> Result<(), Errno> {
        let mut editor = self.editor.lock();
        place.write(node, |file| {
            if file.pinned > 0 {
                return Ok(());
            }
            editor.shorten(file.slot, &mut file.runs, file.size).map_err(errno_of)?;
            file.has_fewer_clusters();
            Ok(())
        })
    }

    pub(crate) fn pin(&self, node: u64, offset: u64, len: u64) -> Result<Vec<Extent>, Errno> {
        self.files.place(node)?.write(node, |file| {
            let extents = file.extents(&self.image, offset, len)?;
            file.pinned += 1;
            Ok(extents)
        })
    }

    pub(crate) fn unpin(&self, node: u64) -> Result<(), Errno> {
        self.files.place(node)?.write(node, |file| {
            file.pinned = file.pinned.checked_sub(1).ok_or(Errno::Invalid)?;
            Ok(())
        })
    }

    pub(crate) fn stat(&self, path: &str) -> Result<FileStat, Errno> {
        let found = self.find(path)?;
        let stat = self.stat_of(&found);
        match found {
            Found::Entry(entry) => match self.files.at(entry.slot).map(|node| self.stat_node(node)) {
                // It is closed meanwhile: its slot says all.
                Some(Err(Errno::BadDescriptor)) => {
                    let entry = entry.again(&self.geometry, &self.image).map_err(errno_of_damage)?;
                    Ok(self.stat_of(&Found::Entry(entry)))
                }
                Some(known) => known,
                None => Ok(stat),
            },
            Found::Root => Ok(stat),
        }
    }

    fn stat_of(&self, found: &Found) -> FileStat {
        let root = Entry {
            name: String::new(),
            short: String::new(),
            slot: 0,
            long_slot: None,
            directory: true,
            read_only: false,
            cluster: 0,
            size: 0,
            modified: 0,
            created: 0,
        };
        let entry = if let Found::Entry(entry) = found { entry } else { &root };
        FileStat {
            kind: if entry.directory { FileKind::Directory } else { FileKind::File } as u32,
            read_only: entry.read_only.into(),
            size: entry.size,
            mount: self.mount,
            links: 1,
            // No two have the same slot, and the root has none.
            node: entry.slot.max(1),
            modified: entry.modified,
            accessed: entry.modified,
            created: entry.created,
        }
    }

    pub(crate) fn stat_node(&self, node: u64) -> Result<FileStat, Errno> {
        let place = self.files.place(node)?;
        place.read(node, |file| {
            let mut time = [0; 4];
            self.image.fill(file.slot + 22, &mut time)?;
            let [time, date] = [[time[0], time[1]], [time[2], time[3]]].map(u16::from_le_bytes);
            let modified = place.modified().unwrap_or_else(|| decode_time(date, time));
            Ok(FileStat {
                kind: FileKind::File as u32,
                read_only: file.read_only.into(),
                size: file.size,
                mount: self.mount,
                links: file.named.into(),
                node: file.slot.max(1),
                modified,
                accessed: modified,
                created: file.created,
            })
        })
    }

    pub(crate) fn list(&self, path: &str, start: u64, listing: &mut Listing) -> Result<(), Errno> {
        let found = self.find(path)?;
        if !found.is_directory() {
            return Err(Errno::NotDirectory);
        }
        let mut index = 0;
        entries(&self.geometry, &self.image, &found, |entry| {
            if path.is_empty() && entry.name.starts_with(ASIDE) || !is_name(&entry.name) {
                return true;
            }
            index += 1;
            let kind = if entry.directory { FileKind::Directory } else { FileKind::File };
            index <= start || listing.push(&entry.name, kind, entry.slot)
        })
        .map_err(errno_of_damage)
    }

    pub(crate) fn make_directory(&self, path: &str) -> Result<(), Errno> {
        match self.find(path) {
            Ok(_) => Err(Errno::Exists),
            Err(Errno::NotFound) => {
                self.check_parent(path)?;
                self.change(|editor| editor.make(path, true))
            }
            Err(errno) => Err(errno),
        }
    }

    pub(crate) fn remove_directory(&self, path: &str) -> Result<(), Errno> {
        let entry = self.find_entry(path)?;
        if !entry.directory {
            return Err(Errno::NotDirectory);
        }
        self.check_empty(entry)?;
        self.change(|editor| editor.remove(path))
    }

    pub(crate) fn check_empty(&self, directory: Entry) -> Result<(), Errno> {
        let mut empty = true;
        let found = Found::Entry(directory);
        entries(&self.geometry, &self.image, &found, |_| {
            empty = false;
            false
        })
        .map_err(errno_of_damage)?;
        if empty { Ok(()) } else { Err(Errno::NotEmpty) }
    }

    /// Names are stored when they change.
    pub(crate) fn sync_names(&self) -> Result<(), Errno> {
        self.host.image_sync(self.mount)
    }

    /// Brings the image into the state of one that is not in use, files that are open apart: when bytes of these last changed, by
    /// slot; or the path of a file that stands in the way. The next change marks the image again.
    pub(crate) fn settle_files(&self) -> Result<Vec<(u64, i64)>, String> {
        let mut times = Vec::new();
        for node in self.files.all() {
            let Ok(place) = self.files.place(node) else { continue };
            // Files of the table are there: no call is under way.
            let known = place.read(node, |file| Ok((file.slot, file.named, file.path.clone())));
            let Ok((slot, named, path)) = known else { continue };
            if !named {
                return Err(path);
            }
            times.extend(place.modified().map(|time| (slot, time)));
        }
        times.extend(self.times.lock().iter().map(|(slot, time)| (*slot, *time)));
        self.editor.lock().close();
        self.marked.store(false, Ordering::Relaxed);
        Ok(times)
    }

    pub(crate) fn sync(&self, node: u64) -> Result<(), Errno> {
        self.stamp(node, self.files.place(node)?)?;
        self.sync_names()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.editor.lock().close();
    }
}

/// A time as the image keeps it: in steps of two seconds, from 1980 to 2107.
fn as_kept(ns: i64) -> i64 {
    let (date, time) = encode_time(ns);
    decode_time(date, time)
}

/// Whether a name that lies in an image can be shown.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= NAME_MAX && !name.contains(['/', '\0'])
}
