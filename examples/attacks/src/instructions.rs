//! Single instructions: those that would change rights or segments, those that trap, those that leave something behind.
//!
//! `what` names the instruction. `planted` is whatever bytes the test has written over [`monohull_planted`] in a copy of
//! the image: those that the checker refuses. `how` is what follows: `read` the visor's data (have all keys been opened?),
//! `thread` (the code gets an address in `rdi` at which a thread's own data may lie: has trusted code put some there?), or nothing.

use crate::memory::touch;
use crate::{Attack, Booty, number};
use core::arch::{asm, naked_asm};
use monohull_std::prelude::*;

/// Room for code that the test writes.
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn monohull_planted(address: u64) -> u64 {
    naked_asm!(".fill 48, 1, 0x90", "ret")
}

pub(crate) fn strike(attack: &Attack) -> Booty {
    if attack.how == "thread" {
        return thread_data();
    }
    let value = run(&attack.what)?;
    match attack.how.as_str() {
        "read" => touch(attack.places.find("visor-data")?, "read"),
        _ => number(value),
    }
}

/// The alignment-check, nested-task, trap and direction flags.
const AC: u64 = 1 << 18;
const NT: u64 = 1 << 14;
const TF: u64 = 1 << 8;
const DF: u64 = 1 << 10;

#[inline(never)]
fn run(what: &str) -> Result<u64, Box<dyn monohull_std::error::Error>> {
    let value: u64;
    // SAFETY: none, throughout; they are attacks. Registers and stack are as the compiler wants them afterwards.
    unsafe {
        match what {
            "planted" => value = monohull_planted(0),
            "sysenter" => asm!("sysenter", inlateout("rax") crate::doors::GETPID => value, out("rcx") _, out("rdx") _),
            "int3" => asm!("int3", "mov {}, 1", out(reg) value),
            // Some other gate of the processor.
            "int" => asm!("int 0x2e", "mov {}, 1", out(reg) value),
            "icebp" => asm!(".byte 0xf1", "mov {}, 1", out(reg) value),
            "ud2" => asm!("ud2", "mov {}, 1", out(reg) value),
            "hlt" => asm!("hlt", "mov {}, 1", out(reg) value),
            "cli" => asm!("cli", "mov {}, 1", out(reg) value),
            "in" => asm!("in al, 0x60", "mov {}, 1", out(reg) value, out("rax") _),
            "rdmsr" => asm!("rdmsr", "mov {}, 1", out(reg) value, in("ecx") 0xc000_0102u32, out("eax") _, out("edx") _),
            "write-cr4" => asm!("mov cr4, rax", "mov {}, 1", out(reg) value, in("rax") 0),
            "swapgs" => asm!("swapgs", "mov {}, 1", out(reg) value),
            "vmcall" => asm!("vmcall", "mov {}, 1", out(reg) value, inout("rax") 0u64 => _),
            "xrstors" => {
                asm!("xrstors [{}]", "mov {}, 1", in(reg) &raw const ZEROS, out(reg) value, in("eax") -1, in("edx") -1)
            }
            // The 32-bit code segment has the same rights, and addresses below 4 GiB, where nothing is.
            "far-return" => {
                asm!("push 0x23", "lea rax, [rip + 2f]", "push rax", "retfq", "2:", "mov {}, 1", out(reg) value, out("rax") _)
            }
            "far-jump" => {
                asm!("sub rsp, 16", "lea rax, [rip + 2f]", "mov [rsp], eax", "mov word ptr [rsp + 4], 0x23", "jmp fword ptr [rsp]", "2:", "add rsp, 16", "mov {}, 1", out(reg) value, out("rax") _)
            }
            "iret" => {
                asm!("push 0x2b", "push rsp", "pushfq", "push 0x23", "lea rax, [rip + 2f]", "push rax", "iretq", "2:", "mov {}, 1", out(reg) value, out("rax") _)
            }
            "null-ss" => asm!("mov ss, {:e}", "mov {}, 1", in(reg) 0, out(reg) value),
            "load-gs" => asm!("mov gs, {:e}", "mov {}, 1", in(reg) 0x2b, out(reg) value),
            "trap-flag" => {
                set(TF);
                value = 1
            }
            "fxrstor" => {
                fxrstor();
                value = 1
            }
            "rdtsc" => value = core::arch::x86_64::_rdtsc(),
            "rdtscp" => {
                let mut processor = 0;
                value = core::arch::x86_64::__rdtscp(&mut processor)
            }
            "rdpmc" => asm!("rdpmc", out("rax") value, in("rcx") 0, out("rdx") _),
            "x87-pending" => {
                x87_pending();
                value = 1
            }
            "control-words" => {
                control_words();
                value = 1
            }
            "direction" => {
                direction();
                value = 1
            }
            "dirty" => {
                dirty();
                value = 1
            }
            _ => return Err("there is no such instruction".into()),
        }
    }
    Ok(value)
}

