//! The attacks of `keys_attacks` after a restore: a process that goes on with a checkpoint has the walls of one that began with its workflow.
//!
//! ```text
//!   run --suspend    victim waits, attacker naps ─▶ checkpoint, the process ends
//!   resume           attacker wakes and attacks ─▶ the same verdicts
//! ```
//!
//! The modules are those of `keys_attacks`. Without the races: they are made of many runs of their own.

#[path = "../keys_attacks/deputies.rs"]
mod deputies;
#[path = "../keys_attacks/doors.rs"]
mod doors;
#[path = "../keys_attacks/exhaustion.rs"]
mod exhaustion;
#[allow(dead_code, reason = "the negative control uses the rest")]
#[path = "../keys_attacks/harness.rs"]
mod harness;
#[path = "../keys_attacks/image.rs"]
mod image;
#[path = "../keys_attacks/instructions.rs"]
mod instructions;
#[path = "../keys_attacks/jumps.rs"]
mod jumps;
#[path = "../keys_attacks/leftovers.rs"]
mod leftovers;
#[path = "../keys_attacks/memory.rs"]
mod memory;
#[path = "../keys_attacks/places.rs"]
mod places;
#[path = "../serve_support/mod.rs"]
mod serve_support;
#[path = "../keys_attacks/signals.rs"]
mod signals;
