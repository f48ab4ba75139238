//! User code that was interrupted: its registers as data, and the way back to them.
//!
//! A signal handler does not return to user code, because that takes a system call (`sigreturn`) that functions could make
//! too, and XRSTOR is not to be had, because it sets key rights. So the interrupted code is entered like any other, at a stub
//! that loads all registers *with the function's rights*, from a dump in the page of the carrier's entry frame:
//!
//! ```text
//!   entry frame, one page per carrier and key
//!   | stack, value | … | address of a stub | x87, SSE | vectors | masks | general | flags | address of a tail | rsp | rip |
//!                      ↑ user_rsp          ↑ rsp in the stub
//!   monohull_entry_… ── ret ──▶ stub: FXRSTOR, moves, pops, popfq, ret ──▶ tail: mov rsp, [rsp]; jmp gs:[…]
//! ```
//!
//! The tail is one for each carrier and key: with all registers loaded, only a distance from `gs` leads to the last word. A
//! stub is no secret and no privilege: it does nothing that a function could not do with instructions of its own. What other
//! threads of the same key write to the dump meanwhile becomes registers of user code, which are its own affair.
//!
//! The registers themselves stay in trusted memory until the thread has been seen behind the stub. If it is interrupted in
//! there, they are used again.

use super::{
    ENTRY_STRIDE, EXIT_STRIDE, FIRST_FUNCTION_KEY, FUNCTION_KEYS, Variant, VectorState, exit_gate, frame_page,
    monohull_enter, monohull_entry_keys, monohull_entry_plain,
};
use core::arch::global_asm;
use core::mem::offset_of;
use core::ops::Range;
use monohull_abi::layout::{CARRIER_MAX, CarrierLine, FRAMES_BASE, INFO_BASE, KEY_COUNT, PAGE};
use monohull_abi::module::Call;

/// Offset of the dump in the page of an entry frame.
const DUMP_OFFSET: u64 = 64;
/// Offset of the word that the entry stub pops, the address of the stub.
const STUB_OFFSET: u64 = DUMP_OFFSET - 8;
/// Bytes between two tails.
const TAIL_STRIDE: usize = 16;

/// General registers in a [`Registers`], by the order in which the stub pops them.
pub const GENERAL: usize = 15;
/// Bytes of all other registers, see [`Registers::extended`].
pub const EXTENDED: usize = LEGACY + size_of::<[[u8; 64]; 32]>() + size_of::<[u64; 8]>();
/// Where the kernel has them in `ucontext` (`REG_R15` and so on of libc).
const IN_CONTEXT: [usize; GENERAL] = [7, 6, 5, 4, 3, 2, 1, 0, 8, 9, 10, 11, 12, 14, 13];
/// Positions in [`Registers::general`].
const R14: usize = 1;
const R13: usize = 2;
const R12: usize = 3;
const R9: usize = 6;
const R8: usize = 7;
const RDI: usize = 8;
const RSI: usize = 9;
const RBP: usize = 10;
const RDX: usize = 12;
const RCX: usize = 13;
const RAX: usize = 14;
/// The same of those that are not popped.
const CONTEXT_RSP: usize = 15;
const CONTEXT_FLAGS: usize = 17;
/// General registers in `ucontext`.
pub const CONTEXT_REGISTERS: usize = 23;

/// Flags that user code keeps: carry, parity, auxiliary, zero, sign, direction, overflow, alignment check, identification.
const USER_FLAGS: u64 = 0xcd5 | 1 << 18 | 1 << 21;
/// The flag that is always set.
const FIXED_FLAGS: u64 = 1 << 1;
/// Bits of MXCSR that every processor in use has; others are a fault of FXRSTOR.
const MXCSR_BITS: u32 = 0xffff;

/// Bytes that FXSAVE writes.
const LEGACY: usize = 512;
const X87_CONTROL: Range<usize> = 0..2;
const X87_REST: Range<usize> = 2..24;
const MXCSR: Range<usize> = 24..28;
const X87_STACK: Range<usize> = 32..160;
const XMM: Range<usize> = 160..416;
/// What is zero in the x87 part of every [`Registers`].
const ZERO: [Range<usize>; 2] = [28..32, 416..512];
/// What the kernel writes there if more follows (`struct _fpx_sw_bytes`).
const MORE_FOLLOWS: Range<usize> = 464..468;
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
/// Where XSAVE lists its components (`XSTATE_BV`), and whether they are packed (`XCOMP_BV`).
const COMPONENTS: Range<usize> = 512..520;
const PACKED: Range<usize> = 520..528;

