//! The calls that move bytes, and those about one descriptor.

use crate::mounts::Location;
use crate::tables::Open;
use crate::{Answer, Files, Stop, outcome};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;
use monohull_abi::file::{
    AT_POSITION, FILE_SIZE_MAX, FileStat, FsOp, IoVec, KEEP_FLAGS, LOWEST_FREE, TRANSFER_MAX, VECTOR_MAX, Whence, open,
};
use monohull_abi::module::{Call, SYSTEM_INSTANCE};
use monohull_abi::user::{UserSlice, write_one};
use monohull_abi::{Errno, Outcome};

/// Buffers of a vector that are checked together.
const BATCH: usize = 16;
/// Most bytes of several buffers that are one append: what a file system stores under one hold of a file's lock.
const APPENDED_MAX: u64 = 1 << 20;

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Read,
    Write,
}

impl Files {
    pub(crate) fn read(&self, call: &mut Call) -> Outcome {
        outcome(self.transfer(call, Way::Read, None))
    }

    pub(crate) fn write(&self, call: &mut Call) -> Outcome {
        outcome(self.transfer(call, Way::Write, None))
    }

    pub(crate) fn read_at(&self, call: &mut Call) -> Outcome {
        outcome(self.transfer(call, Way::Read, Some(call.args[3])))
    }

    pub(crate) fn write_at(&self, call: &mut Call) -> Outcome {
        outcome(self.transfer(call, Way::Write, Some(call.args[3])))
    }

    /// One buffer, at the descriptor's position or at an offset.
    fn transfer(&self, call: &mut Call, way: Way, offset: Option<u64>) -> Answer {
        let [descriptor, address, len, ..] = call.args;
        let open = self.open_for(call, descriptor, way)?;
        let moved = self.try_transfer(call, &open, way, IoVec { address, len }, offset);
        self.release(open);
        moved
    }

    fn try_transfer(&self, call: &mut Call, open: &Open, way: Way, buffer: IoVec, offset: Option<u64>) -> Answer {
        if let Some(offset) = offset {
            let offset = self.offset(call, offset)?;
            let (bytes, _) = self.one(call, open, way, Some(offset), buffer, TRANSFER_MAX)?;
            return Ok(bytes);
        }
        let _guard = open.position_lock.acquire(self.host, call).ok_or(Stop::Parked)?;
        let (bytes, position) = self.one(call, open, way, None, buffer, TRANSFER_MAX)?;
        open.position.store(position, Ordering::Relaxed);
        Ok(bytes)
    }

    pub(crate) fn read_vector(&self, call: &mut Call) -> Outcome {
        outcome(self.vector(call, Way::Read))
    }

    pub(crate) fn write_vector(&self, call: &mut Call) -> Outcome {
        outcome(self.vector(call, Way::Write))
    }

    /// Several buffers, consecutive in the file.
    fn vector(&self, call: &mut Call, way: Way) -> Answer {
        let [descriptor, address, count, offset, ..] = call.args;
        let open = self.open_for(call, descriptor, way)?;
        let moved = self.try_vector(call, &open, way, (address, count), offset);
        self.release(open);
        moved
    }

    fn try_vector(&self, call: &mut Call, open: &Open, way: Way, (address, count): (u64, u64), offset: u64) -> Answer {
        if count > VECTOR_MAX {
            return Err(self.refuse(call, Errno::Invalid, format_args!("{count} buffers, {VECTOR_MAX} are the most")));
        }
        let offset = match offset {
            AT_POSITION => None,
            offset => Some(self.offset(call, offset)?),
        };
        let _guard = match offset {
            None => Some(open.position_lock.acquire(self.host, call).ok_or(Stop::Parked)?),
            Some(_) => None,
        };
        if way == Way::Write
            && count > 1
            && open.has(open::APPEND)
            && let Some(bytes) = self.gather(call, address, count)?
        {
            let (done, position) = self.store(call, open, 0, bytes.as_ptr() as u64, bytes.len() as u64)?;
            if offset.is_none() && done > 0 {
                open.position.store(position, Ordering::Relaxed);
            }
            return Ok(done);
        }
        let (mut done, mut at) = (0, offset);
        let mut index = 0;
        while index < count {
            let size = (count - index).min(BATCH as u64);
            for vector in self.buffers(call, (address, count), index)? {
                if done >= TRANSFER_MAX {
                    return Ok(done);
                }
                let (bytes, position) = match self.one(call, open, way, at, vector, TRANSFER_MAX - done) {
                    Ok(moved) => moved,
                    // The count is returned; the next call fails again.
                    Err(_) if done > 0 => return Ok(done),
                    Err(stop) => return Err(stop),
                };
                done += bytes;
                match at {
                    Some(_) => at = Some(position),
                    None => open.position.store(position, Ordering::Relaxed),
                }
                if bytes < vector.len {
                    return Ok(done);
                }
            }
            index += size;
        }
        Ok(done)
    }

