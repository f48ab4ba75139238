//! Answers of a server are compared with the document of its interface.

use monohull_visor::watchdog::openapi::DOCUMENT;
use serde_json::Value;

/// Looks whether an answer is as the schema of this name has it.
#[track_caller]
pub(crate) fn keeps_to(name: &str, value: &Value) {
    let mut root: Value = serde_json::from_str(DOCUMENT).expect("JSON");
    root["$ref"] = format!("#/components/schemas/{name}").into();
    let schema = jsonschema::validator_for(&root).expect("a schema");
    let errors: Vec<_> = schema.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}\n{value:#}");
}
