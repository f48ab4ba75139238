//! Searching bytes, and texts that end with a zero byte, for images that have no C library.
//!
//! A search does not know where its object ends: a text ends at its zero byte, and `memchr` may be told a length far beyond
//! the byte it will find. Memory is therefore read in aligned blocks. Such a block lies within one page, so a block with one
//! byte of the object can be read whole, whatever is mapped behind it:
//!
//! ```text
//!             object ──▶|h e l l o \0|
//!   |. . . . . . . . . . h e l l o \0|. . .           the first block of 16: what lies before the object is masked out
//!   |               |                |               |                |      then blocks of 16 up to a multiple of 64,
//!   |                            64                                   |      then 64 at a time
//! ```
//!
//! The loads are assembly, because Rust has no reads beyond an object. Two texts that are compared are rarely aligned alike:
//! 64 or 16 bytes of both are compared while neither reaches into its next page, and single bytes at the ends of pages.
#![allow(unsafe_code, reason = "this crate is where Monohull's assembly lives")]

use core::arch::asm;
use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
    _mm_set1_epi8, _mm_xor_si128,
};

/// Bytes of a vector.
const VECTOR: usize = size_of::<__m128i>();
/// Bytes that are looked at together in long objects.
const BLOCK: usize = 4 * VECTOR;
/// Bytes of a page: what is readable at one of its bytes is readable at all of them.
const PAGE: usize = 4096;

/// Loads 16 bytes, of which some may lie outside the object.
///
/// # Safety
/// One of the bytes is readable, and all lie in its page.
#[inline(always)]
unsafe fn load(at: *const u8) -> __m128i {
    let bytes;
    // SAFETY: protection is per page, so the whole range is readable; nothing is written.
    unsafe {
        asm!("movdqu {}, [{}]", out(xmm_reg) bytes, in(reg) at, options(pure, readonly, nostack, preserves_flags))
    };
    bytes
}

/// One bit for each byte that is not zero in `hits`.
#[inline(always)]
fn bits(hits: __m128i) -> u32 {
    // SAFETY: SSE2 is part of the architecture.
    unsafe { _mm_movemask_epi8(hits) as u32 }
}

/// Which bytes equal `byte`.
#[inline(always)]
fn equal(bytes: __m128i, byte: u8) -> __m128i {
    // SAFETY: SSE2 is part of the architecture.
    unsafe { _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8)) }
}

/// Whether there is a hit in a block.
#[inline(always)]
fn any([a, b, c, d]: [__m128i; 4]) -> bool {
    // SAFETY: SSE2 is part of the architecture.
    bits(unsafe { _mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d)) }) != 0
}

/// Finds the first byte at or after `from` for which `hits` has a byte of ones. What is found may lie at `end` or behind it.
///
/// # Safety
/// From `from` on, all is readable up to the first hit or up to the address `end`, and there is at least one such byte.
#[inline(always)]
unsafe fn first(from: *const u8, end: usize, hits: impl Fn(__m128i) -> __m128i) -> Option<*const u8> {
    let before = from.addr() % VECTOR;
    let mut at = from.wrapping_sub(before);
    // SAFETY: each block has a byte of the object: `at` is below `end`, and no earlier block has had a hit. Aligned blocks lie
    // within a page.
    unsafe {
        // What lies before the object is no hit.
        let mut found = bits(hits(load(at))) >> before << before;
        loop {
            if found != 0 {
                return Some(at.wrapping_add(found.trailing_zeros() as usize));
            }
            at = at.wrapping_add(VECTOR);
            // An address of zero: the object ends with the address space.
            if at.addr() >= end || at.is_null() {
                return None;
            }
            if at.addr().is_multiple_of(BLOCK) {
                break;
            }
            found = bits(hits(load(at)));
        }
        loop {
            let block: [__m128i; 4] = core::array::from_fn(|i| hits(load(at.wrapping_add(i * VECTOR))));
            if any(block) {
                let found = block.iter().rev().fold(0_u64, |found, hits| found << VECTOR | u64::from(bits(*hits)));
                return Some(at.wrapping_add(found.trailing_zeros() as usize));
            }
            at = at.wrapping_add(BLOCK);
            if at.addr() >= end || at.is_null() {
                return None;
            }
        }
    }
}

