//! Functions that go back in their own memory.

use crate::harness::{Workflow, printed};
use serde_json::json;

const SOLUTION: &str =
    "417369825\n632158947\n958724316\n825437169\n791586432\n346912758\n289643571\n573291684\n164875293\n";

#[test]
fn a_sudoku_is_solved_by_going_back() {
    let output = Workflow::shipped("sudoku").run(None, "solution").output();
    assert_eq!(String::from_utf8_lossy(&output), SOLUTION);
}

#[test]
fn a_sudoku_without_a_solution_is_an_error() {
    let mut workflow = Workflow::shipped("sudoku");
    let squares = |first: &str, second: &str| format!("{first}{second}{}", ".".repeat(63));
    // Nothing fits into the last square of the first row. And two squares have one digit between them.
    for puzzle in [squares("12345678.", "........9"), squares("1234567..", ".......8.")] {
        workflow.set("solve", "/args/puzzle", puzzle);
        let ran = workflow.run(None, "solution");
        assert!(ran.failure().contains("it has no solution"), "{}", ran.failure());
    }
    workflow.set("solve", "/args/puzzle", ".".repeat(80));
    assert!(workflow.run(None, "solution").failure().contains("81 squares, not 80"));
}

#[test]
fn a_function_returns_once_for_each_way_to_pay() {
    let mut workflow = Workflow::shipped("generator");
    let ways = ["5 5", "5 2 2 1", "5 2 1 1 1", "5 1 1 1 1 1", "2 2 2 2 2", "2 2 2 2 1 1", "2 2 2 1 1 1 1"];
    let ways = [&ways[..], &["2 2 1 1 1 1 1 1", "2 1 1 1 1 1 1 1 1", "1 1 1 1 1 1 1 1 1 1"]].concat();
    let ran = workflow.run(None, "ways");
    assert_eq!(printed(&ran), ways);
    assert_eq!(ran.output(), (ways.join("\n") + "\n").into_bytes());
    workflow.set("pay", "/args", json!({ "amount": 3, "coins": [5, 2] }));
    assert_eq!(workflow.run(None, "ways").output(), b"");
}
