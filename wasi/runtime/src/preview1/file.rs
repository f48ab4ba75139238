//! Files and streams: reading, writing, positions, sizes, flags.
//!
//! Buffers of the program are passed on to the libos where they lie, without a copy.

use super::Call;
use crate::descriptors::{Descriptor, Device, Target};
use crate::errno::WasiError;
use crate::files;
use crate::host::{call, now};
use crate::rights::Rights;
use alloc::vec::Vec;
use core::ops::Range;
use monohull_abi::file::{AT_POSITION, FileStat, IoVec, KEEP_TIME, Whence};
use monohull_abi::number;
use monohull_abi::types::Clock;

/// Flags of a descriptor (`fdflags`).
pub(super) mod flag {
    /// Every write goes to the end.
    pub(crate) const APPEND: u16 = 1;
    /// What would wait is [`WasiError::AGAIN`](super::WasiError::AGAIN): of sockets. Nothing else waits.
    pub(crate) const NONBLOCK: u16 = 1 << 2;
    /// All of them. The others are [`WRITE_THROUGH`](crate::descriptors::WRITE_THROUGH).
    pub(crate) const ALL: u16 = 0b11111;
}

const FDSTAT_SIZE: usize = 24;
const FILESTAT_SIZE: usize = 64;
/// The last number of `advice`.
const ADVICE_MAX: u32 = 5;

/// Parts of the program's memory as a call to the libos takes them.
fn vectors(memory: &mut [u8], ranges: &[Range<usize>]) -> Vec<IoVec> {
    let start = memory.as_mut_ptr() as u64;
    ranges.iter().map(|range| IoVec { address: start + range.start as u64, len: range.len() as u64 }).collect()
}

