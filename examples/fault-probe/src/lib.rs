//! Handles its own faults, and tries what a fault handler must not reach. `how` says what is done; a line is printed for what works, and
//! what must end the instance is the last thing that it does.
#![no_std]
#![allow(unsafe_code, reason = "faults are what it is about")]

mod code;

use code::{Buffer, faults, handle_with};
use core::sync::atomic::{AtomicBool, Ordering};
use monohull_abi::Errno;
use monohull_abi::layout::{CARRIER_BASE, CELL_SIZE, CELLS_BASE, PAGE, THREAD_STACKS_OFFSET};
use monohull_abi::number::{FAULT_HANDLER, GET_INFO, MAP, PROTECT};
use monohull_abi::types::{FaultKind, Info};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_std::time::Duration;
use monohull_trampoline::user::{hostcall, stack_pointer};

/// The address of a function.
macro_rules! entry {
    ($function:path) => {
        $function as *const () as u64
    };
}

type Result = monohull_std::result::Result<(), Box<dyn Error>>;

#[monohull::main]
fn main(how: String) -> Result {
    let (first, second) = (entry!(code::fault_probe_first), entry!(code::fault_probe_second));
    handle_with(first);
    match how.as_str() {
        "kinds" => kinds(),
        "threads" => many_threads(),
        "refused" => refused(first),
        "race" => race(first, second),
        "stacks" => stacks(),
        "sleep" => {
            expect(faults(code::ud2(), 0), FaultKind::IllegalInstruction, 0)?;
            let (untouched, kept) = (pages(), hostcall(MAP, [4 * PAGE, 0, 2, 0, 0, 0]) as u64);
            assert!(faults(code::store(), kept + 2 * PAGE).is_none(), "it may be written to");
            assert_eq!(hostcall(PROTECT, [kept + 2 * PAGE, PAGE, 1, 0, 0, 0]), 0);
            println!("before");
            thread::sleep(Duration::from_millis(1300));
            expect(faults(code::ud2(), 0), FaultKind::IllegalInstruction, 0)?;
            // SAFETY: a page of its own, which may be read.
            assert_eq!(unsafe { *((kept + 2 * PAGE) as *const u64) }, kept + 2 * PAGE, "it is as it was");
            expect(faults(code::store(), kept + 2 * PAGE), FaultKind::Memory, kept + 2 * PAGE)?;
            expect(faults(code::load(), untouched), FaultKind::Memory, untouched)?;
            assert!(faults(code::store(), kept).is_none(), "it may still be written to");
            println!("after");
            Ok(())
        }
        "stop" => {
            handle_with(entry!(code::again));
            thread::spawn(|| faults(code::ud2(), 0));
            while code::ROUNDS.load(Ordering::Relaxed) < 1000 {
                thread::yield_now();
            }
            println!("a thread faults without end");
            Ok(())
        }
        ends => end(ends),
    }
}

/// Only stacks that threads have had are memory, and each is charged: the step's memory is enough for one of them.
fn stacks() -> Result {
    let size = hostcall(GET_INFO, [Info::StackSize as u64, 0, 0, 0, 0, 0]) as u64;
    let cell = (stack_pointer() - CELLS_BASE) / CELL_SIZE;
    let first = CELLS_BASE + cell * CELL_SIZE + THREAD_STACKS_OFFSET;
    let top = |stack: u64| first + (stack + 1) * size - 64;
    expect(faults(code::load(), top(0)), FaultKind::Memory, top(0))?;
    for _ in 0..3 {
        thread::spawn(|| ()).join().map_err(|_| "the thread has panicked")?;
    }
    // It is kept for the next thread.
    assert!(faults(code::store(), top(0)).is_none(), "it may be written to");
    expect(faults(code::store(), top(1)), FaultKind::Memory, top(1))?;
    static MAY_END: AtomicBool = AtomicBool::new(false);
    let waits = thread::spawn(|| {
        while !MAY_END.load(Ordering::Relaxed) {
            thread::yield_now();
        }
    });
    let second = thread::Builder::new().spawn(|| ());
    MAY_END.store(true, Ordering::Relaxed);
    waits.join().map_err(|_| "the thread has panicked")?;
    if second.is_ok() {
        return Err("there is memory for another stack".into());
    }
    // Nothing has come of it.
    expect(faults(code::store(), top(1)), FaultKind::Memory, top(1))?;
    println!("one stack");
    Ok(())
}

