//! `core::arch`, and which instructions the processor has ([`is_x86_feature_detected!`](crate::is_x86_feature_detected)).
//!
//! The system has asked the processor (CPUID). Instructions on wide registers also need a kernel that saves these registers; XGETBV shows
//! which it saves.

pub use core::arch::*;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::types::CPUID_LEAVES as LEAVES;

use crate::sys;

#[doc(inline)]
pub use crate::is_x86_feature_detected;

/// Registers that the kernel has to save for a feature: bits of XCR0.
const NOTHING: u64 = 0;
const YMM: u64 = 0b110;
const ZMM: u64 = 0b1110_0110;

/// Registers in which CPUID answers.
const EAX: usize = 0;
const EBX: usize = 1;
const ECX: usize = 2;
const EDX: usize = 3;

/// Name, leaf and subleaf, register and bit, what the kernel saves. The order is that of the bits in [`FOUND`].
const FEATURES: [(&str, u32, u32, usize, u32, u64); 49] = [
    ("sse", 1, 0, EDX, 25, NOTHING),
    ("sse2", 1, 0, EDX, 26, NOTHING),
    ("sse3", 1, 0, ECX, 0, NOTHING),
    ("pclmulqdq", 1, 0, ECX, 1, NOTHING),
    ("ssse3", 1, 0, ECX, 9, NOTHING),
    ("fma", 1, 0, ECX, 12, YMM),
    ("cmpxchg16b", 1, 0, ECX, 13, NOTHING),
    ("sse4.1", 1, 0, ECX, 19, NOTHING),
    ("sse4.2", 1, 0, ECX, 20, NOTHING),
    ("movbe", 1, 0, ECX, 22, NOTHING),
    ("popcnt", 1, 0, ECX, 23, NOTHING),
    ("aes", 1, 0, ECX, 25, NOTHING),
    ("xsave", 1, 0, ECX, 27, NOTHING),
    ("avx", 1, 0, ECX, 28, YMM),
    ("f16c", 1, 0, ECX, 29, YMM),
    ("rdrand", 1, 0, ECX, 30, NOTHING),
    ("fxsr", 1, 0, EDX, 24, NOTHING),
    ("mmx", 1, 0, EDX, 23, NOTHING),
    ("tsc", 1, 0, EDX, 4, NOTHING),
    ("bmi1", 7, 0, EBX, 3, NOTHING),
    ("avx2", 7, 0, EBX, 5, YMM),
    ("bmi2", 7, 0, EBX, 8, NOTHING),
    ("ermsb", 7, 0, EBX, 9, NOTHING),
    ("rtm", 7, 0, EBX, 11, NOTHING),
    ("avx512f", 7, 0, EBX, 16, ZMM),
    ("avx512dq", 7, 0, EBX, 17, ZMM),
    ("rdseed", 7, 0, EBX, 18, NOTHING),
    ("adx", 7, 0, EBX, 19, NOTHING),
    ("avx512ifma", 7, 0, EBX, 21, ZMM),
    ("avx512cd", 7, 0, EBX, 28, ZMM),
    ("sha", 7, 0, EBX, 29, NOTHING),
    ("avx512bw", 7, 0, EBX, 30, ZMM),
    ("avx512vl", 7, 0, EBX, 31, ZMM),
    ("avx512vbmi", 7, 0, ECX, 1, ZMM),
    ("avx512vbmi2", 7, 0, ECX, 6, ZMM),
    ("gfni", 7, 0, ECX, 8, NOTHING),
    ("vaes", 7, 0, ECX, 9, YMM),
    ("vpclmulqdq", 7, 0, ECX, 10, YMM),
    ("avx512vnni", 7, 0, ECX, 11, ZMM),
    ("avx512bitalg", 7, 0, ECX, 12, ZMM),
    ("avx512vpopcntdq", 7, 0, ECX, 14, ZMM),
    ("avx512vp2intersect", 7, 0, EDX, 8, ZMM),
    ("avxvnni", 7, 1, EAX, 4, YMM),
    ("avx512bf16", 7, 1, EAX, 5, ZMM),
    ("avx512fp16", 7, 0, EDX, 23, ZMM),
    ("xsavec", 0xd, 1, EAX, 1, NOTHING),
    ("lzcnt", 0x8000_0001, 0, ECX, 5, NOTHING),
    ("sse4a", 0x8000_0001, 0, ECX, 6, NOTHING),
    ("tbm", 0x8000_0001, 0, ECX, 21, NOTHING),
];

