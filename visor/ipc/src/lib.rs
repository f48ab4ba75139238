//! Messages between the processes of Monohull.
//!
//! ```text
//!   packets   one message per packet over a SEQPACKET socket, with a descriptor attached
//!   sealed    memory whose content the receiver can rely on
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

pub mod packets;
pub mod sealed;
