//! Sockets when the domain is captured.
//!
//! A socket has an end outside of the domain: a kernel's, or a peer's. What that end knows is in no record, so a socket refuses,
//! with its number and its addresses.

use crate::Sockets;
use crate::table::{Kind, Socket};
use core::net::SocketAddr;
use monohull_abi::network::{SocketAddress, SocketEnd};
use monohull_module::record::{RecordsRef, Refused};

impl Sockets {
    pub(crate) fn save_sockets(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
        match self.tables.lock().first() {
            Some((instance, number, socket)) => Err(refusal(instance, number, socket)),
            None => records.write(&()),
        }
    }
}

fn refusal(instance: u32, number: u32, socket: &Socket) -> Refused {
    let address = |end| {
        let name = socket.network.name(socket.handle, end).ok();
        name.as_ref().and_then(SocketAddress::decode)
    };
    let peer: Option<SocketAddr> = address(SocketEnd::Peer);
    let local: Option<SocketAddr> = address(SocketEnd::Local);
    match (peer, local, socket.kind) {
        (Some(peer), _, _) => Refused::of(instance, format_args!("its socket {number} is connected to {peer}")),
        (None, Some(local), Kind::Stream) => {
            Refused::of(instance, format_args!("its socket {number} listens on {local}"))
        }
        (None, Some(local), Kind::Datagram) => {
            Refused::of(instance, format_args!("its socket {number} is bound to {local}"))
        }
        (None, None, _) => Refused::of(instance, format_args!("its socket {number} is open")),
    }
}
