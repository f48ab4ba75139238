//! The tour of std: the same source prints the same as a function and as a program with std.

use crate::harness::Workflow;
use std::process::Command;

#[test]
fn as_a_function_and_as_a_program() {
    let cargo = ["run", "--quiet", "--package", "std-tour", "--example", "with_std"];
    let program = Command::new(env!("CARGO")).args(cargo).output().expect("cargo runs");
    assert!(program.status.success(), "{}", String::from_utf8_lossy(&program.stderr));
    let expected = String::from_utf8(program.stdout).expect("the tour prints text");
    assert_eq!(expected.lines().last(), Some("end of the tour"));

    let ran = Workflow::shipped("std-tour").run(None, None);
    assert_eq!(ran.code, 0, "{:#}", ran.report);
    let lines = ran.report["steps"][0]["instances"][0]["lines"].as_array().expect("it prints");
    let printed = lines.iter().filter(|line| line["stream"] == "stdout").map(|line| line["text"].as_str());
    let printed: Vec<_> = printed.map(|text| text.expect("lines are text")).collect();
    assert_eq!(printed, expected.lines().collect::<Vec<_>>());
}
