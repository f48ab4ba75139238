//! Functions that programs built for glibc use and musl does not have, beyond other names for the same function
//! (`libc/musl/aliases`).

use core::ffi::c_char;

/// The version of glibc that programs are to expect: std asks before it uses newer functions.
#[unsafe(no_mangle)]
pub extern "C" fn gnu_get_libc_version() -> *const c_char {
    c"2.36".as_ptr()
}
