//! What functions link instead of std.
