//! What Rust's std does not ask for: calls in the wrong order, options, and waiting for sockets, clocks and the standard input together.

use wasip2::cli::stdin::get_stdin;
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::io::poll::poll;
use wasip2::io::streams::StreamError;
use wasip2::sockets::instance_network::instance_network;
use wasip2::sockets::ip_name_lookup::resolve_addresses;
use wasip2::sockets::network::{ErrorCode, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, Ipv6SocketAddress};
use wasip2::sockets::tcp::ShutdownType;
use wasip2::sockets::tcp_create_socket::create_tcp_socket;
use wasip2::sockets::udp::OutgoingDatagram;
use wasip2::sockets::udp_create_socket::create_udp_socket;

const DAY: u64 = 86_400_000_000_000;
const LOOPBACK: IpSocketAddress = IpSocketAddress::Ipv4(Ipv4SocketAddress { port: 0, address: (127, 0, 0, 1) });

/// An address of IPv6 without flow and scope.
fn six_at(address: [u16; 8], port: u16) -> IpSocketAddress {
    IpSocketAddress::Ipv6(Ipv6SocketAddress { port, flow_info: 0, address: address.into(), scope_id: 0 })
}

/// TCP: each state refuses what belongs to another.
pub(crate) fn tcp() -> Result<String, ErrorCode> {
    let network = instance_network();
    let server = create_tcp_socket(IpAddressFamily::Ipv4)?;
    assert_eq!(server.finish_bind(), Err(ErrorCode::NotInProgress));
    assert_eq!(server.finish_connect().map(drop), Err(ErrorCode::NotInProgress));
    assert_eq!(server.start_listen(), Err(ErrorCode::InvalidState));
    assert_eq!(server.accept().map(drop), Err(ErrorCode::InvalidState));
    assert_eq!(server.local_address().map(drop), Err(ErrorCode::InvalidState));
    assert_eq!(server.shutdown(ShutdownType::Both), Err(ErrorCode::InvalidState));
    let multicast = IpSocketAddress::Ipv4(Ipv4SocketAddress { port: 1, address: (224, 0, 0, 1) });
    assert_eq!(server.start_bind(&network, multicast), Err(ErrorCode::InvalidArgument));
    server.start_bind(&network, LOOPBACK)?;
    assert_eq!(server.start_listen(), Err(ErrorCode::ConcurrencyConflict));
    server.finish_bind()?;
    assert_eq!(server.start_bind(&network, LOOPBACK), Err(ErrorCode::InvalidState));
    assert_eq!(server.start_connect(&network, LOOPBACK), Err(ErrorCode::InvalidArgument));
    assert_eq!(server.set_listen_backlog_size(0), Err(ErrorCode::InvalidArgument));
    server.set_listen_backlog_size(5)?;
    for (set, kept) in [
        (server.set_hop_limit(0), server.set_hop_limit(9)),
        (server.set_receive_buffer_size(0), server.set_receive_buffer_size(4096)),
        (server.set_keep_alive_idle_time(0), server.set_keep_alive_idle_time(DAY / 24)),
        (server.set_keep_alive_count(0), server.set_keep_alive_count(3)),
    ] {
        assert_eq!((set, kept), (Err(ErrorCode::InvalidArgument), Ok(())));
    }
    server.set_keep_alive_enabled(true)?;
    server.start_listen()?;
    assert!(!server.is_listening());
    server.finish_listen()?;
    assert!(server.is_listening());
    assert_eq!(server.start_listen(), Err(ErrorCode::InvalidState));
    assert_eq!(server.accept().map(drop), Err(ErrorCode::WouldBlock));

    // A clock, then a connection, while the standard input does not come.
    let input = get_stdin();
    let (typed, comes, never) = (input.subscribe(), server.subscribe(), subscribe_duration(DAY));
    assert_eq!(poll(&[&typed, &comes, &subscribe_duration(1_000_000)]), [2]);
    let client = create_tcp_socket(IpAddressFamily::Ipv4)?;
    client.start_connect(&network, server.local_address()?)?;
    assert_eq!(client.start_connect(&network, server.local_address()?), Err(ErrorCode::ConcurrencyConflict));
    client.subscribe().block();
    let (from_server, to_server) = client.finish_connect()?;
    assert_eq!(client.start_connect(&network, server.local_address()?), Err(ErrorCode::InvalidState));
    assert_eq!(poll(&[&typed, &never, &comes]), [2]);
    let (accepted, from_client, to_client) = server.accept()?;
    assert_eq!((accepted.hop_limit()?, accepted.keep_alive_enabled()?, accepted.keep_alive_count()?), (9, true, 3));

    // Nothing is there, then something.
    let bytes = from_client.subscribe();
    assert_eq!(from_client.read(8).expect("a connection"), b"");
    assert!(!bytes.ready());
    assert!(to_server.check_write().expect("room") >= 4096);
    to_server.write(b"ping").expect("written");
    assert_eq!(poll(&[&typed, &bytes, &never]), [1]);
    assert_eq!(from_client.skip(1).expect("a byte"), 1);
    assert_eq!(to_client.splice(&from_client, 2).expect("bytes"), 2);
    assert_eq!(from_server.blocking_read(8).expect("bytes"), b"in");
    client.shutdown(ShutdownType::Send)?;
    assert!(matches!(to_server.write(b""), Ok(()) | Err(StreamError::Closed)));
    assert!(matches!(to_server.check_write(), Err(StreamError::Closed)));
    assert_eq!(from_client.blocking_read(8).expect("bytes"), b"g");
    assert!(matches!(from_client.blocking_read(8), Err(StreamError::Closed)));
    Ok("as WASI has it".to_owned())
}

