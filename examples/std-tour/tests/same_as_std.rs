//! The tour compiled with std prints what the tour as a function must print; the end-to-end tests compare the two.

use std::process::Command;

#[test]
fn the_body_is_an_ordinary_program() {
    let output =
        Command::new(env!("CARGO")).args(["run", "--quiet", "-p", "std-tour", "--example", "with_std"]).output();
    let output = output.expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().last(), Some("end of the tour"));
}