/// What ends the instance.
fn end(how: &str) -> Result {
    let outcome = match how {
        "outside" => {
            code::register(entry!(code::fault_probe_first), code::load(), 1);
            faults(code::ud2(), 0)
        }
        "removed" => {
            assert_eq!(code::register(0, 0, 0), 0);
            faults(code::ud2(), 0)
        }
        "in-handler" => {
            handle_with(entry!(code::fault_probe_broken));
            faults(code::ud2(), 0)
        }
        // The guard of the first carrier's block, which has no rights without keys either.
        "trusted-memory" => faults(code::load(), CARRIER_BASE),
        "anothers-cell" => faults(code::load(), CELLS_BASE + 200 * CELL_SIZE),
        "breakpoint" => faults(code::breakpoint(), 0),
        "system-call" => faults(code::system_call(), 0),
        "privileged" => faults(code::privileged(), 0),
        "counter" => faults(code::counter(), 0),
        "loop" => {
            handle_with(entry!(code::again));
            faults(code::ud2(), 0)
        }
        "descend" => {
            handle_with(entry!(code::deeper));
            faults(code::ud2(), 0)
        }
        "stack-null" => faults(code::stack(), 0),
        "stack-top" => faults(code::stack(), !15),
        "stack-trusted" => faults(code::stack(), CARRIER_BASE + 0x8000),
        "stack-anothers" => faults(code::stack(), CELLS_BASE + 200 * CELL_SIZE + 0x8000),
        "stack-heap" => faults(code::stack(), Box::leak(Box::new([0u8; 4096])).as_ptr() as u64 + 2048),
        "stack-guard" => faults(code::stack(), lowest_page() + 64),
        "stack-of-another-thread" => {
            let there = thread::spawn(stack_pointer).join().map_err(|_| "the thread has panicked")?;
            faults(code::stack(), there)
        }
        _ => return Err("there is no such way".into()),
    };
    Err(format!("it goes on after {how}: {}", if outcome.is_some() { "the handler ran" } else { "no fault" }).into())
}

#[track_caller]
fn expect(fault: Option<Buffer>, kind: FaultKind, address: u64) -> monohull_std::result::Result<u64, Box<dyn Error>> {
    let Buffer { record, by, .. } = fault.ok_or("it has not faulted")?;
    let inside = (code::start()..code::end()).contains(&record.ip);
    if FaultKind::from_raw(record.kind) != Some(kind) || record.address != address || !inside {
        return Err(format!("{kind:?} at {address:#x} was reported as {record:#x?}").into());
    }
    Ok(by)
}

/// Pages of its own without rights.
fn pages() -> u64 {
    hostcall(MAP, [4 * PAGE, 0, 0, 0, 0, 0]) as u64
}

fn kinds() -> Result {
    let pages = pages();
    expect(faults(code::load(), pages + 24), FaultKind::Memory, pages + 24)?;
    assert_eq!(hostcall(PROTECT, [pages, PAGE, 1, 0, 0, 0]), 0);
    expect(faults(code::store(), pages + 24), FaultKind::Memory, pages + 24)?;
    assert!(faults(code::load(), pages + 24).is_none(), "what may be read is no fault");
    expect(faults(code::load(), 0), FaultKind::Memory, 0)?;
    expect(faults(code::load(), 4096), FaultKind::Memory, 4096)?;
    let own_code = code::load();
    expect(faults(code::store(), own_code), FaultKind::Memory, own_code)?;
    expect(faults(code::ud2(), 0), FaultKind::IllegalInstruction, 0)?;
    expect(faults(code::divide(), 0), FaultKind::Division, 0)?;
    expect(faults(code::overflow(), 0), FaultKind::Division, 0)?;
    for _ in 0..200 {
        expect(faults(code::load(), pages + PAGE), FaultKind::Memory, pages + PAGE)?;
    }
    println!("all kinds");
    Ok(())
}

