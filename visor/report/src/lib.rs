//! Failures, who is at fault, and reports for people.
//!
//! ```text
//!   failure   kinds of failures, who is at fault, places in code
//!   run       the report of a run, and its progress
//!   outgoing  events on their way to other invocations
//!   text      names in messages; what a misspelt one might have meant
//!   escape    text without characters that a terminal acts on
//! ```
//!
//! ```
//! use monohull_report::{Blame, Failure, FailureKind, escape, text};
//!
//! let failure = Failure::new(FailureKind::Panic, "index out of bounds");
//! assert_eq!(failure.blame, Blame::Function);
//! assert!(text::suggestion("stpes", ["steps", "slots"]).contains("`steps`"));
//! // No escape sequence of a file's name reaches the terminal.
//! assert!(!escape::shown("a\u{1b}[2J").to_string().contains('\u{1b}'));
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

pub mod escape;
pub mod failure;
mod outgoing;
mod run;
pub mod text;

pub use failure::{Blame, CodePlace, Failure, FailureKind};
pub use outgoing::{Outgoing, What, child_invocation, place_of};
pub use run::*;
