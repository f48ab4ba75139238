//! Those who ask.

use monohull_abi::{Errno, number};
use monohull_std::continuation::{Captured, capture, perform, perform_with, rewind};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotString};
use monohull_std::thread;
use monohull_std::time::Duration;
use monohull_trampoline::user::hostcall;

/// What is asked for, and how.
pub(crate) struct Wanted<'a> {
    pub(crate) effect: &'a str,
    pub(crate) request: &'a [u8],
    pub(crate) times: usize,
    pub(crate) bytes: usize,
    pub(crate) milliseconds: u64,
}

/// Asks in the way of this name. The slot `result` has what came of it.
pub(crate) fn ask(how: &str, wanted: &Wanted<'_>) -> Result<(), Box<dyn Error>> {
    let said = match how {
        "ask" => once(wanted),
        // Without a word about it.
        "ask-only" => return perform(wanted.effect, wanted.request).map(drop).map_err(Into::into),
        "leave-quietly" => {
            leave(wanted);
            return Ok(());
        }
        "many" => many(wanted)?,
        "large" => large(wanted)?,
        "storm" => storm(wanted),
        "forged" => forged(wanted),
        "rewind" => going_back(wanted)?,
        "leave" => leave(wanted),
        other => return Err(format!("no test is called {other:?}").into()),
    };
    let mut result = SlotString::with_slot("result");
    result.push_str(&said);
    result.publish()?;
    Ok(())
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    monohull_std::str::from_utf8(bytes).unwrap_or("(no text)")
}

/// The reply, or why there is none.
fn once(wanted: &Wanted<'_>) -> String {
    match perform(wanted.effect, wanted.request) {
        Ok(reply) => text(&reply).to_owned(),
        Err(error) => format!("{:?}: {error}", error.errno()),
    }
}

/// So many threads ask at the same time.
fn many(wanted: &Wanted<'_>) -> Result<String, Box<dyn Error>> {
    let effect = wanted.effect.to_owned();
    let threads: Vec<_> = (0..wanted.times)
        .map(|number| {
            let effect = effect.clone();
            thread::spawn(move || match perform(&effect, format!("{number}").as_bytes()) {
                Ok(reply) => u64::from(text(&reply) == format!("{number}")),
                Err(_) => 0,
            })
        })
        .collect();
    let mut right = 0;
    for thread in threads {
        right += thread.join().map_err(|_| "a thread has panicked")?;
    }
    Ok(format!("{right} replies"))
}

/// A buffer goes there and back, and is not copied.
fn large(wanted: &Wanted<'_>) -> Result<String, Box<dyn Error>> {
    let mut request = SlotBuffer::<[u8]>::with_slot_len("unused", wanted.bytes);
    request[wanted.bytes - 1] = 7;
    let at = request.as_ptr();
    let reply = perform_with(wanted.effect, request)?;
    let same = reply.as_ptr() == at && reply.len() == wanted.bytes && reply[wanted.bytes - 1] == 7;
    Ok(if same { "the same buffer".to_owned() } else { "another buffer".to_owned() })
}

/// Makes requests without waiting for a reply until it is refused: how many, and why not more. Then it takes the replies.
fn storm(wanted: &Wanted<'_>) -> String {
    let mut names = Vec::new();
    let refused = loop {
        match request(wanted.effect) {
            Ok(name) => names.push(name),
            Err(errno) => break errno,
        }
    };
    let made = names.len();
    let taken = names.iter().filter(|name| take(&name[..]) == Ok(0)).count();
    format!("{made} requests, then {refused:?}, {taken} replies")
}

/// Slots that are not its own.
fn forged(wanted: &Wanted<'_>) -> String {
    let Ok(name) = request(wanted.effect) else { return "no request".to_owned() };
    let own = text(&name).to_owned();
    let mut said = String::new();
    for (what, forged) in [
        ("the request", own.replace("\0r", "\0p")),
        ("what the handler fills", own.replace("\0r", "\0a")),
        ("the reply of another instance", format!("\0r00000000{}", &own[10..])),
        ("no number", format!("{}g", &own[..17])),
        ("one digit more", format!("{own}0")),
    ] {
        let taken = take(forged.as_bytes()).map_or_else(|errno| format!("{errno:?}"), |_| "taken".to_owned());
        said.push_str(&format!("{what}: {taken}\n"));
    }
    let filled = SlotBuffer::<[u8]>::with_slot_from(&own, b"forged").publish();
    said.push_str(&format!(
        "filled: {}\n",
        filled.map_or_else(|error| format!("{:?}", error.errno()), |()| "yes".to_owned())
    ));
    said.push_str(&format!("its own: {:?}\n", take(own.as_bytes())));
    said
}

/// Goes back behind a reply, and asks again.
fn going_back(wanted: &Wanted<'_>) -> Result<String, Box<dyn Error>> {
    let before = match capture()? {
        Captured::Original(checkpoint) => (checkpoint, 0),
        Captured::Resumed { checkpoint, rewinds, .. } => (checkpoint, rewinds),
    };
    let (checkpoint, rewinds) = before;
    let reply = perform(wanted.effect, format!("{rewinds}").as_bytes())?;
    if rewinds < wanted.times as u64 {
        rewind(&checkpoint, b"");
    }
    Ok(text(&reply).to_owned())
}

/// Ends while a handler works for one of its threads.
fn leave(wanted: &Wanted<'_>) -> String {
    let effect = wanted.effect.to_owned();
    thread::spawn(move || perform(&effect, b"for nobody").is_ok());
    thread::sleep(Duration::from_millis(wanted.milliseconds));
    "left".to_owned()
}

/// Makes a request of no bytes: the name of the slot of its reply.
fn request(effect: &str) -> Result<[u8; 18], Errno> {
    let address = Errno::from_value(hostcall(number::SLOT_ALLOC, [1, 1, 0, 0, 0, 0]))?;
    let mut name = [0_u8; 18];
    let args = [effect.as_ptr() as u64, effect.len() as u64, address, 0, name.as_mut_ptr() as u64, 0];
    let made = Errno::from_value(hostcall(number::PERFORM, args));
    if made.is_err() {
        let _ = hostcall(number::SLOT_FREE, [address, 0, 0, 0, 0, 0]);
    }
    made.map(|_| name)
}

/// Waits for a slot and takes it: 0 for a reply, 1 for the report of a failure.
fn take(name: &[u8]) -> Result<u64, Errno> {
    let kind = "[u8]";
    let desc = monohull_abi::types::TypeDesc {
        fingerprint: monohull_abi::types::BYTES_FINGERPRINT,
        name: kind.as_ptr() as u64,
        name_len: kind.len() as u64,
        element_size: 1,
    };
    let mut view = monohull_abi::types::SlotView::default();
    let (desc, out) = (&raw const desc as u64, &raw mut view as u64);
    let taken =
        Errno::from_value(hostcall(number::SLOT_TAKE, [name.as_ptr() as u64, name.len() as u64, desc, out, 0, 0]))?;
    let _ = hostcall(number::SLOT_FREE, [view.address, 0, 0, 0, 0, 0]);
    Ok(taken)
}
