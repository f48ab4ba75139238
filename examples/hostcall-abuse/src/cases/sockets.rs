//! The calls on sockets. The workflow may listen at 127.0.0.1, port 0, and nothing else; or it has a network of its own, where the
//! host has the address 10.99.0.1 and no host name resolves. Connections are to 127.0.0.2, which it may reach, or to the host's port 7.

use super::{Cases, HERE, MAX, MIN, Own, keep, room, want};
use crate::addresses::Want;
use crate::neighbour::TEXT;
use monohull_abi::Errno::{
    self, AddressNotAvailable, BadDescriptor, BrokenPipe, Fault, Invalid, NetworkUnreachable, NoDestination,
    NotConnected, NotFound, NotPermitted, NotSupported,
};
use monohull_abi::network::{DONT_WAIT, HOST_NAME_MAX, PEEK, SocketAddress, SocketEnd, SocketOption, SocketShutdown};
use monohull_abi::number::*;
use monohull_std::prelude::*;
use monohull_trampoline::user::hostcall;

const ADDRESS: u64 = size_of::<SocketAddress>() as u64;

fn at(address: [u8; 4], port: u32) -> SocketAddress {
    let [a, b, c, d] = address;
    SocketAddress { family: 4, port, address: [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], flow: 0, scope: 0 }
}

/// What the workflow has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// The host's sockets, under a list.
    Host,
    /// A device of its own.
    Tap,
}

/// Good arguments lead here.
struct Good {
    /// Where it may listen, port 0.
    here: u64,
    /// Where it may send.
    there: u64,
    /// Room for an address.
    out: u64,
    listener: u64,
    datagrams: u64,
}

/// A connection in which [`TEXT`] waits to be read, and its other end if that is here too.
pub(crate) fn connection(network: Network) -> (u64, Option<u64>) {
    let call = |number, args| hostcall(number, args) as u64;
    if network == Network::Tap {
        // The host sends the text to every client.
        return (call(TCP_CONNECT, [keep(at([10, 99, 0, 1], 7)), MAX, 0, 0, 0, 0]), None);
    }
    let listener = call(TCP_LISTEN, [keep(at([127, 0, 0, 2], 0)), 16, 0, 0, 0, 0]);
    let name = keep(SocketAddress::default());
    call(SOCKET_GETNAME, [listener, SocketEnd::Local as u64, name, 0, 0, 0]);
    let stream = call(TCP_CONNECT, [name, MAX, 0, 0, 0, 0]);
    let other = call(TCP_ACCEPT, [listener, 0, 0, 0, 0, 0]);
    call(SOCKET_CLOSE, [listener, 0, 0, 0, 0, 0]);
    call(SOCKET_SEND, [other, TEXT.as_ptr() as u64, TEXT.len() as u64, 0, 0, 0]);
    (stream, Some(other))
}

pub(super) fn all(cases: &mut Cases<'_>, own: &Own, network: Network) {
    let here = keep(at(if network == Network::Tap { [0; 4] } else { [127, 0, 0, 1] }, 0));
    let there = if network == Network::Tap { keep(at([10, 99, 0, 1], 9)) } else { here };
    let made = |number| hostcall(number, [here, 16, 0, 0, 0, 0]) as u64;
    let out = keep(SocketAddress::default());
    let good = Good { here, there, out, listener: made(TCP_LISTEN), datagrams: made(UDP_BIND) };
    addresses(cases, &good);
    match network {
        Network::Host => off_the_list(cases, own, &good),
        Network::Tap => unowned(cases, own, &good),
    }
    numbers(cases, own, &good);
    listener(cases, own, &good);
    datagrams(cases, own, &good);
    stream(cases, own, &good, network);
    names(cases, own, &good);
    for socket in [good.listener, good.datagrams] {
        cases.add("its own", SOCKET_CLOSE, &[socket], 0);
        cases.refused("one that it has closed", SOCKET_CLOSE, &[socket], BadDescriptor);
    }
}

