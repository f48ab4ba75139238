//! Input and output, as in `std::io`: the traits, readers and writers in memory, and the standard streams.

mod buffered;
mod cursor;
mod error;
mod memory;
mod read;
mod stdin;
mod stdio;
mod util;
mod vectored;
mod write;

pub use buffered::{BufReader, BufWriter, IntoInnerError, LineWriter, WriterPanicked};
pub use cursor::Cursor;
pub use error::{Error, ErrorKind, Result};
pub(crate) use read::append_text;
pub use read::{BufRead, Bytes, Chain, Lines, Read, Split, Take};
pub use stdin::{Stdin, StdinLock, stdin};
pub(crate) use stdio::flush_before_the_end;
#[doc(hidden)]
pub use stdio::{_eprint, _eprint_line, _print, _print_line};
pub use stdio::{IsTerminal, Stderr, StderrLock, Stdout, StdoutLock, read_to_string, stderr, stdout};
pub use util::{Empty, Repeat, Sink, copy, empty, repeat, sink};
pub use vectored::{IoSlice, IoSliceMut};
pub use write::{Seek, SeekFrom, Write};

/// The traits, to be imported together.
pub mod prelude {
    pub use super::{BufRead, Read, Seek, Write};
}
