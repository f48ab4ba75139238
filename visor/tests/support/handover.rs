//! The workflow of `examples/attacks/src/handover.rs`, and what must come of it.

use serde_json::{Value, json};

/// Giver and taker side by side; the steps' order in the report.
pub(crate) fn document(image: &str, call: &str, way: &str, rounds: u32) -> Value {
    let step = |role: &str| {
        json!({
            "name": role, "function": "attacks", "memory": "128MiB",
            "args": { "role": role, "what": call, "how": way, "rounds": rounds }
        })
    };
    json!({
        "name": "handover",
        "isolation": "function",
        "functions": { "attacks": { "image": image } },
        "steps": [step("giver"), step("taker")],
        "files": [{ "at": "/work", "memory": "32MiB" }],
        "limits": { "carriers": 3, "timeout": "600s" }
    })
}

/// The call completes on its buffer. The operation that would take the buffer away during the call is refused. No instance gains
/// or loses memory.
#[track_caller]
pub(crate) fn is_refused(call: &str, way: &str, giver: &[&str], taker: &[&str]) {
    assert_eq!(giver, [&*format!("{call} works"), "refused in the middle"], "{call}, {way}");
    assert_eq!(taker, ["intact"], "{call}, {way}");
}
