//! Every register that a program has, filled, held for a while without a hostcall, and looked at again.

use core::arch::global_asm;
use core::mem::offset_of;
use core::ptr::{addr_of, addr_of_mut};
use monohull_std::is_x86_feature_detected;

/// Carry, direction, alignment check and identification, and the bit that is always set.
const FLAGS: u64 = 1 | 1 << 1 | 1 << 10 | 1 << 18 | 1 << 21;

/// What is in the registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(64))]
struct Registers {
    vectors: [[u64; 8]; 32],
    masks: [u64; 8],
    /// As integers, which eight-byte loads and stores of the x87 keep whole.
    x87: [i64; 8],
    /// rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 to r15.
    general: [u64; 16],
    flags: u64,
    mxcsr: u64,
    x87_control: u64,
}

const EMPTY: Registers = Registers {
    vectors: [[0; 8]; 32],
    masks: [0; 8],
    x87: [0; 8],
    general: [0; 16],
    flags: 0,
    mxcsr: 0,
    x87_control: 0,
};

/// What the assembly works with; the one thread that calls [`hold`] has it to itself.
#[repr(C, align(64))]
struct Block {
    given: Registers,
    found: Registers,
    rounds: u64,
    stack: u64,
    /// 0: SSE, 1: AVX, 2: AVX-512.
    level: u64,
}

static mut BLOCK: Block = Block { given: EMPTY, found: EMPTY, rounds: 0, stack: 0, level: 0 };

unsafe extern "C" {
    fn preempted_hold();
}

global_asm!(
    ".pushsection .text.preempted_hold, \"ax\", @progbits",
    ".globl preempted_hold",
    ".hidden preempted_hold",
    ".type preempted_hold, @function",
    "preempted_hold:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rip + {block} + {stack}], rsp",
    "lea rax, [rip + {block}]",
    "fldcw [rax + {x87_control}]",
    "ldmxcsr [rax + {mxcsr}]",
    ".irp n,7,6,5,4,3,2,1,0",
    "fild qword ptr [rax + {x87} + 8 * \\n]",
    ".endr",
    "cmp qword ptr [rax + {level}], 1",
    "jb 3f",
    "je 4f",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "vmovdqu64 zmm\\n, [rax + 64 * \\n]",
    ".endr",
    ".irp n,0,1,2,3,4,5,6,7",
    "kmovq k\\n, [rax + {masks} + 8 * \\n]",
    ".endr",
    "jmp 5f",
    "4:",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "vmovdqu ymm\\n, [rax + 64 * \\n]",
    ".endr",
    "jmp 5f",
    "3:",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movdqu xmm\\n, [rax + 64 * \\n]",
    ".endr",
    "5:",
    "push qword ptr [rax + {flags}]",
    "popfq",
    // Only moves from here on, and a decrement, which leaves all flags alone that are looked at.
    "mov rbx, [rax + {general} + 8]",
    "mov rcx, [rax + {general} + 16]",
    "mov rdx, [rax + {general} + 24]",
    "mov rsi, [rax + {general} + 32]",
    "mov rdi, [rax + {general} + 40]",
    "mov rbp, [rax + {general} + 48]",
    "mov rsp, [rax + {general} + 56]",
    ".irp n,8,9,10,11,12,13,14,15",
    "mov r\\n, [rax + {general} + 8 * \\n]",
    ".endr",
    "mov rax, [rax + {general}]",
    "2:",
    "dec qword ptr [rip + {block} + {rounds}]",
    "jnz 2b",
    "mov [rip + {block} + {found} + {general}], rax",
    "lea rax, [rip + {block} + {found}]",
    "mov [rax + {general} + 8], rbx",
    "mov [rax + {general} + 16], rcx",
    "mov [rax + {general} + 24], rdx",
    "mov [rax + {general} + 32], rsi",
    "mov [rax + {general} + 40], rdi",
    "mov [rax + {general} + 48], rbp",
    "mov [rax + {general} + 56], rsp",
    ".irp n,8,9,10,11,12,13,14,15",
    "mov [rax + {general} + 8 * \\n], r\\n",
    ".endr",
    "mov rsp, [rip + {block} + {stack}]",
    "pushfq",
    "pop [rax + {flags}]",
    "push 2",
    "popfq",
    "stmxcsr [rax + {mxcsr}]",
    "fnstcw [rax + {x87_control}]",
    ".irp n,0,1,2,3,4,5,6,7",
    "fistp qword ptr [rax + {x87} + 8 * \\n]",
    ".endr",
    "cmp qword ptr [rip + {block} + {level}], 1",
    "jb 3f",
    "je 4f",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "vmovdqu64 [rax + 64 * \\n], zmm\\n",
    ".endr",
    ".irp n,0,1,2,3,4,5,6,7",
    "kmovq [rax + {masks} + 8 * \\n], k\\n",
    ".endr",
    "vzeroupper",
    "jmp 5f",
    "4:",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "vmovdqu [rax + 64 * \\n], ymm\\n",
    ".endr",
    "vzeroupper",
    "jmp 5f",
    "3:",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movdqu [rax + 64 * \\n], xmm\\n",
    ".endr",
    "5:",
    "fninit",
    "push 0x1f80",
    "ldmxcsr [rsp]",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    ".size preempted_hold, . - preempted_hold",
    ".popsection",
    block = sym BLOCK,
    found = const offset_of!(Block, found),
    rounds = const offset_of!(Block, rounds),
    stack = const offset_of!(Block, stack),
    level = const offset_of!(Block, level),
    masks = const offset_of!(Registers, masks),
    x87 = const offset_of!(Registers, x87),
    general = const offset_of!(Registers, general),
    flags = const offset_of!(Registers, flags),
    mxcsr = const offset_of!(Registers, mxcsr),
    x87_control = const offset_of!(Registers, x87_control),
);

