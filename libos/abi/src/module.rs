//! What a libos module exports, and the services that the visor offers it.
//!
//! A module is a shared object with one exported symbol, [`SYMBOL`], of type [`ModuleTable`]. It is loaded on the
//! first call of one of its numbers. It keeps one state per domain, made by `start` and dropped by `stop`.
//!
//! A handler never blocks its thread. If it must wait, it registers what it waits for ([`Host::wait`]) *while it
//! still holds its own lock*, releases the lock and returns [`Outcome::PARK`]; on wake-up it is called again with the
//! same arguments and scratch area, and [`Call::wake`] gives the reason. The function holds no system stack meanwhile.
//!
//! Modules are `no_std`. A panic in a module ends in [`Host::panicked`], which ends the process: the module may hold locks
//! that other carriers wait for, and what it was changing is half changed.

pub use crate::call::{Call, Outcome, SYSTEM_INSTANCE, Wake};

use crate::file::{Advice, ImageIdentity, MapRequest, MountInfo};
use crate::network::{NetworkHost, NetworkServices};
use crate::record::Records;
use crate::services::service_table;
use crate::types::MapAccess;
use core::ffi::c_void;

/// Name of the exported [`ModuleTable`].
pub const SYMBOL: &str = "MONOHULL_MODULE";
/// First word of a [`ModuleTable`].
pub const MAGIC: u64 = u64::from_le_bytes(*b"MONOHULL");
/// "No deadline".
pub const NEVER: u64 = u64::MAX;
/// A [`Host::wait`] key that is never woken: only the deadline ends the wait.
pub const NO_KEY: u64 = 0;

/// Serves one hostcall number. `state` is what the module's `start` returned for this domain.
pub type Handler = unsafe extern "C" fn(state: *mut c_void, call: *mut Call) -> Outcome;

/// One served number.
#[repr(C)]
pub struct ModuleEntry {
    /// The hostcall's number.
    pub number: u32,
    /// The function that serves it.
    pub handler: Handler,
}

/// How an instance ended, for [`ModuleTable::ended`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Ending {
    /// It finished its work: what it still owns is freed.
    Done = 0,
    /// It failed: buffers that it published and that were not taken are withdrawn; buffers that it took and did not write to go back.
    Failed = 1,
}

/// What a module has done about the end of an instance, for [`ModuleTable::ended`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Released {
    /// Nothing of the instance is left, and what it changed of its inputs cannot be undone.
    InputsLost = 0,
    /// Nothing of the instance is left; its inputs are intact, so it can be run again alone. A module that holds no inputs always
    /// returns this.
    InputsIntact = 1,
    /// More is left than one call may release.
    More = 2,
}

impl Released {
    /// Nothing is left.
    pub const fn all(inputs_intact: bool) -> Released {
        if inputs_intact { Released::InputsIntact } else { Released::InputsLost }
    }
}

/// What the visor and a module must agree on beyond [`crate::ABI_VERSION`]. The compiler computes it, so a changed table refuses older
/// modules even if the version has not been raised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Layout {
    /// Bytes of [`ModuleTable`].
    pub table: u32,
    /// Bytes of [`Host`].
    pub host: u32,
    /// Bytes of [`Call`].
    pub call: u32,
    /// [`Host::SIGNATURES`] and [`Records::SIGNATURES`].
    pub services: u32,
}

impl Layout {
    /// As this crate has it.
    pub const HERE: Layout = Layout {
        table: size_of::<ModuleTable>() as u32,
        host: size_of::<Host>() as u32,
        call: size_of::<Call>() as u32,
        services: Host::SIGNATURES ^ Records::SIGNATURES.rotate_left(8),
    };
}

