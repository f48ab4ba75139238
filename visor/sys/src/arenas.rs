//! Arenas of the C library's allocator.
//!
//! The allocator gives threads that allocate at the same time memory of their own, up to eight arenas for each core, and each keeps some megabytes
//! of what was freed. A server has few threads that serve clients and many that wait for the kernel now and then, so that it would come to have
//! all of these arenas, each for a moment's use.

/// Lets all threads that begin from here on have at most so many arenas together.
pub fn limit(count: usize) {
    let count = i32::try_from(count.max(1)).unwrap_or(i32::MAX);
    // SAFETY: mallopt(3) has no preconditions; it sets a number. Where it is not taken, there are more arenas.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, count) };
}

/// Gives memory that was freed back to the kernel: whole pages of it, of all arenas. The allocator by itself gives back what lies at the end of the
/// first arena alone. Other threads that allocate wait meanwhile, for some milliseconds at most.
pub fn give_back() {
    // SAFETY: malloc_trim(3) has no preconditions. It takes the locks of the arenas, and changes free memory alone.
    unsafe { libc::malloc_trim(0) };
}
