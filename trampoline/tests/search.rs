//! Searches that begin and end at the edges of what is mapped: they find what a byte by byte search finds, and read nothing of
//! the pages before and behind.

use monohull_trampoline::search::{compare_texts, compare_texts_ignoring_case, find, find_last, find_or_end, text_len};

/// What a search may look at: one page.
const PAGE: usize = 4096;

/// A page between two that cannot be read.
struct Guarded(*mut u8);

impl Guarded {
    fn new() -> Guarded {
        // SAFETY: a new mapping takes the place of no other memory.
        let all = unsafe {
            libc::mmap(std::ptr::null_mut(), 3 * PAGE, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        assert_ne!(all, libc::MAP_FAILED);
        let page = all.cast::<u8>().wrapping_add(PAGE);
        // SAFETY: the middle of the mapping.
        assert_eq!(unsafe { libc::mprotect(page.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE) }, 0);
        Guarded(page)
    }

    /// The last `len` bytes of the page.
    fn end(&mut self, len: usize) -> &mut [u8] {
        // SAFETY: the page is readable and writable and borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(PAGE - len), len) }
    }

    /// The whole page.
    fn all(&mut self) -> &mut [u8] {
        self.end(PAGE)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's.
        unsafe { libc::munmap(self.0.wrapping_sub(PAGE).cast(), 3 * PAGE) };
    }
}

/// All that take different ways: within the first block, up to a multiple of 64, beyond.
const LENGTHS: std::ops::Range<usize> = 0..210;

/// Places of a byte in an object of `len` bytes.
fn places(len: usize) -> impl Iterator<Item = usize> {
    (0..len).filter(move |at| at % 7 == 3 || *at < 2 || at + 2 >= len)
}

fn offset(found: Option<*const u8>, bytes: &[u8]) -> Option<usize> {
    found.map(|found| found.addr() - bytes.as_ptr().addr())
}

#[test]
fn a_byte_is_found_where_it_is_first_and_last() {
    let mut page = Guarded::new();
    page.all().fill(b'.');
    for len in LENGTHS {
        for start in [PAGE - len, 0, 5.min(PAGE - len)] {
            let all = page.all();
            // What lies around the object does not count.
            all.fill(b'x');
            let bytes = &mut all[start..start + len];
            bytes.fill(b'.');
            let both = |bytes: &[u8]| {
                // SAFETY: the object is readable.
                let found = unsafe { (find(bytes.as_ptr(), b'x', len), find_last(bytes.as_ptr(), b'x', len)) };
                (offset(found.0, bytes), offset(found.1, bytes))
            };
            assert_eq!(both(bytes), (None, None), "{len} at {start}");
            for at in places(len) {
                bytes[at] = b'x';
                assert_eq!(both(bytes), (Some(at), Some(at)), "{len} at {start}");
                // Another one behind it is the last.
                let later = len - 1 - (len - 1 - at) / 2;
                bytes[later] = b'x';
                assert_eq!(both(bytes), (Some(at), Some(later)), "{len} at {start}");
                bytes[at] = b'.';
                bytes[later] = b'.';
            }
        }
    }
}

#[test]
fn a_length_beyond_memory_ends_at_what_is_found() {
    let mut page = Guarded::new();
    for len in LENGTHS.skip(1) {
        let bytes = page.end(len);
        bytes.fill(0xff);
        bytes[len - 1] = 0;
        // SAFETY: the byte sought lies within what is readable.
        let found = unsafe { find(bytes.as_ptr(), 0, usize::MAX) };
        assert_eq!(offset(found, bytes), Some(len - 1));
    }
}

#[test]
fn a_text_ends_at_its_first_zero() {
    let mut page = Guarded::new();
    for len in LENGTHS {
        for start in [PAGE - len - 1, 0, 9] {
            let all = page.all();
            all.fill(0);
            let text = &mut all[start..=start + len];
            text[..len].fill(0x80);
            // SAFETY: the text ends with a zero byte.
            assert_eq!(unsafe { text_len(text.as_ptr()) }, len, "at {start}");
            // SAFETY: as above.
            let found = |text: &[u8], byte| offset(Some(unsafe { find_or_end(text.as_ptr(), byte) }), text);
            for byte in [0, 1, 0x7f, 0x81, 0xff] {
                assert_eq!(found(text, byte), Some(len), "{byte:#x} at {start}");
            }
            for at in places(len) {
                text[at] = 0xff;
                assert_eq!(found(text, 0xff), Some(at), "{len} at {start}");
                text[at] = 0x80;
            }
        }
    }
}

#[test]
fn texts_are_compared_at_every_alignment_and_up_to_a_limit() {
    let (mut one, mut other) = (Guarded::new(), Guarded::new());
    for len in LENGTHS {
        for gap in [0, 1, 15, 16, 17, 40] {
            // The first ends at the end of its page, the second some bytes before.
            let a = one.end(len + 1);
            let b = other.end(len + 1 + gap);
            a.fill(b'a');
            b.fill(b'a');
            a[len] = 0;
            b[len] = 0;
            // SAFETY: both texts end with a zero byte.
            let order = |a: &[u8], b: &[u8], limit| unsafe { compare_texts(a.as_ptr(), b.as_ptr(), limit) }.signum();
            assert_eq!(order(a, b, usize::MAX), 0, "{len}, {gap}");
            for at in places(len) {
                for byte in [0, b'b', 0xff] {
                    b[at] = byte;
                    let expected = b'a'.cmp(&byte) as i32;
                    assert_eq!(order(a, b, usize::MAX), expected, "{len}, {gap}, {at}");
                    assert_eq!(order(b, a, usize::MAX), -expected, "{len}, {gap}, {at}");
                    assert_eq!(order(a, b, at + 1), expected, "{len}, {gap}, {at}");
                    assert_eq!(order(a, b, at), 0, "{len}, {gap}, {at}: the limit lies before the difference");
                    b[at] = b'a';
                }
            }
        }
    }
}

/// Every byte against every other, at places that are compared together and one by one.
#[test]
fn letters_of_ascii_and_no_others_have_two_cases() {
    let (mut one, mut other) = (Guarded::new(), Guarded::new());
    for (before, behind) in [(0, 0), (3, 40), (70, 0), (20, 100)] {
        let len = before + 1 + behind;
        let a = one.end(len + 1);
        let b = other.end(len + 1);
        let fill = |text: &mut [u8], letter| {
            text[..len].fill(letter);
            text[len] = 0;
        };
        fill(a, b'q');
        fill(b, b'Q');
        for left in 1..=255_u8 {
            for right in 1..=255_u8 {
                (a[before], b[before]) = (left, right);
                // SAFETY: both texts end with a zero byte.
                let order = unsafe { compare_texts_ignoring_case(a.as_ptr(), b.as_ptr(), usize::MAX) }.signum();
                let expected = left.to_ascii_lowercase().cmp(&right.to_ascii_lowercase()) as i32;
                assert_eq!(order, expected, "{left:#x} and {right:#x} behind {before}");
            }
        }
        // SAFETY: as above.
        assert_eq!(unsafe { compare_texts_ignoring_case(a.as_ptr(), b.as_ptr(), before) }, 0);
    }
}
