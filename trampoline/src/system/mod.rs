//! The system side of the gates: how user code is entered, and the gates through which it returns.
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
//!                        restores 6 registers        (or a signal handler, through `exit_user_from_signal`)
//! ```
//!
//! While user code runs, the only system frame is `enter`'s. A thread that parks is just not entered again: nothing
//! of it stays on a system stack.
//!
//! Each carrier has an exit gate of its own, because nothing that user code could have written may decide whose stack to
//! take: the gate holds the carrier block's fixed address as an immediate. It then compares the block's thread pointer
//! with `fs:[0]`, so that jumping to *another* carrier's gate ends the process instead of borrowing its stack.
//!
//! With protection keys an entry goes through a stub for each carrier and key, which takes nothing from registers:
//! stack and value come from a frame in memory of that very key, at an address that is an immediate.
#![allow(unsafe_code, reason = "this crate is where Monohull's assembly lives")]

#[cfg(feature = "unharden")]
pub mod fault_injection;
mod gates;
pub mod interrupted;
mod registers;

pub use interrupted::Registers;
pub use registers::{clear_x87, extended_states, thread_pointer};

use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, Ordering};
use monohull_abi::layout::{
    CARRIER_BASE, CARRIER_BLOCKS, CARRIER_MAX, CARRIER_SIZE, CarrierLine, FRAMES_BASE, INFO_BASE, KEY_COUNT, PAGE,
    SELECTOR_ALLOW, SELECTOR_BLOCK,
};
use monohull_abi::module::Call;

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
    /// Address of the kernel's record of all registers, on the carrier's signal stack.
    pub context: u64,
}

impl FaultInfo {
    /// What is known if user code has jumped to the entry point of signal handlers: nothing, since the arguments are user code's.
    pub fn forged(signal: i32) -> FaultInfo {
        FaultInfo { signal, ..FaultInfo::default() }
    }

    /// Whether the kernel has delivered the signal.
    pub fn is_delivered(&self) -> bool {
        self.context != 0
    }
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
    /// Where the stub finds stack and value, with keys; null without.
    frame: *mut [u64; 2],
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
    /// It faulted, or was taken off by a signal: see [`CarrierContext::fault`].
    Fault = 1,
}

/// Bytes between two exit gates.
const EXIT_STRIDE: usize = 256;
/// Bytes between two entry stubs with keys.
const ENTRY_STRIDE: usize = 128;
/// Where WRPKRU lies in an entry stub, in an exit gate and in the signal entry.
const ENTRY_WRPKRU: u64 = 9;
const EXIT_WRPKRU: u64 = 15;
const SIGNAL_WRPKRU: u64 = 9;
/// Where an exit gate with keys has saved the registers that WRPKRU takes, and not changed them yet.
const EXIT_SAVED: u64 = 9;
/// Offset of the context in a carrier block: its last page.
const CONTEXT_OFFSET: u64 = CARRIER_SIZE - PAGE;
/// A signal handler begins above this offset in its carrier block: below are the guard and 16 KiB for the handler itself.
const SIGNAL_STACK_LOW: u64 = PAGE + 16 * 1024;
/// Where the kernel's frame (`struct rt_sigframe`) holds the handler's third argument, from the stack pointer that the
/// handler is entered with: behind the return address.
const FRAME_CONTEXT: u64 = 8;
/// The same for the second argument: behind the kernel's `struct ucontext`, which is shorter than glibc's.
const FRAME_INFO: u64 = FRAME_CONTEXT + 304;
/// The end of both, at least: `siginfo_t` has 128 bytes. The vector registers are behind it.
const FRAME_END: u64 = FRAME_INFO + 128;
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

/// Where [`signal_entry`] goes on.
static SIGNAL_TARGET: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

unsafe extern "C" {
    fn monohull_enter();
    fn monohull_entry_plain();
    fn monohull_entry_keys();
    fn monohull_exit_plain();
    fn monohull_exit_keys();
    fn monohull_exit_user_from_signal(context: *mut CarrierContext, exit: u64) -> !;
    fn monohull_signal_entry();
    fn monohull_signal_entry_keys();
    fn monohull_copy(to: *mut u8, from: *const u8, len: usize) -> i64;
    fn monohull_copy_end();
    fn monohull_copy_fault();
}

