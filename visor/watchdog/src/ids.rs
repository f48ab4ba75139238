//! Random identifiers, and bytes in hexadecimal.

use std::cell::RefCell;

/// A unique name: 128 random bits in hexadecimal.
pub(crate) fn random_id() -> String {
    hex(&random::<16>())
}

/// Random bytes of the kernel's, of which a thread fetches many at once: an invocation has several ids.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    thread_local! {
        static POOL: RefCell<Pool> = const { RefCell::new(Pool { bytes: [0; Pool::SIZE], used: Pool::SIZE }) };
    }
    POOL.with_borrow_mut(Pool::take)
}

/// Random bytes that have not been given to anything yet. This process makes no fork that goes on with them.
struct Pool {
    bytes: [u8; Pool::SIZE],
    used: usize,
}

impl Pool {
    const SIZE: usize = 512;

    fn take<const N: usize>(&mut self) -> [u8; N] {
        const { assert!(N <= Pool::SIZE) };
        if self.used + N > Pool::SIZE {
            // Linux has had the system call for ten years, and it does not fail once the machine is up.
            getrandom::fill(&mut self.bytes).expect("the kernel has random numbers");
            self.used = 0;
        }
        let from = &mut self.bytes[self.used..self.used + N];
        self.used += N;
        let mut taken = [0; N];
        // What was given away is not kept here.
        taken.swap_with_slice(from);
        taken
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Whether a text has lower-case hexadecimal digits only.
pub(crate) fn lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_of_their_form_and_differ_on_all_threads() {
        let make = || (0..1000).map(|_| random_id()).collect::<Vec<_>>();
        let others: Vec<_> = (0..3).map(|_| std::thread::spawn(make)).collect();
        let mut all = make();
        all.extend(others.into_iter().flat_map(|other| other.join().expect("it ends")));
        assert!(all.iter().all(|id| id.len() == 32 && lower_hex(id)), "{all:?}");
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 4000);
        assert_eq!(hex(&[0, 0x0f, 0xa0, 0xff]), "000fa0ff");
    }

    #[test]
    fn what_was_taken_is_not_kept() {
        let mut pool = Pool { bytes: [0; Pool::SIZE], used: Pool::SIZE };
        let first: [u8; 16] = pool.take();
        assert_ne!(first, [0; 16]);
        assert_eq!(pool.bytes[..16], [0; 16]);
        assert_ne!(pool.take::<16>(), first);
    }
}
