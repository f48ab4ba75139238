//! What may travel in a slot is decided by the compiler: these programs must not compile, and the error gives the reason.
//!
//! The messages expected are word for word those of one version of the compiler. If another one words them differently,
//! look at the differences and run the test with `TRYBUILD=overwrite`.

#[test]
fn private_pointers_are_refused_at_compile_time() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
    cases.pass("tests/compile_pass/*.rs");
}
