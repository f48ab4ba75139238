//! Monohull's own WRPKRU instructions, which are harmless because of what follows them.
//!
//! They are recognised in the visor alone. In a function image the same bytes would be a WRPKRU with a comparison that
//! its author chose, so there is nothing to recognise there.
//!
//! ```text
//!   entry stub     xor ecx, ecx; xor edx, edx; mov eax, RIGHTS; wrpkru; cmp eax, RIGHTS; jne monohull_kill
//!   exit gate      xor eax, eax; xor ecx, ecx; xor edx, edx;    wrpkru; test eax, eax;   jnz monohull_kill
//! ```
//!
//! Who jumps to an entry stub's WRPKRU with other rights in `eax` ends the process; who jumps to an exit gate's gets
//! all rights, but at the one place where trusted code takes over.

use crate::symbols::SymbolTable;

const WRPKRU: [u8; 3] = [0x0f, 0x01, 0xef];
const ENTRY: &str = "monohull_entry_keys";
const EXIT: &str = "monohull_exit_keys";
const KILL: &str = "monohull_kill";
/// The keys of functions, and the one whose memory every function may read.
const FIRST_FUNCTION_KEY: u32 = 2;
const KEY_COUNT: u32 = 16;
const INFO_KEY: u32 = 1;

/// Whether the WRPKRU at index `at` of `memory`, which begins at `address`, is one of Monohull's gates.
pub(crate) fn is_own(memory: &[u8], address: u64, at: usize, symbols: &SymbolTable) -> bool {
    let is_in = |name: &str| symbols.find(address + at as u64).is_some_and(|symbol| symbol.mangled == name);
    let compared = if is_in(ENTRY) {
        entry(memory, at)
    } else if is_in(EXIT) {
        exit(memory, at)
    } else {
        None
    };
    let target = compared.and_then(|behind| jump_if_not_zero(memory, behind));
    let kill = |index: u64| symbols.find(address.wrapping_add(index));
    target.and_then(kill).is_some_and(|symbol| symbol.mangled == KILL && symbol.offset == 0)
}

/// The index behind the comparison, if this is an entry stub.
fn entry(memory: &[u8], at: usize) -> Option<usize> {
    let [0x31, 0xc9, 0x31, 0xd2, 0xb8, rights @ ..] = memory.get(at.checked_sub(9)?..at)? else { return None };
    let rights = u32::from_le_bytes(rights.try_into().ok()?);
    if !(FIRST_FUNCTION_KEY..KEY_COUNT).any(|key| rights == !(0b11 << (2 * key)) & !(0b01 << (2 * INFO_KEY))) {
        return None;
    }
    // `cmp eax, imm` in its two lengths.
    let (compared, length) = match memory[at..].strip_prefix(&WRPKRU)? {
        [0x3d, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]), 5),
        [0x83, 0xf8, a, ..] => (i32::from(*a as i8) as u32, 3),
        _ => return None,
    };
    (compared == rights).then_some(at + WRPKRU.len() + length)
}

/// The index behind the comparison, if this is an exit gate.
fn exit(memory: &[u8], at: usize) -> Option<usize> {
    let zeroed = memory.get(at.checked_sub(6)?..at)? == [0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2];
    let tested = memory[at..].strip_prefix(&WRPKRU)?.starts_with(&[0x85, 0xc0]);
    (zeroed && tested).then_some(at + WRPKRU.len() + 2)
}

/// Where the `jnz` at index `at` jumps to, as an index into the memory (which may lie outside, with wrapping).
fn jump_if_not_zero(memory: &[u8], at: usize) -> Option<u64> {
    let (length, distance) = match *memory.get(at..)? {
        [0x75, a, ..] => (2, i64::from(a as i8)),
        [0x0f, 0x85, a, b, c, d, ..] => (6, i64::from(i32::from_le_bytes([a, b, c, d]))),
        _ => return None,
    };
    Some(((at + length) as u64).wrapping_add_signed(distance))
}