/// Where the name of a host is wanted.
fn names(cases: &mut Cases<'_>, own: &Own, good: &Good) {
    cases.bad("a name", HOST_LOOKUP, &[HERE, 16, good.out, 1], want(16, 1));
    for len in [0, HOST_NAME_MAX as u64 + 1, 4096, MIN, MAX] {
        cases.refused("a name of no length", HOST_LOOKUP, &[own.name, len, good.out, 1], Invalid);
    }
    for (what, name) in [
        ("a name that is no text", [0xff; 16]),
        ("a name with a zero byte", *b"localhost\0.other"),
        ("a name that is a path", *b"/etc/hosts/local"),
        ("a name that leads upwards", *b"localhost/../etc"),
        ("a name of dots", [b'.'; 16]),
        ("a name with an empty part", *b"local..host.test"),
        ("a name and a port", *b"local.host:65535"),
        ("a name with a line's end", *b"localhost\r\nother"),
        ("a name as a resolver has it", *b"\x09localhost\x05local"),
    ] {
        cases.refused(what, HOST_LOOKUP, &[keep(name), 16, good.out, 1], Invalid);
    }
    cases.refused("a name with a long part", HOST_LOOKUP, &[own.name, 64, good.out, 1], Invalid);
}

/// Where an address is wanted.
fn addresses(cases: &mut Cases<'_>, good: &Good) {
    let makers = [(TCP_LISTEN, [HERE, 16]), (TCP_CONNECT, [HERE, 0]), (UDP_BIND, [HERE, 0])];
    for (call, args) in makers {
        cases.bad("an address", call, &args, want(ADDRESS, 4));
        let with = |address: SocketAddress| args.map(|arg| if arg == HERE { keep(address) } else { arg });
        for family in [0, 5, 16, u32::MAX] {
            let address = SocketAddress { family, ..at([127, 0, 0, 1], 1) };
            cases.refused("an address of no family", call, &with(address), Invalid);
        }
        for port in [65_536, u32::MAX] {
            cases.refused("an address without a port", call, &with(at([127, 0, 0, 1], port)), Invalid);
        }
    }
    cases.bad("an address", UDP_CONNECT, &[good.datagrams, HERE], want(ADDRESS, 4));
    cases.refused("a socket of TCP", UDP_CONNECT, &[good.listener, good.there], NotSupported);
}

/// 127.0.0.1, as an address of IPv6.
fn mapped() -> SocketAddress {
    let mut mapped = SocketAddress { family: 6, ..at([0; 4], 1) };
    mapped.address[10..].copy_from_slice(&[255, 255, 127, 0, 0, 1]);
    mapped
}

/// What the list does not name.
fn off_the_list(cases: &mut Cases<'_>, own: &Own, good: &Good) {
    for (call, more) in [(TCP_LISTEN, 16), (TCP_CONNECT, 0), (UDP_BIND, 0)] {
        for address in [[127, 0, 0, 1], [0, 0, 0, 0], [169, 254, 169, 254], [255, 255, 255, 255]] {
            cases.refused("an address off the list", call, &[keep(at(address, 1)), more], NotPermitted);
        }
        cases.refused("an address off the list, as one of IPv6", call, &[keep(mapped()), more], NotPermitted);
    }
    let off = keep(at([127, 0, 0, 1], 1));
    cases.refused("an address off the list", UDP_CONNECT, &[good.datagrams, off], NotPermitted);
    cases.refused("an address off the list", SOCKET_SENDTO, &[good.datagrams, own.bytes, 16, off], NotPermitted);
    cases.refused("a name off the list", HOST_LOOKUP, &[own.name, 16, good.out, 1], NotPermitted);
    let local = keep(*b"localhost");
    cases.add("one address of this host", HOST_LOOKUP, &[local, 9, good.out, 1], 1);
    cases.bad("room", HOST_LOOKUP, &[local, 9, HERE, 1], room(ADDRESS, 4));
    cases.bad("very much room", HOST_LOOKUP, &[local, 9, HERE, MAX], room(ADDRESS, 4));
}

