//! The hostcalls that move memory between a slot buffer and what the caller has mapped in its cell.
//!
//! A program that can only use memory of its own, such as one for WebAssembly, gets a large buffer so without a copy. The visor moves the
//! pages, because it knows what is mapped where; the table says whose the buffer is, and keeps it from other calls meanwhile.
//!
//! ```text
//!   SLOT_MOVE_IN    buffer | a a a a | ──▶ cell | … a a a a … |    the buffer is zero, and still the caller's
//!   SLOT_MOVE_OUT   cell | … b b b b … | ──▶ buffer | b b b b |    the cell is zero there; the buffer is new
//! ```

use crate::Memory;
use crate::pages::Origin;
use crate::table::Denied;
use monohull_abi::Errno;
use monohull_abi::layout::PAGE;
use monohull_abi::module::{Call, SYSTEM_INSTANCE};

impl Memory {
    pub(crate) fn move_in(&self, call: &mut Call) -> Result<u64, Errno> {
        let [buffer, address, bytes, ..] = call.args;
        let instance = self.mover(call, address, bytes)?;
        let begun = self.table.lock().begin_move_in(instance, buffer, bytes);
        begun.map_err(|denied| match denied {
            Denied::TooSmall(capacity) => {
                let why = format_args!("the slot buffer has {capacity} bytes, and not {bytes}");
                self.host.explain(call, Errno::Invalid, why)
            }
            denied => self.deny(call, denied),
        })?;
        let moved = self.host.move_in(instance, buffer, address, bytes);
        let is_changed = moved != Err(Errno::Fault);
        let finished = self.with_table(instance, |table, _| table.finish_move_in(instance, buffer, is_changed));
        finished.map_err(|denied| self.deny(call, denied))?;
        moved.map(|()| 0).map_err(|errno| self.not_moved(call, errno, address, bytes))
    }

    pub(crate) fn move_out(&self, call: &mut Call) -> Result<u64, Errno> {
        let [address, bytes, ..] = call.args;
        let instance = self.mover(call, address, bytes)?;
        let mut run = self
            .with_room(instance, |table, _| table.take_for_cell(instance, bytes))
            .map_err(|denied| self.deny(call, denied))?;
        let may_remap = run.origin() == Origin::Cell;
        let moved = self.host.move_out(instance, address, run.address(), bytes, may_remap);
        // After an error that comes half-way some pages may have been moved.
        let is_own = matches!(moved, Ok(false) | Err(Errno::Fault));
        let held = self.with_table(instance, |table, returns| {
            if is_own {
                table.arena.keep_own(&mut run);
            }
            match moved {
                Ok(_) => table.hold(instance, run, PAGE, returns).map_err(Ok),
                Err(errno) => {
                    table.cancel_alloc(instance, run, returns);
                    Err(Err(errno))
                }
            }
        });
        held.map_err(|refused| match refused {
            Ok(denied) => self.deny(call, denied),
            Err(errno) => self.not_moved(call, errno, address, bytes),
        })
    }

    /// The caller, if it can have mapped memory, and what it names is whole pages' beginning and not nothing.
    fn mover(&self, call: &Call, address: u64, bytes: u64) -> Result<u32, Errno> {
        if call.instance == SYSTEM_INSTANCE {
            return Err(Errno::NotPermitted);
        }
        if bytes == 0 {
            return Err(self.host.explain(call, Errno::Invalid, format_args!("no page lies in 0 bytes")));
        }
        if !address.is_multiple_of(PAGE) {
            let why = format_args!("{address:#x} is not the start of a page of {PAGE} bytes");
            return Err(self.host.explain(call, Errno::Fault, why));
        }
        Ok(call.instance)
    }

    #[cold]
    fn not_moved(&self, call: &Call, errno: Errno, address: u64, bytes: u64) -> Errno {
        match errno {
            Errno::Fault => {
                let why =
                    format_args!("{bytes} bytes at {address:#x} are not writable memory that the caller has mapped");
                self.host.explain(call, errno, why)
            }
            Errno::OutOfMemory => {
                let why = format_args!("the host has no memory to move {bytes} bytes");
                self.host.explain(call, errno, why)
            }
            errno => {
                let why = format_args!("{bytes} bytes at {address:#x} could not all be moved: {errno}");
                self.host.explain(call, errno, why)
            }
        }
    }
}
