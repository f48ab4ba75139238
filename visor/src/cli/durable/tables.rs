//! The tables of `ps` and `checkpoints`, which a state folder and a server fill.

use comfy_table::{Table, presets};

/// Invocations.
pub(super) fn invocations() -> Table {
    with(["id", "workflow", "status", "due", "waits for", "stored"])
}

/// The checkpoints of an invocation.
pub(super) fn checkpoints() -> Table {
    with(["generation", "since", "stored", "waits for", "goes on"])
}

fn with<const N: usize>(head: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(head);
    table
}
