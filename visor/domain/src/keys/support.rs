//! Whether this machine has protection keys.
//!
//! The processor must have them *and* the kernel must have switched them on *and* it must be possible to allocate a key. A
//! virtual machine or a container may fail at any of the three. All code that needs the answer gets it here.

use monohull_trampoline::system::extended_states;
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
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum Missing {
    #[error("the processor has no protection keys (PKU)")]
    Processor,
    #[error("the processor has protection keys, but the kernel has not switched them on (OSPKE)")]
    Kernel,
    /// the kernel has switched on registers that the gates do not clear
    #[error(
        "the kernel has switched on the registers r16 to r31 (APX), which Monohull's gates do not clear: \
         the next function could read what one has left there"
    )]
    ExtendedRegisters,
    #[error("the kernel refuses a protection key: {0}")]
    Refused(String),
}

impl Support {
    /// Whether protection keys can be used.
    pub fn is_available(&self) -> bool {
        *self == Support::Available
    }
}

/// Queries the processor and the kernel, once.
pub fn support() -> Support {
    static ANSWER: OnceLock<Support> = OnceLock::new();
    ANSWER.get_or_init(ask).clone()
}

fn ask() -> Support {
    const FEATURES: u32 = 7;
    let features = if __cpuid(0).eax >= FEATURES { __cpuid_count(FEATURES, 0).ecx } else { 0 };
    let lacks = lacking(features, extended_states());
    match lacks.map_or_else(|| try_key().map_err(|error| Missing::Refused(error.to_string())), Err) {
        Ok(()) => Support::Available,
        Err(missing) => Support::Missing(missing),
    }
}

/// What the processor and what the kernel made of it lack: `features` are CPUID's (leaf 7, ecx), `states` the sets of registers
/// that the kernel has switched on (XCR0, Intel SDM volume 1, 13.3).
fn lacking(features: u32, states: u64) -> Option<Missing> {
    const PKU: u32 = 1 << 3;
    const OSPKE: u32 = 1 << 4;
    const APX: u64 = 1 << 19;
    if features & PKU == 0 {
        return Some(Missing::Processor);
    }
    if features & OSPKE == 0 {
        return Some(Missing::Kernel);
    }
    (states & APX != 0).then_some(Missing::ExtendedRegisters)
}

/// Whether keys are put in force without being asked for: where there are any, and the kernel can deliver the signal of a
/// fault that happens while key 0 is denied. Kernels before 6.12 cannot write the signal's frame then and end the process,
/// unless a tracer opens the keys for them (`worker::pkru_tracer`), which costs each signal a turn; there keys must be asked for.
pub fn by_default() -> bool {
    support().is_available() && kernel_version() >= (6, 12)
}

/// The running kernel's version; (0, 0) if it is unknown.
fn kernel_version() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Allocates a key and frees it.
fn try_key() -> io::Result<()> {
    let (flags, rights) = (0usize, 0usize);
    // SAFETY: pkey_alloc takes two integers and touches no memory; a key that no page has changes nothing.
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

    /// CPUID's leaf 7: PKU and OSPKE.
    const KEYS: u32 = 0b11 << 3;
    /// What a server has switched on today: x87, SSE, AVX, AVX-512, keys, AMX.
    const USUAL: u64 = 0x602e7;

    #[test]
    fn keys_are_refused_where_registers_would_not_be_cleared() {
        assert_eq!(lacking(KEYS, USUAL), None);
        assert_eq!(lacking(KEYS, USUAL | 1 << 19), Some(Missing::ExtendedRegisters));
        assert!(Missing::ExtendedRegisters.to_string().contains("r16 to r31 (APX)"));
    }

    #[test]
    fn keys_take_both_the_processor_and_the_kernel() {
        assert_eq!(lacking(0, USUAL), Some(Missing::Processor));
        assert_eq!(lacking(1 << 3, USUAL), Some(Missing::Kernel));
    }

    #[test]
    fn the_kernel_reports_what_it_has_switched_on() {
        assert_eq!(extended_states() & 0b11, 0b11, "x87 and SSE are always on");
    }

    #[test]
    fn the_answer_is_stable_and_agrees_with_the_kernel() {
        assert_eq!(support(), support());
        let flags = std::fs::read_to_string("/proc/cpuinfo").expect("/proc/cpuinfo");
        if support().is_available() {
            assert!(flags.contains(" ospke"), "a key was given although the kernel does not list OSPKE");
        }
    }
}
