//! A TAP device and its addresses on the host: the system calls behind the helper. They need `CAP_NET_ADMIN`.
//!
//! A device's name is its place in the pool, so the kernel itself sees to it that no two devices have the same place. The
//! device is not persistent: it goes with its last descriptor, however its holder ends, and its addresses and routes go
//! with it.

use super::lease::Addresses;
use std::ffi::CStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The names of all our devices begin so.
const PREFIX: &str = "mhull";
/// Packets that wait for the workflow.
const QUEUE: i32 = 1000;

const TUNSETIFF: u64 = 0x4004_54ca;
const TUNSETOFFLOAD: u64 = 0x4004_54d0;
const TUN_F_CSUM: u32 = 1;
const TUN_F_TSO4: u32 = 2;
const TUN_F_TSO6: u32 = 4;

/// `struct in6_ifreq` of `linux/ipv6.h`.
#[repr(C)]
struct In6Ifreq {
    address: [u8; 16],
    prefix: u32,
    index: i32,
}

/// The name of the device at a place in the pool.
pub(super) fn name_of(place: u32) -> String {
    format!("{PREFIX}{place}")
}

/// Makes the device at a place in the pool; `None` if somebody has that place.
pub(super) fn make(place: u32) -> io::Result<Option<OwnedFd>> {
    let device = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let mut request = request(&name_of(place));
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16;
    match ioctl(&device, TUNSETIFF, &mut request) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Ok(None),
        Err(error) => return Err(error),
    }
    // SAFETY: takes flags by value.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Some(device.into()))
}

/// Gives the device its addresses on the host's side and switches it on.
pub(super) fn configure(place: u32, addresses: &Addresses) -> io::Result<()> {
    let name = name_of(place);
    // Any socket will do to ask by.
    let four = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let mut mtu = request(&name);
    mtu.ifr_ifru.ifru_mtu = addresses.mtu as i32;
    ioctl(&four, libc::SIOCSIFMTU, &mut mtu)?;
    let mut queue = request(&name);
    queue.ifr_ifru.ifru_metric = QUEUE;
    ioctl(&four, libc::SIOCSIFTXQLEN, &mut queue)?;
    let setting = format!("/proc/sys/net/ipv6/conf/{name}");
    if fs::exists(&setting)? {
        // Nobody else is on this link, so nobody can have the address already; and nobody else announces anything.
        fs::write(format!("{setting}/accept_dad"), "0")?;
        fs::write(format!("{setting}/accept_ra"), "0")?;
    }
    if let Some(v4) = &addresses.v4 {
        let mut own = request(&name);
        own.ifr_ifru.ifru_addr = address4(v4.gateway);
        ioctl(&four, libc::SIOCSIFADDR, &mut own)?;
        let mut mask = request(&name);
        mask.ifr_ifru.ifru_netmask =
            address4(Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - u32::from(v4.prefix)).unwrap_or(0)));
        ioctl(&four, libc::SIOCSIFNETMASK, &mut mask)?;
    }
    let mut flags = request(&name);
    ioctl(&four, libc::SIOCGIFFLAGS, &mut flags)?;
    // SAFETY: the kernel has just written the flags.
    flags.ifr_ifru.ifru_flags = unsafe { flags.ifr_ifru.ifru_flags } | (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    ioctl(&four, libc::SIOCSIFFLAGS, &mut flags)?;
    if let Some(v6) = &addresses.v6 {
        let six = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        let mut index = request(&name);
        ioctl(&four, libc::SIOCGIFINDEX, &mut index)?;
        // SAFETY: the kernel has just written the index.
        let index = unsafe { index.ifr_ifru.ifru_ifindex };
        let mut own = In6Ifreq { address: v6.gateway.octets(), prefix: v6.prefix.into(), index };
        ioctl(&six, libc::SIOCSIFADDR, &mut own)?;
    }
    Ok(())
}

/// A request about the device with this name.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: plain data.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    for (slot, byte) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *slot = byte as libc::c_char;
    }
    debug_assert!({
        // SAFETY: it ends with a zero.
        unsafe { CStr::from_ptr(request.ifr_name.as_ptr()) }.to_bytes() == name.as_bytes()
    });
    request
}

fn address4(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: plain data.
    let mut encoded: libc::sockaddr = unsafe { std::mem::zeroed() };
    encoded.sa_family = libc::AF_INET as u16;
    // Two bytes of port, then the address.
    for (slot, byte) in encoded.sa_data[2..6].iter_mut().zip(address.octets()) {
        *slot = byte as libc::c_char;
    }
    encoded
}

fn ioctl<T>(file: &impl AsRawFd, what: u64, argument: &mut T) -> io::Result<()> {
    // SAFETY: each call passes the structure that the request takes.
    match unsafe { libc::ioctl(file.as_raw_fd(), what, std::ptr::from_mut(argument)) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
