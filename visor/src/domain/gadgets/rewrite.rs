//! How a sequence of bytes is taken out of code that must go on working.
//!
//! Nothing is changed here: what comes out are the new bytes of one place, and code for an *island*, a piece of
//! memory within a jump's reach.
//!
//! ```text
//!   an instruction of its own                     bytes of other instructions
//!
//!   … │ wrpkru   │ …                              … │ lea rdi, [rip + 0xef010f]   │ …
//!   … │ ud2 int3 │ …   nobody needs it            … │ jmp island        int3 int3 │ …  ◀──┐
//!                                                          └─▶ lea rdi, [rip + 0xf3c2a8] │
//!                                                              jmp back ─────────────────┘
//! ```
//!
//! What lies relative to the instruction pointer is another number when seen from the island, and that breaks the
//! sequence. If it does not, or makes another, the next place of the island is tried.
//!
//! The function around the sequence is decoded from its start, which the unwind table knows. An instruction can be
//! moved alone if the jump fits in its place. Several can be moved together if none but the last leads elsewhere and
//! nothing can jump to the later ones: neither a branch anywhere in the code nor, as the function has none, a jump
//! through a table. A call is moved as "push the old return address, jump", so that unwinding finds the frames it knows.
#![deny(unsafe_code)]

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, Instruction, InstructionBlock, MemoryOperand,
    Mnemonic, OpKind, Register,
};
use monohull_checker::Severity;
use monohull_checker::instruction::{Found, scan};
use std::cell::OnceCell;
use std::ops::Range;

/// Bytes of `jmp rel32`.
const JUMP: usize = 5;
const UD2: [u8; 2] = [0x0f, 0x0b];
const INT3: u8 = 0xcc;
/// No instruction is longer, so no sequence reaches further.
const REACH: usize = 15;
/// Most instructions that are moved together: jumps fit in five of the shortest.
const TOGETHER: usize = 5;
/// Places of an island that are tried for one piece of code.
const PLACES: usize = 64;

/// Executable memory of the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    pub(super) bytes: &'a [u8],
    /// Address of the first byte.
    pub(super) address: u64,
}

/// New bytes for a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Edit {
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
}

impl Edit {
    pub(super) fn range(&self) -> Range<u64> {
        self.address..self.address + self.bytes.len() as u64
    }
}

/// Code that has been moved out of the way, and where it is going to be mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Island {
    pub(super) address: u64,
    pub(super) code: Vec<u8>,
    /// Bytes there is room for.
    pub(super) room: usize,
}

impl Island {
    /// Addresses of its code.
    pub(super) fn range(&self) -> Range<u64> {
        self.address..self.address + self.code.len() as u64
    }
}

/// How a sequence is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// An instruction of its own: it is an illegal one now.
    Overwritten,
    /// Bytes of other instructions: these have been moved.
    Displaced,
}

impl Way {
    /// As it is written in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Overwritten => "overwritten",
            Way::Displaced => "displaced",
        }
    }
}

/// Why a sequence cannot be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Obstacle {
    /// it lies in no function that the object's unwind table knows, so it may be data
    #[error("it lies in no function that the object's unwind table knows, so it may be data")]
    NoFunction,
    /// the function around it cannot be decoded
    #[error("the function around it cannot be decoded")]
    Undecodable,
    /// the instructions around it are too short to hold a jump, or something may jump between them
    #[error("the instructions around it are too short to hold a jump, or something may jump between them")]
    TooShort,
    /// the instructions around it have these bytes wherever they are moved to
    #[error("the instructions around it have these bytes wherever they are moved to")]
    Constant,
    /// the process has closed itself in, and can change its code no more
    #[error("the process has closed itself in, and can change its code no more")]
    Closed,
    /// there is no free memory within a jump's reach
    #[error("there is no free memory within a jump's reach")]
    NoRoom,
}

/// Sequences that must not be anywhere in executable memory.
pub(super) fn forbidden(bytes: &[u8]) -> impl Iterator<Item = Found> {
    scan(bytes).filter(|found| found.kind.severity() == Severity::Refuse)
}

