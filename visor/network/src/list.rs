//! What a workflow may reach and where it may listen, once its names have been resolved.
//!
//! A name is resolved when the run starts, by this program and not by the function, and the result stays the same until
//! the run ends: the owner of a name cannot redirect it to another address meanwhile. A name gives public
//! addresses only, for the same reason; what it has besides counts where another entry covers that address.

use super::https::Origin;
use super::rule::{Host, Rule, is_nowhere, special};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// The lists as a workflow file has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Where connections and datagrams may go.
    pub connect: Vec<Rule>,
    /// Where sockets may be bound.
    pub listen: Vec<Rule>,
    /// Hosts that are reached over HTTPS, by name.
    pub https: Vec<Origin>,
}

/// The lists, with names resolved.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    rules: Rules,
    /// Addresses that names had, by name.
    names: BTreeMap<String, Vec<IpAddr>>,
}

/// A name that cannot be resolved.
#[derive(Debug, thiserror::Error)]
#[error("the name {name} of the network's list cannot be resolved: {source}")]
pub struct ResolveError {
    name: String,
    source: std::io::Error,
}

impl Allowed {
    /// Resolves the names of the lists with the host's resolver. This takes as long as that does.
    pub fn resolve(rules: &Rules) -> Result<Allowed, ResolveError> {
        Allowed::resolve_with(rules, |name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }

    fn resolve_with(
        rules: &Rules,
        resolver: impl Fn(&str) -> std::io::Result<Vec<IpAddr>>,
    ) -> Result<Allowed, ResolveError> {
        let mut allowed = Allowed { rules: rules.clone(), names: BTreeMap::new() };
        for rule in &rules.connect {
            let Host::Name(name) = &rule.host else { continue };
            if allowed.names.contains_key(name) {
                continue;
            }
            let addresses = resolver(name).map_err(|source| ResolveError { name: name.clone(), source })?;
            let mut canonical: Vec<IpAddr> = Vec::new();
            for address in addresses {
                let address = address.to_canonical();
                let meant = || rules.connect.iter().any(|rule| rule.contains(address));
                if !canonical.contains(&address) && (special(address).is_none() || meant()) {
                    canonical.push(address);
                }
            }
            allowed.names.insert(name.clone(), canonical);
        }
        Ok(allowed)
    }

    /// Whether connections and datagrams may go to an address, which is in canonical form.
    pub fn may_connect(&self, to: SocketAddr) -> bool {
        let named = |rule: &Rule| match &rule.host {
            Host::Name(name) => {
                rule.ports.contains(&to.port())
                    && special(to.ip()).is_none()
                    && self.names.get(name).is_some_and(|addresses| addresses.contains(&to.ip()))
            }
            Host::Addresses(_) => false,
        };
        !is_nowhere(to) && self.rules.connect.iter().any(|rule| rule.covers(to) || named(rule))
    }

    /// Whether a socket may be bound to an address, which is in canonical form.
    pub fn may_listen(&self, at: SocketAddr) -> bool {
        self.rules.listen.iter().any(|rule| rule.covers(at))
    }

    /// Whether a socket that only talks to [`Allowed::may_connect`] may be bound here: to no address in particular.
    pub fn may_bind_anywhere(&self, at: SocketAddr) -> bool {
        at.ip().is_unspecified() && at.port() == 0 && !self.rules.connect.is_empty()
    }

    /// The addresses of a name: the ones it had at the start, never none. `None` if the list lacks the name, or the name leads
    /// only to addresses that the list does not cover.
    pub fn lookup(&self, name: &str) -> Option<Vec<IpAddr>> {
        match self.listed(name) {
            // Everywhere it is the loopback addresses. Whether they may be connected to is asked for each.
            None if name.strip_suffix('.').unwrap_or(name).eq_ignore_ascii_case("localhost") => {
                Some(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
            }
            found => found,
        }
    }

    /// The same without names that need not be on the list.
    pub fn listed(&self, name: &str) -> Option<Vec<IpAddr>> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let found = self.names.get(&name).or_else(|| self.names.get(&format!("{name}.")));
        found.filter(|addresses| !addresses.is_empty()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(connect: &[&str], listen: &[&str]) -> Rules {
        let parse = |texts: &[&str]| texts.iter().map(|text| Rule::parse(text).expect("a rule")).collect();
        Rules { connect: parse(connect), listen: parse(listen), https: Vec::new() }
    }

    fn allowed(connect: &[&str]) -> Allowed {
        let resolver = |name: &str| match name {
            "public.example" => Ok(vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()]),
            "rebound.example" => Ok(vec![
                "127.0.0.1".parse().unwrap(),
                "::ffff:169.254.169.254".parse().unwrap(),
                "10.1.2.3".parse().unwrap(),
                "192.0.2.9".parse().unwrap(),
            ]),
            "inside.example" => Ok(vec!["10.1.2.3".parse().unwrap()]),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        Allowed::resolve_with(&rules(connect, &[]), resolver).expect("it resolves")
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn nothing_is_allowed_by_default() {
        let nothing = Allowed::default();
        for address in ["127.0.0.1:80", "192.0.2.1:80", "[::1]:80", "0.0.0.0:0"] {
            assert!(!nothing.may_connect(at(address)));
            assert!(!nothing.may_listen(at(address)));
            assert!(!nothing.may_bind_anywhere(at(address)));
        }
    }

    #[test]
    fn a_name_is_what_it_was_at_the_start() {
        let allowed = allowed(&["Public.example:443"]);
        assert!(allowed.may_connect(at("192.0.2.1:443")));
        assert!(allowed.may_connect(at("[2001:db8::1]:443")));
        assert!(!allowed.may_connect(at("192.0.2.1:80")));
        assert_eq!(allowed.lookup("PUBLIC.example.").map(|found| found.len()), Some(2));
        assert_eq!(allowed.lookup("other.example"), None);
    }

    #[test]
    fn a_name_does_not_lead_inside() {
        let only = allowed(&["rebound.example:80"]);
        assert!(only.may_connect(at("192.0.2.9:80")));
        for inside in ["127.0.0.1:80", "169.254.169.254:80", "10.1.2.3:80"] {
            assert!(!only.may_connect(at(inside)), "{inside}");
        }
        assert_eq!(only.lookup("rebound.example"), Some(vec!["192.0.2.9".parse().unwrap()]));
        let meant = allowed(&["rebound.example:80", "10.0.0.0/8:80"]);
        assert!(meant.may_connect(at("10.1.2.3:80")));
        assert!(!meant.may_connect(at("127.0.0.1:80")));
    }

    #[test]
    fn no_name_has_an_empty_list_of_addresses() {
        let loopback = Some(vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()]);
        for list in [&[][..], &["localhost:80"], &["localhost.:80"], &["localhost:80", "127.0.0.0/8:80", "[::1]:80"]] {
            let rules = rules(list, &[]);
            let resolve = |_: &str| Ok(vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()]);
            let allowed = Allowed::resolve_with(&rules, resolve).expect("it resolves");
            assert_eq!(allowed.lookup("localhost"), loopback, "{list:?}");
            assert_eq!(allowed.lookup("LOCALHOST."), loopback, "{list:?}");
            assert_eq!(allowed.may_connect(at("127.0.0.1:80")), list.len() == 3, "{list:?}: the name opens nothing");
        }
        assert_eq!(allowed(&["inside.example:80"]).lookup("inside.example"), None);
        assert!(allowed(&["inside.example:80", "10.0.0.0/8:80"]).lookup("inside.example").is_some());
    }

    #[test]
    fn a_name_that_cannot_be_resolved_is_named() {
        let error =
            Allowed::resolve_with(&rules(&["gone.example:1"], &[]), |_| Err(std::io::ErrorKind::NotFound.into()));
        assert!(error.expect_err("it fails").to_string().contains("gone.example"));
    }

    #[test]
    fn special_addresses_cannot_be_reached() {
        let all = allowed(&["0.0.0.0/8:*", "[::]:*", "127.0.0.1:*"]);
        for address in ["0.0.0.0:80", "[::]:80", "127.0.0.1:0"] {
            assert!(!all.may_connect(at(address)), "{address}");
        }
    }

    #[test]
    fn listening_needs_its_own_entry() {
        let allowed =
            Allowed::resolve_with(&rules(&["127.0.0.1:1"], &["127.0.0.1:0", "0.0.0.0:80-81"]), |_| Ok(vec![]));
        let allowed = allowed.expect("it resolves");
        assert!(allowed.may_listen(at("127.0.0.1:0")));
        assert!(allowed.may_listen(at("0.0.0.0:81")));
        assert!(!allowed.may_listen(at("127.0.0.1:1")));
        assert!(!allowed.may_listen(at("127.0.0.1:81")));
        assert!(!allowed.may_connect(at("127.0.0.1:81")));
        assert!(allowed.may_bind_anywhere(at("[::]:0")));
        assert!(!allowed.may_bind_anywhere(at("0.0.0.0:5")));
    }
}