/// Components of XSAVE (Intel SDM volume 1, 13.1).
const X87: u64 = 1 << 0;
const SSE: u64 = 1 << 1;
const AVX: u64 = 1 << 2;
const MASKS: u64 = 1 << 5;
const ZMM_UPPER: u64 = 1 << 6;
const ZMM_MORE: u64 = 1 << 7;
/// Those that are not put back because an entry stub sets them.
const KEY_RIGHTS: u64 = 1 << 9;
/// Those of MPX, which some machines list always. It takes XRSTOR to switch MPX on, so functions cannot change them.
const BOUNDS: u64 = 1 << 3 | 1 << 4;
const PUT_BACK: u64 = X87 | SSE | AVX | MASKS | ZMM_UPPER | ZMM_MORE;

/// All registers of interrupted user code, as the stub loads them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[repr(C, align(64))]
pub struct Registers {
    /// What FXSAVE writes.
    legacy: [u8; LEGACY],
    /// Whole vector registers.
    vectors: [[u8; 64]; 32],
    /// Mask registers.
    masks: [u64; 8],
    /// r15 to r8, rdi, rsi, rbp, rbx, rdx, rcx, rax.
    general: [u64; GENERAL],
    flags: u64,
    /// The address of the tail, while this is a dump.
    tail: u64,
    sp: u64,
    ip: u64,
}

const _: () = assert!(DUMP_OFFSET as usize + size_of::<Registers>() <= PAGE as usize);

/// Where the components of XSAVE lie, which the processor decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct XsaveLayout {
    /// Offsets of the upper halves of YMM, of masks, of the upper halves of ZMM, and of ZMM 16 to 31; 0 for those there are not.
    pub avx: usize,
    /// See `avx`.
    pub masks: usize,
    /// See `avx`.
    pub zmm_upper: usize,
    /// See `avx`.
    pub zmm_more: usize,
}

impl XsaveLayout {
    /// Asks the processor, which takes long on a virtual machine.
    pub fn detect() -> XsaveLayout {
        XsaveLayout {
            avx: super::registers::xsave_offset(2),
            masks: super::registers::xsave_offset(5),
            zmm_upper: super::registers::xsave_offset(6),
            zmm_more: super::registers::xsave_offset(7),
        }
    }
}

/// These are no registers of interrupted user code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRegisters;

/// User code uses registers that cannot be put back: components of XSAVE, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownRegisters(pub u64);

impl Registers {
    /// The registers in the kernel's signal frame: the general ones of `ucontext`, the instruction pointer, and what XSAVE has
    /// written. The frame is the kernel's, its contents are user code's.
    pub fn of_signal(
        context: &[u64; CONTEXT_REGISTERS],
        ip: u64,
        extended: &[u8],
        layout: &XsaveLayout,
    ) -> Result<Registers, UnknownRegisters> {
        let mut registers = Registers {
            legacy: [0; LEGACY],
            vectors: [[0; 64]; 32],
            masks: [0; 8],
            general: IN_CONTEXT.map(|register| context[register]),
            flags: context[CONTEXT_FLAGS] & USER_FLAGS | FIXED_FLAGS,
            tail: 0,
            sp: context[CONTEXT_RSP],
            ip,
        };
        registers.take_extended(extended, layout)?;
        Ok(registers)
    }

