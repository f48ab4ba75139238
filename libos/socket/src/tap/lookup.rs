//! Look-ups of names by functions.

use super::names::{Asker, Name};
use super::stack::Stack;
use alloc::borrow::ToOwned;
use alloc::vec::Vec;
use monohull_abi::Errno;
use monohull_abi::network::SocketAddress;
use smoltcp::socket::dns::{Socket as Dns, StartQueryError};
use smoltcp::wire::DnsQueryType;

/// The most names that are asked for at once.
const NAMES_MAX: usize = 256;

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
