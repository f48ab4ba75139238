//! Monohull's own WRPKRU instructions, which are harmless because of what follows them.
//!
//! They are recognised in the visor alone. In a function image the same bytes would be a WRPKRU with a comparison that
//! its author chose, so there is nothing to recognise there.
//!
//! ```text
//!   entry stub     xor ecx, ecx; xor edx, edx; mov eax, RIGHTS; wrpkru; cmp eax, RIGHTS; jne monohull_kill;
//!                  then: is it this carrier?                                             jne monohull_kill
//!   exit gate      xor eax, eax; xor ecx, ecx; xor edx, edx;    wrpkru; test eax, eax;   jnz monohull_kill
//!   signal entry   the same, then: is it a carrier's signal stack, and this thread's?   jae, jne monohull_kill
//!                  then: are the arguments where the kernel puts them?                  jne monohull_kill
//! ```
//!
//! A jump to an entry stub's WRPKRU with other rights in `eax` ends the process; a jump to one of the others gets
//! all rights, but at a place where trusted code takes over. Whether what comes after that is sound is for the gates'
//! own tests; here the sequences are recognized.

use crate::symbols::SymbolTable;

const WRPKRU: [u8; 3] = [0x0f, 0x01, 0xef];
const ENTRY: &str = "monohull_entry_keys";
const EXIT: &str = "monohull_exit_keys";
const SIGNAL: &str = "monohull_signal_entry_keys";
const KILL: &str = "monohull_kill";
/// The keys of functions, and the one whose memory every function may read.
const FIRST_FUNCTION_KEY: u32 = 2;
const KEY_COUNT: u32 = 16;
const INFO_KEY: u32 = 1;
/// Short opcodes of the jumps; the long ones are 0x10 higher, behind `0f`.
const JNE: u8 = 0x75;
const JAE: u8 = 0x73;
/// Any byte: of an address or a distance.
const ANY: u16 = 0x100;
/// `rdgsbase r10; movabs r11, imm64; cmp r10, r11`
const IS_THIS_CARRIER: &[u16] =
    &[0xf3, 0x49, 0x0f, 0xae, 0xca, 0x49, 0xbb, ANY, ANY, ANY, ANY, ANY, ANY, ANY, ANY, 0x4d, 0x39, 0xda];
/// `mov rdx, r8; mov rax, rsp; movabs rcx, imm64; sub rax, rcx; cmp rax, imm32`
const IS_CARRIERS: &[u16] = &[
    0x4c, 0x89, 0xc2, 0x48, 0x89, 0xe0, 0x48, 0xb9, ANY, ANY, ANY, ANY, ANY, ANY, ANY, ANY, 0x48, 0x29, 0xc8, 0x48,
    0x3d, ANY, ANY, ANY, ANY,
];
/// `mov r8d, eax; and r8d, imm32; sub r8d, imm32; cmp r8d, imm32`: below the carrier's context, with room below
const IS_SIGNAL_STACK: &[u16] = &[
    0x41, 0x89, 0xc0, 0x41, 0x81, 0xe0, ANY, ANY, ANY, ANY, 0x41, 0x81, 0xe8, ANY, ANY, ANY, ANY, 0x41, 0x81, 0xf8,
    ANY, ANY, ANY, ANY,
];
/// `and rax, imm32; rdfsbase r8; cmp r8, [rcx + rax + disp32]`
const IS_THREADS: &[u16] =
    &[0x48, 0x25, ANY, ANY, ANY, ANY, 0xf3, 0x49, 0x0f, 0xae, 0xc0, 0x4c, 0x3b, 0x84, 0x01, ANY, ANY, ANY, ANY];

/// `lea r8, [rsp + disp8]; cmp rdx, r8`
const IS_CONTEXT: &[u16] = &[0x4c, 0x8d, 0x44, 0x24, ANY, 0x4c, 0x39, 0xc2];
/// `lea r8, [rsp + disp32]; cmp rsi, r8`
const IS_INFO: &[u16] = &[0x4c, 0x8d, 0x84, 0x24, ANY, ANY, ANY, ANY, 0x4c, 0x39, 0xc6];

/// Whether the WRPKRU at index `at` of `memory`, which begins at `address`, is one of Monohull's gates.
pub(crate) fn is_own(memory: &[u8], address: u64, at: usize, symbols: &SymbolTable) -> bool {
    let is_in = |name: &str| symbols.find(address + at as u64).is_some_and(|symbol| symbol.mangled == name);
    let kills = |target: u64| {
        let symbol = symbols.find(address.wrapping_add(target));
        symbol.is_some_and(|symbol| symbol.mangled == KILL && symbol.offset == 0)
    };
    // The index behind a conditional jump (its short opcode is given) to the end of the process.
    let or_kill = |at: Option<usize>, condition: u8| {
        let (behind, target) = jump(memory, at?, condition)?;
        kills(target).then_some(behind)
    };
    let end = if is_in(ENTRY) {
        let this_carrier = or_kill(entry(memory, at), JNE).and_then(|at| pattern(memory, at, IS_THIS_CARRIER));
        or_kill(this_carrier, JNE)
    } else if is_in(EXIT) {
        or_kill(exit(memory, at), JNE)
    } else if is_in(SIGNAL) {
        let whose_stack = or_kill(exit(memory, at), JNE).and_then(|at| pattern(memory, at, IS_CARRIERS));
        let which_part = or_kill(whose_stack, JAE).and_then(|at| pattern(memory, at, IS_SIGNAL_STACK));
        let this_thread = or_kill(which_part, JAE).and_then(|at| pattern(memory, at, IS_THREADS));
        let context = or_kill(this_thread, JNE).and_then(|at| pattern(memory, at, IS_CONTEXT));
        let info = or_kill(context, JNE).and_then(|at| pattern(memory, at, IS_INFO));
        or_kill(info, JNE)
    } else {
        None
    };
    end.is_some()
}

/// The index behind `expected`, in which [`ANY`] stands for any byte.
fn pattern(memory: &[u8], at: usize, expected: &[u16]) -> Option<usize> {
    let bytes = memory.get(at..at + expected.len())?;
    let same = |(byte, expected): (&u8, &u16)| *expected == ANY || *expected == u16::from(*byte);
    bytes.iter().zip(expected).all(same).then_some(at + expected.len())
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

/// The index behind the conditional jump at index `at`, and the one it jumps to (which may lie outside, with wrapping).
fn jump(memory: &[u8], at: usize, condition: u8) -> Option<(usize, u64)> {
    let (length, distance) = match *memory.get(at..)? {
        [short, a, ..] if short == condition => (2, i64::from(a as i8)),
        [0x0f, long, a, b, c, d, ..] if long == condition + 0x10 => (6, i64::from(i32::from_le_bytes([a, b, c, d]))),
        _ => return None,
    };
    Some((at + length, ((at + length) as u64).wrapping_add_signed(distance)))
}
