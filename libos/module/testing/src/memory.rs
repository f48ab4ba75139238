//! Make-believe user memory: pages in a map.

use monohull_abi::layout::PAGE;
use std::collections::BTreeMap;
use std::ops::Range;

const PAGE_BYTES: usize = PAGE as usize;

#[derive(Clone, Default)]
pub(crate) struct Memory {
    /// Start and end of what is mapped; ranges do not overlap.
    mapped: BTreeMap<u64, u64>,
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
}

impl Memory {
    /// Makes whole pages readable and writable.
    pub(crate) fn map(&mut self, address: u64, len: u64) {
        assert!(address.is_multiple_of(PAGE) && len.is_multiple_of(PAGE));
        self.mapped.insert(address, address + len);
    }

    /// Forgets the contents of whole pages, which stay mapped.
    pub(crate) fn discard(&mut self, address: u64, len: u64) {
        assert!(address.is_multiple_of(PAGE) && len.is_multiple_of(PAGE));
        assert!(self.is_mapped(address, len), "discarding what is not committed");
        let gone: Vec<u64> = self.pages.range(address..address + len).map(|(page, _)| *page).collect();
        for page in gone {
            self.pages.remove(&page);
        }
    }

    /// What was mapped there, and from there on, in one piece; nothing if nothing was.
    pub(crate) fn mapped_at(&self, address: u64) -> Range<u64> {
        address..self.mapped.get(&address).copied().unwrap_or(address)
    }

    pub(crate) fn pages_in(&self, range: Range<u64>) -> usize {
        self.pages.range(range).count()
    }

    /// Forgets the pages of a range that lie in none of these parts of it.
    pub(crate) fn keep_in(&mut self, range: Range<u64>, parts: &[(u64, u64)]) {
        self.pages.retain(|page, _| {
            !range.contains(page) || parts.iter().any(|(start, len)| page.wrapping_sub(*start) < *len)
        });
    }

    /// The same memory, with nothing mapped in a range.
    pub(crate) fn without(&self, range: Range<u64>) -> Memory {
        let mut rest = self.clone();
        rest.keep_in(range.clone(), &[]);
        rest.mapped.retain(|start, _| !range.contains(start));
        rest
    }

    /// Fills parts of it with the pages of another memory.
    pub(crate) fn copy_pages(&mut self, from: &Memory, parts: &[(u64, u64)]) {
        for (start, len) in parts {
            assert!(self.is_mapped(*start, *len), "what is live has been committed");
            let pages = from.pages.range(*start..start + len);
            self.pages.extend(pages.map(|(page, bytes)| (*page, bytes.clone())));
        }
    }

    /// False, and perhaps a part, if something in the range is not mapped.
    pub(crate) fn read(&mut self, address: u64, to: &mut [u8]) -> bool {
        self.pieces(address, to.len(), |page, piece, offset| {
            to[piece.clone()].copy_from_slice(&page[offset..offset + piece.len()]);
        })
    }

    /// False, and perhaps a part, if something in the range is not mapped.
    pub(crate) fn write(&mut self, address: u64, from: &[u8]) -> bool {
        self.pieces(address, from.len(), |page, piece, offset| {
            page[offset..offset + piece.len()].copy_from_slice(&from[piece]);
        })
    }

    fn pieces(
        &mut self,
        address: u64,
        len: usize,
        mut each: impl FnMut(&mut [u8; PAGE_BYTES], Range<usize>, usize),
    ) -> bool {
        let mut done = 0;
        while done < len {
            let at = address + done as u64;
            let offset = (at % PAGE) as usize;
            let step = (PAGE_BYTES - offset).min(len - done);
            if !self.is_mapped(at, step as u64) {
                return false;
            }
            let page = self.pages.entry(at - offset as u64).or_insert_with(|| Box::new([0; PAGE_BYTES]));
            each(page, done..done + step, offset);
            done += step;
        }
        true
    }

    fn is_mapped(&self, address: u64, len: u64) -> bool {
        let mut at = address;
        while at < address + len {
            match self.mapped.range(..=at).next_back() {
                Some((_, end)) if *end > at => at = *end,
                _ => return false,
            }
        }
        true
    }
}
