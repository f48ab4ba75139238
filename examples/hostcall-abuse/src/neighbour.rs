//! What the victim has from the libos, under numbers that no other instance has: a connection in which bytes wait, a file, and a queue
//! with an event in it.
//!
//! ```text
//!   victim     socket 0, 1, … 40 ─▶ connection ─▶ sixteen letters, for the victim alone
//!   attacker   socket 0, 1, 2                     reads, writes, closes, … 40: it has no such socket
//! ```

use crate::addresses::Holdings;
use crate::cases::{Network, connection};
use monohull_abi::file::{WORKING_DIRECTORY, open};
use monohull_abi::network::{PEEK, QueueEvent};
use monohull_abi::number::*;
use monohull_std::prelude::*;
use monohull_trampoline::user::hostcall;

/// What waits in the connection, and what is in the file.
pub(crate) const TEXT: &[u8; 16] = b"sixteen letters.";
const LEN: u64 = TEXT.len() as u64;
/// More numbers than an attacker ever has at a time.
const NUMBERS: u64 = 40;

/// A queue of the victim's, in which an event of this data waits.
pub(crate) const QUEUE: u64 = NUMBERS;
const POSTED: u64 = 0x5107_ed00;

/// Opens the connection: its number.
pub(crate) fn open_socket(network: Network) -> u64 {
    let (mut socket, _) = connection(network);
    // The first of them stay: to close one number would close nothing, but the number would be gone.
    while socket < NUMBERS {
        socket = hostcall(SOCKET_DUP, [socket, 0, 0, 0, 0, 0]) as u64;
    }
    socket
}

/// Opens the file, and the queue: the file's number.
pub(crate) fn open_file_and_queue() -> u64 {
    let path = "/work/of-the-victim";
    let flags = open::READ | open::WRITE | open::CREATE;
    let path = [WORKING_DIRECTORY, path.as_ptr() as u64, path.len() as u64, flags, 0, 0];
    let mut file = hostcall(FILE_OPEN, path) as u64;
    hostcall(FILE_PWRITE, [file, TEXT.as_ptr() as u64, LEN, 0, 0, 0]);
    while file < NUMBERS {
        file = hostcall(FILE_DUP, [file, u64::MAX, 0, 0, 0, 0]) as u64;
    }
    while hostcall(QUEUE_NEW, [0; 6]) < QUEUE as i64 {}
    hostcall(QUEUE_POST, [QUEUE, POSTED, 0, 0, 0, 0]);
    file
}

impl Holdings {
    /// Whether both are as they were: open under their numbers, the position at the start, every byte there.
    pub(crate) fn are_intact(&self) -> bool {
        let holds = |number, [socket, flags]: [u64; 2]| {
            let mut room = [0u8; 64];
            let read = hostcall(number, [socket, room.as_mut_ptr() as u64, room.len() as u64, flags, 0, 0]);
            read == LEN as i64 && room[..TEXT.len()] == *TEXT
        };
        let mut events = [QueueEvent::default(); 2];
        let waited = hostcall(QUEUE_WAIT, [QUEUE, events.as_mut_ptr() as u64, 2, 0, 0, 0]);
        let queue_is_intact = waited == 1 && events[0].data == POSTED;
        queue_is_intact
            && holds(FILE_READ, [self.file, 0])
            && holds(SOCKET_RECV, [self.socket, PEEK])
            && holds(SOCKET_RECV, [self.socket, 0])
    }
}
