//! The parallel sort against `sort -n`.

use crate::harness::{Ran, Random, Workflow, shell};

/// Sorts with `sorters` sorters and `mergers` mergers.
fn sorted(lines: &[u8], sorters: u32, mergers: u32) -> Ran {
    let mut workflow = Workflow::shipped("parallel-sort");
    workflow.set("split", "/args/parts", sorters).set("split", "/args/pieces", mergers);
    workflow.set("sort", "/instances", sorters).set("merge", "/instances", mergers);
    workflow.run(Some(("lines", lines)), "sorted")
}

#[track_caller]
fn agrees(lines: &[u8]) {
    let expected = shell("sort -n", lines);
    for (sorters, mergers) in [(1, 1), (2, 3), (5, 2)] {
        let output = sorted(lines, sorters, mergers).output();
        let (ours, theirs) = (String::from_utf8_lossy(&output), String::from_utf8_lossy(&expected));
        assert!(output == expected, "{sorters} sorters, {mergers} mergers\nours:\n{ours:.500}\ntheirs:\n{theirs:.500}");
    }
}

#[track_caller]
fn refused_at(lines: &[u8], line: u32) {
    for (sorters, mergers) in [(1, 1), (3, 2)] {
        let ran = sorted(lines, sorters, mergers);
        let message = ran.failure();
        assert!(message.contains(&format!("line {line} ")), "{sorters} sorters: {message}");
        assert_eq!(ran.report["error"]["kind"], "error");
        assert_eq!(ran.report["error"]["step"], "sort");
    }
}

fn numbers(seed: u64, count: usize, mut value: impl FnMut(&mut Random) -> u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..count).flat_map(|_| format!("{}\n", value(&mut random)).into_bytes()).collect()
}

#[test]
fn as_shipped() {
    let lines = numbers(1, 1000, Random::next);
    let output = Workflow::shipped("parallel-sort").run(Some(("lines", lines.as_slice())), "sorted").output();
    assert_eq!(output, shell("sort -n", &lines));
}

#[test]
fn no_lines() {
    agrees(b"");
}

#[test]
fn one_line_with_and_without_newline() {
    agrees(b"42\n");
    agrees(b"42");
}

#[test]
fn no_newline_at_the_end() {
    agrees(b"3\n1\n2");
}

#[test]
fn the_ends_of_the_range() {
    agrees(b"18446744073709551615\n0\n18446744073709551614\n1\n0\n");
}

#[test]
fn many_equal_lines() {
    agrees(&numbers(2, 20_000, |random| random.below(3)));
    agrees(&b"7\n".repeat(5000));
}

#[test]
fn sorted_and_reversed() {
    let up: Vec<u8> = (0..5000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    let down: Vec<u8> = (0..5000).rev().flat_map(|n| format!("{n}\n").into_bytes()).collect();
    agrees(&up);
    agrees(&down);
}

#[test]
fn skewed_values() {
    // Nearly all values fall into one range, whatever the sample says.
    agrees(&numbers(3, 20_000, |random| match random.below(100) {
        0 => random.next(),
        _ => random.below(1000),
    }));
}

#[test]
fn random_values_of_all_lengths() {
    agrees(&numbers(4, 50_000, |random| random.next() >> random.below(64)));
}

#[test]
fn more_instances_than_lines() {
    assert_eq!(sorted(b"2\n1\n", 20, 9).output(), b"1\n2\n");
}

#[test]
fn junk_is_refused_by_line() {
    refused_at(b"1\n2\nthree\n4\n5\n", 3);
    refused_at(b"1\n2\n3\n4\n5\n-6\n", 6);
    refused_at(b"1\n\n2\n", 2);
    refused_at(b"18446744073709551616\n", 1);
}

#[test]
fn zero_bytes_and_invalid_utf_8_are_refused_by_line() {
    refused_at(b"1\n2\0\n3\n", 2);
    refused_at(b"1\n2\n3\n\xff\n", 4);
    refused_at(&[0; 100], 1);
}
