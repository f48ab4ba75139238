//! The system side of the gates: how user code is entered and what it leaves through.
//!
//! ```text
//!        trusted stack                              user stack
//!   run loop ── enter ─▶ saves 6 registers
//!                        selector := BLOCK
//!                        [WRPKRU imm; check imm]
//!                        takes the user stack ────▶ pops an address and goes on there
//!                                                     …user code…
//!                                                   call gs:[0]  (number in rax, six arguments)
//!   run loop ◀─ exit ─── selector := ALLOW   ◀────── exit gate of this carrier
//!                        control words, flags
//!                        restores 6 registers        (or a signal handler, through `abandon`)
//! ```
//!
//! While user code runs, the only system frame is `enter`'s. A thread that parks is just not entered again: nothing
//! of it stays on a system stack.
//!
//! Each carrier has an exit gate of its own, because nothing that user code could have written may say whose stack to
//! take: the gate holds the carrier block's fixed address as an immediate. It then compares the block's thread pointer
//! with `fs:[0]`, so that jumping to *another* carrier's gate ends the process instead of borrowing its stack.
//!
//! With protection keys an entry goes through a stub for each carrier and key, which takes nothing from registers:
//! stack and value come from a frame in memory of that very key, at an address that is an immediate.
#![allow(unsafe_code, reason = "this crate is where Monohull's assembly lives")]

use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::arch::{asm, global_asm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use monohull_abi::layout::{
    CARRIER_BASE, CARRIER_MAX, CARRIER_SIZE, CarrierLine, FRAMES_BASE, INFO_BASE, KEY_COUNT, PAGE, SELECTOR_ALLOW,
    SELECTOR_BLOCK,
};
use monohull_abi::module::{Call, Handler, Outcome};

/// What the kernel and the handler know about a fault or an asynchronous end of user code.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct FaultInfo {
    /// Signal number.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// `si_addr`, or the system call's number for SIGSYS.
    pub address: u64,
    /// Instruction pointer of the user code.
    pub ip: u64,
    /// Its stack pointer.
    pub sp: u64,
    /// Its frame pointer.
    pub bp: u64,
}

/// What one carrier thread needs to cross: lies at the top of its carrier block, at an address that its gate knows.
#[derive(Debug)]
#[repr(C)]
pub struct CarrierContext {
    /// The trusted stack while user code runs.
    system_rsp: u64,
    /// The control block that the exit gate fills.
    current: *mut Call,
    /// The selector byte of this carrier.
    selector: *mut u8,
    /// Where `enter` jumps last: an entry stub.
    entry: u64,
    /// `fs:[0]` of this carrier's thread.
    thread_pointer: u64,
    /// Which vector registers exist; see [`VectorState`].
    vectors: u32,
    /// Scratch for MXCSR and the x87 control word.
    control_words: [u32; 2],
    /// Which carrier this is.
    index: u32,
    /// What ended user code, if `enter` returned [`Exit::Fault`].
    pub fault: FaultInfo,
}

/// How large the vector registers are that `enter` clears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum VectorState {
    /// XMM only.
    Sse = 0,
    /// YMM.
    Avx = 1,
    /// ZMM, with the upper sixteen and the mask registers.
    Avx512 = 2,
}

/// The two families of gates; chosen once at start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// No protection keys: everything but WRPKRU.
    Plain,
    /// With WRPKRU.
    Keys,
}

/// Why user code stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Exit {
    /// It called: the control block holds number and arguments.
    Hostcall = 0,
    /// It faulted, or was taken off by a signal: [`CarrierContext::fault`] says how.
    Fault = 1,
}

/// Bytes between two exit gates.
const EXIT_STRIDE: usize = 256;
/// Bytes between two entry stubs with keys.
const ENTRY_STRIDE: usize = 128;
/// Offset of the context in a carrier block: its last page.
const CONTEXT_OFFSET: u64 = CARRIER_SIZE - PAGE;
/// The key that functions may read and never write.
pub const INFO_KEY: u32 = 1;
/// The first key of functions.
pub const FIRST_FUNCTION_KEY: u32 = 2;

