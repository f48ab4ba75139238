//! The module on a network that these tests are: another computer, and a wire that loses, delays and damages frames.

mod captured;
mod hostile;
mod names;
mod peer;
mod queues;
mod wire;

use monohull_abi::Errno;
use monohull_abi::network::{SocketAddress, SocketOption, SocketShutdown};
use monohull_abi::number::*;
use peer::World;
use std::net::SocketAddr;

/// The function that the tests are.
const ME: u32 = 1;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

/// A connection to the peer, which listens.
fn connected(world: &mut World) -> u64 {
    let there = world.peer_listens(80);
    let at = world.address(there);
    world.ok(TCP_CONNECT, [at, u64::MAX])
}

#[test]
fn bytes_travel_both_ways_over_both_protocols() {
    for six in [false, true] {
        let mut world = World::new();
        let there = world.peer_listens(80);
        let there = if six { world.peer_six(there.port()) } else { there };
        let at = world.address(there);
        let socket = world.ok(TCP_CONNECT, [at, u64::MAX]);
        let data = pattern(3_000_000);
        world.write_all(socket, &data);
        assert_eq!(world.peer_reads(data.len()), data);
        world.peer_writes(&data);
        assert_eq!(world.read_exactly(socket, data.len()), data);
        assert_eq!(world.ok(SOCKET_CLOSE, [socket]), 0);
    }
}

#[test]
fn a_listener_is_connected_to() {
    let mut world = World::new();
    let at = world.address("0.0.0.0:0".parse().unwrap());
    let listener = world.ok(TCP_LISTEN, [at, 16]);
    let port = world.name(listener, 0).port();
    world.peer_connects(port);
    let out = world.room();
    let socket = world.ok(TCP_ACCEPT, [listener, out]);
    assert_eq!(world.read_address(out).ip(), World::PEER4);
    assert_eq!(world.name(socket, 0), SocketAddr::new(World::OWN4, port));
    world.peer_writes(b"hello");
    assert_eq!(world.read_exactly(socket, 5), b"hello");
    world.write_all(socket, b"world");
    assert_eq!(world.peer_reads(5), b"world");
}

#[test]
fn a_half_is_closed_and_the_other_goes_on() {
    let mut world = World::new();
    let socket = connected(&mut world);
    world.write_all(socket, b"question");
    assert_eq!(world.ok(SOCKET_SHUTDOWN, [socket, SocketShutdown::Write as u64]), 0);
    assert_eq!(world.peer_reads(8), b"question");
    assert!(world.peer_sees_the_end());
    assert_eq!(world.call(SOCKET_SEND, [socket, world.bytes(b"x"), 1]), Errno::BrokenPipe.to_value());
    world.peer_writes(b"answer");
    world.peer_closes();
    assert_eq!(world.read_exactly(socket, 6), b"answer");
    assert_eq!(world.read(socket), Ok(vec![]));
}

#[test]
fn what_is_written_before_the_end_arrives_after_it() {
    let mut world = World::new();
    let socket = connected(&mut world);
    let data = pattern(200_000);
    world.write_all(socket, &data);
    world.domain.end(ME, monohull_abi::module::Ending::Done);
    assert_eq!(world.domain.charged(ME), 0);
    assert_eq!(world.domain.system(NETWORK_BUSY, [0; 6]), 1);
    assert_eq!(world.peer_reads(data.len()), data);
    assert!(world.peer_sees_the_end());
    world.peer_closes();
    world.run(20);
    assert_eq!(world.domain.system(NETWORK_BUSY, [0; 6]), 0);
}

#[test]
fn the_sockets_of_an_instance_that_ends_are_closed_in_steps() {
    let mut world = World::new();
    let any = world.address("0.0.0.0:0".parse().unwrap());
    for _ in 0..100 {
        world.ok(UDP_BIND, [any]);
    }
    let mut left = Vec::new();
    world.domain.end_in_steps(ME, monohull_abi::module::Ending::Done, || left.push(world.domain.charged(ME)));
    assert!(left.is_sorted_by(|a, b| a > b) && left.len() == 2, "{left:?}");
    assert_eq!(world.domain.charged(ME), 0);
}

