//! Asynchronous tasks, as in `std::task`.

pub use alloc_crate::task::Wake;
pub use core::task::*;
