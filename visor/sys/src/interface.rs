//! TAP devices, and what a network interface is set to: the requests of `netdevice(7)`. They need `CAP_NET_ADMIN`.

use std::fs::OpenOptions;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

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

/// Makes the TAP device of this name; `None` if there is one. It goes with its last descriptor.
pub fn make_tap(name: &str) -> io::Result<Option<OwnedFd>> {
    let device = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16;
    // SAFETY: Documentation/networking/tuntap.rst: the request reads and writes an `ifreq`.
    match unsafe { ioctl(&device, TUNSETIFF, &mut request) } {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Ok(None),
        Err(error) => return Err(error),
    }
    // SAFETY: `linux/if_tun.h`: takes flags by value.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Some(device.into()))
}

/// A network interface of the host, by its name. Any socket serves to ask by.
#[derive(Debug)]
pub struct Interface {
    name: String,
    four: UdpSocket,
}

impl Interface {
    /// The one with this name, which need not exist yet.
    pub fn named(name: &str) -> io::Result<Interface> {
        Ok(Interface { name: name.to_owned(), four: UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))? })
    }

    /// Sets the most bytes of a packet.
    pub fn set_mtu(&self, bytes: u32) -> io::Result<()> {
        let mut mtu = request(&self.name)?;
        mtu.ifr_ifru.ifru_mtu = bytes as i32;
        // SAFETY: netdevice(7): reads an `ifreq`.
        unsafe { ioctl(&self.four, libc::SIOCSIFMTU, &mut mtu) }
    }

    /// Sets how many packets its queue holds.
    pub fn set_queue(&self, packets: i32) -> io::Result<()> {
        let mut queue = request(&self.name)?;
        queue.ifr_ifru.ifru_metric = packets;
        // SAFETY: netdevice(7): reads an `ifreq`.
        unsafe { ioctl(&self.four, libc::SIOCSIFTXQLEN, &mut queue) }
    }

    /// Sets its IPv4 address and the bits that its network has in common.
    pub fn set_address4(&self, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut own = request(&self.name)?;
        own.ifr_ifru.ifru_addr = address4(address);
        // SAFETY: netdevice(7): reads an `ifreq`.
        unsafe { ioctl(&self.four, libc::SIOCSIFADDR, &mut own)? };
        let mut mask = request(&self.name)?;
        let bits = u32::MAX.checked_shl(32_u32.saturating_sub(prefix.into())).unwrap_or(0);
        mask.ifr_ifru.ifru_netmask = address4(Ipv4Addr::from_bits(bits));
        // SAFETY: netdevice(7): reads an `ifreq`.
        unsafe { ioctl(&self.four, libc::SIOCSIFNETMASK, &mut mask) }
    }

    /// Adds an IPv6 address, with the bits that its network has in common.
    pub fn add_address6(&self, address: Ipv6Addr, prefix: u8) -> io::Result<()> {
        let six = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        let mut index = request(&self.name)?;
        // SAFETY: netdevice(7): writes an `ifreq`.
        unsafe { ioctl(&self.four, libc::SIOCGIFINDEX, &mut index)? };
        // SAFETY: the kernel has just written the index.
        let index = unsafe { index.ifr_ifru.ifru_ifindex };
        let mut own = In6Ifreq { address: address.octets(), prefix: prefix.into(), index };
        // SAFETY: `linux/ipv6.h`: of an IPv6 socket, reads an `in6_ifreq`.
        unsafe { ioctl(&six, libc::SIOCSIFADDR, &mut own) }
    }

    /// Switches it on.
    pub fn switch_on(&self) -> io::Result<()> {
        let mut flags = request(&self.name)?;
        // SAFETY: netdevice(7): writes an `ifreq`.
        unsafe { ioctl(&self.four, libc::SIOCGIFFLAGS, &mut flags)? };
        // SAFETY: the kernel has just written the flags.
        flags.ifr_ifru.ifru_flags = unsafe { flags.ifr_ifru.ifru_flags } | (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        // SAFETY: netdevice(7): reads an `ifreq`.
        unsafe { ioctl(&self.four, libc::SIOCSIFFLAGS, &mut flags) }
    }
}

/// A request about the interface with this name.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: plain data.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *slot = byte as libc::c_char;
    }
    Ok(request)
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

/// Makes a request.
///
/// # Safety
/// `argument` is the structure that the request takes.
unsafe fn ioctl<T>(file: &impl AsRawFd, what: u64, argument: &mut T) -> io::Result<()> {
    // SAFETY: the caller's promise.
    match unsafe { libc::ioctl(file.as_raw_fd(), what, std::ptr::from_mut(argument)) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_refused() {
        assert!(request("mhull4294967295").is_ok());
        assert_eq!(
            request("a-name-of-16-byt").map(drop).map_err(|error| error.kind()),
            Err(io::ErrorKind::InvalidInput)
        );
    }
}
