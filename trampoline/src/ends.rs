//! What an image runs at its end: the functions of its `.fini_array`, such as those with C's attribute `destructor`. The image finds
//! the array by its own dynamic section; the loader has compared its place with the segments, and relocated it.
#![allow(unsafe_code, reason = "the linker's symbols, and functions that are known by their addresses only")]

/// An entry of the dynamic section.
#[repr(C)]
struct Entry {
    tag: u64,
    value: u64,
}

const DT_NULL: u64 = 0;
const DT_FINI_ARRAY: u64 = 26;
const DT_FINI_ARRAYSZ: u64 = 28;

unsafe extern "C" {
    /// The image's dynamic section, by the linker.
    #[link_name = "_DYNAMIC"]
    static DYNAMIC: Entry;
    /// The image's first byte, at its address 0, by the linker.
    #[link_name = "__ehdr_start"]
    static START: u8;
}

/// Runs them, the last one first, as dynamic linkers do. A program calls this once, when it ends.
pub fn run_destructors() {
    let (mut address, mut bytes) = (0, 0);
    let mut at = &raw const DYNAMIC;
    // SAFETY: the loader takes an image only if its dynamic section ends with DT_NULL.
    unsafe {
        while (*at).tag != DT_NULL {
            match (*at).tag {
                DT_FINI_ARRAY => address = (*at).value,
                DT_FINI_ARRAYSZ => bytes = (*at).value,
                _ => {}
            }
            at = at.add(1);
        }
    }
    let first = ((&raw const START) as u64).wrapping_add(address) as *const extern "C" fn();
    for at in (0..bytes as usize / size_of::<u64>()).rev() {
        // SAFETY: the array of the image's own functions.
        unsafe { first.add(at).read()() };
    }
}
