//! The names of slots that were taken last, for the message to one that waits for such a slot in vain: a slot has one taker, and a second step that takes
//! it too is a usual mistake.

use alloc::sync::Arc;

/// How many are remembered.
const COUNT: usize = 16;

/// The names, the oldest in the place of the next. They are in no checkpoint.
#[derive(Default)]
pub(crate) struct Recent {
    names: [Option<Arc<str>>; COUNT],
    next: usize,
}

impl Recent {
    /// Remembers a name.
    pub(crate) fn add(&mut self, name: Arc<str>) {
        self.names[self.next % COUNT] = Some(name);
        self.next = self.next.wrapping_add(1);
    }

    /// Whether a slot of this name was one of them.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.iter().flatten().any(|recent| **recent == *name)
    }
}
