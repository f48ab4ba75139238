//! Files as functions see them.

use crate::harness::{Workflow, printed, with_std};

#[test]
fn the_tour_as_a_function_and_as_a_program() {
    let folder = crate::harness::fresh_folder();
    let expected = with_std("file-tour", &[("TOUR", folder.as_path())]);
    std::fs::remove_dir(folder).expect("the tour leaves nothing");
    assert_eq!(expected.lines().last(), Some("at the end: []"));

    let ran = Workflow::shipped("file-tour").run(None, None);
    assert_eq!(ran.code, 0, "{:#}", ran.report);
    assert_eq!(printed(&ran), expected.lines().collect::<Vec<_>>());
}
