//! Moving and comparing bytes, for images that have no C library.
//!
//! The compiler calls `memcpy` and its kin for much of what it does not expand in place, and mostly with few bytes. So
//! the short lengths come first: both ends are loaded before either is stored, which needs no loop and works
//! whether or not the two ranges overlap.
//!
//! ```text
//!   9 … 16 bytes      |=======A=======|
//!                           |=======B=======|     two 8-byte loads, then two 8-byte stores
//! ```
//!
//! Middle lengths go by 64 bytes at a time, with the last 64 bytes loaded beforehand. Long ones are left to
//! `rep movsb` and `rep stosb`, which processors of the last ten years run at full width. Every loop is assembly: a
//! compiler that recognises a copying loop would replace it by a call of the function it stands in.
//!
//! Nothing here has the C names; an image gives them out (`monohull_std`'s `image!`).
#![allow(unsafe_code, reason = "this crate is where Monohull's assembly lives")]

use core::arch::asm;
use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8, _mm_storeu_si128,
};

/// From this many bytes on, the string instructions win over the loop.
const LONG: usize = 1024;

/// Copies both ends of a range as a `T` each: right for lengths from one `T` to two, overlapping or not.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and `size_of::<T>() <= len <= 2 * size_of::<T>()`.
#[inline(always)]
unsafe fn ends<T: Copy>(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: both accesses end within `len` bytes, by the condition above; unaligned ones are used.
    unsafe {
        let last = len - size_of::<T>();
        let a = from.cast::<T>().read_unaligned();
        let b = from.add(last).cast::<T>().read_unaligned();
        to.cast::<T>().write_unaligned(a);
        to.add(last).cast::<T>().write_unaligned(b);
    }
}

/// Copies up to 64 bytes, overlapping or not.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes; `len <= 64`.
#[inline(always)]
unsafe fn short(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: each arm is entered for exactly the lengths that `ends` allows for its type.
    unsafe {
        match len {
            0 => {}
            1 => to.write(from.read()),
            2..=3 => ends::<u16>(to, from, len),
            4..=7 => ends::<u32>(to, from, len),
            8..=15 => ends::<u64>(to, from, len),
            16..=32 => ends::<__m128i>(to, from, len),
            _ => ends::<[__m128i; 2]>(to, from, len),
        }
    }
}

