//! Collections, as in `std::collections`. The hashed ones are `hashbrown`'s, as std's are.

pub mod hash_map;
pub mod hash_set;
mod reserve;

pub use alloc_crate::collections::*;
pub use core::ops::Bound;
#[doc(inline)]
pub use hash_map::HashMap;
#[doc(inline)]
pub use hash_set::HashSet;
