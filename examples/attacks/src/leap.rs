//! Jumps anywhere, with every register chosen, and comes back if the code there returns.

use core::arch::naked_asm;
use core::mem::offset_of;

/// What the registers hold on arrival.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Registers {
    pub(crate) rax: u64,
    pub(crate) rcx: u64,
    pub(crate) rdx: u64,
    pub(crate) rdi: u64,
    pub(crate) rsi: u64,
    pub(crate) r8: u64,
    pub(crate) r9: u64,
    pub(crate) r10: u64,
    pub(crate) r11: u64,
    /// For rbx, rbp and r12 to r15.
    pub(crate) saved: u64,
    /// The stack to arrive with; 0 for one's own, with the way back on top.
    pub(crate) rsp: u64,
}

/// Jumps to `address` as a call does, and returns what is in `rax` afterwards. If `frame` is not null, the stack pointer that
/// leads back is also left there.
///
/// # Safety
/// None; it is an attack.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn leap(address: u64, registers: &Registers, frame: *mut u64) -> u64 {
    naked_asm!(
        // What a callee must preserve, then the address, which no register is left for.
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rdi",
        // The call below pushes its return address just there.
        "test rdx, rdx",
        "jz 2f",
        "lea rax, [rsp - 8]",
        "mov [rdx], rax",
        "lea rax, [rip + 4f]",
        "mov [rsp - 8], rax",
        "2:",
        "mov r11, [rsi + {rsp}]",
        "test r11, r11",
        "jnz 3f",
        // All registers, the table's own last.
        "mov rax, [rsi + {rax}]",
        "mov rcx, [rsi + {rcx}]",
        "mov rdx, [rsi + {rdx}]",
        "mov rdi, [rsi + {rdi}]",
        "mov r8, [rsi + {r8}]",
        "mov r9, [rsi + {r9}]",
        "mov r10, [rsi + {r10}]",
        "mov r11, [rsi + {r11}]",
        "mov rbx, [rsi + {saved}]",
        "mov rbp, rbx",
        "mov r12, rbx",
        "mov r13, rbx",
        "mov r14, rbx",
        "mov r15, rbx",
        "mov rsi, [rsi + {rsi}]",
        "call [rsp]",
        "4:",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        // With a stack that is not one's own nothing can be pushed, and the code never returns. The address is in rbx.
        "3:",
        "mov rbx, rdi",
        "mov rsp, r11",
        "mov rax, [rsi + {rax}]",
        "mov rcx, [rsi + {rcx}]",
        "mov rdx, [rsi + {rdx}]",
        "mov rdi, [rsi + {rdi}]",
        "mov r8, [rsi + {r8}]",
        "mov r9, [rsi + {r9}]",
        "mov r10, [rsi + {r10}]",
        "mov r11, [rsi + {r11}]",
        "mov rsi, [rsi + {rsi}]",
        "jmp rbx",
        rax = const offset_of!(Registers, rax),
        rcx = const offset_of!(Registers, rcx),
        rdx = const offset_of!(Registers, rdx),
        rdi = const offset_of!(Registers, rdi),
        rsi = const offset_of!(Registers, rsi),
        r8 = const offset_of!(Registers, r8),
        r9 = const offset_of!(Registers, r9),
        r10 = const offset_of!(Registers, r10),
        r11 = const offset_of!(Registers, r11),
        saved = const offset_of!(Registers, saved),
        rsp = const offset_of!(Registers, rsp),
    )
}
