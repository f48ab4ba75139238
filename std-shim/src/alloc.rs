//! Memory allocation by hand, as in `std::alloc`.

pub use alloc_crate::alloc::*;

/// The heap of the function, under std's name for the allocator that is there when a program brings none.
pub use crate::rt::Heap as System;
