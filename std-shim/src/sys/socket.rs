//! A socket's hostcalls.

use super::{call, nanos};
use crate::io::{Error, Result};
use crate::time::Duration;
use crate::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use monohull_abi::Errno;
use monohull_abi::network::{LOOKUP_MAX, PEEK, SocketAddress, SocketEnd, SocketOption, SocketShutdown};
use monohull_abi::number;

/// A number for a socket; given back on drop.
pub(crate) struct Socket(u64);

/// A refusal by the system has an explanation; an error of the network is a number that programs compare.
fn error(errno: Errno) -> Error {
    match errno {
        Errno::NotPermitted | Errno::Invalid | Errno::Fault | Errno::NotSupported | Errno::TooMany => {
            Error::explained(errno)
        }
        Errno::OutOfMemory | Errno::NoSuchCall | Errno::ModuleFailed | Errno::NotFound => Error::explained(errno),
        other => other.into(),
    }
}

/// Makes a hostcall on sockets.
fn ask<const N: usize>(number: u32, args: [u64; N]) -> Result<u64> {
    call(number, args).map_err(error)
}

fn out(address: &mut SocketAddress) -> u64 {
    core::ptr::from_mut(address) as u64
}

fn at(address: &SocketAddress) -> u64 {
    core::ptr::from_ref(address) as u64
}

/// An address that the host has written.
fn decoded(address: SocketAddress) -> Result<SocketAddr> {
    address.decode().ok_or_else(|| Errno::Io.into())
}

impl Socket {
    pub(crate) fn listen(address: &SocketAddr, backlog: u64) -> Result<Socket> {
        ask(number::TCP_LISTEN, [at(&(*address).into()), backlog]).map(Socket)
    }

    pub(crate) fn connect(address: &SocketAddr, timeout: Option<Duration>) -> Result<Socket> {
        let ns = timeout.map_or(u64::MAX, nanos);
        ask(number::TCP_CONNECT, [at(&(*address).into()), ns]).map(Socket)
    }

    pub(crate) fn bind(address: &SocketAddr) -> Result<Socket> {
        ask(number::UDP_BIND, [at(&(*address).into())]).map(Socket)
    }

    pub(crate) fn associate(&self, address: &SocketAddr) -> Result<()> {
        ask(number::UDP_CONNECT, [self.0, at(&(*address).into())]).map(drop)
    }

    pub(crate) fn accept(&self) -> Result<(Socket, SocketAddr)> {
        let mut peer = SocketAddress::default();
        let socket = ask(number::TCP_ACCEPT, [self.0, out(&mut peer)]).map(Socket)?;
        Ok((socket, decoded(peer)?))
    }

    pub(crate) fn read(&self, buf: &mut [u8], peek: bool) -> Result<usize> {
        let flags = if peek { PEEK } else { 0 };
        let read = ask(number::SOCKET_RECV, [self.0, buf.as_mut_ptr() as u64, buf.len() as u64, flags])?;
        Ok((read as usize).min(buf.len()))
    }

    pub(crate) fn read_from(&self, buf: &mut [u8], peek: bool) -> Result<(usize, SocketAddr)> {
        let flags = if peek { PEEK } else { 0 };
        let mut from = SocketAddress::default();
        let args = [self.0, buf.as_mut_ptr() as u64, buf.len() as u64, flags, out(&mut from)];
        let read = ask(number::SOCKET_RECVFROM, args)?;
        Ok(((read as usize).min(buf.len()), decoded(from)?))
    }

    pub(crate) fn write(&self, buf: &[u8]) -> Result<usize> {
        let written = ask(number::SOCKET_SEND, [self.0, buf.as_ptr() as u64, buf.len() as u64])?;
        Ok((written as usize).min(buf.len()))
    }

    pub(crate) fn write_to(&self, buf: &[u8], address: &SocketAddr) -> Result<usize> {
        let address = SocketAddress::from(*address);
        let args = [self.0, buf.as_ptr() as u64, buf.len() as u64, at(&address)];
        let written = ask(number::SOCKET_SENDTO, args)?;
        Ok((written as usize).min(buf.len()))
    }

    pub(crate) fn shutdown(&self, how: SocketShutdown) -> Result<()> {
        ask(number::SOCKET_SHUTDOWN, [self.0, how as u64]).map(drop)
    }

    pub(crate) fn duplicate(&self) -> Result<Socket> {
        ask(number::SOCKET_DUP, [self.0]).map(Socket)
    }

    pub(crate) fn name(&self, end: SocketEnd) -> Result<SocketAddr> {
        let mut name = SocketAddress::default();
        ask(number::SOCKET_GETNAME, [self.0, end as u64, out(&mut name)])?;
        decoded(name)
    }

    pub(crate) fn get(&self, option: SocketOption) -> Result<u64> {
        ask(number::SOCKET_GET_OPTION, [self.0, option as u64])
    }

    pub(crate) fn set(&self, option: SocketOption, value: u64) -> Result<()> {
        ask(number::SOCKET_SET_OPTION, [self.0, option as u64, value]).map(drop)
    }

    pub(crate) fn number(&self) -> u64 {
        self.0
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = call(number::SOCKET_CLOSE, [self.0]);
    }
}

/// The addresses of a name.
pub(crate) fn lookup(name: &str) -> Result<Vec<IpAddr>> {
    let mut room = [SocketAddress::default(); LOOKUP_MAX];
    let args = [name.as_ptr() as u64, name.len() as u64, room.as_mut_ptr() as u64, LOOKUP_MAX as u64];
    // Errors of names have no numbers in std either.
    let count = call(number::HOST_LOOKUP, args).map_err(Error::explained)?;
    room[..(count as usize).min(LOOKUP_MAX)].iter().map(|address| decoded(*address).map(|found| found.ip())).collect()
}
