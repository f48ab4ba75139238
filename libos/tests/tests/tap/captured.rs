//! Sockets of a domain that is captured: what listens goes on listening, and a connection refuses.

use crate::peer::World;
use crate::{ME, connected};
use monohull_abi::Errno;
use monohull_abi::module::Ending;
use monohull_abi::network::{SocketEnd, SocketOption};
use monohull_abi::number::*;
use monohull_libos_socket::MONOHULL_MODULE;
use monohull_module_testing::{Captured, Domain};
use proptest::prelude::*;

fn resume(captured: &Captured) -> Result<Domain, String> {
    Domain::resume(&[&MONOHULL_MODULE], captured)
}

/// Goes on in a new domain, in the same world.
fn moved(world: World) -> World {
    world.with_domain(|domain| {
        let captured = domain.capture().expect("it is at rest");
        drop(domain);
        resume(&captured).expect("a record of our own")
    })
}

#[test]
fn a_socket_that_listens_goes_on_listening() {
    let mut world = World::new();
    let at = world.address("0.0.0.0:7000".parse().unwrap());
    let first = world.ok(TCP_LISTEN, [at, 16]);
    let at = world.address("0.0.0.0:8000".parse().unwrap());
    let listener = world.ok(TCP_LISTEN, [at, 16]);
    let twin = world.ok(SOCKET_DUP, [listener]);
    world.ok(SOCKET_SET_OPTION, [listener, SocketOption::NonBlocking as u64, 1]);
    world.ok(SOCKET_CLOSE, [first]);
    let name = world.name(listener, SocketEnd::Local as u64);
    let mut world = moved(world);
    assert_eq!(world.name(twin, SocketEnd::Local as u64), name);
    assert_eq!(world.ok(SOCKET_GET_OPTION, [twin, SocketOption::NonBlocking as u64]), 1);
    assert_eq!(world.call(TCP_ACCEPT, [listener, 0]), Errno::Again.to_value());
    world.ok(SOCKET_SET_OPTION, [listener, SocketOption::NonBlocking as u64, 0]);
    world.peer_connects(8000);
    let socket = world.ok(TCP_ACCEPT, [twin, 0]);
    assert_eq!(socket, first, "the number that was free");
    world.peer_writes(b"hello");
    assert_eq!(world.read_exactly(socket, 5), b"hello");
}

#[test]
fn a_socket_for_datagrams_keeps_its_address() {
    let mut world = World::new();
    let at = world.address("0.0.0.0:9000".parse().unwrap());
    let socket = world.ok(UDP_BIND, [at]);
    let name = world.name(socket, SocketEnd::Local as u64);
    let mut world = moved(world);
    assert_eq!(world.name(socket, SocketEnd::Local as u64), name);
    let at = world.address(name);
    assert_eq!(world.call(UDP_BIND, [at]), Errno::AddressInUse.to_value());
}

#[test]
fn a_connection_refuses_and_goes_on() {
    let mut world = World::new();
    let socket = connected(&mut world);
    let peer = world.name(socket, SocketEnd::Peer as u64);
    let refused = world.domain.capture().err();
    assert_eq!(refused, Some(format!("instance {ME}: its socket {socket} is connected to {peer}")));
    world.write_all(socket, b"as before");
    assert_eq!(world.peer_reads(9), b"as before");
}

/// A domain with a socket that listens and one for datagrams.
fn scene() -> Captured {
    let mut world = World::new();
    for (number, at) in [(TCP_LISTEN, "0.0.0.0:7000"), (UDP_BIND, "0.0.0.0:7001")] {
        let at = world.address(at.parse().unwrap());
        world.ok(number, [at, 16]);
    }
    world.domain.capture().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn a_damaged_record_is_refused_or_harmless(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in 0..50usize,
    ) {
        let mut captured = scene();
        let record = &mut captured.records[0];
        for (at, byte) in changes {
            let at = at.index(record.len());
            record[at] = byte;
        }
        if cut < 10 {
            record.truncate(record.len() * cut / 10);
        }
        if let Ok(domain) = resume(&captured) {
            for socket in 0..4 {
                // Any answer will do.
                let _ = domain.call(ME, SOCKET_CLOSE, [socket, 0, 0, 0, 0, 0]);
            }
            domain.end(ME, Ending::Done);
        }
    }
}