/// Finds the first `byte` among `len` bytes.
///
/// # Safety
/// From `from` on, all is readable up to the first such byte or for `len` bytes. `len` may reach beyond the address space.
#[inline]
pub unsafe fn find(from: *const u8, byte: u8, len: usize) -> Option<*const u8> {
    if len == 0 {
        return None;
    }
    let end = from.addr().saturating_add(len);
    // SAFETY: the caller's promise.
    let found = unsafe { first(from, end, |bytes| equal(bytes, byte)) };
    found.filter(|found| found.addr() < end)
}

/// Finds the last `byte` among `len` bytes.
///
/// # Safety
/// `from` is readable for `len` bytes.
#[inline]
pub unsafe fn find_last(from: *const u8, byte: u8, len: usize) -> Option<*const u8> {
    let mut end = from.wrapping_add(len);
    while end > from {
        if end.addr().is_multiple_of(BLOCK) && end.addr() - from.addr() >= BLOCK {
            let at = end.wrapping_sub(BLOCK);
            // SAFETY: the whole block is part of the object.
            let block: [__m128i; 4] =
                core::array::from_fn(|i| unsafe { equal(load(at.wrapping_add(i * VECTOR)), byte) });
            if !any(block) {
                end = at;
                continue;
            }
        }
        let at = end.wrapping_sub(1).map_addr(|address| address / VECTOR * VECTOR);
        // SAFETY: the aligned block has the byte before `end`, which is one of the object.
        let found = bits(equal(unsafe { load(at) }, byte)) & (u32::MAX >> (32 - (end.addr() - at.addr())));
        if found != 0 {
            let last = at.wrapping_add(found.ilog2() as usize);
            return (last >= from).then_some(last);
        }
        end = at;
    }
    None
}

/// Finds the first `byte` of a text, or the zero byte that ends it.
///
/// # Safety
/// `text` is readable up to and including its zero byte, or up to the first `byte`.
#[inline]
pub unsafe fn find_or_end(text: *const u8, byte: u8) -> *const u8 {
    let hits = |bytes| {
        // SAFETY: SSE2 is part of the architecture.
        let least = unsafe { _mm_min_epu8(bytes, _mm_xor_si128(bytes, _mm_set1_epi8(byte as i8))) };
        // Zero where a byte is zero or differs from `byte` by nothing.
        equal(least, 0)
    };
    // SAFETY: the caller's promise. A text has an end, so there is a hit.
    unsafe { first(text, usize::MAX, hits) }.unwrap_or(text)
}

/// Length of a text that ends with a zero byte.
///
/// # Safety
/// `text` is readable up to and including its zero byte.
#[inline]
pub unsafe fn text_len(text: *const u8) -> usize {
    // SAFETY: the caller's promise. A text has an end, so there is a hit.
    unsafe { first(text, usize::MAX, |bytes| equal(bytes, 0)) }.map_or(0, |end| end.addr() - text.addr())
}

/// Bytes from here on that lie in one page.
#[inline(always)]
fn in_page(at: *const u8) -> usize {
    PAGE - at.addr() % PAGE
}

/// How two texts are compared.
trait Order {
    /// What counts of sixteen bytes.
    fn vector(bytes: __m128i) -> __m128i;
    /// What counts of a byte.
    fn byte(byte: u8) -> u8;
}

/// Every byte is as it is.
struct Exact;

impl Order for Exact {
    #[inline(always)]
    fn vector(bytes: __m128i) -> __m128i {
        bytes
    }

    #[inline(always)]
    fn byte(byte: u8) -> u8 {
        byte
    }
}

/// Capital letters of ASCII are small ones.
struct IgnoringCase;

