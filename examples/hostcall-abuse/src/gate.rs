//! A hostcall with any number at all.

use core::arch::asm;

/// Leaves through the gate with all 64 bits of `number`.
#[inline(never)]
pub(crate) fn any_hostcall(number: u64, args: [u64; 6]) -> i64 {
    let value: i64;
    // SAFETY: what the gate does not preserve is saved on the stack or declared; the stack is balanced.
    unsafe {
        asm!(
            "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
            "call gs:[0]",
            "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
            inlateout("rax") number => value,
            inlateout("rdi") args[0] => _,
            inlateout("rsi") args[1] => _,
            inlateout("rdx") args[2] => _,
            inlateout("rcx") args[3] => _,
            inlateout("r8") args[4] => _,
            inlateout("r9") args[5] => _,
            clobber_abi("C"),
        );
    }
    value
}

/// The direction flag: string instructions run backwards.
const DF: u64 = 1 << 10;
/// The alignment-check flag.
const AC: u64 = 1 << 18;
/// The nested-task flag.
const NT: u64 = 1 << 14;

/// What a function may set before a hostcall, by name: bits of the flags register, MXCSR, x87 control word.
pub(crate) const ODD: [(&str, u64, u32, u16); 6] = [
    ("direction", DF, 0x1f80, 0x037f),
    ("alignment check", AC, 0x1f80, 0x037f),
    ("nested task", NT, 0x1f80, 0x037f),
    ("unmasked exceptions", 0, 0, 0x037f),
    ("unmasked x87 exceptions", 0, 0x1f80, 0x0300),
    ("all of them", DF | AC | NT, 0, 0x0300),
];

/// Makes a hostcall with flags and control words that trusted code must never see.
#[inline(never)]
pub(crate) fn odd_hostcall(number: u64, args: [u64; 6], flags: u64, mxcsr: u32, x87: u16) -> i64 {
    let value: i64;
    let words = [u64::from(mxcsr), u64::from(x87), 0x1f80, 0x037f, flags];
    // SAFETY: as above; flags and control words are as usual again afterwards.
    unsafe {
        asm!(
            "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
            "push r10",
            "ldmxcsr [r10]",
            "fldcw [r10 + 8]",
            "pushfq",
            "mov r11, [r10 + 32]",
            "or [rsp], r11",
            "popfq",
            "call gs:[0]",
            "pushfq",
            "and dword ptr [rsp], ~(1 << 10 | 1 << 14 | 1 << 18)",
            "popfq",
            "pop r10",
            "ldmxcsr [r10 + 16]",
            "fldcw [r10 + 24]",
            "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
            in("r10") words.as_ptr(),
            inlateout("rax") number => value,
            inlateout("rdi") args[0] => _,
            inlateout("rsi") args[1] => _,
            inlateout("rdx") args[2] => _,
            inlateout("rcx") args[3] => _,
            inlateout("r8") args[4] => _,
            inlateout("r9") args[5] => _,
            clobber_abi("C"),
        );
    }
    value
}