    /// Some of a list of buffers, from one on.
    fn buffers(&self, call: &Call, (address, count): (u64, u64), index: u64) -> Result<Vec<IoVec>, Stop> {
        let mut batch = [const { MaybeUninit::uninit() }; BATCH];
        let size = (count - index).min(BATCH as u64);
        let vectors = UserSlice::<IoVec>::new(address, count)
            .check(self.host.raw(), call)
            .and_then(|slice| Ok(slice.read_at(index as usize, &mut batch[..size as usize])?.to_vec()));
        vectors.map_err(|refusal| self.refuse_address(call, refusal, "the list of buffers"))
    }

    /// The bytes of several buffers, so that what others append does not come between them; `None` if they are too many. A buffer that
    /// cannot be read is an error if it is the first with bytes, and otherwise the end.
    fn gather(&self, call: &Call, address: u64, count: u64) -> Result<Option<Vec<u8>>, Stop> {
        let mut bytes = Vec::new();
        for index in (0..count).step_by(BATCH) {
            for IoVec { address, len } in self.buffers(call, (address, count), index)? {
                if len == 0 {
                    continue;
                }
                if len > APPENDED_MAX - bytes.len() as u64 {
                    return Ok(None);
                }
                let before = bytes.len();
                bytes.try_reserve(len as usize).map_err(|_| Errno::OutOfMemory)?;
                bytes.resize(before + len as usize, 0);
                let slice = UserSlice::<u8>::new(address, len).check(self.host.raw(), call);
                if let Err(refusal) = slice.and_then(|slice| slice.read_into(0, &mut bytes[before..])) {
                    if before == 0 {
                        return Err(self.refuse_address(call, refusal, "the buffer"));
                    }
                    bytes.truncate(before);
                    return Ok(Some(bytes));
                }
            }
        }
        Ok(Some(bytes))
    }

    /// Writes bytes at an offset, or at the end: how many, and the position behind them.
    fn store(&self, call: &Call, open: &Open, at: u64, address: u64, len: u64) -> Result<(u64, u64), Stop> {
        let mount = open.mount.ok_or(Errno::IsDirectory)?;
        if len == 0 {
            return Ok((0, at));
        }
        let at = if open.has(open::APPEND) { FsOp::APPEND } else { at };
        let stored = self.mounts.request(FsOp::Write, mount, [open.node, at, address, len, 0]);
        stored.map(|(bytes, scratch)| (bytes, scratch[0])).map_err(|errno| self.refuse_buffer(call, errno))
    }

    fn refuse_buffer(&self, call: &Call, errno: Errno) -> Stop {
        match errno {
            Errno::Fault => {
                self.refuse(call, errno, format_args!("the buffer: nothing the caller may use is mapped there"))
            }
            errno => self.refuse(call, errno, format_args!("{errno}")),
        }
    }

    /// Transfers the bytes of one buffer, at most `most`: how many, and the position behind them.
    fn one(
        &self,
        call: &Call,
        open: &Open,
        way: Way,
        offset: Option<u64>,
        buffer: IoVec,
        most: u64,
    ) -> Result<(u64, u64), Stop> {
        let mount = open.mount.ok_or(Errno::IsDirectory)?;
        let at = offset.unwrap_or_else(|| open.position.load(Ordering::Relaxed));
        let IoVec { address, len } = buffer;
        if len == 0 {
            // Nothing moves, and nothing grows.
            return Ok((0, at));
        }
        // The file system copies by address, while this slice lives.
        let checked = UserSlice::<u8>::new(address, len).check(self.host.raw(), call);
        let _checked = checked.map_err(|refusal| self.refuse_address(call, refusal, "the buffer"))?;
        let len = len.min(most);
        match way {
            Way::Read => {
                let asked = self.mounts.request(FsOp::Read, mount, [open.node, at, address, len, 0]);
                asked
                    .map(|(bytes, _)| (bytes, at.saturating_add(bytes)))
                    .map_err(|errno| self.refuse_buffer(call, errno))
            }
            Way::Write => self.store(call, open, at, address, len),
        }
    }

