//! Memory that holds the contents of files.
//!
//! It lies in the system partition, but it is no memory of the Rust program: several carriers copy into and out of it at
//! the same time, as functions ask for, and a mapped image may even lose its pages under the reader. So it is an address
//! and a length, every range is checked, and bytes move by the visor's copy routine alone, which survives a fault. To the
//! compiler there is no object that could be torn.
//!
//! ```text
//!   function's buffer (Checked) ◀── one copy ──▶ Memory { address, len }      a Store is Memory that is given back
//! ```
//!
//! A mapped file may show pages of it. So the visor is told of each store, before it begins and when it is over.

use crate::HostRef;
use core::mem::MaybeUninit;
use core::ops::Deref;
use monohull_abi::Errno;
use monohull_abi::file::Extent;
use monohull_abi::layout::PAGE;

/// One page of zeros to copy from.
static ZEROS: [u8; 4096] = [0; 4096];

/// A function's buffer that the descriptor table has compared with what the function may name, and holds on to while a
/// file system serves the call.
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    address: u64,
    len: u64,
}

impl Checked {
    /// Unchecked: only handlers of system-only numbers call this, with ranges that trusted code has checked.
    pub(crate) const fn new(address: u64, len: u64) -> Checked {
        Checked { address, len }
    }

    /// First address.
    pub const fn address(self) -> u64 {
        self.address
    }

    /// Bytes.
    pub const fn len(self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// A part of it; cut off where it ends.
    pub fn part(self, start: u64, len: u64) -> Checked {
        let start = start.min(self.len);
        Checked { address: self.address + start, len: len.min(self.len - start) }
    }

    /// Fills it with zeros.
    pub fn zero(self, host: HostRef) -> Result<(), Errno> {
        zero(host, self.address, self.len)
    }
}

/// A range of memory with contents of files.
#[derive(Clone, Copy)]
pub struct Memory {
    host: HostRef,
    address: u64,
    len: u64,
}

impl Memory {
    /// # Safety
    /// For as long as this value and its copies are used, the range is no memory that Rust code refers to, and whatever
    /// it holds may be read and (where the module writes) overwritten.
    pub const unsafe fn new(host: HostRef, address: u64, len: u64) -> Memory {
        Memory { host, address, len }
    }

    /// Bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it is, for the visor.
    pub(crate) const fn address(&self) -> u64 {
        self.address
    }

    /// Copies out, from `offset` on, until `to` is full.
    pub fn read<'t>(&self, offset: u64, to: &'t mut [MaybeUninit<u8>]) -> Result<&'t mut [u8], Errno> {
        let from = self.range(offset, to.len() as u64)?;
        // SAFETY: `to` is writable for its length; the range is this memory's, and faults are survived.
        Errno::from_value(unsafe { self.host.raw().read_user(to.as_mut_ptr().cast(), from, to.len()) })
            .map_err(|_| Errno::Io)?;
        // SAFETY: every byte has just been written.
        Ok(unsafe { core::slice::from_raw_parts_mut(to.as_mut_ptr().cast(), to.len()) })
    }

    /// The same over bytes that hold something already.
    pub fn fill(&self, offset: u64, to: &mut [u8]) -> Result<(), Errno> {
        let from = self.range(offset, to.len() as u64)?;
        // SAFETY: as in `read`.
        Errno::from_value(unsafe { self.host.raw().read_user(to.as_mut_ptr(), from, to.len()) })
            .map_err(|_| Errno::Io)
            .map(drop)
    }

    /// Copies `from` to `offset`.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), Errno> {
        let to = self.range(offset, from.len() as u64)?;
        let _store = StoreUnderWay::begin(self.host, to, from.len() as u64)?;
        // SAFETY: `from` is readable; the range is this memory's, and faults are survived.
        Errno::from_value(unsafe { self.host.raw().write_user(to, from.as_ptr(), from.len()) })
            .map_err(|_| Errno::Io)
            .map(drop)
    }

    /// Copies into a function's whole buffer. `Fault` if the buffer is not there, `Io` if this memory is not.
    pub fn copy_out(&self, offset: u64, to: Checked) -> Result<(), Errno> {
        let from = self.range(offset, to.len)?;
        // SAFETY: the target has been checked to be the function's, the source is this memory; faults on either side
        // are survived.
        let status = unsafe { self.host.raw().write_user(to.address, from as *const u8, to.len as usize) };
        Errno::from_value(status).map(drop).map_err(|errno| match is_there(self.host, from, to.len) {
            true => errno,
            false => Errno::Io,
        })
    }

    /// Copies a function's whole buffer in. If a part of it cannot be read, what lies before may have been copied. `Fault` if the
    /// buffer is not there, `Io` if this memory is not.
    pub fn copy_in(&self, offset: u64, from: Checked) -> Result<(), Errno> {
        let to = self.range(offset, from.len)?;
        let _store = StoreUnderWay::begin(self.host, to, from.len)?;
        // SAFETY: as in `copy_out`, the other way round.
        let status = unsafe { self.host.raw().read_user(to as *mut u8, from.address, from.len as usize) };
        Errno::from_value(status).map(drop).map_err(|errno| match is_there(self.host, from.address, from.len) {
            true => Errno::Io,
            false => errno,
        })
    }

    /// Copies to other memory.
    pub fn copy_to(&self, other: &Memory, len: u64) -> Result<(), Errno> {
        let (from, to) = (self.range(0, len)?, other.range(0, len)?);
        let _store = StoreUnderWay::begin(self.host, to, len)?;
        // SAFETY: both ranges are such memory; they belong to different values, which do not overlap.
        Errno::from_value(unsafe { self.host.raw().write_user(to, from as *const u8, len as usize) })
            .map_err(|_| Errno::Io)
            .map(drop)
    }

    /// The address of a range, for a copy that bypasses this module.
    pub fn extent(&self, offset: u64, len: u64) -> Result<Extent, Errno> {
        Ok(Extent { address: self.range(offset, len)?, len })
    }

    /// Fills a range with zeros.
    pub fn zero(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let to = self.range(offset, len)?;
        let _store = StoreUnderWay::begin(self.host, to, len)?;
        zero(self.host, to, len).map_err(|_| Errno::Io)
    }

    /// The address of a range, if all of it lies inside.
    fn range(&self, offset: u64, len: u64) -> Result<u64, Errno> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(self.address + offset),
            _ => Err(Errno::Io),
        }
    }
}

