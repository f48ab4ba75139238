//! Queues on a network of the workflow's own: what they report, and when.

use crate::peer::World;
use crate::{ME, connected};
use monohull_abi::Errno;
use monohull_abi::network::{CONNECT_LATER, DONT_WAIT, PEEK, QUEUE_POSTS_MAX, QUEUES_MAX, SocketOption, ready};
use monohull_abi::number::*;
use monohull_module_testing::Step;
use std::net::SocketAddr;

const READ: u64 = ready::READ as u64;
const WRITE: u64 = ready::WRITE as u64;
const EDGE: u64 = ready::EDGE as u64;
const ONCE: u64 = ready::ONCE as u64;

/// Data, readiness and whether it was posted, of each event.
fn waited(world: &mut World, queue: u64, deadline: u64) -> Vec<(u64, u64, bool)> {
    let out = world.bytes(&[0; 8 * 16]);
    let count = world.ok(QUEUE_WAIT, [queue, out, 8, deadline]) as usize;
    let words = world.domain.peek(out, count * 16);
    let (events, _) = words.as_chunks::<16>();
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    events.iter().map(|event| (number(&event[..8]), number(&event[8..12]), event[12] == 1)).collect()
}

/// What is reported within five milliseconds.
fn waits_a_while(world: &mut World, queue: u64) -> Vec<(u64, u64, bool)> {
    let deadline = world.time() + 5_000_000;
    waited(world, queue, deadline)
}

fn set(world: &mut World, queue: u64, socket: u64, events: u64) {
    assert_eq!(world.ok(QUEUE_SET, [queue, socket, events, 100 + socket]), 0);
}

#[test]
fn levels_are_reported_until_they_are_over_and_edges_once() {
    let mut world = World::new();
    let socket = connected(&mut world);
    let data = 100 + socket;
    let queue = world.ok(QUEUE_NEW, []);
    set(&mut world, queue, socket, READ);
    assert_eq!(waited(&mut world, queue, 0), []);
    assert_eq!(waits_a_while(&mut world, queue), []);
    world.peer_writes(b"hello");
    assert_eq!(waited(&mut world, queue, u64::MAX), [(data, READ, false)]);
    assert_eq!(waited(&mut world, queue, 0), [(data, READ, false)]);
    set(&mut world, queue, socket, READ | WRITE | EDGE);
    assert_eq!(waited(&mut world, queue, 0), [(data, READ | WRITE, false)]);
    assert_eq!(waits_a_while(&mut world, queue), []);
    let room = world.bytes(&[0; 5]);
    // As much as it asked for: there is no more.
    assert_eq!(world.ok(SOCKET_RECV, [socket, room, 5, 0]), 5);
    world.ok(SOCKET_SET_OPTION, [socket, SocketOption::NonBlocking as u64, 1]);
    assert_eq!(world.call(SOCKET_RECV, [socket, room, 5, 0]), Errno::Again.to_value());
    assert_eq!(waits_a_while(&mut world, queue), []);
    world.peer_writes(b"world");
    assert_eq!(waited(&mut world, queue, u64::MAX), [(data, READ, false)]);
    set(&mut world, queue, socket, READ | ONCE);
    assert_eq!(waited(&mut world, queue, 0), [(data, READ, false)]);
    assert_eq!(waits_a_while(&mut world, queue), []);
    set(&mut world, queue, socket, READ);
    assert_eq!(waited(&mut world, queue, 0), [(data, READ, false)]);
    set(&mut world, queue, socket, 0);
    assert_eq!(waits_a_while(&mut world, queue), []);
}

/// As on Linux, what arrives after a read is an edge, also if that has had as much as it could take.
#[test]
fn what_arrives_after_a_read_is_an_edge() {
    let mut world = World::new();
    let socket = connected(&mut world);
    let queue = world.ok(QUEUE_NEW, []);
    let room = world.bytes(&[0; 5]);
    set(&mut world, queue, socket, READ | EDGE);
    for text in [b"hello", b"world"] {
        world.peer_writes(text);
        assert_eq!(waited(&mut world, queue, u64::MAX), [(100 + socket, READ, false)]);
        assert_eq!(waits_a_while(&mut world, queue), []);
        assert_eq!(world.ok(SOCKET_RECV, [socket, room, 5, 0]), 5);
    }
}

#[test]
fn a_call_that_must_not_wait_leaves_the_socket_as_it_is() {
    let mut world = World::new();
    let socket = connected(&mut world);
    let room = world.bytes(&[0; 5]);
    for flags in [DONT_WAIT, PEEK | DONT_WAIT] {
        assert_eq!(world.call(SOCKET_RECV, [socket, room, 5, flags]), Errno::Again.to_value());
    }
    let full = world.bytes(&[0; 1 << 20]);
    while world.call(SOCKET_SEND, [socket, full, 1 << 20, DONT_WAIT]) != Errno::Again.to_value() {}
    assert_eq!(world.ok(SOCKET_GET_OPTION, [socket, SocketOption::NonBlocking as u64]), 0);
    for call in [SOCKET_RECV, SOCKET_SEND] {
        assert_eq!(world.call(call, [socket, room, 5, 4]), Errno::Invalid.to_value());
    }
    assert_eq!(world.call(SOCKET_SEND, [socket, room, 5, PEEK]), Errno::Invalid.to_value());
}

