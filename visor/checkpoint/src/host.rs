//! What a checkpoint supposes of the host that it is restored on: the processor's features, and the layout.
//!
//! Compiled code, and libraries that look at the processor once when they start, go on with the instructions of the host
//! that a workflow started on. So a checkpoint fits a processor that has at least the features of that one.

use monohull_abi::layout::{ARENA_BASE, ARENA_SIZE, CELL_COUNT, CELL_SIZE, CELLS_BASE, INFO_BASE, PAGE};
use serde::{Deserialize, Serialize};

/// What a processor can do that functions may make use of: a bit for each of [`FEATURES`], 64 to a word.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Processor {
    /// The bits.
    pub words: Vec<u64>,
}

macro_rules! features {
    ($($name:tt)*) => {
        /// The features that are looked at, by their bit. New ones are appended: a bit never changes its meaning.
        pub const FEATURES: &[&str] = &[$($name),*];

        /// Whether this processor, under this kernel, has each of them.
        fn present() -> impl Iterator<Item = bool> {
            [$(std::arch::is_x86_feature_detected!($name)),*].into_iter()
        }
    };
}

features! {
    "sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "cmpxchg16b" "avx" "avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe" "xsave"
    "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl" "aes" "pclmulqdq" "rdrand" "rdseed" "adx" "sha" "sse4a" "tbm"
    "avx512ifma" "avx512vbmi" "avx512vpopcntdq" "avx512vbmi2" "gfni" "vaes" "vpclmulqdq" "avx512vnni" "avx512bitalg"
    "avx512bf16" "avx512vp2intersect" "fxsr" "xsaveopt" "xsaves" "xsavec" "avx512fp16" "avxvnni" "avxifma" "avxneconvert"
    "avxvnniint8" "avxvnniint16" "sha512" "sm3" "sm4"
}

/// The features of the levels that the x86-64 ABI names; each level has those before it.
const LEVELS: [(&str, &[&str]); 3] = [
    ("x86-64-v2", &["sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cmpxchg16b"]),
    ("x86-64-v3", &["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"]),
    ("x86-64-v4", &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]),
];

impl Processor {
    /// This host's.
    pub fn here() -> Processor {
        let mut words = vec![0; FEATURES.len().div_ceil(64)];
        for (bit, _) in present().enumerate().filter(|(_, present)| *present) {
            words[bit / 64] |= 1 << (bit % 64);
        }
        Processor { words }
    }

    /// Whether it has the feature with this bit.
    fn has(&self, bit: usize) -> bool {
        self.words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// The features that it has and `other` has not. A feature without a name here is called by its bit.
    pub fn missing_on(&self, other: &Processor) -> Vec<String> {
        let bits = (0..self.words.len() * 64).filter(|&bit| self.has(bit) && !other.has(bit));
        bits.map(|bit| FEATURES.get(bit).map_or_else(|| format!("feature {bit}"), |name| (*name).to_owned())).collect()
    }

    /// The names of its features.
    pub fn features(&self) -> Vec<String> {
        self.missing_on(&Processor { words: Vec::new() })
    }

    /// The highest level of the x86-64 ABI that it has.
    pub fn level(&self) -> &'static str {
        let has = |name: &&str| FEATURES.iter().position(|feature| feature == name).is_some_and(|bit| self.has(bit));
        let complete = LEVELS.iter().take_while(|(_, features)| features.iter().all(has));
        complete.last().map_or("x86-64", |(level, _)| level)
    }
}

/// The fixed addresses that a checkpoint's addresses suppose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are those of `monohull_abi::layout`")]
pub struct Layout {
    pub page: u64,
    pub info_base: u64,
    pub cells_base: u64,
    pub cell_size: u64,
    pub cell_count: u64,
    pub arena_base: u64,
    pub arena_size: u64,
}

impl Layout {
    /// This program's.
    pub const HERE: Layout = Layout {
        page: PAGE,
        info_base: INFO_BASE,
        cells_base: CELLS_BASE,
        cell_size: CELL_SIZE,
        cell_count: CELL_COUNT as u64,
        arena_base: ARENA_BASE,
        arena_size: ARENA_SIZE,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_processor_lacks_nothing_of_its_own() {
        let here = Processor::here();
        assert_eq!(here.missing_on(&here), [""; 0]);
        assert_eq!(here.features().len(), here.words.iter().map(|word| word.count_ones() as usize).sum::<usize>());
    }

    #[test]
    fn what_another_lacks_is_named_known_or_not() {
        let less = Processor { words: vec![0b101] };
        let more = Processor { words: vec![0b111, 1 << 6] };
        assert_eq!(more.missing_on(&less), ["ssse3", "feature 70"]);
        assert_eq!(less.missing_on(&more), [""; 0]);
    }

    #[test]
    fn levels_are_those_of_the_abi() {
        let of = |names: &[&str]| {
            let bits = names.iter().map(|name| FEATURES.iter().position(|feature| feature == name).expect("known"));
            Processor { words: vec![bits.fold(0, |word, bit| word | 1 << bit)] }.level()
        };
        assert_eq!(of(&[]), "x86-64");
        assert_eq!(of(LEVELS[0].1), "x86-64-v2");
        assert_eq!(of(&[LEVELS[0].1, LEVELS[1].1].concat()), "x86-64-v3");
        assert_eq!(of(&[LEVELS[1].1, LEVELS[2].1].concat()), "x86-64", "a level has those before it");
        assert_eq!(of(&[LEVELS[0].1, LEVELS[1].1, LEVELS[2].1].concat()), "x86-64-v4");
    }
}
