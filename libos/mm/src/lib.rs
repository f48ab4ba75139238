//! Libos module: memory. Heap growth, mapped memory, slot buffers and memory statistics.
//!
//! A slot buffer is a run of pages of the arena. Functions pass its address to each other. This module alone records its owner, and the
//! name under which it is published.
//!
//! ```text
//!   mapped   hostcalls on memory that a function maps in its cell
//!   moves    hostcalls that move memory between a buffer and what a function has mapped
//!   slots    hostcalls on buffers: arguments in, answers and explanations out
//!   events   the hostcall that waits for an event from outside
//!   effects  the slots of requests and replies, and who may use them
//!   continuations  hostcalls on buffers with which something that waits goes on
//!   mark     what makes a buffer such a one
//!   texts    names that functions give, read and checked
//!   batches  freeing many buffers
//!   table    the owner of each buffer, the buffer in each slot
//!   arena    committed, zeroed memory
//!   pages    which pages are free
//!   record   all of it as plain data, captured and rebuilt
//!   continuation_record  the part of it that says which buffers are continuations
//! ```
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod arena;
mod batches;
mod continuation_record;
mod continuations;
mod effects;
mod events;
mod mapped;
mod mark;
mod moves;
mod pages;
mod record;
mod slots;
mod table;
#[cfg(test)]
mod tests;
mod texts;

use alloc::collections::BTreeMap;
use batches::Cleanup;
use monohull_abi::layout::page_up;
use monohull_abi::module::{Call, Ending, Released};
use monohull_abi::types::MemoryStats;
use monohull_abi::{Errno, number};
use monohull_module::record::{RecordsRef, Refused};
use monohull_module::{FutexMutex, HostRef, Module, module};
use table::Table;

/// The memory of one domain.
pub struct Memory {
    host: HostRef,
    /// Every call takes it, and holds it while pages change their key; so its waiters sleep.
    table: FutexMutex<Table>,
    /// What is left of instances that have ended, between two steps.
    cleanups: FutexMutex<BTreeMap<u32, Cleanup>>,
}

module! {
    Memory {
        number::HEAP_GROW => Memory::heap_grow,
        number::MEMORY_STATS => Memory::stats,
        number::MAP => Memory::map,
        number::UNMAP => Memory::unmap,
        number::DISCARD => Memory::discard,
        number::PROTECT => Memory::protect,
        number::MAP_IMAGE => Memory::map_image,
        number::SLOT_MOVE_IN => Memory::move_in,
        number::SLOT_MOVE_OUT => Memory::move_out,
        number::CONTINUATION => Memory::continuation,
        number::RESUME => Memory::resume,
        number::SLOT_ALLOC => Memory::alloc,
        number::SLOT_RESIZE => Memory::resize,
        number::SLOT_FREE => Memory::free,
        number::SLOT_PUBLISH => Memory::publish,
        number::SLOT_TAKE => Memory::take,
        number::SLOT_MARK_WRITTEN => Memory::mark_written,
        number::SLOT_PEEK => Memory::peek,
        number::SLOT_PIN => Memory::pin,
        number::SLOT_UNPIN => Memory::unpin,
        number::SLOT_NEXT => Memory::next,
        number::SLOT_HELD => Memory::held_behind,
        number::SLOT_GIVE => Memory::give,
        number::EFFECTS_DROP => Memory::drop_effects,
        number::EVENT_WAIT => Memory::event_wait,
    }
}

impl Module for Memory {
    const NAME: &'static str = "mm";
    const RECORD_VERSION: u32 = 2;

    fn start(host: HostRef) -> Option<Memory> {
        Some(Memory { host, table: FutexMutex::new(Table::new(host)), cleanups: FutexMutex::default() })
    }

    fn ended(&self, instance: u32, ending: Ending) -> Released {
        self.end_step(instance, ending)
    }

    fn save(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
        self.save_table(records)
    }

    fn restore(&self, version: u32, record: &[u8], records: RecordsRef<'_>) -> Result<(), Refused> {
        self.restore_table(version, record, records)
    }
}

impl Memory {
    fn heap_grow(&self, call: &mut Call) -> Result<u64, Errno> {
        let asked = call.args[0];
        if asked == 0 {
            return Err(self.host.explain(call, Errno::Invalid, format_args!("a heap cannot grow by 0 bytes")));
        }
        let bytes = page_up(asked);
        let grown = self.with_retained_freed(call.instance, || self.host.heap_grow(call.instance, bytes));
        grown.map_err(|errno| if errno == Errno::OutOfMemory { self.over_limit(call, bytes) } else { errno })
    }

    /// Tries it again without the buffers that are kept for later, if memory is short.
    fn with_retained_freed<T>(&self, instance: u32, get: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        let got = get();
        if !matches!(got, Err(Errno::OutOfMemory)) {
            return got;
        }
        self.free_retained(instance);
        get()
    }

    fn stats(&self, call: &mut Call) -> Result<u64, Errno> {
        let (owned, (arena_buffers, arena_bytes)) = {
            let table = self.table.lock();
            (table.charged(call.instance), table.totals())
        };
        let stats = MemoryStats {
            heap: self.host.heap_size(call.instance),
            owned,
            limit: self.host.memory_limit(call.instance),
            arena_buffers,
            arena_bytes,
        };
        self.write_out(call, call.args[0], stats, "the address for the statistics")?;
        Ok(0)
    }
}