/// The kernel has enabled XSAVE, as the first leaf says in ECX.
const OSXSAVE: u32 = 1 << 27;
/// The same among the features.
const XSAVE: usize = feature("xsave");

/// One bit per feature, and above these one per leaf, once it has been asked for.
static FOUND: AtomicU64 = AtomicU64::new(0);
const _: () = assert!(FEATURES.len() + LEAVES.len() <= u64::BITS as usize);

/// The index of a feature in the list. An unknown name does not compile.
#[doc(hidden)]
pub const fn feature(name: &str) -> usize {
    let mut index = 0;
    while index < FEATURES.len() {
        if equal(FEATURES[index].0, name) {
            return index;
        }
        index += 1;
    }
    panic!("no feature of x86-64 processors has this name")
}

const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

/// Whether the processor has the feature at this place of the list.
#[doc(hidden)]
pub fn has(feature: usize) -> bool {
    let (_, leaf, subleaf, ..) = FEATURES[feature];
    let place = LEAVES.iter().position(|known| *known == (leaf, subleaf)).expect("the list has each feature's");
    // The first leaf says for all others whether the kernel saves registers.
    let first = found_in(0, false);
    let found = if place == 0 { first } else { found_in(place, first >> XSAVE & 1 == 1) };
    found >> feature & 1 == 1
}

/// What has been found, in this leaf too.
fn found_in(place: usize, has_xsave: bool) -> u64 {
    let found = FOUND.load(Ordering::Relaxed);
    let asked = 1 << (FEATURES.len() + place);
    if found & asked != 0 {
        return found;
    }
    let found = asked | ask(place, has_xsave);
    FOUND.fetch_or(found, Ordering::Relaxed) | found
}

/// The features of a leaf that the processor has. `has_xsave` is what the first leaf has said, if this is another one.
fn ask(place: usize, has_xsave: bool) -> u64 {
    let said = [EAX, EBX, ECX, EDX].map(|register| sys::cpuid(place, register));
    let has_xsave = has_xsave || place == 0 && said[ECX] & OSXSAVE != 0;
    let saved = if has_xsave { saved() } else { 0 };
    let mut found = 0;
    for (index, &(_, in_leaf, in_subleaf, register, bit, needed)) in FEATURES.iter().enumerate() {
        let is_here = (in_leaf, in_subleaf) == LEAVES[place];
        if is_here && said[register] >> bit & 1 == 1 && saved & needed == needed {
            found |= 1 << index;
        }
    }
    found
}

/// The registers that the kernel saves (XCR0).
fn saved() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller has seen OSXSAVE, so the instruction is available in user mode; it reads a register that always exists.
    unsafe {
        core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Whether the processor has a feature, and the kernel saves the registers it needs. As in std, a literal that names no feature does
/// not compile.
#[macro_export]
macro_rules! is_x86_feature_detected {
    ($feature:tt $(,)?) => {{
        const FEATURE: usize = $crate::arch::feature($feature);
        $crate::arch::has(FEATURE)
    }};
}

#[cfg(test)]
mod tests {
    /// The host's std has asked the same processor.
    #[test]
    fn the_processor_says_the_same_as_to_std() {
        macro_rules! compare {
            ($($feature:tt)*) => { $(
                let ours = crate::is_x86_feature_detected!($feature);
                assert_eq!(ours, host_std::arch::is_x86_feature_detected!($feature), $feature);
            )* };
        }
        compare!("sse" "sse2" "sse3" "pclmulqdq" "ssse3" "fma" "sse4.1" "sse4.2" "movbe" "popcnt" "aes" "xsave" "avx" "f16c");
        compare!("cmpxchg16b" "rdrand" "fxsr" "bmi1" "avx2" "bmi2" "avx512f" "avx512dq" "rdseed" "adx" "avx512ifma" "avx512cd" "sha");
        compare!("avx512bw" "avx512vl" "avx512vbmi" "avx512vbmi2" "gfni" "vaes" "vpclmulqdq" "avx512vnni" "avx512bitalg");
        compare!("avx512vpopcntdq" "avx512bf16" "lzcnt" "sse4a" "tbm" "xsavec" "tsc" "rtm" "avxvnni");
    }
}
