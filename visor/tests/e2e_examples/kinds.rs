//! Steps of different kinds work on the same memory: on monohull-std, on Rust's own std with the crate `monohull`, and in C with
//! `monohull.h`.

use crate::harness::Workflow;
use serde_json::Value;

const PICTURE: [&str; 9] = [
    "",
    r"               |\",
    r"               | \",
    r"               |__\",
    r"            \__|____/",
    r"~~  ~~  ~~   \_____/~~  ~~  ~~  ~~  ~~",
    "  ~~  ~~  ~~  ~~  ~~  ~~  ~~  ~~  ~~  ~~",
    "~~  ~~  ~~  ~~  ~~  ~~  ~~  ~~  ~~  ~~",
    "  ~~  ~~  ~~  ~~  ~~  ~~  ~~  ~~  ~~  ~~",
];

/// The last line that a step printed.
fn last(step: &Value) -> &str {
    step["instances"][0]["lines"].as_array().and_then(|lines| lines.last()?["text"].as_str()).expect("a line")
}

#[test]
fn steps_of_three_kinds_work_on_the_same_memory() {
    let ran = Workflow::shipped("kinds").run(None, "picture");
    let steps = ran.report["steps"].as_array().cloned().expect("steps");
    assert_eq!(ran.report["status"], "done", "{:#}", ran.report);
    // What each of them prints is where the picture lies.
    let [sky, sea, ship] = &steps[..] else { panic!("three steps") };
    assert!(last(sky).starts_with("369 bytes at 0x"), "{sky:#}");
    assert_eq!([last(sea), last(ship)], [last(sky); 2]);
    let moved = |step: &Value| {
        let instance = &step["instances"][0];
        (instance["bytes_in"].as_u64(), instance["bytes_out"].as_u64())
    };
    // Two numbers come with it from monohull-std, and a legend of 28 letters from Rust's own std.
    assert_eq!(moved(sky), (Some(0), Some(369 + 16)));
    assert_eq!(moved(sea), (Some(369 + 16), Some(369 + 28)));
    assert_eq!(moved(ship), (Some(369 + 28), Some(369)));
    assert_eq!(ship["instances"][0]["lines"][0]["text"], "80 of 360 letters are waves");
    let picture = String::from_utf8(ran.output()).expect("a text");
    assert!(picture.lines().map(str::trim_end).eq(PICTURE), "{picture}");
}
