//! One-shot continuations: a thread that waits, and the buffer with which something else lets it go on.
//!
//! ```text
//!   one      CONTINUATION ─▶ buffer ── SLOT_PUBLISH "next" ──▶ slot        SLOT_TAKE of "\0k" ID: waits ◀─┐
//!   another                                   SLOT_TAKE "next" ─▶ buffer ── RESUME, with bytes ───────────┘
//! ```
//!
//! What makes the buffer a continuation is a mark in the module that has the buffers, and nothing in the buffer. So it goes with the
//! buffer from owner to owner, and no bytes and no number that a function makes up are one. It is used once: `RESUME` frees the buffer.

use crate::types::fingerprint;

/// The name of the type as which continuations are published.
pub const CONTINUATION_NAME: &str = "continuation";
/// Its fingerprint.
pub const CONTINUATION_FINGERPRINT: u64 = fingerprint(CONTINUATION_NAME.as_bytes());
/// Most continuations of one instance that have not been used, or whose bytes it has not taken.
pub const CONTINUATIONS_MAX: usize = 64;
/// Longest name of the instance that waits, in bytes.
pub const WAITER_NAME_MAX: usize = 256;
