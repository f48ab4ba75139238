//! Sockets: those that the program finds open, the connections that it accepts there, and those that it makes.
//!
//! Preview 1 opens no socket. The step's environment says at which addresses the program is to find one that listens, and the workflow's
//! `network` whether it may:
//!
//! ```text
//!   MONOHULL_LISTEN=127.0.0.1:8080,[::1]:8080      descriptors 4 and 5, and LISTEN_FDS=2 for the program
//! ```
//!
//! Connections are made by functions of the module `monohull`. What they give is a descriptor as any other, and nothing here waits for it:
//!
//! ```text
//!   lookup(name, name_len, addresses, most, count) ──▶ addresses of 32 bytes, without a port
//!   socket_connect(address, out) ──▶ a descriptor  ──  poll_oneoff: ready for writing  ──▶  socket_failure(descriptor) ──▶ 0, or why not
//! ```

use super::Call;
use super::file::{flag, flags_of};
use crate::descriptors::{Descriptor, Descriptors, Target};
use crate::errno::WasiError;
use crate::host::explanation;
use crate::rights::Rights;
use crate::sockets::{self, Socket};
use alloc::format;
use alloc::string::String;
use core::net::SocketAddr;
use core::ops::Range;
use monohull_abi::network::{PEEK as LEAVE, SocketAddress, SocketEnd, SocketShutdown};
use monohull_std::env;
use wasmtime::{Result, bail, format_err};

/// The variable that names the addresses, and the one by which the program learns how many sockets there are.
const ADDRESSES: &str = "MONOHULL_LISTEN";
const COUNT: &str = "LISTEN_FDS";

/// Flags of `sock_recv` (`riflags`): the bytes stay, and all buffers are filled.
const PEEK: u32 = 1;
const WAIT_ALL: u32 = 2;
/// Directions of `sock_shutdown` (`sdflags`).
const READING: u32 = 1;
const WRITING: u32 = 2;
/// An address in the program's memory: family (4 or 6), port, address, flow and scope.
const ADDRESS_SIZE: usize = 32;

