//! The fixed addresses of a workflow domain.
//!
//! They are the same in every domain, so that a continuation captured in one fits in any other, and so that a range
//! check is two compares with constants.
//!
//! ```text
//! 0x1000_0000_0000  carrier blocks   system partition: one block per carrier thread (context + alternate stack)
//! 0x1000_0021_0000  info page        user partition: read by functions, written by the gate
//! 0x1000_0031_0000  entry frames     user partition: where an entry stub finds stack and value, one page per carrier and key
//! 0x1008_0000_0000  window        user partition: pages on their way from one place to another; empty between two calls
//! 0x1010_0000_0000  cells            user partition: 256 cells of 64 GiB, one per instance
//! 0x2010_0000_0000  buffer arena     user partition: 1 TiB of slot buffers
//!
//! 1 << 48           files in memory  names of their pages in a continuation: no memory has these addresses
//!
//! one cell:
//! +0                                                                +32 GiB                            +48 GiB     +64 GiB
//! | guard | main stack ↓ | image (r-x, r--, rw-) | heap → … ← mapped  | guard | thread stack ↓ | guard | … | mapped files |
//! |←──── stack size ────→|
//! ```
//!
//! What every workflow touches lies together, because each table that leads to a page is a page itself, which takes a process as
//! long to get as any other: one table leads to the first three and to the first cells, one more to the first three alone.
//!
//! Every stack is a power of two in size and aligned to it, and its top bytes are the thread's header.
//! The main stack lies at the bottom, next to image and heap, so that a small instance needs one page-table page.

/// Bytes in a page.
pub const PAGE: u64 = 4096;

/// First address of the carrier blocks (system partition).
pub const CARRIER_BASE: u64 = 0x1000_0000_0000;
/// Bytes of one carrier block, and its alignment.
pub const CARRIER_SIZE: u64 = 64 * 1024;
/// The most carrier threads one domain may have.
pub const CARRIER_MAX: usize = 32;
/// Carrier blocks: one for each carrier, and one for the thread that keeps time.
pub const CARRIER_BLOCKS: usize = CARRIER_MAX + 1;

/// First address of the user partition.
pub const USER_BASE: u64 = CARRIER_BASE + CARRIER_BLOCKS as u64 * CARRIER_SIZE;
/// End of the user partition.
pub const USER_END: u64 = ARENA_END;

/// Address of the page that functions may read and never write.
pub const INFO_BASE: u64 = USER_BASE;
/// Bytes of the info page.
pub const INFO_SIZE: u64 = PAGE;
/// Address of the entry frames: with protection keys, one page for each carrier and key, of that key.
pub const FRAMES_BASE: u64 = INFO_BASE + 0x10_0000;
/// Bytes of the entry frames.
pub const FRAMES_SIZE: u64 = (CARRIER_MAX * KEY_COUNT) as u64 * PAGE;
/// Protection keys of the processor, key 0 included.
pub const KEY_COUNT: usize = 16;

/// First address of the window through which pages move. It has no rights and no memory but during a call that moves some.
pub const WINDOW_BASE: u64 = CARRIER_BASE + CELL_SIZE / 2;
/// Bytes of the window.
pub const WINDOW_SIZE: u64 = 128 << 20;

/// First address of the cells.
pub const CELLS_BASE: u64 = CARRIER_BASE + CELL_SIZE;
/// Bytes of one cell, and its alignment.
pub const CELL_SIZE: u64 = 1 << 36;
/// Number of cells.
pub const CELL_COUNT: usize = 256;
/// End of the cells.
pub const CELLS_END: u64 = CELLS_BASE + CELL_SIZE * CELL_COUNT as u64;

/// Offset in a cell where image, heap and mapped memory end and thread stacks begin.
pub const THREAD_STACKS_OFFSET: u64 = CELL_SIZE / 2;
/// Offset in a cell where thread stacks end and mapped files begin.
pub const MAPPINGS_OFFSET: u64 = CELL_SIZE / 4 * 3;
/// Size of every stack of an instance unless the workflow sets another. Virtual; only touched pages cost memory.
pub const DEFAULT_STACK_SIZE: u64 = 1 << 20;
/// The smallest stack, guard page included.
pub const MIN_STACK_SIZE: u64 = 16 * 1024;
/// The largest stack.
pub const MAX_STACK_SIZE: u64 = 1 << 30;
/// Bytes at the very top of each stack: the thread's header, which is the function's own. It is zero when the thread
/// starts. While the thread is on a carrier, [`CarrierLine::thread_header`] is its address.
pub const THREAD_HEADER_SIZE: u64 = 64;

/// First address of the slot buffers.
pub const ARENA_BASE: u64 = CELLS_END;
/// Bytes of the slot buffers.
pub const ARENA_SIZE: u64 = 1 << 40;
/// End of the slot buffers.
pub const ARENA_END: u64 = ARENA_BASE + ARENA_SIZE;

/// First address of the pages of files in memory. A continuation names them by these addresses, at which a process has no memory. Where the
/// pages are, the visor is told by the module that has them.
pub const FILES_BASE: u64 = 1 << 48;
/// Bytes of these names: more than files in memory can have.
pub const FILES_SIZE: u64 = 1 << 46;
/// End of the pages of files in memory.
pub const FILES_END: u64 = FILES_BASE + FILES_SIZE;

/// One carrier's line on the info page. While a carrier runs user code its `gs` base points here, so a function
/// leaves with `call gs:[0]`, and finds what belongs to its thread with `mov reg, gs:[16]`.
///
/// Every function can read every line, and so which thread is on which carrier. It learns an address from that, which
/// gives access to nothing.
#[repr(C, align(64))]
pub struct CarrierLine {
    /// Address of this carrier's exit gate.
    pub gate: u64,
    /// The syscall-dispatch selector: [`SELECTOR_ALLOW`] in trusted code, [`SELECTOR_BLOCK`] in user code.
    pub selector: u8,
    _unused: [u8; 7],
    /// Address of the header of the user thread that is on this carrier: the top [`THREAD_HEADER_SIZE`] bytes of the
    /// stack that the thread was started on, whatever stack its `rsp` points to. Written when the thread is put on the
    /// carrier.
    pub thread_header: u64,
    _reserved: [u8; 40],
}

const _: () = assert!(core::mem::offset_of!(CarrierLine, gate) == 0);
const _: () = assert!(core::mem::offset_of!(CarrierLine, thread_header) == 16);
const _: () = assert!(size_of::<CarrierLine>() == 64 && CARRIER_BLOCKS * 64 <= INFO_SIZE as usize);
const _: () = assert!(INFO_BASE + INFO_SIZE <= FRAMES_BASE && FRAMES_BASE + FRAMES_SIZE <= WINDOW_BASE);
const _: () = assert!(WINDOW_BASE + WINDOW_SIZE <= CELLS_BASE);

/// System calls go through (`SYSCALL_DISPATCH_FILTER_ALLOW` of `linux/prctl.h`).
pub const SELECTOR_ALLOW: u8 = 0;
/// System calls raise SIGSYS (`SYSCALL_DISPATCH_FILTER_BLOCK`).
pub const SELECTOR_BLOCK: u8 = 1;

/// Rounds up to whole pages; saturates instead of wrapping.
pub const fn page_up(bytes: u64) -> u64 {
    bytes.saturating_add(PAGE - 1) & !(PAGE - 1)
}

/// Rounds down to whole pages.
pub const fn page_down(bytes: u64) -> u64 {
    bytes & !(PAGE - 1)
}

/// First address of cell `index`.
pub const fn cell_base(index: usize) -> u64 {
    CELLS_BASE + CELL_SIZE * index as u64
}