impl Order for IgnoringCase {
    #[inline(always)]
    fn vector(bytes: __m128i) -> __m128i {
        // SAFETY: SSE2 is part of the architecture.
        unsafe {
            // As signed numbers, bytes that are not ASCII come before all letters.
            let from = _mm_cmpgt_epi8(bytes, _mm_set1_epi8(b'A' as i8 - 1));
            let until = _mm_cmpgt_epi8(_mm_set1_epi8(b'Z' as i8 + 1), bytes);
            let bit = _mm_set1_epi8((b'a' - b'A') as i8);
            _mm_or_si128(bytes, _mm_and_si128(_mm_and_si128(from, until), bit))
        }
    }

    #[inline(always)]
    fn byte(byte: u8) -> u8 {
        byte.to_ascii_lowercase()
    }
}

/// Ones where two texts differ, and where both end.
///
/// # Safety
/// As for [`load`], of both.
#[inline(always)]
unsafe fn ends<O: Order>(left: *const u8, right: *const u8) -> __m128i {
    // SAFETY: the caller's promise; SSE2 is part of the architecture.
    unsafe {
        let (left, right) = (O::vector(load(left)), O::vector(load(right)));
        equal(_mm_and_si128(_mm_cmpeq_epi8(left, right), left), 0)
    }
}

/// Bytes of whole blocks, within one page of both, in which two texts are the same and do not end. They may be more than `limit`.
///
/// # Safety
/// As for [`compare_texts`].
#[inline(always)]
unsafe fn common_blocks<O: Order>(left: *const u8, right: *const u8, limit: usize) -> usize {
    let readable = in_page(left).min(in_page(right));
    let mut at = 0;
    while at < limit && at + BLOCK <= readable {
        let part = |i: usize| (left.wrapping_add(at + i * VECTOR), right.wrapping_add(at + i * VECTOR));
        // SAFETY: the first byte of each is one of its text, since none has ended before; both blocks lie in one page.
        if any(core::array::from_fn(|i| unsafe { ends::<O>(part(i).0, part(i).1) })) {
            break;
        }
        at += BLOCK;
    }
    at
}

/// Compares two texts, or their first `limit` bytes.
///
/// # Safety
/// As for [`compare_texts`].
#[inline(always)]
unsafe fn compare<O: Order>(a: *const u8, b: *const u8, limit: usize) -> i32 {
    let mut at = 0;
    while at < limit {
        let (left, right) = (a.wrapping_add(at), b.wrapping_add(at));
        if in_page(left).min(in_page(right)) >= VECTOR {
            // SAFETY: the first byte of each is one of its text, since none has ended before; both vectors lie in one page.
            let stop = bits(unsafe { ends::<O>(left, right) });
            if stop == 0 {
                at += VECTOR;
                // SAFETY: no text has ended before `at`.
                at += unsafe { common_blocks::<O>(a.wrapping_add(at), b.wrapping_add(at), limit.saturating_sub(at)) };
                continue;
            }
            at += stop.trailing_zeros() as usize;
            if at >= limit {
                return 0;
            }
        }
        // SAFETY: no text has ended before this byte, and it lies below the limit.
        let (left, right) = unsafe { (a.wrapping_add(at).read(), b.wrapping_add(at).read()) };
        let (left, right) = (O::byte(left), O::byte(right));
        if left != right || left == 0 {
            return i32::from(left) - i32::from(right);
        }
        at += 1;
    }
    0
}

/// Compares two texts, or their first `limit` bytes, as `strncmp`: negative, zero or positive by the first byte that differs.
///
/// # Safety
/// Both are readable up to and including their zero byte, up to the first byte that differs, or for `limit` bytes.
#[inline]
pub unsafe fn compare_texts(a: *const u8, b: *const u8, limit: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { compare::<Exact>(a, b, limit) }
}

/// The same, where capital letters of ASCII are as small ones.
///
/// # Safety
/// As for [`compare_texts`].
#[inline]
pub unsafe fn compare_texts_ignoring_case(a: *const u8, b: *const u8, limit: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { compare::<IgnoringCase>(a, b, limit) }
}
