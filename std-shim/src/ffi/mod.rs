//! Strings for foreign interfaces, and those of the operating system.

pub mod os_str;

pub use alloc_crate::ffi::{CString, FromVecWithNulError, IntoStringError, NulError};
pub use core::ffi::*;
#[doc(inline)]
pub use os_str::{OsStr, OsString};
