//! Instructions that trap, registers set to what trusted code must not see.

use core::arch::asm;
use core::hint::black_box;
use monohull_abi::number;
use monohull_std::prelude::*;
use monohull_std::process;
use monohull_std::thread;
use monohull_std::time::{Duration, Instant, SystemTime};

/// The alignment-check flag.
const AC: u64 = 1 << 18;
/// The trap flag.
const TF: u64 = 1 << 8;

/// Sets bits of the flags register.
#[inline(always)]
fn set_flags(bits: u64) {
    // SAFETY: the stack is balanced; what the flags do to the code behind is what is wanted.
    unsafe {
        asm!(
            "pushfq",
            "or [rsp], {}",
            "popfq",
            in(reg) bits,
        );
    }
}

#[inline(never)]
pub(crate) fn divide_by_zero() {
    let divisor = black_box(0u32);
    // Rust itself would panic first.
    // SAFETY: raises a divide error, which ends the instance.
    unsafe { asm!("xor edx, edx", "mov eax, 1", "div {:e}", in(reg) divisor, out("eax") _, out("edx") _) };
}

#[inline(never)]
pub(crate) fn illegal_instruction() {
    // SAFETY: raises an invalid-opcode exception, which ends the instance.
    unsafe { asm!("ud2") };
}

/// Looks at clocks first, on two threads.
#[inline(never)]
pub(crate) fn time_stamp_counter() {
    let look = || {
        let (start, today) = (Instant::now(), SystemTime::now());
        thread::sleep(Duration::from_millis(1));
        assert!(start.elapsed() >= Duration::from_millis(1));
        assert!(today > SystemTime::UNIX_EPOCH);
    };
    let other = thread::spawn(look);
    look();
    other.join().expect("its clocks go too");
    println!("the clocks go");
    // SAFETY: reads a register, or ends the instance.
    unsafe { asm!("rdtsc", out("eax") _, out("edx") _) };
}

#[inline(never)]
pub(crate) fn breakpoint() {
    // SAFETY: raises a breakpoint exception, which ends the instance.
    unsafe { asm!("int3") };
}

#[inline(never)]
pub(crate) fn single_step() {
    set_flags(TF);
    println!("stepped over");
}

#[inline(never)]
pub(crate) fn unmasked_float() {
    let unmasked = 0u32;
    // SAFETY: unmasks all floating-point exceptions; the next division raises one, which ends the instance.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const unmasked) };
    println!("{}", black_box(1.0f64) / black_box(0.0));
}

#[inline(never)]
pub(crate) fn alignment_check() {
    let words = black_box([0u64; 2]);
    let between = words.as_ptr().cast::<u8>().wrapping_add(1).cast::<u64>();
    set_flags(AC);
    // SAFETY: inside the array; misaligned on purpose, which the processor now refuses.
    println!("{}", unsafe { between.read_unaligned() });
}

#[inline(never)]
pub(crate) fn raw_system_call() {
    /// `getpid`.
    const NUMBER: u64 = 39;
    let process: u64;
    // SAFETY: the system call has no arguments and changes nothing.
    unsafe { asm!("syscall", inlateout("rax") NUMBER => process, out("rcx") _, out("r11") _, options(nostack)) };
    println!("the process is {process}");
}

/// The same by the old way in, which 32-bit programs use.
#[inline(never)]
pub(crate) fn raw_system_call_32() {
    /// `getpid`, as 32-bit programs number it.
    const NUMBER: u32 = 20;
    let process: u32;
    // SAFETY: the system call has no arguments and changes nothing.
    unsafe { asm!("int 0x80", inlateout("eax") NUMBER => process, options(nostack)) };
    println!("the process is {process}");
}

