//! What a libos module exports and what the visor lends it.
//!
//! A module is a shared object with one exported symbol, [`SYMBOL`], of type [`ModuleTable`]. It is loaded on the
//! first call of one of its numbers. It keeps one state per domain, made by `start` and dropped by `stop`.
//!
//! A handler never blocks its thread. If it must wait, it registers what it waits for ([`Host::wait`]) *while it
//! still holds its own lock*, releases the lock and returns [`Outcome::PARK`]; on wake-up it is called again with the
//! same arguments and scratch area, and [`Call::wake`] says why. What happens between is the visor's business: the
//! function holds no system stack meanwhile.
//!
//! Modules are `no_std`. A panic in a module ends in [`Host::panicked`], which ends the process: the module may hold locks
//! that other carriers wait for, and what it was changing is half changed.

use crate::file::{Advice, MapRequest, MountInfo};
use core::ffi::c_void;

/// Name of the exported [`ModuleTable`].
pub const SYMBOL: &str = "MONOHULL_MODULE";
/// First word of a [`ModuleTable`].
pub const MAGIC: u64 = u64::from_le_bytes(*b"MONOHULL");
/// The caller is trusted: the visor or another module. Its addresses are not checked.
pub const SYSTEM_INSTANCE: u32 = u32::MAX;
/// "No deadline".
pub const NEVER: u64 = u64::MAX;
/// A [`Host::wait`] key that nobody wakes: only the deadline ends the wait.
pub const NO_KEY: u64 = 0;

/// Why a handler runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Wake {
    /// It is the first time.
    First = 0,
    /// Somebody woke the key it waited for.
    Woken = 1,
    /// The deadline passed.
    TimedOut = 2,
    /// Everybody in the domain waits and nothing can change that: fail now.
    Nobody = 3,
}

/// One hostcall of one user thread: the gate writes it, handlers read it, a parked thread *is* it.
///
/// The first fields are written by assembly in `monohull-trampoline`, which asserts their offsets.
#[derive(Debug)]
#[repr(C)]
pub struct Call {
    /// The user stack pointer; the top word is where the thread goes on.
    pub user_rsp: u64,
    /// What the call returns (in `rax`) when the thread goes on.
    pub value: i64,
    /// The hostcall's number, as the function gave it: not yet checked.
    pub number: u64,
    /// Its arguments.
    pub args: [u64; 6],
    /// The handler's memory across parks; zero on the first call.
    pub scratch: [u64; 4],
    /// The caller's instance, or [`SYSTEM_INSTANCE`].
    pub instance: u32,
    /// The calling thread, unique in the domain while it lives.
    pub thread: u32,
    /// Why the handler runs.
    pub wake: Wake,
    /// Which carrier it runs on.
    pub carrier: u32,
}

impl Call {
    /// A call by trusted code.
    pub const fn system(number: u32, args: [u64; 6]) -> Call {
        Call {
            user_rsp: 0,
            value: 0,
            number: number as u64,
            args,
            scratch: [0; 4],
            instance: SYSTEM_INSTANCE,
            thread: u32::MAX,
            wake: Wake::First,
            carrier: 0,
        }
    }
}

/// What a handler decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Outcome {
    /// One of the constants below.
    pub tag: u64,
    /// With [`Outcome::READY`]: what the call returns.
    pub value: i64,
}

impl Outcome {
    /// The call is done.
    pub const READY: u64 = 0;
    /// The thread waits; [`Host::wait`] has been called.
    pub const PARK: u64 = 1;
    /// The calling thread is gone (it, or its instance, ended).
    pub const ENDED: u64 = 2;
    /// The calling thread stays ready but lets others run first; `value` is what the call will return.
    pub const YIELD: u64 = 3;

    /// Done, with a value.
    pub const fn ready(value: i64) -> Outcome {
        Outcome { tag: Self::READY, value }
    }

    /// Done, refused.
    pub const fn error(errno: crate::Errno) -> Outcome {
        Outcome { tag: Self::READY, value: errno.to_value() }
    }

    /// Waiting.
    pub const fn park() -> Outcome {
        Outcome { tag: Self::PARK, value: 0 }
    }
}

impl From<Result<u64, crate::Errno>> for Outcome {
    fn from(result: Result<u64, crate::Errno>) -> Outcome {
        match result {
            Ok(value) => Outcome::ready(value as i64),
            Err(errno) => Outcome::error(errno),
        }
    }
}

/// Serves one hostcall number. `state` is what the module's `start` returned for this domain.
pub type Handler = unsafe extern "C" fn(state: *mut c_void, call: *mut Call) -> Outcome;

/// One served number.
#[repr(C)]
pub struct ModuleEntry {
    /// The hostcall's number.
    pub number: u32,
    /// Who serves it.
    pub handler: Handler,
}