/// How many keys functions have among them. There are no stubs for the others: a stub for key 0 would be a gift.
const FUNCTION_KEYS: usize = KEY_COUNT - FIRST_FUNCTION_KEY as usize;

/// PKRU for user code of `key`: every key denied but its own, and the info page's readable.
pub const fn user_pkru(key: u32) -> u32 {
    !(0b11 << (2 * key)) & !(0b01 << (2 * INFO_KEY))
}

const MXCSR_DEFAULT: u32 = 0x1f80;
const X87_DEFAULT: u32 = 0x037f;
/// MXCSR without its status bits: what a callee must preserve.
const MXCSR_CONTROL: u32 = 0xffc0;
/// EFLAGS that must not follow user code out: trap (8), nested task (14), alignment check (18).
const BAD_FLAGS: u32 = 1 << 8 | 1 << 14 | 1 << 18;
/// The system call that sets fs and gs, and its two orders (`asm/prctl.h`).
const ARCH_PRCTL: u64 = 158;
const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
/// What `rax` holds when a guarded handler panicked.
const PANICKED: u64 = u64::MAX;

global_asm!(
    ".pushsection .text.monohull_gates, \"ax\", @progbits",

    // ── enter(context: rdi, call: rsi) -> Exit: jumped to, with a return address on the stack; see `enter` ────────────────────────────────────────────────────────────────────
    ".p2align 6",
    ".globl monohull_enter",
    ".hidden monohull_enter",
    ".type monohull_enter, @function",
    "monohull_enter:",
    // The trusted side of the switch: callee-saved registers on the trusted stack, its top in the context.
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rdi + {system_rsp}], rsp",
    "mov [rdi + {current}], rsi",
    // What user code starts with: its stack and one value. (With keys the stub takes both from its frame instead.)
    "mov r11, [rsi + {user_rsp}]",
    "mov rax, [rsi + {value}]",
    "mov r10, [rdi + {entry}]",
    "mov rdx, [rdi + {selector}]",
    // Vector registers hold whatever trusted code computed last.
    "mov ecx, [rdi + {vectors}]",
    "test ecx, ecx",
    "jz 4f",
    "vzeroall",
    "cmp ecx, 2",
    "jne 5f",
    ".irp n,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "vpxord xmm\\n, xmm\\n, xmm\\n",
    ".endr",
    ".irp n,0,1,2,3,4,5,6,7",
    "kxorw k\\n, k\\n, k\\n",
    ".endr",
    "5:",
    // General registers likewise; ecx and edx must be zero for WRPKRU anyway.
    "xor ebx, ebx",
    "xor ebp, ebp",
    "xor esi, esi",
    "xor edi, edi",
    "xor r8d, r8d",
    "xor r9d, r9d",
    "xor r12d, r12d",
    "xor r13d, r13d",
    "xor r14d, r14d",
    "xor r15d, r15d",
    "xor ecx, ecx",
    // From here on a system call of this thread is a fault, and a fault is user code's.
    "mov byte ptr [rdx], {block}",
    "xor edx, edx",
    "jmp r10",
    "4:",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "pxor xmm\\n, xmm\\n",
    ".endr",
    "jmp 5b",
    ".size monohull_enter, . - monohull_enter",

    // ── the last step in, without keys: r11 = user stack, rax = value ─────────────────────────────────────────────
    ".p2align 6",
    ".globl monohull_entry_plain",
    ".hidden monohull_entry_plain",
    ".type monohull_entry_plain, @function",
    "monohull_entry_plain:",
    "mov rsp, r11",
    "xor r10d, r10d",
    "xor r11d, r11d",
    "ret",
    ".size monohull_entry_plain, . - monohull_entry_plain",

    // ── the last step in, with keys: a stub for each carrier and function key ──────────────────────────────────────────────
    // eax is compared with an immediate, because registers are the attacker's who jumps to the WRPKRU itself, and
    // memory of key 0 is out of reach there.
    ".p2align 7",
    ".globl monohull_entry_keys",
    ".hidden monohull_entry_keys",
    ".type monohull_entry_keys, @function",
    "monohull_entry_keys:",
    ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    ".irp k,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    ".p2align 7",
    "xor ecx, ecx",
    "xor edx, edx",
    "mov eax, ~(3 << (2 * \\k)) & ~(1 << (2 * {info_key})) & 0xffffffff",
    "wrpkru",
    "cmp eax, ~(3 << (2 * \\k)) & ~(1 << (2 * {info_key})) & 0xffffffff",
    "jne monohull_kill",
    // The frame is used once: a stale one holds a null stack.
    "movabs r11, {frames} + (\\i * {keys} + \\k) * {page}",
    "mov rsp, [r11]",
    "mov rax, [r11 + 8]",
    "mov [r11], rcx",
    "xor r10d, r10d",
    "xor r11d, r11d",
    "ret",
    ".endr",
    ".endr",
    ".size monohull_entry_keys, . - monohull_entry_keys",

    // ── out, without keys: one gate for each carrier ──────────────────────────────────────────────────────────────
    ".p2align 8",
    ".globl monohull_exit_plain",
    ".hidden monohull_exit_plain",
    ".type monohull_exit_plain, @function",
    "monohull_exit_plain:",
    ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    ".p2align 8",
    "movabs r11, {carriers} + \\i * {carrier_size} + {context}",
    "jmp monohull_exit_tail",
    ".endr",
    ".p2align 8",
    ".size monohull_exit_plain, . - monohull_exit_plain",

    // ── out, with keys: rights first ──────────────────────────────────────────────────────────────────────────────
    ".p2align 8",
    ".globl monohull_exit_keys",
    ".hidden monohull_exit_keys",
    ".type monohull_exit_keys, @function",
    "monohull_exit_keys:",
    ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    ".p2align 8",
    // rax, rcx and rdx carry the call; the callee-saved registers are on the user stack by contract.
    "mov r12, rax",
    "mov r13, rcx",
    "mov r14, rdx",
    "xor eax, eax",
    "xor ecx, ecx",
    "xor edx, edx",
    "wrpkru",
    "test eax, eax",
    "jnz monohull_kill",
    "mov rax, r12",
    "mov rcx, r13",
    "mov rdx, r14",
    "movabs r11, {carriers} + \\i * {carrier_size} + {context}",
    "jmp monohull_exit_tail",
    ".endr",
    ".p2align 8",
    ".size monohull_exit_keys, . - monohull_exit_keys",

    // ── the common rest of both: r11 = context ────────────────────────────────────────────────────────────────────
    ".p2align 6",
    ".type monohull_exit_tail, @function",
    "monohull_exit_tail:",
    // Has user code lost gs (by loading a selector)? Then this very read faults, while a fault is still user code's: the
    // next one to run here must find its gate.
    "mov r10, gs:[0]",
    // Whose gate is this? User code can lose fs in the same way, but not choose where it points (the checker and the
    // dispatch see to it).
    "mov r10, fs:[0]",
    "cmp r10, [r11 + {thread_pointer}]",
    "jne monohull_kill",
    // The call goes straight into the control block.
    "mov r10, [r11 + {current}]",
    "mov [r10 + {user_rsp}], rsp",
    "mov [r10 + {number}], rax",
    "mov [r10 + {args}], rdi",
    "mov [r10 + {args} + 8], rsi",
    "mov [r10 + {args} + 16], rdx",
    "mov [r10 + {args} + 24], rcx",
    "mov [r10 + {args} + 32], r8",
    "mov [r10 + {args} + 40], r9",
    // Our stack, our right to make system calls.
    "mov rsp, [r11 + {system_rsp}]",
    "mov rdx, [r11 + {selector}]",
    "mov byte ptr [rdx], {allow}",
    // Direction flag, control words and the flags that would trap trusted code.
    "cld",
    "stmxcsr [r11 + {control_words}]",
    "fnstcw [r11 + {control_words} + 4]",
    "pushfq",
    "pop rax",
    "mov ecx, [r11 + {control_words}]",
    "and ecx, {mxcsr_control}",
    "cmp ecx, {mxcsr_default}",
    "jne 6f",
    "cmp word ptr [r11 + {control_words} + 4], {x87_default}",
    "jne 6f",
    "test eax, {bad_flags}",
    "jnz 6f",
    "7:",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "xor eax, eax",
    "pop rcx",
    "jmp rcx",
    "6:",
    "call monohull_defaults",
    "jmp 7b",
    ".size monohull_exit_tail, . - monohull_exit_tail",

    // ── control words and flags as the ABI wants them at a call ───────────────────────────────────────────────────
    ".type monohull_defaults, @function",
    "monohull_defaults:",
    "push 2",
    "popfq",
    "fninit",
    "push {mxcsr_default}",
    "ldmxcsr [rsp]",
    "pop rcx",
    "ret",
    ".size monohull_defaults, . - monohull_defaults",

    // ── abandon(context: rdi, exit: rsi): leave user code from a signal handler, without sigreturn ────────────────
    ".p2align 4",
    ".globl monohull_abandon",
    ".hidden monohull_abandon",
    ".type monohull_abandon, @function",
    "monohull_abandon:",
    "mov rsp, [rdi + {system_rsp}]",
    "call monohull_defaults",
    "mov rax, rsi",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    ".size monohull_abandon, . - monohull_abandon",

    // ── where the kernel enters signal handlers: rdi, rsi, rdx = signal, siginfo, ucontext ────────────────────────
    // The kernel clears the direction and trap flags but leaves alignment check and nested task as user code set them.
    ".p2align 4",
    ".globl monohull_signal_entry",
    ".hidden monohull_signal_entry",
    ".type monohull_signal_entry, @function",
    "monohull_signal_entry:",
    "pushfq",
    "and dword ptr [rsp], ~{bad_flags}",
    "popfq",
    "jmp [rip + {signal_target}]",
    ".size monohull_signal_entry, . - monohull_signal_entry",

    // ── call_guarded(handler: rdi, state: rsi, call: rdx, guard: rcx) -> Outcome in rax:rdx ───────────────────────
    ".p2align 5",
    ".globl monohull_call_guarded",
    ".hidden monohull_call_guarded",
    ".type monohull_call_guarded, @function",
    "monohull_call_guarded:",
    "push rbp",
    "mov rbp, rsp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    // The way back for a panic: this stack. An outer guard is kept, for handlers that call other modules.
    "push [rcx]",
    "mov [rcx], rsp",
    "mov rbx, rcx",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "call rax",
    "8:",
    "pop [rbx]",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    ".size monohull_call_guarded, . - monohull_call_guarded",

    // ── unwind_guard(guard: rdi) -> !: a guarded handler panicked; its frames are forgotten ───────────────────────
    ".globl monohull_unwind_guard",
    ".hidden monohull_unwind_guard",
    ".type monohull_unwind_guard, @function",
    "monohull_unwind_guard:",
    "mov rsp, [rdi]",
    "mov rbx, rdi",
    "mov rax, {panicked}",
    "xor edx, edx",
    "jmp 8b",
    ".size monohull_unwind_guard, . - monohull_unwind_guard",

    // ── copy(to: rdi, from: rsi, len: rdx) -> 0, or -14 if a page on the way cannot be used ───────────────────────
    // A SIGSEGV or SIGBUS whose ip lies between `copy` and `copy_end` continues at `copy_fault`.
    ".p2align 5",
    ".globl monohull_copy",
    ".hidden monohull_copy",
    ".type monohull_copy, @function",
    "monohull_copy:",
    "cmp rdx, 32",
    "ja 2f",
    "cmp rdx, 16",
    "ja 5f",
    "test dl, 8 | 16",
    "jnz 3f",
    "test dl, 4",
    "jnz 4f",
    "2:",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    // 8 to 16 bytes: two words that may overlap; 4 to 7 and 17 to 32 likewise. A word is read whole, so a futex word is not torn.
    "3:",
    "mov rax, [rsi]",
    "mov rcx, [rsi + rdx - 8]",
    "mov [rdi], rax",
    "mov [rdi + rdx - 8], rcx",
    "xor eax, eax",
    "ret",
    "4:",
    "mov eax, [rsi]",
    "mov ecx, [rsi + rdx - 4]",
    "mov [rdi], eax",
    "mov [rdi + rdx - 4], ecx",
    "xor eax, eax",
    "ret",
    "5:",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "xor eax, eax",
    "ret",
    ".globl monohull_copy_end",
    ".hidden monohull_copy_end",
    "monohull_copy_end:",
    ".globl monohull_copy_fault",
    ".hidden monohull_copy_fault",
    "monohull_copy_fault:",
    "mov rax, -14",
    "ret",
    ".size monohull_copy, . - monohull_copy",

    // ── kill: something jumped where only the gates may; no way to go on safely ──────────────────────────────────
    ".globl monohull_kill",
    ".hidden monohull_kill",
    ".type monohull_kill, @function",
    "monohull_kill:",
    "ud2",
    ".size monohull_kill, . - monohull_kill",
    ".popsection",

    system_rsp = const offset_of!(CarrierContext, system_rsp),
    current = const offset_of!(CarrierContext, current),
    selector = const offset_of!(CarrierContext, selector),
    entry = const offset_of!(CarrierContext, entry),
    thread_pointer = const offset_of!(CarrierContext, thread_pointer),
    vectors = const offset_of!(CarrierContext, vectors),
    control_words = const offset_of!(CarrierContext, control_words),
    user_rsp = const offset_of!(Call, user_rsp),
    value = const offset_of!(Call, value),
    number = const offset_of!(Call, number),
    args = const offset_of!(Call, args),
    carriers = const CARRIER_BASE,
    carrier_size = const CARRIER_SIZE,
    context = const CONTEXT_OFFSET,
    frames = const FRAMES_BASE,
    keys = const KEY_COUNT,
    page = const PAGE,
    info_key = const INFO_KEY,
    allow = const SELECTOR_ALLOW,
    block = const SELECTOR_BLOCK,
    mxcsr_control = const MXCSR_CONTROL,
    mxcsr_default = const MXCSR_DEFAULT,
    x87_default = const X87_DEFAULT,
    bad_flags = const BAD_FLAGS,
    panicked = const PANICKED as i64,
    signal_target = sym SIGNAL_TARGET,
);