    pub(crate) fn seek(&self, call: &mut Call) -> Outcome {
        outcome(self.with_open(call, |files, call, open| {
            let [_, offset, whence, ..] = call.args;
            let Some(whence) = Whence::from_raw(whence) else {
                return Err(files.refuse(call, Errno::Invalid, format_args!("{whence} is not a valid whence")));
            };
            let _guard = open.position_lock.acquire(files.host, call).ok_or(Stop::Parked)?;
            let from = match whence {
                Whence::Start => 0,
                Whence::Current => open.position.load(Ordering::Relaxed),
                Whence::End => files.stat_of(call, open)?.size,
            };
            if let Some(directory) = &open.directory {
                // A directory can be rewound, and then lists the entries of that time; and its position can be read.
                match (whence, offset) {
                    (Whence::Start, 0) => files.drop_listing(directory),
                    (Whence::Current, 0) => return Ok(from),
                    _ => {
                        return Err(files.refuse(
                            call,
                            Errno::Invalid,
                            format_args!("a directory can only be rewound"),
                        ));
                    }
                }
            }
            let to = from.checked_add_signed(offset as i64).filter(|to| *to <= FILE_SIZE_MAX);
            let Some(to) = to.filter(|_| whence != Whence::Start || offset as i64 >= 0) else {
                let why = format_args!("{from} plus {} is not a position in a file", offset as i64);
                return Err(files.refuse(call, Errno::Invalid, why));
            };
            open.position.store(to, Ordering::Relaxed);
            Ok(to)
        }))
    }

    pub(crate) fn stat_open(&self, call: &mut Call) -> Outcome {
        outcome(self.with_open(call, |files, call, open| {
            let stat = files.stat_of(call, open)?;
            write_one(files.host.raw(), call, call.args[1], stat)
                .map_err(|refusal| files.refuse_address(call, refusal, "the buffer for the metadata"))?;
            Ok(0)
        }))
    }

    fn stat_of(&self, call: &mut Call, open: &Open) -> Result<FileStat, Stop> {
        let stat = match (&open.directory, open.mount) {
            (Some(_), _) => {
                let location = self.mounts.locate(call.instance, &open.path)?;
                let _guard = self.lock_paths(call, location)?;
                self.mounts.stat(location)
            }
            (None, Some(mount)) => {
                let mut stat = FileStat::default();
                let asked = self.mounts.request(FsOp::StatNode, mount, [open.node, &raw mut stat as u64, 0, 0, 0]);
                asked.map(|_| self.mounts.with_rights(mount, stat))
            }
            (None, None) => Err(Errno::BadDescriptor),
        };
        stat.map_err(|errno| self.refuse(call, errno, format_args!("{errno}")))
    }

    pub(crate) fn resize(&self, call: &mut Call) -> Outcome {
        outcome(self.with_open(call, |files, call, open| {
            let size = call.args[1];
            let mount = open.mount.filter(|_| open.directory.is_none() && open.has(open::WRITE));
            let Some(mount) = mount else {
                return Err(files.refuse(call, Errno::Invalid, format_args!("the descriptor is not open for writing")));
            };
            if size > FILE_SIZE_MAX {
                return Err(files.refuse(call, Errno::Invalid, format_args!("{size} is not a valid file size")));
            }
            let resized = files.mounts.request(FsOp::Resize, mount, [open.node, size, 0, 0, 0]);
            resized.map(|_| 0).map_err(|errno| files.refuse(call, errno, format_args!("{errno}")))
        }))
    }

    /// Sets the times of the descriptor's file. It need not be open for writing, but its mount must be writable.
    pub(crate) fn set_open_times(&self, call: &mut Call, [read, written]: [u64; 2]) -> Outcome {
        outcome(self.with_open(call, |files, call, open| {
            let location = files.mounts.locate(call.instance, &open.path)?;
            let set = match location {
                Location::OnMount(mount, _) if files.mounts.get(mount).info.read_only != 0 => Err(Errno::ReadOnly),
                Location::OnMount(mount, path) => {
                    let _guard = files.lock_paths(call, location)?;
                    match &open.directory {
                        Some(_) => files.mounts.request_path(FsOp::SetTimes, mount, path, [read, written, 0]),
                        None => {
                            let path = [path.as_ptr() as u64, path.len() as u64];
                            let args = [open.node, path[0], path[1], read, written];
                            files.mounts.request(FsOp::SetNodeTimes, mount, args).map(|_| 0)
                        }
                    }
                }
                Location::AboveMounts => Err(Errno::ReadOnly),
            };
            set.map_err(|errno| files.refuse(call, errno, format_args!("{errno}")))
        }))
    }

    pub(crate) fn sync(&self, call: &mut Call) -> Outcome {
        outcome(self.with_open(call, |files, call, open| {
            let synced = match (&open.directory, open.mount) {
                (Some(_), _) => match files.mounts.locate(call.instance, &open.path)? {
                    Location::OnMount(mount, path) => {
                        files.mounts.request_path(FsOp::SyncDirectory, mount, path, [0; 3])
                    }
                    Location::AboveMounts => Ok(0),
                },
                (None, Some(mount)) => files.mounts.request(FsOp::Sync, mount, [open.node, 0, 0, 0, 0]).map(|_| 0),
                (None, None) => Ok(0),
            };
            synced.map_err(|errno| files.refuse(call, errno, format_args!("{errno}")))
        }))
    }

