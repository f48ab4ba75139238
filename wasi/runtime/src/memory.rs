//! Memory with guard pages for Wasmtime: its functions for virtual memory, over the hostcalls on mapped memory.
//! Without guards it is [`crate::in_place`].
//!
//! A linear memory is one reservation, which costs nothing. Its pages are charged to the step's `memory` when they become accessible, at the
//! start and by `memory.grow`. What it holds at first is mapped there from the image of the function, and a page takes memory when it is written to.

use alloc::format;
use alloc::string::ToString;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use monohull_abi::Errno;
use monohull_abi::layout::PAGE;
use monohull_abi::number::{DISCARD, MAP, MAP_IMAGE, PROTECT, UNMAP};
use monohull_abi::types::MapAccess;
use monohull_trampoline::user::hostcall;
use monohull_wasi_settings::ADDRESSES;
use wasmtime::{Error, ResourcesRequired, format_err};

/// Wasmtime's flags for what pages may be used for.
const READ: u32 = 1 << 0;
const WRITE: u32 = 1 << 1;

/// The same as the system knows it.
fn access(flags: u32) -> Result<u64, Errno> {
    match flags {
        0 => Ok(MapAccess::None as u64),
        READ => Ok(MapAccess::Read as u64),
        flags if flags == READ | WRITE => Ok(MapAccess::ReadWrite as u64),
        // Nothing becomes executable here: the loader has mapped the program.
        _ => Err(Errno::Invalid),
    }
}

fn call(number: u32, args: [u64; 3]) -> Result<u64, Errno> {
    let [first, second, third] = args;
    Errno::from_value(hostcall(number, [first, second, third, 0, 0, 0]))
}

/// What Wasmtime wants to have: 0, or an error's number.
fn status(done: Result<(), Errno>) -> i32 {
    done.map_or_else(|errno| errno as i32, |()| 0)
}

#[unsafe(no_mangle)]
extern "C" fn wasmtime_page_size() -> usize {
    PAGE as usize
}

#[unsafe(no_mangle)]
extern "C" fn wasmtime_mmap_new(size: usize, flags: u32, to: &mut *mut u8) -> i32 {
    let mapped = access(flags).and_then(|access| call(MAP, [size as u64, 0, access]));
    if flags == 0 && size as u64 >= ADDRESSES {
        match mapped {
            Ok(_) => _ = RESERVED.fetch_add(1, Ordering::Relaxed),
            // What cannot be read or written takes addresses and no memory.
            Err(_) => LACKS_ADDRESSES.store(true, Ordering::Relaxed),
        }
    }
    status(mapped.map(|address| *to = address as *mut u8))
}

/// Afterwards the pages read as zero, if they may be read.
#[unsafe(no_mangle)]
extern "C" fn wasmtime_mmap_remap(address: *mut u8, size: usize, flags: u32) -> i32 {
    let protected = access(flags).and_then(|access| call(PROTECT, [address as u64, size as u64, access]));
    status(protected.and_then(|_| call(DISCARD, [address as u64, size as u64, 0])).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn wasmtime_munmap(address: *mut u8, size: usize) -> i32 {
    status(call(UNMAP, [address as u64, size as u64, 0]).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn wasmtime_mprotect(address: *mut u8, size: usize, flags: u32) -> i32 {
    status(access(flags).and_then(|access| call(PROTECT, [address as u64, size as u64, access])).map(drop))
}

/// Whether what a program's memory holds at first is copied there.
static COPIES: AtomicBool = AtomicBool::new(false);

/// To be called before the program is instantiated: it has a copy of its data.
pub(crate) fn copy_data() {
    COPIES.store(true, Ordering::Relaxed);
}

/// Linear memories with guards that were made, and whether there were no addresses for another one.
static RESERVED: AtomicU32 = AtomicU32::new(0);
static LACKS_ADDRESSES: AtomicBool = AtomicBool::new(false);

/// The error of memory that the system refuses, as Wasmtime makes it of what the functions above return.
pub(crate) fn refused(errno: Errno) -> Error {
    format_err!("os error {}", errno as i32)
}

/// Why a program that needs this could not be instantiated. If there are no addresses for all of its memories, or one is larger at the start than the
/// step's, Wasmtime knows the error's number alone.
pub(crate) fn explain(error: Error, needs: Option<ResourcesRequired>) -> Error {
    let lacks = error.root_cause().to_string() == refused(Errno::OutOfMemory).to_string();
    if lacks && LACKS_ADDRESSES.load(Ordering::Relaxed) {
        let fit = RESERVED.load(Ordering::Relaxed);
        let all = needs.map_or_else(|| "more".to_string(), |needs| needs.num_memories.to_string());
        return format_err!(
            "out of addresses: the program has {all} memories, each of which reserves 4 GiB of addresses, and there is room for {fit}. \
             With `\"checks\": \"explicit\"` of its function in the workflow file, or `--explicit-checks`, there is room for more"
        );
    }
    match needs.and_then(|needs| needs.max_initial_memory_size) {
        Some(pages) if lacks => {
            let begins = if pages % 16 == 0 { format!("{} MiB", pages / 16) } else { format!("{} KiB", pages * 64) };
            format_err!(
                "out of memory: the program begins with {begins} beside its tables, for which the step's `memory` has no room"
            )
        }
        _ => error,
    }
}

/// An image is what a program's memory holds at first: whole pages of the compiled program, which lies in the function's image.
#[unsafe(no_mangle)]
extern "C" fn wasmtime_memory_image_new(data: *const u8, _: usize, to: &mut *mut u8) -> i32 {
    *to = if COPIES.load(Ordering::Relaxed) { null_mut() } else { data.cast_mut() };
    0
}

/// Each page is shared with all instances of the program until it is written to.
#[unsafe(no_mangle)]
extern "C" fn wasmtime_memory_image_map_at(image: *mut u8, address: *mut u8, len: usize) -> i32 {
    status(call(MAP_IMAGE, [address as u64, len as u64, image as u64]).map(drop))
}

/// It stays where it is.
#[unsafe(no_mangle)]
extern "C" fn wasmtime_memory_image_free(_: *mut u8) {}
