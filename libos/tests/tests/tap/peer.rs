//! The other computer: a second smoltcp, and the wire between the two.

use crate::ME;
use crate::hostile::{SEGMENT, segment};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use monohull_abi::Errno;
use monohull_abi::module::Wake;
use monohull_abi::network::{FRAME_HEADER, FRAME_MAX, SocketAddress, TapConfig};
use monohull_abi::number::{SOCKET_GETNAME, SOCKET_RECV, SOCKET_SEND};
use monohull_libos_socket::MONOHULL_MODULE;
use monohull_module_testing::{Domain, Step};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpCidr, IpProtocol, Ipv4Packet, Ipv6Packet, TcpControl,
    TcpPacket, TcpRepr, TcpSeqNumber,
};
use std::collections::VecDeque;

const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// How far the clock goes between two looks at the wire.
const STEP_NS: u64 = 1_000_000;
/// After so many steps something that should happen is given up.
const STEPS_MAX: u32 = 200_000;

/// A segment that has left the module.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) to: u16,
    pub(crate) syn: bool,
    pub(crate) ack: bool,
    pub(crate) number: TcpSeqNumber,
    pub(crate) acknowledges: TcpSeqNumber,
    /// Bytes in it.
    pub(crate) len: usize,
}

/// What happens to a frame on the wire.
pub(crate) type Fate = Box<dyn FnMut(Vec<u8>) -> Vec<(u64, Vec<u8>)>>;

/// What the peer answers to a datagram, if it does.
pub(crate) type Server = Box<dyn FnMut(&[u8]) -> Option<Vec<u8>>>;

/// The module, the peer, and the wire.
pub(crate) struct World {
    pub(crate) domain: Domain,
    /// Nothing gets through.
    pub(crate) cut: bool,
    /// What the wire does to each frame: what arrives, and after how many ns. By default all of it, at once.
    pub(crate) fate: Fate,
    pub(crate) seen: Vec<Seen>,
    now: u64,
    device: Wire,
    iface: Interface,
    sockets: SocketSet<'static>,
    stream: SocketHandle,
    datagrams: SocketHandle,
    /// What the peer has read, and what it has still to write.
    taken: Vec<u8>,
    waiting: VecDeque<u8>,
    /// On their way: time of arrival, destination, bytes.
    flying: Vec<(u64, bool, Vec<u8>)>,
    server: Option<Server>,
}

#[derive(Default)]
struct Wire {
    arrived: VecDeque<Vec<u8>>,
    left: Vec<Vec<u8>>,
}

