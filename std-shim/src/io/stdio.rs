//! The standard output and error output.
//!
//! The host makes whole lines of what it gets and tags them; so what matters here is that a line is sent by one hostcall.
//! The standard output is collected up to a newline, as in std; each `print!` formats on the stack first and leaves, if
//! nothing else is waiting, without being copied. The standard error output is not collected beyond one call.

use super::{LineWriter, Read, Result, Write};
use crate::fmt;
use crate::rt::header::with_header;
use crate::string::String;
use crate::sync::raw::RawLock;
use crate::sys;
use crate::vec::Vec;
use core::cell::{Cell, RefCell, RefMut};
use core::sync::atomic::{AtomicUsize, Ordering};

const OUT: u64 = 1;
const ERR: u64 = 2;

/// One of the host's streams, unbuffered.
#[derive(Debug)]
struct Raw(u64);

impl Write for Raw {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        sys::write(self.0, buf)?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> Result<()> {
        sys::flush(self.0)?;
        Ok(())
    }
}

/// The standard output: a lock that its holder may take again, around a line buffer.
struct Shared {
    lock: RawLock,
    /// Identifies the holder: the address of its thread header; 0 if it is free.
    owner: AtomicUsize,
    depth: Cell<usize>,
    lines: RefCell<Option<LineWriter<Raw>>>,
}

#[allow(unsafe_code, reason = "the lock makes the cells safe to share")]
// SAFETY: `depth` and `lines` are only touched by the thread that holds `lock`.
unsafe impl Sync for Shared {}

static STDOUT: Shared =
    Shared { lock: RawLock::new(), owner: AtomicUsize::new(0), depth: Cell::new(0), lines: RefCell::new(None) };

/// The calling thread, as an owner.
fn me() -> usize {
    with_header(|header| core::ptr::from_ref(header) as usize)
}

impl Shared {
    fn lock(&'static self) -> StdoutLock<'static> {
        let me = me();
        if self.owner.load(Ordering::Relaxed) != me {
            self.lock.lock();
            self.owner.store(me, Ordering::Relaxed);
        }
        self.depth.set(self.depth.get() + 1);
        StdoutLock { shared: self, not_send: core::marker::PhantomData }
    }
}

/// The standard output.
#[derive(Clone, Copy)]
pub struct Stdout(());

/// The standard output, locked.
pub struct StdoutLock<'a> {
    shared: &'a Shared,
    not_send: core::marker::PhantomData<*const ()>,
}

/// The standard output.
pub fn stdout() -> Stdout {
    Stdout(())
}

impl Stdout {
    /// Keeps other threads' output away until the lock is dropped.
    pub fn lock(&self) -> StdoutLock<'static> {
        STDOUT.lock()
    }
}

impl StdoutLock<'_> {
    fn lines(&mut self) -> RefMut<'_, LineWriter<Raw>> {
        RefMut::map(self.shared.lines.borrow_mut(), |lines| lines.get_or_insert_with(|| LineWriter::new(Raw(OUT))))
    }

    /// Writes a whole text; complete lines are sent at once, past the buffer if that is empty.
    fn print(&mut self, text: &str) -> Result<()> {
        let nothing_waits = self.shared.lines.borrow().as_ref().is_none_or(LineWriter::is_empty);
        if nothing_waits && text.ends_with('\n') {
            return Raw(OUT).write_all(text.as_bytes());
        }
        self.lines().write_all(text.as_bytes())
    }
}

impl Drop for StdoutLock<'_> {
    fn drop(&mut self) {
        let depth = self.shared.depth.get() - 1;
        self.shared.depth.set(depth);
        if depth == 0 {
            self.shared.owner.store(0, Ordering::Relaxed);
            self.shared.lock.unlock();
        }
    }
}

macro_rules! opaque {
    ($($name:literal $type:ty),*) => { $(
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name).finish_non_exhaustive()
            }
        }
    )* };
}

opaque!("Stdout" Stdout, "StdoutLock" StdoutLock<'_>, "Stderr" Stderr, "StderrLock" StderrLock<'_>);

impl Write for StdoutLock<'_> {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        self.lines().write(buf)
    }

    fn flush(&mut self) -> Result<()> {
        self.lines().flush()
    }
}

/// The standard error output.
#[derive(Clone, Copy)]
pub struct Stderr(());

/// The standard error output. Every write is sent at once, so there is nothing to lock.
pub struct StderrLock<'a>(core::marker::PhantomData<&'a ()>);

/// The standard error output.
pub fn stderr() -> Stderr {
    Stderr(())
}

