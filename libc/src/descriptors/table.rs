//! What the numbers of descriptors stand for.

use crate::errno::{Answer, EBADF, EMFILE};
use crate::lock::Lock;

/// The most descriptors of a program.
pub(crate) const MOST: usize = 1024;
/// What a descriptor stands for. Zeros are none of them, so that a table of free numbers takes no room in an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The standard input.
    Input = 1,
    /// Stream 1 or 2.
    Output(u64),
    /// A file or directory, by its number in `FILE_*`.
    File(u64),
    /// A socket, by its place in the table of sockets.
    Socket(usize),
    /// An event counter, or an end of a pipe or of a pair of sockets, by its place in their table.
    Local(usize),
    /// A list of descriptors to wait for, by its place in the table of those.
    Epoll(usize),
    /// `/dev/null`.
    Null,
    /// `/dev/zero`.
    Zero,
    /// `/dev/random`, `/dev/urandom`.
    Random,
    /// A file of `/proc`, by its place in the table of those.
    Text(usize),
}

static TABLE: Lock<[Option<Kind>; MOST]> = Lock::new([None; MOST]);

/// The numbers that are open when a program starts.
pub(crate) fn open_standard() {
    TABLE.hold()[..3].copy_from_slice(&[Some(Kind::Input), Some(Kind::Output(1)), Some(Kind::Output(2))]);
}

/// What a number stands for.
pub(crate) fn get(descriptor: u64) -> Result<Kind, Answer> {
    // Descriptors are `int`s: what is above the lower half of the register means nothing.
    let table = TABLE.hold();
    table.get(descriptor as u32 as usize).copied().flatten().ok_or(EBADF)
}

/// The lowest free number from `lowest` on, for something that is open; if there is none, `close` closes that.
pub(crate) fn add_from(lowest: u64, kind: Kind, close: impl FnOnce() -> Answer) -> Answer {
    let mut table = TABLE.hold();
    let free = (lowest as usize..MOST).find(|at| table[*at].is_none());
    match free {
        Some(at) => {
            table[at] = Some(kind);
            at as Answer
        }
        None => {
            drop(table);
            close();
            EMFILE
        }
    }
}

/// Frees a number.
pub(super) fn take(descriptor: u64) -> Option<Kind> {
    TABLE.hold().get_mut(descriptor as u32 as usize).and_then(Option::take)
}

/// Gives a number another meaning; what it stood for.
pub(super) fn replace(at: usize, kind: Kind) -> Option<Kind> {
    TABLE.hold()[at].replace(kind)
}
