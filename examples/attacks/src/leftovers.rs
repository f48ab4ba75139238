//! What trusted code leaves in the registers when it hands the processor back: they are looked at before anything else is done.
//!
//! `what` is `registers`.

use crate::{Attack, Booty};
use core::arch::naked_asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::mem::offset_of;
use monohull_abi::number;
use monohull_std::prelude::*;

/// Registers, as they are behind the gate. All but the stack pointer and `rax`, which is the call's value.
#[repr(C, align(64))]
struct Registers {
    /// rbx, rcx, rdx, rsi, rdi, rbp, r8 to r15.
    general: [u64; 14],
    masks: [u64; 8],
    vectors: [[u64; 8]; 32],
}

/// What of them the processor has.
#[repr(u64)]
#[derive(Clone, Copy)]
enum Width {
    Sse = 0,
    Avx = 1,
    Avx512 = 2,
}

/// A call and its arguments.
type Hostcall = [u64; 7];

pub(crate) fn strike(_: &Attack) -> Booty {
    let mut room = [0u8; 256];
    let (at, len) = (room.as_mut_ptr() as u64, room.len() as u64);
    let calls: [(&str, Hostcall); 5] = [
        ("NULL", [number::NULL.into(), 0, 0, 0, 0, 0, 0]),
        ("THREAD_YIELD", [number::THREAD_YIELD.into(), 0, 0, 0, 0, 0, 0]),
        ("GETRANDOM", [number::GETRANDOM.into(), at, len, 0, 0, 0, 0]),
        ("GET_STRING", [number::GET_STRING.into(), 0, at, len, 0, 0, 0]),
        ("SLOT_ALLOC", [number::SLOT_ALLOC.into(), len, 8, 0, 0, 0, 0]),
    ];
    let width = width();
    for (name, call) in calls {
        let mut seen = Box::new(Registers { general: [0; 14], masks: [0; 8], vectors: [[0; 8]; 32] });
        // SAFETY: none; it is an attack.
        unsafe { call_and_look(&call, &mut seen, width) };
        if let Some(index) = seen.general.iter().position(|word| *word != 0) {
            return Ok(format!("general register {index} behind {name}: {:#x}", seen.general[index]));
        }
        if let Some(index) = seen.vectors.iter().position(|vector| *vector != [0; 8]) {
            return Ok(format!("vector register {index} behind {name}: {:x?}", seen.vectors[index]));
        }
        if seen.masks != [0; 8] {
            return Ok(format!("mask registers behind {name}: {:x?}", seen.masks));
        }
    }
    Err("nothing was left".into())
}

fn width() -> Width {
    // CPUID leaf 1, ecx bit 28: AVX. Leaf 7, ebx bits 16 and 30: AVX-512 F and BW, which has masks of 64 bits.
    let wide = __cpuid_count(7, 0).ebx;
    match (__cpuid(1).ecx >> 28 & 1, wide >> 16 & wide >> 30 & 1) {
        (0, _) => Width::Sse,
        (_, 0) => Width::Avx,
        _ => Width::Avx512,
    }
}

/// Makes a hostcall and writes down what is in the registers behind the gate.
///
/// # Safety
/// None; it is an attack.
#[unsafe(naked)]
unsafe extern "C" fn call_and_look(call: &Hostcall, seen: &mut Registers, width: Width) {
    naked_asm!(
        // What a callee must preserve, then where to write, and how much.
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rdx",
        "push rsi",
        // The call, its table's register last.
        "mov rax, [rdi]",
        "mov rsi, [rdi + 16]",
        "mov rdx, [rdi + 24]",
        "mov rcx, [rdi + 32]",
        "mov r8, [rdi + 40]",
        "mov r9, [rdi + 48]",
        "mov rdi, [rdi + 8]",
        "call qword ptr gs:[0]",
        // The value is nothing to hide; its register is needed.
        "mov rax, [rsp]",
        "mov [rax + {general}], rbx",
        "mov [rax + {general} + 8], rcx",
        "mov [rax + {general} + 16], rdx",
        "mov [rax + {general} + 24], rsi",
        "mov [rax + {general} + 32], rdi",
        "mov [rax + {general} + 40], rbp",
        "mov [rax + {general} + 48], r8",
        "mov [rax + {general} + 56], r9",
        "mov [rax + {general} + 64], r10",
        "mov [rax + {general} + 72], r11",
        "mov [rax + {general} + 80], r12",
        "mov [rax + {general} + 88], r13",
        "mov [rax + {general} + 96], r14",
        "mov [rax + {general} + 104], r15",
        // Vector registers as far as there are any.
        "mov rcx, [rsp + 8]",
        "cmp rcx, {avx}",
        "je 3f",
        "ja 2f",
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "movups [rax + {vectors} + \\n * 64], xmm\\n",
        ".endr",
        "jmp 4f",
        "2:",
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "vmovdqu64 [rax + {vectors} + \\n * 64], zmm\\n",
        ".endr",
        ".irp n,0,1,2,3,4,5,6,7",
        "kmovq [rax + {masks} + \\n * 8], k\\n",
        ".endr",
        "jmp 4f",
        "3:",
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "vmovdqu [rax + {vectors} + \\n * 64], ymm\\n",
        ".endr",
        "4:",
        "add rsp, 16",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        general = const offset_of!(Registers, general),
        masks = const offset_of!(Registers, masks),
        vectors = const offset_of!(Registers, vectors),
        avx = const Width::Avx as u64,
    )
}
