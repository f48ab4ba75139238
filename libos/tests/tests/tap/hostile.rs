//! Hostile frames: whatever they contain, the module continues and serves the others.

use crate::ME;
use crate::peer::{Seen, World};
use core::net::{IpAddr, SocketAddr};
use monohull_abi::network::{FRAME_HEADER, FRAME_MAX, SocketOption};
use monohull_abi::number::{
    SOCKET_CLOSE, SOCKET_RECV, SOCKET_SEND, SOCKET_SET_OPTION, TCP_ACCEPT, TCP_LISTEN, UDP_BIND,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ETHERNET_HEADER_LEN, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, IpRepr,
    Ipv4Packet, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber, UdpPacket, UdpRepr,
};

/// The header of a frame whose checksum has been verified.
const CHECKED: [u8; FRAME_HEADER] = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// An empty segment, to be changed.
pub(crate) const SEGMENT: TcpRepr<'static> = TcpRepr {
    src_port: 0,
    dst_port: 0,
    control: TcpControl::None,
    seq_number: TcpSeqNumber(0),
    ack_number: None,
    window_len: 10_000,
    window_scale: None,
    max_seg_size: None,
    sack_permitted: false,
    sack_ranges: [None; 3],
    timestamp: None,
    payload: &[],
};

/// A frame with an IP packet whose content `fill` writes.
fn frame(from: IpAddr, to: IpAddr, what: IpProtocol, len: usize, fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let ip = IpRepr::new(from.into(), to.into(), what, len, 64);
    let mut frame = vec![0; ETHERNET_HEADER_LEN + ip.buffer_len()];
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress([2, 0, 0, 0, 0, 2]),
        dst_addr: EthernetAddress([2, 0, 0, 0, 0, 1]),
        ethertype: match from {
            IpAddr::V4(_) => EthernetProtocol::Ipv4,
            IpAddr::V6(_) => EthernetProtocol::Ipv6,
        },
    };
    ethernet.emit(&mut EthernetFrame::new_unchecked(&mut frame));
    ip.emit(&mut frame[ETHERNET_HEADER_LEN..], &ChecksumCapabilities::default());
    fill(&mut frame[ETHERNET_HEADER_LEN + ip.header_len()..]);
    frame
}

/// A frame with a TCP segment, its checksum right.
pub(crate) fn segment(from: SocketAddr, to: SocketAddr, segment: &TcpRepr<'_>) -> Vec<u8> {
    let segment = TcpRepr { src_port: from.port(), dst_port: to.port(), ..*segment };
    frame(from.ip(), to.ip(), IpProtocol::Tcp, segment.buffer_len(), |room| {
        let checksums = ChecksumCapabilities::default();
        segment.emit(&mut TcpPacket::new_unchecked(room), &from.ip().into(), &to.ip().into(), &checksums);
    })
}

/// A frame with a datagram, its checksum right.
fn datagram(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let udp = UdpRepr { src_port: from.port(), dst_port: to.port() };
    frame(from.ip(), to.ip(), IpProtocol::Udp, udp.header_len() + payload.len(), |room| {
        let (mut packet, checksums) = (UdpPacket::new_unchecked(room), ChecksumCapabilities::default());
        let fill = |room: &mut [u8]| room.copy_from_slice(payload);
        udp.emit(&mut packet, &from.ip().into(), &to.ip().into(), payload.len(), fill, &checksums);
    })
}

/// A world with a listener and a datagram socket.
fn listening() -> (World, u64) {
    let mut world = World::new();
    let at = world.address("0.0.0.0:80".parse().unwrap());
    world.ok(UDP_BIND, [at]);
    let listener = world.ok(TCP_LISTEN, [at, 8]);
    (world, listener)
}

/// Everything still works.
fn still_serves(mut world: World, listener: u64) {
    world.run(3);
    // What hostile connections hold up goes with its listener; a new one takes its place.
    world.ok(SOCKET_CLOSE, [listener]);
    let at = world.address("0.0.0.0:81".parse().unwrap());
    let listener = world.ok(TCP_LISTEN, [at, 8]);
    // It may still be busy with a connection that another test case has broken.
    world.peer_resets();
    world.peer_connects(81);
    let socket = world.ok(TCP_ACCEPT, [listener, world.room()]);
    world.peer_writes(b"hello");
    assert_eq!(world.read_exactly(socket, 5), b"hello");
    world.domain.end(ME, monohull_abi::module::Ending::Done);
}

/// Addresses that a packet may name: ours, the peer's, and those that stand for no host, for all hosts, or for something
/// that is not here. Both are of one kind.
fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    const V4: [&str; 8] =
        ["10.0.0.1", "10.0.0.2", "0.0.0.0", "255.255.255.255", "10.0.0.255", "224.0.0.1", "127.0.0.1", "192.0.2.9"];
    const V6: [&str; 7] = ["fd00::1", "fd00::2", "::", "ff02::1", "::1", "fe80::1", "2001:db8::9"];
    let pair = |all: &'static [&str]| (select(all), select(all));
    prop_oneof![pair(&V4), pair(&V6)].prop_map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap()))
}