/// What is not the workflow's own, and what leads to itself.
fn unowned(cases: &mut Cases<'_>, own: &Own, good: &Good) {
    for address in [at([127, 0, 0, 1], 1), at([10, 99, 0, 1], 1), at([255; 4], 1), mapped()] {
        for (call, more) in [(TCP_LISTEN, 16), (UDP_BIND, 0)] {
            cases.refused("an address that is not its own", call, &[keep(address), more], AddressNotAvailable);
        }
    }
    for address in [at([127, 0, 0, 1], 1), at([0; 4], 1), at([10, 99, 0, 2], 1)] {
        let address = keep(address);
        cases.refused("an address of itself", TCP_CONNECT, &[address, MAX], NetworkUnreachable);
        cases.refused("an address of itself", UDP_CONNECT, &[good.datagrams, address], NetworkUnreachable);
        let args = [good.datagrams, own.bytes, 16, address];
        cases.refused("an address of itself", SOCKET_SENDTO, &args, NetworkUnreachable);
    }
    cases.refused("a name that is unknown", HOST_LOOKUP, &[own.name, 16, good.out, 1], NotFound);
    cases.add("a datagram", SOCKET_SENDTO, &[good.datagrams, own.bytes, 16, good.there], 16);
}

/// Where a socket is wanted.
fn numbers(cases: &mut Cases<'_>, own: &Own, good: &Good) {
    for (what, socket) in [
        ("a socket that does not exist", good.datagrams + 100),
        ("a socket far out", 1 << 20),
        ("a socket beyond 32 bits", 1 << 32 | good.datagrams),
        ("a socket without end", MAX),
        ("a negative socket", MIN),
    ] {
        for call in [TCP_ACCEPT, SOCKET_RECV, SOCKET_SEND, SOCKET_RECVFROM, SOCKET_SENDTO, SOCKET_CLOSE, SOCKET_DUP] {
            cases.refused(what, call, &[socket, own.bytes, 16, 0, good.here], BadDescriptor);
        }
        for call in [UDP_CONNECT, SOCKET_SHUTDOWN, SOCKET_GET_OPTION, SOCKET_SET_OPTION, SOCKET_GETNAME] {
            cases.refused(what, call, &[socket, 0, 0], BadDescriptor);
        }
    }
    for number in [8, MIN, MAX, 1 << 32] {
        cases.refused("no such option", SOCKET_GET_OPTION, &[good.listener, number], Invalid);
        cases.refused("no such option", SOCKET_SET_OPTION, &[good.listener, number, 0], Invalid);
        cases.refused("no such end", SOCKET_GETNAME, &[good.listener, number, good.out], Invalid);
        cases.refused("no such direction", SOCKET_SHUTDOWN, &[good.listener, number], Invalid);
    }
    for (option, value) in [
        (SocketOption::NonBlocking, 2),
        (SocketOption::NoDelay, MAX),
        (SocketOption::Broadcast, MIN),
        (SocketOption::Ttl, 0),
        (SocketOption::Ttl, 256),
        (SocketOption::Ttl, MAX),
        (SocketOption::Error, 0),
    ] {
        cases.refused("no such value", SOCKET_SET_OPTION, &[good.listener, option as u64, value], Invalid);
    }
    for option in [SocketOption::KeepAlive, SocketOption::ReadTimeout, SocketOption::WriteTimeout] {
        cases.add("any time at all", SOCKET_SET_OPTION, &[good.listener, option as u64, MAX], 0);
    }
    cases.add("its own address", SOCKET_GETNAME, &[good.listener, 0, good.out], 0);
    cases.bad("room", SOCKET_GETNAME, &[good.listener, 0, HERE], room(ADDRESS, 4));
    cases.refused("a peer it does not have", SOCKET_GETNAME, &[good.listener, 1, good.out], NotConnected);
}

