//! Faults of the compiled program, which are traps.
//!
//! The system enters [`entry`] on the stack of the thread whose program has faulted. Wasmtime looks up which trap the instruction stands for and goes
//! on where the program was called, so nothing returns from here. A fault of the runtime itself is none of these: the range that is
//! registered is the program's code alone.

use core::mem::transmute;
use core::ops::Range;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use monohull_abi::Errno;
use monohull_abi::number::FAULT_HANDLER;
use monohull_abi::types::{FaultKind, FaultRecord};
use monohull_trampoline::user::hostcall;
use wasmtime::{Result, bail};

/// Wasmtime's handler: instruction and frame pointer, whether there is an address, and which.
type Handler = extern "C" fn(usize, usize, bool, usize);

/// Set by Wasmtime when its engine is made.
static HANDLER: AtomicPtr<()> = AtomicPtr::new(null_mut());

#[unsafe(no_mangle)]
extern "C" fn wasmtime_init_traps(handler: Handler) -> i32 {
    HANDLER.store(handler as *mut (), Ordering::Release);
    0
}

/// From here on faults of this code are traps.
pub(crate) fn handle(code: Range<u64>) -> Result<()> {
    let args = [entry as *const () as u64, code.start, code.end - code.start, 0, 0, 0];
    match Errno::from_value(hostcall(FAULT_HANDLER, args)) {
        Ok(_) => Ok(()),
        Err(errno) => bail!("faults of the program cannot be handled: {errno}"),
    }
}

monohull_trampoline::thread_entry!(fn entry => fault);

extern "C" fn fault(record: u64) -> ! {
    // SAFETY: the system has entered this with the address of a record, on this very stack.
    let record = unsafe { *(record as *const FaultRecord) };
    let handler = HANDLER.load(Ordering::Acquire);
    if !handler.is_null() {
        // SAFETY: what `wasmtime_init_traps` was given is such a function.
        let handler = unsafe { transmute::<*mut (), Handler>(handler) };
        let is_memory = FaultKind::from_raw(record.kind) == Some(FaultKind::Memory);
        handler(record.ip as usize, record.bp as usize, is_memory, record.address as usize);
    }
    panic!("a fault in the compiled program that is no trap: {record:x?}");
}