#[test]
fn resets_and_refusals_have_their_kinds() {
    let mut world = World::new();
    let closed = world.address(SocketAddr::new(World::PEER4, 9));
    assert_eq!(world.call(TCP_CONNECT, [closed, u64::MAX]), Errno::ConnectionRefused.to_value());
    assert_eq!(world.domain.charged(ME), 0, "what failed costs nothing");
    let socket = connected(&mut world);
    world.peer_resets();
    assert_eq!(world.read(socket), Err(Errno::ConnectionReset));
    assert_eq!(world.read(socket), Ok(vec![]));
    assert_eq!(world.call(SOCKET_SEND, [socket, world.bytes(b"x"), 1]), Errno::BrokenPipe.to_value());
    let elsewhere = world.address("192.0.2.1:80".parse().unwrap());
    world.cut = true;
    assert_eq!(world.call(TCP_CONNECT, [elsewhere, 50_000_000]), Errno::TimedOut.to_value());
}

#[test]
fn times_run_out() {
    let mut world = World::new();
    let socket = connected(&mut world);
    world.ok(SOCKET_SET_OPTION, [socket, SocketOption::ReadTimeout as u64, 5_000_000]);
    assert_eq!(world.read(socket), Err(Errno::Again));
    world.ok(SOCKET_SET_OPTION, [socket, SocketOption::NonBlocking as u64, 1]);
    let before = world.time();
    assert_eq!(world.read(socket), Err(Errno::Again));
    assert_eq!(world.time(), before);
    let full = world.bytes(&pattern(1 << 20));
    let mut taken = 0;
    let last = loop {
        match world.call(SOCKET_SEND, [socket, full, 1 << 20]) {
            bytes @ 1.. => taken += bytes,
            other => break other,
        }
    };
    assert_eq!(last, Errno::Again.to_value());
    assert_eq!(world.peer_reads(taken as usize).len(), taken as usize);
}

#[test]
fn a_listener_takes_no_more_than_its_backlog() {
    let mut world = World::new();
    let at = world.address("0.0.0.0:80".parse().unwrap());
    let listener = world.ok(TCP_LISTEN, [at, 2]);
    for port in 0..5 {
        world.first_segment(SocketAddr::new(World::PEER4, 1000 + port), 80);
    }
    world.run(3);
    // Two are answered, the others get no answer and would try again.
    let answered = world.seen.iter().filter(|segment| segment.syn && segment.ack).map(|segment| segment.to);
    let answered: std::collections::BTreeSet<u16> = answered.collect();
    assert_eq!(answered.len(), 2, "{answered:?}");
    assert_eq!(world.call(SOCKET_CLOSE, [listener]), 0);
}

/// First segments that are none take no place of a connection.
#[test]
fn a_listener_has_places_for_connections_alone() {
    let mut world = World::new();
    let at = world.address("0.0.0.0:80".parse().unwrap());
    let listener = world.ok(TCP_LISTEN, [at, 2]);
    for _ in 0..5 {
        // From no port.
        world.first_segment(SocketAddr::new(World::PEER4, 0), 80);
        world.run(1);
    }
    assert!(world.seen.iter().all(|segment| !segment.ack || !segment.syn), "{:?}", world.seen);
    world.first_segment(SocketAddr::new(World::PEER4, 1000), 80);
    world.run(3);
    assert!(world.seen.iter().any(|segment| segment.syn && segment.ack && segment.to == 1000), "{:?}", world.seen);
    assert_eq!(world.call(SOCKET_CLOSE, [listener]), 0);
}

/// Of either version of IP, however the socket is bound.
#[test]
fn datagrams_do_not_go_from_one_version_to_the_other() {
    let mut world = World::new();
    let four = world.peer_binds(5353);
    let six = world.peer_six(5353);
    let bytes = world.bytes(b"hello");
    for (own, to) in [("10.0.0.2:0", six), ("0.0.0.0:0", six), ("[fd00::2]:0", four), ("[::]:0", four)] {
        let own = world.address(own.parse().unwrap());
        let socket = world.ok(UDP_BIND, [own]);
        let to = world.address(to);
        assert_eq!(world.call(SOCKET_SENDTO, [socket, bytes, 5, to]), Errno::NetworkUnreachable.to_value());
        assert_eq!(world.call(UDP_CONNECT, [socket, to]), Errno::NetworkUnreachable.to_value());
    }
    world.run(5);
    assert!(world.seen.is_empty(), "{:?}", world.seen);
}

