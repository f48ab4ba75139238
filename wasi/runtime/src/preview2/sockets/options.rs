//! Options of sockets. They are kept here, because a program sets them before there is a socket of the system, and each is set there once there is
//! one.

use super::super::State;
use super::address::ErrorCode;
use super::shared::{asked, told};
use crate::errno::WasiError;
use crate::sockets::Socket;
use alloc::format;
use alloc::sync::Arc;
use core::result::Result as Answer;
use monohull_abi::network::SocketOption;
use wasmtime::Result;
use wasmtime::component::LinkerInstance;

const SECOND: u64 = 1_000_000_000;

/// Options as the program has set them.
#[derive(Clone)]
pub(super) struct Options {
    /// If it has been.
    hop_limit: Option<u8>,
    keep_alive: bool,
    /// In ns.
    idle: u64,
    /// In ns. It is what the system has it.
    interval: u64,
    count: u32,
    receive_buffer: u64,
    send_buffer: u64,
}

impl Default for Options {
    fn default() -> Options {
        // As Linux has them.
        Options {
            hop_limit: None,
            keep_alive: false,
            idle: 7200 * SECOND,
            interval: 75 * SECOND,
            count: 9,
            receive_buffer: 64 << 10,
            send_buffer: 64 << 10,
        }
    }
}

impl Options {
    /// Sets those that the program has set.
    pub(super) fn apply(&self, socket: &Socket) -> Answer<(), WasiError> {
        if let Some(limit) = self.hop_limit {
            socket.set_option(SocketOption::Ttl, limit.into())?;
        }
        if self.keep_alive {
            socket.set_option(SocketOption::KeepAlive, self.idle)?;
        }
        Ok(())
    }
}

/// What has options.
pub(super) trait Optioned: Send + 'static {
    fn options(&mut self) -> &mut Options;
    /// The socket of the system, if there is one.
    fn system(&self) -> Option<Arc<Socket>>;
}

/// Sets options, and those of the socket of the system.
fn set<S: Optioned>(of: &mut S, change: impl FnOnce(&mut Options)) -> Answer<(), ErrorCode> {
    change(of.options());
    match of.system() {
        Some(socket) => Ok(of.options().apply(&socket)?),
        None => Ok(()),
    }
}

/// A value that must not be 0.
fn some<V: Default + PartialEq>(value: V) -> Answer<V, ErrorCode> {
    if value == V::default() { Err(ErrorCode::InvalidArgument) } else { Ok(value) }
}

/// Options of all sockets, of those that are named so.
pub(super) fn common<S: Optioned>(
    interface: &mut LinkerInstance<'_, State>,
    kind: &str,
    hop_limit: &str,
) -> Result<()> {
    let get = |name: &str| format!("[method]{kind}.{name}");
    let put = |name: &str| format!("[method]{kind}.set-{name}");
    asked(interface, &get(hop_limit), |of: &mut S| -> Answer<u8, ErrorCode> {
        match (of.options().hop_limit, of.system()) {
            (None, Some(socket)) => Ok(socket.option(SocketOption::Ttl)?.min(255) as u8),
            (set, _) => Ok(set.unwrap_or(64)),
        }
    })?;
    told(interface, &put(hop_limit), |of: &mut S, limit: u8| {
        let limit = some(limit)?;
        set(of, |options| options.hop_limit = Some(limit))
    })?;
    asked(interface, &get("receive-buffer-size"), |of: &mut S| Ok::<_, ErrorCode>(of.options().receive_buffer))?;
    told(interface, &put("receive-buffer-size"), |of: &mut S, size: u64| {
        of.options().receive_buffer = some(size)?;
        Ok(())
    })?;
    asked(interface, &get("send-buffer-size"), |of: &mut S| Ok::<_, ErrorCode>(of.options().send_buffer))?;
    told(interface, &put("send-buffer-size"), |of: &mut S, size: u64| {
        of.options().send_buffer = some(size)?;
        Ok(())
    })
}

/// Those of connections: whether the system asks after a silent peer, and when.
pub(super) fn keep_alive<S: Optioned>(tcp: &mut LinkerInstance<'_, State>) -> Result<()> {
    asked(tcp, "[method]tcp-socket.keep-alive-enabled", |of: &mut S| Ok::<_, ErrorCode>(of.options().keep_alive))?;
    told(tcp, "[method]tcp-socket.set-keep-alive-enabled", |of: &mut S, is: bool| {
        of.options().keep_alive = is;
        match of.system() {
            Some(socket) if !is => Ok(socket.set_option(SocketOption::KeepAlive, 0)?),
            _ => set(of, |_| ()),
        }
    })?;
    asked(tcp, "[method]tcp-socket.keep-alive-idle-time", |of: &mut S| Ok::<_, ErrorCode>(of.options().idle))?;
    told(tcp, "[method]tcp-socket.set-keep-alive-idle-time", |of: &mut S, idle: u64| {
        let idle = some(idle)?;
        set(of, |options| options.idle = idle)
    })?;
    asked(tcp, "[method]tcp-socket.keep-alive-interval", |of: &mut S| Ok::<_, ErrorCode>(of.options().interval))?;
    told(tcp, "[method]tcp-socket.set-keep-alive-interval", |of: &mut S, interval: u64| {
        of.options().interval = some(interval)?;
        Ok(())
    })?;
    asked(tcp, "[method]tcp-socket.keep-alive-count", |of: &mut S| Ok::<_, ErrorCode>(of.options().count))?;
    told(tcp, "[method]tcp-socket.set-keep-alive-count", |of: &mut S, count: u32| {
        of.options().count = some(count)?;
        Ok(())
    })
}
