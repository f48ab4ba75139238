//! Names, by the configured resolvers. Both kinds of addresses are asked for at once.
//!
//! A name is kept while threads wait for it: it is dropped when the last of them has its answer, or has ended.

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

/// The most names that are asked for at once.
const NAMES_MAX: usize = 256;

/// The threads that wait for names, each for one at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) instance: u32,
    pub(crate) thread: u32,
}

/// Why a question is over that no answer has been taken for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// An answer denies the name.
    Answered,
    /// All resolvers were asked, and none has answered.
    Unanswered,
}

/// The names that have been asked for.
pub(super) struct Names {
    /// `None` without resolvers.
    inner: Option<Inner>,
    by_name: BTreeMap<String, Name>,
}

/// A name that has been asked for.
#[derive(Default)]
struct Name {
    /// Never none.
    askers: Vec<Asker>,
    open: Vec<QueryHandle>,
    found: Vec<IpAddress>,
    /// To one of the questions there was no answer.
    unanswered: bool,
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

    /// Takes answers that have come; whether there was one. A question that is over without addresses is so for this reason:
    /// smoltcp ends a query when an answer denies the name, or when its time-out has passed.
    pub(super) fn resolve(&mut self, sockets: &mut SocketSet<'static>, why: Over) -> bool {
        let Some(inner) = self.inner else { return false };
        let dns = sockets.get_mut::<Dns<'_>>(inner);
        let mut news = false;
        for name in self.by_name.values_mut() {
            let Name { open, found, unanswered, .. } = name;
            open.retain(|query| {
                match dns.get_query_result(*query) {
                    Err(GetQueryResultError::Pending) => return true,
                    Err(GetQueryResultError::Failed) => *unanswered |= why == Over::Unanswered,
                    Ok(addresses) => found.extend(addresses),
                }
                news = true;
                false
            });
        }
        news
    }

    /// Some threads do not wait any more. A query without waiters is not repeated.
    fn forget(&mut self, sockets: &mut SocketSet<'static>, gone: impl Fn(&str, Asker) -> bool) {
        let Some(inner) = self.inner else { return };
        let dns = sockets.get_mut::<Dns<'_>>(inner);
        self.by_name.retain(|text, name| {
            name.askers.retain(|asker| !gone(text, *asker));
            if name.askers.is_empty() {
                name.open.drain(..).for_each(|query| dns.cancel_query(query));
            }
            !name.askers.is_empty()
        });
    }
}

impl Stack {
    pub(super) fn lookup(&mut self, asker: Asker, name: &str, room: &mut [SocketAddress]) -> Result<usize, Errno> {
        self.up()?;
        let Some(inner) = self.names.inner else { return Err(Errno::NotFound) };
        // Its memory may have another name in it by now than when it was asked for.
        self.names.forget(&mut self.sockets, |other, waiting| waiting == asker && other != name);
        if let Some(known) = self.names.by_name.get_mut(name) {
            if !known.open.is_empty() {
                if !known.askers.contains(&asker) {
                    known.askers.push(asker);
                }
                return Err(Errno::Again);
            }
            for (slot, address) in room.iter_mut().zip(&known.found) {
                *slot = core::net::SocketAddr::new((*address).into(), 0).into();
            }
            let answer = match known.found.len().min(room.len()) {
                _ if known.found.is_empty() && known.unanswered => Err(Errno::TimedOut),
                _ if known.found.is_empty() => Err(Errno::NotFound),
                count => Ok(count),
            };
            // An answer is given once: the next look-up asks again.
            self.names.forget(&mut self.sockets, |_, waiting| waiting == asker);
            return answer;
        }
        if self.names.by_name.len() >= NAMES_MAX {
            return Err(Errno::TooMany);
        }
        let mut asked = Name { askers: Vec::from([asker]), ..Name::default() };
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

    /// Whether the waiters for this name should run again.
    pub(super) fn is_answered(&self, name: &str) -> bool {
        self.up().is_err() || self.names.by_name.get(name).is_none_or(|name| name.open.is_empty())
    }

    /// An instance has ended.
    pub(super) fn forget_asker(&mut self, instance: u32) {
        self.names.forget(&mut self.sockets, |_, asker| asker.instance == instance);
    }
}
