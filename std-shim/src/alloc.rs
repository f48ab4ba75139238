//! Memory allocation by hand, as in `std::alloc`.

pub use alloc_crate::alloc::*;
