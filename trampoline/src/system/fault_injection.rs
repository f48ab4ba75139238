//! Where the gates' checks are in memory, so that a test can overwrite them: the attacks that a check stops must succeed
//! without it. Part of the visor for tests only (feature `unharden`).
//!
//! The assembly is that of the ordinary gates. A check is found by its bytes, and what replaces it are instructions that do
//! nothing.

use super::{ENTRY_STRIDE, FUNCTION_KEYS, monohull_enter, monohull_entry_keys, monohull_signal_entry_keys};
use monohull_abi::layout::CARRIER_MAX;

/// A check of the gates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// An entry stub compares the rights it has set with its own.
    StubRights,
    /// It compares the carrier with its own.
    StubCarrier,
    /// It empties the frame.
    StubFrame,
    /// It clears the frame with zeros, whatever code jumped to it.
    StubRegister,
    /// An exit gate compares the thread with its own.
    ExitThread,
    /// It clears the direction flag.
    ExitDirection,
    /// It puts flags and control words right.
    ExitControl,
    /// The signal entry compares the thread with the one whose stack it is on.
    SignalThread,
    /// It wants its arguments where the kernel puts them.
    SignalArguments,
    /// Registers are cleared on the way in.
    Registers,
}

unsafe extern "C" {
    fn monohull_exit_tail();
}

/// The long form of a jump if not equal, without its distance.
const JNE: &[u8] = &[0x0f, 0x85];
const JNE_LENGTH: usize = 6;
/// `mov [r11], rcx`
const EMPTY: &[u8] = &[0x49, 0x89, 0x0b];
/// `xor ecx, ecx; mov rsp, [r11]`
const ZERO: &[u8] = &[0x31, 0xc9, 0x49, 0x8b, 0x23];
/// `cmp r8, [rcx + rax + …]`
const COMPARE_THREAD: &[u8] = &[0x4c, 0x3b, 0x84, 0x01];
/// `cld; stmxcsr [r11 + …]`
const CLEAR_DIRECTION: &[u8] = &[0xfc, 0x41, 0x0f, 0xae];
/// `xor eax, eax; pop rcx; jmp rcx`, the exit gate's last instructions, and the call behind them that it makes where something is not
/// as it should be.
const LEAVE_CALL: &[u8] = &[0x31, 0xc0, 0x59, 0xff, 0xe1, 0xe8];
const CALL_LENGTH: usize = 5;
/// `cmp rdx, r8` and `cmp rsi, r8`
const COMPARE_CONTEXT: &[u8] = &[0x4c, 0x39, 0xc2];
const COMPARE_INFO: &[u8] = &[0x4c, 0x39, 0xc6];
/// `vzeroall`
const CLEAR_VECTORS: &[u8] = &[0xc5, 0xfc, 0x77];
/// `xor ebx, ebx; xor ebp, ebp`, the first of those registers that hold nothing the way in needs, and bytes to the last.
const CLEAR_GENERAL: &[u8] = &[0x31, 0xdb, 0x31, 0xed];
const CLEAR_GENERAL_LENGTH: usize = 4 * 2 + 6 * 3;
const NOPS: [u8; CLEAR_GENERAL_LENGTH] = [0x90; CLEAR_GENERAL_LENGTH];
/// Bytes of a gate that are looked through.
const LOOKED: usize = 384;

/// Calls `found` with every place in memory where the check is made, and the code that makes none.
pub fn sites(check: Check, found: &mut dyn FnMut(u64, &[u8])) {
    let stubs = (0..CARRIER_MAX * FUNCTION_KEYS).map(|i| monohull_entry_keys as *const () as usize + i * ENTRY_STRIDE);
    match check {
        Check::StubRights => stubs.for_each(|stub| drop_jump(stub, &[], 0, found)),
        Check::StubCarrier => stubs.for_each(|stub| drop_jump(stub, &[], 1, found)),
        Check::StubFrame => stubs.for_each(|stub| found((stub + find(stub, EMPTY)) as u64, &NOPS[..EMPTY.len()])),
        Check::StubRegister => stubs.for_each(|stub| found((stub + find(stub, ZERO)) as u64, &NOPS[..2])),
        Check::ExitThread => drop_jump(monohull_exit_tail as *const () as usize, &[], 0, found),
        Check::ExitDirection => {
            let tail = monohull_exit_tail as *const () as usize;
            found((tail + find(tail, CLEAR_DIRECTION)) as u64, &NOPS[..1]);
        }
        Check::ExitControl => {
            let tail = monohull_exit_tail as *const () as usize;
            let call = tail + find(tail, LEAVE_CALL) + LEAVE_CALL.len() - 1;
            found(call as u64, &NOPS[..CALL_LENGTH]);
        }
        Check::SignalThread => drop_jump(monohull_signal_entry_keys as *const () as usize, COMPARE_THREAD, 0, found),
        Check::Registers => {
            let gate = monohull_enter as *const () as usize;
            found((gate + find(gate, CLEAR_VECTORS)) as u64, &NOPS[..CLEAR_VECTORS.len()]);
            found((gate + find(gate, CLEAR_GENERAL)) as u64, &NOPS);
        }
        Check::SignalArguments => {
            for comparison in [COMPARE_CONTEXT, COMPARE_INFO] {
                drop_jump(monohull_signal_entry_keys as *const () as usize, comparison, 0, found);
            }
        }
    }
}

/// The jump behind `comparison`, or that behind so many others.
fn drop_jump(gate: usize, comparison: &[u8], skipped: usize, found: &mut dyn FnMut(u64, &[u8])) {
    let mut at = gate + find(gate, comparison);
    for _ in 0..skipped {
        at += find(at, JNE) + JNE_LENGTH;
    }
    found((at + find(at, JNE)) as u64, &NOPS[..JNE_LENGTH]);
}

/// How far behind `from` these bytes are.
fn find(from: usize, wanted: &[u8]) -> usize {
    // SAFETY: the gates are followed by more than that of the program's code.
    let code = unsafe { core::slice::from_raw_parts(from as *const u8, LOOKED) };
    (0..LOOKED - wanted.len()).find(|at| code[*at..].starts_with(wanted)).expect("the gates make this check")
}