/// Segments with any content that the format permits.
fn segments() -> impl Strategy<Value = TcpRepr<'static>> {
    const CONTROLS: [TcpControl; 5] =
        [TcpControl::None, TcpControl::Psh, TcpControl::Syn, TcpControl::Fin, TcpControl::Rst];
    static PAYLOAD: [u8; 1400] = [7; 1400];
    let numbers = (any::<i32>(), any::<Option<i32>>(), any::<u16>());
    let options = (any::<Option<u8>>(), any::<Option<u16>>(), any::<bool>(), any::<Option<(u32, u32)>>());
    (select(&CONTROLS[..]), numbers, options, 0..PAYLOAD.len()).prop_map(|(control, numbers, options, len)| {
        let (number, acknowledged, window_len) = numbers;
        let (window_scale, max_seg_size, sack_permitted, sack) = options;
        TcpRepr {
            control,
            seq_number: TcpSeqNumber(number),
            ack_number: acknowledged.map(TcpSeqNumber),
            window_len,
            window_scale,
            max_seg_size,
            sack_permitted,
            sack_ranges: [sack, None, None],
            payload: &PAYLOAD[..len],
            ..SEGMENT
        }
    })
}

/// Frames with well-formed headers and any content.
fn whole_frames() -> impl Strategy<Value = Vec<u8>> {
    let ports = || select(&[0u16, 53, 79, 80, 1000, 65_535][..]);
    let ends = move || {
        (addresses(), ports(), ports())
            .prop_map(|((from, to), out, into)| (SocketAddr::new(from, out), SocketAddr::new(to, into)))
    };
    let tcp = (ends(), segments()).prop_map(|((from, to), what)| segment(from, to, &what));
    let udp = (ends(), vec(any::<u8>(), 0..600)).prop_map(|((from, to), what)| datagram(from, to, &what));
    // Also ICMP of both kinds, fragments' and other headers of IPv6.
    let others = (addresses(), select(&[0u8, 1, 2, 43, 44, 58, 59, 60][..]), vec(any::<u8>(), 0..200));
    let others = others.prop_map(|((from, to), what, content)| {
        frame(from, to, what.into(), content.len(), |room| room.copy_from_slice(&content))
    });
    prop_oneof![tcp, udp, others]
}

fn frames() -> impl Strategy<Value = Vec<u8>> {
    // Frames with some bytes changed, cut or lengthened; the checksum of IPv4 is corrected, or they would be dropped at once.
    let bent = (whole_frames(), vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), 0usize..200).prop_map(
        |(mut frame, changes, len)| {
            for (place, byte) in changes {
                let place = place.index(frame.len());
                frame[place] = byte;
            }
            if len < 100 {
                frame.truncate(len.max(1));
            }
            let four = frame.get(12..14) == Some(&[8, 0]);
            if let Some(Ok(mut packet)) = frame.get_mut(14..).filter(|_| four).map(Ipv4Packet::new_checked) {
                packet.fill_checksum();
            }
            frame
        },
    );
    prop_oneof![4 => whole_frames(), 4 => bent, 1 => vec(any::<u8>(), 0..200)]
}

/// The header of a frame: anything, or what makes the frame believed.
fn headers() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(CHECKED.to_vec()), vec(any::<u8>(), FRAME_HEADER)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn any_frames_at_all(frames in vec((headers(), frames()), 1..60)) {
        let (mut world, listener) = listening();
        for (mut whole, frame) in frames {
            whole.extend_from_slice(&frame);
            world.domain.frame_arrives(&whole);
            world.run(1);
        }
        still_serves(world, listener);
    }

    #[test]
    fn frames_of_any_length(bytes in vec(any::<u8>(), 0..64), len in 0usize..FRAME_MAX) {
        let (mut world, listener) = listening();
        let mut frame = bytes;
        frame.resize(len, 0x45);
        world.domain.frame_arrives(&frame);
        world.run(1);
        still_serves(world, listener);
    }

    /// An attacker on the wire knows a connection's numbers and sends anything in it. The connection may be lost, and no more.
    #[test]
    fn a_liar_inside_a_connection(lies in vec((segments(), -70_000i32..70_000, -70_000i32..70_000), 1..40)) {
        let (mut world, listener) = listening();
        world.peer_connects(80);
        let socket = world.ok(TCP_ACCEPT, [listener, world.room()]);
        world.ok(SOCKET_SET_OPTION, [socket, SocketOption::NonBlocking as u64, 1]);
        let bytes = world.bytes(&[7; 50_000]);
        for (lie, ahead, acknowledged) in lies {
            world.call(SOCKET_SEND, [socket, bytes, 50_000]);
            world.run(1);
            let Some(&Seen { number, acknowledges, to, .. }) = world.seen.last() else { panic!("nothing was sent") };
            let lie = TcpRepr {
                seq_number: TcpSeqNumber(acknowledges.0.wrapping_add(ahead)),
                ack_number: lie.ack_number.map(|_| TcpSeqNumber(number.0.wrapping_add(acknowledged))),
                ..lie
            };
            let (from, own) = (SocketAddr::new(World::PEER4, to), SocketAddr::new(World::OWN4, 80));
            world.frame(&segment(from, own, &lie));
            world.run(1);
            world.call(SOCKET_RECV, [socket, bytes, 50_000, 0]);
        }
        world.call(SOCKET_CLOSE, [socket]);
        world.seen.clear();
        still_serves(world, listener);
    }
}

#[test]
fn a_flood_of_first_segments_leaves_the_others_alone() {
    let (mut world, listener) = listening();
    for number in 0..5000u32 {
        let from = SocketAddr::new(IpAddr::from([10, 0, 0, (number % 250) as u8 + 3]), (number / 250) as u16 + 1);
        world.first_segment(from, 80);
        if number % 100 == 0 {
            world.run(1);
        }
    }
    still_serves(world, listener);
}
