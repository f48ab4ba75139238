//! The attacks of `keys_attacks` in a process that has served an invocation before: it has the walls of a new one, and an invocation
//! after the attack finds nothing of that.
//!
//! The modules are those of `keys_attacks`; `again` there says how. Without the races: their workflows have a network, and so a process
//! for each invocation.

#[path = "../keys_attacks/deputies.rs"]
mod deputies;
#[path = "../keys_attacks/doors.rs"]
mod doors;
#[path = "../keys_attacks/exhaustion.rs"]
mod exhaustion;
#[path = "../keys_attacks/handover.rs"]
mod handover;
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
#[path = "../support/handover.rs"]
mod support;
