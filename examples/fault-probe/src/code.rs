//! Code that faults, and the way back from it.
//!
//! ```text
//!   attempt(f, argument, buffer)     keeps the callee-saved registers and the stack pointer, rbp = buffer
//!     f: between START and END       faults ──▶ record (bp = buffer) ──▶ entry: handler ──▶ resume(buffer)
//!   ◀── 0: it has returned, 1: it has faulted, and the buffer has the record
//! ```

use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::number::FAULT_HANDLER;
use monohull_abi::types::FaultRecord;
use monohull_trampoline::user::hostcall;

core::arch::global_asm!(
    ".pushsection .text.fault_probe, \"ax\", @progbits",
    ".p2align 4",
    ".globl fault_probe_start, fault_probe_load, fault_probe_store, fault_probe_ud2, fault_probe_divide, fault_probe_overflow",
    ".globl fault_probe_breakpoint, fault_probe_system_call, fault_probe_privileged, fault_probe_counter, fault_probe_stack",
    ".globl fault_probe_end",
    "fault_probe_start:",
    "fault_probe_load: mov rax, [rdi]",
    "ret",
    "fault_probe_store: mov [rdi], rdi",
    "ret",
    "fault_probe_ud2: ud2",
    "fault_probe_divide: xor edx, edx",
    "mov eax, 1",
    "xor ecx, ecx",
    "div ecx",
    "ret",
    // The quotient of -2^31 and -1 does not fit.
    "fault_probe_overflow: mov eax, 0x80000000",
    "cdq",
    "mov ecx, -1",
    "idiv ecx",
    "ret",
    "fault_probe_breakpoint: int3",
    "ret",
    "fault_probe_system_call: mov eax, 39",
    "syscall",
    "ret",
    "fault_probe_privileged: hlt",
    "fault_probe_counter: rdtsc",
    "ret",
    // With the stack pointer elsewhere.
    "fault_probe_stack: mov rsp, rdi",
    "ud2",
    "fault_probe_end:",
    "ud2",
    ".popsection",
);

/// The labels of the assembly above.
macro_rules! labels {
    ($( $name:ident = $label:ident, )*) => {
        unsafe extern "C" { $( fn $label(); )* }
        $( pub(crate) fn $name() -> u64 { $label as *const () as u64 } )*
    };
}

labels! {
    start = fault_probe_start,
    load = fault_probe_load,
    store = fault_probe_store,
    ud2 = fault_probe_ud2,
    divide = fault_probe_divide,
    overflow = fault_probe_overflow,
    breakpoint = fault_probe_breakpoint,
    system_call = fault_probe_system_call,
    privileged = fault_probe_privileged,
    counter = fault_probe_counter,
    stack = fault_probe_stack,
    end = fault_probe_end,
}

/// What `attempt` keeps, and what the handler leaves.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Buffer {
    rsp: u64,
    pub(crate) record: FaultRecord,
    /// Which of the handlers it was.
    pub(crate) by: u64,
}

/// Calls `function(argument)`: whether it has faulted, and with what.
pub(crate) fn faults(function: u64, argument: u64) -> Option<Buffer> {
    let mut buffer = Buffer::default();
    // SAFETY: the functions above keep to the calling convention, and use neither rbp nor more than the stack that `attempt` leaves.
    (unsafe { attempt(function, argument, &raw mut buffer) } != 0).then_some(buffer)
}

#[unsafe(naked)]
unsafe extern "C" fn attempt(function: u64, argument: u64, buffer: *mut Buffer) -> u64 {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov [rdx], rsp",
        "mov rbp, rdx",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "xor eax, eax",
        "jmp {leave}",
        leave = sym leave,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn leave() {
    naked_asm!("add rsp, 8", "pop r15", "pop r14", "pop r13", "pop r12", "pop rbx", "pop rbp", "ret")
}

#[unsafe(naked)]
unsafe extern "C" fn resume(buffer: *const Buffer) -> ! {
    naked_asm!("mov rsp, [rdi]", "mov eax, 1", "jmp {leave}", leave = sym leave)
}

monohull_trampoline::thread_entry!(pub(crate) fn fault_probe_first => first);
monohull_trampoline::thread_entry!(pub(crate) fn fault_probe_second => second);
monohull_trampoline::thread_entry!(pub(crate) fn fault_probe_broken => broken);

/// The handler that is usually meant.
extern "C" fn first(record: u64) -> ! {
    back(record, 1)
}

/// Another one.
extern "C" fn second(record: u64) -> ! {
    back(record, 2)
}

fn back(record: u64, by: u64) -> ! {
    // SAFETY: the system has written the record, whose bp is the buffer that `attempt` has put there; its frame is still there.
    unsafe {
        let record = *(record as *const FaultRecord);
        let buffer = record.bp as *mut Buffer;
        (*buffer).record = record;
        (*buffer).by = by;
        resume(buffer)
    }
}

/// A handler that is wrong itself.
extern "C" fn broken(_: u64) -> ! {
    // SAFETY: none: that is the test.
    unsafe { core::ptr::null_mut::<u64>().write_volatile(1) };
    monohull_std::process::abort()
}

/// How often `again` and `deeper` have been entered.
pub(crate) static ROUNDS: AtomicU64 = AtomicU64::new(0);

/// A handler that goes back to the instruction, with the stack as it was there: for ever.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn again() -> ! {
    // The record lies below the red zone, and somewhat lower to be aligned. What is above it is not needed any more.
    naked_asm!("lock inc qword ptr [rip + {rounds}]", "mov rcx, [rax]", "add rsp, 160", "jmp rcx", rounds = sym ROUNDS)
}

/// A handler that goes back to the instruction, on a stack that gets smaller.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn deeper() -> ! {
    naked_asm!("lock inc qword ptr [rip + {rounds}]", "mov rcx, [rax]", "jmp rcx", rounds = sym ROUNDS)
}

/// Registers a handler for a range: the call's answer.
pub(crate) fn register(entry: u64, start: u64, bytes: u64) -> i64 {
    hostcall(FAULT_HANDLER, [entry, start, bytes, 0, 0, 0])
}

/// Registers a handler for all of the code above.
pub(crate) fn handle_with(entry: u64) {
    assert_eq!(register(entry, start(), end() - start()), 0, "the handler is registered");
    ROUNDS.store(0, Ordering::Relaxed);
}
