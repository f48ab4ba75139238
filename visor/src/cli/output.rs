//! Standard output and standard error: every verb writes through here, and nowhere else.
//!
//! Two rules hold for all of them. Text is escaped ([`monohull_report::escape`]), unless it is data that a user asked for as it is. And
//! output that cannot be written is an error: the first failure is kept until the verb has ended, and [`finish`] reports it
//! and turns success into failure. A reader that has gone away (a closed pipe) is not a failure, but what is written to it
//! is useless; [`Piece`] says so to those that would go on.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::sync::OnceLock;

use serde::Serialize;

use super::exit::Exit;
use monohull_report::escape::{self, Lines, Notation, Pieces};

/// The first write to standard output that failed.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// Whether there is any use in writing more.
pub(super) type Piece = ControlFlow<()>;

/// Prints lines for people to standard output. The text brings its line ends.
pub(super) fn text(text: impl Display) {
    let _ = bytes(Lines(text).to_string().as_bytes());
}

/// Prints one JSON document.
pub(super) fn json(document: &impl Serialize) {
    match escape::to_json_pretty(document) {
        Ok(mut text) => {
            text.push(b'\n');
            let _ = bytes(&text);
        }
        Err(error) => failed(error.into()),
    }
}

/// Writes bytes to standard output as they are.
pub(super) fn bytes(bytes: &[u8]) -> Piece {
    if FAILED.get().is_none() {
        let mut out = stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Ok(()) => return Piece::Continue(()),
            Err(error) => failed(error),
        }
    }
    Piece::Break(())
}

/// Writes lines for people to standard error. What cannot be written there is lost: there is no better place to say so.
pub(super) fn note(text: impl Display) {
    let _ = writeln!(stderr(), "{}", Lines(text));
}

/// Writes text that has been escaped to standard error.
pub(super) fn note_bytes(bytes: &[u8]) {
    let _ = stderr().lock().write_all(bytes);
}

/// The width of the terminal that standard output is; `None` if it is none, or does not know.
pub(super) fn terminal_width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(stdout()).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// Whether standard error is a terminal.
pub(super) fn notes_go_to_a_terminal() -> bool {
    stderr().is_terminal()
}

/// Remembers that standard output could not be written.
pub(super) fn failed(error: io::Error) {
    // Only the first is of interest.
    let _ = FAILED.set(error);
}

/// The exit code of a verb that has ended with `exit`, where `unwritten` stands for success without its output. That a workflow waits, as was
/// asked for, is a success too: who reads that code expects to find the invocation's id in the output.
pub(super) fn finish(exit: u8, unwritten: u8) -> u8 {
    match FAILED.get() {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            note(format_args!("monohull: standard output cannot be written: {error}"));
            if exit == 0 || exit == Exit::Suspended as u8 { unwritten } else { exit }
        }
        _ => exit,
    }
}

/// Data of others for standard output: the result of an invocation, a file of a disk image, lines of a log.
pub(super) struct Data {
    escaped: Option<Pieces>,
}

impl Data {
    /// As it is.
    pub(super) fn raw() -> Data {
        Data { escaped: None }
    }

    /// As it is for a file or another program. For a terminal it is escaped, unless `raw`.
    pub(super) fn for_programs(raw: bool) -> Data {
        if !raw && stdout().is_terminal() { Data::escaped(Notation::Lines) } else { Data::raw() }
    }

    /// Escaped, wherever it goes.
    pub(super) fn escaped(notation: Notation) -> Data {
        Data { escaped: Some(Pieces::new(notation)) }
    }

    /// Writes the next bytes.
    pub(super) fn put(&mut self, piece: &[u8]) -> Piece {
        match &mut self.escaped {
            Some(pieces) => bytes(pieces.push(piece).as_bytes()),
            None => bytes(piece),
        }
    }

    /// Nothing more comes.
    pub(super) fn finish(self) {
        if let Some(pieces) = self.escaped {
            let _ = bytes(pieces.finish().as_bytes());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place of the command line that opens it")]
fn stdout() -> io::Stdout {
    io::stdout()
}

#[expect(clippy::disallowed_methods, reason = "the one place of the command line that opens it")]
fn stderr() -> io::Stderr {
    io::stderr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    #[test]
    fn a_document_that_cannot_be_made_is_output_that_is_not_written() {
        // The usual way to write a path refuses this one.
        json(&Path::new(OsStr::from_bytes(b"\xe9")));
        assert_eq!(finish(Exit::Done as u8, Exit::Host as u8), Exit::Host as u8);
    }
}