/// Where [`signal_entry`] goes on.
static SIGNAL_TARGET: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

unsafe extern "C" {
    fn monohull_enter();
    fn monohull_entry_plain();
    fn monohull_entry_keys();
    fn monohull_exit_plain();
    fn monohull_exit_keys();
    fn monohull_abandon(context: *mut CarrierContext, exit: u64) -> !;
    fn monohull_signal_entry();
    fn monohull_call_guarded(
        handler: Handler,
        state: *mut core::ffi::c_void,
        call: *mut Call,
        guard: *mut u64,
    ) -> Outcome;
    fn monohull_unwind_guard(guard: *mut u64) -> !;
    fn monohull_copy(to: *mut u8, from: *const u8, len: usize) -> i64;
    fn monohull_copy_end();
    fn monohull_copy_fault();
}

/// The calling thread's pointer: the first word of its control block, where the x86-64 TLS ABI keeps the block's own
/// address.
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reads memory that every thread of the process has.
    unsafe { asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}

/// Empties the x87 registers, which are the MMX registers too: nothing there passes from one function to another.
/// Where the processor tells which registers are in use, those that are not need no emptying, which is slow.
pub fn clear_x87() {
    if tells_what_is_in_use() && in_use() & X87_STATE == 0 {
        return;
    }
    // SAFETY: compiled code on x86-64 keeps nothing in them across calls, and `fninit` leaves the state the ABI wants.
    unsafe {
        asm!(
            "fninit", "fldz", "fldz", "fldz", "fldz", "fldz", "fldz", "fldz", "fldz", "fninit",
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nomem, nostack)
        );
    }
}

