//! Libos module: sockets. TCP, UDP and names, as POSIX has them.
//!
//! ```text
//!   calls        hostcalls: arguments in, answers and explanations out; what must wait parks
//!   queue        one thread waits for many sockets
//!   table        which number of which instance is which socket
//!   network      what a network can do            host   kernel sockets, through the visor
//!                                                 tap    smoltcp over frames of a device
//! ```
//!
//! A function names its sockets by small numbers that mean nothing to another instance. Every socket answers at once;
//! a handler that gets `Again` waits for the socket and runs again.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod calls;
mod host;
mod network;
mod queue;
mod record;
mod table;
mod tap;

use alloc::sync::Arc;
use monohull_abi::module::{Ending, Released};
use monohull_abi::network::NetworkKind;
use monohull_abi::number;
use monohull_module::record::{RecordsRef, Refused};
use monohull_module::{FutexMutex, HostRef, Module, module};
use network::Network;
use queue::Queues;
use table::Tables;

/// So many sockets of an instance that has ended are closed at a time.
const SOCKETS_AT_ONCE: usize = 64;

/// The sockets of one domain.
pub struct Sockets {
    host: HostRef,
    /// `None` if the workflow has no network.
    network: Option<Arc<dyn Network>>,
    tables: FutexMutex<Tables>,
    queues: FutexMutex<Queues>,
}

module! {
    Sockets {
        number::TCP_LISTEN => Sockets::listen,
        number::TCP_CONNECT => Sockets::connect,
        number::TCP_ACCEPT => Sockets::accept,
        number::UDP_BIND => Sockets::bind,
        number::UDP_CONNECT => Sockets::associate,
        number::SOCKET_RECV => Sockets::read,
        number::SOCKET_SEND => Sockets::write,
        number::SOCKET_RECVFROM => Sockets::read_from,
        number::SOCKET_SENDTO => Sockets::write_to,
        number::SOCKET_SHUTDOWN => Sockets::shutdown,
        number::SOCKET_CLOSE => Sockets::close,
        number::SOCKET_DUP => Sockets::duplicate,
        number::SOCKET_GET_OPTION => Sockets::get,
        number::SOCKET_SET_OPTION => Sockets::set,
        number::SOCKET_GETNAME => Sockets::name,
        number::HOST_LOOKUP => Sockets::lookup,
        number::QUEUE_NEW => Sockets::queue_new,
        number::QUEUE_SET => Sockets::queue_set,
        number::QUEUE_WAIT => Sockets::queue_wait,
        number::QUEUE_POST => Sockets::queue_post,
        number::QUEUE_CLOSE => Sockets::queue_close,
        number::NETWORK_BUSY => Sockets::busy,
    }
}

impl Module for Sockets {
    const NAME: &'static str = "socket";

    fn start(host: HostRef) -> Option<Sockets> {
        let network: Option<Arc<dyn Network>> = match host.network().kind() {
            NetworkKind::None => None,
            NetworkKind::Host => Some(Arc::new(host::Host(host.network()))),
            NetworkKind::Tap => Some(Arc::new(tap::Tap::new(host)?)),
        };
        Some(Sockets { host, network, tables: FutexMutex::default(), queues: FutexMutex::default() })
    }

    fn ended(&self, instance: u32, _: Ending) -> Released {
        let queues = self.queues.lock().remove_all(instance);
        // As with sockets: not under the lock.
        drop(queues);
        let some = self.tables.lock().take_some(instance, SOCKETS_AT_ONCE);
        if !some.is_empty() {
            // Closing a socket may take a while, and wakes others: not under the lock.
            drop(some);
            return Released::More;
        }
        if let Some(network) = &self.network {
            network.ended(instance);
        }
        Released::InputsIntact
    }

    /// Since version 2 a record has queues.
    const RECORD_VERSION: u32 = 2;

    fn save(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
        self.save_sockets(records)
    }

    fn restore(&self, version: u32, record: &[u8], records: RecordsRef<'_>) -> Result<(), Refused> {
        self.restore_sockets(version, record, records)
    }

    fn poll(&self) {
        if let Some(network) = &self.network {
            network.poll();
        }
    }
}