/// Asks the page at the top of the address space for the time, as programs did before there was a vDSO.
#[inline(never)]
pub(crate) fn vsyscall() {
    const GETTIMEOFDAY: u64 = 0xffff_ffff_ff60_0000;
    let status: i64;
    // SAFETY: with two null pointers it writes nothing. The page, if there is one, clobbers what any function may.
    unsafe {
        asm!(
            "call {page}",
            page = in(reg) GETTIMEOFDAY,
            in("rdi") 0,
            in("rsi") 0,
            lateout("rax") status,
            clobber_abi("C"),
        );
    }
    println!("it answers {status}");
}

/// Takes away the register by which trusted code finds its thread's data, and makes a hostcall.
#[inline(never)]
pub(crate) fn lost_thread_pointer() {
    // SAFETY: functions do not use fs.
    unsafe { asm!("mov fs, {:e}", in(reg) 0, options(nostack, preserves_flags)) };
    println!("still here");
}

/// Returns to the code segment of 32-bit programs, to a system call. Addresses have 32 bits there, and nothing lies so low.
#[inline(never)]
pub(crate) fn far_return() {
    // SAFETY: none; it is meant to fault. It touches what it pushes, and `rax`.
    unsafe { asm!("push 0x23", "lea rax, [rip + 2f]", "push rax", "retfq", "2:", "int 0x80", out("rax") _) };
}

/// The same by the instruction with which handlers of interrupts return.
#[inline(never)]
pub(crate) fn interrupt_return() {
    // SAFETY: as above.
    unsafe {
        asm!(
            "mov rcx, rsp",
            "push 0x2b",
            "push rcx",
            "pushfq",
            "push 0x23",
            "lea rax, [rip + 2f]",
            "push rax",
            "iretq",
            "2:",
            "int 0x80",
            out("rax") _,
            out("rcx") _,
        );
    };
}

/// Takes away the register by which functions find their gate, and leaves through the gate nevertheless: the thread
/// that runs next on this carrier must not be affected.
#[inline(never)]
pub(crate) fn lost_gate() {
    let gate: u64;
    // SAFETY: reads the first word of this carrier's line, then forgets where the line is.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) gate, options(nostack, readonly, preserves_flags));
        asm!("mov gs, {:e}", in(reg) 0, options(nostack, preserves_flags));
    }
    let exit = u64::from(monohull_abi::number::EXIT);
    // SAFETY: the hostcall EXIT with status 0, without the shim; it does not come back.
    unsafe { asm!("call {}", in(reg) gate, in("rax") exit, in("rdi") 0, clobber_abi("C")) };
}

/// Sleeps with a stack pointer that is no multiple of eight.
#[inline(never)]
pub(crate) fn unaligned_sleep() {
    unsafe extern "C" {
        fn monohull_leave();
    }
    // SAFETY: as `hostcall` does it, on a stack that is aligned again behind the call. Nothing there needs an aligned one.
    unsafe {
        asm!(
            "sub rsp, 4",
            "call {leave}",
            "add rsp, 4",
            leave = sym monohull_leave,
            inlateout("rax") u64::from(number::NANOSLEEP) => _,
            inlateout("rdi") 60_000_000_u64 => _,
            clobber_abi("C"),
        );
    }
    println!("slept");
    process::exit(0);
}

/// Sleeps on a stack of its own, as coroutines do.
#[inline(never)]
pub(crate) fn own_stack_sleep() {
    unsafe extern "C" {
        fn monohull_leave();
    }
    let mut stack = vec![0_u64; 2048];
    // SAFETY: as `hostcall` does it. The call keeps r12, and the stack pointer comes from there behind it; the stack is aligned and has
    // room for the registers that the call saves.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov rsp, r13",
            "call {leave}",
            "mov rsp, r12",
            leave = sym monohull_leave,
            inlateout("rax") u64::from(number::NANOSLEEP) => _,
            inlateout("rdi") 60_000_000_u64 => _,
            in("r13") stack.as_mut_ptr_range().end as u64 & !15,
            out("r12") _,
            clobber_abi("C"),
        );
    }
    println!("slept");
    process::exit(0);
}
