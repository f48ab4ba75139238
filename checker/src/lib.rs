//! The instruction checker: finds what user code must not contain.
