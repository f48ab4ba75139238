//! `memcpy`, `memmove`, `memset`, `memcmp` and `bcmp`: those of all images. musl's begin with a string instruction at most lengths, which takes longer
//! than most copies, and compare byte by byte, and every map with texts as keys compares.

use monohull_trampoline::memory;

/// C's `memcpy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: C's condition is the same.
    unsafe { memory::copy(to, from, count) }
}

/// C's `memmove`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: C's condition is the same.
    unsafe { memory::copy_overlapping(to, from, count) }
}

/// C's `memset`, which takes the lowest byte of a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memset(to: *mut u8, byte: i32, count: usize) -> *mut u8 {
    // SAFETY: C's condition is the same.
    unsafe { memory::fill(to, byte as u8, count) }
}

/// C's `memcmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: C's condition is the same.
    unsafe { memory::compare(one, other, count) }
}

/// What compilers call where only equality counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: C's condition is the same.
    unsafe { memory::compare(one, other, count) }
}