impl Stderr {
    /// The same stream.
    pub fn lock(&self) -> StderrLock<'static> {
        StderrLock(core::marker::PhantomData)
    }
}

/// Text formatted on the stack, and on the heap from where that is not enough.
struct Formatted {
    stack: [u8; 256],
    len: usize,
    heap: Vec<u8>,
}

impl Formatted {
    fn new() -> Formatted {
        Formatted { stack: [0; 256], len: 0, heap: Vec::new() }
    }

    fn as_bytes(&self) -> &[u8] {
        if self.heap.is_empty() { &self.stack[..self.len] } else { &self.heap }
    }
}

impl fmt::Write for Formatted {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        if self.heap.is_empty() && end <= self.stack.len() {
            self.stack[self.len..end].copy_from_slice(text.as_bytes());
            self.len = end;
            return Ok(());
        }
        if self.heap.is_empty() {
            self.heap.reserve(2 * end);
            self.heap.extend_from_slice(&self.stack[..self.len]);
        }
        self.heap.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Formats `arguments` and gives the text to `to`.
#[track_caller]
fn formatted(arguments: fmt::Arguments<'_>, newline: bool, name: &str, to: impl FnOnce(&str) -> Result<()>) {
    let mut text = Formatted::new();
    let formatted = fmt::write(&mut text, arguments)
        .and_then(|()| if newline { fmt::Write::write_str(&mut text, "\n") } else { Ok(()) });
    let Ok(()) = formatted else { panic!("a formatting trait implementation returned an error") };
    // Only whole strings were put in.
    let text = core::str::from_utf8(text.as_bytes()).unwrap_or_default();
    if let Err(error) = to(text) {
        panic!("failed printing to {name}: {error}");
    }
}

#[doc(hidden)]
pub fn _print(arguments: fmt::Arguments<'_>) {
    formatted(arguments, false, "stdout", |text| STDOUT.lock().print(text));
}

#[doc(hidden)]
pub fn _print_line(arguments: fmt::Arguments<'_>) {
    formatted(arguments, true, "stdout", |text| STDOUT.lock().print(text));
}

#[doc(hidden)]
pub fn _eprint(arguments: fmt::Arguments<'_>) {
    formatted(arguments, false, "stderr", |text| Raw(ERR).write_all(text.as_bytes()));
}

#[doc(hidden)]
pub fn _eprint_line(arguments: fmt::Arguments<'_>) {
    formatted(arguments, true, "stderr", |text| Raw(ERR).write_all(text.as_bytes()));
}

/// Sends on what is collected, as far as that is possible now: the instance is about to end. A thread that has the lock may end it too.
pub(crate) fn flush_before_the_end() {
    let mine = STDOUT.owner.load(Ordering::Relaxed) == me();
    if mine || STDOUT.lock.try_lock() {
        if let Ok(mut lines) = STDOUT.lines.try_borrow_mut()
            && let Some(lines) = lines.as_mut()
        {
            let _ = lines.flush();
        }
        if !mine {
            STDOUT.lock.unlock();
        }
    }
}

macro_rules! by_lock {
    ($($type:ty),*) => { $(
        impl Write for $type {
            fn write(&mut self, buf: &[u8]) -> Result<usize> {
                self.lock().write(buf)
            }
            fn flush(&mut self) -> Result<()> {
                self.lock().flush()
            }
            fn write_all(&mut self, buf: &[u8]) -> Result<()> {
                self.lock().write_all(buf)
            }
            fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) -> Result<()> {
                self.lock().write_fmt(arguments)
            }
        }
    )* };
}

by_lock!(Stdout, &Stdout, Stderr, &Stderr);

impl Write for StderrLock<'_> {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        Raw(ERR).write(buf)
    }

    fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) -> Result<()> {
        let mut text = Formatted::new();
        fmt::write(&mut text, arguments).map_err(super::Error::other)?;
        self.write_all(text.as_bytes())
    }

    fn flush(&mut self) -> Result<()> {
        Raw(ERR).flush()
    }
}

/// Whether it is a terminal.
pub trait IsTerminal {
    /// Never for a function: its output goes to the report, its input comes from a slot.
    fn is_terminal(&self) -> bool {
        false
    }
}

impl IsTerminal for Stdout {}
impl IsTerminal for StdoutLock<'_> {}
impl IsTerminal for Stderr {}
impl IsTerminal for StderrLock<'_> {}
impl IsTerminal for super::Stdin {}
impl IsTerminal for super::StdinLock<'_> {}
impl IsTerminal for crate::fs::File {}

/// Everything `reader` has, as text.
pub fn read_to_string<R: Read>(mut reader: R) -> Result<String> {
    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    Ok(text)
}
