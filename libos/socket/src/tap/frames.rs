//! Frames between the device and smoltcp, and the offload header in front of each.
//!
//! ```text
//! | header (10): flags, kind of segments, their size, where the checksum goes | Ethernet | IP | TCP … |
//! ```
//!
//! With it one frame carries up to 64 KiB of a connection: the kernel cuts it into segments only if it leaves the computer,
//! and no checksum is computed for a frame that does not. It comes in the same way.

use core::num::NonZeroUsize;
use monohull_abi::Errno;
use monohull_abi::network::{FRAME_HEADER, FRAME_MAX};
use monohull_module::NetworkRef;
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, PacketMeta, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, IpAddress, IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket, UdpPacket,
};

extern crate alloc;
use alloc::vec;
use alloc::vec::Vec;

/// The checksum is partial: the sender on the wire completes it.
const NEEDS_CHECKSUM: u8 = 1;
/// The checksum has been verified.
const CHECKED: u8 = 2;
const SEGMENTS_NONE: u8 = 0;
const SEGMENTS_TCP4: u8 = 1;
const SEGMENTS_TCP6: u8 = 4;
/// Where the checksum lies in TCP and in UDP.
const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;
const ETHERNET_HEADER: usize = 14;
const IPV6_HEADER: usize = 40;
/// The longest IP packet.
const PACKET_MAX: usize = 65_535;

/// The device.
pub(super) struct Frames {
    network: NetworkRef,
    /// The most bytes of a packet.
    pub(super) mtu: usize,
    /// The frame that smoltcp gets next.
    arrived: Vec<u8>,
    /// How long it is; 0 if there is none.
    len: usize,
    /// The frame that is being made.
    leaving: Vec<u8>,
    /// A frame could not be sent: the device is full, or was removed.
    pub(super) stuck: bool,
    /// The device was removed.
    pub(super) gone: bool,
}

impl Frames {
    pub(super) fn new(network: NetworkRef, mtu: usize) -> Frames {
        Frames {
            network,
            mtu,
            arrived: vec![0; FRAME_MAX],
            len: 0,
            leaving: vec![0; FRAME_MAX],
            stuck: false,
            gone: false,
        }
    }

    /// Takes a frame from the device; false if there is none. One that is damaged is passed over.
    pub(super) fn fetch(&mut self) -> bool {
        loop {
            let len = match self.network.frame_in(&mut self.arrived) {
                Ok(len) => len,
                Err(errno) => {
                    self.gone |= errno != Errno::Again;
                    return false;
                }
            };
            let whole = len > FRAME_HEADER + ETHERNET_HEADER;
            if whole
                && (self.arrived[0] & (NEEDS_CHECKSUM | CHECKED) != 0 || is_sound(&self.arrived[FRAME_HEADER..len]))
            {
                self.len = len;
                return true;
            }
        }
    }

    /// The frame that was fetched.
    pub(super) fn arrived(&self) -> &[u8] {
        self.arrived.get(FRAME_HEADER..self.len).unwrap_or_default()
    }

    /// Passes the fetched frame over.
    pub(super) fn drop_arrived(&mut self) {
        self.len = 0;
    }
}

/// A frame's addresses, what is in it, and where that begins. `None` for fragments and for what is no IP.
pub(super) fn transport(frame: &[u8]) -> Option<(IpAddress, IpAddress, IpProtocol, &[u8])> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    match ethernet.ethertype() {
        EthernetProtocol::Ipv4 => {
            let packet = Ipv4Packet::new_checked(frame.get(ETHERNET_HEADER..)?).ok()?;
            if packet.more_frags() || packet.frag_offset() != 0 {
                return None;
            }
            let (start, end) = (usize::from(packet.header_len()), usize::from(packet.total_len()));
            let (from, to, what) = (packet.src_addr(), packet.dst_addr(), packet.next_header());
            Some((from.into(), to.into(), what, frame.get(ETHERNET_HEADER + start..ETHERNET_HEADER + end)?))
        }
        EthernetProtocol::Ipv6 => {
            let packet = Ipv6Packet::new_checked(frame.get(ETHERNET_HEADER..)?).ok()?;
            let start = ETHERNET_HEADER + IPV6_HEADER;
            let end = start + usize::from(packet.payload_len());
            let (from, to, what) = (packet.src_addr(), packet.dst_addr(), packet.next_header());
            Some((from.into(), to.into(), what, frame.get(start..end)?))
        }
        _ => None,
    }
}

