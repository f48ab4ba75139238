//! Tests of libos modules that call each other, on the host; all in `tests/`. They have a crate of their own because
//! modules bring a panic handler, and what tests use brings std.
