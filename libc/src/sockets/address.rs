//! Addresses, as `struct sockaddr` and as hostcalls have them.

use crate::errno::{Answer, EAFNOSUPPORT, EFAULT, EINVAL};
use crate::lookup::{AF_INET, AF_INET6};
use monohull_abi::network::SocketAddress;

/// A `struct sockaddr` of the program's.
pub(super) fn read_address(at: u64, len: u64) -> Result<SocketAddress, Answer> {
    if at == 0 {
        return Err(EFAULT);
    }
    if len < 2 {
        return Err(EINVAL);
    }
    // SAFETY: the caller's address of `len` bytes, which are enough for what is read: see the two arms.
    unsafe {
        let bytes = at as *const u8;
        let port = || u32::from(u16::from_be_bytes([*bytes.add(2), *bytes.add(3)]));
        let mut address = SocketAddress::default();
        match i32::from(bytes.cast::<u16>().read_unaligned()) {
            AF_INET if len >= 16 => {
                (address.family, address.port) = (4, port());
                address.address[..4].copy_from_slice(core::slice::from_raw_parts(bytes.add(4), 4));
                Ok(address)
            }
            AF_INET6 if len >= 28 => {
                (address.family, address.port) = (6, port());
                address.flow = bytes.add(4).cast::<u32>().read_unaligned();
                address.address.copy_from_slice(core::slice::from_raw_parts(bytes.add(8), 16));
                address.scope = bytes.add(24).cast::<u32>().read_unaligned();
                Ok(address)
            }
            AF_INET | AF_INET6 => Err(EINVAL),
            _ => Err(EAFNOSUPPORT),
        }
    }
}

/// Writes an address as a `struct sockaddr`, cut to the room that there is.
pub(super) fn write_address(address: &SocketAddress, out: u64, len: u64) {
    if out == 0 || len == 0 {
        return;
    }
    let mut bytes = [0_u8; 28];
    bytes[2..4].copy_from_slice(&(address.port as u16).to_be_bytes());
    let whole = if address.family == 4 {
        bytes[..2].copy_from_slice(&(AF_INET as u16).to_ne_bytes());
        bytes[4..8].copy_from_slice(&address.address[..4]);
        16
    } else {
        bytes[..2].copy_from_slice(&(AF_INET6 as u16).to_ne_bytes());
        bytes[4..8].copy_from_slice(&address.flow.to_ne_bytes());
        bytes[8..24].copy_from_slice(&address.address);
        bytes[24..].copy_from_slice(&address.scope.to_ne_bytes());
        28
    };
    // SAFETY: the caller's `socklen_t`, and its buffer of as many bytes.
    unsafe {
        let room = (len as *const u32).read_unaligned().min(whole);
        (out as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), room as usize);
        (len as *mut u32).write_unaligned(whole);
    }
}

pub(super) fn any(version: u32) -> SocketAddress {
    SocketAddress { family: version, ..SocketAddress::default() }
}
