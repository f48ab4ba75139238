//! The user side of the gate: linked into function images, runs with the function's rights, untrusted.
//!
//! A hostcall is an ordinary function call for the compiler. [`hostcall`] saves what the System V ABI
//! asks a callee to preserve (six registers, the control bits of MXCSR and the x87 control word) on the *user* stack
//! and leaves through the carrier's gate, whose address is the first word at `gs`. While the thread is parked this
//! frame is all that is left of it, besides its control block in the system partition:
//!
//! ```text
//!   …caller's frame…
//!   return address
//!   rbp            ← rbp (frame pointers stay walkable)
//!   rbx r12 r13 r14 r15
//!   mxcsr | x87 cw
//!   return address of the gate   ← user_rsp in the control block
//! ```
#![allow(unsafe_code, reason = "this crate is where Monohull's assembly lives")]

use core::arch::{asm, global_asm};
use core::mem::offset_of;
use monohull_abi::layout::CarrierLine;

global_asm!(
    ".pushsection .text.monohull_leave, \"ax\", @progbits",
    ".p2align 5",
    ".globl monohull_leave",
    ".hidden monohull_leave",
    ".type monohull_leave, @function",
    "monohull_leave:",
    // A frame that backtraces can walk, then the callee-saved registers.
    "push rbp",
    "mov rbp, rsp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    // Control words: the gate gives trusted code, and then us, the defaults.
    "sub rsp, 8",
    "stmxcsr [rsp]",
    "fnstcw [rsp + 4]",
    // Out. rax = number, rdi rsi rdx rcx r8 r9 = arguments; comes back with rax = value, perhaps on another carrier.
    "call qword ptr gs:[0]",
    // Put the control words back if they were not the defaults (0x1f80 without the status bits, 0x037f).
    "mov ecx, [rsp]",
    "and ecx, 0xffc0",
    "cmp ecx, 0x1f80",
    "jne 2f",
    "cmp word ptr [rsp + 4], 0x037f",
    "jne 2f",
    "3:",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    "2:",
    "ldmxcsr [rsp]",
    "fldcw [rsp + 4]",
    "jmp 3b",
    ".size monohull_leave, . - monohull_leave",
    ".popsection",
);

unsafe extern "C" {
    fn monohull_leave();
    /// Where an image begins ([`monohull_abi::types::START_SYMBOL`]).
    #[cfg(panic = "unwind")]
    fn monohull_start();
}

/// Makes hostcall `number`; the value is the call's result, negative for a [`monohull_abi::Errno`].
///
/// Arguments that are addresses are only claims to the other side, which checks them; a wrong number or argument is
/// answered with an error. Only `EXIT`, `ABORT` and `THREAD_EXIT` do not come back.
///
/// # Panics
/// In a program of the host, such as a unit test of a function crate: there is no gate.
#[inline]
pub fn hostcall(number: u32, args: [u64; 6]) -> i64 {
    #[cfg(panic = "unwind")]
    if !is_in_image() {
        no_domain(number);
    }
    let value: i64;
    // SAFETY: `monohull_leave` keeps to the System V ABI, whose clobbers are declared. The gate behind it belongs to
    // the carrier that entered this thread, and `gs` has pointed to that carrier's line ever since.
    unsafe {
        asm!(
            "call {leave}",
            leave = sym monohull_leave,
            inlateout("rax") u64::from(number) as i64 => value,
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

/// Defines the entry point of a user thread: a symbol to which the gate returns with a fresh stack and a word in
/// `rax`. It aligns the stack and calls `$body(word) -> !`.
///
/// `$name` must be unique in the image.
#[macro_export]
macro_rules! thread_entry {
    ($(#[$meta:meta])* $vis:vis fn $name:ident => $body:path) => {
        $(#[$meta])*
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        $vis unsafe extern "C" fn $name() {
            // rbp = 0 ends the chain of frames; the pushed zero is an unused return address.
            ::core::arch::naked_asm!(
                "xor ebp, ebp",
                "mov rdi, rax",
                "and rsp, -16",
                "push rbp",
                "jmp {body}",
                body = sym $body,
            )
        }
    };
}

/// Whether this code is linked into an image, which has an entry point. What is compiled to abort always is.
#[cfg(panic = "unwind")]
#[inline]
fn is_in_image() -> bool {
    let start: u64;
    // SAFETY: reads a word that the linker or the loader fills: the symbol's address, 0 if nothing defines it.
    unsafe {
        asm!(
            ".weak {symbol}",
            "mov {}, qword ptr [rip + {symbol}@GOTPCREL]",
            out(reg) start,
            symbol = sym monohull_start,
            options(pure, nomem, nostack, preserves_flags),
        );
    };
    start != 0
}

#[cfg(panic = "unwind")]
#[cold]
#[track_caller]
fn no_domain(number: u32) -> ! {
    let name = monohull_abi::number::name_of(number).unwrap_or("?");
    panic!("hostcall {name} ({number}): this program runs on the host; only a function in a workflow can make it")
}

/// Address of the calling thread's header ([`CarrierLine::thread_header`](monohull_abi::layout::CarrierLine)). It is the
/// same as long as the thread lives, on every carrier and on every stack that the thread switches to.
#[inline(always)]
pub fn thread_header() -> u64 {
    let header: u64;
    // SAFETY: `gs` points to the line of the carrier that the thread is on, which user code may read. The run loop wrote
    // the word before it entered the thread.
    unsafe {
        asm!(
            "mov {}, gs:[{word}]",
            out(reg) header,
            word = const offset_of!(CarrierLine, thread_header),
            options(readonly, nostack, preserves_flags),
        );
    };
    header
}

/// The user stack pointer.
#[inline(always)]
pub fn stack_pointer() -> u64 {
    let rsp: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) rsp, options(nomem, nostack, preserves_flags)) };
    rsp
}
