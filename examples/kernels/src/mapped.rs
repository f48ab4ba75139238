//! Ways to go over a mapped file, page by page: what the function and the plain program share.

/// Bytes in a page.
const PAGE: usize = 4096;

/// A way to go over it. It begins with a new mapping, of which no page has been touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sweep {
    /// One byte of each page, in order.
    Touch,
    /// One byte of each page, in no order.
    Random,
    /// One byte of every 64th page, in no order: most of it is never looked at.
    Sparse,
    /// All bytes, in order.
    Read,
}

impl Sweep {
    /// All that are measured.
    pub const ALL: [Sweep; 4] = [Sweep::Touch, Sweep::Random, Sweep::Sparse, Sweep::Read];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Sweep::Touch => "touch sequential",
            Sweep::Random => "touch random",
            Sweep::Sparse => "touch one in 64, random",
            Sweep::Read => "read sequential",
        }
    }

    /// Pages that are looked at.
    pub const fn pages(self, bytes: usize) -> usize {
        match self {
            Sweep::Sparse => bytes / PAGE / 64,
            _ => bytes / PAGE,
        }
    }

    /// Goes over it: a number that depends on what was there.
    pub fn run(self, bytes: &[u8]) -> u64 {
        let pages = bytes.len() / PAGE;
        // An odd factor modulo a power of two: every page once, far from the one before.
        let place = |step: usize| step.wrapping_mul(0x9e37_79b1) % pages * PAGE;
        match self {
            Sweep::Touch => bytes.iter().step_by(PAGE).map(|byte| u64::from(*byte)).sum(),
            Sweep::Random => (0..pages).map(|step| u64::from(bytes[place(step)])).sum(),
            Sweep::Sparse => (0..pages / 64).map(|step| u64::from(bytes[place(step)])).sum(),
            Sweep::Read => {
                let words = bytes.chunks_exact(8);
                words.fold(0, |sum, word| u64::wrapping_add(sum, u64::from_ne_bytes(word.try_into().unwrap_or([0; 8]))))
            }
        }
    }
}