fn listener(cases: &mut Cases<'_>, own: &Own, good: &Good) {
    let unless_null = |cases: &mut Cases<'_>, call, args: &[u64]| {
        for (label, address) in cases.addresses.bad(room(ADDRESS, 4)).into_iter().filter(|(_, address)| *address != 0) {
            let args: Vec<u64> = args.iter().map(|arg| if *arg == HERE { address } else { *arg }).collect();
            cases.refused(&format!("room {label}"), call, &args, Fault);
        }
    };
    unless_null(cases, TCP_ACCEPT, &[good.listener, HERE]);
    unless_null(cases, SOCKET_RECVFROM, &[good.datagrams, own.bytes, 16, 0, HERE]);
    cases.refused("a socket of UDP", TCP_ACCEPT, &[good.datagrams, good.out], NotSupported);
    cases.refused("a listener", SOCKET_RECV, &[good.listener, own.bytes, 16, 0], NotConnected);
    cases.refused("a listener", SOCKET_SEND, &[good.listener, own.bytes, 16], BrokenPipe);
    for call in [SOCKET_RECVFROM, SOCKET_SENDTO] {
        let args = match call {
            SOCKET_RECVFROM => [good.listener, own.bytes, 16, 0, good.out],
            _ => [good.listener, own.bytes, 16, good.here, 0],
        };
        cases.refused("a listener", call, &args, NotSupported);
    }
}

fn datagrams(cases: &mut Cases<'_>, own: &Own, good: &Good) {
    let nonblocking = SocketOption::NonBlocking as u64;
    cases.add("not to wait", SOCKET_SET_OPTION, &[good.datagrams, nonblocking, 1], 0);
    cases.refused("nothing there", SOCKET_RECV, &[good.datagrams, own.bytes, 16, 0], Errno::Again);
    cases.add("to wait", SOCKET_SET_OPTION, &[good.datagrams, nonblocking, 0], 0);
    cases.refused("no peer", SOCKET_SEND, &[good.datagrams, own.bytes, 16, 0], NoDestination);
    for flags in [DONT_WAIT, PEEK | DONT_WAIT] {
        cases.refused("nothing there", SOCKET_RECV, &[good.datagrams, own.bytes, 16, flags], Errno::Again);
        cases.refused("nothing there", SOCKET_RECVFROM, &[good.datagrams, own.bytes, 16, flags, 0], Errno::Again);
    }
    cases.add("not to wait", SOCKET_SET_OPTION, &[good.datagrams, nonblocking, 1], 0);
    let ranges: [(u32, &[u64], Want); 4] = [
        (SOCKET_RECV, &[good.datagrams, HERE, 16, 0], Want { touches: false, writes: false, ..room(16, 1) }),
        (SOCKET_RECVFROM, &[good.datagrams, HERE, 16, 0, 0], Want { touches: false, writes: false, ..room(16, 1) }),
        (SOCKET_SEND, &[good.datagrams, HERE, 16], Want { touches: false, ..want(16, 1) }),
        (SOCKET_SENDTO, &[good.datagrams, HERE, 16, good.there], Want { touches: false, ..want(16, 1) }),
    ];
    for (call, args, wanted) in ranges {
        cases.bad("bytes", call, args, wanted);
        let endless: Vec<u64> = args.iter().map(|arg| if *arg == 16 { MAX } else { *arg }).collect();
        let endless: Vec<u64> = endless.iter().map(|arg| if *arg == HERE { own.bytes } else { *arg }).collect();
        cases.refused("bytes without end", call, &endless, Fault);
    }
    for flags in [4, 5, 1 << 32 | DONT_WAIT, MIN, MAX] {
        cases.refused("no such flag", SOCKET_RECV, &[good.datagrams, own.bytes, 16, flags], Invalid);
        cases.refused("no such flag", SOCKET_RECVFROM, &[good.datagrams, own.bytes, 16, flags, 0], Invalid);
    }
    for flags in [PEEK, PEEK | DONT_WAIT, 4, 1 << 32 | DONT_WAIT, MIN, MAX] {
        cases.refused("no such flag", SOCKET_SEND, &[good.datagrams, own.bytes, 16, flags], Invalid);
        cases.refused("no such flag", SOCKET_SENDTO, &[good.datagrams, own.bytes, 16, good.there, flags], Invalid);
    }
    cases.bad("an address", SOCKET_SENDTO, &[good.datagrams, own.bytes, 16, HERE], want(ADDRESS, 4));
}

