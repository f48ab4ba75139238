//! Structures and enumerations that travel through hostcalls. All are plain data with a C layout.

/// Why a function ends itself as failed (`ABORT`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum AbortKind {
    /// `panic!`.
    Panic = 0,
    /// `main` returned an `Err`.
    Error = 1,
    /// An allocation was refused.
    OutOfMemory = 2,
    /// `main` returned an error that a retry would not fix.
    Permanent = 3,
}

impl AbortKind {
    /// The kind with this number.
    pub const fn from_raw(raw: u64) -> Option<AbortKind> {
        match raw {
            0 => Some(AbortKind::Panic),
            1 => Some(AbortKind::Error),
            2 => Some(AbortKind::OutOfMemory),
            3 => Some(AbortKind::Permanent),
            _ => None,
        }
    }
}

/// Most names under which a workflow has published something (`PUBLISH`).
pub const PUBLISHED_NAMES: usize = 64;
/// Most bytes of these names and of what is published under them.
pub const PUBLISHED_BYTES: usize = 16 << 10;

/// Strings that an instance can read (`GET_STRING_LEN`, `GET_STRING`). All are UTF-8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum InfoString {
    /// The step's `args`, a JSON object.
    Args = 0,
    /// The step's `env`, a JSON object of strings.
    Env = 1,
    /// Name of the function.
    Function = 2,
    /// Name of the step.
    Step = 3,
    /// Name of the workflow.
    Workflow = 4,
    /// Name of the slot that is the instance's standard input; empty if it has none.
    Stdin = 5,
    /// The id of the invocation.
    Invocation = 6,
    /// What the version before has [handed over](crate::handed); empty if the invocation was not migrated.
    HandedOver = 7,
    /// What begins addresses by which clients reach the server, such as `https://ships.example`; empty if it is not known.
    PublicUrl = 8,
}

impl InfoString {
    /// The variant with this number.
    pub const fn from_raw(raw: u64) -> Option<InfoString> {
        match raw {
            0 => Some(InfoString::Args),
            1 => Some(InfoString::Env),
            2 => Some(InfoString::Function),
            3 => Some(InfoString::Step),
            4 => Some(InfoString::Workflow),
            5 => Some(InfoString::Stdin),
            6 => Some(InfoString::Invocation),
            7 => Some(InfoString::HandedOver),
            8 => Some(InfoString::PublicUrl),
            _ => None,
        }
    }
}

/// Numbers that an instance can read (`GET_INFO`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Info {
    /// Which of the step's instances this is, from 0.
    InstanceIndex = 0,
    /// How many instances the step has.
    InstanceCount = 1,
    /// Bytes of each stack, guard page included.
    StackSize = 2,
    /// Number of the calling thread within its instance; the main thread is 0.
    Thread = 3,
    /// The memory limit in bytes.
    MemoryLimit = 4,
    /// Carrier threads the domain may use: how much really runs in parallel.
    Parallelism = 5,
    /// 1 for the first attempt at this instance, 2 for its first retry, …
    Attempt = 6,
    /// Address of the image's `.init_array` (function pointers, already relocated), or 0.
    InitArray = 7,
    /// Number of entries in the image's `.init_array`.
    InitCount = 8,
    /// Address of the initial bytes of the image's thread-local variables (PT_TLS); 0 if the image has none.
    TlsAddress = 9,
    /// How many bytes are there.
    TlsFileSize = 10,
    /// Bytes of thread-local variables that each thread needs; those behind the initial ones are zero.
    TlsMemorySize = 11,
    /// The alignment of a thread's copy, a power of two; 0 if the image has no thread-local variables.
    TlsAlign = 12,
    /// How often the workflow has gone on from a checkpoint; 0 if it has run without interruption.
    Generation = 13,
    /// Which copy of a forked workflow this is, from 1; 0 for what is no copy.
    ForkIndex = 14,
    /// How many copies were made together with this one; 0 for what is no copy.
    ForkCount = 15,
}

