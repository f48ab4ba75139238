//! The gates: every line of Monohull's assembly.
//!
//! Two halves, linked by different programs:
//!
//! * `user` (feature `user`) is part of every function image: how a function makes hostcalls, and where its threads begin.
//! * `system` (feature `system`) is part of the visor: how user code is entered, and the gates through which it returns.
#![no_std]

#[cfg(feature = "user")]
pub mod memory;
#[cfg(feature = "user")]
pub mod user;

#[cfg(feature = "system")]
pub mod system;
