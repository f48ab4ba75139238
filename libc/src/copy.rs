//! `memcpy`, `memmove` and `memset`: musl's begin with a string instruction at every length, which takes longer than most copies.
//!
//! Short ones load all bytes before they store the first, by pieces that overlap in the middle, so that it does not matter whether the
//! places overlap. Long ones are string instructions if the places do not overlap, and loops of 64 bytes if they do.

use core::arch::asm;
use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_set1_epi8, _mm_storeu_si128};

/// Bytes in a piece.
const PIECE: usize = size_of::<__m128i>();
/// Bytes in a round of a loop.
const ROUND: usize = 4 * PIECE;
/// From this length on a string instruction is faster than a loop.
const LONG: usize = 1024;

/// Keeps the compiler from making a call of `memcpy` or `memset` of a loop.
#[inline(always)]
fn no_call() {
    // SAFETY: no instruction at all.
    unsafe { asm!("", options(nostack, preserves_flags)) }
}

#[inline(always)]
unsafe fn load<const PIECES: usize>(from: *const u8) -> [__m128i; PIECES] {
    // SAFETY: the caller's promise: as many pieces lie there.
    core::array::from_fn(|at| unsafe { _mm_loadu_si128(from.add(at * PIECE).cast()) })
}

#[inline(always)]
unsafe fn store<const PIECES: usize>(to: *mut u8, pieces: [__m128i; PIECES]) {
    for (at, piece) in pieces.into_iter().enumerate() {
        // SAFETY: the caller's promise: there is room for as many pieces.
        unsafe { _mm_storeu_si128(to.add(at * PIECE).cast(), piece) };
    }
}

/// Copies between one and two times the size of `T`: its first and its last bytes.
#[inline(always)]
unsafe fn ends<T: Copy>(to: *mut u8, from: *const u8, count: usize) {
    let last = count - size_of::<T>();
    // SAFETY: the caller's promise: `count` bytes at both, of which these are the first and the last.
    unsafe {
        let (head, tail) = (from.cast::<T>().read_unaligned(), from.add(last).cast::<T>().read_unaligned());
        to.cast::<T>().write_unaligned(head);
        to.add(last).cast::<T>().write_unaligned(tail);
    }
}

/// The same for this many pieces at both ends.
#[inline(always)]
unsafe fn pieces<const PIECES: usize>(to: *mut u8, from: *const u8, count: usize) {
    let last = count - PIECES * PIECE;
    // SAFETY: as above.
    unsafe {
        let (head, tail) = (load::<PIECES>(from), load::<PIECES>(from.add(last)));
        store(to, head);
        store(to.add(last), tail);
    }
}

/// Copies at most two rounds.
#[inline(always)]
unsafe fn short(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: each arm copies no more than `count` bytes, which lie at both by the caller's promise.
    unsafe {
        match count {
            0 => {}
            1 => to.write(from.read()),
            2..4 => ends::<u16>(to, from, count),
            4..8 => ends::<u32>(to, from, count),
            8..=16 => ends::<u64>(to, from, count),
            17..=32 => pieces::<1>(to, from, count),
            33..=64 => pieces::<2>(to, from, count),
            _ => pieces::<4>(to, from, count),
        }
    }
}

/// Copies more than a round, from the first byte on: right if `to` does not lie behind the start of what is copied, inside it.
#[inline(always)]
unsafe fn forwards(to: *mut u8, from: *const u8, count: usize) {
    let last = count - ROUND;
    // SAFETY: rounds begin before `last`, so they end inside; the last one was loaded before anything was stored.
    unsafe {
        let tail = load::<4>(from.add(last));
        let mut at = 0;
        while at < last {
            store(to.add(at), load::<4>(from.add(at)));
            at += ROUND;
            no_call();
        }
        store(to.add(last), tail);
    }
}

/// Copies more than a round, from the last byte on.
#[inline(always)]
unsafe fn backwards(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: rounds end behind the first one, so they begin inside; the first one was loaded before anything was stored.
    unsafe {
        let head = load::<4>(from);
        let mut end = count;
        while end > ROUND {
            end -= ROUND;
            store(to.add(end), load::<4>(from.add(end)));
            no_call();
        }
        store(to, head);
    }
}

/// C's `memmove`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    let (ahead, behind) = ((to as usize).wrapping_sub(from as usize), (from as usize).wrapping_sub(to as usize));
    // SAFETY: C's condition: `count` bytes at both.
    unsafe {
        if count <= 2 * ROUND {
            short(to, from, count);
        } else if ahead < count {
            backwards(to, from, count);
        } else if count < LONG || behind < count {
            forwards(to, from, count);
        } else {
            asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags));
        }
    }
    to
}

/// C's `memcpy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: C's condition: `count` bytes at both, which do not overlap.
    unsafe {
        if count <= 2 * ROUND {
            short(to, from, count);
        } else if count < LONG {
            forwards(to, from, count);
        } else {
            asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags));
        }
    }
    to
}

/// C's `memset`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memset(to: *mut u8, byte: i32, count: usize) -> *mut u8 {
    let byte = byte.to_le_bytes()[0];
    let word = u64::from_ne_bytes([byte; 8]);
    let piece = i8::from_ne_bytes([byte]);
    // SAFETY: C's condition: `count` bytes, of which each arm writes the first and the last, and all between.
    unsafe {
        let piece = _mm_set1_epi8(piece);
        match count {
            0 => {}
            1 => to.write(byte),
            2..4 => {
                to.write(byte);
                to.add(1).write(byte);
                to.add(count - 1).write(byte);
            }
            4..8 => {
                let half = u32::from_ne_bytes([byte; 4]);
                to.cast::<u32>().write_unaligned(half);
                to.add(count - 4).cast::<u32>().write_unaligned(half);
            }
            8..16 => {
                to.cast::<u64>().write_unaligned(word);
                to.add(count - 8).cast::<u64>().write_unaligned(word);
            }
            16..32 => {
                store(to, [piece]);
                store(to.add(count - PIECE), [piece]);
            }
            32..64 => {
                store(to, [piece; 2]);
                store(to.add(count - 2 * PIECE), [piece; 2]);
            }
            64..LONG => {
                let last = count - ROUND;
                let mut at = 0;
                while at < last {
                    store(to.add(at), [piece; 4]);
                    at += ROUND;
                    no_call();
                }
                store(to.add(last), [piece; 4]);
            }
            _ => {
                asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("al") byte, options(nostack, preserves_flags));
            }
        }
    }
    to
}
