//! Handlers.

use crate::asks::{Wanted, text};
use monohull_std::continuation::perform;
use monohull_std::effect;
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotBuffer;
use monohull_std::thread;
use monohull_std::time::Duration;

/// Handles a request in the way of this name; `None` if there is no such way.
pub(crate) fn handle(how: &str, wanted: &Wanted<'_>) -> Option<Result<(), Box<dyn Error>>> {
    Some(match how {
        "echo" => echo(),
        "shout" => shout(),
        "sleep" => sleep(wanted),
        "fail" => fail(),
        "fail-first" => fail_first(),
        "silent" => effect::request().map(drop).map_err(Into::into),
        "forward" => forward(wanted),
        "endless" => loop {
            core::hint::spin_loop();
        },
        "wait" => SlotBuffer::<[u8]>::from_slot("never").map(drop).map_err(Into::into),
        "greedy" => greedy(),
        "use-up" => use_up(),
        _ => return None,
    })
}

/// Replies with the buffer that it has got.
fn echo() -> Result<(), Box<dyn Error>> {
    effect::request()?.hand_on("reply")?;
    Ok(())
}

fn shout() -> Result<(), Box<dyn Error>> {
    let request = effect::request()?;
    println!("asked for {}", text(&request));
    effect::reply(text(&request).to_uppercase().as_bytes())?;
    Ok(())
}

fn sleep(wanted: &Wanted<'_>) -> Result<(), Box<dyn Error>> {
    let request = effect::request()?;
    thread::sleep(Duration::from_millis(wanted.milliseconds));
    effect::reply(&request)?;
    Ok(())
}

fn fail() -> Result<(), Box<dyn Error>> {
    let request = effect::request()?;
    Err(format!("nothing is known of {}", text(&request)).into())
}

/// Fails in the first attempt, with a request that it has not changed.
fn fail_first() -> Result<(), Box<dyn Error>> {
    let request = effect::request()?;
    let attempt = monohull_std::instance().attempt;
    if attempt == 1 {
        return Err("not at the first attempt".into());
    }
    effect::reply(format!("{} at attempt {attempt}", text(&request)).as_bytes())?;
    Ok(())
}

/// Fails in the first attempt, with a request that it has written to.
fn use_up() -> Result<(), Box<dyn Error>> {
    let mut request = effect::request()?;
    request[0] = b'!';
    Err("the request is used up".into())
}

/// Asks for an effect itself, with the same request, and replies with that reply.
fn forward(wanted: &Wanted<'_>) -> Result<(), Box<dyn Error>> {
    let request = effect::request()?;
    perform(wanted.effect, &request)?.hand_on("reply")?;
    Ok(())
}

/// Tries what a handler may not do, and replies with what came of it.
fn greedy() -> Result<(), Box<dyn Error>> {
    let request = effect::request()?;
    let mut said = String::new();
    let again = effect::request().map(drop);
    said.push_str(&format!("again: {}\n", again.map_or_else(|error| error.to_string(), |()| "taken".into())));
    for name in ["secret", "reply", "\0p0000000100000001", "\0r0000000100000001", "\0a0000000100000001"] {
        let taken = SlotBuffer::<[u8]>::try_from_slot(name).map(|found| found.is_some());
        let taken = taken.map_or_else(|error| error.to_string(), |found| format!("{found}"));
        said.push_str(&format!("take {name:?}: {taken}\n"));
    }
    for name in ["request", "secret", "\0a0000000100000001", "\0r0000000100000001"] {
        let filled = SlotBuffer::<[u8]>::with_slot_from(name, b"forged").publish();
        let filled = filled.map_or_else(|error| error.to_string(), |()| "filled".into());
        said.push_str(&format!("fill {name:?}: {filled}\n"));
    }
    drop(request);
    effect::reply(said.as_bytes())?;
    let twice = effect::reply(b"another").map_or_else(|error| error.to_string(), |()| "filled".into());
    println!("twice: {twice}");
    Ok(())
}