/// Copies more than 64 bytes upwards, 64 at a time; right if the ranges do not overlap or `to` lies below `from`.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes; `len > 64`.
#[inline(always)]
unsafe fn upwards(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the loop copies whole blocks while more than 64 bytes are left and stays within both ranges; the last
    // 64 bytes, loaded before anything was stored, go to the last 64 of `to`.
    unsafe {
        asm!(
            "movups {d0}, [{from} + {len} - 64]",
            "movups {d1}, [{from} + {len} - 48]",
            "movups {d2}, [{from} + {len} - 32]",
            "movups {d3}, [{from} + {len} - 16]",
            "lea {end}, [{to} + {len} - 64]",
            "2:",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "cmp {to}, {end}",
            "jb 2b",
            "movups [{end}], {d0}",
            "movups [{end} + 16], {d1}",
            "movups [{end} + 32], {d2}",
            "movups [{end} + 48], {d3}",
            from = inout(reg) from => _, to = inout(reg) to => _, len = in(reg) len, end = out(reg) _,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            d0 = out(xmm_reg) _, d1 = out(xmm_reg) _, d2 = out(xmm_reg) _, d3 = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// Copies more than 64 bytes downwards, for overlapping ranges with `to` above `from`.
///
/// # Safety
/// As for [`upwards`].
#[inline(always)]
unsafe fn downwards(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the mirror image of `upwards`: blocks from the end while more than 64 bytes are left, then the first 64
    // bytes, which were loaded before anything was stored.
    unsafe {
        asm!(
            "movups {d0}, [{from}]",
            "movups {d1}, [{from} + 16]",
            "movups {d2}, [{from} + 32]",
            "movups {d3}, [{from} + 48]",
            "2:",
            "movups {a}, [{from} + {len} - 16]",
            "movups {b}, [{from} + {len} - 32]",
            "movups {c}, [{from} + {len} - 48]",
            "movups {d}, [{from} + {len} - 64]",
            "movups [{to} + {len} - 16], {a}",
            "movups [{to} + {len} - 32], {b}",
            "movups [{to} + {len} - 48], {c}",
            "movups [{to} + {len} - 64], {d}",
            "sub {len}, 64",
            "cmp {len}, 64",
            "ja 2b",
            "movups [{to}], {d0}",
            "movups [{to} + 16], {d1}",
            "movups [{to} + 32], {d2}",
            "movups [{to} + 48], {d3}",
            from = in(reg) from, to = in(reg) to, len = inout(reg) len => _,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            d0 = out(xmm_reg) _, d1 = out(xmm_reg) _, d2 = out(xmm_reg) _, d3 = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// Copies `len` bytes between ranges that do not overlap; returns `to`.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap.
#[inline]
pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise, and each routine is entered for the lengths it is for.
    unsafe {
        if len <= 64 {
            short(to, from, len);
        } else if len < LONG {
            upwards(to, from, len);
        } else {
            // The direction flag is clear at every function's entry by the ABI.
            asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") len => _,
                options(nostack, preserves_flags));
        }
    }
    to
}

/// Copies `len` bytes between ranges that may overlap; returns `to`.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes.
#[inline]
pub unsafe fn copy_overlapping(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    let distance = (to as usize).wrapping_sub(from as usize);
    // SAFETY: the caller's promise; `distance >= len` means that `to` lies below `from` or that nothing overlaps.
    unsafe {
        if len <= 64 {
            short(to, from, len);
        } else if distance >= len {
            // `rep movsb` is slow when `to` lies a little below `from`, which is what removing an element looks like.
            upwards(to, from, len);
        } else {
            downwards(to, from, len);
        }
    }
    to
}

/// Sets `len` bytes to `value`; returns `to`.
///
/// # Safety
/// `to` is writable for `len` bytes.
#[inline]
pub unsafe fn fill(to: *mut u8, value: u8, len: usize) -> *mut u8 {
    // SAFETY: every store stays within `len` bytes, by the lengths of its arm.
    unsafe {
        if len < 16 {
            let word = u64::from(value) * 0x0101_0101_0101_0101;
            if len >= 8 {
                to.cast::<u64>().write_unaligned(word);
                to.add(len - 8).cast::<u64>().write_unaligned(word);
            } else if len >= 4 {
                to.cast::<u32>().write_unaligned(word as u32);
                to.add(len - 4).cast::<u32>().write_unaligned(word as u32);
            } else if len > 0 {
                to.write(value);
                to.add(len / 2).write(value);
                to.add(len - 1).write(value);
            }
        } else if len <= 64 {
            // Two stores from each end meet in the middle.
            let wide = _mm_set1_epi8(value as i8);
            let inner = if len > 32 { 16 } else { 0 };
            _mm_storeu_si128(to.cast(), wide);
            _mm_storeu_si128(to.add(inner).cast(), wide);
            _mm_storeu_si128(to.add(len - 16 - inner).cast(), wide);
            _mm_storeu_si128(to.add(len - 16).cast(), wide);
        } else if len < LONG {
            // Blocks of 64 while more than that is left, then the last 64.
            asm!(
                "2:",
                "movups [{to}], {wide}",
                "movups [{to} + 16], {wide}",
                "movups [{to} + 32], {wide}",
                "movups [{to} + 48], {wide}",
                "add {to}, 64",
                "cmp {to}, {end}",
                "jb 2b",
                "movups [{end}], {wide}",
                "movups [{end} + 16], {wide}",
                "movups [{end} + 32], {wide}",
                "movups [{end} + 48], {wide}",
                to = inout(reg) to => _, end = in(reg) to.add(len - 64), wide = in(xmm_reg) _mm_set1_epi8(value as i8),
                options(nostack),
            );
        } else {
            asm!("rep stosb", inout("rdi") to => _, in("al") value, inout("rcx") len => _,
                options(nostack, preserves_flags));
        }
    }
    to
}

/// Compares 8 bytes as text: the first byte counts most.
///
/// # Safety
/// Both are readable for 8 bytes.
#[inline(always)]
unsafe fn order_8(a: *const u8, b: *const u8) -> i32 {
    // SAFETY: the caller's promise.
    let (a, b) = unsafe { (a.cast::<u64>().read_unaligned(), b.cast::<u64>().read_unaligned()) };
    order(a.swap_bytes(), b.swap_bytes())
}

/// -1, 0 or 1. The first byte in memory must be the most significant.
#[inline(always)]
fn order(a: u64, b: u64) -> i32 {
    i32::from(a > b) - i32::from(a < b)
}

/// Whether 64 bytes are the same.
///
/// # Safety
/// Both are readable for 64 bytes.
#[inline(always)]
unsafe fn equal_64(a: *const u8, b: *const u8) -> bool {
    // SAFETY: four loads of 16 bytes from each.
    unsafe {
        let equal = |at: usize| _mm_cmpeq_epi8(_mm_loadu_si128(a.add(at).cast()), _mm_loadu_si128(b.add(at).cast()));
        let all = _mm_and_si128(_mm_and_si128(equal(0), equal(16)), _mm_and_si128(equal(32), equal(48)));
        _mm_movemask_epi8(all) == 0xffff
    }
}

/// Compares as `memcmp`: negative, zero or positive by the first byte that differs.
///
/// # Safety
/// Both are readable for `len` bytes.
#[inline]
pub unsafe fn compare(a: *const u8, b: *const u8, len: usize) -> i32 {
    // SAFETY: all loads stay within `len` bytes: blocks of 64 while they are equal, then of 16; the last may
    // overlap the one before, whose bytes are known to be equal.
    unsafe {
        if len >= 16 {
            let mut at = 0;
            let last = len - 16;
            while at + 64 <= len && equal_64(a.add(at), b.add(at)) {
                at += 64;
            }
            at = at.min(last);
            loop {
                let left = _mm_loadu_si128(a.add(at).cast());
                let right = _mm_loadu_si128(b.add(at).cast());
                let equal = _mm_movemask_epi8(_mm_cmpeq_epi8(left, right)) as u32;
                if equal != 0xffff {
                    let first = at + equal.trailing_ones() as usize;
                    return i32::from(a.add(first).read()) - i32::from(b.add(first).read());
                }
                if at == last {
                    return 0;
                }
                at = (at + 16).min(last);
            }
        }
        if len >= 8 {
            let head = order_8(a, b);
            return if head != 0 { head } else { order_8(a.add(len - 8), b.add(len - 8)) };
        }
        if len >= 4 {
            // Both ends side by side in one word; equal heads leave the decision to the tails.
            let word = |p: *const u8| {
                let head = u64::from(p.cast::<u32>().read_unaligned().swap_bytes());
                (head << 32) | u64::from(p.add(len - 4).cast::<u32>().read_unaligned().swap_bytes())
            };
            return order(word(a), word(b));
        }
        if len == 0 {
            return 0;
        }
        // One to three bytes: the first, the middle one and the last.
        let word = |p: *const u8| {
            (u64::from(p.read()) << 16) | (u64::from(p.add(len / 2).read()) << 8) | u64::from(p.add(len - 1).read())
        };
        order(word(a), word(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: [usize; 27] = [
        0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 500, 1023, 1024, 1025, 3000,
    ];

    fn pattern() -> [u8; 8192] {
        core::array::from_fn(|i| (i * 7 + i / 251) as u8)
    }

    #[test]
    fn copies_every_length_and_nothing_more() {
        for len in LENGTHS {
            let from = pattern();
            let mut to = [0xee; 8192];
            // SAFETY: both arrays are longer than the offsets plus `len`.
            unsafe { copy(to.as_mut_ptr().add(9), from.as_ptr().add(3), len) };
            assert_eq!(to[9..9 + len], from[3..3 + len], "{len}");
            assert!(to[..9].iter().chain(&to[9 + len..]).all(|b| *b == 0xee), "{len}");
        }
    }

    #[test]
    fn overlapping_copies_agree_with_the_library() {
        for len in LENGTHS {
            for (to, from) in [(100, 100), (101, 100), (100, 101), (108, 100), (100, 108), (163, 100), (100, 163)] {
                let mut ours = pattern();
                let mut expected = pattern();
                expected.copy_within(from..from + len, to);
                let start = ours.as_mut_ptr();
                // SAFETY: the array is longer than the offsets plus `len`.
                unsafe { copy_overlapping(start.add(to), start.add(from), len) };
                assert_eq!(ours, expected, "{len} bytes from {from} to {to}");
            }
        }
    }

    #[test]
    fn fills_every_length_and_nothing_more() {
        for len in LENGTHS {
            let mut to = [0xee; 8192];
            // SAFETY: the array is longer than the offset plus `len`.
            unsafe { fill(to.as_mut_ptr().add(5), 0x5a, len) };
            assert!(to[5..5 + len].iter().all(|b| *b == 0x5a), "{len}");
            assert!(to[..5].iter().chain(&to[5 + len..]).all(|b| *b == 0xee), "{len}");
        }
    }

    #[test]
    fn compares_by_the_first_difference() {
        for len in LENGTHS {
            let a = pattern();
            let mut b = pattern();
            // SAFETY: both arrays are longer than `len`.
            let compare = |b: &[u8; 8192]| unsafe { compare(a.as_ptr(), b.as_ptr(), len) };
            assert_eq!(compare(&b), 0, "{len}");
            b[len] ^= 0xff;
            assert_eq!(compare(&b), 0, "{len}: the byte behind the end does not count");
            for at in [0, len / 3, len / 2, len.saturating_sub(1)].into_iter().filter(|at| *at < len) {
                let mut b = b;
                b[at] ^= 0x81;
                b[len - 1] ^= 0x42;
                assert_eq!(compare(&b).signum(), a[..len].cmp(&b[..len]) as i32, "{len}, difference at {at}");
            }
        }
    }
}
