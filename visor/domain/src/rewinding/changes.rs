//! Pages that lead from a later state of a copy back to an earlier one.

use super::copy::{Copy, PageBytes};
use monohull_abi::layout::PAGE;
use std::collections::BTreeMap;
use std::io;

/// What pages held; `None` is zeros.
#[derive(Default)]
pub(super) struct Changes(BTreeMap<u64, Option<Box<PageBytes>>>);

impl Changes {
    /// Notes what a page held. What is known from an even earlier time stays.
    pub(super) fn note(&mut self, page: u64, bytes: &PageBytes) {
        self.0.entry(page).or_insert_with(|| (*bytes != [0; PAGE as usize]).then(|| Box::new(*bytes)));
    }

    /// Whether a page is noted.
    pub(super) fn has(&self, page: u64) -> bool {
        self.0.contains_key(&page)
    }

    /// Continues these with changes that lead further back.
    pub(super) fn then(&mut self, earlier: Changes) {
        self.0.extend(earlier.0);
    }

    /// Puts the pages back.
    pub(super) fn apply(&self, copy: &Copy) -> io::Result<()> {
        const ZEROS: PageBytes = [0; PAGE as usize];
        self.0.iter().try_for_each(|(page, bytes)| copy.write(*page, bytes.as_deref().unwrap_or(&ZEROS)))
    }

    /// Bytes that are charged for it: entries that are zeros take some too.
    pub(super) fn bytes(&self) -> u64 {
        self.0.len() as u64 * PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(changes: &Changes, page: u64) -> Option<u8> {
        changes.0[&page].as_deref().map(|bytes| bytes[0])
    }

    #[test]
    fn what_is_known_from_an_earlier_time_wins() {
        let full = |byte| [byte; PAGE as usize];
        let mut later = Changes::default();
        later.note(PAGE, &full(1));
        later.note(PAGE, &full(2));
        later.note(2 * PAGE, &full(3));
        assert_eq!((bytes(&later, PAGE), later.has(2 * PAGE), later.has(3 * PAGE)), (Some(1), true, false));
        let mut earlier = Changes::default();
        earlier.note(PAGE, &full(0));
        earlier.note(3 * PAGE, &full(4));
        later.then(earlier);
        assert_eq!([1, 2, 3].map(|page| bytes(&later, page * PAGE)), [None, Some(3), Some(4)]);
        assert_eq!(later.bytes(), 3 * PAGE);
    }
}
