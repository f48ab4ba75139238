//! The static data of a libos module, put back between two uses of its process.
//!
//! ```text
//! module.so    | headers | code | constants | relro      | data | bss |
//!                                             final since    └────────┴── kept as it was when the module had been opened
//!                                             the relocation
//! ```
//!
//! A module's state goes with its domain. What its object keeps besides (counters, the table of services) stays as long as the
//! object does.

use monohull_abi::layout::page_down;
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// The writable data of an object, and what it held.
pub(super) struct Statics(Vec<(u64, Box<[u8]>)>);

impl Statics {
    /// Keeps the data of the object that has this address in it, as it is now. No other thread may be running the object's code.
    pub(super) fn of(address: u64) -> Statics {
        let mut search = Search { address, writable: Vec::new() };
        // SAFETY: dl_iterate_phdr(3): the callback gets the search, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        let keep = |range: &Range<u64>| {
            // SAFETY: a writable part of an object that is loaded; nothing writes to it meanwhile.
            let now =
                unsafe { std::slice::from_raw_parts(range.start as *const u8, (range.end - range.start) as usize) };
            (range.start, Box::from(now))
        };
        Statics(search.writable.iter().map(keep).collect())
    }

    /// Puts the data back.
    ///
    /// # Safety
    /// The object is loaded still, none of its code runs, and nothing refers to its data.
    pub(super) unsafe fn restore(&self) {
        for (start, kept) in &self.0 {
            // SAFETY: as when it was kept.
            let now = unsafe { std::slice::from_raw_parts_mut(*start as *mut u8, kept.len()) };
            // A page that is not written to stays shared.
            if now != &kept[..] {
                now.copy_from_slice(kept);
            }
        }
    }
}

/// What is searched for, and what was found.
struct Search {
    address: u64,
    writable: Vec<Range<u64>>,
}

/// Notes the writable data of the object in question, and stops there.
///
/// # Safety
/// Called by `dl_iterate_phdr` with a valid `info` and the [`Search`] passed to it.
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the linker keeps this many headers there.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let range = |header: &libc::Elf64_Phdr| {
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
        start..start.wrapping_add(header.p_memsz)
    };
    let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    if !loaded().any(|header| range(header).contains(&search.address)) {
        return 0;
    }
    // The linker makes whole pages of this read-only.
    let relro = headers.iter().find(|header| header.p_type == libc::PT_GNU_RELRO).map(&range);
    let relro = relro.map_or(0..0, |relro| page_down(relro.start)..page_down(relro.end));
    for header in loaded().filter(|header| header.p_flags & libc::PF_W != 0) {
        search.writable.extend(without(range(header), &relro));
    }
    1
}

/// The parts of a range that lie outside of another.
fn without(range: Range<u64>, other: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let before = range.start..range.end.min(other.start).max(range.start);
    let after = range.start.max(other.end).min(range.end)..range.end;
    let apart = other.is_empty() || other.end <= range.start || range.end <= other.start;
    let parts = if apart { [range, 0..0] } else { [before, after] };
    parts.into_iter().filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_final_is_left_out() {
        let parts =
            |range, other| -> Vec<(u64, u64)> { without(range, &other).map(|part| (part.start, part.end)).collect() };
        assert_eq!(parts(10..20, 0..0), [(10, 20)]);
        assert_eq!(parts(10..20, 20..30), [(10, 20)]);
        assert_eq!(parts(10..20, 5..12), [(12, 20)]);
        assert_eq!(parts(10..20, 12..25), [(10, 12)]);
        assert_eq!(parts(10..20, 12..14), [(10, 12), (14, 20)]);
        assert_eq!(parts(10..20, 10..20), []);
    }
}
