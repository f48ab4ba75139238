//! What a function has that an ordinary program does not: [slots](slot), its [instance](mod@instance), the arguments of its step by name,
//! [permanent errors](Permanent), [waits for events and times](durable), [going back](continuation), and [effects](effect) that other
//! steps handle.
//!
//! The crate works over either std, because it needs neither: memory comes from the global allocator, everything else is
//! hostcalls.
//!
//! ```text
//!   function on Rust's own std          function on monohull-std          program in C
//!   monohull, feature `std`             (re-exports all of this)          monohull.h, feature `c`
//!          │                                     │                               │
//!          └──────────────── monohull: slots, instance, arguments ───────────────┘
//!                                                │ monohull_trampoline::user::hostcall
//! ```
//!
//! A function on Rust's own std:
//!
//! ```no_run
//! use monohull::slot::{SlotString, SlotVec};
//! # #[cfg(feature = "std")]
//! # mod function {
//! # use super::*;
//!
//! #[monohull::main]
//! fn main(pattern: String, most: Option<usize>) -> Result<(), Box<dyn std::error::Error>> {
//!     let text = SlotString::from_slot("text")?;
//!     let mut places = SlotVec::<u64>::with_slot("places");
//!     places.extend(text.match_indices(&*pattern).map(|(at, _)| at as u64).take(most.unwrap_or(usize::MAX)));
//!     Ok(())
//! }
//! # }
//! # fn main() {}
//! ```
#![no_std]
#![deny(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;
// What `#[derive(SlotData)]` calls this crate.
#[cfg(test)]
extern crate self as monohull;

#[cfg(any(feature = "alloc", feature = "c"))]
mod alone;
#[cfg(feature = "alloc")]
mod arguments;
#[cfg(any(feature = "alloc", feature = "c"))]
mod backoff;
#[cfg(any(feature = "alloc", feature = "c"))]
mod branch;
#[cfg(feature = "c")]
#[allow(unsafe_code, reason = "functions for C, which passes pointers")]
pub mod c;
#[cfg(feature = "alloc")]
pub mod continuation;
#[cfg(feature = "alloc")]
pub mod durable;
#[cfg(feature = "alloc")]
pub mod effect;
#[cfg(feature = "alloc")]
#[allow(unsafe_code, reason = "the address of a function lies in an atomic")]
mod end;
#[cfg(feature = "alloc")]
mod instance;
#[cfg(feature = "alloc")]
mod one_shot;
#[cfg(feature = "alloc")]
mod permanent;
#[cfg(feature = "std")]
mod real_std;
#[cfg(feature = "alloc")]
#[doc(hidden)]
pub mod rt;
#[cfg(any(feature = "alloc", feature = "c"))]
mod send;
#[cfg(feature = "alloc")]
pub mod slot;
mod sys;

#[cfg(feature = "alloc")]
pub use arguments::{ArgError, arg, try_arg};
#[cfg(feature = "alloc")]
pub use instance::{Fork, Instance, fork, generation, instance, ready};
pub use monohull_abi::Errno;
#[cfg(feature = "std")]
pub use monohull_macros::main_of_std as main;
#[cfg(feature = "alloc")]
pub use permanent::Permanent;
