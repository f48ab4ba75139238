//! Fails in every way a function can. Argument `how` chooses the way; `workflows/failures` has a file for each, but for
//! `print-variable` and `publish-variable`, which are about secrets that only a server grants, and those which are about suspended workflows: `rename-slot`,
//! `unaligned-sleep`, `own-stack-sleep`, `write-relro`, `write-guard` and `write-guard-of-thread`. The last three sleep for `nap` milliseconds first.
//!
//! Every way is a function of its own that is never inlined, so that a report can name it.
#![no_std]
#![deny(unsafe_code)]

mod limits;
#[allow(unsafe_code, reason = "wrong uses of memory are this module's purpose")]
mod memory;
#[allow(unsafe_code, reason = "instructions the compiler does not make by itself")]
mod processor;
mod retry;
mod terminal;
mod waits;

use monohull_std::durable;
use monohull_std::env;
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::process;
use monohull_std::time::Duration;

#[monohull::main]
fn main(how: String, nap: Option<u64>) -> Result<(), Box<dyn Error>> {
    let nap = Duration::from_millis(nap.unwrap_or_default());
    match how.as_str() {
        "panic" => panics(),
        "return-error" => return returns_an_error(),
        "print-variable" => prints_a_variable(),
        "publish-variable" => return publishes_a_variable(),
        "exit-status" => process::exit(3),

        "null-write" => memory::null_write(),
        "wild-read" => memory::wild_read(),
        "write-trusted" => memory::write_trusted(),
        "write-code" => memory::write_code(),
        "execute-data" => memory::execute_data(),
        "wild-jump" => memory::wild_jump(),
        "stack-overflow" => memory::stack_overflow(),
        "stack-overflow-in-thread" => memory::stack_overflow_in_thread(),
        "stack-of-signals" => memory::stack_of_signals(),
        "write-relro" => memory::write_relro(nap),
        "write-guard" => memory::write_guard(nap),
        "write-guard-of-thread" => memory::write_guard_of_thread(nap),

        "divide-by-zero" => processor::divide_by_zero(),
        "illegal-instruction" => processor::illegal_instruction(),
        "time-stamp-counter" => processor::time_stamp_counter(),
        "breakpoint" => processor::breakpoint(),
        "single-step" => processor::single_step(),
        "unmasked-float" => processor::unmasked_float(),
        "alignment-check" => processor::alignment_check(),
        "raw-system-call" => processor::raw_system_call(),
        "raw-system-call-32" => processor::raw_system_call_32(),
        "vsyscall" => processor::vsyscall(),
        "lost-thread-pointer" => processor::lost_thread_pointer(),
        "lost-gate" => processor::lost_gate(),
        "far-return" => processor::far_return(),
        "interrupt-return" => processor::interrupt_return(),
        "unaligned-sleep" => processor::unaligned_sleep(),
        "own-stack-sleep" => processor::own_stack_sleep(),

        "endless-loop" => waits::endless_loop(),
        "endless-loop-after-sleep" => waits::endless_loop_after_sleep(),
        "endless-loop-in-thread" => waits::endless_loop_in_thread(),
        "sleep" => waits::sleep_for_ever(),
        "deadlock" => waits::deadlock(),
        "missing-slot" => return waits::missing_slot(),
        "rename-slot" => waits::rename_slot(),

        "too-much-memory" => limits::too_much_memory(),
        "too-much-slot-memory" => limits::too_much_slot_memory(),
        "output-flood" => limits::output_flood(),
        "thread-flood" => limits::thread_flood(),

        "terminal-output" => terminal::output(),
        "terminal-panic" => terminal::panics(),

        "make-input" => retry::make_input(),
        "flaky" => return retry::flaky(),
        "permanent-error" => return retry::permanent_error(),
        "not-allowed" => return retry::not_allowed(),
        "flaky-with-input" => return retry::flaky_with_input(),
        "flaky-after-writing" => return retry::flaky_after_writing(),
        _ => return Err(format!("there is no failure called `{how}`").into()),
    }
    Ok(())
}

#[inline(never)]
fn panics() {
    panic!("as requested");
}

/// Prints an environment variable, alone and among other words, and fails with it.
#[inline(never)]
fn prints_a_variable() {
    let value = env::var("PRINTED").unwrap_or_default();
    println!("{value}");
    eprintln!("it is {value:?}, which is printed twice: {value}");
    panic!("{value} is no secret any more");
}

/// Publishes an environment variable, waits for an event with a name that has it, and fails with it.
#[inline(never)]
fn publishes_a_variable() -> Result<(), Box<dyn Error>> {
    let value = env::var("PRINTED")?;
    durable::publish("text", &format!("it is {value}"))?;
    durable::publish(&format!("name {value}"), "text")?;
    durable::event(&format!("event {value}")).wait()?;
    Err(format!("{value} is no secret any more").into())
}

#[inline(never)]
fn returns_an_error() -> Result<(), Box<dyn Error>> {
    let number: u32 = "twelve".parse()?;
    println!("{number}");
    Ok(())
}