/// Takes the sequence at index `found` out of `text`; `function` are the indices of the function around it, `taken`
/// the edits that have been decided on.
pub(super) fn remove(
    text: Text<'_>,
    found: Found,
    function: Option<Range<usize>>,
    island: Option<&mut Island>,
    taken: &[Edit],
) -> Result<(Way, Edit), Obstacle> {
    let gadget = found.start..found.start + found.length;
    let function = function.ok_or(Obstacle::NoFunction)?;
    let instructions = decode(text, &function).ok_or(Obstacle::Undecodable)?;
    let holds = |instruction: &Instruction| overlap(&place(text, instruction), &gadget);
    let first = instructions.iter().position(holds).ok_or(Obstacle::Undecodable)?;
    if is_forbidden(&instructions[first]) {
        let place = place(text, &instructions[first]);
        let mut bytes = vec![INT3; place.len()];
        bytes[..UD2.len()].copy_from_slice(&UD2);
        let edit = Edit { address: text.address + place.start as u64, bytes };
        return if is_clean(text, &edit) { Ok((Way::Overwritten, edit)) } else { Err(Obstacle::Constant) };
    }
    let last = instructions.iter().rposition(holds).ok_or(Obstacle::Undecodable)?;
    let mut windows = windows(text, &instructions, first..last + 1, taken).peekable();
    windows.peek().ok_or(Obstacle::TooShort)?;
    let island = island.ok_or(Obstacle::NoRoom)?;
    let edit = windows.find_map(|window| displace(text, &instructions[window], island));
    edit.map(|edit| (Way::Displaced, edit)).ok_or(Obstacle::Constant)
}

/// Whether the edited place, with what lies around it, holds no forbidden sequence (any more).
pub(super) fn is_clean(text: Text<'_>, edit: &Edit) -> bool {
    let start = (edit.address - text.address) as usize;
    let end = start + edit.bytes.len();
    let around = start.saturating_sub(REACH)..(end + REACH).min(text.bytes.len());
    let mut bytes = text.bytes[around.clone()].to_vec();
    bytes[start - around.start..end - around.start].copy_from_slice(&edit.bytes);
    let edited = start - around.start..end - around.start;
    // What lies beside it altogether is not its doing.
    !forbidden(&bytes).any(|found| overlap(&edited, &(found.start..found.start + found.length)))
}

/// All instructions of a function, if they can all be decoded.
fn decode(text: Text<'_>, function: &Range<usize>) -> Option<Vec<Instruction>> {
    let bytes = text.bytes.get(function.clone())?;
    let decoder = Decoder::with_ip(64, bytes, text.address + function.start as u64, DecoderOptions::NONE);
    decoder.into_iter().map(|instruction| (!instruction.is_invalid()).then_some(instruction)).collect()
}

fn place(text: Text<'_>, instruction: &Instruction) -> Range<usize> {
    let start = (instruction.ip() - text.address) as usize;
    start..start + instruction.len()
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

fn is_forbidden(instruction: &Instruction) -> bool {
    use Mnemonic::{Wrfsbase, Wrgsbase, Wrpkru, Xrstor, Xrstor64};
    matches!(instruction.mnemonic(), Wrpkru | Xrstor | Xrstor64 | Wrfsbase | Wrgsbase)
}

/// Runs of instructions that hold a byte of the gadget, which lies in the instructions `gadget`, and can be moved; those
/// of fewest instructions first.
fn windows<'w>(
    text: Text<'w>,
    instructions: &'w [Instruction],
    gadget: Range<usize>,
    taken: &'w [Edit],
) -> impl Iterator<Item = Range<usize>> {
    let from = gadget.start.saturating_sub(TOGETHER - 1)..gadget.end;
    let all = from.clone().flat_map(|start| {
        let shortest = start.max(gadget.start) + 1;
        (shortest..=(start + TOGETHER).min(instructions.len())).map(move |end| start..end)
    });
    let mut all: Vec<Range<usize>> = all.collect();
    all.sort_by_key(|window| window.len());
    let entered = OnceCell::new();
    all.into_iter().filter(move |window| {
        let all = &instructions[window.clone()];
        let bytes = place(text, &all[0]).start..place(text, &all[all.len() - 1]).end;
        let free = !taken.iter().any(|edit| {
            let start = (edit.address - text.address) as usize;
            overlap(&bytes, &(start..start + edit.bytes.len()))
        });
        let straight = !all[..all.len() - 1].iter().any(leads_elsewhere) && !uses_its_own_push(&all[all.len() - 1]);
        // Looking for branches takes a while, and is seldom needed.
        let entered = |inner: &Instruction| {
            let last = (from.end + TOGETHER).min(instructions.len()) - 1;
            let near = instructions[from.start].ip()..instructions[last].next_ip();
            let tables = || instructions.iter().any(jumps_indirectly);
            let targets = entered.get_or_init(|| (!tables()).then(|| targets(text, near)));
            targets.as_ref().is_none_or(|targets| targets.contains(&inner.ip()))
        };
        bytes.len() >= JUMP && free && straight && !all[1..].iter().any(entered)
    })
}

/// A jump to an address that is not in its code.
fn jumps_indirectly(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Jmp && !is_near_branch(instruction)
}

