//! The tour of std: the same source prints the same as a function and as a program with std.

use crate::harness::{Workflow, printed, with_std};

#[test]
fn as_a_function_and_as_a_program() {
    let expected = with_std("std-tour", &[]);
    assert_eq!(expected.lines().last(), Some("end of the tour"));

    let ran = Workflow::shipped("std-tour").run(None, None);
    assert_eq!(ran.code, 0, "{:#}", ran.report);
    assert_eq!(printed(&ran), expected.lines().collect::<Vec<_>>());
}
