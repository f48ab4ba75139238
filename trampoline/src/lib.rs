//! The gates: every line of Monohull's assembly.
//!
//! Two halves, linked by different programs:
//!
//! * `user` (feature `user`) is part of every function image: how a function makes hostcalls, and where its threads begin.
//! * `system` (feature `system`) is part of the visor: how user code is entered, and the gates through which it returns.
//!
//! The user half also moves and searches bytes, because an image has no C library:
//!
//! ```
//! # #[cfg(feature = "user")]
//! # {
//! use monohull_trampoline::memory;
//!
//! let (from, mut to) = ([1_u8, 2, 3, 4], [0_u8; 4]);
//! // SAFETY: both arrays have four bytes, and they do not overlap.
//! unsafe { memory::copy(to.as_mut_ptr(), from.as_ptr(), 4) };
//! assert_eq!(to, from);
//! # }
//! ```
#![no_std]

#[cfg(feature = "user")]
pub mod ends;
#[cfg(feature = "user")]
pub mod memory;
#[cfg(feature = "user")]
pub mod search;
#[cfg(feature = "user")]
pub mod user;

#[cfg(feature = "system")]
pub mod system;