/// The x87 bit of XINUSE.
const X87_STATE: u32 = 1;

/// XINUSE (Intel SDM volume 1, 13.6): which register sets are not in their initial state.
fn in_use() -> u32 {
    let low: u32;
    // SAFETY: only called where XGETBV knows index 1, which is what `tells_what_is_in_use` says.
    unsafe { asm!("xgetbv", in("ecx") 1, out("eax") low, out("edx") _, options(nomem, nostack, preserves_flags)) };
    low
}

/// Whether XGETBV knows index 1; asked of the processor once.
fn tells_what_is_in_use() -> bool {
    /// 0 not asked yet, 1 no, 2 yes.
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    match ANSWER.load(Ordering::Relaxed) {
        0 => {
            let (features, highest) = (__cpuid(1).ecx, __cpuid(0).eax);
            let os_uses_xsave = features >> 27 & 1 == 1;
            let known = os_uses_xsave && highest >= 0xd && __cpuid_count(0xd, 1).eax >> 2 & 1 == 1;
            ANSWER.store(1 + u8::from(known), Ordering::Relaxed);
            known
        }
        answer => answer == 2,
    }
}

/// Address of the context of carrier `index`.
pub const fn context_address(index: usize) -> u64 {
    CARRIER_BASE + index as u64 * CARRIER_SIZE + CONTEXT_OFFSET
}