    fn take_extended(&mut self, extended: &[u8], layout: &XsaveLayout) -> Result<(), UnknownRegisters> {
        let word = |range: &Range<usize>| extended.get(range.clone()).map_or(0, read);
        let present = match word(&MORE_FOLLOWS) as u32 == FP_XSTATE_MAGIC1 {
            true => word(&COMPONENTS),
            false => X87 | SSE,
        };
        let unknown = present & !(PUT_BACK | KEY_RIGHTS | BOUNDS);
        if unknown != 0 || word(&PACKED) != 0 && present & !(X87 | SSE) != 0 {
            return Err(UnknownRegisters(unknown));
        }
        let Some(legacy) = extended.get(..LEGACY) else { return Err(UnknownRegisters(X87 | SSE)) };
        // What is not listed is as at the start, whatever the frame has in its place.
        self.legacy[X87_CONTROL].copy_from_slice(&(super::X87_DEFAULT as u16).to_le_bytes());
        if present & X87 != 0 {
            for range in [X87_CONTROL, X87_REST, X87_STACK] {
                self.legacy[range.clone()].copy_from_slice(&legacy[range]);
            }
        }
        self.legacy[MXCSR].copy_from_slice(&(word(&MXCSR) as u32 & MXCSR_BITS).to_le_bytes());
        if present & SSE != 0 {
            self.legacy[XMM].copy_from_slice(&legacy[XMM]);
            for (vector, xmm) in self.vectors.iter_mut().zip(legacy[XMM].chunks_exact(16)) {
                vector[..16].copy_from_slice(xmm);
            }
        }
        let part = |component: u64, offset: usize, bytes: usize| match present & component != 0 && offset != 0 {
            true => extended.get(offset..offset + bytes).ok_or(UnknownRegisters(component)).map(Some),
            false => Ok(None),
        };
        if let Some(upper) = part(AVX, layout.avx, 16 * 16)? {
            for (vector, bytes) in self.vectors.iter_mut().zip(upper.chunks_exact(16)) {
                vector[16..32].copy_from_slice(bytes);
            }
        }
        if let Some(upper) = part(ZMM_UPPER, layout.zmm_upper, 16 * 32)? {
            for (vector, bytes) in self.vectors.iter_mut().zip(upper.chunks_exact(32)) {
                vector[32..].copy_from_slice(bytes);
            }
        }
        if let Some(more) = part(ZMM_MORE, layout.zmm_more, 16 * 64)? {
            for (vector, bytes) in self.vectors[16..].iter_mut().zip(more.chunks_exact(64)) {
                vector.copy_from_slice(bytes);
            }
        }
        if let Some(masks) = part(MASKS, layout.masks, 8 * 8)? {
            for (mask, bytes) in self.masks.iter_mut().zip(masks.chunks_exact(8)) {
                *mask = read(bytes);
            }
        }
        Ok(())
    }

    /// The instruction pointer.
    pub fn ip(&self) -> u64 {
        self.ip
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.sp
    }

    /// The frame pointer, if user code uses one.
    pub fn bp(&self) -> u64 {
        self.general[RBP]
    }

    /// r15 to r8, rdi, rsi, rbp, rbx, rdx, rcx, rax.
    pub fn general(&self) -> &[u64; GENERAL] {
        &self.general
    }

    /// The flags.
    pub fn flags(&self) -> u64 {
        self.flags
    }

    /// What FXSAVE writes, 32 vector registers of 64 bytes, 8 mask registers of 8.
    pub fn extended(&self) -> [u8; EXTENDED] {
        let masks = self.masks.iter().flat_map(|mask| mask.to_le_bytes());
        let mut bytes = self.legacy.iter().copied().chain(self.vectors.iter().flatten().copied()).chain(masks);
        core::array::from_fn(|_| bytes.next().unwrap_or_default())
    }