impl World {
    pub(crate) const OWN4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
    pub(crate) const PEER4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const OWN6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
    const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);

    pub(crate) fn new() -> World {
        World::with(config())
    }

    pub(crate) fn with(config: TapConfig) -> World {
        let domain = Domain::start_with_tap(&MONOHULL_MODULE, config);
        let mut device = Wire::default();
        let mut iface = Interface::new(Config::new(EthernetAddress(PEER_MAC).into()), &mut device, Instant::ZERO);
        iface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(World::PEER4.into(), 24)).unwrap();
            addresses.push(IpCidr::new(World::PEER6.into(), 64)).unwrap();
        });
        let mut sockets = SocketSet::new(Vec::new());
        let buffer = || tcp::SocketBuffer::new(vec![0; 1 << 20]);
        let stream = sockets.add(tcp::Socket::new(buffer(), buffer()));
        let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 64], vec![0; 1 << 20]);
        let datagrams = sockets.add(udp::Socket::new(buffer(), buffer()));
        let fate: Fate = Box::new(|frame| vec![(0, frame)]);
        World {
            domain,
            cut: false,
            fate,
            seen: Vec::new(),
            now: STEP_NS,
            device,
            iface,
            sockets,
            stream,
            datagrams,
            taken: Vec::new(),
            waiting: VecDeque::new(),
            flying: Vec::new(),
            server: None,
        }
    }

    /// The same world with another domain in it.
    pub(crate) fn with_domain(self, change: impl FnOnce(Domain) -> Domain) -> World {
        World { domain: change(self.domain), ..self }
    }

    pub(crate) fn time(&self) -> u64 {
        self.now
    }

    /// Lets this many steps pass.
    pub(crate) fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            self.step();
        }
    }

    /// Time goes on, frames go over the wire, both sides look at theirs.
    fn step(&mut self) {
        self.now += STEP_NS;
        self.domain.set_time(self.now, 0);
        self.domain.poll();
        self.refill();
        let now = Instant::from_micros((self.now / 1000) as i64);
        while self.iface.poll(now, &mut self.device, &mut self.sockets) != smoltcp::iface::PollResult::None {
            self.serve();
        }
        let from_us = self.domain.take_frames().into_iter().map(|frame| frame[FRAME_HEADER..].to_vec());
        let leaving: Vec<_> = from_us.map(|frame| (true, frame)).collect();
        let leaving: Vec<_> =
            leaving.into_iter().chain(self.device.left.drain(..).map(|frame| (false, frame))).collect();
        for (to_peer, frame) in leaving {
            if to_peer && let Some(packet) = segment_in(&frame) {
                self.seen.push(Seen {
                    to: packet.dst_port(),
                    syn: packet.syn(),
                    ack: packet.ack(),
                    number: packet.seq_number(),
                    acknowledges: packet.ack_number(),
                    len: packet.payload().len(),
                });
            }
            if !self.cut {
                let arriving = (self.fate)(frame).into_iter();
                self.flying.extend(arriving.map(|(after, frame)| (self.now + after, to_peer, frame)));
            }
        }
        let now = self.now;
        let mut arrived: Vec<_> = self.flying.extract_if(.., |(at, _, _)| *at <= now).collect();
        arrived.sort_by_key(|(at, _, _)| *at);
        for (_, to_peer, frame) in arrived {
            match to_peer {
                true => self.device.arrived.push_back(frame),
                false => self.frame(&frame),
            }
        }
    }

    /// A frame arrives at the module, its checksum to be verified.
    pub(crate) fn frame(&self, frame: &[u8]) {
        let mut whole = vec![0; FRAME_HEADER];
        whole.extend_from_slice(frame);
        self.domain.frame_arrives(&whole);
    }

    /// Makes a hostcall and waits for its end while the world goes on.
    pub(crate) fn call<const N: usize>(&mut self, number: u32, args: [u64; N]) -> i64 {
        let mut all = [0; 6];
        all[..N].copy_from_slice(&args);
        self.domain.set_time(self.now, 0);
        let mut call = self.domain.prepare(ME, number, all);
        for _ in 0..STEPS_MAX {
            match self.domain.step(&mut call) {
                Step::Ready(value) => return value,
                Step::Parked { deadline, .. } => {
                    self.step();
                    call.wake = if self.now >= deadline { Wake::TimedOut } else { Wake::Woken };
                }
            }
        }
        panic!("{number} waits for ever");
    }

    #[track_caller]
    pub(crate) fn ok<const N: usize>(&mut self, number: u32, args: [u64; N]) -> u64 {
        let value = self.call(number, args);
        assert!(value >= 0, "{number}: {value} ({})", self.domain.explained());
        value as u64
    }

    pub(crate) fn bytes(&self, bytes: &[u8]) -> u64 {
        self.domain.place(ME, bytes)
    }

    pub(crate) fn address(&self, address: SocketAddr) -> u64 {
        let address = SocketAddress::from(address);
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&address.family.to_ne_bytes());
        bytes.extend_from_slice(&address.port.to_ne_bytes());
        bytes.extend_from_slice(&address.address);
        bytes.extend_from_slice(&[0; 8]);
        self.bytes(&bytes)
    }

    /// Room for an address.
    pub(crate) fn room(&self) -> u64 {
        self.bytes(&[0; 32])
    }

    pub(crate) fn read_address(&self, at: u64) -> SocketAddr {
        let bytes = self.domain.peek(at, 32);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let address = bytes[8..24].try_into().unwrap();
        SocketAddress { family: word(0), port: word(4), address, flow: 0, scope: 0 }.decode().expect("an address")
    }

    pub(crate) fn name(&mut self, socket: u64, end: u64) -> SocketAddr {
        let out = self.room();
        self.ok(SOCKET_GETNAME, [socket, end, out]);
        self.read_address(out)
    }

    pub(crate) fn write_all(&mut self, socket: u64, data: &[u8]) {
        let at = self.bytes(data);
        let mut done = 0;
        while done < data.len() {
            // The peer reads along, or the windows would be full.
            self.drain();
            done += self.ok(SOCKET_SEND, [socket, at + done as u64, (data.len() - done) as u64]) as usize;
        }
    }

    pub(crate) fn read(&mut self, socket: u64) -> Result<Vec<u8>, Errno> {
        let room = self.bytes(&[0; 100_000]);
        let value = self.call(SOCKET_RECV, [socket, room, 100_000, 0]);
        Errno::from_value(value).map(|len| self.domain.peek(room, len as usize))
    }

    #[track_caller]
    pub(crate) fn read_exactly(&mut self, socket: u64, len: usize) -> Vec<u8> {
        let mut all = Vec::new();
        let room = self.bytes(&[0; 100_000]);
        while all.len() < len {
            let read = self.ok(SOCKET_RECV, [socket, room, 100_000.min(len - all.len()) as u64, 0]);
            assert!(read > 0, "it ended after {} of {len} bytes", all.len());
            all.extend(self.domain.peek(room, read as usize));
        }
        all
    }
}

