//! `monohull resume --count`: several runs that go on from one checkpoint.
//!
//! Each is a process of its own, which does what `monohull resume` does without `--count`, but for the file: that is read and checked
//! once, and they inherit [what was in it](super::given).

use super::exit::Exit;
use super::output;
use serde_json::{Value, json};
use std::num::NonZero;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fmt, io, thread};

/// The most copies that are made at once.
pub(super) const COUNT_MAX: i64 = 1000;

/// Which copy a run is, of how many: `2/3`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Copy {
    pub(super) index: u32,
    pub(super) count: u32,
}

impl std::str::FromStr for Copy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Copy, Self::Err> {
        let numbers = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        let is_one = |(index, count): &(u32, u32)| (1..=*count).contains(index);
        let (index, count) =
            numbers.filter(is_one).ok_or("a copy has a number, from 1, and how many there are: `2/3`")?;
        Ok(Copy { index, count })
    }
}

impl fmt::Display for Copy {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}", self.index, self.count)
    }
}

/// Starts `count` processes with these arguments and a copy's number each, at most as many at a time as there are cores. What they
/// print comes copy by copy, in order. The exit code is that of the worst.
pub(super) fn run(arguments: &[std::ffi::OsString], count: u32, json: bool) -> Exit {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return super::fail(Exit::Host, &error),
    };
    let copy = |index| {
        let copy = Copy { index, count };
        let mut command = Command::new(&program);
        command.arg("resume").arg(format!("--copy={copy}")).args(arguments).stdin(Stdio::null());
        command.output()
    };
    let printer =
        Mutex::new(Printer { json, next: 1, waiting: Vec::new(), copies: Vec::new(), worst: Exit::Done, count });
    let next = AtomicU32::new(1);
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(count as usize);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index > count {
                        return;
                    }
                    let ended = copy(index);
                    printer.lock().expect("no thread panics").add(index, ended);
                }
            });
        }
    });
    let printer = printer.into_inner().expect("no thread panics");
    if json {
        output::json(&json!({ "copies": printer.copies }));
    }
    printer.worst
}

/// What copies have printed, put into their order.
struct Printer {
    json: bool,
    count: u32,
    next: u32,
    waiting: Vec<(u32, io::Result<Output>)>,
    copies: Vec<Value>,
    worst: Exit,
}

impl Printer {
    fn add(&mut self, index: u32, ended: io::Result<Output>) {
        self.waiting.push((index, ended));
        while let Some(at) = self.waiting.iter().position(|(index, _)| *index == self.next) {
            let (index, ended) = self.waiting.swap_remove(at);
            self.print(index, ended);
            self.next += 1;
        }
    }

    fn print(&mut self, index: u32, ended: io::Result<Output>) {
        let exit = match &ended {
            Ok(output) => output.status.code().and_then(exit_of).unwrap_or(Exit::Host),
            Err(_) => Exit::Host,
        };
        if severity(exit) > severity(self.worst) {
            self.worst = exit;
        }
        let (printed, notes) = match ended {
            Ok(output) => (output.stdout, output.stderr),
            Err(error) => {
                super::fail(Exit::Host, &format_args!("the process of a copy cannot be started: {error}"));
                (Vec::new(), Vec::new())
            }
        };
        // The copy's process has escaped what is to be escaped.
        if self.json {
            let result: Value = serde_json::from_slice(&printed).unwrap_or(Value::Null);
            self.copies.push(json!({ "copy": index, "exit": exit as u8, "result": result }));
        } else {
            output::text(format_args!("copy        {index} of {}\n", self.count));
            let _ = output::bytes(&printed);
        }
        output::note_bytes(&notes);
    }
}

fn exit_of(code: i32) -> Option<Exit> {
    [Exit::Done, Exit::WorkflowFailed, Exit::Usage, Exit::Host, Exit::Suspended]
        .into_iter()
        .find(|exit| *exit as i32 == code)
}

/// The order of exit codes, the better first.
fn severity(exit: Exit) -> u8 {
    match exit {
        Exit::Done => 0,
        Exit::Suspended => 1,
        Exit::WorkflowFailed => 2,
        Exit::Usage => 3,
        Exit::Host => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_one_of_those_there_are() {
        assert_eq!("2/3".parse(), Ok(Copy { index: 2, count: 3 }));
        for bad in ["", "2", "0/3", "4/3", "-1/3", "1/2/3", "a/b"] {
            assert!(bad.parse::<Copy>().is_err(), "{bad:?}");
        }
    }
}
