//! `monohull network`: the helper that leases devices to workflows with a network of their own.

use super::exit::Exit;
use clap::Args;
use ipnet::{IpNet, Ipv4Net};
use monohull_network::helper::Helper;
use monohull_network::lease;
use monohull_network::pool::Pool;
use monohull_network::way_out::{Outside, keeper};
use monohull_report::escape::shown;
use nix::unistd::Group;
use std::net::IpAddr;
use std::path::PathBuf;

/// Lease network devices to workflows; needs the capability CAP_NET_ADMIN
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!(
    "monohull network --pool 10.77.0.0/16 --pool fd6d:6875:6c6c::/48 --resolver 10.77.0.1 --group monohull"
))]
pub(super) struct Network {
    /// A network whose addresses devices get, of IPv4 or IPv6; may be given once for each
    #[arg(long = "pool", value_name = "NETWORK", default_values = ["10.77.0.0/16", "fd6d:6875:6c6c::/48"])]
    pools: Vec<IpNet>,
    /// DNS server of the workflows; may be given several times
    #[arg(long = "resolver", value_name = "ADDRESS")]
    resolvers: Vec<IpAddr>,
    /// Where to listen; workflows connect there, or to $MONOHULL_NETWORK
    #[arg(long, value_name = "PATH", default_value = lease::SOCKET)]
    socket: PathBuf,
    /// Members of this group may have devices too; by default only the user that starts this
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// The most devices at the same time
    #[arg(long, value_name = "N", default_value_t = 1000)]
    most: u32,
    /// A device of this host's through which workflows that ask for it get out, by the host's address (masquerading, IPv4)
    #[arg(long, value_name = "DEVICE")]
    outside: Option<String>,
    /// A network that they may reach through it, private ones too; may be given several times; by default the public network
    #[arg(long = "reach", value_name = "NETWORK", requires = "outside")]
    reach: Vec<Ipv4Net>,
    /// Be the process that switches forwarding for a device, as the helper says
    #[arg(long = "keep-forwarding", hide = true, value_name = "DEVICE")]
    keep_forwarding: Option<String>,
}

impl Network {
    pub(super) fn run(&self) -> Exit {
        if let Some(device) = &self.keep_forwarding {
            return match keeper::run(device) {
                Ok(()) => Exit::Done,
                Err(error) => super::fail(Exit::Host, &format!("forwarding for {device}: {error}")),
            };
        }
        let pool = match Pool::new(&self.pools, self.resolvers.clone()) {
            Ok(pool) => pool,
            Err(error) => return super::fail(Exit::Usage, &format!("the pool: {error}")),
        };
        let group = match &self.group {
            None => None,
            Some(name) => match Group::from_name(name) {
                Ok(Some(group)) => Some(group.gid),
                Ok(None) => return super::fail(Exit::Usage, &format!("--group: there is no group {name}")),
                Err(error) => return super::fail(Exit::Host, &format!("--group: {error}")),
            },
        };
        if let Some(folder) = self.socket.parent() {
            // If it cannot be made, the socket cannot either, and that error is reported.
            let _ = std::fs::create_dir_all(folder);
        }
        let outside = match &self.outside {
            None => None,
            Some(device) if !self.pools.iter().any(|pool| matches!(pool, IpNet::V4(_))) => {
                return super::fail(Exit::Usage, &format!("--outside {device}: no pool is of IPv4"));
            }
            Some(device) => match Outside::new(device, &self.reach) {
                Ok(outside) => Some(outside),
                Err(error) => return super::fail(Exit::Host, &format!("--outside {device}: {error}")),
            },
        };
        let helper = match Helper::new(&self.socket, group, pool, outside, self.most) {
            Ok(helper) => helper,
            Err(error) => {
                return super::fail(Exit::Host, &format!("cannot listen at {}: {error}", shown(&self.socket)));
            }
        };
        super::output::text(format_args!("leasing devices at {}\n", shown(&self.socket)));
        match helper.serve() {
            Ok(()) => Exit::Done,
            Err(error) => super::fail(Exit::Host, &format!("cannot go on: {error}")),
        }
    }
}
