//! A process beside the helper that switches forwarding on and off, so that flags are restored even if the helper is killed.
//!
//! ```text
//!   helper ── Check ──▶ keeper                   whether there is such a device
//!          ── Forward(device, index) ──▶         forwards from it, and, for the first, from the outside (answers come in there)
//!          ── Stop(device, index) ──▶            no longer; after the last the outside is as it was
//!          ◀── nothing, or what went wrong ──
//!          ── (end) ──▶                          all is restored; it ends
//! ```
//!
//! A device is meant by name and index: when one has been removed, another may have its name. The keeper's standard input is the
//! socket.

use monohull_ipc::request::pair;
use monohull_ipc::{Protocol, Requester, Responder};
use nix::net::if_::if_nametoindex;
use nix::sys::signal::{SigSet, Signal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The option of `monohull network` that makes it the keeper.
pub const OPTION: &str = "--keep-forwarding";

/// Flags of devices.
#[derive(Debug)]
enum Forwarding {}

impl Protocol for Forwarding {
    type Request<'m> = Request<'m>;
    /// What went wrong, if anything did.
    type Reply = Result<(), String>;
    const MESSAGE_MAX: usize = 4096;
}

/// To the keeper. Devices are meant by name and index.
#[derive(Debug, Serialize, Deserialize)]
enum Request<'d> {
    /// Can the outside's flag be read?
    Check,
    /// This device forwards from now on.
    Forward(&'d str, u32),
    /// It does no longer.
    Stop(&'d str, u32),
}

/// The helper's side.
#[derive(Debug)]
pub(super) struct Keeper(Requester<Forwarding>);

impl Keeper {
    pub(super) fn start(outside: &str) -> io::Result<Keeper> {
        let (ours, theirs) = pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("monohull").args(["network", OPTION, outside]).stdin(Stdio::from(theirs)).stdout(Stdio::null());
        // A signal that a terminal sends to the helper is not for its keeper.
        command.process_group(0).spawn()?;
        // The parent's copy of the other end.
        drop(command);
        let keeper = Keeper(Requester::new(ours));
        keeper.ask(&Request::Check)?;
        Ok(keeper)
    }

    pub(super) fn forward(&self, device: &str, index: u32) -> io::Result<()> {
        self.ask(&Request::Forward(device, index))
    }

    pub(super) fn stop(&self, device: &str, index: u32) -> io::Result<()> {
        self.ask(&Request::Stop(device, index))
    }

    fn ask(&self, request: &Request<'_>) -> io::Result<()> {
        let ended = |error: io::Error| {
            let text = format!("the process that switches forwarding does not answer: {error}");
            io::Error::new(error.kind(), text)
        };
        self.0.ask(request).map_err(ended)?.0.map_err(io::Error::other)
    }
}

/// The keeper's side: until its input ends.
pub fn run(outside: &str) -> io::Result<()> {
    // It ends when the helper does, and not before: nothing else restores the flags.
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGPIPE]).thread_block()?;
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let mut kept = Kept { outside, before: None, devices: BTreeSet::new() };
    Responder::<Forwarding>::new(socket).serve(|request| {
        let done = match request {
            Request::Check => get(outside).map(drop),
            Request::Forward(device, index) => kept.forward(device, index),
            Request::Stop(device, index) => kept.stop(device, index),
        };
        Some((done.map_err(|error| error.to_string()), None))
    });
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