/// How an instance ended, for [`ModuleTable::ended`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Ending {
    /// It finished its work: what it still owns is freed.
    Done = 0,
    /// It failed: what it published and nobody took is withdrawn, what it took and did not touch goes back.
    Failed = 1,
}

/// How large what the visor and a module share is, in bytes: a version that nobody can forget to raise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Sizes {
    /// [`ModuleTable`].
    pub table: u32,
    /// [`Host`].
    pub host: u32,
    /// [`Call`].
    pub call: u32,
}

impl Sizes {
    /// As this crate has them.
    pub const HERE: Sizes = Sizes {
        table: size_of::<ModuleTable>() as u32,
        host: size_of::<Host>() as u32,
        call: size_of::<Call>() as u32,
    };
}

/// Everything a module exports. What comes before `name` is read before it is known that the rest is as described here.
#[repr(C)]
pub struct ModuleTable {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`crate::ABI_VERSION`] at the time the module was built.
    pub abi_version: u32,
    /// [`Sizes::HERE`] at the time the module was built.
    pub sizes: Sizes,
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
    /// An instance has ended and none of its threads runs any more. Returns 1 if its inputs are whole (a retry of
    /// it alone is possible), else 0; modules that hold no inputs return 1.
    pub ended: unsafe extern "C" fn(state: *mut c_void, instance: u32, ending: Ending) -> u32,
    /// Something outside the domain has happened that the module asked to hear of. Called on a carrier; more than one may
    /// call at once.
    pub poll: unsafe extern "C" fn(state: *mut c_void),
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

