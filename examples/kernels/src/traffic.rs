//! Traffic with a server over connections: the loops that the function, the plain program and the server share.
//!
//! ```text
//!   client ── kind (1 byte), count (8) ──▶ server
//!   push      the bytes, the end      ──▶           ◀── one byte, when all have been read
//!   pull                                            ◀── the bytes
//!   ask       one byte                ──▶           ◀── one byte                              … count times
//! ```

use alloc::vec;

/// A connection. Errors panic: there is nothing to measure then.
pub trait Connection {
    /// Reads what there is, at least a byte; 0 at the end.
    fn read(&mut self, buffer: &mut [u8]) -> usize;
    /// Writes all bytes.
    fn write(&mut self, bytes: &[u8]);
    /// Says that nothing more is written.
    fn end(&mut self);
}

/// What a client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traffic {
    /// Sends bytes; a unit is a byte.
    Push,
    /// Receives bytes; a unit is a byte.
    Pull,
    /// Sends a byte and waits for one; a unit is both.
    Ask,
    /// The same on a new connection each time.
    Connect,
}

/// Bytes of a request and of an answer in bulk.
const PIECE: usize = 256 << 10;
/// Bytes of what a client says first.
const HEAD: usize = 9;

impl Traffic {
    /// All that are measured.
    pub const ALL: [Traffic; 4] = [Traffic::Push, Traffic::Pull, Traffic::Ask, Traffic::Connect];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Traffic::Push => "push",
            Traffic::Pull => "pull",
            Traffic::Ask => "ask",
            Traffic::Connect => "connect",
        }
    }

    /// The client's side of `count` units.
    pub fn run<C: Connection>(self, count: u64, connect: impl Fn() -> C) {
        if self == Traffic::Connect {
            (0..count).for_each(|_| Traffic::Ask.talk(1, connect()));
        } else {
            self.talk(count, connect());
        }
    }

    fn talk(self, count: u64, mut connection: impl Connection) {
        let mut head = [0; HEAD];
        head[0] = self as u8;
        head[1..].copy_from_slice(&count.to_le_bytes());
        connection.write(&head);
        match self {
            Traffic::Push => {
                send(&mut connection, count);
                connection.end();
                exactly(&mut connection, &mut [0]);
            }
            Traffic::Pull => assert_eq!(receive(&mut connection), count),
            _ => (0..count).for_each(|_| {
                connection.write(&[1]);
                exactly(&mut connection, &mut [0]);
            }),
        }
    }

    /// The server's side of one connection.
    pub fn serve(connection: &mut impl Connection) {
        let mut head = [0; HEAD];
        exactly(connection, &mut head);
        let [kind, count @ ..] = head;
        let count = u64::from_le_bytes(count);
        match kind {
            kind if kind == Traffic::Push as u8 => {
                assert_eq!(receive(connection), count);
                connection.write(&[1]);
            }
            kind if kind == Traffic::Pull as u8 => send(connection, count),
            _ => (0..count).for_each(|_| {
                exactly(connection, &mut [0]);
                connection.write(&[1]);
            }),
        }
    }
}

fn send(connection: &mut impl Connection, count: u64) {
    let piece = vec![7; PIECE];
    let mut left = count;
    while left > 0 {
        let now = left.min(PIECE as u64);
        connection.write(&piece[..now as usize]);
        left -= now;
    }
}

/// Reads to the end; how many bytes.
fn receive(connection: &mut impl Connection) -> u64 {
    let mut piece = vec![0; PIECE];
    let mut count = 0;
    loop {
        match connection.read(&mut piece) {
            0 => return count,
            read => count += read as u64,
        }
    }
}

fn exactly(connection: &mut impl Connection, buffer: &mut [u8]) {
    let mut done = 0;
    while done < buffer.len() {
        let read = connection.read(&mut buffer[done..]);
        assert!(read > 0, "it ended early");
        done += read;
    }
}
