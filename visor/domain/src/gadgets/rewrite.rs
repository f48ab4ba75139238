//! How a sequence of bytes is taken out of code that must go on working.
//!
//! Nothing is changed here: what comes out are the new bytes of one place, and code for an *island*, a piece of
//! memory within a jump's reach.
//!
//! ```text
//!   an instruction of its own                     bytes of other instructions
//!
//!   … │ wrpkru   │ …                              … │ lea rdi, [rip + 0xef010f]   │ …
//!   … │ ud2 int3 │ …   never executed             … │ jmp island        int3 int3 │ …  ◀──┐
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
use monohull_checker::instruction::{Found, scan_refused};
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
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum Obstacle {
    #[error("the object's unwind table has no function around it, so it may be data")]
    NoFunction,
    #[error("the function around it cannot be decoded")]
    Undecodable,
    #[error("the instructions around it are too short to hold a jump, or something may jump between them")]
    TooShort,
    #[error("the instructions around it have these bytes wherever they are moved to")]
    Constant,
    #[error("the sandbox is already active; code can no longer be patched")]
    Closed,
    #[error("there is no free memory within a jump's reach")]
    NoRoom,
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
    !scan_refused(&bytes).iter().any(|found| overlap(&edited, &(found.start..found.start + found.length)))
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

fn overlap<T: PartialOrd>(a: &Range<T>, b: &Range<T>) -> bool {
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
        let bytes = all[0].ip()..all[all.len() - 1].next_ip();
        // Edits may be of other runs, too.
        let free = !taken.iter().any(|edit| overlap(&bytes, &edit.range()));
        let straight = !all[..all.len() - 1].iter().any(leads_elsewhere) && !uses_its_own_push(&all[all.len() - 1]);
        // Looking for branches takes a while, and is seldom needed.
        let entered = |inner: &Instruction| {
            let last = (from.end + TOGETHER).min(instructions.len()) - 1;
            let near = instructions[from.start].ip()..instructions[last].next_ip();
            let tables = || instructions.iter().any(jumps_indirectly);
            let targets = entered.get_or_init(|| (!tables()).then(|| targets(text, near)));
            targets.as_ref().is_none_or(|targets| targets.contains(&inner.ip()))
        };
        bytes.end - bytes.start >= JUMP as u64 && free && straight && !all[1..].iter().any(entered)
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
            if scan_refused(&code).is_empty() && is_clean(text, &edit) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_checker::Kind;
    use proptest::prelude::*;

    const BASE: u64 = 0x7000_0000_0000;
    const WRPKRU: [u8; 3] = [0x0f, 0x01, 0xef];

    fn island(address: u64) -> Island {
        Island { address, code: Vec::new(), room: 4096 }
    }

    /// Takes the first sequence out of a function that is these bytes, among others.
    fn remove_from(function: &[u8], island: &mut Island) -> Result<(Way, Edit), Obstacle> {
        let bytes = [&[0xcc; 32], function, &[0xcc; 32]].concat();
        let found = scan_refused(&bytes)[0];
        let text = Text { bytes: &bytes, address: BASE };
        remove(text, found, Some(32..32 + function.len()), Some(island), &[])
    }

    fn instructions(bytes: &[u8], address: u64) -> Vec<Instruction> {
        Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).into_iter().collect()
    }

    #[test]
    fn an_instruction_becomes_an_illegal_one() {
        let mut island = island(BASE - 0x10000);
        let (way, edit) =
            remove_from(&[0x31, 0xc0, 0x0f, 0xae, 0x6c, 0x24, 0x40, 0xc3], &mut island).expect("removable");
        assert_eq!((way, edit.address), (Way::Overwritten, BASE + 34));
        assert_eq!(edit.bytes, [0x0f, 0x0b, 0xcc, 0xcc, 0xcc]);
        assert!(island.code.is_empty());
    }

    #[test]
    fn an_address_is_the_same_from_the_island() {
        let mut island = island(BASE - 0x10000);
        // lea rax, [rip + 0xef010f]; ret
        let (way, edit) =
            remove_from(&[0x48, 0x8d, 0x05, 0x0f, 0x01, 0xef, 0x00, 0xc3], &mut island).expect("removable");
        assert_eq!((way, edit.address, edit.bytes.len()), (Way::Displaced, BASE + 32, 7));
        let jump = instructions(&edit.bytes, edit.address)[0];
        let moved = instructions(&island.code, island.address);
        assert_eq!(jump.near_branch_target(), island.address);
        assert_eq!(moved[0].ip_rel_memory_address(), BASE + 32 + 7 + 0xef010f);
        assert_eq!(moved[1].near_branch_target(), BASE + 39);
    }

    #[test]
    fn a_place_whose_jump_would_be_a_gadget_is_passed_by() {
        // From 32 on, `jmp` there is `e9 0f 01 ef ff`.
        let bad = (BASE + 32 + 5).wrapping_add_signed(i64::from(i32::from_le_bytes([0x0f, 0x01, 0xef, 0xff])));
        let mut island = island(bad);
        let (_, edit) = remove_from(&[0x48, 0x8d, 0x05, 0x0f, 0x01, 0xef, 0x00, 0xc3], &mut island).expect("removable");
        assert!(instructions(&edit.bytes, edit.address)[0].near_branch_target() > bad);
        assert!(scan_refused(&edit.bytes).is_empty());
    }

    #[test]
    fn a_moved_call_pushes_the_old_return_address() {
        let mut island = island(BASE - 0x10000);
        // call [rip + 0xef010f]
        remove_from(&[0xff, 0x15, 0x0f, 0x01, 0xef, 0x00, 0xc3], &mut island).expect("removable");
        let moved = instructions(&island.code, island.address);
        let back = BASE + 38;
        assert_eq!((moved[0].mnemonic(), moved[0].immediate32()), (Mnemonic::Push, back as u32));
        assert_eq!((moved[1].memory_displacement64(), moved[1].immediate32()), (4, (back >> 32) as u32));
        assert_eq!((moved[2].code(), moved[2].ip_rel_memory_address()), (Code::Jmp_rm64, back + 0xef010f));
    }

    #[test]
    fn several_are_moved_only_if_nothing_jumps_between_them() {
        // mov al, 0x0f; add edi, ebp; dec ecx; ret
        let alone = [0xb0, 0x0f, 0x01, 0xef, 0xff, 0xc9, 0xc3];
        assert_eq!(remove_from(&alone, &mut island(BASE - 0x10000)).map(|(way, _)| way), Ok(Way::Displaced));
        // The same with a jump through a table, which may lead anywhere in the function: jmp rax
        let with_table = [&[0xff, 0xe0], &alone[..]].concat();
        assert_eq!(remove_from(&with_table, &mut island(BASE - 0x10000)), Err(Obstacle::TooShort));
    }

    #[test]
    fn every_obstacle_is_reported() {
        let mut near = island(BASE - 0x10000);
        assert_eq!(remove_from(&[0xb8, 0x0f, 0x01, 0xef, 0x00, 0xc3], &mut near), Err(Obstacle::Constant));
        assert_eq!(remove_from(&[0x06, 0xb8, 0x0f, 0x01, 0xef, 0x00, 0xc3], &mut near), Err(Obstacle::Undecodable));
        let bytes = [0x48, 0x8d, 0x05, 0x0f, 0x01, 0xef, 0x00, 0xc3];
        let text = Text { bytes: &bytes, address: BASE };
        let found = Found { start: 3, length: 3, kind: Kind::Wrpkru };
        assert_eq!(remove(text, found, None, Some(&mut near), &[]), Err(Obstacle::NoFunction));
        assert_eq!(remove(text, found, Some(0..8), None, &[]), Err(Obstacle::NoRoom));
        // Already changed, here and elsewhere in the process.
        let here = Edit { address: BASE, bytes: vec![0xcc; 7] };
        let below = Edit { address: BASE - 0x100000, bytes: vec![0xcc; 7] };
        let taken =
            |taken: &[Edit]| remove(text, found, Some(0..8), Some(&mut island(BASE - 0x10000)), taken).map(|_| ());
        assert_eq!((taken(&[below.clone(), here]), taken(&[below])), (Err(Obstacle::TooShort), Ok(())));
        // Out of a jump's reach.
        assert_eq!(remove(text, found, Some(0..8), Some(&mut island(BASE / 2)), &[]), Err(Obstacle::Constant));
    }

    proptest! {
        /// Whatever lies around: after a removal neither place nor island hold anything that is forbidden.
        #[test]
        fn no_refused_bytes_remain_after_a_removal(before in prop::collection::vec(any::<u8>(), 0..24), at in 0..4096u64) {
            let function = [&before[..], &[0x48, 0x8d, 0x05], &WRPKRU, &[0x00, 0xc3]].concat();
            let bytes = [&[0xcc; 16], &function[..], &[0xcc; 16]].concat();
            let text = Text { bytes: &bytes, address: BASE };
            let mut island = island(BASE - 0xf00000 + at);
            for found in scan_refused(&bytes) {
                let Ok((_, edit)) = remove(text, found, Some(16..16 + function.len()), Some(&mut island), &[]) else {
                    continue;
                };
                let mut changed = bytes.clone();
                let start = (edit.address - BASE) as usize;
                changed[start..start + edit.bytes.len()].copy_from_slice(&edit.bytes);
                let edited = start..start + edit.bytes.len();
                let left = scan_refused(&changed);
                prop_assert!(!left.iter().any(|left| overlap(&edited, &(left.start..left.start + left.length))));
                prop_assert!(scan_refused(&island.code).is_empty());
            }
        }
    }
}
