//! The tour's body with the standard library: prints what the function must print.
include!("../src/body.rs");
