//! Names, by the configured resolvers. Both kinds of addresses are asked for at once.

use super::stack::Stack;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use monohull_abi::Errno;
use monohull_abi::network::{SocketAddress, TapConfig};
use smoltcp::iface::{SocketHandle as Inner, SocketSet};
use smoltcp::socket::dns::{GetQueryResultError, QueryHandle, Socket as Dns, StartQueryError};
use smoltcp::wire::{DnsQueryType, IpAddress};

/// The most names that are asked for at once, and the most answers that are kept.
const NAMES_MAX: usize = 256;

/// The names that have been asked for.
pub(super) struct Names {
    /// `None` without resolvers.
    inner: Option<Inner>,
    by_name: BTreeMap<String, Name>,
}

/// A name that has been asked for.
#[derive(Default)]
struct Name {
    open: Vec<QueryHandle>,
    found: Vec<IpAddress>,
}

impl Names {
    pub(super) fn new(sockets: &mut SocketSet<'static>, config: &TapConfig) -> Names {
        let resolvers: Vec<IpAddress> = config.resolvers
            [..(config.resolver_count as usize).min(config.resolvers.len())]
            .iter()
            .filter_map(|resolver| Some(resolver.decode()?.ip().into()))
            .collect();
        let inner = (!resolvers.is_empty()).then(|| sockets.add(Dns::new(&resolvers, Vec::new())));
        Names { inner, by_name: BTreeMap::new() }
    }

    /// Takes answers that have come; whether there was one.
    pub(super) fn resolve(&mut self, sockets: &mut SocketSet<'static>) -> bool {
        let Some(inner) = self.inner else { return false };
        let dns = sockets.get_mut::<Dns<'_>>(inner);
        let mut news = false;
        for name in self.by_name.values_mut() {
            let Name { open, found } = name;
            open.retain(|query| match dns.get_query_result(*query) {
                Err(GetQueryResultError::Pending) => true,
                answer => {
                    found.extend(answer.into_iter().flatten());
                    news = true;
                    false
                }
            });
        }
        news
    }
}

impl Stack {
    pub(super) fn lookup(&mut self, name: &str, room: &mut [SocketAddress]) -> Result<usize, Errno> {
        self.up()?;
        let Some(inner) = self.names.inner else { return Err(Errno::NotFound) };
        if let Some(known) = self.names.by_name.get(name) {
            if !known.open.is_empty() {
                return Err(Errno::Again);
            }
            // Answered once: who asks again asks anew.
            let found = self.names.by_name.remove(name).unwrap_or_default().found;
            for (slot, address) in room.iter_mut().zip(&found) {
                *slot = core::net::SocketAddr::new((*address).into(), 0).into();
            }
            return if found.is_empty() { Err(Errno::NotFound) } else { Ok(found.len().min(room.len())) };
        }
        if self.names.by_name.len() >= NAMES_MAX {
            // Answers that nobody has come for.
            self.names.by_name.retain(|_, name| !name.open.is_empty());
            if self.names.by_name.len() >= NAMES_MAX {
                return Err(Errno::TooMany);
            }
        }
        let mut asked = Name::default();
        for kind in [DnsQueryType::A, DnsQueryType::Aaaa] {
            let dns = self.sockets.get_mut::<Dns<'_>>(inner);
            match dns.start_query(self.iface.context(), name, kind) {
                Ok(query) => asked.open.push(query),
                Err(StartQueryError::InvalidName | StartQueryError::NameTooLong) => return Err(Errno::Invalid),
                Err(StartQueryError::NoFreeSlot) => return Err(Errno::TooMany),
            }
        }
        self.names.by_name.insert(name.to_owned(), asked);
        self.send_off();
        Err(Errno::Again)
    }

    /// Whether an answer has come that its asker does not know of.
    pub(super) fn names_are_ready(&self) -> bool {
        self.up().is_err() || self.names.by_name.values().any(|name| name.open.is_empty())
    }
}
