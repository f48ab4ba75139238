//! How an image starts and how it ends.
//!
//! The gate "returns" to the image's `monohull_start` on a fresh main stack. [`start`] runs the image's constructors and
//! then `main`, and gives its outcome to the host. Nothing returns from here.

pub(crate) mod header;
mod heap;
pub(crate) mod last_error;
pub mod returned;

pub use crate::{c_memory, image};
pub use core::ffi::c_void;
pub use heap::Heap;
pub(crate) use heap::drop_cache;
pub use monohull_abi::types::ImageHeader;
pub use monohull_trampoline::{memory, search, thread_entry};

use crate::any::Any;
use crate::panic::{Location, PanicHookInfo, PanicInfo};
use crate::process::Termination;
use crate::string::ToString;
use crate::{io, panic, sys, thread};
use core::fmt::{Display, Write};
use header::with_header;
use monohull_abi::types::{AbortKind, Info};

/// The description of an image.
pub const IMAGE: ImageHeader =
    ImageHeader { magic: monohull_abi::module::MAGIC, abi_version: monohull_abi::ABI_VERSION as u64 };

/// The main thread's body: everything from the first instruction to `EXIT`.
pub fn start<T: Termination>(main: fn() -> T) -> ! {
    monohull::rt::set_before_end(io::flush_before_the_end);
    run_constructors();
    let status = main().report();
    thread::end_of_thread();
    crate::process::exit(status.to_i32())
}

#[allow(unsafe_code, reason = "constructors are known by their addresses only")]
fn run_constructors() {
    let count = sys::info(Info::InitCount) as usize;
    if count == 0 {
        return;
    }
    let first = sys::info(Info::InitArray) as *const extern "C" fn();
    // SAFETY: the loader found the array in the image's dynamic section and has relocated it; a function that makes up
    // another answer can only harm itself.
    for constructor in unsafe { core::slice::from_raw_parts(first, count) } {
        constructor();
    }
}

/// The panic handler: runs the hook, and ends the instance with std's message in its report.
pub fn panicked(info: &PanicInfo<'_>) -> ! {
    let first = match another_panic() {
        0 => true,
        1 => false,
        // A message that panics is not written again.
        _ => fail(&AGAIN, info.location()),
    };
    let mut text = Words::default();
    let _ = write!(text, "{}", info.message());
    if let Some(bytes) = heap::refused(text.as_str()) {
        text.len = 0;
        let _ = write!(text, "{bytes} bytes");
        sys::fail(AbortKind::OutOfMemory, text.as_str())
    }
    if !first {
        fail(&format_args!("{}\n{AGAIN}", info.message()), info.location())
    }
    if let Some(place) = info.location() {
        panic::call_hook(|hook| match info.message().as_str() {
            Some(message) => hook(&PanicHookInfo::new(&message, place)),
            None => hook(&PanicHookInfo::new(&info.message().to_string(), place)),
        });
    }
    fail(&info.message(), info.location())
}

/// A panic that carries something else than a text of `panic!`. The hook runs if the panic has a source location.
pub(crate) fn panic_with(payload: &(dyn Any + Send), place: Option<&Location<'_>>) -> ! {
    let words = panic::text(payload).unwrap_or("Box<dyn Any>");
    if another_panic() > 0 {
        fail(&format_args!("{words}\n{AGAIN}"), place)
    }
    if let Some(place) = place {
        panic::call_hook(|hook| hook(&PanicHookInfo::new(payload, place)));
    }
    fail(&words, place)
}

/// What std writes when a hook panics, or a message.
const AGAIN: &str = "thread panicked while processing panic. aborting.";

/// Counts a panic of this thread: how many there were before it.
fn another_panic() -> u32 {
    with_header(|header| header.panics.replace(header.panics.get().saturating_add(1)))
}

/// Ends the instance as panicked.
fn fail(message: &dyn Display, place: Option<&Location<'_>>) -> ! {
    let mut text = Words::default();
    let _ = write!(text, "thread '");
    thread::with_current_name(|name| text.write_str(name.unwrap_or("<unnamed>"))).ok();
    let _ = write!(text, "' panicked");
    if let Some(place) = place {
        let _ = write!(text, " at {place}");
    }
    let _ = write!(text, ":\n{message}");
    io::flush_before_the_end();
    sys::fail(AbortKind::Panic, text.as_str())
}

/// Text on the stack, cut where it is full: a panic may be about memory.
struct Words {
    bytes: [u8; Self::CAPACITY],
    len: usize,
}

impl Words {
    const CAPACITY: usize = 2048;

    fn as_str(&self) -> &str {
        // Only whole characters are ever added.
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl Default for Words {
    fn default() -> Words {
        Words { bytes: [0; Self::CAPACITY], len: 0 }
    }
}

impl Write for Words {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = Self::CAPACITY - self.len;
        let fits = (0..=text.len().min(room)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        self.bytes[self.len..self.len + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.len += fits;
        if fits == text.len() { Ok(()) } else { Err(core::fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let mut words = Words::default();
        let mut written = 0;
        while words.write_str("Rümpfe ").is_ok() {
            written += 1;
        }
        assert_eq!(words.as_str().matches('ü').count(), written + usize::from(words.len % 8 > 2));
        assert!(words.len > Words::CAPACITY - 2);
    }
}