#[test]
fn addresses_that_are_not_ours_or_in_use_are_refused() {
    let mut world = World::new();
    let foreign = world.address(SocketAddr::new(World::PEER4, 80));
    for call in [TCP_LISTEN, UDP_BIND] {
        assert_eq!(world.call(call, [foreign, 1]), Errno::AddressNotAvailable.to_value());
        let own = world.address(SocketAddr::new(World::OWN4, 80));
        world.ok(call, [own, 1]);
        let any = world.address("0.0.0.0:80".parse().unwrap());
        assert_eq!(world.call(call, [any, 1]), Errno::AddressInUse.to_value());
    }
}

#[test]
fn what_a_listener_is_set_to_its_connections_begin_with() {
    let mut world = World::new();
    let at = world.address("0.0.0.0:80".parse().unwrap());
    let listener = world.ok(TCP_LISTEN, [at, 16]);
    let wanted = [(SocketOption::Ttl, 7), (SocketOption::KeepAlive, 5_000_000_000)];
    for (option, value) in wanted {
        world.ok(SOCKET_SET_OPTION, [listener, option as u64, value]);
    }
    world.peer_connects(80);
    let socket = world.ok(TCP_ACCEPT, [listener, world.room()]);
    for (option, value) in wanted {
        assert_eq!(world.ok(SOCKET_GET_OPTION, [listener, option as u64]), value);
        assert_eq!(world.ok(SOCKET_GET_OPTION, [socket, option as u64]), value);
    }
    // A peer that answers probes is kept; a connection to one that does not ends.
    world.run(60_000);
    world.ok(SOCKET_SET_OPTION, [socket, SocketOption::NonBlocking as u64, 1]);
    assert_eq!(world.read(socket), Err(Errno::Again));
    world.cut = true;
    world.run(60_000);
    assert_eq!(world.read(socket), Err(Errno::ConnectionReset));
    for forever in [u64::MAX, 0] {
        world.ok(SOCKET_SET_OPTION, [listener, SocketOption::KeepAlive as u64, forever]);
    }
}

#[test]
fn small_writes_wait_for_each_other_unless_they_are_not_to() {
    for (no_delay, pieces) in [(0, 2), (1, 5)] {
        let mut world = World::new();
        let socket = connected(&mut world);
        assert_eq!(world.ok(SOCKET_GET_OPTION, [socket, SocketOption::NoDelay as u64]), 0, "as on Linux");
        world.ok(SOCKET_SET_OPTION, [socket, SocketOption::NoDelay as u64, no_delay]);
        assert_eq!(world.ok(SOCKET_GET_OPTION, [socket, SocketOption::NoDelay as u64]), no_delay);
        let letter = world.bytes(b"x");
        for _ in 0..5 {
            assert_eq!(world.ok(SOCKET_SEND, [socket, letter, 1]), 1);
        }
        world.run(20);
        assert_eq!(world.peer_reads(5), b"xxxxx");
        // The first is sent at once; the others with it, or together when it has been acknowledged.
        assert_eq!(world.seen.iter().filter(|segment| segment.len > 0).count(), pieces);
    }
}

#[test]
fn there_is_no_peer_at_loopback_addresses() {
    let mut world = World::new();
    let any = world.address("0.0.0.0:0".parse().unwrap());
    let datagrams = world.ok(UDP_BIND, [any]);
    let bytes = world.bytes(b"hello");
    for to in ["127.0.0.1:80", "0.0.0.0:80", "10.0.0.2:80", "[::1]:80", "[::]:80", "[fd00::2]:80"] {
        let to = world.address(to.parse().unwrap());
        assert_eq!(world.call(TCP_CONNECT, [to, u64::MAX]), Errno::NetworkUnreachable.to_value());
        assert_eq!(world.call(SOCKET_SENDTO, [datagrams, bytes, 5, to]), Errno::NetworkUnreachable.to_value());
        assert_eq!(world.call(UDP_CONNECT, [datagrams, to]), Errno::NetworkUnreachable.to_value());
    }
    world.run(5);
    assert!(world.seen.is_empty(), "{:?}", world.seen);
}