/// A store that is under way. A mapped file may show the very pages: the visor keeps for it what they held before.
struct StoreUnderWay {
    host: HostRef,
    number: u64,
}

impl StoreUnderWay {
    fn begin(host: HostRef, address: u64, len: u64) -> Result<StoreUnderWay, Errno> {
        // SAFETY: no conditions.
        let number = Errno::from_value(unsafe { host.raw().store_begins(address, len) })?;
        Ok(StoreUnderWay { host, number })
    }
}

impl Drop for StoreUnderWay {
    fn drop(&mut self) {
        // SAFETY: the number is that of a store that has begun, and has ended by now.
        unsafe { self.host.raw().store_ended(self.number) }
    }
}

/// Memory of the module's own; given back when it is dropped.
pub struct Store(Memory);

impl Store {
    /// Zeroed memory; `None` if the machine has none left.
    pub fn new(host: HostRef, len: u64) -> Option<Store> {
        // SAFETY: no conditions.
        let address = unsafe { host.raw().store_alloc(len) };
        // SAFETY: the visor gives the memory to no other.
        (address != 0).then(|| Store(unsafe { Memory::new(host, address, len) }))
    }
}

impl Deref for Store {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.0
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: the memory came from `store_alloc` with this size, and `Memory` values copied from this one are used
        // only while it lives, as the file systems' locks see to.
        unsafe { self.0.host.raw().store_free(self.0.address, self.0.len) }
    }
}

/// Whether all of a range can be read. A copy that failed asks this of its source, to know which side it was: looking at it changes
/// nothing, as trying the target would.
#[cold]
fn is_there(host: HostRef, address: u64, len: u64) -> bool {
    let mut byte = MaybeUninit::<u8>::uninit();
    let mut at = address;
    while at < address + len {
        // SAFETY: the byte is writable; the range is one that the caller may read, and faults are survived.
        if unsafe { host.raw().read_user(byte.as_mut_ptr(), at, 1) } != 0 {
            return false;
        }
        at = (at | (PAGE - 1)) + 1;
    }
    true
}

fn zero(host: HostRef, address: u64, len: u64) -> Result<(), Errno> {
    let mut done = 0;
    while done < len {
        let step = (len - done).min(ZEROS.len() as u64);
        // SAFETY: the source is readable for `step` bytes; the target is the caller's range, and faults are survived.
        let status = unsafe { host.raw().write_user(address + done, ZEROS.as_ptr(), step as usize) };
        Errno::from_value(status)?;
        done += step;
    }
    Ok(())
}
