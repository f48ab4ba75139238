//! Hashes of pages, by which a capture finds what has changed since the one before.
//!
//! The function is NH (RFC 4418) with words of 64 bits: the sum of (m₀ + k₀)(m₁ + k₁), (m₂ + k₂)(m₃ + k₃), … modulo 2¹²⁸. Two pages that
//! differ have the same hash with a probability of 2⁻⁶⁴ at most, also for pages that an attacker chose, as long as the key is random and not known. It takes one
//! multiplication for sixteen bytes, so a page costs about what reading it costs; SHA-256 would take longer than copying the page.
//!
//! The hashes serve one process and leave it neither in a file nor in a message. Files have SHA-256.

use monohull_abi::layout::PAGE;
use std::io;

/// Words of a page.
const WORDS: usize = PAGE as usize / 8;
/// Bytes that `getrandom(2)` gives whole.
const AT_ONCE: usize = 256;

/// The key of the hashes.
pub(super) struct PageHasher {
    key: Box<[u64; WORDS]>,
}

impl PageHasher {
    /// With a random key.
    pub(super) fn new() -> io::Result<PageHasher> {
        let mut bytes = vec![0u8; PAGE as usize];
        for piece in bytes.chunks_mut(AT_ONCE) {
            // SAFETY: the piece is writable for its length.
            let got = unsafe { libc::getrandom(piece.as_mut_ptr().cast(), piece.len(), 0) };
            if usize::try_from(got) != Ok(piece.len()) {
                return Err(io::Error::last_os_error());
            }
        }
        let mut key = Box::new([0; WORDS]);
        key.iter_mut().zip(words(&bytes)).for_each(|(key, word)| *key = word);
        Ok(PageHasher { key })
    }

    /// The hash of a page.
    pub(super) fn of(&self, page: &[u8]) -> u128 {
        let words: &[[u8; 8]; WORDS] = page.as_chunks().0.try_into().expect("a page");
        let word = |i: usize| u64::from_le_bytes(words[i]).wrapping_add(self.key[i]);
        // A plain loop, as tests are compiled without optimization.
        let (mut sum, mut i) = (0u128, 0);
        while i < WORDS {
            sum = sum.wrapping_add(u128::from(word(i)) * u128::from(word(i + 1)));
            i += 2;
        }
        sum
    }
}

/// The words of some bytes.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, word by word.
    fn defined(key: &[u64], page: &[u8]) -> u128 {
        let message: Vec<u64> = words(page).collect();
        let mut sum = 0u128;
        for i in (0..WORDS).step_by(2) {
            let (one, other) = (message[i].wrapping_add(key[i]), message[i + 1].wrapping_add(key[i + 1]));
            sum = sum.wrapping_add(u128::from(one) * u128::from(other));
        }
        sum
    }

    #[test]
    fn the_hash_is_as_it_is_defined() {
        let hasher = PageHasher::new().expect("random bytes");
        let page: Vec<u8> = (0..PAGE).map(|at| (at * at % 251) as u8).collect();
        assert_eq!(hasher.of(&page), defined(&*hasher.key, &page));
    }

    /// Each bit of a page, and each two bits that lie apart.
    #[test]
    fn no_changed_bit_goes_unseen() {
        let hasher = PageHasher::new().expect("random bytes");
        let mut page: Vec<u8> = (0..PAGE).map(|at| (at % 7 * 31) as u8).collect();
        let before = hasher.of(&page);
        for bit in 0..page.len() * 8 {
            page[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(hasher.of(&page), before, "bit {bit}");
            let other = (bit / 8 + 1 + bit * 7 % (page.len() - 1)) % page.len();
            page[other] ^= 0x80;
            assert_ne!(hasher.of(&page), before, "bit {bit} and byte {other}");
            page[other] ^= 0x80;
            page[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(hasher.of(&page), before);
        assert_ne!(PageHasher::new().expect("random bytes").of(&page), before, "another key");
    }
}