impl Info {
    /// The variant with this number.
    pub const fn from_raw(raw: u64) -> Option<Info> {
        match raw {
            0 => Some(Info::InstanceIndex),
            1 => Some(Info::InstanceCount),
            2 => Some(Info::StackSize),
            3 => Some(Info::Thread),
            4 => Some(Info::MemoryLimit),
            5 => Some(Info::Parallelism),
            6 => Some(Info::Attempt),
            7 => Some(Info::InitArray),
            8 => Some(Info::InitCount),
            9 => Some(Info::TlsAddress),
            10 => Some(Info::TlsFileSize),
            11 => Some(Info::TlsMemorySize),
            12 => Some(Info::TlsAlign),
            13 => Some(Info::Generation),
            14 => Some(Info::ForkIndex),
            15 => Some(Info::ForkCount),
            _ => None,
        }
    }
}

/// The first number of `GET_INFO` that is what the processor has: EAX, EBX, ECX and EDX of each of [`CPUID_LEAVES`]. In a virtual machine
/// the host answers CPUID, which takes some microseconds each time; a process is asked once, before it runs functions.
pub const CPUID_FIRST: u64 = 16;
/// Leaves and subleaves of CPUID, in the order of their numbers. A leaf that the processor does not have is 0. The highest byte of leaf 1's
/// EBX, which names the processor that was asked, is 0 too.
pub const CPUID_LEAVES: [(u32, u32); 5] = [(1, 0), (7, 0), (7, 1), (0xd, 1), (0x8000_0001, 0)];

/// Which clock `CLOCK_GETTIME` reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Clock {
    /// Never goes back; the epoch is the host's.
    Monotonic = 0,
    /// Since 1970-01-01 00:00 UTC.
    Realtime = 1,
}

/// What an instruction was stopped for, in a [`FaultRecord`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum FaultKind {
    /// It touched an address of the caller's cell, or the null page, where it may not do that.
    Memory = 0,
    /// It is no instruction, or one that the processor refuses.
    IllegalInstruction = 1,
    /// It divided an integer by zero, or the quotient does not fit.
    Division = 2,
}

impl FaultKind {
    /// The kind with this number.
    pub const fn from_raw(raw: u64) -> Option<FaultKind> {
        match raw {
            0 => Some(FaultKind::Memory),
            1 => Some(FaultKind::IllegalInstruction),
            2 => Some(FaultKind::Division),
            _ => None,
        }
    }
}

/// What a fault handler gets (`FAULT_HANDLER`). It lies on the stack of the thread, below what that has used of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct FaultRecord {
    /// Where the instruction is.
    pub ip: u64,
    /// The frame pointer there (`rbp`).
    pub bp: u64,
    /// A [`FaultKind`].
    pub kind: u64,
    /// What [`FaultKind::Memory`] touched; 0 for the others.
    pub address: u64,
}

/// Bytes below the stack pointer that a function may use without moving it (System V ABI). A [`FaultRecord`] lies beneath.
pub const RED_ZONE: u64 = 128;

/// What mapped memory may be used for (`MAP`, `PROTECT`). None of it is ever executable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum MapAccess {
    /// Nothing: a touch ends the instance. Pages that have never been accessible cost nothing.
    None = 0,
    /// Reading.
    Read = 1,
    /// Reading and writing.
    ReadWrite = 2,
}

impl MapAccess {
    /// The variant with this number.
    pub const fn from_raw(raw: u64) -> Option<MapAccess> {
        match raw {
            0 => Some(MapAccess::None),
            1 => Some(MapAccess::Read),
            2 => Some(MapAccess::ReadWrite),
            _ => None,
        }
    }
}

/// Most bytes that one `STDIO_WRITE` takes; a longer request gets a short count. Longer lines are printed in pieces of this size.
pub const LINE_MAX: usize = 8 << 10;

/// Largest alignment of `MAP`.
pub const MAP_ALIGN_MAX: u64 = 1 << 30;
/// Most ranges that one instance may have mapped. Neighbouring pages of the same access are one range.
pub const MAP_RANGES_MAX: usize = 1024;
/// From so many bytes on, `SLOT_MOVE_IN` and `SLOT_MOVE_OUT` move pages. Fewer are copied, which takes less time.
pub const MOVED_MIN: u64 = 64 << 10;

