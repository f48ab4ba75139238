//! Turns the signal handler's record of a fault into a report: kind, place, and owner of the memory.

use super::tsc::{self, SI_KERNEL};
use crate::cell::Cell;
use crate::gadgets;
use crate::image::{Access as SegmentAccess, Segment, Symbol};
use crate::instance::Instance;
use crate::mapped_ranges::RangeState;
use crate::pager::FaultedMapping;
use crate::shared::Shared;
use monohull_abi::layout::{
    ARENA_BASE, ARENA_END, CARRIER_BASE, CELL_SIZE, CELLS_BASE, CELLS_END, INFO_BASE, INFO_SIZE, MAPPINGS_OFFSET, PAGE,
    USER_BASE, USER_END,
};
use monohull_abi::module::Call;
use monohull_report::failure::{Blame, CodePlace, Failure, FailureKind};
use monohull_trampoline::system::{FaultInfo, Registers, copy};

/// Addresses below this are called null.
pub(super) const NULL_ZONE: u64 = 64 * 1024;
/// `si_code` of SIGSEGV for a page whose protection key denies the access.
const SEGV_PKUERR: i32 = 4;
/// `si_code` of SIGFPE for integer division (`asm-generic/siginfo.h`).
const FPE_INTDIV: i32 = 1;
/// The same for a quotient that does not fit.
const FPE_INTOVF: i32 = 2;
/// From the stack pointer at a hostcall to the saved frame pointer of its caller.
const FRAME_OF_A_CALL: u64 = 7 * 8;
/// Most frames of a backtrace.
const FRAMES_MAX: usize = 32;

/// The failure of `instance` that `fault` stands for.
pub fn describe(domain: &Shared, instance: &Instance, fault: &FaultInfo) -> Failure {
    // Anywhere but in its own code it has no business: it jumped.
    let at = place(instance, fault.ip).filter(|at| is_code(instance, at.offset));
    let jumped = at.is_none();
    let mut failure = match fault.signal {
        libc::SIGSYS => Failure::new(
            FailureKind::SystemCall,
            format!("made system call {} directly; functions reach the system only through hostcalls", fault.address),
        ),
        libc::SIGILL => Failure::new(
            FailureKind::IllegalInstruction,
            match gadgets::patched_gadget_at(fault.ip) {
                Some(gadget) => format!("ran into {}, which Monohull has removed", gadget.place()),
                None => "ran an instruction the processor refuses".into(),
            },
        ),
        libc::SIGTRAP => Failure::new(FailureKind::Trap, "ran into a breakpoint or trap"),
        libc::SIGFPE => Failure::new(
            FailureKind::Arithmetic,
            match fault.code {
                code if is_division(code) => "divided an integer by zero (or its quotient does not fit)",
                _ => "caused a floating-point exception it had unmasked",
            },
        ),
        _ if !domain.options.time_stamp_counter && tsc::reading_at(fault.signal, fault.code, fault.ip).is_some() => {
            Failure::new(FailureKind::TimeStampCounter, "read the time-stamp counter, which its workflow denies")
        }
        _ => memory(domain, instance, fault),
    };
    if jumped && fault.signal != libc::SIGSYS {
        let owner = owner_of(domain, instance, fault.ip);
        failure.message = match failure.address == Some(fault.ip) {
            true => format!("jumped to {:#x}, which is {owner}", fault.ip),
            false => format!("jumped to {:#x}, which is {owner}, and there {}", fault.ip, failure.message),
        };
    }
    let mut callers = backtrace(instance, fault, jumped).into_iter();
    failure.ip = at.or_else(|| callers.next());
    failure.backtrace = callers.collect();
    failure
}

/// The failure of an instance that has jumped to where the kernel enters signal handlers. Its registers are whatever it chose.
pub fn describe_forged() -> Failure {
    Failure::new(FailureKind::Trap, "jumped to the entry point of signal handlers")
}

/// The failure of `instance` that was interrupted in code that is not its own.
pub fn describe_stray(domain: &Shared, instance: &Instance, fault: &FaultInfo) -> Failure {
    let owner = owner_of(domain, instance, fault.ip);
    let text = format!("jumped to {:#x}, which is {owner}, and was there when its slice of time was over", fault.ip);
    let mut failure = Failure::new(FailureKind::Trap, text);
    failure.backtrace = backtrace(instance, fault, true);
    failure
}

/// Adds to a failure where user code was when it was interrupted.
pub fn add_place_of_interrupt(instance: &Instance, fault: &FaultInfo, failure: &mut Failure) {
    failure.ip = place(instance, fault.ip);
    failure.backtrace = backtrace(instance, fault, false);
}

/// Adds to a failure where `call` was made: the place in the function's code, and its callers.
pub fn add_place_of_call(instance: &Instance, call: &Call, failure: &mut Failure) {
    add_frames_of_call(instance, &frames_of_call(instance, call), failure);
}