/// The context of the carrier on whose block `address` lies (a signal handler's own stack, say), if any.
pub fn context_of(address: u64) -> Option<*mut CarrierContext> {
    let offset = address.checked_sub(CARRIER_BASE)?;
    let index = (offset / CARRIER_SIZE) as usize;
    (index < CARRIER_MAX).then(|| context_address(index) as *mut CarrierContext)
}

/// Address of the exit gate of carrier `index`.
pub fn exit_gate(variant: Variant, index: usize) -> u64 {
    assert!(index < CARRIER_MAX);
    let first = match variant {
        Variant::Plain => monohull_exit_plain as *const () as u64,
        Variant::Keys => monohull_exit_keys as *const () as u64,
    };
    first + (index * EXIT_STRIDE) as u64
}

/// Address of the entry stub of carrier `index` for `key`; without keys there is one for all.
pub fn entry_stub(variant: Variant, index: usize, key: u32) -> u64 {
    assert!(index < CARRIER_MAX);
    match variant {
        Variant::Plain => monohull_entry_plain as *const () as u64,
        Variant::Keys => {
            assert!((FIRST_FUNCTION_KEY..KEY_COUNT as u32).contains(&key));
            let stub = index * FUNCTION_KEYS + (key - FIRST_FUNCTION_KEY) as usize;
            monohull_entry_keys as *const () as u64 + (stub * ENTRY_STRIDE) as u64
        }
    }
}

