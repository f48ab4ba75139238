//! Sockets of a domain that is captured: what listens goes on listening, and a connection refuses.

use crate::peer::World;
use crate::{ME, connected};
use monohull_abi::Errno;
use monohull_abi::module::{Ending, Wake};
use monohull_abi::network::{QUEUE_POSTS_MAX, SocketEnd, SocketOption, ready};
use monohull_abi::number::*;
use monohull_libos_socket::MONOHULL_MODULE;
use monohull_module_testing::{Captured, Domain, Step};
use proptest::prelude::*;
use std::net::SocketAddr;

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

#[test]
fn queues_keep_their_numbers_and_what_was_posted() {
    let mut world = World::new();
    let queues: Vec<u64> = (0..3).map(|_| world.ok(QUEUE_NEW, [])).collect();
    for data in [7, 3, u64::MAX] {
        world.ok(QUEUE_POST, [queues[2], data]);
    }
    world.ok(QUEUE_CLOSE, [queues[0]]);
    let out = world.bytes(&[0; 16]);
    let mut call = world.domain.prepare(ME, QUEUE_WAIT, [queues[1], out, 1, u64::MAX, 0, 0]);
    assert!(matches!(world.domain.step(&mut call), Step::Parked { .. }));
    assert_eq!(call.scratch, [0; 4], "its arguments are all that it needs");
    let args = call.args;
    let mut world = moved(world);
    assert_eq!(world.ok(QUEUE_NEW, []), queues[0], "the number that was free");
    let room = world.bytes(&[0; 8 * 16]);
    assert_eq!(world.ok(QUEUE_WAIT, [queues[2], room, 8, 0]), 3);
    let posted = world.domain.peek(room, 48);
    let posted: Vec<&[u8]> = posted.chunks(16).map(|event| &event[..8]).collect();
    assert_eq!(posted, [3, 7, u64::MAX].map(u64::to_le_bytes));
    assert_eq!(world.ok(QUEUE_WAIT, [queues[2], room, 8, 0]), 0, "each once");
    // The thread that waited looks again, and waits on.
    let mut call = world.domain.prepare(ME, QUEUE_WAIT, args);
    call.wake = Wake::Woken;
    let Step::Parked { key, .. } = world.domain.step(&mut call) else { panic!("it waits") };
    world.domain.take_woken();
    world.ok(QUEUE_POST, [queues[1], 5]);
    assert!(world.domain.take_woken().contains(&key));
    call.wake = Wake::Woken;
    assert_eq!(world.domain.step(&mut call), Step::Ready(1));
}

#[test]
fn a_queue_that_watches_a_socket_refuses_and_goes_on() {
    let mut world = World::new();
    let queue = world.ok(QUEUE_NEW, []);
    let at = world.address("0.0.0.0:7000".parse().unwrap());
    let listener = world.ok(TCP_LISTEN, [at, 16]);
    let datagrams = world.ok(UDP_BIND, [world.address("0.0.0.0:7001".parse().unwrap())]);
    for (socket, what) in [(listener, "listens at"), (datagrams, "receives at")] {
        world.ok(QUEUE_SET, [queue, socket, u64::from(ready::READ), 1]);
        let name = world.name(socket, SocketEnd::Local as u64);
        let refused = world.domain.capture().err();
        let expected = format!("instance {ME}: its queue {queue} watches socket {socket}, which {what} {name}");
        assert_eq!(refused, Some(expected));
        world.ok(QUEUE_SET, [queue, socket, 0, 1]);
    }
    let mut world = moved(world);
    let socket = connected(&mut world);
    world.ok(QUEUE_SET, [queue, socket, u64::from(ready::READ), 1]);
    let peer = world.name(socket, SocketEnd::Peer as u64);
    let refused = world.domain.capture().err();
    let expected = format!("instance {ME}: its queue {queue} watches socket {socket}, which is connected to {peer}");
    assert_eq!(refused, Some(expected));
    world.write_all(socket, b"as before");
    assert_eq!(world.peer_reads(9), b"as before");
}

