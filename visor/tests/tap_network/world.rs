//! What lies beyond the computer with the helper: a namespace of its own, which knows no way back to workflows.

use crate::net::{ip, ip_output, namespace, within};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The addresses of both ends of the wire: of the helper's namespace, and of the world.
pub(crate) const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 97, 1, 1));
const FAR: &str = "10.97.1.2";
/// What is there.
const ALL: &str = "10.96.0.0/16";
/// Datagrams are answered there.
const PORT: u16 = 7;

/// The namespace; it goes with this.
pub(crate) struct World {
    name: String,
    received: Arc<Mutex<Vec<IpAddr>>>,
    over: Arc<AtomicBool>,
    servers: Vec<JoinHandle<()>>,
}

impl World {
    /// A peer answers at each of these addresses.
    pub(crate) fn new(addresses: &[&str]) -> World {
        let name = namespace();
        let (received, over) = (Arc::<Mutex<Vec<IpAddr>>>::default(), Arc::<AtomicBool>::default());
        let serve = |address: &&str| {
            ip(&["-n", &name, "addr", "add", &format!("{address}/32"), "dev", "lo"]);
            let socket = within(&name, || UdpSocket::bind((*address, PORT)).expect("a server"));
            socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
            let (received, over) = (received.clone(), over.clone());
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    if let Ok((_, from)) = socket.recv_from(&mut [0; 64]) {
                        received.lock().expect("no panic").push(from.ip());
                        let _ = socket.send_to(b"answer", from);
                    }
                }
            })
        };
        let servers = addresses.iter().map(serve).collect();
        World { name, received, over, servers }
    }

    /// Lies beyond the device `out` of another namespace.
    pub(crate) fn join(&self, near: &str) {
        ip(&["-n", near, "link", "add", "out", "type", "veth", "peer", "name", "in", "netns", &self.name]);
        ip(&["-n", near, "addr", "add", &format!("{NEAR}/30"), "dev", "out"]);
        // Addresses that come up by themselves, some time later, would be taken for the helper's doing.
        ip(&["-n", near, "link", "set", "out", "addrgenmode", "none", "up"]);
        ip(&["-n", &self.name, "addr", "add", &format!("{FAR}/30"), "dev", "in"]);
        ip(&["-n", &self.name, "link", "set", "in", "up"]);
        ip(&["-n", near, "route", "add", ALL, "via", FAR]);
    }

    /// Who has asked since this was asked before.
    pub(crate) fn received(&self) -> Vec<IpAddr> {
        std::mem::take(&mut *self.received.lock().expect("no panic"))
    }

    /// From now on it sends what is for a network to the helper's namespace.
    pub(crate) fn knows_the_way_to(&self, network: &str) {
        ip(&["-n", &self.name, "route", "add", network, "via", &NEAR.to_string()]);
    }

    /// Whether a connection from it succeeds.
    pub(crate) fn connects(&self, to: SocketAddr) -> bool {
        within(&self.name, || TcpStream::connect_timeout(&to, Duration::from_secs(2)).is_ok())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for server in self.servers.drain(..) {
            let _ = server.join();
        }
        let _ = ip_output(&["netns", "del", &self.name]);
    }
}

/// The names of the nftables tables of this thread's namespace.
pub(crate) fn tables() -> Vec<String> {
    const NFT_MSG_GETTABLE: u16 = 10 << 8 | 1;
    const REQUEST_DUMP: u16 = 1 | 0x300;
    const HEADERS: usize = 16 + 4;
    const DONE: u16 = 3;
    const NAME: u16 = 1;
    let kind = (AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkNetFilter);
    let socket = socket(kind.0, kind.1, kind.2, kind.3).expect("nf_tables");
    let mut question = Vec::new();
    question.extend((HEADERS as u32).to_ne_bytes());
    question.extend([NFT_MSG_GETTABLE.to_ne_bytes(), REQUEST_DUMP.to_ne_bytes()].concat());
    question.extend([0; 12]);
    send(socket.as_raw_fd(), &question, MsgFlags::empty()).expect("asked");
    let (mut names, mut room) = (Vec::new(), vec![0; 64 << 10]);
    let half = |bytes: &[u8], at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    loop {
        let len = recv(socket.as_raw_fd(), &mut room, MsgFlags::empty()).expect("an answer");
        let mut rest = &room[..len];
        while rest.len() >= 16 {
            let message = half(rest, 0) as usize;
            if half(rest, 4) == DONE {
                return names;
            }
            let mut attributes = &rest[HEADERS..message];
            while attributes.len() >= 4 {
                let len = usize::from(half(attributes, 0));
                if half(attributes, 2) == NAME {
                    names.push(String::from_utf8_lossy(&attributes[4..len - 1]).into_owned());
                }
                attributes = attributes.get(len.next_multiple_of(4)..).unwrap_or_default();
            }
            rest = rest.get(message.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}