/// The return addresses on the stack of a thread that has made `call`, innermost first. It only reads the stack: what the
/// addresses mean takes longer to find out, and can be asked later.
///
/// What a hostcall pushes on the user stack is known (see `monohull_trampoline::user`): a frame that belongs to the
/// chain, below it six words.
pub fn frames_of_call(instance: &Instance, call: &Call) -> Vec<u64> {
    frames(instance, call.user_rsp.wrapping_add(FRAME_OF_A_CALL))
}

/// The same of a thread that was interrupted with these registers: a call there would return behind the instruction.
pub fn frames_of_interrupt(instance: &Instance, registers: &Registers) -> Vec<u64> {
    let mut all = vec![registers.ip().wrapping_add(1)];
    all.extend(frames(instance, registers.bp()));
    all
}

/// The second half of [`add_place_of_call`].
pub fn add_frames_of_call(instance: &Instance, frames: &[u64], failure: &mut Failure) {
    let places: Vec<_> = places(instance, frames.iter().copied()).collect();
    // The way from the failing line through the libraries to the hostcall is of no use to the reader.
    let first = places.iter().position(|place| !is_library(place)).unwrap_or(0);
    let mut places = places.into_iter().skip(first);
    failure.ip = places.next();
    failure.backtrace = places.collect();
}

/// Whether a place lies in the libraries that every image is made with.
fn is_library(place: &CodePlace) -> bool {
    const LIBRARIES: [&str; 7] =
        ["monohull_std::", "<monohull_std::", "monohull::", "<monohull::", "core::", "alloc::", "__rustc"];
    place.symbol.as_ref().is_some_and(|symbol| LIBRARIES.iter().any(|library| symbol.starts_with(library)))
}

fn memory(domain: &Shared, instance: &Instance, fault: &FaultInfo) -> Failure {
    /// `si_code` of SIGBUS for a misaligned access.
    const BUS_ADRALN: i32 = 1;
    if fault.signal == libc::SIGBUS && fault.code == BUS_ADRALN {
        let text = "used a misaligned address, having asked the processor to refuse those";
        return Failure::new(FailureKind::MemoryFault, text);
    }
    if fault.code == SI_KERNEL {
        let text = "used an address that cannot exist, or an instruction that needs privilege";
        return Failure::new(FailureKind::MemoryFault, text);
    }
    let address = fault.address;
    let no_page = fault.signal == libc::SIGBUS;
    let touched = own(instance, address).then(|| domain.files.pager.touched(address, no_page)).flatten();
    if let Some(FaultedMapping { what, lost: true }) = &touched {
        let mut failure = Failure::blamed(FailureKind::MemoryFault, Blame::Host, format!("touched {what}"));
        failure.address = Some(address);
        failure.address_of = Some("memory whose bytes cannot be read".into());
        return failure;
    }
    let owner = owner_of(domain, instance, address);
    let stack = instance.with_cell(|cell| cell.stack_around(address)).flatten();
    let guard = stack.filter(|stack| address < stack.start + PAGE);
    let mut failure = match guard {
        Some(stack) => Failure::new(
            FailureKind::StackOverflow,
            format!("overran its stack of {} KiB", (stack.end - stack.start - PAGE) / 1024),
        ),
        None if fault.code == SEGV_PKUERR => {
            let text = format!("touched address {address:#x}, which its protection key denies: it is {owner}");
            Failure::new(FailureKind::MemoryFault, text)
        }
        None => Failure::new(FailureKind::MemoryFault, format!("touched address {address:#x}, which is {owner}")),
    };
    failure.address = Some(address);
    failure.address_of = Some(owner);
    failure
}

/// Whether a SIGFPE of this `si_code` comes from dividing an integer.
pub(super) fn is_division(code: i32) -> bool {
    matches!(code, FPE_INTDIV | FPE_INTOVF)
}

/// The owner of the memory at an address, as `instance` sees it.
fn owner_of(domain: &Shared, instance: &Instance, address: u64) -> String {
    if address < NULL_ZONE {
        return "the null page".into();
    }
    if own(instance, address) {
        if let Some(touched) = domain.files.pager.touched(address, false) {
            return touched.what;
        }
        return instance.with_cell(|cell| part_of_cell(cell, address)).unwrap_or("its own cell").into();
    }
    if (CELLS_BASE..CELLS_END).contains(&address) {
        let cell = ((address - CELLS_BASE) / CELL_SIZE) as usize;
        return match domain.instances.in_cell(cell) {
            Some(other) => format!("memory of another instance, {}", other.name()),
            None => "a cell that is not in use".into(),
        };
    }
    if (ARENA_BASE..ARENA_END).contains(&address) {
        return "part of the slot arena, in no buffer of its own".into();
    }
    if (INFO_BASE..INFO_BASE + INFO_SIZE).contains(&address) {
        return "the info page".into();
    }
    if (CARRIER_BASE..USER_BASE).contains(&address) || (USER_BASE..USER_END).contains(&address) {
        return "memory of the gates".into();
    }
    "in the system partition".into()
}

