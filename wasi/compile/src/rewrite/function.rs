//! One function: its constants, and the offsets of its loads and stores.

use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{BlockType, Encode, Instruction};
use wasmparser::{BinaryReader, BinaryReaderError, FunctionBody, MemArg, Operator, ValType};

use super::{Module, encoded, entry, value};

/// Largest body of a function, and most locals that one has.
const BODY_MAX: usize = 7_654_321;
const LOCALS_MAX: u32 = 50_000;

/// Locals that are added to a function.
struct Locals {
    /// The index of the first.
    first: u32,
    /// What each is for: an address or a value, and its type.
    added: Vec<(bool, ValType)>,
}

impl Locals {
    fn index(&mut self, of: (bool, ValType)) -> u32 {
        let found = self.added.iter().position(|added| *added == of);
        let index = found.unwrap_or_else(|| {
            self.added.push(of);
            self.added.len() - 1
        });
        self.first + index as u32
    }
}

impl Module {
    /// The function's locals and instructions, rewritten; `None` if nothing of them changes, or too much.
    pub(super) fn function(&mut self, bytes: &[u8], parameters: u32) -> Result<Option<Vec<u8>>, BinaryReaderError> {
        let body = FunctionBody::new(BinaryReader::new(bytes, 0));
        let (mut groups, mut first) = (0_u32, parameters);
        for local in body.get_locals_reader()? {
            groups += 1;
            first = first.saturating_add(local?.0);
        }
        let mut locals = Locals { first, added: Vec::new() };
        let mut operators = body.get_operators_reader()?;
        let start = operators.original_position();
        let (mut code, mut is_changed) = (Vec::new(), false);
        while !operators.eof() {
            let from = operators.original_position();
            let operator = operators.read()?;
            match self.operator(&mut code, &mut locals, operator) {
                Some(()) => is_changed = true,
                None => code.extend_from_slice(&bytes[from..operators.original_position()]),
            }
        }
        let mut rewritten = Vec::new();
        (groups + locals.added.len() as u32).encode(&mut rewritten);
        let mut declared = BinaryReader::new(&bytes[..start], 0);
        declared.read_var_u32()?;
        rewritten.extend_from_slice(declared.read_bytes(declared.bytes_remaining())?);
        for (_, kind) in &locals.added {
            1_u32.encode(&mut rewritten);
            encoded(*kind).encode(&mut rewritten);
        }
        rewritten.extend(code);
        let is_too_much = rewritten.len() > BODY_MAX || first.saturating_add(locals.added.len() as u32) > LOCALS_MAX;
        Ok(Some(rewritten).filter(|_| is_changed && !is_too_much))
    }

    /// Puts what takes the instruction's place into the code, if anything does.
    fn operator(&mut self, code: &mut Vec<u8>, locals: &mut Locals, mut operator: Operator<'_>) -> Option<()> {
        if let Operator::GlobalGet { global_index } = operator {
            let entry = self.globals.get(global_index as usize)?.clone()?;
            Instruction::GlobalGet(self.global(entry)?).encode(code);
            return Some(());
        }
        if let Some((_, kind)) = value(&operator).filter(|(bytes, _)| self.is_moved(bytes)) {
            Instruction::GlobalGet(self.global(entry(&operator, kind))?).encode(code);
            return Some(());
        }
        let (access, above) = access(&mut operator)?;
        let offset = access.offset;
        if offset == 0 || !self.is_moved(&offset.to_le_bytes()) {
            return None;
        }
        let is_64 = *self.memories.get(access.memory as usize)?;
        let (kind, constant) = match is_64 {
            true => (ValType::I64, Operator::I64Const { value: offset.cast_signed() }),
            false => (ValType::I32, Operator::I32Const { value: u32::try_from(offset).ok()?.cast_signed() }),
        };
        let global = Instruction::GlobalGet(self.global(entry(&constant, kind))?);
        let address = locals.index((true, kind));
        let above = above.map(|kind| locals.index((false, kind)));
        let end = wasm_encoder::MemArg { offset: 1, align: 0, memory_index: access.memory };
        access.offset = 0;
        let mut put = |instruction: &Instruction<'_>| instruction.encode(code);
        if let Some(above) = above {
            put(&Instruction::LocalSet(above));
        }
        put(&global);
        put(if is_64 { &Instruction::I64Add } else { &Instruction::I32Add });
        put(&Instruction::LocalTee(address));
        put(&global);
        put(if is_64 { &Instruction::I64LtU } else { &Instruction::I32LtU });
        put(&Instruction::If(BlockType::Empty));
        put(if is_64 { &Instruction::I64Const(-1) } else { &Instruction::I32Const(-1) });
        put(&Instruction::I32Load8U(end));
        put(&Instruction::Drop);
        put(&Instruction::End);
        put(&Instruction::LocalGet(address));
        if let Some(above) = above {
            put(&Instruction::LocalGet(above));
        }
        put_operator(code, operator);
        Some(())
    }
}

