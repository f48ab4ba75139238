//! Rewrites a program whose constants are forbidden instructions where they stand in code.
//!
//! Each such constant becomes the initial value of a global of its own, which nothing changes. The compiler does not know that, because the
//! global may be changed, and so the constant's bytes are in the program's data, which is not executable.
//!
//! ```text
//!   i32.const 0x00ef010f             (global $k (mut i32) (i32.const 0x00ef010f))
//!                            ──▶     global.get $k
//!
//!   global.get $constant             the same, of a global that cannot be changed
//!
//!   i32.load offset=0x00ef010f       global.get $k   i32.add   local.tee $a
//!                            ──▶     local.get $a    global.get $k   i32.lt_u     the sum has overflowed
//!                                    if   i32.const -1   i32.load8_u offset=1   drop   end     out of bounds in every memory
//!                                    local.get $a    i32.load
//! ```
//!
//! All else is left as it is, byte by byte: new globals come behind all others, and new locals likewise, so no index changes. Sections with
//! debug information go: they have addresses in the code.
//!
//! What is rewritten is valid if the program is; the compiler validates it as any other.

mod function;
mod spelling;

use std::collections::BTreeMap;

use wasm_encoder::Encode;
use wasmparser::{
    BinaryReader, BinaryReaderError, CodeSectionReader, CompositeInnerType, ConstExpr, FunctionSectionReader,
    GlobalSectionReader, ImportSectionReader, MemorySectionReader, Operator, TypeRef, TypeSectionReader, ValType,
};

/// Which constants are moved out of the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Constants {
    /// Those whose bytes would be a forbidden instruction, or a part of one.
    Spelling,
    /// All: the compiler may make one of two others.
    All,
}

/// Magic number, version and layer.
const HEADER: usize = 8;
/// What a module begins with.
const MODULE: &[u8] = b"\0asm\x01\0\0\0";
/// Components within components; those that lie deeper are left as they are.
const DEPTH: u32 = 64;
/// Most globals of a module.
const GLOBALS_MAX: u32 = 1_000_000;

/// Kinds of a module's sections.
const CUSTOM: u8 = 0;
const TYPES: u8 = 1;
const IMPORTS: u8 = 2;
const FUNCTIONS: u8 = 3;
const MEMORIES: u8 = 5;
const GLOBALS: u8 = 6;
const CODE: u8 = 10;
/// Those that come behind the globals.
const BEHIND_GLOBALS: [u8; 6] = [7, 8, 9, CODE, 11, 12];
/// Kinds of a component's sections that have others.
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;

/// Kind and contents of a section.
type Section<'a> = (u8, &'a [u8]);

/// The program without these constants in its code.
pub(crate) fn rewrite(program: &[u8], constants: Constants) -> Result<Vec<u8>, BinaryReaderError> {
    any(program, constants, DEPTH)
}

/// Whether each section ends before what it is in does, so that nothing has been cut off. Wasmtime takes a component without the end of the last
/// one within it.
pub(crate) fn is_whole(program: &[u8]) -> bool {
    fn is_whole(bytes: &[u8], depth: u32) -> bool {
        sections(bytes).is_ok_and(|(_, sections)| {
            bytes.starts_with(MODULE)
                || sections.iter().all(|(kind, contents)| match (*kind, depth.checked_sub(1)) {
                    (CORE_MODULE | COMPONENT, Some(depth)) => is_whole(contents, depth),
                    _ => true,
                })
        })
    }
    is_whole(program, DEPTH)
}

/// A module or a component.
fn any(bytes: &[u8], constants: Constants, depth: u32) -> Result<Vec<u8>, BinaryReaderError> {
    if bytes.starts_with(MODULE) {
        return module(bytes, constants);
    }
    let (header, sections) = sections(bytes)?;
    let mut rewritten = header.to_vec();
    for (kind, contents) in sections {
        match (kind, depth.checked_sub(1)) {
            (CORE_MODULE | COMPONENT, Some(depth)) => put(&mut rewritten, kind, &any(contents, constants, depth)?),
            _ => put(&mut rewritten, kind, contents),
        }
    }
    Ok(rewritten)
}

