//! What Wasmtime's runtime wants of the platform beneath it: a pointer per thread, and code that can be executed.

use crate::stack;
use alloc::sync::Arc;
use core::arch::x86_64::__cpuid;
use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering};
use monohull_std::thread_local;
use monohull_wasi_settings::Checks;
use wasmtime::{Config, CustomCodeMemory, Engine, Result};

/// An engine that loads what `wasi/compile` has compiled.
pub(crate) fn engine(checks: Checks) -> Result<Engine> {
    let mut config = Config::new();
    monohull_wasi_settings::configure(&mut config, checks);
    let stack = stack::of_program();
    // No program has a stack of its own, whose size the second is, but it must not be the smaller one.
    config.max_wasm_stack(stack).async_stack_size(stack);
    config.with_custom_code_memory(Some(Arc::new(Mapped)));
    // SAFETY: the answer is the processor's own.
    unsafe { config.detect_host_feature(has) };
    // SAFETY: functions are compiled for a target that passes floats in vector registers, and the program for x86-64-v2.
    unsafe { config.x86_float_abi_ok(true) };
    Engine::new(&config)
}

/// What this processor has: `ecx` of what `cpuid` answers for leaf 1; 0 before it was asked. Once is enough: a virtual machine's host answers, which takes longer
/// than all else that an engine needs.
static FOUND: AtomicU32 = AtomicU32::new(0);

/// Whether this processor has a feature by Rust's name for it.
fn has(feature: &str) -> Option<bool> {
    let bit = match feature {
        "sse3" => 0,
        "ssse3" => 9,
        "cmpxchg16b" => 13,
        "sse4.1" => 19,
        "sse4.2" => 20,
        "popcnt" => 23,
        _ => return None,
    };
    let mut found = FOUND.load(Ordering::Relaxed);
    if found == 0 {
        #[allow(unused_unsafe, reason = "it is safe in newer compilers")]
        // SAFETY: every processor of this architecture has the instruction, and this leaf.
        let said = unsafe { __cpuid(1) };
        found = said.ecx;
        FOUND.store(found, Ordering::Relaxed);
    }
    Some(found >> bit & 1 == 1)
}

/// The program's code, which the loader has mapped as executable already.
struct Mapped;

impl CustomCodeMemory for Mapped {
    fn required_alignment(&self) -> usize {
        4096
    }

    fn publish_executable(&self, _: *const u8, _: usize) -> Result<()> {
        Ok(())
    }

    fn unpublish_executable(&self, _: *const u8, _: usize) -> Result<()> {
        Ok(())
    }
}

thread_local! {
    /// What Wasmtime keeps for each thread, in slots that it numbers from 0.
    static POINTERS: [Cell<*mut u8>; SLOTS] = const { [const { Cell::new(null_mut()) }; SLOTS] };
}

/// Slots that Wasmtime uses.
const SLOTS: usize = 2;

/// One of the calling thread's pointers; null at first.
#[unsafe(no_mangle)]
extern "C" fn wasmtime_tls_get(slot: usize) -> *mut u8 {
    POINTERS.with(|pointers| pointers[slot].get())
}

/// Sets one of the calling thread's pointers.
#[unsafe(no_mangle)]
extern "C" fn wasmtime_tls_set(slot: usize, pointer: *mut u8) {
    POINTERS.with(|pointers| pointers[slot].set(pointer));
}