/// Where bytes of a connection go, and come from; some wait in it.
fn stream(cases: &mut Cases<'_>, own: &Own, good: &Good, network: Network) {
    let (stream, other) = connection(network);
    let len = TEXT.len() as u64;
    // What is refused leaves them where they are; what is looked at as well.
    cases.add("what waits", SOCKET_RECV, &[stream, own.bytes, 512, PEEK], len as i64);
    for flags in [0, PEEK] {
        cases.bad("bytes of a connection", SOCKET_RECV, &[stream, HERE, 16, flags], room(16, 1));
    }
    cases.bad("bytes for a connection", SOCKET_SEND, &[stream, HERE, 16], want(16, 1));
    for endless in [1 << 40, MIN, MAX] {
        cases.refused("bytes without end", SOCKET_RECV, &[stream, own.bytes, endless, 0], Fault);
        cases.refused("bytes without end", SOCKET_SEND, &[stream, own.bytes, endless], Fault);
    }
    for flags in [4, 5, 1 << 32 | DONT_WAIT, MIN, MAX] {
        cases.refused("no such flag", SOCKET_RECV, &[stream, own.bytes, 16, flags], Invalid);
    }
    cases.refused("a connection", SOCKET_RECVFROM, &[stream, own.bytes, 16, 0, good.out], NotSupported);
    cases.refused("a connection", SOCKET_SENDTO, &[stream, own.bytes, 16, good.there], NotSupported);
    cases.refused("a connection", UDP_CONNECT, &[stream, good.there], NotSupported);
    cases.refused("a connection", TCP_ACCEPT, &[stream, good.out], Invalid);
    cases.bad("room", SOCKET_GETNAME, &[stream, SocketEnd::Peer as u64, HERE], room(ADDRESS, 4));
    for direction in [3, MIN, MAX] {
        cases.refused("no such direction", SOCKET_SHUTDOWN, &[stream, direction], Invalid);
    }
    cases.add("no bytes at all", SOCKET_RECV, &[stream, own.bytes, 0, 0], 0);
    cases.add("what waited", SOCKET_RECV, &[stream, own.bytes, 512, 0], len as i64);
    cases.refused("nothing waits", SOCKET_RECV, &[stream, own.bytes, 512, DONT_WAIT], Errno::Again);
    for flags in [PEEK, PEEK | DONT_WAIT, 4, 1 << 32 | DONT_WAIT, MIN, MAX] {
        cases.refused("no such flag", SOCKET_SEND, &[stream, own.bytes, len, flags], Invalid);
    }
    cases.add("its own bytes", SOCKET_SEND, &[stream, own.bytes, len, DONT_WAIT], len as i64);
    if let Some(other) = other {
        cases.add("what was written, and no more", SOCKET_RECV, &[other, own.bytes, 512, 0], len as i64);
        cases.add("its own", SOCKET_CLOSE, &[other], 0);
    }
    cases.add("the end", SOCKET_SHUTDOWN, &[stream, SocketShutdown::Write as u64], 0);
    cases.refused("after the end", SOCKET_SEND, &[stream, own.bytes, len], BrokenPipe);
    cases.add("its own", SOCKET_CLOSE, &[stream], 0);
}
