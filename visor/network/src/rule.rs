//! One line of a workflow's list of addresses: a host or a range of addresses, and ports.
//!
//! ```text
//!   192.0.2.7:443      10.0.0.0/8:5432      [fd00::/8]:8000-8100      example.com:443      127.0.0.1:*
//! ```
//!
//! Ranges that are not the public network's (loopback, private, link-local, multicast, …) must be meant: an entry reaches
//! into such a range only if it lies within it. `0.0.0.0/0` is the public network; cloud metadata at 169.254.169.254, the
//! host's own 127.0.0.1, and its neighbours need an entry of their own.

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

/// An entry of a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rule {
    /// Where.
    pub host: Host,
    /// Which ports.
    pub ports: RangeInclusive<u16>,
}

/// Where a rule leads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Host {
    /// All addresses of a range, which may be one address long.
    Addresses(IpNet),
    /// Those that a name has when the workflow starts.
    Name(String),
}

/// Why a text is no rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum RuleError {
    #[error("it names no port")]
    NoPort,
    #[error("its port is no number from 0 to 65535, range of those, or `*`")]
    Port,
    #[error("its host is no address, range of addresses, or name")]
    Host,
    #[error("an IPv6 address stands in brackets")]
    Brackets,
    #[error("bits beyond its prefix are set")]
    BeyondPrefix,
}

/// Address ranges that are not the public network's, from the registries of special addresses. Ranges that embed IPv4
/// addresses (NAT64, 6to4, Teredo) belong here too: what they lead to depends on a gateway.
const SPECIAL: &[&str] = &[
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/96",
    "::ffff:0:0/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/32",
    "2002::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
];

/// Those of IPv4.
pub(super) fn special_ranges4() -> Vec<Ipv4Net> {
    SPECIAL.iter().filter_map(|range| range.parse().ok()).collect()
}

/// The special range an address lies in.
pub(super) fn special(address: IpAddr) -> Option<IpNet> {
    SPECIAL.iter().filter_map(|range| range.parse().ok()).find(|range: &IpNet| range.contains(&address))
}

impl Rule {
    /// Reads an entry of a list.
    pub fn parse(text: &str) -> Result<Rule, RuleError> {
        let (host, ports) = text.rsplit_once(':').ok_or(RuleError::NoPort)?;
        if host.ends_with(':') || text.ends_with(']') {
            return Err(if host.contains(':') { RuleError::Brackets } else { RuleError::NoPort });
        }
        let ports = match ports.split_once('-') {
            _ if ports == "*" => 0..=u16::MAX,
            Some((first, last)) => port(first)?..=port(last)?,
            None => port(ports)?..=port(ports)?,
        };
        if ports.is_empty() {
            return Err(RuleError::Port);
        }
        Ok(Rule { host: Host::parse(host)?, ports })
    }

    /// Whether an address and port are this rule's; never by name. The address is in canonical form.
    pub fn covers(&self, address: SocketAddr) -> bool {
        self.ports.contains(&address.port()) && self.contains(address.ip())
    }

    /// The same, whatever the port.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let Host::Addresses(range) = &self.host else { return false };
        range.contains(&address) && special(address).is_none_or(|special| special.contains(range))
    }
}

impl Host {
    fn parse(text: &str) -> Result<Host, RuleError> {
        let bare = match text.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or(RuleError::Brackets)?,
            None if text.contains(':') => return Err(RuleError::Brackets),
            None => text,
        };
        let range = bare.parse::<IpNet>().ok().or_else(|| bare.parse::<IpAddr>().ok().map(IpNet::from));
        if let Some(range) = range {
            if range != range.trunc() {
                return Err(RuleError::BeyondPrefix);
            }
            return Ok(Host::Addresses(canonical(range)));
        }
        match is_name(bare) && bare == text {
            true => Ok(Host::Name(bare.to_ascii_lowercase())),
            false => Err(RuleError::Host),
        }
    }
}

/// An IPv6 range that stands for an IPv4 one, as that.
fn canonical(range: IpNet) -> IpNet {
    match (range.addr().to_canonical(), range.prefix_len().checked_sub(96)) {
        (IpAddr::V4(address), Some(prefix)) if range.addr().is_ipv6() => {
            IpNet::new(address.into(), prefix).expect("at most 32")
        }
        _ => range,
    }
}

/// Whether a text is a name of hosts: labels of letters, digits, `-` and `_`, and not something that resolvers may take
/// for an address, such as `127.1` or `0x7f000001`.
pub fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.len() <= 63 && label.bytes().all(inside)
    };
    let last = text.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    text.len() <= monohull_abi::network::HOST_NAME_MAX
        && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
        && last.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

