//! Takes events from outside and writes down which: for the tests of events.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::durable;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::sync::Arc;
use monohull_std::sync::atomic::{AtomicBool, Ordering};
use monohull_std::thread;
use monohull_std::time::Duration;

/// Waits for an event of each of these names, one after another, or with `together` each in a thread of its own; and fills the slot `fills`
/// with a line for each. With `poll` it does not wait. After each it naps. In its first attempt it fails after so many. While it waits for
/// those from `busy_from` on and before `busy_to` it does something else too, so that it is not suspended; and it prints what it takes.
/// After it has taken the event of a place it sends one of the name that `sends` has there, so often and so long; what goes wrong is in the log.
/// Before all that it waits `chooses` times for whichever of the first two comes first; with `keeps` it takes a step first, and keeps it.
#[allow(clippy::too_many_arguments, reason = "they are named in the workflow file, and most are left out there")]
#[monohull::main]
fn main(
    events: Vec<String>,
    fills: String,
    timeout_ms: Option<u64>,
    together: Option<bool>,
    poll: Option<bool>,
    nap_ms: Option<u64>,
    fails_after: Option<usize>,
    busy_from: Option<usize>,
    busy_to: Option<usize>,
    sends: Option<Vec<String>>,
    sends_to: Option<String>,
    sends_times: Option<usize>,
    sends_bytes: Option<usize>,
    chooses: Option<usize>,
    keeps: Option<bool>,
) {
    let take = move |name: &str| {
        let event = match timeout_ms {
            Some(time) => durable::event(name).timeout(Duration::from_millis(time)),
            None => durable::event(name),
        };
        let taken = if poll == Some(true) { event.try_recv() } else { event.wait() };
        match taken {
            Ok(Some(bytes)) => format!("{name}: {}\n", String::from_utf8_lossy(&bytes)),
            Ok(None) => format!("{name} is late\n"),
            Err(error) => format!("{error}\n"),
        }
    };
    let mut log = String::new();
    if keeps == Some(true) {
        let step = durable::step("noted").kept();
        let noted = step.run(|key| {
            println!("noted with {key}");
            Ok::<_, ()>("noted\n")
        });
        log.push_str(noted.unwrap_or_default());
    }
    for _ in 0..chooses.unwrap_or(0) {
        let limit = timeout_ms.map_or(Duration::MAX, Duration::from_millis);
        let chosen = durable::select! {
            first = durable::event(&events[0]) => format!("chosen {}: {}\n", events[0], String::from_utf8_lossy(&first)),
            second = durable::event(&events[1]) => format!("chosen {}: {}\n", events[1], String::from_utf8_lossy(&second)),
            () = durable::after(limit) => "none is chosen\n".to_string(),
        };
        log.push_str(&chosen.unwrap_or_else(|error| format!("{error}\n")));
    }
    if together == Some(true) {
        let mut threads = Vec::new();
        for name in events {
            threads.push(thread::spawn(move || take(&name)));
            // So that they begin to wait in this order.
            thread::yield_now();
        }
        for thread in threads {
            log.push_str(&thread.join().expect("no thread ends with a panic"));
        }
    } else {
        let is_busy = |done: usize| busy_from.is_some_and(|from| (from..busy_to.unwrap_or(0)).contains(&done));
        let mut other = None;
        for (done, name) in events.iter().enumerate() {
            if is_busy(done) && other.is_none() {
                other = Some(Busy::begin());
            } else if !is_busy(done)
                && let Some(other) = other.take()
            {
                other.end();
            }
            if fails_after == Some(done) && monohull::instance().attempt == 1 {
                panic!("as asked, after {done} events");
            }
            let taken = take(name);
            if busy_from.is_some() {
                print!("{taken}");
            }
            log.push_str(&taken);
            if let (Some(name), Some(to)) = (sends.as_ref().and_then(|names| names.get(done)), &sends_to) {
                let content = match sends_bytes {
                    Some(bytes) => "x".repeat(bytes),
                    None => format!("{} {done}", durable::invocation_id()),
                };
                for _ in 0..sends_times.unwrap_or(1) {
                    if let Err(error) = durable::send(to, name, content.as_bytes()) {
                        log.push_str(&format!("{error}\n"));
                        break;
                    }
                }
            }
            if fails_after == Some(done + 1) && monohull::instance().attempt == 1 && sends.is_some() {
                panic!("as asked, after {} events and what it sent", done + 1);
            }
            if let Some(nap) = nap_ms {
                durable::sleep(Duration::from_millis(nap));
            }
        }
        if let Some(other) = other {
            other.end();
        }
    }
    SlotString::with_slot(&fills).push_str(&log);
}

/// A thread that naps, and never for long.
struct Busy {
    ends: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Busy {
    fn begin() -> Busy {
        let ends = Arc::new(AtomicBool::new(false));
        let own = ends.clone();
        let naps = move || {
            while !own.load(Ordering::Relaxed) {
                durable::sleep(Duration::from_millis(20));
            }
        };
        Busy { ends, thread: thread::spawn(naps) }
    }

    fn end(self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().expect("it ends by itself");
    }
}
