//! The data of an image counts towards an instance's memory limit before it is there.

mod support;

use monohull_visor::report::{Blame, FailureKind};
use serde_json::json;
use support::run;

#[test]
fn an_image_with_too_much_data_is_not_mapped() {
    let report = |memory: &str| {
        run(&json!({
            "name": "data",
            "functions": { "f": { "image": "libc-own_heap" } },
            "steps": [{ "name": "s", "function": "f", "memory": memory }],
            "limits": { "timeout": "60s" },
        }))
    };
    let mapped =
        |report: &monohull_visor::report::RunReport| report.timeline.iter().any(|point| point.name == "image-mapped");
    let ample = report("64MiB");
    assert!(mapped(&ample), "{:?}", ample.error);
    let small = report("512KiB");
    let error = small.error.as_ref().expect("it has 1 MiB of data");
    assert_eq!(
        (error.kind, error.blame, error.step.as_deref()),
        (FailureKind::MemoryLimit, Blame::Workflow, Some("s"))
    );
    let told = error.message.starts_with("the data of its image takes ")
        && error.message.ends_with("its memory limit is 524288 bytes");
    assert!(told, "{}", error.message);
    assert!(!mapped(&small), "{:?}", small.timeline);
}
