//! What a program has in scope without asking.
//!
//! `use monohull_std::prelude::*` is the first line of a function: std's prelude and macros, float maths, and this crate
//! under the names `std` and `monohull`. The modules `v1` and `rust_20xx` have std's names because the compiler looks
//! for them when the dependency is renamed to `std`.

pub use self::v1::*;
pub use crate as monohull;
pub use crate as std;

/// std's prelude of every edition.
pub mod v1 {
    pub use crate::float::{F32Maths as _, F64Maths as _};
    pub use crate::{dbg, eprint, eprintln, print, println, thread_local};
    pub use alloc_crate::borrow::ToOwned;
    pub use alloc_crate::boxed::Box;
    pub use alloc_crate::string::{String, ToString};
    pub use alloc_crate::vec::Vec;
    pub use alloc_crate::{format, vec};
    pub use core::prelude::v1::*;
}

/// The prelude of edition 2015.
pub mod rust_2015 {
    pub use super::v1::*;
}

/// The prelude of edition 2018.
pub mod rust_2018 {
    pub use super::v1::*;
}

/// The prelude of edition 2021.
pub mod rust_2021 {
    pub use super::v1::*;
    pub use core::prelude::rust_2021::*;
}

/// The prelude of edition 2024.
pub mod rust_2024 {
    pub use super::v1::*;
    pub use core::prelude::rust_2024::*;
}