/// Fills all registers from `seed` and holds them for so many rounds.
///
/// # Panics
/// If one of them has changed.
pub(crate) fn hold(seed: u64, rounds: u64) {
    let level = match (is_x86_feature_detected!("avx512bw"), is_x86_feature_detected!("avx")) {
        (true, _) => 2,
        (false, avx) => u64::from(avx),
    };
    let given = pattern(seed, level);
    // SAFETY: one thread calls this, and the assembly keeps to the calling convention.
    let found = unsafe {
        addr_of_mut!(BLOCK.given).write(given);
        addr_of_mut!(BLOCK.found).write(EMPTY);
        addr_of_mut!(BLOCK.rounds).write(rounds.max(1));
        addr_of_mut!(BLOCK.level).write(level);
        preempted_hold();
        addr_of!(BLOCK.found).read()
    };
    let found = Registers { flags: found.flags & FLAGS, mxcsr: found.mxcsr & 0xffff, ..found };
    assert!(found == given, "round {seed} had {given:x?} and has {found:x?}");
}

/// Numbers without a pattern, in all registers that there are.
fn pattern(seed: u64, level: u64) -> Registers {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (wide, count) = match level {
        0 => (2, 16),
        1 => (4, 16),
        _ => (8, 32),
    };
    let mut given = EMPTY;
    for vector in &mut given.vectors[..count] {
        vector[..wide].fill_with(&mut next);
    }
    if level == 2 {
        given.masks.fill_with(&mut next);
    }
    given.x87.fill_with(|| next() as i64);
    given.general.fill_with(&mut next);
    given.flags = FLAGS & (next() | 1 << 1);
    // Rounding and flushing as programs set them; double precision, to nearest, upwards, downwards or to zero.
    given.mxcsr = 0x1f80 | (next() & 3) << 13 | (next() & 1) << 15 | next() & 0x3f;
    given.x87_control = 0x037f | (next() & 3) << 10;
    given
}
