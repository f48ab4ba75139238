//! Gives hostcalls every address and number it should not, while another instance watches over its own data.
//!
//! ```text
//!   victim    holds a heap block, a stack variable, a slot buffer, a connection,
//!             a file ─────────────────────────────── addresses, numbers ────────▶ slot `victim`
//!   attacker  every case: call, compare with the refusal that is right, ask why ──▶ slot `verdicts`
//!             structures and descriptors that change under the libos's eyes ───────▶ the same
//!   victim    is everything as it was? ──────────────────────────────────────────▶ slot `victim-says`
//! ```
#![no_std]
#![deny(unsafe_code)]

mod addresses;
mod cases;
mod changing;
#[allow(unsafe_code, reason = "the shim's own way out takes 32-bit numbers only")]
mod gate;
mod going;
mod in_use;
#[allow(unsafe_code, reason = "what a buffer and mapped memory hold is looked at by their addresses")]
mod moving;
mod neighbour;
mod storms;
mod stray;

use addresses::{Addresses, Holdings};
use cases::Network;
use core::fmt::Write;
use core::hint::black_box;
use monohull_abi::types::{AbortKind, InfoString};
use monohull_abi::{Errno, number};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotString};
use monohull_std::time::Duration;
use monohull_trampoline::user::hostcall;

/// What the victim's data looks like.
const PATTERN: u64 = 0x0123_4567_89ab_cdef;

/// Plays its role, with a sleep of so many milliseconds in it: meanwhile the workflow may be suspended, and the rest happens in another domain. A
/// victim, and what is not to be written to, have what they have before.
#[monohull::main]
fn main(
    role: String,
    number: Option<u64>,
    arguments: Option<Vec<u64>>,
    nap: Option<u64>,
) -> Result<(), Box<dyn Error>> {
    let nap = || nap.into_iter().for_each(|nap| monohull_std::thread::sleep(Duration::from_millis(nap)));
    match role.as_str() {
        "victim" => victim(Network::Host, nap),
        "victim-on-tap" => victim(Network::Tap, nap),
        "attacker" => attacker(Network::Host),
        "attacker-on-tap" => attacker(Network::Tap),
        "fail-badly" => fail_badly(),
        "spawn-badly" => spawn_badly(),
        "odd-registers" => odd_registers(),
        "changing-addresses" => Ok(changing::addresses(number.unwrap_or_default() as u32)?),
        "changing-addresses-on-tap" => Ok(changing::addresses_on_tap()?),
        "let-go" => Ok(changing::freed_while_a_call_waits()?),
        "stray-writes" => {
            stray::writes(number.unwrap_or(1), nap);
            Ok(())
        }
        "handler" => Ok(monohull_std::effect::request()?.hand_on("reply")?),
        "ask" => ask(number.unwrap_or_default(), &arguments.unwrap_or_default()),
        _ => Err(format!("there is no role `{role}`").into()),
    }
}

/// A connection is in the way of a capture, so that it is made after the nap.
fn victim(network: Network, nap: impl FnOnce()) -> Result<(), Box<dyn Error>> {
    let heap = black_box(vec![PATTERN; 1000]);
    let stack = black_box([PATTERN; 16]);
    let buffer = SlotBuffer::<[u64]>::with_slot_from("kept-by-the-victim", &[PATTERN; 1000]);
    let file = neighbour::open_file_and_queue();
    nap();
    let holdings = Holdings { socket: neighbour::open_socket(network), file };
    let [heap_at, stack_at, buffer_at] = [heap.as_ptr() as u64, stack.as_ptr() as u64, buffer.as_ptr() as u64];
    let known = [heap_at, stack_at, buffer_at, holdings.socket, holdings.file];
    SlotBuffer::<[u64; 5]>::with_slot_value("victim", known).publish()?;
    SlotBuffer::<u64>::from_slot("attacked")?.discard();
    let intact = [&heap[..], &stack[..], &buffer[..]].iter().all(|data| data.iter().all(|word| *word == PATTERN));
    let intact = intact && holdings.are_intact();
    SlotString::with_slot("victim-says").push_str(if intact { "intact" } else { "damaged" });
    buffer.discard();
    Ok(())
}

