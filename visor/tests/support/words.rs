//! A workflow with a fan-out of which no function says that it is ready: its templates are before first waits.

use serde_json::{Value, json};

/// Splits a text into three, counts the words of the parts at once, and puts the counts together. `image` gives the function of a name.
pub(crate) fn document(image: impl Fn(&str) -> Value) -> Value {
    json!({
        "name": "words",
        "template": "after-first-wait",
        "functions": {
            "split": image("split"), "map": image("map"), "reduce": image("reduce"), "merge": image("merge"),
        },
        "steps": [
            { "name": "split", "function": "split", "args": { "parts": 3 } },
            { "name": "map", "function": "map", "after": ["split"], "instances": 3, "args": { "shards": 1 } },
            { "name": "reduce", "function": "reduce", "after": ["map"] },
            { "name": "merge", "function": "merge", "after": ["reduce"] },
        ],
        "inputs": ["text"],
        "outputs": ["counts"],
    })
}