/// Each thread has its own faults, on its own stack.
fn many_threads() -> Result {
    let pages = pages();
    let each = |number: u64| {
        let mut ended = Ok(());
        for round in 0..100 {
            let address = pages + 64 * number + round % 8;
            let done = expect(faults(code::load(), address), FaultKind::Memory, address)
                .and_then(|_| expect(faults(code::divide(), 0), FaultKind::Division, 0));
            ended = done.map(drop).map_err(|error| error.to_string());
            if ended.is_err() {
                break;
            }
            thread::yield_now();
        }
        ended
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || each(number))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("it panicked".into())))
    })?;
    println!("all threads");
    Ok(())
}

/// Two handlers by turns, while other threads fault: each fault is handled, by one of them.
fn race(first: u64, second: u64) -> Result {
    static DONE: AtomicBool = AtomicBool::new(false);
    let each = || -> monohull_std::result::Result<[u32; 2], String> {
        let mut by = [0; 2];
        for _ in 0..300 {
            let handler =
                expect(faults(code::ud2(), 0), FaultKind::IllegalInstruction, 0).map_err(|e| e.to_string())?;
            by[handler as usize - 1] += 1;
        }
        Ok(by)
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while !DONE.load(Ordering::Relaxed) {
                [first, second].into_iter().for_each(handle_with);
                thread::yield_now();
            }
        });
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(each)).collect();
        let ends: Vec<_> =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("it panicked".into()))).collect();
        DONE.store(true, Ordering::Relaxed);
        ends.into_iter().try_for_each(|end| end.map(|by| assert_eq!(by[0] + by[1], 300)))
    })?;
    println!("all handled");
    Ok(())
}

/// Registrations that are refused leave the one that was there.
fn refused(first: u64) -> Result {
    let (start, bytes) = (code::start(), code::end() - code::start());
    let data = Box::leak(Box::new(0u64)) as *mut u64 as u64;
    let own_stack = stack_pointer();
    let gate = gate();
    let fault = -(Errno::Fault as i64);
    for (what, entry, start, bytes, answer) in [
        ("an entry at 0", 0, start, bytes, fault),
        ("an entry in the heap", data, start, bytes, fault),
        ("an entry on the stack", own_stack, start, bytes, fault),
        ("an entry in the gates", gate, start, bytes, fault),
        ("an entry in another cell", first + CELL_SIZE, start, bytes, fault),
        ("an entry nowhere", 0xdead_beef, start, bytes, fault),
        ("the last entry", u64::MAX, start, bytes, fault),
        ("the gates' code", first, gate, 64, fault),
        ("all code", first, 0, u64::MAX, fault),
        ("code up to the end", first, start, u64::MAX - start, fault),
        ("code over the end", first, start, u64::MAX, fault),
        ("code and data", first, start, 1 << 30, fault),
        ("data", first, data, 8, fault),
        ("the stack", first, own_stack, 8, fault),
        ("another cell's code", first, start + CELL_SIZE, bytes, fault),
        ("the cell below", first, start - CELL_SIZE, bytes, fault),
        ("the handler's own code", start, start, bytes, -(Errno::Invalid as i64)),
        ("the handler's last byte", start + bytes - 1, start, bytes, -(Errno::Invalid as i64)),
    ] {
        let given = hostcall(FAULT_HANDLER, [entry, start, bytes, 0, 0, 0]);
        if given != answer {
            return Err(format!("{what}: {given} and not {answer}").into());
        }
        expect(faults(code::ud2(), 0), FaultKind::IllegalInstruction, 0)?;
    }
    println!("all refused");
    Ok(())
}

/// The page above the guard of this thread's stack.
fn lowest_page() -> u64 {
    let size = hostcall(GET_INFO, [Info::StackSize as u64, 0, 0, 0, 0, 0]) as u64;
    (stack_pointer() & !(size - 1)) + PAGE
}

/// The exit gate of this thread's carrier.
fn gate() -> u64 {
    let gate: u64;
    // SAFETY: `gs` points to a line that may be read.
    unsafe { core::arch::asm!("mov {}, gs:[0]", out(reg) gate, options(readonly, nostack, preserves_flags)) };
    gate
}
