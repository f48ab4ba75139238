//! Fault handlers of functions (`FAULT_HANDLER`): a fault of user code that goes on in user code.
//!
//! ```text
//!   user code     …instruction in the handler's code range faults
//!   signal        handler records the fault, leaves without sigreturn       as for any fault
//!   run loop      record of four words below the red zone of the thread's own stack
//!                 stop and deadline, as before each entry
//!   user code     entry, with the record's address in rax and all other registers cleared
//! ```
//!
//! It gives a function nothing that it could not do with a jump: entry and code range lie in its own executable pages, the record is
//! written where the function may write, and holds nothing but the function's own registers and an address of its own cell. The
//! interrupted code is not resumed and its registers are not shown. So a guest's trap is the guest's own affair, and all other faults stay
//! what they are, the end of the instance:
//!
//! * an instruction outside the range, the handler's own included, so a broken handler does not loop;
//! * an address outside the instance's cell (the null page apart): a function does not find out what lies where;
//! * system calls, breakpoints, privileged instructions, reading a time-stamp counter that is denied, mapped files that cannot be read;
//! * a stack pointer that is not in the thread's own stack, or too low in it.

use super::report::{NULL_ZONE, is_division, own};
use super::tsc::SI_KERNEL;
use crate::instance::Instance;
use crate::shared::Shared;
use monohull_abi::layout::{PAGE, THREAD_HEADER_SIZE};
use monohull_abi::module::Call;
use monohull_abi::types::{FaultKind, FaultRecord, RED_ZONE};
use monohull_trampoline::system::{FaultInfo, copy};
use std::ops::Range;

/// Makes the thread of `call`, which has faulted on its stack (see [`Cell::stack`](crate::cell::Cell::stack)), go on in its instance's
/// handler: the value to enter it with. `None` if the fault is no affair of the handler's, or cannot be.
pub(crate) fn redirect(
    domain: &Shared,
    instance: &Instance,
    stack: Option<u32>,
    fault: &FaultInfo,
    call: &mut Call,
) -> Option<i64> {
    let handler = (*instance.fault_handler.lock().expect("fault handler"))?;
    if !handler.code().contains(&fault.ip) {
        return None;
    }
    let (kind, address) = kind_of(domain, instance, fault)?;
    let record = FaultRecord { ip: fault.ip, bp: fault.bp, kind: kind as u64, address };
    let stack = instance.with_cell(|cell| cell.stack(stack))?;
    let (at, rsp) = place_below(fault.sp, &stack)?;
    // What the gate pops, then the record: see `place_below`.
    let words = [handler.entry, record.ip, record.bp, record.kind, record.address];
    // SAFETY: the words are ours; the target lies in the thread's own stack, above its guard, and the thread is off its carrier.
    if !unsafe { copy(rsp as *mut u8, words.as_ptr().cast(), size_of_val(&words)) } {
        return None;
    }
    call.user_rsp = rsp;
    Some(at as i64)
}

/// The addresses of a record for a thread with this stack pointer, and of the word before it. The record is aligned as the stack is at
/// a call.
fn place_below(sp: u64, stack: &Range<u64>) -> Option<(u64, u64)> {
    if sp > stack.end - THREAD_HEADER_SIZE {
        return None;
    }
    let at = sp.checked_sub(RED_ZONE + size_of::<FaultRecord>() as u64)? & !15;
    let rsp = at.checked_sub(size_of::<u64>() as u64)?;
    (rsp >= stack.start + PAGE).then_some((at, rsp))
}

/// Kind and address of a fault for its handler; `None` for faults that are not handled.
fn kind_of(domain: &Shared, instance: &Instance, fault: &FaultInfo) -> Option<(FaultKind, u64)> {
    match fault.signal {
        // Without an address: a privileged instruction, or one that is denied.
        libc::SIGSEGV if fault.code != SI_KERNEL => {
            let address = fault.address;
            let is_lost = || domain.files.pager.touched(address, false).is_some_and(|touched| touched.lost);
            (address < NULL_ZONE || own(instance, address) && !is_lost()).then_some((FaultKind::Memory, address))
        }
        libc::SIGILL => Some((FaultKind::IllegalInstruction, 0)),
        libc::SIGFPE if is_division(fault.code) => Some((FaultKind::Division, 0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_lies_in_the_stack_below_the_red_zone_or_nowhere() {
        let stack = 0x10_0000..0x11_0000;
        let (low, high) = (stack.start + PAGE, stack.end - THREAD_HEADER_SIZE);
        for sp in [high, high - 1, high - 7, low + 400, low + 177] {
            let (at, rsp) = place_below(sp, &stack).expect("there is room");
            assert!(at.is_multiple_of(16) && at + 32 + RED_ZONE <= sp && rsp == at - 8 && rsp >= low, "{sp:#x}");
        }
        for sp in [high + 1, stack.end, u64::MAX, low + 160, low, low - 1, stack.start, 200, 8, 0] {
            assert_eq!(place_below(sp, &stack), None, "{sp:#x}");
        }
    }
}
