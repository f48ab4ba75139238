//! What Wasmtime's runtime wants of the platform beneath it: a pointer per thread, and code that can be executed.

use crate::in_place::Creator;
use crate::stack;
use alloc::sync::Arc;
use core::cell::Cell;
use core::ptr::null_mut;
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
    if checks == Checks::Explicit {
        config.with_host_memory(Arc::new(Creator));
    }
    // SAFETY: the answer is the processor's own.
    unsafe { config.detect_host_feature(has) };
    // SAFETY: functions are compiled for a target that passes floats in vector registers, and the program for x86-64-v2 or a later level.
    unsafe { config.x86_float_abi_ok(true) };
    Engine::new(&config)
}

/// Whether this processor has a feature by Rust's name for it.
fn has(feature: &str) -> Option<bool> {
    Some(match feature {
        "sse3" => monohull_std::is_x86_feature_detected!("sse3"),
        "ssse3" => monohull_std::is_x86_feature_detected!("ssse3"),
        "sse4.1" => monohull_std::is_x86_feature_detected!("sse4.1"),
        "sse4.2" => monohull_std::is_x86_feature_detected!("sse4.2"),
        "popcnt" => monohull_std::is_x86_feature_detected!("popcnt"),
        "cmpxchg16b" => monohull_std::is_x86_feature_detected!("cmpxchg16b"),
        "avx" => monohull_std::is_x86_feature_detected!("avx"),
        "avx2" => monohull_std::is_x86_feature_detected!("avx2"),
        "bmi1" => monohull_std::is_x86_feature_detected!("bmi1"),
        "bmi2" => monohull_std::is_x86_feature_detected!("bmi2"),
        "fma" => monohull_std::is_x86_feature_detected!("fma"),
        "lzcnt" => monohull_std::is_x86_feature_detected!("lzcnt"),
        _ => return None,
    })
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
