//! A Rust program for WASI with the crate `monohull`, for tests: what it does is its argument `act`. Nothing here is other than in a native function.

mod one_shot;

use monohull::continuation::{Captured, Checkpoint, capture, perform, rewind};
use monohull::durable::{self, Checkpointed, Forked};
use monohull::slot::{SlotBuffer, SlotString, SlotVec};
use monohull::{Errno, Permanent, effect};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Sleeps, and finds what it had.
fn month() -> Result<(), Box<dyn Error>> {
    let kept: BTreeMap<u32, String> = (0..10_000).map(|number| (number, number.to_string())).collect();
    let begun = SystemTime::now();
    durable::publish("where", "asleep")?;
    durable::sleep(15 * DAY);
    std::thread::sleep(15 * DAY);
    println!("kept: {}", kept.iter().all(|(number, text)| *text == number.to_string()));
    println!("a month later: {}", begun.elapsed()? >= 30 * DAY);
    println!("generation: {}", durable::generation() > 0);
    durable::step("pay").run(|key| {
        println!("{key}");
        Ok::<(), String>(())
    })?;
    match durable::checkpoint("here")? {
        Checkpointed::WentOn => println!("went on"),
        Checkpointed::CameBack => println!("came back"),
    }
    println!("{:?}", durable::event("paid").timeout(7 * DAY).wait()?);
    durable::event("go").wait()?;
    let callback = durable::callback();
    println!("{:?} {}", callback.event().try_recv()?, callback.token().len());
    let refused = durable::send("other", "paid", b"").expect_err("it sends to nobody");
    println!("{:?} {}", refused.errno() == Errno::NotPermitted, refused);
    Ok(())
}

fn copies() -> Result<(), Box<dyn Error>> {
    match durable::fork(2)? {
        Forked::Original(ids) => println!("{} copies: {}", ids.len(), ids.join(" ")),
        Forked::Copy(number) => println!("copy {number} of {}", monohull::fork().count),
    }
    Ok(())
}

/// One of 1 to 9, and after a failure the next one.
fn choose(choices: &mut Vec<(Checkpoint, u8)>) -> Result<u8, Box<dyn Error>> {
    let (checkpoint, digit) = match capture()? {
        Captured::Original(checkpoint) => (checkpoint, 1),
        Captured::Resumed { checkpoint, value, rewinds } => {
            assert_eq!(usize::from(value[0]), rewinds as usize + 1);
            (checkpoint, value[0])
        }
    };
    if digit < 9 {
        choices.push((checkpoint, digit + 1));
    }
    Ok(digit)
}

fn back() -> Result<(), Box<dyn Error>> {
    let mut choices = Vec::new();
    let (a, b) = (choose(&mut choices)?, choose(&mut choices)?);
    if u32::from(a) * u32::from(b) != 42
        && let Some((checkpoint, next)) = choices.pop()
    {
        rewind(&checkpoint, &[next]);
    }
    println!("{a} times {b} is 42");
    Ok(())
}

fn asks() -> Result<(), Box<dyn Error>> {
    println!("{}", String::from_utf8_lossy(&perform("blob", b"logo")?));
    println!("{}", perform("nobody", b"").expect_err("there is none"));
    println!("{}", perform("blob", b"").expect_err("there is no name").errno() == Errno::Io);
    Ok(())
}

fn handles() -> Result<(), Box<dyn Error>> {
    let request = effect::request()?;
    if request.is_empty() {
        return Err(Permanent::new("there is no name").into());
    }
    Ok(effect::reply(&[b"<", &*request].concat())?)
}

fn parent() -> Result<(), Box<dyn Error>> {
    let child = durable::start("child", "one", b"17")?;
    println!("{} {}", child.id(), !child.invocation_id().is_empty());
    let outcome = child.join()?;
    println!("{:?} {:?}", outcome.ending(), outcome.output("out"));
    Ok(())
}

/// Slots of bytes and of texts. Large ones are moved.
fn slots() -> Result<(), Box<dyn Error>> {
    let text = SlotString::from_slot("in")?;
    let wrong = SlotBuffer::<[u32]>::from_slot("binary").expect_err("there are no types");
    println!("{} {}", wrong.errno() == Errno::NotSupported, SlotString::from_slot("binary").is_err());
    let binary = SlotVec::<u8>::from_slot("binary")?;
    let mut out = SlotVec::<u8>::with_slot("out");
    write!(out, "{} {}", text.to_uppercase(), binary.len())?;
    out.extend_from_slice(&vec![b'.'; 200_000]);
    out.publish()?;
    println!("{:?}", SlotString::try_from_slot("in")?.is_none());
    let never = SlotString::from_slot("never").expect_err("nobody fills it");
    println!("{:?} {never}", never.errno() == Errno::NeverFilled);
    Ok(())
}

#[monohull::main]
fn main(
    act: String,
    how: Option<String>,
    value: Option<String>,
    milliseconds: Option<u64>,
) -> Result<(), Box<dyn Error>> {
    match &*act {
        "continue" => {
            one_shot::continues(&how.unwrap_or_default(), &value.unwrap_or_default(), milliseconds.unwrap_or_default())
        }
        "month" => month(),
        "copies" => copies(),
        "back" => back(),
        "ask" => asks(),
        "handle" => handles(),
        "parent" => parent(),
        "child" => {
            let number: u32 = SlotString::from_slot("in")?.parse()?;
            let mut out = SlotString::with_slot("out");
            out.push_str(&(number * 2).to_string());
            Ok(out.publish()?)
        }
        "slots" => slots(),
        _ => Err(format!("it cannot {act}").into()),
    }
}