/// Each field of a queue's record that a stranger could use.
#[test]
fn queues_that_no_instance_has_are_refused() {
    // A thread has one domain at a time.
    let mut world = World::new();
    world.ok(QUEUE_NEW, []);
    let captured = world.domain.capture().unwrap();
    drop(world);
    let sockets: Vec<u32> = Vec::new();
    /// The instance of a queue, its number, what was posted to it.
    type Queue = (u32, u64, Vec<u64>);
    let resumes = |queues: &[Queue]| {
        let record = postcard::to_allocvec(&(&sockets, queues)).unwrap();
        let mut captured = captured.clone();
        captured.records = vec![[&2u32.to_le_bytes(), &record[..]].concat()];
        resume(&captured).map(drop)
    };
    let posts: Vec<u64> = (0..=QUEUE_POSTS_MAX as u64).collect();
    assert_eq!(resumes(&[(ME, 0, posts[1..].to_vec()), (ME, 63, vec![1, 2])]), Ok(()), "the positive control");
    let attacks: [(&str, &[Queue]); 6] = [
        ("there is no instance", &[(ME + 1, 0, vec![])]),
        ("queue 64", &[(ME, 64, vec![])]),
        ("queue 0", &[(ME, 0, posts)]),
        ("the posts of a queue are not in order", &[(ME, 0, vec![2, 1])]),
        ("the queues are not in order", &[(ME, 0, vec![]), (ME, 0, vec![])]),
        ("the queues are not in order", &[(ME, 1, vec![]), (ME, 0, vec![])]),
    ];
    for (why, queues) in attacks {
        let refused = resumes(queues).expect_err(why);
        assert!(refused.contains(why), "{why}: {refused}");
    }
    // The records of version 1 have no queues.
    let mut old = captured.clone();
    old.records = vec![[&1u32.to_le_bytes(), &postcard::to_allocvec(&sockets).unwrap()[..]].concat()];
    assert_eq!(resume(&old).map(drop), Ok(()));
}

/// The options of a socket that the network keeps. smoltcp panics at some values.
#[test]
fn options_that_no_socket_has_are_refused() {
    let mut world = World::new();
    let at = world.address("0.0.0.0:9000".parse().unwrap());
    world.ok(UDP_BIND, [at]);
    let captured = world.domain.capture().unwrap();
    drop(world);
    let resumes = |ttl: u64, broadcast: u64| {
        let datagrams = (1u32, None::<SocketAddr>);
        let at: SocketAddr = "0.0.0.0:9000".parse().unwrap();
        let socket = (datagrams, at, false, u64::MAX, u64::MAX, (Some(ttl), Some(broadcast)));
        let table = (ME, vec![socket], vec![Some(0u32)], Vec::<u32>::new());
        let record = postcard::to_allocvec(&(vec![table], Vec::<(u32, u64, Vec<u64>)>::new())).unwrap();
        let mut captured = captured.clone();
        captured.records = vec![[&2u32.to_le_bytes(), &record[..]].concat()];
        resume(&captured).map(drop)
    };
    assert_eq!(resumes(64, 0), Ok(()), "the positive control");
    for (ttl, broadcast, why) in [
        (0, 0, "Ttl of its socket at 0.0.0.0:9000 is 0"),
        (256, 0, "Ttl of its socket at 0.0.0.0:9000 is 256"),
        (64, 2, "Broadcast of its socket at 0.0.0.0:9000 is 2"),
    ] {
        let refused = resumes(ttl, broadcast).expect_err(why);
        assert!(refused.contains(why), "{why}: {refused}");
    }
}

/// A domain with a queue, a socket that listens and one for datagrams.
fn scene() -> Captured {
    let mut world = World::new();
    for (number, at) in [(TCP_LISTEN, "0.0.0.0:7000"), (UDP_BIND, "0.0.0.0:7001")] {
        let at = world.address(at.parse().unwrap());
        world.ok(number, [at, 16]);
    }
    let queue = world.ok(QUEUE_NEW, []);
    world.ok(QUEUE_POST, [queue, 5]);
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
                let _ = domain.call(ME, QUEUE_POST, [socket, 0, 0, 0, 0, 0]);
            }
            domain.end(ME, Ending::Done);
        }
    }
}
