//! Hashing, as in `std::hash`. The hash is foldhash, with a seed of its own for every instance: two copies of a function
//! do not share the order of their maps, nor can input be chosen to make one slow. It is foldhash's variant whose low bits are
//! as good as its high ones: of the faster variant, three seeds in a hundred crowd small numbers together.

pub use core::hash::*;

use crate::fmt;
use crate::sync::OnceLock;
use core::sync::atomic::{AtomicU64, Ordering};
use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

/// Makes the hashers of one map; each `RandomState` is different.
#[derive(Clone)]
pub struct RandomState {
    seed: u64,
    shared: &'static SharedSeed,
}

impl RandomState {
    /// A new state.
    pub fn new() -> RandomState {
        static SHARED: OnceLock<SharedSeed> = OnceLock::new();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let shared = SHARED.get_or_init(|| {
            let mut seed = [0; 8];
            crate::sys::shared_random(&mut seed);
            SharedSeed::from_u64(u64::from_ne_bytes(seed))
        });
        // The shared seed is the secret; this only makes maps differ from each other.
        let seed = NEXT.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        RandomState { seed, shared }
    }
}

impl Default for RandomState {
    fn default() -> RandomState {
        RandomState::new()
    }
}

impl BuildHasher for RandomState {
    type Hasher = DefaultHasher;

    #[inline]
    fn build_hasher(&self) -> DefaultHasher {
        DefaultHasher(FoldHasher::with_seed(self.seed, self.shared))
    }
}

impl fmt::Debug for RandomState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RandomState").finish_non_exhaustive()
    }
}

/// The hasher of [`RandomState`]. One made by `new` always gives the same hashes.
#[derive(Clone)]
pub struct DefaultHasher(FoldHasher<'static>);

impl DefaultHasher {
    /// A hasher with a fixed seed.
    pub fn new() -> DefaultHasher {
        DefaultHasher(FoldHasher::with_seed(0, SharedSeed::global_fixed()))
    }
}

impl Default for DefaultHasher {
    fn default() -> DefaultHasher {
        DefaultHasher::new()
    }
}

macro_rules! forward {
    ($($method:ident($type:ty))*) => { $(
        #[inline]
        fn $method(&mut self, value: $type) {
            self.0.$method(value);
        }
    )* };
}

impl Hasher for DefaultHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0.finish()
    }

    forward! {
        write(&[u8])
        write_u8(u8) write_u16(u16) write_u32(u32) write_u64(u64) write_u128(u128) write_usize(usize)
        write_i8(i8) write_i16(i16) write_i32(i32) write_i64(i64) write_i128(i128) write_isize(isize)
    }
}

impl fmt::Debug for DefaultHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefaultHasher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_differ_and_clones_agree() {
        let (a, b) = (RandomState::new(), RandomState::new());
        assert_ne!(a.hash_one("hull"), b.hash_one("hull"));
        assert_eq!(a.hash_one("hull"), a.clone().hash_one("hull"));
        assert_eq!(DefaultHasher::new().finish(), DefaultHasher::new().finish());
    }
}
