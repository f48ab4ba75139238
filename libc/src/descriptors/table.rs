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

/// What is open.
struct Table {
    kinds: [Option<Kind>; MOST],
    /// `FD_CLOEXEC`, which a program can read back: there is no `exec`.
    close_on_exec: [bool; MOST],
}

static TABLE: Lock<Table> = Lock::new(Table { kinds: [None; MOST], close_on_exec: [false; MOST] });
/// `O_CLOEXEC`, and what `socket`, `pipe2`, `eventfd`, `epoll_create1` and `dup3` call it.
pub(crate) const CLOSE_ON_EXEC: u64 = 0o2_000_000;

/// The numbers that are open when a program starts.
pub(crate) fn open_standard() {
    TABLE.hold().kinds[..3].copy_from_slice(&[Some(Kind::Input), Some(Kind::Output(1)), Some(Kind::Output(2))]);
}

/// What a number stands for.
pub(crate) fn get(descriptor: u64) -> Result<Kind, Answer> {
    // Descriptors are `int`s: what is above the lower half of the register means nothing.
    let table = TABLE.hold();
    table.kinds.get(descriptor as u32 as usize).copied().flatten().ok_or(EBADF)
}

/// Whether a number that is open would be closed by `exec`.
pub(super) fn closes_on_exec(descriptor: u64) -> Result<bool, Answer> {
    let table = TABLE.hold();
    let at = descriptor as u32 as usize;
    table.kinds.get(at).copied().flatten().map(|_| table.close_on_exec[at]).ok_or(EBADF)
}

/// Sets that.
pub(super) fn close_on_exec(descriptor: u64, closes: bool) -> Result<(), Answer> {
    let mut table = TABLE.hold();
    let at = descriptor as u32 as usize;
    table.kinds.get(at).copied().flatten().ok_or(EBADF)?;
    table.close_on_exec[at] = closes;
    Ok(())
}

/// The lowest free number from `lowest` on, for something that is open; if there is none, `close` closes that. Of `flags`, [`CLOSE_ON_EXEC`] is the number's.
pub(crate) fn add_from(lowest: u64, kind: Kind, flags: u64, close: impl FnOnce() -> Answer) -> Answer {
    let mut table = TABLE.hold();
    let free = (lowest as usize..MOST).find(|at| table.kinds[*at].is_none());
    match free {
        Some(at) => {
            table.kinds[at] = Some(kind);
            table.close_on_exec[at] = flags & CLOSE_ON_EXEC != 0;
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
    TABLE.hold().kinds.get_mut(descriptor as u32 as usize).and_then(Option::take)
}

/// Gives a number another meaning; what it stood for.
pub(super) fn replace(at: usize, kind: Kind, flags: u64) -> Option<Kind> {
    let mut table = TABLE.hold();
    table.close_on_exec[at] = flags & CLOSE_ON_EXEC != 0;
    table.kinds[at].replace(kind)
}
