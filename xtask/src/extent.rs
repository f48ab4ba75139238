//! How much of the suite a command runs.

/// How much of the suite runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// Every test once: natively, and of those with keys that both kernels can run, each under one of them.
    Sampled,
    /// Every test wherever it can run, those of Python programs too.
    Full,
}

impl Extent {
    /// Of a command with or without `--full`.
    pub(crate) fn new(full: bool) -> Extent {
        if full { Extent::Full } else { Extent::Sampled }
    }
}