impl CarrierContext {
    /// The context of the calling thread as carrier `index`, to be written to [`context_address`].
    pub fn new(index: usize, vectors: VectorState) -> CarrierContext {
        assert!(index < CARRIER_MAX);
        CarrierContext {
            system_rsp: 0,
            current: core::ptr::null_mut(),
            selector: (INFO_BASE + index as u64 * 64 + 8) as *mut u8,
            entry: entry_stub(Variant::Plain, index, 0),
            thread_pointer: thread_pointer(),
            vectors: vectors as u32,
            control_words: [0; 2],
            index: index as u32,
            fault: FaultInfo::default(),
        }
    }

    /// Which carrier this is.
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// Whether user code is running (as far as this carrier's system calls are concerned).
    pub fn in_user(&self) -> bool {
        // SAFETY: the selector lies on the info page, which is mapped as long as any context exists.
        unsafe { core::ptr::read_volatile(self.selector) == SELECTOR_BLOCK }
    }

    /// Takes the carrier back; for signal handlers that found user code running. Allows system calls again, and puts fs
    /// and gs where trusted code and the next user code expect them: user code loses them by loading a selector.
    pub fn take_back(&mut self) {
        // SAFETY: as above.
        unsafe { core::ptr::write_volatile(self.selector, SELECTOR_ALLOW) }
        let line = self.selector as u64 - offset_of!(CarrierLine, selector) as u64;
        for (order, base) in [(ARCH_SET_FS, self.thread_pointer), (ARCH_SET_GS, line)] {
            // SAFETY: both registers get the values that this thread has had since it was attached.
            unsafe {
                asm!(
                    "syscall",
                    inlateout("rax") ARCH_PRCTL => _,
                    in("rdi") order,
                    in("rsi") base,
                    lateout("rcx") _,
                    lateout("r11") _,
                    options(nostack),
                );
            }
        }
    }
}