/// Address of the context of carrier `index`.
pub const fn context_address(index: usize) -> u64 {
    CARRIER_BASE + index as u64 * CARRIER_SIZE + CONTEXT_OFFSET
}

/// The context of the carrier on whose block `address` lies (a signal handler's own stack, say), if any.
pub fn context_of(address: u64) -> Option<*mut CarrierContext> {
    let offset = address.checked_sub(CARRIER_BASE)?;
    let index = (offset / CARRIER_SIZE) as usize;
    (index < CARRIER_BLOCKS).then(|| context_address(index) as *mut CarrierContext)
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

/// The addresses of all WRPKRU instructions of the gates. They are harmless for what follows them; there must be no
/// others in the process.
pub fn gates_own_wrpkru() -> impl Iterator<Item = u64> {
    let keys = FIRST_FUNCTION_KEY..KEY_COUNT as u32;
    let stubs = (0..CARRIER_MAX).flat_map(move |index| keys.clone().map(move |key| (index, key)));
    let entries = stubs.map(|(index, key)| entry_stub(Variant::Keys, index, key) + ENTRY_WRPKRU);
    let exits = (0..CARRIER_MAX).map(|index| exit_gate(Variant::Keys, index) + EXIT_WRPKRU);
    let signal = monohull_signal_entry_keys as *const () as u64 + SIGNAL_WRPKRU;
    entries.chain(exits).chain([signal])
}

/// Address of the page from which the stub of carrier `index` for `key` takes stack and value.
pub const fn frame_page(index: usize, key: u32) -> u64 {
    FRAMES_BASE + (index * KEY_COUNT + key as usize) as u64 * PAGE
}

impl CarrierContext {
    /// The context of the calling thread as carrier `index`, to be written to [`context_address`].
    pub fn new(index: usize, vectors: VectorState) -> CarrierContext {
        assert!(index < CARRIER_BLOCKS);
        CarrierContext {
            system_rsp: 0,
            current: core::ptr::null_mut(),
            selector: (INFO_BASE + index as u64 * 64 + 8) as *mut u8,
            entry: monohull_entry_plain as *const () as u64,
            frame: core::ptr::null_mut(),
            thread_pointer: thread_pointer(),
            vectors: vectors as u32,
            control_words: [0; 2],
            index: index as u32,
            fault: FaultInfo::default(),
        }
    }

    /// From here on user code is entered with the rights of `key`, through the stub that knows no others. The frame's
    /// page (see [`frame_page`]) is mapped and has that key.
    pub fn enter_with(&mut self, key: u32) {
        self.entry = entry_stub(Variant::Keys, self.index(), key);
        self.frame = frame_page(self.index(), key) as *mut [u64; 2];
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
    /// and gs where trusted code and the next user code expect them: user code loses them by loading a selector. The
    /// frame may have been filled and not used, if the signal came on the way in; no other code may use it.
    pub fn reclaim_cpu_state(&mut self) {
        if !self.frame.is_null() {
            // SAFETY: the frame's page is mapped as long as the context names it, and this carrier's alone.
            unsafe { core::ptr::write_volatile(self.frame, [0; 2]) }
        }
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
pub unsafe fn exit_user_from_signal(context: *mut CarrierContext) -> ! {
    // SAFETY: the caller's promise.
    unsafe { monohull_exit_user_from_signal(context, Exit::Fault as u64) }
}

/// The address to give to `sigaction`; `target` is called with the handler's three arguments.
pub fn signal_entry(
    variant: Variant,
    target: unsafe extern "C" fn(i32, *mut core::ffi::c_void, *mut core::ffi::c_void),
) -> usize {
    SIGNAL_TARGET.store(target as *mut (), Ordering::Release);
    match variant {
        Variant::Plain => monohull_signal_entry as *const () as usize,
        Variant::Keys => monohull_signal_entry_keys as *const () as usize,
    }
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
