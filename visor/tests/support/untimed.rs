//! What a report says but for times, so that those of two runs can be compared.

use monohull_visor::report::RunReport;
use serde_json::{Value, json};

/// What a report says but for its times, for the order in which modules were loaded, and for what is said of captures.
pub(crate) fn without_times(report: &RunReport) -> Value {
    let mut value = serde_json::to_value(report).expect("JSON");
    value["modules"].as_array_mut().expect("modules").sort_by_key(ToString::to_string);
    let object = value.as_object_mut().expect("an object");
    let timeline = object["timeline"].as_array().expect("a timeline");
    let names = timeline.iter().map(|point| point["name"].clone()).filter(|name| name != "gone-on");
    let names = names.collect::<Vec<_>>();
    assert!(names.contains(&json!("first-instruction")), "{names:?}");
    object.insert("timeline".to_owned(), names.into());
    for name in ["cold_start_us", "duration_us", "suspended"] {
        object.remove(name);
    }
    for step in value["steps"].as_array_mut().expect("steps") {
        for instance in step["instances"].as_array_mut().expect("instances") {
            let instance = instance.as_object_mut().expect("an object");
            instance.retain(|name, _| !name.ends_with("_us"));
        }
    }
    value
}
