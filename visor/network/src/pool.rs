//! The addresses that devices get: each place in the pool is a small network of its own.
//!
//! ```text
//!   10.77.0.0/16            place 0: 10.77.0.0/30   host .1, workflow .2       place 1: 10.77.0.4/30   …
//!   fd6d:6875:6c6c::/48     place 0: …:0::/64       host ::1, workflow ::2     place 1: …:1::/64       …
//! ```

use super::lease::{Addresses, Link};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use monohull_abi::network::RESOLVERS_MAX;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bits of a place's IPv4 network: two addresses and the two that every network loses.
const PREFIX4: u8 = 30;
/// Bits of a place's IPv6 network.
const PREFIX6: u8 = 64;
/// A device's name has room for so many digits.
const PLACES_MAX: u32 = 1_000_000;
/// What Ethernet carries.
const MTU: u32 = 1500;

/// Where addresses come from.
#[derive(Clone, Debug)]
pub struct Pool {
    v4: Option<Ipv4Net>,
    v6: Option<Ipv6Net>,
    /// The DNS servers.
    pub resolvers: Vec<IpAddr>,
}

/// Networks that are no pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum PoolError {
    #[error("{0} has no room for a single device: IPv4 needs a /30, IPv6 a /64")]
    TooSmall(IpNet),
    #[error("one network of each kind will do, {0} is the second")]
    Twice(IpNet),
    #[error("there are more than {0} resolvers")]
    Resolvers(usize),
    #[error("no device could ask the resolver {0}: the pool has no addresses of its kind")]
    Unreachable(IpAddr),
    #[error("there is no network")]
    Empty,
}

impl Pool {
    /// A pool of these networks, at most one of each kind.
    pub fn new(networks: &[IpNet], resolvers: Vec<IpAddr>) -> Result<Pool, PoolError> {
        if resolvers.len() > RESOLVERS_MAX {
            return Err(PoolError::Resolvers(RESOLVERS_MAX));
        }
        let mut pool = Pool { v4: None, v6: None, resolvers };
        for network in networks {
            let (fits, before) = match network.trunc() {
                IpNet::V4(v4) => (v4.prefix_len() <= PREFIX4, pool.v4.replace(v4).is_some()),
                IpNet::V6(v6) => (v6.prefix_len() <= PREFIX6, pool.v6.replace(v6).is_some()),
            };
            if !fits {
                return Err(PoolError::TooSmall(*network));
            }
            if before {
                return Err(PoolError::Twice(*network));
            }
        }
        if networks.is_empty() {
            return Err(PoolError::Empty);
        }
        let reached = |resolver: &&IpAddr| if resolver.is_ipv4() { pool.v4.is_some() } else { pool.v6.is_some() };
        match pool.resolvers.iter().find(|resolver| !reached(resolver)) {
            Some(resolver) => Err(PoolError::Unreachable(*resolver)),
            None => Ok(pool),
        }
    }

    /// How many devices it has addresses for.
    pub fn places(&self) -> u32 {
        let room = |free: u8| 1u32.checked_shl(free.into()).unwrap_or(PLACES_MAX).min(PLACES_MAX);
        let v4 = self.v4.map_or(PLACES_MAX, |net| room(PREFIX4 - net.prefix_len()));
        let v6 = self.v6.map_or(PLACES_MAX, |net| room(PREFIX6 - net.prefix_len()));
        v4.min(v6)
    }

    /// The addresses of a place.
    pub fn addresses(&self, place: u32) -> Addresses {
        let [_, a, b, c] = place.to_be_bytes();
        let v4 = self.v4.map(|net| {
            let base = net.network().to_bits() + (place << (32 - PREFIX4));
            Link { own: Ipv4Addr::from_bits(base + 2), gateway: Ipv4Addr::from_bits(base + 1), prefix: PREFIX4 }
        });
        let v6 = self.v6.map(|net| {
            let base = net.network().to_bits() + (u128::from(place) << (128 - PREFIX6));
            Link { own: Ipv6Addr::from_bits(base + 2), gateway: Ipv6Addr::from_bits(base + 1), prefix: PREFIX6 }
        });
        // An address of our own making: locally administered.
        Addresses { mtu: MTU, mac: [0x02, b'm', b'h', a, b, c], v4, v6, resolvers: self.resolvers.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn pool(networks: &[&str]) -> Result<Pool, PoolError> {
        let networks: Vec<IpNet> = networks.iter().map(|text| text.parse().expect("a network")).collect();
        Pool::new(&networks, Vec::new())
    }

    #[test]
    fn places_do_not_overlap() {
        let pool = pool(&["10.77.0.0/24", "fd00:1::/48"]).expect("a pool");
        assert_eq!(pool.places(), 64);
        let mut seen = HashSet::new();
        for place in 0..pool.places() {
            let addresses = pool.addresses(place);
            let (v4, v6) = (addresses.v4.expect("IPv4"), addresses.v6.expect("IPv6"));
            for address in [IpAddr::from(v4.own), v4.gateway.into(), v6.own.into(), v6.gateway.into()] {
                assert!(seen.insert(address), "{address}");
            }
            let net: Ipv4Net = "10.77.0.0/24".parse().expect("a network");
            assert!(net.contains(&v4.own) && net.contains(&v4.gateway));
        }
        assert_eq!(pool.addresses(1).v4.map(|link| link.own.to_string()).as_deref(), Some("10.77.0.6"));
        assert_eq!(pool.addresses(1).v6.map(|link| link.own.to_string()).as_deref(), Some("fd00:1:0:1::2"));
    }

    #[test]
    fn an_invalid_pool_is_explained() {
        assert_eq!(pool(&[]).err(), Some(PoolError::Empty));
        let resolvers = vec![IpAddr::from([10, 0, 0, 1]); RESOLVERS_MAX + 1];
        assert_eq!(Pool::new(&[], resolvers).err(), Some(PoolError::Resolvers(RESOLVERS_MAX)));
        let (four, six) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]));
        for (network, resolver) in [("10.0.0.0/8", six), ("fd00::/48", four)] {
            let networks: Vec<IpNet> = vec![network.parse().expect("a network")];
            assert_eq!(Pool::new(&networks, vec![four, six]).err(), Some(PoolError::Unreachable(resolver)));
        }
        assert!(matches!(pool(&["10.0.0.0/31"]), Err(PoolError::TooSmall(_))));
        assert!(matches!(pool(&["fd00::/65"]), Err(PoolError::TooSmall(_))));
        assert!(matches!(pool(&["10.0.0.0/8", "10.1.0.0/16"]), Err(PoolError::Twice(_))));
        assert_eq!(pool(&["10.0.0.0/30"]).map(|pool| pool.places()), Ok(1));
        assert_eq!(pool(&["0.0.0.0/0", "::/0"]).map(|pool| pool.places()), Ok(PLACES_MAX));
    }
}
