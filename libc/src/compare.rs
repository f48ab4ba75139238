//! `memcmp` and `bcmp`: musl compares byte by byte, and every map with texts as keys compares.

/// Eight bytes, the first of which is the most significant.
///
/// # Safety
/// There are eight bytes at `at`.
#[inline]
unsafe fn word(at: *const u8) -> u64 {
    // SAFETY: the caller's promise.
    u64::from_be(unsafe { at.cast::<u64>().read_unaligned() })
}

/// C's `memcmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    const WORD: usize = size_of::<u64>();
    let order = |one: u64, other: u64| i32::from(one > other) - i32::from(one < other);
    let mut at = 0;
    while at + WORD <= count {
        // SAFETY: C's condition: `count` bytes at both, of which these are inside.
        let words = unsafe { (word(one.add(at)), word(other.add(at))) };
        if words.0 != words.1 {
            return order(words.0, words.1);
        }
        at += WORD;
    }
    if at == count {
        return 0;
    }
    if count >= WORD {
        // The last word overlaps with one that is equal.
        // SAFETY: as above.
        let words = unsafe { (word(one.add(count - WORD)), word(other.add(count - WORD))) };
        return order(words.0, words.1);
    }
    while at < count {
        // SAFETY: as above.
        let bytes = unsafe { (one.add(at).read(), other.add(at).read()) };
        if bytes.0 != bytes.1 {
            return i32::from(bytes.0) - i32::from(bytes.1);
        }
        at += 1;
    }
    0
}

/// What compilers call where only equality counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: the caller's promise is the same.
    unsafe { memcmp(one, other, count) }
}
