//! The header is C99 and C++.

use std::process::Command;

#[test]
fn the_header_compiles_without_a_warning() {
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/include/monohull.h");
    for (compiler, language, standard) in [("cc", "c", "-std=c99"), ("c++", "c++", "-std=c++11")] {
        let mut command = Command::new(compiler);
        command.args(["-x", language, standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", header]);
        let output = command.output().expect("a compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