/// `filestat` of WASI.
pub(super) fn filestat(stat: &FileStat) -> [u8; FILESTAT_SIZE] {
    let time = |ns: i64| ns.max(0) as u64;
    let mut bytes = [0; FILESTAT_SIZE];
    let words = [
        (0, u64::from(stat.mount)),
        (8, stat.node),
        (16, files::kind(stat).into()),
        (24, stat.links.into()),
        (32, stat.size),
        (40, time(stat.accessed)),
        (48, time(stat.modified)),
        (56, time(stat.modified)),
    ];
    for (at, word) in words {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

impl Call<'_> {
    pub(super) fn fd_read(&mut self, fd: u32, buffers: u32, count: u32, out: u32) -> Result<(), WasiError> {
        let ranges = self.guest.buffers(buffers, count)?;
        self.guest.bytes(out, 4)?;
        let descriptor = self.state.descriptors.get(fd)?;
        descriptor.allow_transfer(Rights::FD_READ)?;
        let bytes = match &descriptor.target {
            Target::Stdin => self.read_stdin(&ranges)?,
            Target::Output(_) => return Err(WasiError::BADF),
            &Target::Device(device) => self.read_device(device, &ranges),
            Target::Socket(_) => self.receive(fd, &ranges, 0)?,
            _ => self.vector(number::FILE_READV, fd, &ranges, AT_POSITION)?,
        };
        self.guest.store_u32(out, bytes as u32)
    }

    /// Reads from the slot that is the standard input.
    fn read_stdin(&mut self, ranges: &[Range<usize>]) -> Result<u64, WasiError> {
        let mut total = 0;
        for range in ranges {
            let bytes = files::read_input(&mut self.guest.0[range.clone()])?;
            total += bytes as u64;
            if bytes < range.len() {
                break;
            }
        }
        Ok(total)
    }

    /// Reads from a device: how many bytes.
    fn read_device(&mut self, device: Device, ranges: &[Range<usize>]) -> u64 {
        let mut total = 0;
        for range in ranges {
            total += device.read(&mut self.guest.0[range.clone()]) as u64;
        }
        total
    }

    pub(super) fn fd_pread(
        &mut self,
        fd: u32,
        buffers: u32,
        count: u32,
        offset: u64,
        out: u32,
    ) -> Result<(), WasiError> {
        let ranges = self.guest.buffers(buffers, count)?;
        self.guest.bytes(out, 4)?;
        let descriptor = self.state.descriptors.allowed(fd, Rights::FD_READ | Rights::FD_SEEK)?;
        descriptor.allow_transfer(Rights::FD_READ)?;
        if let Target::Output(_) = descriptor.target {
            return Err(WasiError::BADF);
        }
        let bytes = self.vector(number::FILE_READV, fd, &ranges, offset_of(offset, &ranges)?)?;
        self.guest.store_u32(out, bytes as u32)
    }

    pub(super) fn fd_write(&mut self, fd: u32, buffers: u32, count: u32, out: u32) -> Result<(), WasiError> {
        let ranges = self.guest.buffers(buffers, count)?;
        self.guest.bytes(out, 4)?;
        let descriptor = self.state.descriptors.get(fd)?;
        descriptor.allow_transfer(Rights::FD_WRITE)?;
        let bytes = match descriptor.target {
            Target::Output(stream) => {
                let mut total = 0;
                for range in ranges {
                    let len = range.len() as u64;
                    let bytes = files::write_output(stream, &self.guest.0[range])?;
                    total += bytes;
                    // The program goes on behind what was written.
                    if bytes < len {
                        break;
                    }
                }
                total
            }
            Target::Stdin => return Err(WasiError::BADF),
            Target::Device(_) => ranges.iter().map(|range| range.len() as u64).sum(),
            Target::Socket(_) => self.send(fd, &ranges)?,
            _ => self.vector(number::FILE_WRITEV, fd, &ranges, AT_POSITION)?,
        };
        self.guest.store_u32(out, bytes as u32)
    }

    pub(super) fn fd_pwrite(
        &mut self,
        fd: u32,
        buffers: u32,
        count: u32,
        offset: u64,
        out: u32,
    ) -> Result<(), WasiError> {
        let ranges = self.guest.buffers(buffers, count)?;
        self.guest.bytes(out, 4)?;
        let descriptor = self.state.descriptors.allowed(fd, Rights::FD_WRITE | Rights::FD_SEEK)?;
        descriptor.allow_transfer(Rights::FD_WRITE)?;
        if let Target::Stdin = descriptor.target {
            return Err(WasiError::BADF);
        }
        let bytes = self.vector(number::FILE_WRITEV, fd, &ranges, offset_of(offset, &ranges)?)?;
        self.guest.store_u32(out, bytes as u32)
    }

    /// One call for several buffers.
    fn vector(&mut self, number: u32, fd: u32, ranges: &[Range<usize>], offset: u64) -> Result<u64, WasiError> {
        let descriptor = self.state.descriptors.get(fd)?;
        if number == number::FILE_READV && matches!(descriptor.target, Target::Root | Target::Directory(_)) {
            return Err(WasiError::ISDIR);
        }
        let (file, vectors) = (descriptor.positioned()?, vectors(self.guest.0, ranges));
        let bytes = call(number, [file, vectors.as_ptr() as u64, vectors.len() as u64, offset])?;
        if number == number::FILE_WRITEV {
            files::finish_write(descriptor)?;
        }
        Ok(bytes)
    }

    pub(super) fn fd_seek(&mut self, fd: u32, offset: i64, whence: u32, out: u32) -> Result<(), WasiError> {
        let whence = Whence::from_raw(whence.into()).ok_or(WasiError::INVAL)?;
        let descriptor = self.state.descriptors.get(fd)?;
        match (offset, whence) {
            (0, Whence::Current) => descriptor.rights.allow_one(Rights::FD_SEEK | Rights::FD_TELL)?,
            _ => descriptor.rights.allow(Rights::FD_SEEK)?,
        }
        let position = match descriptor.target {
            // It has no position.
            Target::Device(_) => 0,
            _ => call(number::FILE_SEEK, [descriptor.positioned()?, offset as u64, whence as u64])?,
        };
        self.guest.store_u64(out, position)
    }

    pub(super) fn fd_tell(&mut self, fd: u32, out: u32) -> Result<(), WasiError> {
        self.fd_seek(fd, 0, Whence::Current as u32, out)
    }

    pub(super) fn fd_close(&mut self, fd: u32) -> Result<(), WasiError> {
        self.state.descriptors.remove(fd).map(drop)
    }

    pub(super) fn fd_renumber(&mut self, from: u32, to: u32) -> Result<(), WasiError> {
        self.state.descriptors.renumber(from, to)
    }

    pub(super) fn fd_sync(&mut self, fd: u32) -> Result<(), WasiError> {
        files::sync(self.state.descriptors.allowed(fd, Rights::FD_SYNC)?)
    }

    pub(super) fn fd_datasync(&mut self, fd: u32) -> Result<(), WasiError> {
        files::sync(self.state.descriptors.allowed(fd, Rights::FD_DATASYNC)?)
    }

    pub(super) fn fd_advise(&mut self, fd: u32, _offset: u64, _len: u64, advice: u32) -> Result<(), WasiError> {
        self.state.descriptors.allowed(fd, Rights::FD_ADVISE)?.file()?;
        if advice > ADVICE_MAX { Err(WasiError::INVAL) } else { Ok(()) }
    }

    pub(super) fn fd_allocate(&mut self, fd: u32, offset: u64, len: u64) -> Result<(), WasiError> {
        let file = self.state.descriptors.allowed(fd, Rights::FD_ALLOCATE)?.file()?;
        let end = offset.checked_add(len).filter(|_| len > 0).ok_or(WasiError::INVAL)?;
        if files::stat(file)?.size < end {
            call(number::FILE_FTRUNCATE, [file, end])?;
        }
        Ok(())
    }

    pub(super) fn fd_fdstat_get(&mut self, fd: u32, out: u32) -> Result<(), WasiError> {
        let descriptor = self.state.descriptors.get(fd)?;
        let mut bytes = [0; FDSTAT_SIZE];
        bytes[0] = descriptor.kind();
        bytes[2..4].copy_from_slice(&descriptor.flags.to_le_bytes());
        bytes[8..16].copy_from_slice(&descriptor.rights.base.to_le_bytes());
        bytes[16..24].copy_from_slice(&descriptor.rights.inheriting.to_le_bytes());
        self.guest.store(out, &bytes)
    }

    pub(super) fn fd_fdstat_set_flags(&mut self, fd: u32, flags: u32) -> Result<(), WasiError> {
        let flags = flags_of(flags)?;
        let descriptor = self.state.descriptors.get_mut(fd)?;
        descriptor.rights.allow(Rights::FD_FDSTAT_SET_FLAGS)?;
        match &descriptor.target {
            Target::File(handle) => files::set_append(handle.0, flags & flag::APPEND != 0)?,
            Target::Socket(socket) => socket.set_non_blocking(flags & flag::NONBLOCK != 0)?,
            _ => {}
        }
        descriptor.flags = flags;
        Ok(())
    }

    pub(super) fn fd_fdstat_set_rights(&mut self, fd: u32, base: u64, inheriting: u64) -> Result<(), WasiError> {
        self.state.descriptors.get_mut(fd)?.rights.reduce(base, inheriting)
    }

    pub(super) fn fd_filestat_get(&mut self, fd: u32, out: u32) -> Result<(), WasiError> {
        let descriptor = self.state.descriptors.allowed(fd, Rights::FD_FILESTAT_GET)?;
        let bytes = files::stat_of(descriptor)?.map_or_else(|| stream(descriptor), |stat| filestat(&stat));
        self.guest.store(out, &bytes)
    }

    pub(super) fn fd_filestat_set_size(&mut self, fd: u32, size: u64) -> Result<(), WasiError> {
        let file = self.state.descriptors.allowed(fd, Rights::FD_FILESTAT_SET_SIZE)?.file()?;
        call(number::FILE_FTRUNCATE, [file, size])?;
        Ok(())
    }

    pub(super) fn fd_filestat_set_times(
        &mut self,
        fd: u32,
        accessed: u64,
        modified: u64,
        which: u32,
    ) -> Result<(), WasiError> {
        let descriptor = self.state.descriptors.allowed(fd, Rights::FD_FILESTAT_SET_TIMES)?;
        let (accessed, modified) = times(accessed, modified, which)?;
        files::set_times_of(descriptor, accessed, modified)
    }
}

/// The times that `fstflags` choose: one that is given, the present, or that which there is.
pub(super) fn times(accessed: u64, modified: u64, which: u32) -> Result<(i64, i64), WasiError> {
    let time = |given: u64, shift: u32| match which >> shift & 0b11 {
        0 => Ok(KEEP_TIME),
        1 => Ok(i64::try_from(given).unwrap_or(i64::MAX)),
        2 => now(Clock::Realtime).map(|now| now as i64),
        _ => Err(WasiError::INVAL),
    };
    if which > 0b1111 { Err(WasiError::INVAL) } else { Ok((time(accessed, 0)?, time(modified, 2)?)) }
}

/// `filestat` of a stream, a device or a socket: its kind, and nothing else.
pub(super) fn stream(descriptor: &Descriptor) -> [u8; FILESTAT_SIZE] {
    let mut bytes = [0; FILESTAT_SIZE];
    bytes[16] = descriptor.kind();
    bytes
}

/// An offset in a file, behind which so many bytes have positions too.
fn offset_of(offset: u64, ranges: &[Range<usize>]) -> Result<u64, WasiError> {
    let bytes = ranges.iter().map(|range| range.len() as u64).sum();
    offset.checked_add(bytes).filter(|end| *end <= i64::MAX as u64).map(|_| offset).ok_or(WasiError::INVAL)
}

/// Flags of a descriptor, all of them known.
pub(super) fn flags_of(flags: u32) -> Result<u16, WasiError> {
    u16::try_from(flags).ok().filter(|flags| flags & !flag::ALL == 0).ok_or(WasiError::INVAL)
}
