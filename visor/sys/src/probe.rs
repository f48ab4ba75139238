//! Tries what the kernel can do, because a version number is no evidence: distributions port features back,
//! and sandboxes take them away.

use std::io;

/// Whether system calls of user code can be caught (syscall user dispatch).
pub fn syscall_dispatch() -> io::Result<()> {
    const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
    const OFF: libc::c_ulong = 0;
    const NONE: libc::c_ulong = 0;
    // SAFETY: PR_SET_SYSCALL_USER_DISPATCH(2const): "off" takes no addresses. A thread that has dispatch on would lose it, which
    // denies it nothing.
    let answer = unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, OFF, NONE, NONE, NONE) };
    result(answer.into())
}

/// Whether guard pages can be set up without a mapping of their own (`MADV_GUARD_INSTALL`).
pub fn guard_pages() -> io::Result<()> {
    const MADV_GUARD_INSTALL: libc::c_int = 102;
    const PAGE: usize = monohull_abi::layout::PAGE as usize;
    let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new anonymous mapping at an address the kernel chooses replaces nothing.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, rights, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the page was mapped just above, and nothing else has its address.
    let answer = result(unsafe { libc::madvise(page, PAGE, MADV_GUARD_INSTALL) }.into());
    // SAFETY: as above: the mapping is ours alone.
    unsafe { libc::munmap(page, PAGE) };
    answer
}

/// Whether page faults can be handled in this process (userfaultfd for user-mode faults).
pub fn userfaultfd() -> io::Result<()> {
    const UFFD_USER_MODE_ONLY: libc::c_int = 1;
    // SAFETY: userfaultfd(2): the call takes flags only and makes a descriptor.
    let descriptor = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | UFFD_USER_MODE_ONLY) };
    result(descriptor)?;
    // SAFETY: the descriptor was made just above, and nothing else owns it.
    unsafe { libc::close(descriptor as libc::c_int) };
    Ok(())
}

/// Whether system calls can be filtered with the action "kill the process" (seccomp).
pub fn seccomp() -> io::Result<()> {
    let action: u32 = libc::SECCOMP_RET_KILL_PROCESS;
    let flags: libc::c_uint = 0;
    // SAFETY: seccomp(2): the kernel reads one u32 at the address given, which is that of a live local.
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, flags, &raw const action) };
    result(answer)
}

/// Which version of Landlock the kernel has.
pub fn landlock() -> io::Result<i64> {
    const VERSION: libc::c_uint = 1;
    let (nothing, size): (*const libc::c_void, libc::size_t) = (std::ptr::null(), 0);
    // SAFETY: landlock_create_ruleset(2): asked for its version, the kernel reads no memory and changes nothing.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, size, VERSION) };
    result(answer)?;
    Ok(answer)
}

fn result(answer: libc::c_long) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
