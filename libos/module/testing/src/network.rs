//! The network of the miniature visor: none, or a device whose frames the test carries ([`Domain::start_with_tap`]).
//!
//! [`Domain::start_with_tap`]: crate::Domain::start_with_tap

use crate::WAITING;
use crate::cells::{Locked, Value};
use crate::services::{Services, shared};
use monohull_abi::Errno;
use monohull_abi::module::Call;
use monohull_abi::network::{
    Found, NetworkKind, NetworkServices, Readiness, SocketAddress, SocketEnd, SocketHandle, SocketOption,
    SocketShutdown, TapConfig,
};
use std::collections::VecDeque;
use std::ffi::c_void;

const REFUSED: i64 = Errno::NotPermitted.to_value();

/// A device: frames for the module, and frames from it. Each begins with its header.
#[derive(Default)]
pub(crate) struct Device {
    pub(crate) config: TapConfig,
    pub(crate) arriving: Locked<VecDeque<Vec<u8>>>,
    pub(crate) left: Locked<Vec<Vec<u8>>>,
    /// It has been removed.
    pub(crate) gone: Value<bool>,
    /// When the module is to be polled.
    pub(crate) alarm: Value<u64>,
}

/// # Safety
/// `domain` is the pointer that the mock `Host` carries.
unsafe fn device<'a>(domain: *mut c_void) -> Option<&'a Device> {
    // SAFETY: the caller's promise.
    unsafe { shared(domain) }.device.as_ref()
}

impl NetworkServices for Services {
    unsafe extern "C" fn kind(domain: *mut c_void) -> NetworkKind {
        // SAFETY: the module passes the domain of its `Host`.
        if unsafe { device(domain) }.is_some() { NetworkKind::Tap } else { NetworkKind::None }
    }

    unsafe extern "C" fn listen(_: *mut c_void, _: *const SocketAddress, _: u32) -> i64 {
        REFUSED
    }

    unsafe extern "C" fn connect(_: *mut c_void, _: *const SocketAddress) -> i64 {
        REFUSED
    }

    unsafe extern "C" fn bind(_: *mut c_void, _: *const SocketAddress) -> i64 {
        REFUSED
    }

    unsafe extern "C" fn accept(_: *mut c_void, _: SocketHandle, _: *mut SocketAddress) -> i64 {
        REFUSED
    }

    unsafe extern "C" fn associate(_: *mut c_void, _: SocketHandle, _: *const SocketAddress) -> i64 {
        REFUSED
    }

    unsafe extern "C" fn receive(
        _: *mut c_void,
        _: SocketHandle,
        _: u64,
        _: usize,
        _: u32,
        _: *mut SocketAddress,
    ) -> i64 {
        REFUSED
    }

    unsafe extern "C" fn send(_: *mut c_void, _: SocketHandle, _: u64, _: usize, _: *const SocketAddress) -> i64 {
        REFUSED
    }

    unsafe extern "C" fn shutdown(_: *mut c_void, _: SocketHandle, _: SocketShutdown) -> i64 {
        REFUSED
    }

    unsafe extern "C" fn close(_: *mut c_void, _: SocketHandle) {}

    unsafe extern "C" fn get(_: *mut c_void, _: SocketHandle, _: SocketOption) -> i64 {
        REFUSED
    }

    unsafe extern "C" fn set(_: *mut c_void, _: SocketHandle, _: SocketOption, _: u64) -> i64 {
        REFUSED
    }

    unsafe extern "C" fn name(_: *mut c_void, _: SocketHandle, _: SocketEnd, _: *mut SocketAddress) -> i64 {
        REFUSED
    }

    unsafe extern "C" fn lookup(_: *mut c_void, _: *const u8, _: usize, _: *mut SocketAddress, _: usize) -> i64 {
        REFUSED
    }

    unsafe extern "C" fn wait(_: *mut c_void, _: *mut Call, _: SocketHandle, _: Readiness, _: u64) {}

    // There are no kernel sockets.
    unsafe extern "C" fn watch(_: *mut c_void, _: SocketHandle, _: u32, _: u64) -> Found {
        Found::default()
    }

    unsafe extern "C" fn settle(_: *mut c_void, _: u64) {}

    unsafe extern "C" fn wait_in_queue(_: *mut c_void, _: *mut Call, _: u64, _: u64) {}

    unsafe extern "C" fn forget_queue(_: *mut c_void, _: u64) {}

    unsafe extern "C" fn tap(domain: *mut c_void, out: *mut TapConfig) -> i64 {
        // SAFETY: as in `kind`.
        let Some(device) = (unsafe { device(domain) }) else { return REFUSED };
        // SAFETY: room for it, by the contract of the services.
        unsafe { out.write(device.config) };
        0
    }

    unsafe extern "C" fn frame_in(domain: *mut c_void, to: *mut u8, len: usize) -> i64 {
        // SAFETY: as in `kind`.
        let Some(device) = (unsafe { device(domain) }) else { return REFUSED };
        if device.gone.get() {
            return Errno::Io.to_value();
        }
        let Some(frame) = device.arriving.borrow_mut().pop_front() else { return Errno::Again.to_value() };
        let len = len.min(frame.len());
        // SAFETY: room for `len` bytes, by the contract of the services.
        unsafe { to.copy_from_nonoverlapping(frame.as_ptr(), len) };
        len as i64
    }

    unsafe extern "C" fn frame_out(domain: *mut c_void, from: *const u8, len: usize) -> i64 {
        // SAFETY: as in `kind`.
        let Some(device) = (unsafe { device(domain) }) else { return REFUSED };
        if device.gone.get() {
            return Errno::Io.to_value();
        }
        // SAFETY: readable for `len` bytes, by the contract of the services.
        let frame = unsafe { std::slice::from_raw_parts(from, len) };
        device.left.borrow_mut().push(frame.to_vec());
        len as i64
    }

    unsafe extern "C" fn alarm(domain: *mut c_void, at: u64) {
        // SAFETY: as in `kind`.
        if let Some(device) = unsafe { device(domain) } {
            device.alarm.set(at);
        }
    }

    unsafe extern "C" fn wait_for_key(_: *mut c_void, _: *mut Call, key: u64, deadline: u64) {
        WAITING.set(Some((key, deadline)));
    }
}
