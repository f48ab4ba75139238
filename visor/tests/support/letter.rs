//! The workflow of `examples/attacks/src/slots.rs`: a letter, and a thief who knows the name of its slot.

use serde_json::{Value, json};

/// Lists that name the thief nothing that is there.
pub(crate) fn nothing() -> Value {
    json!({ "takes": ["lette", "letter.*"], "fills": ["answers", "letter"] })
}

/// An owner, a thief with these lists, a reader; one after the other.
pub(crate) fn document(image: &str, mut lists: Value) -> Value {
    let mut thief = json!({ "name": "thief", "function": "attacks", "after": ["owner"], "args": { "role": "thief" } });
    thief.as_object_mut().expect("an object").append(lists.as_object_mut().expect("an object"));
    let steps = json!([
        { "name": "owner", "function": "attacks", "args": { "role": "owner" }, "takes": [], "fills": ["letter"] },
        thief,
        { "name": "reader", "function": "attacks", "after": ["thief"], "args": { "role": "reader" },
          "takes": ["letter"], "fills": ["answer"] }
    ]);
    slots(image, steps, json!(["answer"]))
}

/// Steps of the attacks, kept apart.
pub(crate) fn slots(image: &str, steps: Value, outputs: Value) -> Value {
    json!({
        "name": "slot-access",
        "isolation": "function",
        "functions": { "attacks": { "image": image } },
        "steps": steps,
        "outputs": outputs
    })
}

/// What the thief prints if nothing stops it.
pub(crate) const STOLEN: [&str; 5] =
    ["got dear reader", "take letter: done", "found false", "look for letter: done", "fill answer: done"];
