//! `std::net`: addresses as values. What is sent over sockets has a tour of its own.

use super::check;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};

pub(super) fn all() {
    check!(
        "v4",
        (
            Ipv4Addr::LOCALHOST,
            Ipv4Addr::new(10, 0, 0, 1).is_private(),
            "224.0.0.1".parse::<Ipv4Addr>().map(|a| a.is_multicast()),
            Ipv4Addr::from_bits(1)
        )
    );
    check!(
        "v4_refused",
        ["1.2.3", "1.2.3.256", "01.2.3.4", "a"].map(|text| text.parse::<Ipv4Addr>().map_err(|e| e.to_string()))
    );
    check!(
        "v6",
        (
            Ipv6Addr::LOCALHOST,
            "::ffff:1.2.3.4".parse::<Ipv6Addr>().map(|a| a.to_ipv4_mapped()),
            "2001:db8:0:0:1::".parse::<Ipv6Addr>(),
            "::1::".parse::<Ipv6Addr>().is_err()
        )
    );
    check!(
        "either",
        ["127.0.0.1", "::1", "x"].map(|text| text.parse::<IpAddr>().map(|a| (a.is_loopback(), a.is_ipv4())).ok())
    );
    check!(
        "with_ports",
        (
            SocketAddrV4::new(Ipv4Addr::LOCALHOST, 80),
            SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 443, 0, 2),
            "[::1]:8080".parse::<SocketAddr>(),
            "1.2.3.4".parse::<SocketAddr>().is_err()
        )
    );
    check!("changed", {
        let mut a = SocketAddr::from(([1, 2, 3, 4], 5));
        a.set_port(6);
        a.set_ip(Ipv6Addr::LOCALHOST.into());
        (a, a.port(), a.is_ipv6())
    });
    check!(
        "ordered",
        (
            Ipv4Addr::new(1, 0, 0, 0) < Ipv4Addr::new(2, 0, 0, 0),
            IpAddr::from([1, 1, 1, 1]) < IpAddr::from(Ipv6Addr::UNSPECIFIED)
        )
    );
    check!(
        "padded",
        format!("[{:>12}] [{:<8}] [{:?}]", Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST, SocketAddr::from(([0; 4], 0)))
    );
    check!(
        "to_socket_addrs",
        (
            ("127.0.0.1", 7).to_socket_addrs().map(Iterator::collect::<Vec<_>>).ok(),
            "[::1]:9".to_socket_addrs().map(Iterator::collect::<Vec<_>>).ok(),
            "no port".to_socket_addrs().map(|_| ()).map_err(|e| e.kind())
        )
    );
}
