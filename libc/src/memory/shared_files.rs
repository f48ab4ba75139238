//! Files mapped with `MAP_SHARED`: what the program stores there reaches the file, and what it writes to the file shows there.
//!
//! The system maps files privately, so both are this file's work. Beside a mapping that may be written lies a copy of what the file had
//! when both were last made equal:
//!
//! ```text
//!   mapping   A B x D     the program's
//!   copy      A B C D     a byte that differs has been stored since
//!   file      A B C D     gets the bytes that differ: before it is read or written, at msync, fsync, munmap and the end
//! ```
//!
//! What the program writes to the file by other calls is read again into its mappings at once. The same part of a file that is mapped twice
//! is one memory, at one address. Stores are lost if the instance fails, and other instances see them when they are in the file; on Linux
//! both are in the page cache at once.

use super::pages::{self, Run, cut};
use super::{PROT_READ, PROT_WRITE, copies, mapped};
use crate::errno::{Answer, EACCES, EINVAL, ENODEV, ENOMEM};
use crate::host;
use crate::lock::Lock;
use crate::refuse::{Missing, refuse};
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};
use monohull_abi::file::{FileKind, FileStat, KEEP_FLAGS, LOWEST_FREE, map, open};
use monohull_abi::layout::{PAGE, page_up};
use monohull_abi::number;

/// Which file it is: its mount, its number there, and how many names it has. A file system may give the number of a file that has lost its
/// name to another one, and another number to a file that is renamed.
type Identity = (u32, u64, u32);

/// What a mapping's pages are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// The system has mapped the file.
    OfFile,
    /// Pages of the heap.
    OfHeap,
    /// A reservation, which can be accessed as far as the file goes. A database maps much more than it has, and lets its file grow into that.
    Reserved,
}

/// A part of a file in memory.
struct Mapping {
    /// The memory: whole pages, also if the part that was asked for ends within one.
    memory: Run,
    /// A number of its own for the file, so that the program may close the one that it gave.
    file: u64,
    /// Where in the file it begins.
    offset: u64,
    pages: Pages,
    /// How many bytes can be accessed: all, but of a reservation.
    accessible: Cell<u64>,
    /// Where the copy is, if the mapping may be written.
    copy: Option<u64>,
    /// What the program has mapped of it and not unmapped.
    views: Vec<Run>,
}

static MAPPINGS: Lock<Vec<Mapping>> = Lock::new(Vec::new());
/// How many there are, and are about to be: without any, reading and writing files takes no lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// How many threads change a file without having seen a mapping. One that is made waits for them, as it would not show what they write.
static WITHOUT: AtomicUsize = AtomicUsize::new(0);

/// A thread that changes a file while nothing is mapped.
struct Alone;

