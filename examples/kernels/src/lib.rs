//! What the example functions compute, apart from where their data comes from and goes to.
//!
//! The functions run these kernels on slot buffers; the benchmark's peers are plain programs that run the very same
//! kernels on files and pipes. A difference between the two is then a difference of the systems below.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

pub mod chain;
pub mod files;
pub mod mapped;
pub mod parts;
pub mod sort;
pub mod traffic;
pub mod words;