fn attacker(network: Network) -> Result<(), Box<dyn Error>> {
    let [heap, stack, buffer, socket, file] = *SlotBuffer::<[u64; 5]>::from_slot("victim")?;
    let addresses = Addresses::new([heap, stack, buffer], Holdings { socket, file });
    let mut verdicts = SlotString::with_slot("verdicts");
    for case in cases::all(&addresses, network) {
        if case.after_a_refusal {
            hostcall(number::GET_INFO, [u64::MAX; 6]);
        }
        let value = gate::any_hostcall(case.number, case.args);
        let why = explain();
        // These two are answers, not refusals.
        let needs_words = value < 0 && ![Errno::Again, Errno::TimedOut].map(Errno::to_value).contains(&value);
        let right = value == case.value && needs_words != why.is_empty();
        let verdict = if right { "right" } else { "WRONG" };
        writeln!(verdicts, "{verdict}: {}: {value} (expected {}): {why}", case.what, case.value)?;
    }
    for (what, came) in changing::all(buffer)
        .into_iter()
        .chain(going::all())
        .chain(moving::all())
        .chain(storms::all())
        .chain(in_use::all(network))
    {
        match came {
            Ok(()) => writeln!(verdicts, "right: {what}")?,
            Err(wrong) => writeln!(verdicts, "WRONG: {what}: {wrong}")?,
        }
    }
    SlotBuffer::<u64>::with_slot_value("attacked", 1).publish()?;
    Ok(())
}

/// Why this thread's last hostcall was refused.
fn explain() -> String {
    let mut text = [0u8; 256];
    let len = hostcall(number::LAST_ERROR_MESSAGE, [text.as_mut_ptr() as u64, text.len() as u64, 0, 0, 0, 0]);
    String::from_utf8_lossy(&text[..len.max(0) as usize]).into_owned()
}

/// Makes one hostcall twice and fails with both answers; uses no module besides.
fn ask(number: u64, arguments: &[u64]) -> Result<(), Box<dyn Error>> {
    let mut all = [0; 6];
    all.iter_mut().zip(arguments).for_each(|(to, from)| *to = *from);
    let answers: Vec<String> = (0..2).map(|_| format!("{}: {}", gate::any_hostcall(number, all), explain())).collect();
    let text = answers.join("\n");
    hostcall(number::ABORT, [AbortKind::Error as u64, text.as_ptr() as u64, text.len() as u64, 0, 0, 0]);
    Ok(())
}

/// Ends as failed, with a message in memory that is not its own.
fn fail_badly() -> Result<(), Box<dyn Error>> {
    hostcall(number::ABORT, [0, u64::MAX - 4, u64::MAX, 0, 0, 0]);
    Ok(())
}

/// Starts a thread where no code is.
fn spawn_badly() -> Result<(), Box<dyn Error>> {
    let thread = hostcall(number::THREAD_SPAWN, [64, 0, 0, 0, 0, 0]);
    hostcall(number::THREAD_JOIN, [thread as u64, 0, 0, 0, 0, 0]);
    Ok(())
}

/// Makes hostcalls that copy, add and look at memory, with flags and control words that would disturb those who do.
fn odd_registers() -> Result<(), Box<dyn Error>> {
    for (what, flags, mxcsr, x87) in gate::ODD {
        let mut text = [0u8; 100];
        let args = [InfoString::Args as u64, text.as_mut_ptr() as u64, text.len() as u64, 0, 0, 0];
        let len = gate::odd_hostcall(number::GET_STRING.into(), args, flags, mxcsr, x87);
        let text = text.get(..len as usize).ok_or("no text")?;
        if text != br#"{"role":"odd-registers"}"# {
            return Err(format!("{what}: {}", String::from_utf8_lossy(text)).into());
        }
        let line = format!("{what} does no harm\n");
        let args = [1, line.as_ptr() as u64, line.len() as u64, 0, 0, 0];
        let written = gate::odd_hostcall(number::STDIO_WRITE.into(), args, flags, mxcsr, x87);
        if written != line.len() as i64 {
            return Err(format!("{what}: {written}").into());
        }
    }
    Ok(())
}