    pub(crate) fn close(&self, call: &mut Call) -> Outcome {
        let descriptor = call.args[0];
        outcome(self.admit(call).and_then(|()| {
            let open = self.tables.find(call.instance).and_then(|table| table.remove(descriptor));
            let Some(open) = open else { return Err(self.refuse_descriptor(call, descriptor)) };
            self.release(open);
            Ok(0)
        }))
    }

    pub(crate) fn duplicate(&self, call: &mut Call) -> Outcome {
        let [descriptor, target, ..] = call.args;
        outcome(self.admit(call).and_then(|()| {
            let table = self.tables.of(call.instance);
            let Some(open) = table.get(descriptor) else { return Err(self.refuse_descriptor(call, descriptor)) };
            match target {
                LOWEST_FREE => table.insert(open).map_err(|open| {
                    self.release(open);
                    self.refuse_full(call)
                }),
                target => match table.replace(target, open) {
                    Ok(old) => {
                        old.into_iter().for_each(|old| self.release(old));
                        Ok(target)
                    }
                    Err(open) => {
                        self.release(open);
                        Err(self.refuse_descriptor(call, target))
                    }
                },
            }
        }))
    }

    /// The first descriptor of an instance behind one, for trusted callers.
    pub(crate) fn held_behind(&self, call: &mut Call) -> Result<u64, Errno> {
        let [instance, descriptor, ..] = call.args;
        if call.instance != SYSTEM_INSTANCE {
            return Err(Errno::NotPermitted);
        }
        Ok(self.tables.find(instance as u32).and_then(|table| table.behind(descriptor)).unwrap_or(0))
    }

    pub(crate) fn flags(&self, call: &mut Call) -> Outcome {
        outcome(self.with_open(call, |files, call, opened| {
            let old = opened.flags.load(Ordering::Relaxed);
            match call.args[1] {
                KEEP_FLAGS => {}
                new if (new ^ old) & !open::APPEND == 0 => opened.flags.store(new, Ordering::Relaxed),
                new => {
                    let why = format_args!("only APPEND can change, not {old:#x} to {new:#x}");
                    return Err(files.refuse(call, Errno::Invalid, why));
                }
            }
            Ok(old)
        }))
    }

    /// A call about one descriptor.
    pub(crate) fn with_open(&self, call: &mut Call, run: impl FnOnce(&Files, &mut Call, &Open) -> Answer) -> Answer {
        self.admit(call)?;
        let descriptor = call.args[0];
        let open = self.tables.open(call.instance, descriptor).map_err(|_| self.refuse_descriptor(call, descriptor))?;
        let answer = run(self, call, &open);
        self.release(open);
        answer
    }

    /// The open file of a descriptor, if it permits this direction.
    fn open_for(&self, call: &mut Call, descriptor: u64, way: Way) -> Result<Arc<Open>, Stop> {
        self.admit(call)?;
        let open = self.tables.open(call.instance, descriptor).map_err(|_| self.refuse_descriptor(call, descriptor))?;
        let (needed, word) = match way {
            Way::Read => (open::READ, "reading"),
            Way::Write => (open::WRITE, "writing"),
        };
        let refusal = if !open.has(needed) {
            Some(self.refuse(call, Errno::BadDescriptor, format_args!("the descriptor is not open for {word}")))
        } else if open.directory.is_some() {
            Some(self.refuse(call, Errno::IsDirectory, format_args!("{}", Errno::IsDirectory)))
        } else {
            None
        };
        match refusal {
            None => Ok(open),
            Some(refusal) => {
                self.release(open);
                Err(refusal)
            }
        }
    }

    fn offset(&self, call: &Call, offset: u64) -> Result<u64, Stop> {
        match offset {
            0..=FILE_SIZE_MAX => Ok(offset),
            _ => Err(self.refuse(call, Errno::Invalid, format_args!("{} is not a valid offset", offset as i64))),
        }
    }

    #[cold]
    fn refuse_descriptor(&self, call: &Call, descriptor: u64) -> Stop {
        self.refuse(call, Errno::BadDescriptor, format_args!("{descriptor} is not an open descriptor"))
    }

    #[cold]
    pub(crate) fn refuse_full(&self, call: &Call) -> Stop {
        let most = monohull_abi::file::DESCRIPTORS_MAX as u64 - monohull_abi::file::FIRST_DESCRIPTOR;
        self.refuse(call, Errno::TooManyOpen, format_args!("an instance may have {most} descriptors"))
    }
}
