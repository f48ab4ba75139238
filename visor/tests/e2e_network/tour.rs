//! The tour of `std::net`: the same source prints the same as a function and as a program with std.

use crate::{lines, support};
use monohull_visor::engine::RunOptions;
use monohull_visor::report::Silent;
use std::process::Command;
use std::sync::Arc;

#[test]
fn as_a_function_and_as_a_program() {
    let cargo = ["run", "--quiet", "--package", "network-tour", "--example", "network_with_std"];
    let program = Command::new(env!("CARGO")).args(cargo).output().expect("cargo runs");
    assert!(program.status.success(), "{}", String::from_utf8_lossy(&program.stderr));
    let expected = String::from_utf8(program.stdout).expect("the tour prints text");
    assert_eq!(expected.lines().last(), Some("end of the tour"));

    let ready = support::shipped("network-tour");
    let _one = support::one_at_a_time();
    let report = ready.run(&RunOptions::default(), Arc::new(Silent)).expect("the host can hold a domain");
    assert_eq!(lines(&report), expected.lines().collect::<Vec<_>>());
    assert!(report.modules.contains(&"socket".to_owned()), "{:?}", report.modules);
}