/// What the peer does.
impl World {
    fn peer(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.stream)
    }

    pub(crate) fn peer_six(&self, port: u16) -> SocketAddr {
        SocketAddr::new(World::PEER6.into(), port)
    }

    pub(crate) fn peer_listens(&mut self, port: u16) -> SocketAddr {
        let peer = self.peer();
        peer.abort();
        self.run(2);
        self.peer().listen(port).expect("a free socket");
        SocketAddr::new(World::PEER4, port)
    }

    pub(crate) fn peer_connects(&mut self, port: u16) {
        let to = SocketAddr::new(World::OWN4, port);
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(self.stream);
        socket.connect(self.iface.context(), to, 50_000).expect("an address");
    }

    /// Takes what the peer has read into a place for [`World::peer_reads`].
    fn drain(&mut self) {
        let read = |world: &mut World| {
            let (peer, taken) = (world.sockets.get_mut::<tcp::Socket<'_>>(world.stream), &mut world.taken);
            let _ = peer.recv(|bytes| {
                taken.extend_from_slice(bytes);
                (bytes.len(), ())
            });
        };
        // What lies in two pieces.
        read(self);
        read(self);
    }

    #[track_caller]
    pub(crate) fn peer_reads(&mut self, len: usize) -> Vec<u8> {
        for _ in 0..STEPS_MAX {
            self.drain();
            if self.taken.len() >= len {
                return std::mem::take(&mut self.taken);
            }
            self.step();
        }
        panic!("{} of {len} bytes arrived", self.taken.len());
    }

    /// The peer is to write this, as soon as it is connected and as there is room.
    pub(crate) fn peer_writes(&mut self, data: &[u8]) {
        self.waiting.extend(data);
        self.refill();
    }

    fn refill(&mut self) {
        let (ready, _) = self.waiting.as_slices();
        let sent = self.sockets.get_mut::<tcp::Socket<'_>>(self.stream).send_slice(ready).unwrap_or(0);
        self.waiting.drain(..sent);
    }

    pub(crate) fn peer_closes(&mut self) {
        self.peer().close();
    }

    pub(crate) fn peer_resets(&mut self) {
        self.peer().abort();
        self.run(3);
    }

    pub(crate) fn peer_sees_the_end(&mut self) -> bool {
        self.run(20);
        !self.peer().may_recv()
    }

    pub(crate) fn peer_binds(&mut self, port: u16) -> SocketAddr {
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.datagrams);
        socket.close();
        socket.bind(port).expect("a port");
        SocketAddr::new(World::PEER4, port)
    }

    /// From now on the peer answers the datagrams that arrive at this port.
    pub(crate) fn peer_serves(&mut self, port: u16, server: Server) {
        self.peer_binds(port);
        self.server = Some(server);
    }

    fn serve(&mut self) {
        let Some(server) = &mut self.server else { return };
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.datagrams);
        while let Ok((question, from)) = socket.recv() {
            if let Some(answer) = server(question) {
                socket.send_slice(&answer, from.endpoint).expect("room");
            }
        }
    }

    pub(crate) fn peer_sends(&mut self, data: &[u8], to: SocketAddr) {
        self.sockets.get_mut::<udp::Socket<'_>>(self.datagrams).send_slice(data, to).expect("room");
    }

    pub(crate) fn peer_receives(&mut self) -> Vec<u8> {
        for _ in 0..STEPS_MAX {
            if let Ok((data, _)) = self.sockets.get_mut::<udp::Socket<'_>>(self.datagrams).recv() {
                return data.to_vec();
            }
            self.step();
        }
        panic!("no datagram arrived");
    }

    /// Requests a connection, whatever the peer does.
    pub(crate) fn first_segment(&self, from: SocketAddr, to: u16) {
        let syn = TcpRepr { control: TcpControl::Syn, ..SEGMENT };
        self.frame(&segment(from, SocketAddr::new(World::OWN4, to), &syn));
    }
}