    /// The registers that these are the parts of, on a processor with such vector registers. Anyone may have written them.
    pub fn of_parts(
        (ip, sp, flags): (u64, u64, u64),
        general: &[u64; GENERAL],
        extended: &[u8],
        vectors: VectorState,
    ) -> Result<Registers, NoRegisters> {
        let extended: &[u8; EXTENDED] = extended.try_into().map_err(|_| NoRegisters)?;
        let (legacy, rest) = extended.split_at(LEGACY);
        let (all, masks) = rest.split_at(rest.len() - size_of::<[u64; 8]>());
        let mut registers = Registers {
            legacy: [0; LEGACY],
            vectors: [[0; 64]; 32],
            masks: [0; 8],
            general: *general,
            flags,
            tail: 0,
            sp,
            ip,
        };
        registers.legacy.copy_from_slice(legacy);
        for (vector, bytes) in registers.vectors.iter_mut().zip(all.chunks_exact(64)) {
            vector.copy_from_slice(bytes);
        }
        for (mask, bytes) in registers.masks.iter_mut().zip(masks.chunks_exact(8)) {
            *mask = read(bytes);
        }
        let (count, width, has_masks) = match vectors {
            VectorState::Sse => (16, 16, false),
            VectorState::Avx => (16, 32, false),
            VectorState::Avx512 => (32, 64, true),
        };
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let low = || registers.vectors.iter().zip(legacy[XMM].chunks_exact(16));
        let right = flags & !USER_FLAGS == FIXED_FLAGS
            && read(&legacy[MXCSR]) <= u64::from(MXCSR_BITS)
            && ZERO.into_iter().all(|range| is_zero(&legacy[range]))
            && low().all(|(vector, xmm)| vector[..16] == *xmm)
            && registers.vectors[count..].iter().all(|vector| is_zero(vector))
            && registers.vectors.iter().all(|vector| is_zero(&vector[width..]))
            && (has_masks || registers.masks == [0; 8]);
        if right { Ok(registers) } else { Err(NoRegisters) }
    }

    /// Writes the hostcall that these registers are about to make, see [`Place::Leaving`]: what the exit gate would have written.
    pub fn write_call(&self, saved: bool, call: &mut Call) {
        let [number, rcx, rdx] = if saved { [R12, R13, R14] } else { [RAX, RCX, RDX] };
        call.user_rsp = self.sp;
        call.number = self.general[number];
        call.args = [RDI, RSI, rdx, rcx, R8, R9].map(|register| self.general[register]);
    }

    /// Makes `call`, which is about to be entered on carrier `index` with the rights of `key`, go on with these registers.
    ///
    /// # Safety
    /// The frame's page (see [`frame_page`]) is mapped and writable, and no user code runs on that carrier.
    pub unsafe fn resume(&self, index: usize, key: u32, vectors: VectorState, call: &mut Call) {
        let page = frame_page(index, key);
        let stub = match vectors {
            VectorState::Sse => monohull_resume_sse as *const () as u64,
            VectorState::Avx => monohull_resume_avx as *const () as u64,
            VectorState::Avx512 => monohull_resume_avx512 as *const () as u64,
        };
        let dump = (page + DUMP_OFFSET) as *mut Registers;
        // SAFETY: the caller's promise; both places lie in that page. Other threads of the same key may write there too, and
        // nothing is read back.
        unsafe {
            core::ptr::copy_nonoverlapping(self, dump, 1);
            (&raw mut (*dump).tail).write(tail(index, key));
            ((page + STUB_OFFSET) as *mut u64).write(stub);
        }
        call.user_rsp = page + STUB_OFFSET;
        call.value = 0;
    }
}

/// Where interrupted user code was, as far as its carrier is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// On the way in: it has not run since it was entered.
    Entering,
    /// In the carrier's exit gate: the call is made, and nothing of it is written yet that counts.
    Leaving {
        /// Number, fourth and third argument have been moved to r12, r13 and r14.
        saved: bool,
    },
    /// In none of both, so in code of its own if it is where it may be.
    Elsewhere,
}

/// Where `ip` is, for user code that was interrupted on carrier `index`.
pub fn place(variant: Variant, index: usize, ip: u64) -> Place {
    let at = |function: unsafe extern "C" fn()| function as *const () as u64;
    let entries = match variant {
        Variant::Plain => at(monohull_entry_plain)..at(monohull_entry_plain) + ENTRY_STRIDE as u64,
        Variant::Keys => {
            at(monohull_entry_keys)..at(monohull_entry_keys) + (CARRIER_MAX * FUNCTION_KEYS * ENTRY_STRIDE) as u64
        }
    };
    let enter = at(monohull_enter)..at(monohull_enter_end);
    let stubs = at(monohull_resume_sse)..at(monohull_resume_end);
    if enter.contains(&ip) || entries.contains(&ip) || stubs.contains(&ip) {
        return Place::Entering;
    }
    let gate = exit_gate(variant, index);
    if (gate..gate + EXIT_STRIDE as u64).contains(&ip) {
        return Place::Leaving { saved: variant == Variant::Keys && ip > gate + super::EXIT_SAVED };
    }
    match (at(monohull_exit_tail)..at(monohull_exit_switched)).contains(&ip) {
        true => Place::Leaving { saved: false },
        false => Place::Elsewhere,
    }
}

