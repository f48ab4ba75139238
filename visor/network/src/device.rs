//! A TAP device and its addresses on the host. Making one needs `CAP_NET_ADMIN`.
//!
//! A device's name is its place in the pool, so the kernel itself sees to it that no two devices have the same place. The
//! device is not persistent: it goes with its last descriptor, however its holder ends, and its addresses and routes go
//! with it.

use super::lease::Addresses;
use monohull_sys::interface::{self, Interface};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

/// The names of all our devices begin so.
const PREFIX: &str = "mhull";
/// Packets that wait for the workflow.
const QUEUE: i32 = 1000;

/// The name of the device at a place in the pool.
pub(super) fn name_of(place: u32) -> String {
    format!("{PREFIX}{place}")
}

/// Makes the device at a place in the pool; `None` if the place is taken.
pub(super) fn make(place: u32) -> io::Result<Option<OwnedFd>> {
    interface::make_tap(&name_of(place))
}

/// Gives the device its addresses on the host's side and switches it on.
pub(super) fn configure(place: u32, addresses: &Addresses) -> io::Result<()> {
    let name = name_of(place);
    let interface = Interface::named(&name)?;
    interface.set_mtu(addresses.mtu)?;
    interface.set_queue(QUEUE)?;
    let setting = format!("/proc/sys/net/ipv6/conf/{name}");
    if fs::exists(&setting)? {
        // Nothing else is on this link, so the address cannot be taken already, and no one else announces any.
        fs::write(format!("{setting}/accept_dad"), "0")?;
        fs::write(format!("{setting}/accept_ra"), "0")?;
    }
    if let Some(v4) = &addresses.v4 {
        interface.set_address4(v4.gateway, v4.prefix)?;
    }
    interface.switch_on()?;
    if let Some(v6) = &addresses.v6 {
        interface.add_address6(v6.gateway, v6.prefix)?;
    }
    Ok(())
}
