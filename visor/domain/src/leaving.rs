//! What is left to do for an instance that has ended, as the scheduler queues it between steps; see [`lifecycle`](super::lifecycle).

use monohull_report::Failure;

/// What is left to do for an instance that has ended.
pub(super) enum Leaving {
    /// The threads of this instance are being taken off the table.
    Threads(u32),
    /// It has no threads any more, and what it holds is being reclaimed.
    Holdings(Holdings),
}

/// An instance without threads.
pub(super) struct Holdings {
    pub(super) id: u32,
    pub(super) result: Result<(), Box<Failure>>,
    /// Ticks that its threads ran, and that its main thread was parked.
    pub(super) run: u64,
    pub(super) park: u64,
    pub(super) modules: ReleaseProgress,
    /// Bytes of its cell that have been freed, in the order of [`Cell::free_some`](super::cell::Cell::free_some).
    pub(super) freed: u64,
}

/// How far the modules are with the end of an instance.
#[derive(Debug, Default)]
pub(super) struct ReleaseProgress {
    /// The module whose turn it is.
    pub(super) next: usize,
    pub(super) inputs_lost: bool,
}

impl ReleaseProgress {
    /// Whether the instance's inputs are intact, once nothing is left.
    pub(super) fn inputs_intact(&self) -> bool {
        !self.inputs_lost
    }
}