/// What a slot buffer holds (user memory; `name` is UTF-8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct TypeDesc {
    /// Hash of the type's name and layout.
    pub fingerprint: u64,
    /// Address of the type's name, for messages.
    pub name: u64,
    /// Bytes of the name; at most [`TYPE_NAME_MAX`].
    pub name_len: u64,
    /// Bytes of one element.
    pub element_size: u64,
}

/// A buffer taken over (`SLOT_TAKE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct SlotView {
    /// First byte.
    pub address: u64,
    /// Elements in use.
    pub count: u64,
    /// Bytes available.
    pub capacity: u64,
}

/// A published buffer as trusted code sees it (`SLOT_PEEK`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct SlotInfo {
    /// First byte.
    pub address: u64,
    /// Elements in use.
    pub count: u64,
    /// Bytes of one element.
    pub element_size: u64,
    /// Hash of the type's name and layout.
    pub fingerprint: u64,
}

/// A filled slot in a listing (`SLOT_NEXT`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct FilledSlot {
    /// Bytes in use.
    pub bytes: u64,
    /// The instance that published it.
    pub producer: u64,
}

/// A buffer that an instance holds (`SLOT_HELD`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct HeldBuffer {
    /// First byte.
    pub address: u64,
    /// Bytes available.
    pub capacity: u64,
    /// The [id](crate::effect::PerformId) of the continuation that it is; 0 if it is none.
    pub continuation: u64,
}

/// Where a function is after `CAPTURE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Captured {
    /// The checkpoint, a number that means nothing to another instance.
    pub checkpoint: u64,
    /// How often `REWIND` has gone back to it; 0 at the capture itself.
    pub rewinds: u64,
    /// Bytes of the value that came with the last one.
    pub len: u64,
}

/// Most checkpoints that an instance has at a time (`CAPTURE`).
pub const CHECKPOINTS_MAX: usize = 128;
/// Most bytes of the value that `REWIND` passes on.
pub const REWIND_VALUE_MAX: usize = 64 << 10;
/// `REWIND` flag: free the checkpoint, and go nowhere.
pub const REWIND_FORGET: u64 = 1;

/// What an instance and its domain use (`MEMORY_STATS`), in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct MemoryStats {
    /// Heap of the instance, and memory that it has mapped.
    pub heap: u64,
    /// Slot buffers the instance owns.
    pub owned: u64,
    /// Limit for both together.
    pub limit: u64,
    /// Buffers in the arena, of all owners.
    pub arena_buffers: u64,
    /// Bytes in those buffers.
    pub arena_bytes: u64,
}

/// What every function image exports as [`IMAGE_SYMBOL`], so that the loader knows what it was built for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ImageHeader {
    /// [`crate::module::MAGIC`].
    pub magic: u64,
    /// [`crate::ABI_VERSION`] at the time the image was built.
    pub abi_version: u64,
}

/// Name of the exported [`ImageHeader`].
pub const IMAGE_SYMBOL: &str = "MONOHULL_IMAGE";
/// Name of the exported function the main thread starts in (through the gate, with `rax` = 0).
pub const START_SYMBOL: &str = "monohull_start";

/// `GETRANDOM` flag: instances that start from one template may have these bytes in common.
pub const RANDOM_SHARED: u64 = 1;
/// `SLOT_TAKE` flag: do not park; `NotFound` if the slot is not there now.
pub const TAKE_NOW: u64 = 1;
/// Longest slot name in bytes.
pub const SLOT_NAME_MAX: usize = 255;
/// Longest type name in bytes; longer ones are cut by the shim.
pub const TYPE_NAME_MAX: usize = 255;

/// Fingerprint of plain bytes: what workflow inputs are, and what an output is written from.
pub const BYTES_FINGERPRINT: u64 = fingerprint(b"[u8]");
/// Fingerprint of UTF-8 text.
pub const TEXT_FINGERPRINT: u64 = fingerprint(b"str");

/// FNV-1a, 64 bits: the hash behind type fingerprints. `text` is a type's name and layout in canonical form.
pub const fn fingerprint(text: &[u8]) -> u64 {
    fingerprint_extend(0xcbf2_9ce4_8422_2325, text)
}

/// Continues a fingerprint over more text.
pub const fn fingerprint_extend(mut hash: u64, text: &[u8]) -> u64 {
    let mut i = 0;
    while i < text.len() {
        hash = (hash ^ text[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}
