//! Linux's numbers that a socket and an end of a `socketpair` both know.

pub(super) const SOL_SOCKET: u64 = 1;
pub(super) const SO_REUSEADDR: u64 = 2;
pub(super) const SO_TYPE: u64 = 3;
pub(super) const SO_ERROR: u64 = 4;
pub(super) const SO_SNDBUF: u64 = 7;
pub(super) const SO_RCVBUF: u64 = 8;
pub(super) const SO_KEEPALIVE: u64 = 9;
pub(super) const SO_LINGER: u64 = 13;
pub(super) const SO_REUSEPORT: u64 = 15;
pub(super) const SO_PROTOCOL: u64 = 38;
pub(super) const SO_DOMAIN: u64 = 39;
pub(super) const SO_ACCEPTCONN: u64 = 30;
pub(super) const MSG_PEEK: u64 = 2;
pub(super) const MSG_TRUNC: u64 = 0x20;
pub(super) const MSG_DONTWAIT: u64 = 0x40;
pub(super) const MSG_WAITALL: u64 = 0x100;
pub(super) const MSG_WAITFORONE: u64 = 0x10000;
