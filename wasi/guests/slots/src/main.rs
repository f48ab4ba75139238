//! A Rust program for WASI that takes the slot `in`, puts it into upper case, and publishes it as `out`. A large one is moved into the program's
//! memory and out of it again.
//!
//! Pages can be moved where they are pages of both sides: hence [`Pages`], memory that begins with one.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

// What the runtime offers beside WASI: 0, or an error number of WASI.
#[link(wasm_import_module = "monohull")]
unsafe extern "C" {
    fn slot_take(name: *const u8, name_len: usize, wait: u32, out: *mut [u32; 2]) -> i32;
    fn slot_move(handle: u32, to: *mut u8, len: usize) -> i32;
    fn slot_publish_moved(name: *const u8, name_len: usize, bytes: *mut u8, len: usize, is_text: u32) -> i32;
}

/// Bytes that begin with a page.
struct Pages {
    start: NonNull<u8>,
    len: usize,
}

impl Pages {
    fn layout(len: usize) -> Layout {
        // Not nothing, which no allocator gives.
        Layout::from_size_align(len.max(1), 4096).expect("a size in the program's memory")
    }

    /// So many zeros.
    fn zeroed(len: usize) -> Pages {
        let layout = Pages::layout(len);
        // SAFETY: the layout has a size.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        Pages { start: start.unwrap_or_else(|| handle_alloc_error(layout)), len }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), Pages::layout(self.len)) }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes are this value's, and initialized.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; nothing else refers to them.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

fn done(error: i32) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Takes a slot over, and waits for it.
fn take(name: &str) -> io::Result<Pages> {
    let mut taken = [0; 2];
    // SAFETY: a name of this length, and room for the answer.
    done(unsafe { slot_take(name.as_ptr(), name.len(), 1, &raw mut taken) })?;
    let [handle, len] = taken;
    let mut pages = Pages::zeroed(len as usize);
    // SAFETY: there is room for so many bytes.
    done(unsafe { slot_move(handle, pages.as_mut_ptr(), pages.len()) })?;
    Ok(pages)
}

/// Fills a slot with a text.
fn publish(name: &str, mut text: Pages) -> io::Result<()> {
    // SAFETY: a name and bytes of these lengths. The bytes are zero afterwards, and of no use any more.
    done(unsafe { slot_publish_moved(name.as_ptr(), name.len(), text.as_mut_ptr(), text.len(), 1) })
}

fn main() -> io::Result<()> {
    let mut text = take("in")?;
    text.make_ascii_uppercase();
    publish("out", text)
}
