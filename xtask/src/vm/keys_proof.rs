//! Proves that protection keys are in force here: a page is tagged with a key, the key is denied by WRPKRU, and the
//! next write to the page must fault *because of the key*. Ends with 0 if it does, else with 1 and a sentence.

use std::arch::asm;
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

const PAGE: usize = 4096;
/// `si_code` of a fault that a key caused (asm-generic/siginfo.h).
const SEGV_PKUERR: i32 = 4;
/// The access rights for `pkey_alloc`.
const EVERYTHING: usize = 0;

/// The page whose write must fault.
static DENIED: AtomicPtr<u8> = AtomicPtr::new(null_mut());

fn main() {
    match prove() {
        Ok(()) => println!("a write to a page whose key is denied went through: keys are not in force"),
        Err(error) => println!("no protection keys: {error}"),
    }
    std::process::exit(1);
}

/// Ends the process, with 0, in the handler; returns if nothing faulted.
fn prove() -> io::Result<()> {
    // SAFETY: pkey_alloc takes two integers and touches no memory.
    let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0usize, EVERYTHING) };
    let key = u32::try_from(key).map_err(|_| io::Error::last_os_error())?;

    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, wherever the kernel likes.
    let page = unsafe { libc::mmap(null_mut(), PAGE, rights, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the page was mapped just above and only its key changes.
    if unsafe { libc::syscall(libc::SYS_pkey_mprotect, page, PAGE, rights, key) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let page = page.cast::<u8>();
    // With the key allowed, the same write goes through.
    // SAFETY: the page is mapped, writable, and used by this thread only; its key is allowed since it was allocated.
    unsafe { page.write_volatile(1) };

    DENIED.store(page, Ordering::Relaxed);
    // SAFETY: all zeroes is a right sigaction: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_flags = libc::SA_SIGINFO;
    action.sa_sigaction = faulted as *const () as usize;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for and calls only _exit.
    if unsafe { libc::sigaction(libc::SIGSEGV, &action, null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    deny(key);
    // SAFETY: the page is mapped; if the key lets the write through, no other memory is touched.
    unsafe { page.write_volatile(2) };
    Ok(())
}

/// Denies a key to this thread, besides what is denied already.
fn deny(key: u32) {
    const ACCESS_DISABLE: u32 = 1;
    let denied: u32;
    // SAFETY: RDPKRU with ecx 0 gives the rights in eax and clears edx; the kernel has keys, as it gave one.
    unsafe { asm!("rdpkru", out("eax") denied, out("edx") _, in("ecx") 0, options(nomem, nostack)) };
    let denied = denied | ACCESS_DISABLE << (2 * key);
    // SAFETY: WRPKRU with ecx and edx 0 denies one more key, which only the page in `prove` carries.
    unsafe { asm!("wrpkru", in("eax") denied, in("ecx") 0, in("edx") 0, options(nostack)) };
}

extern "C" fn faulted(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: SA_SIGINFO gives a siginfo of the fault, whose address field is the one that SIGSEGV fills.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr()) };
    let as_meant = code == SEGV_PKUERR && address.cast() == DENIED.load(Ordering::Relaxed);
    // SAFETY: _exit is allowed in a handler.
    unsafe { libc::_exit(i32::from(!as_meant)) }
}
