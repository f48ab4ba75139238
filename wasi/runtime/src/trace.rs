//! What is said of a program that has trapped: Wasmtime's words, with names of functions as they are in Rust, and the lines of source that they were in,
//! if the program came with debug information.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::{self, Debug, Display, Formatter, Write};
use monohull_wasi_settings::lines::Lines;
use rustc_demangle::demangle;
use wasmtime::{Error, FrameInfo, ThrownException, WasmBacktrace};

/// Characters of a name that are shown.
const NAME_MAX: usize = 256;

/// An error with all of its causes. It is what the report has of it, which shows an error by [`Debug`].
pub(crate) struct Told(String);

impl Told {
    /// What is said of this error of a program with this table of lines, which may be empty. Causes come before the backtrace: a report has room
    /// for so much of an error, and the program's names can be longer.
    pub(crate) fn new(error: &Error, lines: &[u8]) -> Told {
        let Some(trace) = error.downcast_ref::<WasmBacktrace>() else { return Told(format!("{error:?}")) };
        let (theirs, located) = (trace.to_string(), Located { trace, lines: Lines::new(lines) });
        let mut text = String::new();
        // Of an exception more is said before.
        let causes = error.chain().filter(|cause| !cause.is::<ThrownException>()).map(|cause| cause.to_string());
        for cause in causes.filter(|cause| *cause != theirs) {
            text += if text.is_empty() { "" } else { "\ncaused by: " };
            text += &cause;
        }
        Told(format!("{text}\n{located}"))
    }
}

impl Debug for Told {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_end())
    }
}

/// Writes a name, which the program has chosen: what would begin another line or control a terminal is replaced, and what follows the first
/// characters of a long one is left out.
struct Name<'f, 'b> {
    to: &'f mut Formatter<'b>,
    left: usize,
}

impl<'f, 'b> Name<'f, 'b> {
    fn to(to: &'f mut Formatter<'b>) -> Name<'f, 'b> {
        Name { to, left: NAME_MAX }
    }
}

impl Write for Name<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match self.left {
                0 => return Ok(()),
                1 => self.to.write_char('…')?,
                _ if character.is_control() => self.to.write_char(char::REPLACEMENT_CHARACTER)?,
                _ => self.to.write_char(character)?,
            }
            self.left -= 1;
        }
        Ok(())
    }
}

/// A backtrace as Wasmtime shows one whose lines it knows.
struct Located<'t> {
    trace: &'t WasmBacktrace,
    lines: Option<Lines<'t>>,
}

impl Display for Located<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("error while executing at wasm backtrace:")?;
        self.trace.frames().iter().enumerate().try_for_each(|(number, frame)| self.frame(f, number, frame))
    }
}

impl Located<'_> {
    fn frame(&self, f: &mut Formatter<'_>, number: usize, frame: &FrameInfo) -> fmt::Result {
        write!(f, "\n  {number:>3}: ")?;
        if let Some(offset) = frame.module_offset() {
            write!(f, "{offset:#8x} - ")?;
        }
        write!(Name::to(f), "{}", frame.module().name().unwrap_or("<unknown>"))?;
        f.write_str("!")?;
        match frame.func_name() {
            // Without the hash at the end.
            Some(name) => write!(Name::to(f), "{:#}", demangle(name))?,
            None => write!(f, "<wasm function {}>", frame.func_index())?,
        }
        let place = self.lines.zip(frame.module_offset()).and_then(|(lines, offset)| lines.at(offset));
        let Some((file, place)) = place else { return Ok(()) };
        write!(f, "\n                    at {file}")?;
        match (place.line, place.column) {
            (0, _) => Ok(()),
            (line, 0) => write!(f, ":{line}"),
            (line, column) => write!(f, ":{line}:{column}"),
        }
    }
}
