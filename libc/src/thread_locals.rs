//! Destructors of thread-local variables. Rust's std and C++ register them here by the name that glibc has for it.
//!
//! ```text
//!   thread_local! { … }         ─▶ __cxa_thread_atexit_impl ─▶ the thread's list (header.rs)
//!   thread_local Type variable; ─▶ __cxa_thread_atexit      ─▶ the same
//!   a thread ends, or calls exit ─▶ __monohull_thread_locals: the last first ─▶ keys of pthreads, or atexit
//! ```
//!
//! A library without this list would have its own, below a key of pthreads; destructors of keys do not run at the end of the main thread.

use crate::header::{self, Destructor};
use core::ffi::{c_int, c_void};

/// Has `destructor(object)` called when the calling thread ends. Which library asks for it makes no difference: there is one.
#[unsafe(no_mangle)]
pub extern "C" fn __cxa_thread_atexit_impl(
    destructor: Destructor,
    object: *mut c_void,
    _library: *mut c_void,
) -> c_int {
    let destructors = &header::own().rare_or_new().destructors;
    let mut list = destructors.take();
    list.push((destructor, object));
    destructors.set(list);
    0
}

/// Runs them, and those that are registered meanwhile. musl calls it when a thread ends, and first in `exit`.
#[unsafe(no_mangle)]
pub extern "C" fn __monohull_thread_locals() {
    let next = || {
        let destructors = &header::own().rare()?.destructors;
        let mut list = destructors.take();
        let last = list.pop();
        destructors.set(list);
        last
    };
    while let Some((destructor, object)) = next() {
        destructor(object);
    }
}
