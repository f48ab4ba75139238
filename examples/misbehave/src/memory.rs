//! Memory that is not the function's, or not for that use.

use core::arch::asm;
use core::hint::black_box;
use core::ptr;
use monohull_abi::layout::{CARRIER_BASE, PAGE};
use monohull_abi::number::GET_INFO;
use monohull_abi::types::Info;
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_std::time::Duration;
use monohull_trampoline::user::{hostcall, stack_pointer};

/// In the part of the address space where the host's process has its own memory, but not in use there.
const UNMAPPED: usize = 0x6666_0000_0000;

#[inline(never)]
pub(crate) fn null_write() {
    let nowhere = black_box(ptr::null_mut::<u32>());
    // SAFETY: not sound, and meant not to be: the write must fault.
    unsafe { nowhere.write_volatile(1) }
}

#[inline(never)]
pub(crate) fn wild_read() {
    let nowhere = black_box(ptr::without_provenance::<u8>(UNMAPPED));
    // SAFETY: not sound, and meant not to be: the read must fault.
    println!("{}", unsafe { nowhere.read_volatile() });
}

/// Writes over the gate through which hostcalls leave: trusted code, whose address every function knows.
#[inline(never)]
pub(crate) fn write_trusted() {
    let gate: *mut u8;
    // SAFETY: reads the first word of this carrier's line, which functions may read.
    unsafe { asm!("mov {}, gs:[0]", out(reg) gate, options(nostack, readonly, preserves_flags)) };
    // SAFETY: not sound, and meant not to be: the write must fault.
    unsafe { gate.write_volatile(0xc3) }
}

#[inline(never)]
pub(crate) fn write_code() {
    let code = black_box(write_code as fn()) as *mut u8;
    // SAFETY: not sound, and meant not to be: the write must fault.
    unsafe { code.write_volatile(0x90) }
}

#[inline(never)]
pub(crate) fn execute_data() {
    // The instruction `ret`: it would come straight back.
    static DATA: [core::sync::atomic::AtomicU8; 16] = [const { core::sync::atomic::AtomicU8::new(0xc3) }; 16];
    call(black_box(DATA.as_ptr() as usize));
}

#[inline(never)]
pub(crate) fn wild_jump() {
    call(black_box(UNMAPPED));
}

/// Calls an address. Not inlined into its callers' tails, so that the caller stays on the stack.
#[inline(always)]
fn call(address: usize) {
    // SAFETY: not sound, and meant not to be: the call must fault.
    unsafe { asm!("call {}", in(reg) address, clobber_abi("C")) };
}

#[inline(never)]
pub(crate) fn stack_overflow() {
    println!("{}", recurse(black_box(1)));
}

#[inline(never)]
pub(crate) fn stack_overflow_in_thread() {
    let thread = thread::Builder::new().name("deep".into()).spawn(stack_overflow).expect("a thread");
    thread.join().expect("no thread ends with a panic");
}

/// Takes the stack on which the host handles this carrier's faults for its own, nearly used up, and faults.
#[inline(never)]
pub(crate) fn stack_of_signals() {
    let bottom = CARRIER_BASE + PAGE + 256;
    // SAFETY: not sound, and meant not to be: whatever happens on that stack, it must not harm the host.
    unsafe { asm!("mov rsp, {}", "ud2", in(reg) bottom, options(noreturn)) };
}

#[inline(never)]
#[allow(unconditional_recursion, reason = "that is the point")]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 32]);
    recurse(depth + 1) + frame[(depth % 32) as usize]
}

/// Writes over the address of a function: a constant with an address in it, which is final once the image has been relocated.
#[inline(never)]
pub(crate) fn write_relro(nap: Duration) {
    static CALLED: [fn(); 2] = [null_write, wild_read];
    let called = black_box(&CALLED);
    thread::sleep(nap);
    // SAFETY: not sound, and meant not to be: the write must fault.
    unsafe { called.as_ptr().cast::<u64>().cast_mut().write_volatile(1) }
}

/// Writes to the page below this thread's stack.
#[inline(never)]
pub(crate) fn write_guard(nap: Duration) {
    let size = hostcall(GET_INFO, [Info::StackSize as u64, 0, 0, 0, 0, 0]) as u64;
    let guard = stack_pointer() & !(size - 1);
    thread::sleep(nap);
    // SAFETY: not sound, and meant not to be: the write must fault.
    unsafe { black_box(guard as *mut u64).write_volatile(1) }
}

/// The same by another thread, which the main thread waits for.
#[inline(never)]
pub(crate) fn write_guard_of_thread(nap: Duration) {
    thread::spawn(move || write_guard(nap)).join().expect("no thread ends with a panic");
}