pub(super) fn own(instance: &Instance, address: u64) -> bool {
    let own = instance.bounds();
    (own.start..own.end).contains(&address)
}

fn part_of_cell(cell: &Cell, address: u64) -> &'static str {
    if let Some(stack) = cell.stack_around(address) {
        return if address < stack.start + PAGE { "the guard page of its own stack" } else { "its own stack" };
    }
    if cell.image_range().contains(&address) {
        let offset = address - cell.image_base();
        let image = &cell.image().image;
        if image.relro.as_ref().is_some_and(|relro| relro.contains(&offset)) {
            return "its own relocated data, which is read-only";
        }
        let segment = image.segments.iter().find(|s| (s.address..s.address + s.memory_size).contains(&offset));
        return match segment.map(|s| s.access) {
            Some(SegmentAccess::ReadExecute) => "its own code, which is read-only",
            Some(SegmentAccess::Read) => "its own constants, which are read-only",
            Some(SegmentAccess::ReadWrite) => "its own data, which is not executable",
            None => "a gap in its own image",
        };
    }
    if let Some(state) = cell.mapped().state(address) {
        return match state {
            RangeState::Reserved | RangeState::Hidden => "memory that it has mapped without access",
            RangeState::Read => "memory that it has mapped read-only",
            RangeState::ReadWrite => "memory that it has mapped, which is not executable",
        };
    }
    if cell.heap().contains(&address) {
        "its own heap, which is not executable"
    } else if address >= cell.base() + MAPPINGS_OFFSET {
        "in its own cell, where no file is mapped"
    } else {
        "in its own cell, past the end of its heap"
    }
}

/// Whether an address is one of the instance's own code.
pub fn is_own_code(instance: &Instance, address: u64) -> bool {
    address.checked_sub(instance.image_base).is_some_and(|offset| is_code(instance, offset))
}

/// Whether an offset in the instance's image lies in its code.
fn is_code(instance: &Instance, offset: u64) -> bool {
    let code = |s: &&Segment| s.access == SegmentAccess::ReadExecute;
    let mut code = instance.config.image.image.segments.iter().filter(code);
    code.any(|s| (s.address..s.address + s.memory_size).contains(&offset))
}

/// The place of an address in the instance's image.
fn place(instance: &Instance, address: u64) -> Option<CodePlace> {
    place_behind(instance, address, 0)
}

/// The place a return address goes back to. It may lie past the end of its function, if the call was the last
/// instruction there, so the instruction before it identifies the function.
fn return_place(instance: &Instance, address: u64) -> Option<CodePlace> {
    place_behind(instance, address, 1)
}

/// The place of an address, in the symbol of the byte `distance` before it.
fn place_behind(instance: &Instance, address: u64, distance: u64) -> Option<CodePlace> {
    let image = &instance.config.image;
    let inside = |offset: &u64| (distance..image.image.span).contains(offset);
    let offset = address.checked_sub(instance.image_base).filter(inside)?;
    let symbol = image.symbols().find(offset - distance);
    let symbol = symbol.map(|symbol| Symbol { offset: symbol.offset + distance, ..symbol }.to_string());
    Some(CodePlace { offset, symbol, source: None })
}

/// The callers of what a fault interrupted.
fn backtrace(instance: &Instance, fault: &FaultInfo, jumped: bool) -> Vec<CodePlace> {
    // The jump left the frame alone: its caller's address is on top of the stack, if it was a call.
    let caller = if jumped { read_word(instance, fault.sp) } else { None };
    let caller = caller.and_then(|address| return_place(instance, address));
    caller.into_iter().chain(places(instance, frames(instance, fault.bp).into_iter())).collect()
}

/// The places that return addresses go back to, up to the first that is not in the image.
fn places(instance: &Instance, frames: impl Iterator<Item = u64>) -> impl Iterator<Item = CodePlace> {
    frames.map_while(|address| return_place(instance, address))
}

/// The return addresses of the frame at address `frame` and its callers. Follows the chain of frame pointers. Nothing there
/// is trusted: each word is copied out with faults survived, and the chain must climb within the stack.
fn frames(instance: &Instance, mut frame: u64) -> Vec<u64> {
    let mut frames = Vec::new();
    while frames.len() < FRAMES_MAX {
        let Some(next) = read_word(instance, frame) else { break };
        let Some(caller) = read_word(instance, frame.wrapping_add(8)) else { break };
        frames.push(caller);
        if next <= frame {
            break;
        }
        frame = next;
    }
    frames
}

fn read_word(instance: &Instance, address: u64) -> Option<u64> {
    // Not in mapped files, whose pages may have to come from the host's disk first: this runs with locks held.
    let start = instance.bounds().start;
    if !address.is_multiple_of(8) || address < start || address.checked_add(8)? > start + MAPPINGS_OFFSET {
        return None;
    }
    let mut word = 0u64;
    // SAFETY: `word` is ours; the address lies in the instance's own cell, and a hole there is survived.
    unsafe { copy((&raw mut word).cast(), address as *const u8, 8) }.then_some(word)
}