/// What XRSTORS would load.
#[repr(align(64))]
struct Area([u8; 1024]);

static ZEROS: Area = Area([0; 1024]);

/// Sets bits of the flags register.
fn set(bits: u64) {
    // SAFETY: none; it is an attack.
    unsafe { asm!("pushfq", "or [rsp], {}", "popfq", in(reg) bits) };
}

/// Loads x87 and vector state in which every exception is unmasked and pending, and ends with a hostcall in that state.
fn fxrstor() {
    let mut area = Area([0; 1024]);
    // SAFETY: none; it is an attack.
    unsafe {
        asm!("fxsave64 [{}]", in(reg) &raw mut area);
        // Control word: all unmasked. Status word: all raised, and so pending. MXCSR: all unmasked and raised.
        area.0[0..2].copy_from_slice(&0x0300u16.to_le_bytes());
        area.0[2..4].copy_from_slice(&0x80bfu16.to_le_bytes());
        area.0[24..28].copy_from_slice(&0x0000_003fu32.to_le_bytes());
        asm!("fxrstor64 [{}]", in(reg) &raw const area);
    }
    println!("state loaded");
}

/// An x87 exception that waits for the next x87 instruction, which would be the trusted side's.
fn x87_pending() {
    let unmasked = 0x0300u16;
    // SAFETY: none; it is an attack.
    unsafe {
        asm!("fldcw [{}]", "fldz", "fld1", "fdivrp", in(reg) &raw const unmasked, out("st(0)") _, out("st(1)") _)
    };
    println!("exception left");
}

/// Control words of one's own choice, with which the next one to run would go on: rounding towards zero, everything unmasked.
fn control_words() {
    let (mxcsr, x87) = (0x0000_7f80u32, 0x0f7fu16);
    // SAFETY: none; it is an attack.
    unsafe { asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const mxcsr, in(reg) &raw const x87) };
}

/// Has a line copied with the direction flag set: a copy that goes backwards reads and writes what lies before.
fn direction() {
    let line = b"this line is longer than what is copied in one or two words\n";
    set(DF);
    monohull_trampoline::user::hostcall(
        monohull_abi::number::STDIO_WRITE,
        [1, line.as_ptr() as u64, line.len() as u64, 0, 0, 0],
    );
    // SAFETY: the flag gets the value that the ABI requires.
    unsafe { asm!("cld") };
}

/// Moves the thread's own data, by the segment base that trusted code finds it with, to memory that a function can read.
fn thread_data() -> Booty {
    const WORDS: usize = 8192;
    let room = Box::leak(Box::new([0u64; WORDS]));
    let pointer: u64;
    // SAFETY: reads a register.
    unsafe { asm!("rdfsbase {}", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    // The data lies before the address; the first words from there on say where it really is, which the gates compare.
    let base = WORDS / 2;
    (room[base], room[base + 2]) = (pointer, pointer);
    let line = b"a line to be kept\n";
    // SAFETY: none; it is an attack.
    unsafe { asm!("call {planted}", planted = sym monohull_planted, in("rdi") &raw mut room[base], clobber_abi("C")) };
    monohull_trampoline::user::hostcall(
        monohull_abi::number::STDIO_WRITE,
        [1, line.as_ptr() as u64, line.len() as u64, 0, 0, 0],
    );
    let written = |(index, word): &(usize, &u64)| **word != 0 && ![base, base + 2].contains(index);
    match room.iter().enumerate().find(written) {
        Some((_, word)) => number(*word),
        None => Err("trusted code kept nothing there".into()),
    }
}

/// Everything that can be left dirty at once, and then a hostcall.
fn dirty() {
    let mxcsr = 0x0000_7f80u32;
    // SAFETY: none; it is an attack.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mxcsr) };
    set(AC | NT | DF);
    monohull_trampoline::user::hostcall(monohull_abi::number::NULL, [0; 6]);
    // SAFETY: flags and control word get the values that the ABI requires.
    unsafe {
        asm!("pushfq", "and dword ptr [rsp], {keep}", "popfq", "ldmxcsr [{usual}]", keep = const !((AC | NT | DF) as i32), usual = in(reg) &raw const USUAL)
    };
}

static USUAL: u32 = 0x1f80;
