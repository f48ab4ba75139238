//! The contract of Monohull: the only thing that functions, libos modules and the visor share.
//!
//! A function knows a hostcall by its *number*, never by an address; a libos module exports one symbol, its
//! [`module::ModuleTable`]; the visor offers modules its services as a [`module::Host`]. Everything here is plain
//! data with a C layout, so that either side can be replaced without the other, and numbers are never reused.
//!
//! ```text
//!   function (user partition)            visor (system partition)            libos module (shared object)
//!   ────────────────────────             ────────────────────────            ────────────────────────────
//!   number, args[6]  ── gate ──▶  Call ──▶ table[number] ─────────────────▶ Handler(state, &mut Call) -> Outcome
//!                                            ▲                                     │
//!                                            └────────── Host services ◀───────────┘
//! ```
//!
//! `docs/abi.md` is the same table in prose.
//!
//! ```
//! use monohull_abi::{Errno, Outcome, layout, number};
//!
//! // A hostcall is a number; the table names it and the module that serves it.
//! assert_eq!(number::name_of(number::FUTEX_WAIT), Some("FUTEX_WAIT"));
//! assert_eq!(number::module_of(number::FUTEX_WAIT), Some("core"));
//! // A result is one register: a value, or a negated error number.
//! assert_eq!(Errno::from_value(Errno::NotFound.to_value()), Err(Errno::NotFound));
//! assert_eq!(Errno::from_value(4096), Ok(4096));
//! assert_eq!(Outcome::error(Errno::NotFound).value, Errno::NotFound.to_value());
//! // Cells lie at fixed addresses.
//! assert_eq!(layout::cell_base(1) - layout::cell_base(0), layout::CELL_SIZE);
//! ```
#![no_std]

pub mod branch;
pub mod call;
pub mod callback;
pub mod child;
pub mod continuation;
pub mod effect;
pub mod errno;
pub mod event;
pub mod file;
pub mod handed;
pub mod layout;
pub mod module;
pub mod network;
pub mod number;
pub mod record;
mod services;
pub mod types;
pub mod user;

pub use call::{Call, Outcome};
pub use errno::Errno;

/// Version of everything in this crate. A module or an image built for another version is refused.
pub const ABI_VERSION: u32 = 1;
