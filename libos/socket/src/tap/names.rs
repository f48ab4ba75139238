//! Names, by the configured resolvers. Both kinds of addresses are asked for at once.
//!
//! A name is kept while threads wait for it: it is dropped when the last of them has its answer, or has ended.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use monohull_abi::network::TapConfig;
use smoltcp::iface::{SocketHandle as Inner, SocketSet};
use smoltcp::socket::dns::{GetQueryResultError, QueryHandle, Socket as Dns};
use smoltcp::wire::IpAddress;

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
    pub(super) inner: Option<Inner>,
    pub(super) by_name: BTreeMap<String, Name>,
}

/// A name that has been asked for.
#[derive(Default)]
pub(super) struct Name {
    /// Never none.
    pub(super) askers: Vec<Asker>,
    pub(super) open: Vec<QueryHandle>,
    pub(super) found: Vec<IpAddress>,
    /// To one of the questions there was no answer.
    pub(super) unanswered: bool,
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
    pub(super) fn forget(&mut self, sockets: &mut SocketSet<'static>, gone: impl Fn(&str, Asker) -> bool) {
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
