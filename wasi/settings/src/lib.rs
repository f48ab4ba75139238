//! How WebAssembly programs are compiled, and so how the runtime that loads them must be set.
//!
//! Wasmtime refuses compiled code whose settings differ from the loading engine's. The compiler (`wasi/compile`) and the runtime
//! (`wasi/runtime`) both call [`configure`], so that there is one place for what they have in common.
//!
//! Linear memories are plain memory of the function's heap, and every access is checked by instructions of the compiled code: no
//! guard pages, no signals. So a trap never leaves user memory, and the isolation of a guest from the runtime that serves it needs
//! nothing of the processor.
#![no_std]
#![forbid(unsafe_code)]

use wasmtime::Config;

/// Processor features that compiled programs may use: the level x86-64-v2, which every processor of the last fifteen years has. Names
/// of Cranelift's settings.
pub const FEATURES: [&str; 6] = ["has_cmpxchg16b", "has_sse3", "has_ssse3", "has_sse41", "has_sse42", "has_popcnt"];

/// Bytes of the stack that a program may use, in the runtime's own thread. An endless recursion ends with a trap behind them.
pub const STACK_SIZE: usize = 512 * 1024;

/// Sets what compiler and runtime must agree on.
pub fn configure(config: &mut Config) {
    config
        .signals_based_traps(false)
        .memory_reservation(0)
        .memory_guard_size(0)
        .memory_init_cow(false)
        .gc_support(false)
        .concurrency_support(false)
        .max_wasm_stack(STACK_SIZE)
        .wasm_relaxed_simd(false);
}
