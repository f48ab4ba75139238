//! Continuations as values: what `examples/continuations` does, as a program for WASI.

use monohull::continuation::{Captured, Continuation, ContinuationError, call_cc, capture, rewind, try_rewind};
use monohull::slot::{SlotBuffer, SlotString};
use std::error::Error;
use std::time::Duration;

/// Does what `how` says. The slot `result` has what came to something that waits, the slot `said` what came of something else.
pub(crate) fn continues(how: &str, value: &str, milliseconds: u64) -> Result<(), Box<dyn Error>> {
    let (slot, said) = match how {
        "wait" => ("result", waited(call_cc(|continuation| continuation.publish("next")))),
        "own" => ("result", waited(call_cc(|continuation| continuation.resume(value.as_bytes())))),
        "keep" => ("result", waited(call_cc(|_| Ok::<(), ContinuationError>(())))),
        "rewind" => ("result", going_back()?),
        "leave" => return leave(),
        "resume" => {
            let continuation = Continuation::take("next")?;
            std::thread::sleep(Duration::from_millis(milliseconds));
            ("said", said(continuation.resume(value.as_bytes())))
        }
        "resume-large" => {
            let mut large = SlotBuffer::<[u8]>::with_slot_len("unused", 3 << 20);
            large[0] = b'L';
            ("said", said(Continuation::take("next")?.resume_with(large)))
        }
        "pass" => ("passed", said(Continuation::take("next")?.publish("further"))),
        "resume-further" => ("said", said(Continuation::take("further")?.resume(value.as_bytes()))),
        "try" => {
            let is_empty = Continuation::try_take("next")?.is_none();
            drop(SlotString::with_slot("other"));
            ("said", format!("{is_empty}, {}", said(Continuation::take("other").map(drop))))
        }
        "drop" => {
            drop(Continuation::take("next")?);
            return Ok(());
        }
        "discard" => {
            Continuation::take("next")?.discard();
            // It goes on only after what waited has an error.
            ("said", SlotString::from_slot("result")?.to_string())
        }
        other => return Err(format!("no test is called {other:?}").into()),
    };
    let mut result = SlotString::with_slot(slot);
    result.push_str(&said);
    Ok(result.publish()?)
}

fn waited(came: Result<SlotBuffer<[u8]>, ContinuationError>) -> String {
    match came {
        Ok(value) if value.len() > 100 => format!("{} bytes, the first is {}", value.len(), char::from(value[0])),
        Ok(value) => String::from_utf8_lossy(&value).into_owned(),
        Err(error) => format!("{:?}: {error}", error.errno()),
    }
}

fn said(done: Result<(), ContinuationError>) -> String {
    done.map_or_else(|error| format!("{:?}: {error}", error.errno()), |()| "done".to_owned())
}

/// Ends without waiting, when its continuation is another's.
fn leave() -> Result<(), Box<dyn Error>> {
    let left = call_cc(|continuation| {
        continuation.publish("next")?;
        Err::<(), Box<dyn Error>>("it does not wait".into())
    });
    if left.is_ok() {
        return Err("something has come".into());
    }
    Ok(())
}

/// Goes back to where it had a continuation that has been used since, and to where it had none.
fn going_back() -> Result<String, Box<dyn Error>> {
    let checkpoint = match capture()? {
        Captured::Original(checkpoint) => checkpoint,
        Captured::Resumed { value, .. } => {
            return Ok(format!("{}; then it went back", String::from_utf8_lossy(&value)));
        }
    };
    let mut refused = String::new();
    let came = call_cc(|continuation| {
        let here = match capture()? {
            Captured::Original(here) => here,
            Captured::Resumed { .. } => {
                return Err::<(), Box<dyn Error>>("memory has a continuation that was used".into());
            }
        };
        continuation.resume(b"used")?;
        // The next one may come to the same address, and has the same handle.
        let _came = call_cc(|other| {
            refused = try_rewind(&here, b"").to_string();
            other.resume(b"")
        });
        Ok(())
    })?;
    let value = format!("{}; {}", String::from_utf8_lossy(&came), refused.split(" at 0x").next().unwrap_or_default());
    rewind(&checkpoint, value.as_bytes());
}
