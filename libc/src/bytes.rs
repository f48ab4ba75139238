//! C's functions on bytes and texts that programs spend time in: those of all images.
//!
//! musl's `memcpy`, `memmove` and `memset` begin with a string instruction at most lengths, which takes longer than most copies.
//! Its comparisons go byte by byte, and its searches and copies of texts eight bytes at a time. musl's other functions stand on these: `strchr` on
//! `strchrnul`, `strnlen` on `memchr`, `strrchr` on `memrchr`, `strcpy` on `stpcpy`.

use core::ffi::c_void;
use core::ptr::null;

use monohull_trampoline::{memory, search};

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

/// C's `memchr`, which takes the lowest byte of a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memchr(from: *const u8, byte: i32, count: usize) -> *const u8 {
    // SAFETY: C's condition is the same: the bytes behind the one sought need not be there.
    unsafe { search::find(from, byte as u8, count) }.unwrap_or(null())
}

/// GNU's `memrchr`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memrchr(from: *const u8, byte: i32, count: usize) -> *const u8 {
    // SAFETY: the condition is the same.
    unsafe { search::find_last(from, byte as u8, count) }.unwrap_or(null())
}

/// What musl calls `memrchr` itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __memrchr(from: *const u8, byte: i32, count: usize) -> *const u8 {
    // SAFETY: the condition is the same.
    unsafe { memrchr(from, byte, count) }
}

/// C's `strlen`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strlen(text: *const u8) -> usize {
    // SAFETY: C's condition is the same.
    unsafe { search::text_len(text) }
}

/// GNU's `strchrnul`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strchrnul(text: *const u8, byte: i32) -> *const u8 {
    // SAFETY: the condition is the same.
    unsafe { search::find_or_end(text, byte as u8) }
}

/// What musl calls `strchrnul` itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __strchrnul(text: *const u8, byte: i32) -> *const u8 {
    // SAFETY: the condition is the same.
    unsafe { strchrnul(text, byte) }
}

/// C's `strcmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strcmp(one: *const u8, other: *const u8) -> i32 {
    // SAFETY: C's condition is the same.
    unsafe { search::compare_texts(one, other, usize::MAX) }
}

/// C's `strncmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strncmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: C's condition is the same.
    unsafe { search::compare_texts(one, other, count) }
}

/// POSIX's `strcasecmp`. Bytes that are not ASCII have no case, as in musl.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strcasecmp(one: *const u8, other: *const u8) -> i32 {
    // SAFETY: the condition is the same.
    unsafe { search::compare_texts_ignoring_case(one, other, usize::MAX) }
}

/// POSIX's `strncasecmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strncasecmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: the condition is the same.
    unsafe { search::compare_texts_ignoring_case(one, other, count) }
}

/// POSIX's `strcasecmp_l`: all locales are the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strcasecmp_l(one: *const u8, other: *const u8, _locale: *const c_void) -> i32 {
    // SAFETY: the condition is the same.
    unsafe { strcasecmp(one, other) }
}

/// POSIX's `strncasecmp_l`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strncasecmp_l(one: *const u8, other: *const u8, count: usize, _locale: *const c_void) -> i32 {
    // SAFETY: the condition is the same.
    unsafe { strncasecmp(one, other, count) }
}

/// POSIX's `stpcpy`: copies a text, and says where the copy ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stpcpy(to: *mut u8, from: *const u8) -> *mut u8 {
    // SAFETY: the condition is the same: the zero byte is copied as well.
    unsafe {
        let len = search::text_len(from);
        memory::copy(to, from, len + 1).add(len)
    }
}

/// What musl calls `stpcpy` itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __stpcpy(to: *mut u8, from: *const u8) -> *mut u8 {
    // SAFETY: the condition is the same.
    unsafe { stpcpy(to, from) }
}
