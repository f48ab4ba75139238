//! Whether this machine has protection keys.
//!
//! There is one answer to that question, and everything that wants to know asks here: the processor must have them
//! *and* the kernel must have switched them on *and* a key must really be had. A virtual machine or a container may
//! fail at any of the three.

use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::io;
use std::sync::OnceLock;

/// Whether protection keys can be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Support {
    /// They can.
    Available,
    /// They cannot.
    Missing(Missing),
}

/// Why protection keys cannot be used. The host is at fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Missing {
    /// the processor has no protection keys
    #[error("the processor has no protection keys (PKU)")]
    Processor,
    /// the processor has protection keys, but the kernel has not switched them on
    #[error("the processor has protection keys, but the kernel has not switched them on (OSPKE)")]
    Kernel,
    /// the kernel gives no protection key
    #[error("the kernel gives no protection key: {0}")]
    Refused(String),
}

impl Support {
    /// Whether protection keys can be used.
    pub fn is_available(&self) -> bool {
        *self == Support::Available
    }
}

/// Asks the processor and the kernel, once.
pub fn support() -> Support {
    static ANSWER: OnceLock<Support> = OnceLock::new();
    ANSWER.get_or_init(ask).clone()
}

fn ask() -> Support {
    const PKU: u32 = 1 << 3;
    const OSPKE: u32 = 1 << 4;
    const FEATURES: u32 = 7;
    let features = if __cpuid(0).eax >= FEATURES { __cpuid_count(FEATURES, 0).ecx } else { 0 };
    if features & PKU == 0 {
        return Support::Missing(Missing::Processor);
    }
    if features & OSPKE == 0 {
        return Support::Missing(Missing::Kernel);
    }
    match try_key() {
        Ok(()) => Support::Available,
        Err(error) => Support::Missing(Missing::Refused(error.to_string())),
    }
}

/// Whether keys are put in force without being asked for: where there are any, and the kernel can tell a process of a
/// fault that happens while key 0 is denied. Kernels before 6.12 cannot write the signal's frame then and end the process,
/// unless a tracer opens the keys for them (`process::opener`), which costs each signal a turn; there keys must be asked for.
pub fn by_default() -> bool {
    support().is_available() && kernel_version() >= (6, 12)
}

/// The running kernel's version; (0, 0) if it cannot be told.
fn kernel_version() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Takes a key and gives it back.
fn try_key() -> io::Result<()> {
    let (flags, rights) = (0usize, 0usize);
    // SAFETY: pkey_alloc takes two integers and touches no memory; a key nobody has tagged pages with changes nothing.
    let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, flags, rights) };
    if key < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the key was allocated just above and no page carries it, so giving it back changes no access rights.
    unsafe { libc::syscall(libc::SYS_pkey_free, key) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_stable_and_agrees_with_the_kernel() {
        assert_eq!(support(), support());
        let flags = std::fs::read_to_string("/proc/cpuinfo").expect("/proc/cpuinfo");
        if support().is_available() {
            assert!(flags.contains(" ospke"), "a key was given although the kernel does not list OSPKE");
        }
    }
}