fn port(text: &str) -> Result<u16, RuleError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or(RuleError::Port)
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => f.write_str(name)?,
            Host::Addresses(range) => {
                let alone = range.prefix_len() == range.max_prefix_len();
                match (range, alone) {
                    (IpNet::V4(range), true) => write!(f, "{}", range.addr())?,
                    (IpNet::V4(range), false) => write!(f, "{range}")?,
                    (IpNet::V6(range), true) => write!(f, "[{}]", range.addr())?,
                    (IpNet::V6(range), false) => write!(f, "[{range}]")?,
                }
            }
        }
        match (*self.ports.start(), *self.ports.end()) {
            (0, u16::MAX) => f.write_str(":*"),
            (first, last) if first == last => write!(f, ":{first}"),
            (first, last) => write!(f, ":{first}-{last}"),
        }
    }
}

/// Whether nothing can be sent to an address although a list may have it: the kernel takes `0.0.0.0` for itself.
pub(super) fn is_nowhere(address: SocketAddr) -> bool {
    address.ip().is_unspecified() || address.port() == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        Rule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn rules_are_read_and_shown() {
        for text in
            ["192.0.2.7:443", "10.0.0.0/8:5432", "[fd00::/8]:8000-8100", "example.com:443", "127.0.0.1:*", "[::1]:0"]
        {
            assert_eq!(rule(text).to_string(), text);
        }
        assert_eq!(rule("Example.COM:1").to_string(), "example.com:1");
        assert_eq!(rule("[::ffff:10.0.0.0/104]:1").to_string(), "10.0.0.0/8:1");
    }

    #[test]
    fn an_invalid_rule_is_explained() {
        for (text, why) in [
            ("example.com", RuleError::NoPort),
            ("", RuleError::NoPort),
            ("[::1]", RuleError::Brackets),
            ("::1:80", RuleError::Brackets),
            ("fd00::/8:80", RuleError::Brackets),
            ("[::1:80", RuleError::Brackets),
            ("a:b", RuleError::Port),
            ("a:", RuleError::Port),
            ("a:+1", RuleError::Port),
            ("a:65536", RuleError::Port),
            ("a:2-1", RuleError::Port),
            ("a:1-", RuleError::Port),
            (":80", RuleError::Host),
            ("a b:80", RuleError::Host),
            ("127.1:80", RuleError::Host),
            ("0x7f000001:80", RuleError::Host),
            ("2130706433:80", RuleError::Host),
            ("a..b:80", RuleError::Host),
            ("[example.com]:80", RuleError::Host),
            ("10.0.0.1/8:80", RuleError::BeyondPrefix),
            ("10.0.0.0/33:80", RuleError::Host),
        ] {
            assert_eq!(Rule::parse(text), Err(why), "{text:?}");
        }
    }

    #[test]
    fn a_rule_covers_its_range_and_ports() {
        let covers = |text: &str, address: &str| rule(text).covers(address.parse().expect("an address"));
        assert!(covers("192.0.2.7:443", "192.0.2.7:443"));
        assert!(!covers("192.0.2.7:443", "192.0.2.8:443"));
        assert!(!covers("192.0.2.7:443", "192.0.2.7:442"));
        assert!(covers("10.0.0.0/8:1-3", "10.255.0.1:3"));
        assert!(!covers("10.0.0.0/8:1-3", "11.0.0.0:3"));
        assert!(covers("[fd00::/8]:*", "[fd12::1]:9"));
        assert!(!covers("example.com:80", "192.0.2.7:80"));
    }

    #[test]
    fn special_ranges_must_be_meant() {
        let covers = |text: &str, address: &str| rule(text).covers(address.parse().expect("an address"));
        for address in [
            "127.0.0.1:80",
            "10.0.0.1:80",
            "169.254.169.254:80",
            "192.168.1.1:80",
            "224.0.0.1:80",
            "255.255.255.255:80",
        ] {
            assert!(!covers("0.0.0.0/0:80", address), "{address}");
        }
        for address in ["[::1]:80", "[fe80::1]:80", "[fd00::1]:80", "[ff02::1]:80", "[64:ff9b::7f00:1]:80"] {
            assert!(!covers("[::/0]:80", address), "{address}");
        }
        assert!(covers("0.0.0.0/0:80", "192.0.2.1:80"));
        assert!(covers("[::/0]:80", "[2001:db8::1]:80"));
        assert!(covers("127.0.0.0/8:80", "127.0.0.1:80"));
        assert!(covers("169.254.169.254:80", "169.254.169.254:80"));
        // Half of it is not within it.
        assert!(!covers("168.0.0.0/5:80", "169.254.169.254:80"));
    }
}
