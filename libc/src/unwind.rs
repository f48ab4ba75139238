//! What the unwinder asks: where the table of an address's image is (`_dl_find_object`). There is one image.

use crate::start::program_headers;
use core::ffi::{c_int, c_void};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

/// A program header.
#[repr(C)]
struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_size: u64,
    memory_size: u64,
    align: u64,
}

/// glibc's `struct dl_find_object`.
#[repr(C)]
pub struct Found {
    flags: u64,
    start: *const c_void,
    end: *const c_void,
    link_map: *const c_void,
    table: *const c_void,
    reserved: [u64; 7],
}

unsafe extern "C" {
    static _DYNAMIC: u8;
}

/// Describes the image that `address` lies in; −1 if it is in none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _dl_find_object(address: *const c_void, out: *mut Found) -> c_int {
    let (first, _, count) = program_headers();
    // SAFETY: the image's own headers, in its first page.
    let headers = unsafe { core::slice::from_raw_parts(first as *const Header, count as usize) };
    let dynamic = headers.iter().find(|header| header.kind == PT_DYNAMIC);
    let table = headers.iter().find(|header| header.kind == PT_GNU_EH_FRAME);
    let (Some(dynamic), Some(table)) = (dynamic, table) else { return -1 };
    let base = (&raw const _DYNAMIC) as u64 - dynamic.address;
    let end = headers.iter().filter(|header| header.kind == PT_LOAD).map(|header| header.address + header.memory_size);
    let end = base + end.max().unwrap_or(0);
    if !(base..end).contains(&(address as u64)) {
        return -1;
    }
    let pointer = |address: u64| address as *const c_void;
    let found = Found {
        flags: 0,
        start: pointer(base),
        end: pointer(end),
        link_map: core::ptr::null(),
        table: pointer(base + table.address),
        reserved: [0; 7],
    };
    // SAFETY: the caller's structure.
    unsafe { out.write(found) };
    0
}
