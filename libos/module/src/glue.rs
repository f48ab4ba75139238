//! What [`crate::module!`] expands to: the C edge of a module. Not for direct use.

use crate::record::{self, RecordsRef};
use crate::{HostRef, Module, heap};
use alloc::boxed::Box;
use core::ffi::c_void;
use monohull_abi::module::{Call, Ending, Host, Layout, MAGIC, ModuleEntry, ModuleTable, Released};
use monohull_abi::record::Records;

/// The table for a module with these entries.
pub const fn table<M: Module>(entries: &'static [ModuleEntry]) -> ModuleTable {
    ModuleTable {
        magic: MAGIC,
        abi_version: monohull_abi::ABI_VERSION,
        layout: Layout::HERE,
        name: padded(M::NAME),
        entry_count: entries.len() as u64,
        entries: entries.as_ptr(),
        start: start::<M>,
        stop: stop::<M>,
        ended: ended::<M>,
        poll: poll::<M>,
        save: save::<M>,
        restore: restore::<M>,
    }
}

/// Turns a handler's raw arguments into references.
///
/// # Safety
/// `state` came from the table's `start` for `M` and has not been stopped; nothing else uses `call` meanwhile.
pub unsafe fn enter<'a, M: Module>(state: *mut c_void, call: *mut Call) -> (&'a M, &'a mut Call) {
    // SAFETY: the caller's promise. Handlers on other carriers share the state by reference only.
    unsafe { (&*state.cast::<M>(), &mut *call) }
}

unsafe extern "C" fn start<M: Module>(host: *const Host) -> *mut c_void {
    // SAFETY: the visor passes a live `Host` that outlives the state made here.
    let host = unsafe { HostRef::new(host) };
    heap::set_services(host);
    match M::start(host) {
        Some(state) => Box::into_raw(Box::new(state)).cast(),
        None => core::ptr::null_mut(),
    }
}

unsafe extern "C" fn stop<M: Module>(state: *mut c_void) {
    // SAFETY: `state` came from `start::<M>`, and the visor stops a state once, when no handler runs any more.
    drop(unsafe { Box::from_raw(state.cast::<M>()) });
}

unsafe extern "C" fn ended<M: Module>(state: *mut c_void, instance: u32, ending: Ending) -> Released {
    // SAFETY: `state` came from `start::<M>` and has not been stopped.
    let state = unsafe { &*state.cast::<M>() };
    state.ended(instance, ending)
}

unsafe extern "C" fn poll<M: Module>(state: *mut c_void) {
    // SAFETY: `state` came from `start::<M>` and has not been stopped.
    unsafe { &*state.cast::<M>() }.poll();
}

unsafe extern "C" fn save<M: Module>(state: *mut c_void, records: *const Records) -> u32 {
    // SAFETY: `state` came from `start::<M>` and has not been stopped; the table is valid during the call.
    let (state, records) = unsafe { (&*state.cast::<M>(), RecordsRef::new(records)) };
    record::save(state, records).into()
}

unsafe extern "C" fn restore<M: Module>(
    state: *mut c_void,
    records: *const Records,
    record: *const u8,
    len: usize,
) -> u32 {
    // SAFETY: as in `save`; the visor passes a record that is readable for its length during the call.
    let (state, records, record) =
        unsafe { (&*state.cast::<M>(), RecordsRef::new(records), core::slice::from_raw_parts(record, len)) };
    record::restore(state, record, records).into()
}

const fn padded(name: &str) -> [u8; 16] {
    assert!(name.len() < 16, "a module's name has at most 15 bytes");
    let mut padded = [0; 16];
    let mut i = 0;
    while i < name.len() {
        padded[i] = name.as_bytes()[i];
        i += 1;
    }
    padded
}