#[test]
fn a_connection_without_a_waiter_is_reported_with_its_result() {
    let mut world = World::new();
    let queue = world.ok(QUEUE_NEW, []);
    let there = world.peer_listens(80);
    let closed = SocketAddr::new(World::PEER4, 9);
    for (to, result) in [(there, 0), (closed, Errno::ConnectionRefused as u64)] {
        let at = world.address(to);
        let socket = world.ok(TCP_CONNECT, [at, 0, CONNECT_LATER]);
        let room = world.bytes(&[0; 5]);
        for call in [SOCKET_RECV, SOCKET_SEND] {
            assert_eq!(world.call(call, [socket, room, 5, 0]), Errno::Again.to_value());
        }
        set(&mut world, queue, socket, WRITE);
        assert_eq!(waited(&mut world, queue, u64::MAX), [(100 + socket, WRITE, false)]);
        assert_eq!(world.ok(SOCKET_GET_OPTION, [socket, SocketOption::Error as u64]), result);
        assert_eq!(world.ok(SOCKET_GET_OPTION, [socket, SocketOption::Error as u64]), 0, "once");
        assert_eq!(world.ok(SOCKET_CLOSE, [socket]), 0);
        // What is closed is not watched any more.
        assert_eq!(waits_a_while(&mut world, queue), []);
    }
    let at = world.address(there);
    assert_eq!(world.call(TCP_CONNECT, [at, 0, 2]), Errno::Invalid.to_value());
}

#[test]
fn listeners_and_datagrams_are_reported() {
    let mut world = World::new();
    let queue = world.ok(QUEUE_NEW, []);
    let any = world.address("0.0.0.0:0".parse().unwrap());
    let listener = world.ok(TCP_LISTEN, [any, 4]);
    let datagrams = world.ok(UDP_BIND, [any]);
    set(&mut world, queue, listener, READ);
    set(&mut world, queue, datagrams, WRITE);
    assert_eq!(waited(&mut world, queue, 0), [(100 + datagrams, WRITE, false)]);
    set(&mut world, queue, datagrams, READ);
    assert_eq!(waited(&mut world, queue, 0), []);
    let port = world.name(listener, 0).port();
    world.peer_connects(port);
    assert_eq!(waited(&mut world, queue, u64::MAX), [(100 + listener, READ, false)]);
    let accepted = world.ok(TCP_ACCEPT, [listener, 0]);
    assert_eq!(waited(&mut world, queue, 0), []);
    world.ok(SOCKET_CLOSE, [accepted]);
}

#[test]
fn posted_events_come_once_and_are_limited() {
    let mut world = World::new();
    let queue = world.ok(QUEUE_NEW, []);
    for data in [7, 3, 7] {
        assert_eq!(world.ok(QUEUE_POST, [queue, data]), 0);
    }
    assert_eq!(waited(&mut world, queue, 0), [(3, 0, true), (7, 0, true)]);
    assert_eq!(waited(&mut world, queue, 0), []);
    for data in 0..QUEUE_POSTS_MAX as u64 {
        world.ok(QUEUE_POST, [queue, data]);
    }
    assert_eq!(world.call(QUEUE_POST, [queue, u64::MAX]), Errno::TooMany.to_value());
    assert_eq!(world.ok(QUEUE_POST, [queue, 5]), 0, "it waits already");
    assert_eq!(waited(&mut world, queue, 0).len(), 8);
    assert_eq!(world.ok(QUEUE_POST, [queue, u64::MAX]), 0);
}

#[test]
fn a_post_wakes_waiters() {
    let mut world = World::new();
    let queue = world.ok(QUEUE_NEW, []);
    let out = world.bytes(&[0; 16]);
    let mut call = world.domain.prepare(ME, QUEUE_WAIT, [queue, out, 1, u64::MAX, 0, 0]);
    let Step::Parked { key, .. } = world.domain.step(&mut call) else { panic!("it waits") };
    world.domain.take_woken();
    world.ok(QUEUE_POST, [queue, 1]);
    assert!(world.domain.take_woken().contains(&key));
    world.ok(QUEUE_CLOSE, [queue]);
    assert!(world.domain.take_woken().contains(&key), "waiters are woken");
    call.wake = monohull_abi::module::Wake::Woken;
    assert_eq!(world.domain.step(&mut call), Step::Ready(Errno::BadDescriptor.to_value()));
}

#[test]
fn queues_are_their_instances_own_and_limited() {
    let mut world = World::new();
    let queues: Vec<u64> = (0..QUEUES_MAX).map(|_| world.ok(QUEUE_NEW, [])).collect();
    assert_eq!(queues, (0..QUEUES_MAX as u64).collect::<Vec<_>>());
    assert_eq!(world.call(QUEUE_NEW, []), Errno::TooMany.to_value());
    assert_eq!(world.ok(QUEUE_CLOSE, [5]), 0);
    assert_eq!(world.ok(QUEUE_NEW, []), 5);
    let other = |number, args| world.domain.call(ME + 1, number, args);
    for number in [QUEUE_SET, QUEUE_WAIT, QUEUE_POST, QUEUE_CLOSE] {
        assert_eq!(other(number, [0; 6]), Errno::BadDescriptor.to_value());
    }
    world.domain.end(ME, monohull_abi::module::Ending::Done);
    assert_eq!(world.call(QUEUE_POST, [5, 1]), Errno::BadDescriptor.to_value());
}
