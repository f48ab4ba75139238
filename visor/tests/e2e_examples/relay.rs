//! A function waits for another one, which has its continuation from a third.

use crate::harness::Workflow;

#[test]
fn a_continuation_is_passed_on_and_resumed() {
    let mut workflow = Workflow::shipped("relay");
    assert_eq!(workflow.run(None, "page").output(), b"A DRAFT\n");
    // Without the reader nothing comes to the editor, and the author waits for nothing.
    let steps = &mut workflow.document()["steps"];
    steps.as_array_mut().expect("steps").retain(|step| step["name"] != "reader");
    let ran = workflow.run(None, "page");
    let why = ran.failure();
    assert!(why.contains("no instance is left that could"), "{why}");
}
