//! The ways of kernel, libc and processor of going there and back: a system call, a switch of contexts, a change of rights.
#![allow(unsafe_code, reason = "raw system calls and contexts are what is measured")]

use super::last_error;
use crate::harness::Result;
use monohull_visor::domain::keys;
use std::arch::asm;
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Instant;

/// `getppid` as a system call: libc may not answer from memory.
pub(super) fn getppid(count: usize) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        // SAFETY: getppid takes nothing and changes nothing.
        unsafe { libc::syscall(libc::SYS_getppid) };
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

/// The least that a call across protection keys costs: a call through a pointer between two changes of the rights.
pub(super) fn key_switches(count: usize) -> Result<f64> {
    if !keys::support().is_available() {
        return Err("there are no protection keys here".to_owned());
    }
    let rights: u32;
    // SAFETY: reads the rights of this thread; processor and kernel have keys, as was just seen.
    unsafe { asm!("rdpkru", out("eax") rights, in("ecx") 0, out("edx") _, options(nomem, nostack)) };
    let callee = black_box(nothing as extern "C" fn());
    let start = Instant::now();
    for _ in 0..count {
        // SAFETY: writes the rights that this thread has; as above.
        unsafe { asm!("wrpkru", in("eax") rights, in("ecx") 0, in("edx") 0, options(nostack)) };
        callee();
        // SAFETY: likewise.
        unsafe { asm!("wrpkru", in("eax") rights, in("ecx") 0, in("edx") 0, options(nostack)) };
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

#[inline(never)]
extern "C" fn nothing() {}

/// The two contexts, shared by both.
struct Contexts {
    home: UnsafeCell<MaybeUninit<libc::ucontext_t>>,
    away: UnsafeCell<MaybeUninit<libc::ucontext_t>>,
}

// SAFETY: only one thread uses them.
unsafe impl Sync for Contexts {}

static CONTEXTS: Contexts =
    Contexts { home: UnsafeCell::new(MaybeUninit::uninit()), away: UnsafeCell::new(MaybeUninit::uninit()) };

/// Goes straight back, for ever.
extern "C" fn bounce() {
    loop {
        // SAFETY: runs only after `swapcontext_pairs` has filled both contexts, on the same thread.
        unsafe { libc::swapcontext(CONTEXTS.away.get().cast(), CONTEXTS.home.get().cast()) };
    }
}

/// A pair of `swapcontext`: there and back.
pub(super) fn swapcontext_pairs(count: usize) -> Result<f64> {
    const STACK: usize = 64 * 1024;
    let mut stack = vec![0u8; STACK];
    let (home, away) = (CONTEXTS.home.get().cast(), CONTEXTS.away.get().cast::<libc::ucontext_t>());
    // SAFETY: `away` is filled by getcontext before its fields are set; its stack outlives its use, for it is never
    // switched to after this function returns.
    unsafe {
        if libc::getcontext(away) != 0 {
            return Err(last_error("getcontext"));
        }
        (*away).uc_stack.ss_sp = stack.as_mut_ptr().cast();
        (*away).uc_stack.ss_size = STACK;
        (*away).uc_link = ptr::null_mut();
        libc::makecontext(away, bounce, 0);
    }
    let start = Instant::now();
    for _ in 0..count {
        // SAFETY: both contexts are this thread's, and `away` has been made above.
        if unsafe { libc::swapcontext(home, away) } != 0 {
            return Err(last_error("swapcontext"));
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}