/// The segment in a frame, if there is one.
fn segment_in(frame: &[u8]) -> Option<TcpPacket<&[u8]>> {
    let ethernet = EthernetFrame::new_checked(frame).expect("what leaves is in order");
    let (what, segment) = match ethernet.ethertype() {
        EthernetProtocol::Ipv4 => {
            let packet = Ipv4Packet::new_checked(ethernet.payload()).expect("what leaves is in order");
            (packet.next_header(), packet.payload())
        }
        EthernetProtocol::Ipv6 => {
            let packet = Ipv6Packet::new_checked(ethernet.payload()).expect("what leaves is in order");
            (packet.next_header(), packet.payload())
        }
        _ => return None,
    };
    (what == IpProtocol::Tcp).then(|| TcpPacket::new_checked(segment).expect("what leaves is in order"))
}

pub(crate) fn config() -> TapConfig {
    let v4 = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(_) => unreachable!("it is one of IPv4"),
    };
    TapConfig {
        mtu: 1500,
        prefix4: 24,
        prefix6: 64,
        address4: v4(World::OWN4),
        gateway4: v4(World::PEER4),
        address6: World::OWN6.octets(),
        gateway6: World::PEER6.octets(),
        mac: OWN_MAC,
        seed: [7, 11],
        ..TapConfig::default()
    }
}

impl Device for Wire {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived, Leaving<'_>)> {
        let frame = self.arrived.pop_front()?;
        Some((Arrived(frame), Leaving(&mut self.left)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        Some(Leaving(&mut self.left))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        // What comes from the module has checksums that are only begun, as on the kernel's side of a device.
        capabilities.checksum.tcp = Checksum::Tx;
        capabilities.checksum.udp = Checksum::Tx;
        capabilities
    }
}

struct Arrived(Vec<u8>);

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        look(&self.0)
    }
}

struct Leaving<'a>(&'a mut Vec<Vec<u8>>);

impl TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, make: F) -> R {
        assert!(len < FRAME_MAX);
        let mut frame = vec![0; len];
        let made = make(&mut frame);
        self.0.push(frame);
        made
    }
}