/// Whether the checksum of TCP or UDP is right; of anything else it is not looked at here.
fn is_sound(frame: &[u8]) -> bool {
    match transport(frame) {
        Some((from, to, IpProtocol::Tcp, segment)) => {
            TcpPacket::new_checked(segment).is_ok_and(|packet| packet.verify_checksum(&from, &to))
        }
        Some((from, to, IpProtocol::Udp, datagram)) => {
            UdpPacket::new_checked(datagram).is_ok_and(|packet| packet.verify_checksum(&from, &to))
        }
        _ => true,
    }
}

/// The header for a frame: its checksum is begun, for the kernel to complete.
fn begin_checksum(frame: &mut [u8], segment: Option<u16>) -> [u8; FRAME_HEADER] {
    let mut header = [0; FRAME_HEADER];
    let Some((from, to, what, content)) = transport(frame) else { return header };
    let place = match what {
        IpProtocol::Tcp => TCP_CHECKSUM,
        IpProtocol::Udp => UDP_CHECKSUM,
        _ => return header,
    };
    let headers = content.as_ptr() as usize - frame.as_ptr() as usize;
    let (six, len) = (matches!(from, IpAddress::Ipv6(_)), content.len());
    let tcp_header = TcpPacket::new_checked(content).map_or(0, |packet| usize::from(packet.header_len()));
    let sum = pseudo_sum(from, to, what, len);
    let Some(slot) = frame.get_mut(headers + usize::from(place)..headers + usize::from(place) + 2) else {
        return header;
    };
    slot.copy_from_slice(&sum.to_be_bytes());
    header[0] = NEEDS_CHECKSUM;
    header[6..8].copy_from_slice(&(headers as u16).to_le_bytes());
    header[8..10].copy_from_slice(&place.to_le_bytes());
    header[1] = SEGMENTS_NONE;
    if let Some(size) = segment {
        header[1] = if six { SEGMENTS_TCP6 } else { SEGMENTS_TCP4 };
        header[2..4].copy_from_slice(&((headers + tcp_header) as u16).to_le_bytes());
        header[4..6].copy_from_slice(&size.to_le_bytes());
    }
    header
}

/// The sum over what TCP and UDP check of the IP header.
fn pseudo_sum(from: IpAddress, to: IpAddress, what: IpProtocol, len: usize) -> u16 {
    let words =
        |bytes: &[u8]| bytes.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum::<u32>();
    let address = |address: IpAddress| match address {
        IpAddress::Ipv4(v4) => words(&v4.octets()),
        IpAddress::Ipv6(v6) => words(&v6.octets()),
    };
    let mut sum = address(from) + address(to) + u32::from(u8::from(what)) + len as u32;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

impl Device for Frames {
    type RxToken<'a> = Arrived<'a>;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived<'_>, Leaving<'_>)> {
        let len = core::mem::take(&mut self.len);
        let frame = self.arrived.get(FRAME_HEADER..len).filter(|frame| !frame.is_empty())?;
        let leaving = Leaving { network: self.network, room: &mut self.leaving, stuck: &mut self.stuck, segment: None };
        Some((Arrived(frame), leaving))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        // Until there is room again, what is to be sent stays where it is.
        if self.stuck {
            return None;
        }
        Some(Leaving { network: self.network, room: &mut self.leaving, stuck: &mut self.stuck, segment: None })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.mtu + ETHERNET_HEADER;
        capabilities.checksum.tcp = Checksum::None;
        capabilities.checksum.udp = Checksum::None;
        // Of IPv6, smoltcp drops what is larger than a packet even if the device would cut it.
        capabilities.segmentation.tcpv4 = NonZeroUsize::new(PACKET_MAX);
        capabilities
    }
}

/// A frame for smoltcp.
pub(super) struct Arrived<'a>(&'a [u8]);

impl RxToken for Arrived<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        look(self.0)
    }
}

/// A frame from smoltcp.
pub(super) struct Leaving<'a> {
    network: NetworkRef,
    room: &'a mut Vec<u8>,
    stuck: &'a mut bool,
    segment: Option<u16>,
}

impl TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, make: F) -> R {
        let end = FRAME_HEADER + len;
        if self.room.len() < end {
            // No packet is that long; smoltcp is given what it asks for all the same.
            self.room.resize(end, 0);
        }
        let (header, frame) = self.room[..end].split_at_mut(FRAME_HEADER);
        let made = make(frame);
        header.copy_from_slice(&begin_checksum(frame, self.segment));
        // What does not get through is lost, as on any network; TCP sends it again.
        if self.network.frame_out(&self.room[..end]).is_err() {
            *self.stuck = true;
        }
        made
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.segment = meta.segmentation_offload_size.map(Into::into);
    }
}