/// UDP, and names.
pub(crate) fn others() -> Result<String, ErrorCode> {
    let network = instance_network();
    let (one, two) = (create_udp_socket(IpAddressFamily::Ipv4)?, create_udp_socket(IpAddressFamily::Ipv4)?);
    assert_eq!(one.stream(None).map(drop), Err(ErrorCode::InvalidState));
    assert_eq!(one.finish_bind(), Err(ErrorCode::NotInProgress));
    for socket in [&one, &two] {
        socket.start_bind(&network, LOOPBACK)?;
        socket.finish_bind()?;
    }
    assert_eq!(one.start_bind(&network, LOOPBACK), Err(ErrorCode::InvalidState));
    let (_, to_two) = one.stream(None)?;
    let (from_one, _) = two.stream(Some(one.local_address()?))?;
    let come = from_one.subscribe();
    assert!(from_one.receive(5)?.is_empty() && !come.ready());
    // Before that it may be said that there is no room yet.
    to_two.subscribe().block();
    assert!(to_two.check_send()? >= 2);
    let datagram = |to| OutgoingDatagram { data: b"ping".to_vec(), remote_address: to };
    assert_eq!(to_two.send(&[datagram(None)]), Err(ErrorCode::InvalidArgument));
    let to = two.local_address()?;
    assert_eq!(to_two.send(&[datagram(Some(to)), datagram(Some(to))]), Ok(2));
    assert_eq!(poll(&[&subscribe_duration(DAY), &come]), [1]);
    assert_eq!(from_one.receive(1)?.len(), 1);
    assert_eq!(from_one.receive(9)?[0].data, b"ping");

    for wrong in ["", "a..b", "a b", "ä.example"] {
        assert_eq!(resolve_addresses(&network, wrong).map(drop), Err(ErrorCode::InvalidArgument));
    }
    let found = resolve_addresses(&network, "localhost")?;
    poll(&[&subscribe_duration(DAY), &found.subscribe()]);
    let mut count = 0;
    while found.resolve_next_address()?.is_some() {
        count += 1;
    }
    assert!(count > 0);
    Ok("as WASI has it".to_owned())
}

/// IPv6: a socket of one family has no addresses of the other, and says of which it is.
pub(crate) fn six() -> Result<String, ErrorCode> {
    let network = instance_network();
    let here = six_at([0, 0, 0, 0, 0, 0, 0, 1], 0);
    let others = [
        LOOPBACK,
        // 127.0.0.1, spelled as IPv6, and a group.
        six_at([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1], 0),
        six_at([0xff02, 0, 0, 0, 0, 0, 0, 1], 0),
    ];
    let (four, server) = (create_tcp_socket(IpAddressFamily::Ipv4)?, create_tcp_socket(IpAddressFamily::Ipv6)?);
    assert_eq!(four.start_bind(&network, here), Err(ErrorCode::InvalidArgument));
    let datagrams = create_udp_socket(IpAddressFamily::Ipv6)?;
    for other in others {
        assert_eq!(server.start_bind(&network, other), Err(ErrorCode::InvalidArgument));
        assert_eq!(datagrams.start_bind(&network, other), Err(ErrorCode::InvalidArgument));
    }
    assert_eq!(server.address_family(), IpAddressFamily::Ipv6);
    server.start_bind(&network, here)?;
    server.finish_bind()?;
    server.start_listen()?;
    server.finish_listen()?;
    let IpSocketAddress::Ipv6(at) = server.local_address()? else { return Err(ErrorCode::Unknown) };
    assert_eq!((at.address, at.flow_info, at.scope_id, at.port != 0), ((0, 0, 0, 0, 0, 0, 0, 1), 0, 0, true));

    let client = create_tcp_socket(IpAddressFamily::Ipv6)?;
    for wrong in [six_at([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1], at.port), six_at([0; 8], at.port), here] {
        assert_eq!(client.start_connect(&network, wrong), Err(ErrorCode::InvalidArgument));
    }
    client.start_connect(&network, IpSocketAddress::Ipv6(at))?;
    client.subscribe().block();
    let (from_server, _to_server) = client.finish_connect()?;
    server.subscribe().block();
    let (accepted, _from_client, to_client) = server.accept()?;
    assert_eq!(accepted.address_family(), IpAddressFamily::Ipv6);
    to_client.blocking_write_and_flush(b"six").expect("written");
    assert_eq!(from_server.blocking_read(8).expect("bytes"), b"six");
    let ends = [accepted.remote_address()?, client.local_address()?];
    assert!(
        matches!(ends, [IpSocketAddress::Ipv6(from), IpSocketAddress::Ipv6(own)] if (from.port, from.address) == (own.port, own.address))
    );

    datagrams.start_bind(&network, here)?;
    datagrams.finish_bind()?;
    assert_eq!(datagrams.address_family(), IpAddressFamily::Ipv6);
    let (received, sent) = datagrams.stream(None)?;
    let own = datagrams.local_address()?;
    sent.subscribe().block();
    assert!(sent.check_send()? >= 1);
    for wrong in [LOOPBACK, six_at([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1], 9), six_at([0; 8], 9)] {
        let datagram = OutgoingDatagram { data: b"no".to_vec(), remote_address: Some(wrong) };
        assert_eq!(sent.send(&[datagram]), Err(ErrorCode::InvalidArgument));
    }
    assert_eq!(sent.send(&[OutgoingDatagram { data: b"to itself".to_vec(), remote_address: Some(own) }]), Ok(1));
    received.subscribe().block();
    let got = received.receive(1)?;
    assert!(matches!(got[0].remote_address, IpSocketAddress::Ipv6(from) if from.address == at.address), "the sender");
    assert_eq!(got[0].data, b"to itself");
    Ok("as WASI has it".to_owned())
}
