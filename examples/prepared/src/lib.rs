//! Builds a table, says that it is ready, and looks its input up there: what a template is for.
//!
//! With `before` it does something else first: most of that is an instance's own, so that there is no template.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::collections::HashMap;
use monohull_std::fmt::Write;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::sync::Mutex;
use monohull_std::time::Instant;
use monohull_std::{durable, env, fs, generation, random, ready, thread};

/// What this memory has seen of inputs.
static SEEN: Mutex<String> = Mutex::new(String::new());

/// Bytes that it has from before it was ready, if it is asked to have them.
const LARGE: u32 = 8 << 20;

/// Counts how often each letter of the slot `in` occurs, weighed by a table of `entries`, and fills the slot `out`.
#[monohull::main]
fn main(entries: u64, before: String, label: String) {
    let begin = Instant::now();
    let mut table = HashMap::new();
    for letter in 'a'..='z' {
        let mut weight = u64::from(letter);
        for _ in 0..entries {
            weight = weight.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        }
        table.insert(letter, weight);
    }
    let mut earlier = String::new();
    let mut large = Vec::new();
    match before.as_str() {
        "print" => println!("too early"),
        "random" => earlier = draw(),
        "slot" => earlier = SlotString::from_slot("in").expect("the input").to_string(),
        "thread" => thread::spawn(|| ()).join().expect("it does nothing"),
        "file" => drop(fs::write("/made", "too early")),
        // What is not there is not there for any instance.
        "missing" => assert!(fs::metadata("/missing").is_err() && fs::read("missing").is_err()),
        "invocation" => earlier = durable::invocation_id(),
        "migration" => earlier = durable::handed_over("state").unwrap_or_default(),
        "generation" => assert_eq!(generation(), 0),
        "publish" => durable::publish("state", "too early").expect("it is published"),
        "panic" if env::var("MAY_PANIC").is_ok() => panic!("before it was ready"),
        // No page is equal to another one.
        "memory" => large.extend((0..LARGE).map(|place| (place.wrapping_mul(0x9e37_79b1) >> 24) as u8)),
        "sleep" => thread::sleep(core::time::Duration::from_millis(20)),
        _ => {}
    }
    let template = ready();
    let text = match before.as_str() {
        "slot" => earlier.clone(),
        _ => SlotString::from_slot("in").expect("the input").to_string(),
    };
    let mut seen = SEEN.lock().expect("it is not poisoned");
    let mut out = SlotString::with_slot("out");
    let sum = text.chars().filter_map(|letter| table.get(&letter)).fold(0_u64, |sum, weight| sum.wrapping_add(*weight));
    println!("the sum is {sum:016x}");
    for (name, value) in [
        ("sum", format!("{sum:016x}")),
        ("template", template.to_string()),
        ("label", label),
        ("seen", seen.clone()),
        ("random", draw()),
        ("invocation", durable::invocation_id()),
        ("large", large.iter().map(|byte| u64::from(*byte)).sum::<u64>().to_string()),
        ("backwards", (Instant::now() < begin).to_string()),
    ] {
        let _ = writeln!(out, "{name}={value}");
    }
    seen.push_str(&text);
}

fn draw() -> String {
    let mut bytes = [0; 8];
    random::fill(&mut bytes);
    format!("{:016x}", u64::from_ne_bytes(bytes))
}