/// The bytes of an address.
fn encoded(address: SocketAddr) -> [u8; ADDRESS_SIZE] {
    let address = SocketAddress::from(address);
    let mut bytes = [0; ADDRESS_SIZE];
    bytes[8..24].copy_from_slice(&address.address);
    for (at, number) in [(0, address.family), (4, address.port), (24, address.flow), (28, address.scope)] {
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// The address that these bytes are, if they are one.
fn decoded(bytes: &[u8; ADDRESS_SIZE]) -> Option<SocketAddr> {
    let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let mut address = [0; 16];
    address.copy_from_slice(&bytes[8..24]);
    SocketAddress { family: number(0), port: number(4), address, flow: number(24), scope: number(28) }.decode()
}

/// Opens the sockets that the step's environment names, and adds to the program's own how many these are.
pub(super) fn open(descriptors: &mut Descriptors, environment: &mut alloc::vec::Vec<String>) -> Result<()> {
    let Some((_, addresses)) = env::vars().find(|(name, _)| name == ADDRESSES) else { return Ok(()) };
    let mut count = 0;
    for text in addresses.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        let Ok(address) = text.parse::<SocketAddr>() else {
            bail!("`{ADDRESSES}` in the step's `env`: `{text}` is no address with a port, like `127.0.0.1:8080`");
        };
        let socket = Socket::listen(address).map_err(|error| {
            let why = explanation();
            let why = if why.is_empty() { format!("{error}") } else { why };
            format_err!("`{ADDRESSES}` in the step's `env`: {text}: {why}")
        })?;
        let inserted = descriptors.insert(Descriptor::new(Target::Socket(socket), 0, Rights::LISTENER));
        inserted.map_err(|_| format_err!("`{ADDRESSES}` in the step's `env` names too many addresses"))?;
        count += 1;
    }
    environment.push(format!("{COUNT}={count}\0"));
    Ok(())
}

impl Call<'_> {
    pub(super) fn sock_accept(&mut self, fd: u32, flags: u32, out: u32) -> Result<(), WasiError> {
        // Before a connection is taken: one that has no number, or whose number cannot be written, would be lost.
        self.guest.bytes(out, 4)?;
        let flags = flags_of(flags)?;
        if !self.state.descriptors.has_room() {
            return Err(WasiError::MFILE);
        }
        let listener = self.state.descriptors.allowed(fd, Rights::SOCK_ACCEPT)?;
        let (accepted, rights) = (listener.socket()?.accept()?, listener.rights.beneath(Rights::CONNECTION_BASE, 0));
        if flags & flag::NONBLOCK != 0 {
            accepted.set_non_blocking(true)?;
        }
        let new = self.state.descriptors.insert(Descriptor::new(Target::Socket(accepted), flags, rights))?;
        self.guest.store_u32(out, new)
    }

    pub(super) fn sock_recv(
        &mut self,
        fd: u32,
        buffers: u32,
        count: u32,
        flags: u32,
        out: u32,
        out_flags: u32,
    ) -> Result<(), WasiError> {
        if flags & !(PEEK | WAIT_ALL) != 0 {
            return Err(WasiError::INVAL);
        }
        self.guest.bytes(out, 4)?;
        self.guest.bytes(out_flags, 2)?;
        let ranges = self.guest.buffers(buffers, count)?;
        let received = self.receive(fd, &ranges, flags)?;
        self.guest.store_u32(out, received as u32)?;
        // No byte is ever lost, as those of a datagram that was too long would be.
        self.guest.store(out_flags, &0u16.to_le_bytes())
    }

    /// Reads what has arrived into the first buffer, and waits for one byte alone; with [`WAIT_ALL`] until all buffers are full.
    pub(super) fn receive(&mut self, fd: u32, ranges: &[Range<usize>], flags: u32) -> Result<u64, WasiError> {
        let Call { guest, state } = self;
        let socket = state.descriptors.allowed(fd, Rights::FD_READ)?.socket()?;
        let how = if flags & PEEK != 0 { LEAVE } else { 0 };
        let mut total = 0;
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let mut rest = range.clone();
            while !rest.is_empty() {
                match socket.receive(&mut guest.0[rest.clone()], how) {
                    Ok(0) => return Ok(total),
                    Ok(bytes) => {
                        rest.start += bytes;
                        total += bytes as u64;
                    }
                    // What came before is not lost with it.
                    Err(_) if total > 0 => return Ok(total),
                    Err(error) => return Err(error),
                }
                // The bytes that stay would come again.
                if flags & WAIT_ALL == 0 || flags & PEEK != 0 {
                    return Ok(total);
                }
            }
        }
        Ok(total)
    }

    pub(super) fn sock_send(
        &mut self,
        fd: u32,
        buffers: u32,
        count: u32,
        flags: u32,
        out: u32,
    ) -> Result<(), WasiError> {
        // There are none.
        if flags != 0 {
            return Err(WasiError::INVAL);
        }
        self.guest.bytes(out, 4)?;
        let ranges = self.guest.buffers(buffers, count)?;
        let sent = self.send(fd, &ranges)?;
        self.guest.store_u32(out, sent as u32)
    }

    /// Writes buffers as far as there is room.
    pub(super) fn send(&mut self, fd: u32, ranges: &[Range<usize>]) -> Result<u64, WasiError> {
        let socket = self.state.descriptors.allowed(fd, Rights::FD_WRITE)?.socket()?;
        let mut total = 0;
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            match socket.send(&self.guest.0[range.clone()]) {
                Ok(bytes) => {
                    total += bytes as u64;
                    if bytes < range.len() {
                        break;
                    }
                }
                Err(_) if total > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    pub(super) fn sock_shutdown(&mut self, fd: u32, how: u32) -> Result<(), WasiError> {
        let socket = self.state.descriptors.allowed(fd, Rights::SOCK_SHUTDOWN)?.socket()?;
        socket.shut_down(match how {
            READING => SocketShutdown::Read,
            WRITING => SocketShutdown::Write,
            how if how == READING | WRITING => SocketShutdown::Both,
            _ => return Err(WasiError::INVAL),
        })
    }

    /// Writes the address at an end of a socket: its own (0), or that of the other side (1). It is no function of preview 1, where a server
    /// does not learn who has connected to it.
    pub(super) fn socket_address(&mut self, fd: u32, end: u32, out: u32) -> Result<(), WasiError> {
        let end = SocketEnd::from_raw(end.into()).ok_or(WasiError::INVAL)?;
        let address = self.state.descriptors.get(fd)?.socket()?.address(end)?;
        self.guest.store(out, &encoded(address))
    }

    /// Begins a connection, and writes its descriptor, which is non-blocking. It is ready for writing when the connection is made or has failed.
    pub(super) fn socket_connect(&mut self, address: u32, out: u32) -> Result<(), WasiError> {
        self.state.explanation.clear();
        // Before anything is begun, as in `sock_accept`.
        self.guest.bytes(out, 4)?;
        let to = decoded(&self.guest.load(address)?).ok_or(WasiError::INVAL)?;
        if !self.state.descriptors.has_room() {
            return Err(WasiError::MFILE);
        }
        let socket = Socket::connect_later(to).inspect_err(|_| self.state.explanation = explanation())?;
        let descriptor = Descriptor::new(Target::Socket(socket), flag::NONBLOCK, Rights::CONNECTION);
        let new = self.state.descriptors.insert(descriptor)?;
        self.guest.store_u32(out, new)
    }

    /// Why a connection could not be made or has broken, if that was not asked before.
    pub(super) fn socket_failure(&mut self, fd: u32) -> Result<(), WasiError> {
        self.state.descriptors.get(fd)?.socket()?.failure()
    }

    /// Writes as many of a name's addresses as there is room for, with the port 0, and how many these are. Waits until they are known.
    pub(super) fn lookup(
        &mut self,
        name: u32,
        name_len: u32,
        addresses: u32,
        most: u32,
        count: u32,
    ) -> Result<(), WasiError> {
        self.state.explanation.clear();
        self.guest.bytes(count, 4)?;
        self.guest.bytes(addresses, most.checked_mul(ADDRESS_SIZE as u32).ok_or(WasiError::FAULT)?)?;
        let found = sockets::lookup(self.guest.text(name, name_len)?);
        let found = found.inspect_err(|_| self.state.explanation = explanation())?;
        let mut stored = 0;
        for address in found.into_iter().take(most as usize) {
            self.guest.store(addresses + stored * ADDRESS_SIZE as u32, &encoded((address, 0).into()))?;
            stored += 1;
        }
        self.guest.store_u32(count, stored)
    }
}
