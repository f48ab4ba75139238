//! How many cases a test goes through that has many of one kind.
#![allow(dead_code, reason = "each test program uses a part")]

/// Is set where tests go through all of them: `cargo xtask test --full`.
const EXHAUSTIVE: &str = "MONOHULL_EXHAUSTIVE";

/// Whether it is set.
pub(crate) fn is_exhaustive() -> bool {
    std::env::var_os(EXHAUSTIVE).is_some()
}

/// So many of all.
pub(crate) fn some_of<N>(some: N, all: N) -> N {
    if is_exhaustive() { all } else { some }
}
