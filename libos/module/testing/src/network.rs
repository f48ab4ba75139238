//! The network of the miniature visor: there is none.

use monohull_abi::Errno;
use monohull_abi::module::Call;
use monohull_abi::network::{
    NetworkKind, NetworkServices, Readiness, SocketAddress, SocketEnd, SocketHandle, SocketOption, SocketShutdown,
};
use std::ffi::c_void;

pub(crate) const SERVICES: NetworkServices = NetworkServices {
    kind,
    listen,
    connect: address,
    accept,
    bind: address,
    associate,
    receive,
    send,
    shutdown,
    close,
    get,
    set,
    name,
    lookup,
    wait,
};

const REFUSED: i64 = Errno::NotPermitted.to_value();

unsafe extern "C" fn kind(_: *mut c_void) -> NetworkKind {
    NetworkKind::None
}

unsafe extern "C" fn listen(_: *mut c_void, _: *const SocketAddress, _: u32) -> i64 {
    REFUSED
}

unsafe extern "C" fn address(_: *mut c_void, _: *const SocketAddress) -> i64 {
    REFUSED
}

unsafe extern "C" fn accept(_: *mut c_void, _: SocketHandle, _: *mut SocketAddress) -> i64 {
    REFUSED
}

unsafe extern "C" fn associate(_: *mut c_void, _: SocketHandle, _: *const SocketAddress) -> i64 {
    REFUSED
}

unsafe extern "C" fn receive(_: *mut c_void, _: SocketHandle, _: u64, _: usize, _: u32, _: *mut SocketAddress) -> i64 {
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
