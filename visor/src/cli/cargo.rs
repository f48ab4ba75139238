//! Cargo, and compilers, as child processes. What they say is text of others: names and messages that the author of a crate chose.
//!
//! ```text
//!   cargo ── stdout ──▶ the caller: documents, whose texts go through `shown_text`
//!         ── stderr ──▶ a thread, line by line through `shown_text` ──▶ standard error
//! ```
//!
//! All that a terminal may act on is escaped, but for the sequences that only choose colours, where colours are wanted. A child ends with this program: a build
//! that was killed does not go on.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::thread;

use monohull_report::escape::{Notation, Pieces};
use monohull_sys::child;

use super::output;

/// The program.
pub(super) fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Whether messages have colours: as the user has chosen for cargo, otherwise where they go to a terminal.
pub(super) fn has_colours() -> bool {
    match std::env::var("CARGO_TERM_COLOR").as_deref() {
        Ok("always") => true,
        Ok("never") => false,
        _ => output::notes_go_to_a_terminal(),
    }
}

/// A command of cargo for a crate. It starts in the crate's folder: cargo reads `.cargo/config.toml` from where it is started, not from
/// where the manifest lies.
pub(super) fn command(manifest: &Path) -> Command {
    let mut command = Command::new(program());
    if let Some(folder) = manifest.parent() {
        command.current_dir(folder);
    }
    command.env("CARGO_TERM_COLOR", if has_colours() { "always" } else { "never" });
    command
}

/// Runs a command to its end. `read` gets its standard output; its messages are shown meanwhile.
pub(super) fn run<T>(command: &mut Command, read: impl FnOnce(ChildStdout) -> T) -> io::Result<(T, ExitStatus)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child::spawn(command)?;
    let (stdout, stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let colours = has_colours();
    thread::scope(|scope| {
        scope.spawn(move || relay(stderr, |text| output::note_bytes(shown_text(text, colours).as_bytes())));
        let read = read(stdout);
        Ok((read, child.wait()?))
    })
}

/// Runs a compiler to its end, with this program's input and output. Its messages are shown meanwhile.
pub(super) fn relayed(command: &mut Command) -> io::Result<ExitStatus> {
    let mut child = child::spawn(command.stderr(Stdio::piped()))?;
    let colours = has_colours();
    let stderr = child.stderr.take().expect("piped");
    relay(stderr, |text| output::note_bytes(shown_text(text, colours).as_bytes()));
    child.wait()
}

/// Passes on each line as it comes.
fn relay(from: impl io::Read, mut to: impl FnMut(&[u8])) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    // What cannot be read any more is lost, as what a process cannot write.
    while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        to(&line);
        line.clear();
    }
}

/// Text as it is shown: all that a terminal may act on is escaped, except for line ends and, if they are wanted, colours.
pub(super) fn shown_text(text: &[u8], colours: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let start = if colours { find_colour(rest) } else { None };
        let (at, len) = start.unwrap_or((rest.len(), 0));
        let mut pieces = Pieces::new(Notation::Lines);
        shown += &pieces.push(&rest[..at]);
        shown += &pieces.finish();
        // Only ASCII.
        shown.extend(rest[at..at + len].iter().map(|byte| char::from(*byte)));
        rest = &rest[at + len..];
    }
    shown
}

/// The place and length of the first sequence that chooses a colour or a weight: ESC `[`, digits and semicolons, `m`.
fn find_colour(text: &[u8]) -> Option<(usize, usize)> {
    text.windows(2).enumerate().filter(|(_, begin)| *begin == b"\x1b[").find_map(|(at, _)| {
        let len = text[at + 2..].iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';'))?;
        (text[at + 2 + len] == b'm').then_some((at, len + 3))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_stay() {
        let text = b"\x1b[1m\x1b[38;5;9merror\x1b[0m: \x1b[2J\x1b]52;c;eA==\x07\x1b[31\x9b31m\xc2\x9b\xe2\x80\xae\r\n\x1b[m\x1b[";
        let shown = "\x1b[1m\x1b[38;5;9merror\x1b[0m: \\u{1b}[2J\\u{1b}]52;c;eA==\\u{7}\\u{1b}[31\\x9b31m\\u{9b}\\u{202e}\\r\n\x1b[m\\u{1b}[";
        assert_eq!(shown_text(text, true), shown);
        let without = shown.replace('\x1b', "\\u{1b}");
        assert_eq!(shown_text(text, false), without);
    }

    #[test]
    fn a_last_line_without_an_end_is_passed_on() {
        let mut lines = Vec::new();
        relay(&b"one\ntwo"[..], |line| lines.push(line.to_vec()));
        assert_eq!(lines, [b"one\n".to_vec(), b"two".to_vec()]);
    }
}
