//! Who switches forwarding on and off: a process beside the helper, so that flags are put back even if that is killed.
//!
//! ```text
//!   helper ── + DEVICE INDEX ──▶ keeper   forwards from DEVICE, and, for the first, from the outside (answers come in there)
//!          ── - DEVICE INDEX ──▶          no longer; after the last the outside is as it was
//!          ◀── a line ──                  empty, or what went wrong
//!          ── (end) ──▶                   all is put back; it ends
//! ```
//!
//! A device is meant by name and index: when one has gone, another may have its name.

use nix::net::if_::if_nametoindex;
use nix::sys::signal::{SigSet, Signal};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The option of `monohull network` that makes it the keeper.
pub const OPTION: &str = "--keep-forwarding";

/// The helper's side.
#[derive(Debug)]
pub(super) struct Keeper(Mutex<(ChildStdin, BufReader<ChildStdout>)>);

impl Keeper {
    pub(super) fn start(outside: &str) -> io::Result<Keeper> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("monohull").args(["network", OPTION, outside]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // What a terminal says to the helper is not for its keeper.
        let mut child = command.process_group(0).spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(to), Some(from)) => {
                let keeper = Keeper(Mutex::new((to, BufReader::new(from))));
                // It says so if there is no such device.
                keeper.ask("?")?;
                Ok(keeper)
            }
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    pub(super) fn forward(&self, device: &str, index: u32) -> io::Result<()> {
        self.ask(&format!("+ {device} {index}"))
    }

    pub(super) fn stop(&self, device: &str, index: u32) -> io::Result<()> {
        self.ask(&format!("- {device} {index}"))
    }

    fn ask(&self, what: &str) -> io::Result<()> {
        let mut pipes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answer = String::new();
        writeln!(pipes.0, "{what}")?;
        pipes.1.read_line(&mut answer)?;
        match answer.strip_suffix('\n') {
            Some("") => Ok(()),
            Some(why) => Err(io::Error::other(why)),
            None => Err(io::Error::other("the process that switches forwarding is gone")),
        }
    }
}

/// The keeper's side: until its input ends.
pub fn run(outside: &str) -> io::Result<()> {
    // It ends when the helper does, and not before: there would be nobody to put things back.
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGPIPE]).thread_block()?;
    let mut kept = Kept { outside, before: None, devices: BTreeSet::new() };
    for line in io::stdin().lines().map_while(Result::ok) {
        let answer = match *line.split(' ').collect::<Vec<_>>() {
            ["?"] => get(outside).map(drop),
            [what, device, index] => match (what, index.parse()) {
                ("+", Ok(index)) => kept.forward(device, index),
                ("-", Ok(index)) => kept.stop(device, index),
                _ => Err(io::ErrorKind::InvalidInput.into()),
            },
            _ => Err(io::ErrorKind::InvalidInput.into()),
        };
        // If nobody hears it, the input ends too.
        #[expect(clippy::disallowed_methods, reason = "a pipe to the helper")]
        let _ = writeln!(io::stdout(), "{}", answer.err().map_or_else(String::new, |error| error.to_string()));
    }
    for (device, index) in std::mem::take(&mut kept.devices) {
        let _ = switch_off(&device, index);
    }
    kept.put_back()
}

struct Kept<'o> {
    outside: &'o str,
    /// What the outside's flag was, while it is ours.
    before: Option<String>,
    devices: BTreeSet<(String, u32)>,
}

impl Kept<'_> {
    fn forward(&mut self, device: &str, index: u32) -> io::Result<()> {
        if self.before.is_none() {
            let before = get(self.outside)?;
            set(self.outside, "1")?;
            self.before = Some(before);
        }
        self.devices.insert((device.to_owned(), index));
        set(device, "1")
    }

    fn stop(&mut self, device: &str, index: u32) -> io::Result<()> {
        self.devices.remove(&(device.to_owned(), index));
        let off = switch_off(device, index);
        if self.devices.is_empty() { self.put_back().and(off) } else { off }
    }

    fn put_back(&mut self) -> io::Result<()> {
        self.before.take().map_or(Ok(()), |before| set(self.outside, &before))
    }
}

/// If the device is still there.
fn switch_off(device: &str, index: u32) -> io::Result<()> {
    match if_nametoindex(device) {
        Ok(now) if now == index => match set(device, "0") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        },
        _ => Ok(()),
    }
}

fn flag(device: &str) -> String {
    format!("/proc/sys/net/ipv4/conf/{device}/forwarding")
}

fn get(device: &str) -> io::Result<String> {
    let path = flag(device);
    let value = fs::read_to_string(&path).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
    Ok(value.trim().to_owned())
}

fn set(device: &str, value: &str) -> io::Result<()> {
    let path = flag(device);
    fs::write(&path, value).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}
