//! A device's way out: the host forwards what the workflow sends, under an address of its own (masquerading). IPv4 only.
//!
//! ```text
//!   device ──▶ from its own address? to the outside? to what may be reached? ──▶ masquerade ──▶ outside
//!          ◀── an answer from there?  ◀────────────────────────────────────────────────────────
//! ```
//!
//! The operator says whether there is one, through which device of the host, and what may be reached; a workflow only says that it
//! wants it. Nothing outlives the lease, and nothing the helper, also when it is killed:
//!
//! - `rules` are a table of the netlink socket's own, one for each lease: the kernel removes it with the socket.
//! - `keeper` is a process that does nothing but switch forwarding on and off, and off for good when the helper is gone.

pub mod keeper;
mod rules;

use super::rule::special_ranges4;
use ipnet::Ipv4Net;
use keeper::Keeper;
use rules::Rules;
use std::io;
use std::net::Ipv4Addr;

/// What workflows may reach through a device of the host's.
#[derive(Debug)]
pub struct Outside {
    device: String,
    reach: Reach,
    keeper: Keeper,
}

/// Where to.
#[derive(Debug)]
enum Reach {
    /// These ranges.
    Only(Vec<Ipv4Net>),
    /// Everything but these.
    AllBut(Vec<Ipv4Net>),
}

/// One workflow's way out; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct WayOut<'o> {
    keeper: &'o Keeper,
    device: String,
    index: u32,
    /// They go after forwarding has been switched off, so that nothing is forwarded without them.
    _rules: Rules,
}

impl Outside {
    /// Through `device`, to these ranges; to the public network if there are none.
    pub fn new(device: &str, reach: &[Ipv4Net]) -> io::Result<Outside> {
        let reach = match reach {
            [] => Reach::AllBut(special_ranges4()),
            ranges => Reach::Only(ranges.to_vec()),
        };
        Ok(Outside { device: device.to_owned(), reach, keeper: Keeper::start(device)? })
    }

    /// Opens the way for a device of ours whose workflow has this address.
    pub(super) fn open(&self, device: &str, own: Ipv4Addr) -> io::Result<WayOut<'_>> {
        let index = nix::net::if_::if_nametoindex(device)?;
        let rules = rules(device, own, &self.device, &self.reach)?;
        let way = WayOut { keeper: &self.keeper, device: device.to_owned(), index, _rules: rules };
        self.keeper.forward(device, index)?;
        Ok(way)
    }
}

/// Has the kernel take such rules, and drops them again.
pub(super) fn try_rules(device: &str, own: Ipv4Addr, outside: &str) -> io::Result<()> {
    rules(device, own, outside, &Reach::AllBut(special_ranges4())).map(drop)
}

fn rules(device: &str, own: Ipv4Addr, outside: &str, reach: &Reach) -> io::Result<Rules> {
    Rules::new(device, own, outside, reach).map_err(|error| {
        io::Error::new(error.kind(), format!("rules for a way out (it takes nf_tables and nft_masq): {error}"))
    })
}

impl Drop for WayOut<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.keeper.stop(&self.device, self.index) {
            tracing::error!("forwarding for {} cannot be switched off: {error}", self.device);
        }
    }
}
