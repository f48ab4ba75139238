//! A fast filter for the few offsets that need a full check.
//!
//! Two neighbouring bytes almost always rule out that a sequence begins at the first of them. The test is written without
//! branches over a block of bytes, which the compiler turns into vector instructions; only where a mark is left is
//! the memory looked at byte by byte.
//!
//! ```text
//!   block     48 89 e5 0f 05 c3 …  48        64 bytes, and one more to pair the last with
//!   marks      0  0  0  1  0  0 …            one byte each, read as eight words; most of them are zero
//! ```

use std::marker::PhantomData;

/// Bytes tested at a time.
const BLOCK: usize = 64;
/// Marks per word.
const LANES: usize = size_of::<u64>();

/// Whether two neighbouring bytes may be the beginning of a forbidden sequence. Written with operators
/// without short cuts, so that there is nothing to branch on.
pub(crate) trait Filter {
    fn may_begin(first: u8, second: u8) -> bool;
}

/// Indices into a piece of memory at which a sequence may begin, in ascending order. Every real one is among them.
pub(crate) struct Candidates<'a, F> {
    memory: &'a [u8],
    filter: PhantomData<F>,
    /// Index of the current block's first byte.
    block: usize,
    /// Marks of the current block.
    words: [u64; BLOCK / LANES],
    /// The word that is being read.
    word: usize,
}

impl<'a, F: Filter> Candidates<'a, F> {
    pub(crate) fn new(memory: &'a [u8]) -> Candidates<'a, F> {
        let filter = PhantomData;
        let mut candidates = Candidates { memory, filter, block: 0, words: [0; BLOCK / LANES], word: 0 };
        candidates.look(0);
        candidates
    }

    /// Marks the block that begins at `start`.
    fn look(&mut self, start: usize) {
        self.block = start;
        self.word = 0;
        self.words = match self.memory[start..].first_chunk() {
            Some(block) => marks::<F>(block),
            None => {
                // The end of the memory. What is filled in can add candidates, but no findings.
                let rest = &self.memory[start..];
                let mut block = [0; BLOCK + 1];
                block[..rest.len()].copy_from_slice(rest);
                marks::<F>(&block)
            }
        };
    }
}

impl<F: Filter> Iterator for Candidates<'_, F> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        loop {
            while let Some(word) = self.words.get_mut(self.word) {
                if *word != 0 {
                    let lane = word.trailing_zeros() as usize / 8;
                    *word &= *word - 1;
                    return Some(self.block + self.word * LANES + lane).filter(|&index| index < self.memory.len());
                }
                self.word += 1;
            }
            let next = self.block + BLOCK;
            if next >= self.memory.len() {
                return None;
            }
            self.look(next);
        }
    }
}

/// One mark (a byte of value 1) for each of the first 64 bytes at which something may begin.
fn marks<F: Filter>(block: &[u8; BLOCK + 1]) -> [u64; BLOCK / LANES] {
    let mut marks = [0u8; BLOCK];
    for (index, mark) in marks.iter_mut().enumerate() {
        *mark = u8::from(F::may_begin(block[index], block[index + 1]));
    }
    let mut words = [0; BLOCK / LANES];
    for (word, bytes) in words.iter_mut().zip(marks.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// Everything that is looked for.
pub(crate) struct Everything;

impl Filter for Everything {
    #[inline(always)]
    fn may_begin(first: u8, second: u8) -> bool {
        // `01`, `05`, `34`, `a1`, `a9`, `ae`, `b2`, `b4`, `b5`, `c7`
        let opcode = (second | 0x04 == 0x05)
            | (second == 0x34)
            | (second | 0x08 == 0xa9)
            | (second == 0xae)
            | (second == 0xb2)
            | (second | 0x01 == 0xb5)
            | (second == 0xc7);
        // /3 and /5 in memory
        let far = ((second & 0x38 == 0x18) | (second & 0x38 == 0x28)) & (second < 0xc0);
        // `ca` and `cb`; `cd` and `cf`
        let alone = (first | 0x01 == 0xcb) | (first | 0x02 == 0xcf);
        let escaped = ((first == 0x0f) & opcode) | ((first == 0xd5) & (second >= 0x80));
        escaped | alone | ((first == 0xff) & far) | (first == 0x8e)
    }
}

/// What a file is refused for.
pub(crate) struct Refused;

impl Filter for Refused {
    #[inline(always)]
    fn may_begin(first: u8, second: u8) -> bool {
        let opcode = (second == 0x01) | (second == 0xae);
        ((first == 0x0f) & opcode) | ((first == 0xd5) & (second >= 0x80))
    }
}
