//! Starts, joins and cancels children as it is told: for the tests of children. It is parent and child.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::durable;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::sync::mpsc;
use monohull_std::thread;
use monohull_std::time::Duration;

/// Does what the lines of `does` say, one after another, and fills the slot `result` with a line for each that has one:
///
/// | line | |
/// | --- | --- |
/// | `start WORKFLOW ID INPUT`, `detach WORKFLOW ID INPUT` | starts a child |
/// | `again`, `cancel`, `whois`, as `start` | starts it and joins, cancels or names it |
/// | `join ID`, `look ID` | how it has ended; `look` does not wait |
/// | `wait EVENT`, `nap MILLISECONDS`, `send INVOCATION EVENT TEXT` | |
/// | `doze MILLISECONDS`, `recv MILLISECONDS` | waits as ordinary code does |
/// | `input`, `fail TEXT`, `fill BYTES` | the text of the slot `input`; fails; a line so long |
/// | `first EVENT ID` | the first of an event and the end of a child |
///
/// In its first attempt it fails before the line of the number `fails_at`.
#[monohull::main]
fn main(does: Vec<String>, fails_at: Option<usize>) {
    let mut log = String::new();
    for (number, line) in does.iter().enumerate() {
        if fails_at == Some(number) && monohull::instance().attempt == 1 {
            panic!("as asked, before line {number}");
        }
        if let Some(text) = step(line) {
            log.push_str(&text);
            log.push('\n');
        }
    }
    SlotString::with_slot("result").push_str(&log);
}

fn step(line: &str) -> Option<String> {
    let mut words = line.splitn(4, ' ');
    let verb = words.next().unwrap_or_default();
    let [one, two, three] = [(); 3].map(|()| words.next().unwrap_or_default());
    let said = |error: durable::EventError| Some(error.to_string());
    match verb {
        "start" => durable::start(one, two, three.as_bytes()).err().and_then(said),
        "detach" => match durable::start_detached(one, two, three.as_bytes()) {
            Ok(_) => None,
            Err(error) => said(error),
        },
        // A handle is made by starting: what is known of a child is its id alone.
        "join" => Some(ended(one, durable::event(&format!("child:{one}")).wait())),
        "look" => Some(ended(one, durable::event(&format!("child:{one}")).try_recv())),
        "first" => {
            let child = format!("child:{two}");
            match durable::first_of([one, &child]).wait() {
                Ok(Some((name, bytes))) if name == child => Some(ended(two, Ok(Some(bytes)))),
                Ok(Some((name, bytes))) => Some(format!("{name}: {}", String::from_utf8_lossy(&bytes))),
                Ok(None) => None,
                Err(error) => said(error),
            }
        }
        "again" => match durable::start(one, two, three.as_bytes()).and_then(|child| child.join()) {
            Ok(outcome) => Some(told(two, &outcome)),
            Err(error) => said(error),
        },
        "cancel" => match durable::start(one, two, three.as_bytes()).and_then(|child| child.cancel()) {
            Ok(()) => None,
            Err(error) => said(error),
        },
        "whois" => match durable::start(one, two, three.as_bytes()) {
            Ok(child) => Some(child.invocation_id()),
            Err(error) => said(error),
        },
        "wait" => match durable::event(one).wait() {
            Ok(bytes) => bytes.map(|bytes| format!("{one}: {}", String::from_utf8_lossy(&bytes))),
            Err(error) => said(error),
        },
        "send" => durable::send(one, two, three.as_bytes()).err().and_then(said),
        "nap" => {
            durable::sleep(Duration::from_millis(one.parse().unwrap_or(0)));
            None
        }
        "doze" => {
            thread::sleep(Duration::from_millis(one.parse().unwrap_or(0)));
            None
        }
        "recv" => {
            let (_sender, receiver) = mpsc::channel::<()>();
            let late = receiver.recv_timeout(Duration::from_millis(one.parse().unwrap_or(0))).is_err();
            Some(format!("nothing was received: {late}"))
        }
        "input" => match SlotString::from_slot("input") {
            Ok(text) => Some(text.to_string()),
            Err(error) => Some(error.to_string()),
        },
        "fill" => Some("x".repeat(one.parse().unwrap_or(0))),
        "fail" => panic!("{one}"),
        other => panic!("`{other}` is not known"),
    }
}

fn ended(child: &str, taken: Result<Option<Vec<u8>>, durable::EventError>) -> String {
    match taken {
        Ok(Some(bytes)) => match durable::Outcome::read(&bytes) {
            Some(outcome) => told(child, &outcome),
            None => format!("{child}: it cannot be read"),
        },
        Ok(None) => format!("{child}: has not ended"),
        Err(error) => error.to_string(),
    }
}

fn told(child: &str, outcome: &durable::Outcome) -> String {
    let result = outcome.output("result").map(|result| String::from_utf8_lossy(result).trim_end().to_string());
    let text = result.unwrap_or_else(|| outcome.message().to_string());
    format!("{child}: {:?}: {}", outcome.ending(), text.replace('\n', " | "))
}