impl Alone {
    /// `None` if something is mapped.
    fn new() -> Option<Alone> {
        WITHOUT.fetch_add(1, Ordering::SeqCst);
        let alone = Alone;
        (COUNT.load(Ordering::SeqCst) == 0).then_some(alone)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        WITHOUT.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Sees to it that every thread that changes a file from now on sees that something is mapped.
fn announce() {
    COUNT.fetch_add(1, Ordering::SeqCst);
    while WITHOUT.load(Ordering::SeqCst) != 0 {
        host::call(number::THREAD_YIELD, []);
    }
}

/// What is known of an open file.
fn status(file: u64) -> Result<FileStat, Answer> {
    let mut status = FileStat::default();
    match host::call(number::FILE_FSTAT, [file, (&raw mut status) as u64]) {
        error @ ..0 => Err(error),
        _ => Ok(status),
    }
}

/// Which file it is now; a file system without numbers has no answer.
fn identity(status: &FileStat) -> Option<Identity> {
    (status.node != 0).then_some((status.mount, status.node, status.links))
}

/// Whether the file is open for all of this.
fn may(file: u64, rights: u64) -> bool {
    let flags = host::call(number::FILE_FLAGS, [file, KEEP_FLAGS]);
    flags >= 0 && flags as u64 & rights == rights
}

impl Mapping {
    /// Makes one of whole pages of which nothing is mapped.
    fn new(file: u64, offset: u64, len: u64, writable: bool) -> Result<Mapping, Answer> {
        let size = status(file)?.size;
        let there = size.saturating_sub(offset).min(len);
        let is_longer = page_up(there) < len;
        // The system maps what the file has, and a copy is of that and of zeros. What the program writes to the file is copied into both, so
        // pages are never read only.
        let (mut start, mut pages) = match (writable, is_longer) {
            (false, false) => (host::call(number::FILE_MMAP, [file, offset, there, map::WRITE]), Pages::OfFile),
            (false, true) if len >= mapped::LARGE => (mapped::reserve(len), Pages::Reserved),
            _ => (ENODEV, Pages::OfHeap),
        };
        if start < 0 {
            if (start, pages) == (ENOMEM, Pages::Reserved) {
                return Err(refuse(Missing::Reservation, ENOMEM));
            }
            (start, pages) = (copies::of(file, offset, len), Pages::OfHeap);
        }
        if start < 0 {
            return Err(start);
        }
        let memory = Run { start: start as u64, len };
        let accessible = Cell::new(if pages == Pages::Reserved { 0 } else { len });
        let mut mapping = Mapping { memory, file: 0, offset, pages, accessible, copy: None, views: Vec::new() };
        let own = host::call(number::FILE_DUP, [file, LOWEST_FREE]);
        if own < 0 {
            mapping.free();
            return Err(own);
        }
        mapping.file = own as u64;
        if let Err(error) = mapping.reach(size).and_then(|()| if writable { mapping.make_writable() } else { Ok(()) }) {
            mapping.remove();
            return Err(error);
        }
        Ok(mapping)
    }

    /// Sees to it that what the file has can be accessed, if it ends there.
    fn reach(&self, size: u64) -> Result<(), Answer> {
        let (old, new) = (self.accessible.get(), page_up(size.saturating_sub(self.offset)).min(self.memory.len));
        if new <= old {
            return Ok(());
        }
        let part = Run { start: self.memory.start + old, len: new - old };
        mapped::protect(part, PROT_READ | PROT_WRITE)?;
        self.accessible.set(new);
        let read = copies::read(self.file, part.start, part.len, self.offset + old);
        if read < 0 { Err(read) } else { Ok(()) }
    }

    /// Likewise, of a file that has become longer.
    fn grown(&self, size: u64) {
        if self.reach(size).is_err() {
            refuse(Missing::Growth, ENOMEM);
        }
    }

    /// Whether it is of this file.
    fn is_of(&self, file: Identity) -> bool {
        status(self.file).ok().and_then(|status| identity(&status)) == Some(file)
    }

    /// Whether the file's bytes from `offset` to `end` overlap it.
    fn has(&self, offset: u64, end: u64) -> bool {
        self.offset < end && offset < self.end()
    }

    /// The end of the part, in the file.
    fn end(&self) -> u64 {
        self.offset + self.memory.len
    }

    /// Begins to notice what is stored.
    fn make_writable(&mut self) -> Result<(), Answer> {
        if self.copy.is_some() {
            return Ok(());
        }
        if !may(self.file, open::READ | open::WRITE) {
            return Err(EACCES);
        }
        self.reach(self.end())?;
        let copy = pages::take(self.memory.len);
        if copy < 0 {
            return Err(copy);
        }
        // SAFETY: both are pages of this instance, of that length, and the copy's are new.
        unsafe {
            core::ptr::copy_nonoverlapping(self.memory.start as *const u8, copy as *mut u8, self.memory.len as usize)
        };
        self.copy = Some(copy as u64);
        Ok(())
    }

    /// Writes to the file what was stored in this part of the mapping. What cannot be written is tried again the next time.
    fn write_back(&self, part: Run) -> Answer {
        let Some(copy) = self.copy else { return 0 };
        let size = match status(self.file) {
            Ok(status) => status.size,
            Err(error) => return error,
        };
        // A store beyond the file's end has no place there.
        let end = part.end().min(self.memory.start + size.saturating_sub(self.offset).min(self.memory.len));
        let (mut at, mut answer) = (part.start.max(self.memory.start), 0);
        while let Some(changed) = self.next_changed(copy, at, end) {
            at = changed.end();
            let from = changed.start - self.memory.start;
            let mut done = 0;
            while done < changed.len {
                let (bytes, to) = (copy + from + done, self.offset + from + done);
                match host::call(number::FILE_PWRITE, [self.file, bytes, changed.len - done, to]) {
                    written @ 1.. => done += written as u64,
                    error => {
                        for byte in from + done..from + changed.len {
                            // SAFETY: a byte of the copy, made to differ from the mapping's.
                            unsafe { *((copy + byte) as *mut u8) ^= 0xff };
                        }
                        answer = error;
                        break;
                    }
                }
            }
        }
        answer
    }

    /// The next bytes that differ from the copy, up to the end of their page; the copy has them then. Other threads may store meanwhile:
    /// what they store after this is found the next time.
    fn next_changed(&self, copy: u64, from: u64, end: u64) -> Option<Run> {
        let copy_of = |address: u64| (address - self.memory.start + copy) as *mut u8;
        let mut at = from;
        while at < end {
            let page_end = end.min((at & !(PAGE - 1)) + PAGE);
            // SAFETY: pages of the mapping and of its copy.
            let differs = |at: u64| unsafe { (at as *const u8).read_volatile() != *copy_of(at) };
            // Most pages are equal, which eight bytes at a time show.
            let words = (at..page_end).step_by(8);
            if at.is_multiple_of(8) && page_end.is_multiple_of(8) {
                // SAFETY: as above; both begin at a page.
                let equal = |at: u64| unsafe { (at as *const u64).read_volatile() == *copy_of(at).cast::<u64>() };
                match words.into_iter().find(|at| !equal(*at)) {
                    None => {
                        at = page_end;
                        continue;
                    }
                    Some(word) => at = word,
                }
            }
            let Some(first) = (at..page_end).find(|at| differs(*at)) else {
                at = page_end;
                continue;
            };
            let last = (first..page_end).find(|at| !differs(*at)).unwrap_or(page_end);
            for byte in first..last {
                // SAFETY: as above. It is read once, so that what the file gets is what the copy has.
                unsafe { *copy_of(byte) = (byte as *const u8).read_volatile() };
            }
            return Some(Run { start: first, len: last - first });
        }
        None
    }

    /// Shows what the file has in this part of it.
    fn read_again(&self, offset: u64, len: u64) {
        let (start, end) = (offset.max(self.offset), offset.saturating_add(len).min(self.end()));
        if start < end {
            self.grown(end);
            let from = start - self.offset;
            let end = end.min(self.offset + self.accessible.get());
            if end <= start {
                return;
            }
            copies::read(self.file, self.memory.start + from, end - start, start);
            self.equal(from, end - start);
        }
    }

    /// Zeros from the file's new end on. Pages that the system has mapped keep what they had.
    fn resize(&self, size: u64) {
        let (from, accessible) = (size.saturating_sub(self.offset), self.accessible.get());
        if from >= accessible {
            self.grown(size);
        } else if self.pages != Pages::OfFile {
            // SAFETY: pages of the mapping.
            unsafe { ((self.memory.start + from) as *mut u8).write_bytes(0, (accessible - from) as usize) };
            self.equal(from, accessible - from);
        }
    }

    /// The copy has what the mapping has.
    fn equal(&self, from: u64, len: u64) {
        if let Some(copy) = self.copy {
            let (mapping, copy) = ((self.memory.start + from) as *const u8, (copy + from) as *mut u8);
            // SAFETY: pages of both, of that length, which do not overlap.
            unsafe { core::ptr::copy_nonoverlapping(mapping, copy, len as usize) };
        }
    }

    /// Whether it has some of these addresses.
    fn overlaps(&self, start: u64, len: u64) -> bool {
        self.memory.start < start.saturating_add(len.max(1)) && start < self.memory.end()
    }

    /// The program has unmapped this. Where it had mapped something several times, that goes once.
    fn remove_view(&mut self, start: u64, len: u64) {
        let mut rest = vec![Run { start, len }];
        for view in core::mem::take(&mut self.views) {
            let mut left = vec![view];
            for part in &rest {
                cut(&mut left, *part);
            }
            cut(&mut rest, view);
            self.views.extend(left);
        }
    }

    /// Its memory goes.
    fn free(&self) {
        let len = self.memory.len;
        let own = match self.pages {
            Pages::OfFile => {
                host::call(number::FILE_MUNMAP, [self.memory.start]);
                None
            }
            Pages::Reserved => {
                mapped::unreserve(self.memory);
                None
            }
            Pages::OfHeap => Some(self.memory),
        };
        for pages in own.into_iter().chain(self.copy.map(|start| Run { start, len })) {
            // What cannot be given back is lost, as long as the program has no memory at all.
            let _ = pages::release(pages);
        }
    }

    /// It goes.
    fn remove(&self) {
        self.free();
        host::call(number::FILE_CLOSE, [self.file]);
    }
}

/// Maps a part of a file.
pub(super) fn map(file: u64, offset: u64, len: u64, writable: bool) -> Answer {
    let status = match status(file) {
        Ok(status) => status,
        Err(error) => return error,
    };
    let len = page_up(len);
    if FileKind::from_raw(status.kind) != Some(FileKind::File) {
        return ENODEV;
    }
    if !may(file, if writable { open::READ | open::WRITE } else { open::READ }) {
        return EACCES;
    }
    // Of a file without a number it is not known which mappings are of the same.
    let Some(identity) = identity(&status) else { return refuse(Missing::SharedMapping, ENODEV) };
    let Some(end) = offset.checked_add(len) else { return EINVAL };
    let mut mappings = MAPPINGS.hold();
    let overlapping = |other: &Mapping| other.has(offset, end) && other.is_of(identity);
    let whole = |other: &Mapping| overlapping(other) && other.offset <= offset && end <= other.end();
    let at = mappings.iter().position(whole);
    let others = mappings.iter().enumerate().filter(|(other, mapping)| Some(*other) != at && overlapping(mapping));
    let written = writable || at.is_some_and(|at| mappings[at].copy.is_some());
    if others.into_iter().any(|(_, other)| written || other.copy.is_some()) {
        return refuse(Missing::SharedMapping, ENODEV);
    }
    let at = match at {
        Some(at) => {
            // Another instance may have made the file longer.
            let made = mappings[at].reach(status.size);
            if let Err(error) = made.and_then(|()| if writable { mappings[at].make_writable() } else { Ok(()) }) {
                return error;
            }
            at
        }
        None => {
            announce();
            let made = Mapping::new(file, offset, len, writable).map(|mapping| mappings.push(mapping));
            COUNT.store(mappings.len(), Ordering::SeqCst);
            if let Err(error) = made {
                return error;
            }
            mappings.len() - 1
        }
    };
    let start = mappings[at].memory.start + (offset - mappings[at].offset);
    mappings[at].views.push(Run { start, len });
    start as Answer
}

/// Whether a part of it is a shared mapping.
pub(super) fn overlap(start: u64, len: u64) -> bool {
    find(&MAPPINGS.hold(), start, len).is_some()
}

fn find(mappings: &[Mapping], start: u64, len: u64) -> Option<usize> {
    mappings.iter().position(|mapping| mapping.overlaps(start, len))
}

/// The mapping by the system that holds the address.
pub(super) fn mapped_by_system(address: u64) -> Option<u64> {
    let mappings = MAPPINGS.hold();
    let at = find(&mappings, address, 1)?;
    (mappings[at].pages == Pages::OfFile).then_some(mappings[at].memory.start)
}

/// Unmaps what the program has mapped there, once; whether that was a shared mapping. Its memory goes with the last of what is mapped of it.
pub(super) fn unmap(start: u64, len: u64) -> bool {
    if COUNT.load(Ordering::Acquire) == 0 {
        return false;
    }
    let mut mappings = MAPPINGS.hold();
    let mut found = false;
    mappings.retain_mut(|mapping| {
        if !mapping.overlaps(start, len) {
            return true;
        }
        found = true;
        mapping.write_back(Run { start, len });
        mapping.remove_view(start, len);
        if mapping.views.is_empty() {
            mapping.remove();
        }
        !mapping.views.is_empty()
    });
    COUNT.store(mappings.len(), Ordering::SeqCst);
    found
}

/// Gives what is mapped at an address another length; `None` if it is no shared mapping. A longer one is a new mapping, for which the old one
/// must be the program's only view of that memory.
pub(super) fn remap(start: u64, old: u64, new: u64, may_move: bool) -> Option<Answer> {
    let mut mappings = MAPPINGS.hold();
    let at = find(&mappings, start, old)?;
    if new <= old {
        drop(mappings);
        if new < old {
            unmap(start + new, old - new);
        }
        return Some(start as Answer);
    }
    let mapping = &mappings[at];
    let (offset, writable) = (mapping.offset + (start - mapping.memory.start), mapping.copy.is_some());
    let alone = mapping.views == [Run { start, len: old }];
    let overlapping = of(&mappings, mapping.file).into_iter().filter(|other| other.has(offset, offset + new));
    let others = overlapping.filter(|other| other.memory != mapping.memory && (writable || other.copy.is_some()));
    if !may_move || !alone || others.count() > 0 {
        return Some(ENOMEM);
    }
    mapping.write_back(mapping.memory);
    match Mapping::new(mapping.file, offset, new, writable) {
        Err(error) => Some(error),
        Ok(mut longer) => {
            let start = longer.memory.start;
            longer.views.push(Run { start, len: new });
            core::mem::replace(&mut mappings[at], longer).remove();
            Some(start as Answer)
        }
    }
}

/// Stores in the shared mapping there, if there is one, reach its file from now on.
pub(super) fn make_writable(start: u64, len: u64) -> Answer {
    if COUNT.load(Ordering::Acquire) == 0 {
        return 0;
    }
    let mut mappings = MAPPINGS.hold();
    let Some(at) = find(&mappings, start, len) else { return 0 };
    let (file, offset, end) = (mappings[at].file, mappings[at].offset, mappings[at].end());
    if of(&mappings, file).iter().filter(|mapping| mapping.has(offset, end)).count() > 1 {
        return refuse(Missing::SharedMapping, EACCES);
    }
    mappings[at].make_writable().map_or_else(|error| error, |()| 0)
}

/// Writes back what was stored there; makes the files safe as well if `durably`.
pub(super) fn sync(start: u64, len: u64, durably: bool) -> Answer {
    let mappings = MAPPINGS.hold();
    let synced = mappings.iter().filter(|mapping| mapping.overlaps(start, len)).map(|mapping| {
        match mapping.write_back(Run { start, len: page_up(len) }) {
            0 if durably => host::call(number::FILE_FSYNC, [mapping.file]),
            answer => answer,
        }
    });
    synced.min().unwrap_or(0)
}

/// Those of a file.
fn of(mappings: &[Mapping], file: u64) -> Vec<&Mapping> {
    let Some(file) = status(file).ok().and_then(|status| identity(&status)) else { return Vec::new() };
    mappings.iter().filter(|mapping| mapping.is_of(file)).collect()
}

/// Writes back what was stored in mappings of this file, which is about to be read.
pub(crate) fn write_back(file: u64) -> Answer {
    if COUNT.load(Ordering::Acquire) == 0 {
        return 0;
    }
    let mappings = MAPPINGS.hold();
    of(&mappings, file).into_iter().map(|mapping| mapping.write_back(mapping.memory)).min().unwrap_or(0)
}

/// Writes back what was stored in all mappings. Nothing answers for what cannot be written, so a line says it.
pub(crate) fn write_back_all() {
    if COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let mappings = MAPPINGS.hold();
    if mappings.iter().filter(|mapping| mapping.write_back(mapping.memory) < 0).count() > 0 {
        host::write(2, b"monohull: stores in a mapped file could not be written to it\n");
    }
}

/// Writes to a file by `act`, and shows in its mappings what was written: `at` says where that begins, of so many bytes.
pub(crate) fn writing(file: u64, act: impl FnOnce() -> Answer, at: impl FnOnce(u64) -> u64) -> Answer {
    changing(file, act, |mappings, written| {
        let at = at(written);
        mappings.iter().for_each(|mapping| mapping.read_again(at, written));
    })
}

/// Gives a file another size by `act`.
pub(crate) fn resized(file: u64, size: u64, act: impl FnOnce() -> Answer) -> Answer {
    changing(file, act, |mappings, _| mappings.iter().for_each(|mapping| mapping.resize(size)))
}

/// Changes a file by `act`, and has `show` change its mappings likewise unless that has failed.
fn changing(file: u64, act: impl FnOnce() -> Answer, show: impl FnOnce(&[&Mapping], u64)) -> Answer {
    if let Some(_alone) = Alone::new() {
        return act();
    }
    let mappings = MAPPINGS.hold();
    let mappings = of(&mappings, file);
    for mapping in &mappings {
        mapping.write_back(mapping.memory);
    }
    let answer = act();
    if answer >= 0 && !mappings.is_empty() {
        show(&mappings, answer as u64);
    }
    answer
}
