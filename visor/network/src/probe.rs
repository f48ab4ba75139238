//! What this host has for networks of workflows' own, found out by trying.
//!
//! It is tried in a network namespace that one thread makes for itself and takes along when it ends, so nothing of the host's own
//! network changes, whatever becomes of the trial.

use super::{device, lease, way_out};
use nix::sched::{CloneFlags, unshare};
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::thread;

/// The device that is tried, and an address it could have.
const PLACE: u32 = 0;
const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// Every network namespace has this device.
const OUTSIDE: &str = "lo";

/// The path of the socket at which a helper listens.
pub fn helper() -> io::Result<PathBuf> {
    let path = lease::path();
    lease::join(&path)?;
    Ok(path)
}

/// Whether this process could make devices here.
pub fn devices() -> io::Result<()> {
    elsewhere(|| device::make(PLACE).map(drop))
}

/// Whether such a device could be given a way out.
pub fn way_out() -> io::Result<()> {
    elsewhere(|| {
        let _device = device::make(PLACE)?;
        way_out::try_rules(&device::name_of(PLACE), OWN, OUTSIDE)
    })
}

/// In a network of its own.
fn elsewhere(trial: impl FnOnce() -> io::Result<()> + Send) -> io::Result<()> {
    let trial = || {
        unshare(CloneFlags::CLONE_NEWNET)?;
        trial()
    };
    thread::scope(|scope| scope.spawn(trial).join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
}
