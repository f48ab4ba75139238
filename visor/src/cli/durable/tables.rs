//! The tables of `ps`, `checkpoints` and `timeline`, which a state folder and a server fill.

use super::super::table;
use comfy_table::Table;

/// Invocations.
pub(super) fn invocations() -> Table {
    table::new(["id", "workflow", "status", "due", "waits for", "stored"])
}

/// The checkpoints of an invocation.
pub(super) fn checkpoints() -> Table {
    table::new(["generation", "since", "stored", "waits for", "goes on"])
}

/// What has happened to an invocation.
pub(super) fn timeline() -> Table {
    table::new(["at", "what", "woken by", "ran", "about"])
}
