//! How WebAssembly programs are compiled, and so how the runtime that loads them must be set.
//!
//! Wasmtime refuses compiled code whose settings differ from the loading engine's. The compiler (`wasi/compile`) and the runtime
//! (`wasi/runtime`) both call [`configure`], so that there is one place for what they have in common.
//!
//! A program cannot leave its linear memory, in one of two ways:
//!
//! ```text
//!   Checks::Guards     | guard | memory, 4 GiB reserved: rw … none | guard |   an address is 32 bits, an offset smaller than a guard:
//!                                                                              what is out of bounds faults, and the fault handler
//!                                                                              makes a trap of it
//!   Checks::Explicit   | memory, reserved up to the step's: rw … none |        instructions compare each address
//! ```
//!
//! Neither needs anything of the processor but paging, and neither is what keeps a function in its cell: this is between a program and the
//! runtime that serves it.
#![no_std]
#![forbid(unsafe_code)]

pub mod lines;

use wasmtime::{Collector, Config};

/// Which instructions compiled programs may have, by the levels of the x86-64 ABI. The instructions of the level x86-64-v4 are not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Level {
    /// What every processor of the last fifteen years has.
    #[default]
    V2,
    /// Those of ten years, with few exceptions: vectors of 256 bits, shifts and rotations that leave the flags alone.
    V3,
}

impl Level {
    /// The level with this name.
    pub fn from_name(name: &str) -> Option<Level> {
        [Level::V2, Level::V3].into_iter().find(|level| level.name() == name)
    }

    /// Its name in the ABI.
    pub const fn name(self) -> &'static str {
        match self {
            Level::V2 => "x86-64-v2",
            Level::V3 => "x86-64-v3",
        }
    }

    /// Its features that Cranelift makes use of, by Cranelift's names.
    pub fn features(self) -> impl Iterator<Item = &'static str> {
        let second = ["has_cmpxchg16b", "has_sse3", "has_ssse3", "has_sse41", "has_sse42", "has_popcnt"];
        let third = ["has_avx", "has_avx2", "has_bmi1", "has_bmi2", "has_fma", "has_lzcnt"];
        second.into_iter().chain(third.into_iter().filter(move |_| self == Level::V3))
    }
}

/// Addresses that a linear memory reserves: all that a pointer of 32 bits can name.
const RESERVATION: u64 = 4 << 30;
/// Addresses without access before and behind it. Accesses with a larger constant offset are checked by instructions.
const GUARD: u64 = 32 << 20;
/// Addresses that a linear memory with guards takes, or a few more.
pub const ADDRESSES: u64 = RESERVATION + GUARD;

/// What a memory that is moved to grow has beyond what was asked for. With explicit checks the runtime makes memories that grow in place.
const GROWTH: u64 = 1 << 20;

/// What keeps a program in its linear memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checks {
    /// Instructions of the compiled code.
    Explicit,
    /// Pages without access, and a handler of the faults there.
    Guards,
}

impl Checks {
    /// As a number in an image: 0 is what a runtime without a program has.
    pub const fn to_raw(self) -> u64 {
        match self {
            Checks::Explicit => 0,
            Checks::Guards => 1,
        }
    }

    /// The checks with this number.
    pub const fn from_raw(raw: u64) -> Option<Checks> {
        match raw {
            0 => Some(Checks::Explicit),
            1 => Some(Checks::Guards),
            _ => None,
        }
    }
}

/// Sets what compiler and runtime must agree on.
pub fn configure(config: &mut Config, checks: Checks) {
    let (signals, reservation, guard) = match checks {
        Checks::Explicit => (false, 0, 0),
        Checks::Guards => (true, RESERVATION, GUARD),
    };
    config
        .signals_based_traps(signals)
        .memory_reservation(reservation)
        .memory_guard_size(guard)
        .memory_reservation_for_growth(GROWTH)
        .memory_init_cow(checks == Checks::Guards)
        // Of zeros between its data an image has no more than of data.
        .memory_guaranteed_dense_image_size(0)
        .gc_support(true)
        .collector(Collector::Copying)
        // What is collected lies in a memory that takes no addresses in advance, and that is copied to grow. Instructions check what is read there.
        .gc_heap_reservation(0)
        .gc_heap_guard_size(0)
        .gc_heap_reservation_for_growth(GROWTH)
        .gc_heap_may_move(true)
        .concurrency_support(false)
        .wasm_relaxed_simd(true)
        // What it leaves open is the same on every processor.
        .relaxed_simd_deterministic(true);
}