/// Puts a constant, a load or a store into the code.
pub(super) fn put_operator(code: &mut Vec<u8>, operator: Operator<'_>) {
    // The errors are those of types, which these instructions have none of.
    if let Ok(instruction) = RoundtripReencoder.instruction(operator) {
        instruction.encode(code);
    }
}

/// Where a load or a store is in the memory, and the type of the operand that lies above the address on the stack. Atomic ones are not
/// supported.
fn access<'o>(operator: &'o mut Operator<'_>) -> Option<(&'o mut MemArg, Option<ValType>)> {
    use Operator as O;
    Some(match operator {
        O::I32Load { memarg }
        | O::I64Load { memarg }
        | O::F32Load { memarg }
        | O::F64Load { memarg }
        | O::I32Load8S { memarg }
        | O::I32Load8U { memarg }
        | O::I32Load16S { memarg }
        | O::I32Load16U { memarg }
        | O::I64Load8S { memarg }
        | O::I64Load8U { memarg }
        | O::I64Load16S { memarg }
        | O::I64Load16U { memarg }
        | O::I64Load32S { memarg }
        | O::I64Load32U { memarg }
        | O::V128Load { memarg }
        | O::V128Load8x8S { memarg }
        | O::V128Load8x8U { memarg }
        | O::V128Load16x4S { memarg }
        | O::V128Load16x4U { memarg }
        | O::V128Load32x2S { memarg }
        | O::V128Load32x2U { memarg }
        | O::V128Load8Splat { memarg }
        | O::V128Load16Splat { memarg }
        | O::V128Load32Splat { memarg }
        | O::V128Load64Splat { memarg }
        | O::V128Load32Zero { memarg }
        | O::V128Load64Zero { memarg } => (memarg, None),
        O::I32Store { memarg } | O::I32Store8 { memarg } | O::I32Store16 { memarg } => (memarg, Some(ValType::I32)),
        O::I64Store { memarg } | O::I64Store8 { memarg } | O::I64Store16 { memarg } | O::I64Store32 { memarg } => {
            (memarg, Some(ValType::I64))
        }
        O::F32Store { memarg } => (memarg, Some(ValType::F32)),
        O::F64Store { memarg } => (memarg, Some(ValType::F64)),
        O::V128Store { memarg }
        | O::V128Load8Lane { memarg, .. }
        | O::V128Load16Lane { memarg, .. }
        | O::V128Load32Lane { memarg, .. }
        | O::V128Load64Lane { memarg, .. }
        | O::V128Store8Lane { memarg, .. }
        | O::V128Store16Lane { memarg, .. }
        | O::V128Store32Lane { memarg, .. }
        | O::V128Store64Lane { memarg, .. } => (memarg, Some(ValType::V128)),
        _ => return None,
    })
}