#[test]
fn datagrams_travel_and_know_their_sender() {
    let mut world = World::new();
    let at = world.address("0.0.0.0:53".parse().unwrap());
    let socket = world.ok(UDP_BIND, [at]);
    let peer = world.peer_binds(5353);
    world.peer_sends(b"question", SocketAddr::new(World::OWN4, 53));
    let (room, out) = (world.bytes(&[0; 64]), world.room());
    assert_eq!(world.ok(SOCKET_RECVFROM, [socket, room, 64, 0, out]), 8);
    assert_eq!((world.domain.peek(room, 8), world.read_address(out)), (b"question".to_vec(), peer));
    // Larger than a packet: it goes in pieces, and comes in pieces.
    let large = pattern(9000);
    let (bytes, to) = (world.bytes(&large), world.address(peer));
    assert_eq!(world.call(SOCKET_SEND, [socket, bytes, 9000]), Errno::NoDestination.to_value());
    assert_eq!(world.ok(SOCKET_SENDTO, [socket, bytes, 9000, to]), 9000);
    assert_eq!(world.ok(SOCKET_SENDTO, [socket, bytes, 8000, to]), 8000);
    assert_eq!(world.peer_receives(), large);
    assert_eq!(world.peer_receives(), large[..8000]);
    assert_eq!(world.call(SOCKET_SENDTO, [socket, bytes, 70_000, to]), Errno::MessageTooLong.to_value());
    let six = world.address("[::]:53".parse().unwrap());
    let six = world.ok(UDP_BIND, [six]);
    let to_six = world.address(world.peer_six(5353));
    assert_eq!(world.ok(SOCKET_SENDTO, [six, bytes, 1452, to_six]), 1452);
    assert_eq!(world.peer_receives(), large[..1452]);
    assert_eq!(world.call(SOCKET_SENDTO, [six, bytes, 1453, to_six]), Errno::MessageTooLong.to_value());
    // From here on only that one.
    world.ok(UDP_CONNECT, [socket, to]);
    world.peer_binds(6000);
    world.peer_sends(b"lie", SocketAddr::new(World::OWN4, 53));
    world.ok(SOCKET_SET_OPTION, [socket, SocketOption::ReadTimeout as u64, 5_000_000]);
    assert_eq!(world.call(SOCKET_RECV, [socket, room, 64, 0]), Errno::Again.to_value());
}

#[test]
fn a_removed_device_is_reported() {
    let mut world = World::new();
    let socket = connected(&mut world);
    let any = world.address("0.0.0.0:0".parse().unwrap());
    let (datagrams, listener) = (world.ok(UDP_BIND, [any]), world.ok(TCP_LISTEN, [any, 16]));
    let (bytes, at) = (world.bytes(&[7; 64]), world.address(SocketAddr::new(World::PEER4, 80)));
    world.domain.take_device_away();
    // The first waits, and is woken by it.
    assert_eq!(world.read(socket), Err(Errno::NetworkDown));
    let calls: [(u32, &[u64]); 9] = [
        (SOCKET_SEND, &[socket, bytes, 64]),
        (SOCKET_RECV, &[datagrams, bytes, 64, 0]),
        (SOCKET_RECVFROM, &[datagrams, bytes, 64, 0, 0]),
        (SOCKET_SENDTO, &[datagrams, bytes, 64, at]),
        (UDP_CONNECT, &[datagrams, at]),
        (TCP_ACCEPT, &[listener, 0]),
        (TCP_CONNECT, &[at, u64::MAX]),
        (UDP_BIND, &[any]),
        (TCP_LISTEN, &[any, 16]),
    ];
    for (call, given) in calls {
        let mut args = [0; 6];
        args[..given.len()].copy_from_slice(given);
        assert_eq!(world.call(call, args), Errno::NetworkDown.to_value(), "{call}");
    }
    for socket in [socket, datagrams, listener] {
        assert_eq!(world.call(SOCKET_CLOSE, [socket]), 0);
    }
    assert_eq!(world.domain.system(NETWORK_BUSY, [0; 6]), 0);
    assert_eq!(world.domain.alarm(), u64::MAX);
}

#[test]
fn sockets_cost_memory_and_give_it_back() {
    let mut world = World::new();
    world.domain.set_limit(ME, 600 << 10);
    let at = world.address("0.0.0.0:0".parse().unwrap());
    let first = world.ok(UDP_BIND, [at]);
    assert_eq!(world.call(UDP_BIND, [at]), Errno::OutOfMemory.to_value());
    world.ok(SOCKET_CLOSE, [first]);
    assert_eq!(world.domain.charged(ME), 0);
    world.ok(UDP_BIND, [at]);
}

/// Something of the contract: an address fits where functions leave room for one.
const _: () = assert!(size_of::<SocketAddress>() == 32);