fn is_near_branch(instruction: &Instruction) -> bool {
    instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64
}

/// Whether something else than the next instruction may follow.
fn leads_elsewhere(instruction: &Instruction) -> bool {
    use Mnemonic::{Call, Hlt, Int, Int1, Int3, Iretq, Jmp, Ret, Retf, Syscall, Sysenter, Ud0, Ud1, Ud2, Xbegin};
    let mnemonic = instruction.mnemonic();
    is_near_branch(instruction)
        || matches!(mnemonic, Call | Jmp | Ret | Retf | Iretq | Int | Int1 | Int3 | Ud0 | Ud1 | Ud2)
        || matches!(mnemonic, Hlt | Syscall | Sysenter | Xbegin)
}

/// A call whose target depends on the stack pointer would see it moved.
fn uses_its_own_push(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Call
        && [instruction.op0_register(), instruction.memory_base()].contains(&Register::RSP)
}

/// Every address in `near` that any bytes of the code could be a branch to, or the taking of its address. Nothing is
/// decoded, so there may be false alarms, but no branch is missed.
fn targets(text: Text<'_>, near: Range<u64>) -> Vec<u64> {
    let behind = |at: usize, length: usize, distance: i64| {
        let target = (text.address + (at + length) as u64).wrapping_add_signed(distance);
        near.contains(&target).then_some(target)
    };
    let mut targets = Vec::new();
    for (at, word) in text.bytes.windows(4).enumerate() {
        targets.extend(behind(at, 4, i64::from(i32::from_le_bytes([word[0], word[1], word[2], word[3]]))));
    }
    for (at, pair) in text.bytes.windows(2).enumerate() {
        if matches!(pair[0], 0x70..=0x7f | 0xe0..=0xe3 | 0xeb) {
            targets.extend(behind(at, 2, i64::from(pair[1] as i8)));
        }
    }
    targets
}

/// Moves instructions to the island, and gives what takes their place.
fn displace(text: Text<'_>, window: &[Instruction], island: &mut Island) -> Option<Edit> {
    let start = window[0].ip();
    let length = (window[window.len() - 1].next_ip() - start) as usize;
    for place in (0..PLACES).map(|skipped| island.code.len() + skipped) {
        let address = island.address + place as u64;
        let distance = i32::try_from(address as i64 - (start + JUMP as u64) as i64).ok()?;
        let mut bytes = vec![INT3; length];
        bytes[0] = 0xe9;
        bytes[1..JUMP].copy_from_slice(&distance.to_le_bytes());
        let edit = Edit { address: start, bytes };
        // With something between them, bytes of two instructions do not meet.
        for apart in [false, true] {
            let Some(moved) = encode(window, address, apart) else { continue };
            if place + moved.len() > island.room {
                return None;
            }
            let mut code = island.code.clone();
            code.resize(place, INT3);
            code.extend(moved);
            code.push(INT3);
            if forbidden(&code).next().is_none() && is_clean(text, &edit) {
                island.code = code;
                return Some(edit);
            }
        }
    }
    None
}

/// The instructions as they must be to do the same at `address` and then go on behind their old place.
fn encode(window: &[Instruction], address: u64, apart: bool) -> Option<Vec<u8>> {
    let mut moved = Vec::new();
    for (index, instruction) in window.iter().enumerate() {
        if apart && index > 0 {
            moved.push(Instruction::with(Code::Nopd));
        }
        match instruction.mnemonic() {
            Mnemonic::Call => moved.extend(call(instruction)?),
            _ => moved.push(*instruction),
        }
    }
    moved.push(Instruction::with_branch(Code::Jmp_rel32_64, window[window.len() - 1].next_ip()).ok()?);
    let block = InstructionBlock::new(&moved, address);
    Some(BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).ok()?.code_buffer)
}

/// A call that returns to where the original would.
fn call(instruction: &Instruction) -> Option<[Instruction; 3]> {
    let back = instruction.next_ip();
    // The push extends its word's sign to 64 bits; the upper half is then put right.
    let push = Instruction::with1(Code::Pushq_imm32, back as u32 as i32).ok()?;
    let upper = MemoryOperand::with_base_displ(Register::RSP, 4);
    let upper = Instruction::with2(Code::Mov_rm32_imm32, upper, (back >> 32) as u32).ok()?;
    let jump = if is_near_branch(instruction) {
        Instruction::with_branch(Code::Jmp_rel32_64, instruction.near_branch_target()).ok()?
    } else {
        let mut jump = *instruction;
        jump.set_code((instruction.code() == Code::Call_rm64).then_some(Code::Jmp_rm64)?);
        jump
    };
    Some([push, upper, jump])
}