/// Where the way in begins, for those who follow a thread step by step.
pub fn entrance() -> u64 {
    monohull_enter as *const () as u64
}

/// Where the ways back from an interruption begin, for the same.
pub fn ways_back() -> [u64; 3] {
    [monohull_resume_sse, monohull_resume_avx, monohull_resume_avx512].map(|stub| stub as *const () as u64)
}

/// The address of the tail of carrier `index` for `key`.
fn tail(index: usize, key: u32) -> u64 {
    assert!(index < CARRIER_MAX && (FIRST_FUNCTION_KEY..KEY_COUNT as u32).contains(&key));
    let tail = index * FUNCTION_KEYS + (key - FIRST_FUNCTION_KEY) as usize;
    monohull_resume_tails as *const () as u64 + (tail * TAIL_STRIDE) as u64
}

/// A little-endian number of up to eight bytes.
fn read(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

unsafe extern "C" {
    fn monohull_enter_end();
    fn monohull_exit_tail();
    fn monohull_exit_switched();
    fn monohull_resume_sse();
    fn monohull_resume_avx();
    fn monohull_resume_avx512();
    fn monohull_resume_tails();
    fn monohull_resume_end();
}

// CAUTION: what follows runs with the rights of functions, and functions can jump to any byte of it. It holds nothing that they
// could not have in their own code.
global_asm!(
    ".pushsection .text.monohull_gates, \"ax\", @progbits",

    // ── the stubs: rsp = the dump ─────────────────────────────────────────────────────────────────────────────────
    ".p2align 6",
    ".globl monohull_resume_sse",
    ".hidden monohull_resume_sse",
    ".type monohull_resume_sse, @function",
    "monohull_resume_sse:",
    "fxrstor64 [rsp]",
    "3:",
    "lea rsp, [rsp + {general}]",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rbp",
    "pop rbx",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "popfq",
    "ret",
    ".size monohull_resume_sse, . - monohull_resume_sse",

    ".p2align 6",
    ".globl monohull_resume_avx",
    ".hidden monohull_resume_avx",
    ".type monohull_resume_avx, @function",
    "monohull_resume_avx:",
    "fxrstor64 [rsp]",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "vmovups ymm\\n, [rsp + {vectors} + 64 * \\n]",
    ".endr",
    "jmp 3b",
    ".size monohull_resume_avx, . - monohull_resume_avx",

    ".p2align 6",
    ".globl monohull_resume_avx512",
    ".hidden monohull_resume_avx512",
    ".type monohull_resume_avx512, @function",
    "monohull_resume_avx512:",
    "fxrstor64 [rsp]",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "vmovups zmm\\n, [rsp + {vectors} + 64 * \\n]",
    ".endr",
    ".irp n,0,1,2,3,4,5,6,7",
    "kmovq k\\n, [rsp + {masks} + 8 * \\n]",
    ".endr",
    "jmp 3b",
    ".size monohull_resume_avx512, . - monohull_resume_avx512",

    // ── the tails, one for each carrier and key: rsp = where the stack pointer is in the dump, all else is loaded ──
    ".p2align 4",
    ".globl monohull_resume_tails",
    ".hidden monohull_resume_tails",
    ".type monohull_resume_tails, @function",
    "monohull_resume_tails:",
    ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    ".irp k,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    ".p2align 4",
    "mov rsp, [rsp]",
    "jmp qword ptr gs:[{frames} + (\\i * {keys} + \\k) * {page} - \\i * {line} + {ip}]",
    ".endr",
    ".endr",
    ".p2align 4",
    ".size monohull_resume_tails, . - monohull_resume_tails",
    ".globl monohull_resume_end",
    ".hidden monohull_resume_end",
    "monohull_resume_end:",
    ".popsection",

    vectors = const offset_of!(Registers, vectors),
    masks = const offset_of!(Registers, masks),
    general = const offset_of!(Registers, general),
    frames = const FRAMES_BASE - INFO_BASE,
    keys = const KEY_COUNT,
    page = const PAGE,
    line = const size_of::<CarrierLine>(),
    ip = const DUMP_OFFSET as usize + offset_of!(Registers, ip),
);
