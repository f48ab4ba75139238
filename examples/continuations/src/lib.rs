//! Waits for others and lets others go on, in all the ways that the tests of continuations want.
#![no_std]
#![deny(unsafe_code)]

mod raw;

use monohull_std::continuation::{Captured, Continuation, ContinuationError, call_cc, capture, rewind};
use monohull_std::effect;
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotString};
use monohull_std::thread;
use monohull_std::time::Duration;

/// Does what `how` says. The slot `result` has what came to something that waits, the slot `said` what came of something else.
#[monohull::main]
fn main(how: String, value: Option<String>, milliseconds: Option<u64>) -> Result<(), Box<dyn Error>> {
    let value = value.unwrap_or_default();
    let pause = Duration::from_millis(milliseconds.unwrap_or(0));
    let (slot, said) = match &*how {
        "wait" => ("result", waited(call_cc(|continuation| continuation.publish("next")))),
        "many" => ("result", many()?),
        "storm" => ("result", raw::storm()),
        "own" => ("result", waited(call_cc(|continuation| continuation.resume(value.as_bytes())))),
        "keep" => ("result", waited(call_cc(|_| Ok::<(), ContinuationError>(())))),
        "rewind" => ("result", going_back()?),
        "leave" => return leave(),
        "resume" => {
            let continuation = Continuation::take("next")?;
            thread::sleep(pause);
            ("said", said(continuation.resume(value.as_bytes())))
        }
        "resume-large" => {
            let mut large = SlotBuffer::<[u8]>::with_slot_len("unused", 3 << 20);
            large[0] = b'L';
            ("said", said(Continuation::take("next")?.resume_with(large)))
        }
        "resume-all" => ("said", resume_all()?),
        "pass" => ("passed", said(Continuation::take("next")?.publish("further"))),
        "resume-further" => ("said", said(Continuation::take("further")?.resume(value.as_bytes()))),
        "drop" => {
            drop(Continuation::take("next")?);
            return Ok(());
        }
        "discard" => {
            Continuation::take("next")?.discard();
            // It goes on only after what waited has an error.
            ("said", SlotString::from_slot("result")?.to_owned())
        }
        "fail-first" => fail_first(&value)?,
        "fail" => {
            Continuation::take("next")?.resume(value.as_bytes())?;
            return Err("it fails after that".into());
        }
        "request" => ("said", raw::as_request()),
        "abuse" => ("said", raw::abuse()),
        "forge" => ("forged", raw::forge()),
        "serve" => {
            effect::reply(&effect::request()?)?;
            return Ok(());
        }
        other => return Err(format!("no test is called {other:?}").into()),
    };
    let mut result = SlotString::with_slot(slot);
    result.push_str(&said);
    result.publish()?;
    Ok(())
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

/// Twenty threads wait, each with a slot of its own.
fn many() -> Result<String, Box<dyn Error>> {
    let waits = |number: usize| {
        thread::spawn(move || {
            let came = call_cc(|continuation| continuation.publish(&format!("next.{number}")));
            came.is_ok_and(|value| value[..] == [number as u8; 3])
        })
    };
    let threads: Vec<_> = (0..20).map(waits).collect();
    let mut right = 0;
    for thread in threads {
        right += u32::from(thread.join().map_err(|_| "a thread has panicked")?);
    }
    Ok(format!("{right} are right"))
}

/// Lets them go on, the last one first.
fn resume_all() -> Result<String, Box<dyn Error>> {
    for number in (0..20).rev() {
        Continuation::take(&format!("next.{number}"))?.resume(&[number as u8; 3])?;
    }
    Ok("done".to_owned())
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

/// Fails in the first attempt, when the continuation has been dropped.
fn fail_first(value: &str) -> Result<(&'static str, String), Box<dyn Error>> {
    let continuation = Continuation::take("next")?;
    let attempt = monohull_std::instance().attempt;
    if attempt == 1 {
        return Err("not at the first attempt".into());
    }
    continuation.resume(format!("{value} at attempt {attempt}").as_bytes())?;
    Ok(("said", "done".to_owned()))
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
        // The next one may come to the same address.
        let _came = call_cc(|other| {
            refused = monohull_std::continuation::try_rewind(&here, b"").to_string();
            other.resume(b"")
        });
        Ok(())
    })?;
    let value = format!("{}; {}", String::from_utf8_lossy(&came), refused.split(" at 0x").next().unwrap_or_default());
    rewind(&checkpoint, value.as_bytes());
}