fn module(bytes: &[u8], constants: Constants) -> Result<Vec<u8>, BinaryReaderError> {
    let (header, sections) = sections(bytes)?;
    let mut module = Module::read(&sections, constants)?;
    let code =
        sections.iter().find(|(kind, _)| *kind == CODE).map(|(_, contents)| module.code(contents)).transpose()?;
    let mut rewritten = header.to_vec();
    let mut globals = Some(module.new);
    for (kind, contents) in &sections {
        match *kind {
            GLOBALS => put_globals(&mut rewritten, contents, globals.take().unwrap_or_default())?,
            kind if BEHIND_GLOBALS.contains(&kind) => {
                if let Some(globals) = globals.take().filter(|globals| !globals.is_empty()) {
                    put_globals(&mut rewritten, &[0], globals)?;
                }
                put(&mut rewritten, kind, code.as_deref().filter(|_| kind == CODE).unwrap_or(contents));
            }
            CUSTOM if BinaryReader::new(contents, 0).read_string().is_ok_and(|name| name.starts_with(".debug")) => {}
            kind => put(&mut rewritten, kind, contents),
        }
    }
    Ok(rewritten)
}

/// The header, and the sections.
fn sections(bytes: &[u8]) -> Result<(&[u8], Vec<Section<'_>>), BinaryReaderError> {
    let mut reader = BinaryReader::new(bytes, 0);
    let header = reader.read_bytes(HEADER)?;
    let mut sections = Vec::new();
    while !reader.eof() {
        let kind = reader.read_u8()?;
        let size = reader.read_var_u32()?;
        sections.push((kind, reader.read_bytes(size as usize)?));
    }
    Ok((header, sections))
}

fn put(rewritten: &mut Vec<u8>, kind: u8, contents: &[u8]) {
    rewritten.push(kind);
    contents.encode(rewritten);
}

/// The section of globals with new ones behind those that there are.
fn put_globals(rewritten: &mut Vec<u8>, contents: &[u8], new: BTreeMap<Vec<u8>, u32>) -> Result<(), BinaryReaderError> {
    let mut reader = BinaryReader::new(contents, 0);
    let count = reader.read_var_u32()?;
    let mut globals = Vec::new();
    count.wrapping_add(new.len() as u32).encode(&mut globals);
    globals.extend_from_slice(reader.read_bytes(reader.bytes_remaining())?);
    let mut new: Vec<(Vec<u8>, u32)> = new.into_iter().collect();
    new.sort_by_key(|(_, index)| *index);
    globals.extend(new.into_iter().flat_map(|(global, _)| global));
    put(rewritten, GLOBALS, &globals);
    Ok(())
}

/// What has to be known of a module to rewrite its functions.
struct Module {
    constants: Constants,
    /// How many parameters each of its own functions has.
    parameters: Vec<u32>,
    /// Whether the addresses of each memory have 64 bits.
    memories: Vec<bool>,
    /// Of each global that cannot be changed, and is a constant: what has to take its place, as it stands in the section.
    globals: Vec<Option<Vec<u8>>>,
    /// New ones, as they will stand in the section, and their indices.
    new: BTreeMap<Vec<u8>, u32>,
}

