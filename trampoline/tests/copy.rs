//! The copy that survives faults: every byte and no other, for lengths on all its ways.

use monohull_trampoline::system::{copy, copy_recovery};

use std::ffi::c_void;
use std::ptr;

const PAGE: usize = 4096;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 31 + index / 251) as u8).collect()
}

#[test]
fn every_byte_and_no_other() {
    let short = 0..=100;
    let around = |len: usize| len - 2..=len + 2;
    let lengths = short.chain(around(PAGE)).chain(around(2 * PAGE)).chain(around(3 * PAGE)).chain(around(70_000));
    for len in lengths {
        for (source, target) in [(0, 0), (1, 0), (0, 7), (13, 5)] {
            let from = pattern(source + len);
            let mut to = vec![0xee; target + len + 64];
            // SAFETY: both sides have room behind where they begin.
            assert!(unsafe { copy(to.as_mut_ptr().add(target), from.as_ptr().add(source), len) });
            assert_eq!(to[target..target + len], from[source..], "{len} bytes");
            let around = to[..target].iter().chain(&to[target + len..]);
            assert!(around.into_iter().all(|byte| *byte == 0xee), "{len} bytes, and others");
        }
    }
}

/// Continues at the copy's fault address.
extern "C" fn recover(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the context of what was interrupted, which continues as it specifies.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    match copy_recovery(registers[libc::REG_RIP as usize] as u64) {
        Some(exit) => registers[libc::REG_RIP as usize] = exit as i64,
        None => std::process::abort(),
    }
}

#[test]
fn a_missing_page_is_reported_wherever_it_lies() {
    const PAGES: usize = 6;
    // SAFETY: the handler has the form that `SA_SIGINFO` asks for; the mapping is new, and this test's alone.
    let memory = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = recover as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut()), 0);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        libc::mmap(ptr::null_mut(), PAGES * PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    assert_ne!(memory, libc::MAP_FAILED);
    let memory = memory.cast::<u8>();
    let mut other = pattern(PAGES * PAGE);
    // SAFETY: as long as the mapping, which the copy may find in part.
    let both = |other: &mut [u8]| unsafe {
        (copy(memory, other.as_ptr(), other.len()), copy(other.as_mut_ptr(), memory, other.len()))
    };
    assert_eq!(both(&mut other), (true, true), "all pages are there");
    for missing in 0..PAGES {
        // SAFETY: a page of the mapping.
        let allow = |rights| unsafe { libc::mprotect(memory.add(missing * PAGE).cast(), PAGE, rights) };
        assert_eq!(allow(libc::PROT_NONE), 0);
        assert_eq!(both(&mut other), (false, false), "page {missing} is not there");
        assert_eq!(allow(libc::PROT_READ | libc::PROT_WRITE), 0);
    }
    assert_eq!(other, pattern(PAGES * PAGE));
    assert_eq!(both(&mut other), (true, true), "all pages are there again");
}
