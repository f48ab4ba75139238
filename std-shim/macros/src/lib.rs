//! Attribute and derive macros of monohull-std.
