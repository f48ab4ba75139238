//! Nothing. Wasmtime lists `memfd` as a dependency on every Linux target, but uses it only in builds with std.
#![no_std]