/// Everything a module exports. What comes before `name` is read before it is known that the rest is as described here.
#[repr(C)]
pub struct ModuleTable {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`crate::ABI_VERSION`] at the time the module was built.
    pub abi_version: u32,
    /// [`Layout::HERE`] at the time the module was built.
    pub layout: Layout,
    /// The module's name, as in [`crate::number::module_of`], padded with zeros.
    pub name: [u8; 16],
    /// Number of entries.
    pub entry_count: u64,
    /// The served numbers.
    pub entries: *const ModuleEntry,
    /// Makes the state for a domain. `host` outlives it. Null means failure.
    pub start: unsafe extern "C" fn(host: *const Host) -> *mut c_void,
    /// Drops the state; no handler of this domain runs any more.
    pub stop: unsafe extern "C" fn(state: *mut c_void),
    /// An instance has ended and none of its threads runs any more: releases what the module holds for it, for some
    /// milliseconds at most. After [`Released::More`] it is called again with the same arguments, not before the first call has
    /// returned; other instances run in between. No instance gets the number, the cell or the key before the last call.
    pub ended: unsafe extern "C" fn(state: *mut c_void, instance: u32, ending: Ending) -> Released,
    /// An event outside the domain has occurred for which the module registered. Called on a carrier; several may call it at once.
    pub poll: unsafe extern "C" fn(state: *mut c_void),
    /// Writes the state as a record and changes nothing: 1, or 0 if something in it cannot be captured, which has been explained by
    /// [`Records::refuse`]. No handler of this domain runs meanwhile.
    pub save: unsafe extern "C" fn(state: *mut c_void, records: *const Records) -> u32,
    /// Rebuilds the state in a module that has served no call yet: 1, or 0 if the record is refused, which has been explained. The
    /// instances of the domain exist; memory that the state charges to them has not been charged. After a refusal the state is
    /// good for nothing but `stop`.
    pub restore:
        unsafe extern "C" fn(state: *mut c_void, records: *const Records, record: *const u8, len: usize) -> u32,
}

// SAFETY: the table is immutable data; its pointers lead to immutable data and functions of the same object.
unsafe impl Sync for ModuleTable {}

/// The caller's own memory, for range checks: two compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct UserBounds {
    /// First address of the caller's cell.
    pub start: u64,
    /// End of the caller's cell.
    pub end: u64,
}