/// What the visor lends a module. Every function takes `domain` first and may be called from any carrier.
#[repr(C)]
pub struct Host {
    /// The visor's [`crate::ABI_VERSION`].
    pub abi_version: u32,
    /// The domain, opaque to modules.
    pub domain: *mut c_void,
    /// Trusted heap: `bytes`, `align` → memory or null.
    pub alloc: unsafe extern "C" fn(bytes: usize, align: usize) -> *mut u8,
    /// The same, zeroed; a large piece costs nothing before it is touched.
    pub alloc_zeroed: unsafe extern "C" fn(bytes: usize, align: usize) -> *mut u8,
    /// Gives trusted heap back, with the size and alignment it was allocated with.
    pub dealloc: unsafe extern "C" fn(memory: *mut u8, bytes: usize, align: usize),
    /// Copies from user memory, surviving a fault: 0, or `Fault` negated.
    pub read_user: unsafe extern "C" fn(to: *mut u8, from: u64, len: usize) -> i64,
    /// Copies to user memory, surviving a fault: 0, or `Fault` negated.
    pub write_user: unsafe extern "C" fn(to: u64, from: *const u8, len: usize) -> i64,
    /// The memory of an instance; the whole address space for [`SYSTEM_INSTANCE`].
    pub bounds: unsafe extern "C" fn(domain: *mut c_void, instance: u32) -> UserBounds,
    /// 1 if the range lies in one arena buffer that the instance owns; the buffer is pinned from here on, and stays the
    /// instance's at this place until it has been unpinned as often.
    pub pin: unsafe extern "C" fn(domain: *mut c_void, instance: u32, address: u64, len: u64) -> u32,
    /// Takes back one pin, of the buffer that the address lies in.
    pub unpin: unsafe extern "C" fn(domain: *mut c_void, address: u64),
    /// Registers the call's thread on `key` until `deadline` (monotonic ns, or [`NEVER`]).
    pub wait: unsafe extern "C" fn(domain: *mut c_void, call: *mut Call, key: u64, deadline: u64),
    /// Wakes up to `most` threads waiting on `key`; returns how many. Their handlers run again.
    pub wake: unsafe extern "C" fn(domain: *mut c_void, key: u64, most: u64) -> u64,
    /// 1 if the call that the calling thread serves is to stop half-way, with an error: its instance's time is up, or it is being
    /// ended. What takes more than some milliseconds asks now and then.
    pub interrupted: unsafe extern "C" fn() -> u32,
    /// Monotonic time in ns.
    pub now: unsafe extern "C" fn() -> u64,
    /// Wall-clock time in ns since 1970.
    pub realtime: unsafe extern "C" fn() -> u64,
    /// Adds `bytes` (whole pages) to the heap of an instance: first address, or an error negated. Accounts for them.
    pub heap_grow: unsafe extern "C" fn(domain: *mut c_void, instance: u32, bytes: u64) -> i64,
    /// Bytes of heap of an instance.
    pub heap_size: unsafe extern "C" fn(domain: *mut c_void, instance: u32) -> u64,
    /// Makes whole pages of the arena readable and writable for functions: 0, or an error negated.
    pub arena_commit: unsafe extern "C" fn(domain: *mut c_void, address: u64, len: u64) -> i64,
    /// Hands whole committed pages of the arena to an instance, or to [`SYSTEM_INSTANCE`]: from here on only the new owner can
    /// reach them, where each instance has a protection key of its own. 0; 1 where they have, so that pages of different owners
    /// are different mappings, of which a process has some 65 000; or an error negated and nothing changed.
    pub arena_assign: unsafe extern "C" fn(domain: *mut c_void, instance: u32, address: u64, len: u64) -> i64,
    /// Gives the memory of whole committed pages of the arena back: 0, and they read as zero afterwards; or an error negated, and
    /// they may still hold what they held.
    pub arena_discard: unsafe extern "C" fn(domain: *mut c_void, address: u64, len: u64) -> i64,
    /// Charges (or, negative, refunds) bytes to an instance's memory limit: 0, or `OutOfMemory` negated.
    pub charge: unsafe extern "C" fn(domain: *mut c_void, instance: u32, bytes: i64) -> i64,
    /// The memory limit of an instance in bytes.
    pub memory_limit: unsafe extern "C" fn(domain: *mut c_void, instance: u32) -> u64,
    /// 1 if the workflow lets an instance take (`fills` = 0) or fill (`fills` = 1) the slot of this name.
    pub slot_allowed:
        unsafe extern "C" fn(domain: *mut c_void, instance: u32, name: *const u8, len: usize, fills: u32) -> u32,
    /// Counts bytes that an instance handed on (`taken` = 0) or took over (`taken` = 1) by reference.
    pub passed: unsafe extern "C" fn(domain: *mut c_void, instance: u32, bytes: u64, taken: u32),
    /// Serves a call by this module with another module's number, to its end: its value. A call that would park comes
    /// back as `Deadlock`.
    pub call: unsafe extern "C" fn(domain: *mut c_void, call: *mut Call) -> i64,
    /// Describes mount `index` of the workflow and copies as much of its mount point (an absolute path in clean form) as
    /// fits: bytes of the mount point, or `NotFound` negated behind the last.
    pub mount: unsafe extern "C" fn(
        domain: *mut c_void,
        index: u32,
        info: *mut MountInfo,
        point: *mut u8,
        capacity: usize,
    ) -> i64,
    /// Zeroed memory for the contents of files, which the module reaches by the copying services alone: first address,
    /// or 0.
    pub store_alloc: unsafe extern "C" fn(bytes: u64) -> u64,
    /// Gives such memory back, with its size.
    pub store_free: unsafe extern "C" fn(address: u64, bytes: u64),
    /// Maps the disk image behind mount `index`, once, for the copying services: first address, or an error negated.
    pub image_map: unsafe extern "C" fn(domain: *mut c_void, index: u32, len: *mut u64) -> i64,
    /// Waits until what was written to that image is on the host's disk: 0, or an error negated.
    pub image_sync: unsafe extern "C" fn(domain: *mut c_void, index: u32) -> i64,
    /// Has the host's file system give that image room for a range that may be a hole in it: 0; `NoSpace` negated if it has none; or
    /// `Io` negated where that is not what a store needs.
    pub image_reserve: unsafe extern "C" fn(domain: *mut c_void, index: u32, offset: u64, len: u64) -> i64,
    /// Maps bytes of a file into an instance's cell and charges them to it: first address, or an error negated. `NoSpace`: there
    /// is no room in the cell; `TooMany`: it, or the domain, has as many mappings as may be.
    pub map_file: unsafe extern "C" fn(domain: *mut c_void, instance: u32, request: *const MapRequest) -> i64,
    /// Takes back the mapping of an instance that begins at an address: 0, or `Invalid` negated if none does. From here on nobody
    /// reads what its extents lead to.
    pub unmap_file: unsafe extern "C" fn(domain: *mut c_void, instance: u32, address: u64) -> i64,
    /// Says what will be done with a part of it: 0, or an error negated.
    pub advise_file: unsafe extern "C" fn(
        domain: *mut c_void,
        instance: u32,
        address: u64,
        offset: u64,
        len: u64,
        advice: Advice,
    ) -> i64,
    /// Changes whether it may be written to: 0, or an error negated.
    pub protect_file: unsafe extern "C" fn(domain: *mut c_void, instance: u32, address: u64, writable: u32) -> i64,
    /// A whole line (without its newline) of an instance's output stream 1 or 2.
    pub line: unsafe extern "C" fn(domain: *mut c_void, instance: u32, stream: u32, text: *const u8, len: usize),
    /// Leaves words for `EXPLAIN`: why this call is about to be refused.
    pub explain: unsafe extern "C" fn(domain: *mut c_void, call: *const Call, text: *const u8, len: usize),
    /// The module panicked: ends the process, after it has written this text to standard error.
    pub panicked: unsafe extern "C" fn(text: *const u8, len: usize) -> !,
    /// For the module `socket`.
    pub network: crate::network::NetworkServices,
}

// SAFETY: the services may be called from any carrier; that is part of the contract above.
unsafe impl Sync for Host {}