/// Runs user code until it needs something.
///
/// # Safety
/// `context` is the calling thread's own, at its [`context_address`]; the thread's `gs` base, selector and alternate
/// stack are set up. `call` stays where it is until this returns, and its `user_rsp` names the user stack to go on
/// with. No lock that a signal handler needs is held.
#[inline(always)]
pub unsafe fn enter(context: *mut CarrierContext, call: *mut Call) -> Exit {
    let exit: u64;
    // The processor predicts a `ret` by the calls it has seen. The way in ends with a `ret` that belongs to the user
    // side's `call gs:[0]`, so the way in must not be a call itself, and the way out not a `ret`: then every prediction
    // holds, which halves the price of the round trip.
    // SAFETY: the caller's promise. The gate saves and restores what the ABI asks a callee to preserve, pops the
    // address that is pushed here, and comes back to it.
    unsafe {
        asm!(
            "lea rax, [rip + 2f]",
            "push rax",
            "jmp {enter}",
            "2:",
            enter = sym monohull_enter,
            inlateout("rdi") context => _,
            inlateout("rsi") call => _,
            lateout("rax") exit,
            clobber_abi("C"),
        );
    }
    match exit {
        0 => Exit::Hostcall,
        _ => Exit::Fault,
    }
}

/// Leaves user code from a signal handler: the pending [`enter`] of this carrier returns [`Exit::Fault`].
///
/// # Safety
/// Called on the alternate stack of the context's own carrier, while its `enter` is pending, with system calls
/// allowed. Nothing on the handler's stack needs dropping.
pub unsafe fn abandon(context: *mut CarrierContext) -> ! {
    // SAFETY: the caller's promise.
    unsafe { monohull_abandon(context, Exit::Fault as u64) }
}

/// The address to give to `sigaction`; `target` is called with the handler's three arguments.
pub fn signal_entry(target: unsafe extern "C" fn(i32, *mut core::ffi::c_void, *mut core::ffi::c_void)) -> usize {
    SIGNAL_TARGET.store(target as *mut (), Ordering::Release);
    monohull_signal_entry as *const () as usize
}

/// Calls a handler of a module; `None` if it panicked (that is, called [`unwind_guard`]).
///
/// # Safety
/// `handler` may be called with `state` and `call`. `guard` is the calling thread's own word.
#[inline(always)]
pub unsafe fn call_guarded(
    handler: Handler,
    state: *mut core::ffi::c_void,
    call: *mut Call,
    guard: *mut u64,
) -> Option<Outcome> {
    // SAFETY: the caller's promise.
    let outcome = unsafe { monohull_call_guarded(handler, state, call, guard) };
    (outcome.tag != PANICKED).then_some(outcome)
}

/// Ends the innermost [`call_guarded`] of this thread, whose frames are forgotten without running destructors.
///
/// # Safety
/// A `call_guarded` with this `guard` is pending on this thread, and nothing in between must be dropped for memory
/// safety (a forgotten lock stays locked).
pub unsafe fn unwind_guard(guard: *mut u64) -> ! {
    // SAFETY: the caller's promise.
    unsafe { monohull_unwind_guard(guard) }
}

/// Copies `len` bytes; false if a page on the way cannot be read or written. Aligned words of 4 or 8 bytes are copied
/// in one access.
///
/// # Safety
/// Each side is either valid memory of the caller's, or user memory that was checked. The process has a handler for
/// SIGSEGV and SIGBUS that honours [`copy_recovery`].
pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> bool {
    // SAFETY: the caller's promise; an access that fails continues at `copy_fault`.
    unsafe { monohull_copy(to, from, len) == 0 }
}

/// Where to go on after a fault at `ip`, if `ip` lies in the copy routine.
pub fn copy_recovery(ip: u64) -> Option<u64> {
    let range = monohull_copy as *const () as u64..monohull_copy_end as *const () as u64;
    range.contains(&ip).then_some(monohull_copy_fault as *const () as u64)
}