service_table! {
    /// The visor's services for modules. A service that takes `domain` acts on the table's domain. Every one may be called from
    /// any carrier.
    struct Host;
    /// An implementation of the services: the visor's, or a test double.
    trait HostServices;
    contains network: NetworkHost from NetworkServices;

    /// Trusted heap: `bytes`, `align` → memory or null.
    fn alloc(bytes: usize, align: usize) -> *mut u8;
    /// The same, zeroed; a large piece takes no memory before it is touched.
    fn alloc_zeroed(bytes: usize, align: usize) -> *mut u8;
    /// Frees trusted heap, with the size and alignment it was allocated with.
    fn dealloc(memory: *mut u8, bytes: usize, align: usize);
    /// Copies from user memory, surviving a fault: 0, or `Fault` negated.
    fn read_user(to: *mut u8, from: u64, len: usize) -> i64;
    /// Copies to user memory, surviving a fault: 0, or `Fault` negated.
    fn write_user(to: u64, from: *const u8, len: usize) -> i64;
    /// The memory of an instance; the whole address space for [`SYSTEM_INSTANCE`].
    fn bounds(&domain, instance: u32) -> UserBounds;
    /// 1 if the range lies in one arena buffer that the instance owns; the buffer is pinned from here on: it keeps its
    /// owner and its address until it has been unpinned as often.
    fn pin(&domain, instance: u32, address: u64, len: u64) -> u32;
    /// Takes back one pin, of the buffer that the address lies in.
    fn unpin(&domain, address: u64);
    /// Registers the call's thread on `key` until `deadline` (as [`Host::now`], or [`NEVER`]).
    fn wait(&domain, call: *mut Call, key: u64, deadline: u64);
    /// Wakes up to `most` threads waiting on `key`; returns how many. Their handlers run again.
    fn wake(&domain, key: u64, most: u64) -> u64;
    /// 1 if the call that the calling thread serves is to stop early, with an error: its instance has reached its deadline, or is
    /// being ended. A handler that runs for more than some milliseconds checks it now and then.
    fn interrupted() -> u32;
    /// Monotonic time in ns: the domain's own clock, which goes on where it was when the domain goes on in another process.
    fn now(&domain) -> u64;
    /// Wall-clock time of the host in ns since 1970.
    fn realtime() -> u64;
    /// How far the domain's wall clock is ahead of the host's, in ns: time that was skipped.
    fn skipped(&domain) -> u64;
    /// Adds `bytes` (whole pages) to the heap of an instance: first address, or an error negated. Accounts for them.
    fn heap_grow(&domain, instance: u32, bytes: u64) -> i64;
    /// Maps zeroed pages into the cell of an instance, and charges them if they are accessible: first address, or an error negated.
    /// `NoSpace`: there is no room in the cell; `TooMany`: it, or the domain, has as many ranges as may be.
    fn map_pages(&domain, instance: u32, bytes: u64, align: u64, access: MapAccess) -> i64;
    /// Takes back such pages and what they were charged: 0; `Fault` negated if not all of them are mapped, and nothing changed; or
    /// another error negated, and some may have been taken back.
    fn unmap_pages(&domain, instance: u32, address: u64, bytes: u64) -> i64;
    /// Frees the memory of such pages: 0, or an error negated as for `unmap_pages`.
    fn discard_pages(&domain, instance: u32, address: u64, bytes: u64) -> i64;
    /// Changes the access to such pages, and charges those that become accessible for the first time: 0, or an error negated and
    /// nothing changed.
    fn protect_pages(&domain, instance: u32, address: u64, bytes: u64, access: MapAccess) -> i64;
    /// Replaces such pages by a private, writable copy of as many of the instance's image, and charges them: 0; `NotPermitted` negated if
    /// not all that begins at `source` are constants of the image; or an error negated as for `protect_pages`.
    fn map_image(&domain, instance: u32, address: u64, bytes: u64, source: u64) -> i64;
    /// Moves the first `bytes` of a buffer of the arena, which the instance holds, to accessible pages that it has mapped: 0; `Fault`
    /// negated if not all of them are such pages, and nothing changed; or another error negated, and some may have been moved.
    fn move_in(&domain, instance: u32, buffer: u64, address: u64, bytes: u64) -> i64;
    /// Moves `bytes` of such pages to committed pages of the arena. Whole pages of them read as zero afterwards. 0 if the bytes were
    /// copied; 1 if pages were moved, which happens only with `remap` 1: the pages of the arena are a mapping of their own then,
    /// until `arena_renew`. Or an error negated as for `move_in`.
    fn move_out(&domain, instance: u32, address: u64, buffer: u64, bytes: u64, remap: u32) -> i64;
    /// Bytes of heap of an instance, and of what it has mapped, as charged.
    fn heap_size(&domain, instance: u32) -> u64;
    /// Makes whole pages of the arena readable and writable for functions: 0, or an error negated.
    fn arena_commit(&domain, address: u64, len: u64) -> i64;
    /// Transfers whole committed pages of the arena to an instance, or to [`SYSTEM_INSTANCE`]: from here on only the new owner can
    /// reach them, where each instance has a protection key of its own. 0; 1 where they have, so that pages of different owners
    /// are different mappings, of which a process has some 65 000; or an error negated and nothing changed.
    fn arena_assign(&domain, instance: u32, address: u64, len: u64) -> i64;
    /// Discards the memory of whole committed pages of the arena: 0, and they read as zero afterwards; or an error negated, and
    /// they may still hold what they held.
    fn arena_discard(&domain, address: u64, len: u64) -> i64;
    /// Replaces whole committed pages of the arena by new ones, which are zero and the system's: 0, or an error negated and they may
    /// still hold what they held, and have the key of their last owner.
    fn arena_renew(&domain, address: u64, len: u64) -> i64;
    /// Charges (or, negative, refunds) bytes to an instance's memory limit: 0, or `OutOfMemory` negated.
    fn charge(&domain, instance: u32, bytes: i64) -> i64;
    /// The memory limit of an instance in bytes.
    fn memory_limit(&domain, instance: u32) -> u64;
    /// 1 if the workflow lets an instance take (`fills` = 0) or fill (`fills` = 1) the slot of this name.
    fn slot_allowed(&domain, instance: u32, name: *const u8, len: usize, fills: u32) -> u32;
    /// The id of the [request](crate::effect::PerformId) that an instance handles; 0 if it is no handler.
    fn handles(&domain, instance: u32) -> u64;
    /// Copies as much of the name of an instance that lives, for messages, as fits: bytes of it.
    fn instance_name(&domain, instance: u32, name: *mut u8, capacity: usize) -> usize;
    /// Counts bytes that an instance published (`taken` = 0) or took (`taken` = 1).
    fn passed(&domain, instance: u32, bytes: u64, taken: u32);
    /// Serves a call by this module with another module's number, to its end: its value. A call that would park comes
    /// back as `Deadlock`.
    fn call(&domain, call: *mut Call) -> i64;
    /// 1 if the workflow lets an instance use mount `index`.
    fn mount_allowed(&domain, instance: u32, index: u32) -> u32;
    /// Describes mount `index` of the workflow and copies as much of its mount point (an absolute path in clean form) as
    /// fits: bytes of the mount point, or `NotFound` negated behind the last.
    fn mount(&domain, index: u32, info: *mut MountInfo, point: *mut u8, capacity: usize) -> i64;
    /// Zeroed memory for the contents of files, which the module reaches by the copying services alone: first address,
    /// or 0.
    fn store_alloc(&domain, bytes: u64) -> u64;
    /// Frees such memory, with its size.
    fn store_free(&domain, address: u64, bytes: u64);
    /// To be called before bytes are stored to such memory, or to a mapped image: a mapping of a file that shows them gets a copy of
    /// its own first. A number for `store_ended`; or an error negated, and nothing may be stored.
    fn store_begins(&domain, address: u64, bytes: u64) -> i64;
    /// That store is over.
    fn store_ended(&domain, number: u64);
    /// Maps the disk image behind mount `index`, once, for the copying services: first address, or an error negated.
    fn image_map(&domain, index: u32, len: *mut u64) -> i64;
    /// Waits until what was written to that image is on the host's disk: 0, or an error negated.
    fn image_sync(&domain, index: u32) -> i64;
    /// Identifies the file behind that image: 0, or `Io` negated.
    fn image_identity(&domain, index: u32, identity: *mut ImageIdentity) -> i64;
    /// Allocates blocks of the host's file system for a range of that image, which may be sparse: 0; `NoSpace` negated if there are
    /// none; or `Io` negated if a store there fails for another reason.
    fn image_reserve(&domain, index: u32, offset: u64, len: u64) -> i64;
    /// Maps bytes of a file into an instance's cell and charges them to it: first address, or an error negated. `NoSpace`: there
    /// is no room in the cell; `TooMany`: it, or the domain, has as many mappings as may be. With an address: `Invalid` unless the domain
    /// goes on from one that had a mapping of so many bytes there, from the same offset.
    fn map_file(&domain, instance: u32, request: *const MapRequest) -> i64;
    /// For the capture that is under way: finds the pages of the mapping at the request's address that are there and differ from the
    /// request's extents, which are what its file has now. All pages that are there count as different if the file is one of a
    /// granted directory. 0, or `Invalid` negated if no mapping of so many bytes begins there.
    fn compare_file(&domain, instance: u32, request: *const MapRequest) -> i64;
    /// Takes back the mapping of an instance that begins at an address: 0, or `Invalid` negated if none does. After that
    /// its extents are not read any more.
    fn unmap_file(&domain, instance: u32, address: u64) -> i64;
    /// Announces how a part of it will be used: 0, or an error negated.
    fn advise_file(&domain, instance: u32, address: u64, offset: u64, len: u64, advice: Advice) -> i64;
    /// Changes whether it may be written to: 0, or an error negated.
    fn protect_file(&domain, instance: u32, address: u64, writable: u32) -> i64;
    /// A whole line (without its newline) of an instance's output stream 1 or 2.
    fn line(&domain, instance: u32, stream: u32, text: *const u8, len: usize);
    /// Sets the text for `LAST_ERROR_MESSAGE`: why this call is about to be refused.
    fn explain(&domain, call: *const Call, text: *const u8, len: usize);
    /// The module panicked: ends the process, after it has written this text to standard error.
    fn panicked(text: *const u8, len: usize) -> !;
}
