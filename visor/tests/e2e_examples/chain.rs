//! The chain of functions: every byte arrives, whatever the length of chain and payload.

use crate::harness::Workflow;
use serde_json::json;

fn chained(links: u32, bytes: u64) -> Vec<u8> {
    let step = |link: u32| {
        json!({
            "name": format!("link-{link}"),
            "function": "link",
            "after": (0..link).rev().take(1).map(|before| format!("link-{before}")).collect::<Vec<_>>(),
            "args": {"link": link, "links": links, "bytes": bytes},
        })
    };
    Workflow::shipped("function-chain").with_steps((0..links).map(step).collect()).run(None, "result").output()
}

#[test]
fn as_shipped() {
    let ran = Workflow::shipped("function-chain").run(None, "result");
    let passed = |step: usize, field: &str| ran.report["steps"][step]["instances"][0][field].clone();
    // What a link takes over is what the one before handed on: the payload, by reference.
    for step in 1..15 {
        assert_eq!(passed(step, "bytes_in"), 1_000_000);
        assert_eq!(passed(step - 1, "bytes_out"), 1_000_000);
    }
    assert_eq!(ran.output(), b"14 hops, 1000000 bytes\n");
}

#[test]
fn other_lengths() {
    assert_eq!(chained(1, 16), b"0 hops, 16 bytes\n");
    assert_eq!(chained(2, 17), b"1 hops, 17 bytes\n");
    assert_eq!(chained(40, 4096), b"39 hops, 4096 bytes\n");
    assert_eq!(chained(3, 50_000_000), b"2 hops, 50000000 bytes\n");
}
