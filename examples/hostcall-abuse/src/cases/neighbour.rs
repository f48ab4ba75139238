//! Every call that takes a socket or a file, with the numbers of those that the victim has open.

use super::files::ON_A_DESCRIPTOR;
use super::{Cases, MAX, Own};
use monohull_abi::Errno::BadDescriptor;
use monohull_abi::file::WORKING_DIRECTORY;
use monohull_abi::number::*;

pub(super) fn all(cases: &mut Cases<'_>, own: &Own) {
    let socket = cases.addresses.holdings.socket;
    for call in [
        TCP_ACCEPT,
        UDP_CONNECT,
        SOCKET_RECV,
        SOCKET_SEND,
        SOCKET_RECVFROM,
        SOCKET_SENDTO,
        SOCKET_SHUTDOWN,
        SOCKET_DUP,
        SOCKET_GET_OPTION,
        SOCKET_SET_OPTION,
        SOCKET_GETNAME,
        SOCKET_CLOSE,
    ] {
        cases.refused("a socket of another instance", call, &[socket, own.bytes, 16], BadDescriptor);
    }
    let file = cases.addresses.holdings.file;
    for call in ON_A_DESCRIPTOR {
        cases.refused("a file of another instance", call, &[file, own.bytes, 0, 0], BadDescriptor);
    }
    cases.refused("a file of another instance", FILE_MMAP, &[file, 0, 16, 0], BadDescriptor);
    cases.refused("a file of another instance", FILE_SET_TIMES, &[file, 0, 0, 1, 1], BadDescriptor);
    cases.refused("a file of another instance", FILE_DUP, &[file, MAX], BadDescriptor);
    let (name, len) = ("n".as_ptr() as u64, 1);
    for call in [FILE_OPEN, FILE_STAT, FILE_MKDIR, FILE_RMDIR, FILE_UNLINK, FILE_CHDIR, FILE_REALPATH, FILE_SET_TIMES] {
        cases.refused("a directory of another instance", call, &[file, name, len, 1, 0], BadDescriptor);
    }
    for [from, to] in [[file, WORKING_DIRECTORY], [WORKING_DIRECTORY, file]] {
        cases.refused("a directory of another instance", FILE_RENAME, &[from, name, len, to, name, len], BadDescriptor);
    }
}