impl Module {
    fn read(sections: &[Section<'_>], constants: Constants) -> Result<Module, BinaryReaderError> {
        let (memories, globals) = (Vec::new(), Vec::new());
        let mut module = Module { constants, parameters: Vec::new(), memories, globals, new: BTreeMap::new() };
        let mut types = Vec::new();
        for (kind, contents) in sections {
            let reader = BinaryReader::new(contents, 0);
            match *kind {
                TYPES => {
                    // Several may be declared at once, as a group whose types name each other.
                    for group in TypeSectionReader::new(reader)? {
                        types.extend(group?.types().map(|kind| match &kind.composite_type.inner {
                            CompositeInnerType::Func(function) => function.params().len() as u32,
                            _ => 0,
                        }));
                    }
                }
                IMPORTS => {
                    for import in ImportSectionReader::new(reader)?.into_imports() {
                        match import?.ty {
                            TypeRef::Memory(memory) => module.memories.push(memory.memory64),
                            TypeRef::Global(_) => module.globals.push(None),
                            _ => {}
                        }
                    }
                }
                FUNCTIONS => {
                    for function in FunctionSectionReader::new(reader)? {
                        module.parameters.push(types.get(function? as usize).copied().unwrap_or_default());
                    }
                }
                MEMORIES => {
                    for memory in MemorySectionReader::new(reader)? {
                        module.memories.push(memory?.memory64);
                    }
                }
                GLOBALS => {
                    for global in GlobalSectionReader::new(reader)? {
                        let global = global?;
                        let constant = constant(&global.init_expr)?.filter(|(bytes, _)| module.is_moved(bytes));
                        module.globals.push(constant.map(|(_, entry)| entry).filter(|_| !global.ty.mutable));
                    }
                }
                _ => {}
            }
        }
        Ok(module)
    }

    /// Whether a constant of these bytes is moved out of the code.
    fn is_moved(&self, value: &[u8]) -> bool {
        self.constants == Constants::All || spelling::spells(value)
    }

    /// The index of a new global, unless there are too many.
    fn global(&mut self, entry: Vec<u8>) -> Option<u32> {
        let next = u32::try_from(self.globals.len() + self.new.len()).ok().filter(|next| *next < GLOBALS_MAX);
        match self.new.get(&entry) {
            Some(index) => Some(*index),
            None => {
                let next = next?;
                self.new.insert(entry, next);
                Some(next)
            }
        }
    }

    /// The section of code, rewritten.
    fn code(&mut self, contents: &[u8]) -> Result<Vec<u8>, BinaryReaderError> {
        let reader = CodeSectionReader::new(BinaryReader::new(contents, 0))?;
        let mut code = Vec::new();
        reader.count().encode(&mut code);
        for (index, body) in reader.into_iter().enumerate() {
            let body = body?;
            let bytes = &contents[body.range()];
            let parameters = self.parameters.get(index).copied().unwrap_or_default();
            match self.function(bytes, parameters)? {
                Some(rewritten) => rewritten.encode(&mut code),
                None => bytes.encode(&mut code),
            }
        }
        Ok(code)
    }
}

/// The bytes of the constant that an expression is, and a global with it.
type Constant = (Vec<u8>, Vec<u8>);

/// The constant that this expression is, if it is no more than that.
fn constant(expression: &ConstExpr<'_>) -> Result<Option<Constant>, BinaryReaderError> {
    let mut operators = expression.get_operators_reader();
    let operator = operators.read()?;
    let is_whole = matches!(operators.read()?, Operator::End);
    Ok(value(&operator).filter(|_| is_whole).map(|(bytes, kind)| (bytes, entry(&operator, kind))))
}

/// The bytes of a constant, and its type.
fn value(operator: &Operator<'_>) -> Option<(Vec<u8>, ValType)> {
    Some(match operator {
        Operator::I32Const { value } => (value.to_le_bytes().to_vec(), ValType::I32),
        Operator::I64Const { value } => (value.to_le_bytes().to_vec(), ValType::I64),
        Operator::F32Const { value } => (value.bits().to_le_bytes().to_vec(), ValType::F32),
        Operator::F64Const { value } => (value.bits().to_le_bytes().to_vec(), ValType::F64),
        Operator::V128Const { value } => (value.bytes().to_vec(), ValType::V128),
        _ => return None,
    })
}

/// A global with this constant, which can be changed.
fn entry(constant: &Operator<'_>, kind: ValType) -> Vec<u8> {
    let mut entry = Vec::new();
    encoded(kind).encode(&mut entry);
    entry.push(1);
    function::put_operator(&mut entry, constant.clone());
    wasm_encoder::Instruction::End.encode(&mut entry);
    entry
}

/// A type of a number, as the encoder has it. Locals and globals of others are not made.
fn encoded(kind: ValType) -> wasm_encoder::ValType {
    match kind {
        ValType::I64 => wasm_encoder::ValType::I64,
        ValType::F32 => wasm_encoder::ValType::F32,
        ValType::F64 => wasm_encoder::ValType::F64,
        ValType::V128 => wasm_encoder::ValType::V128,
        _ => wasm_encoder::ValType::I32,
    }
}
