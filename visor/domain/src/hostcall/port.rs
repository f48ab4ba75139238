//! The services for one module while its state is captured or rebuilt.

use monohull_abi::Errno;
use monohull_abi::layout::{ARENA_BASE, ARENA_END, FILES_BASE, FILES_END, PAGE};
use monohull_abi::module::SYSTEM_INSTANCE;
use monohull_abi::record::{RECORD_MAX, RecordServices, Records};
use std::ffi::c_void;
use std::ops::Range;

/// Whole pages of a file in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilePages {
    /// Their names in a continuation, which look like addresses.
    pub names: Range<u64>,
    /// Where they are: memory that the module has from the visor.
    pub(crate) address: u64,
}

/// What one module asks while it is captured or rebuilt.
pub(super) struct Port<'l> {
    live: &'l [u32],
    pub(super) record: Option<Vec<u8>>,
    pub(super) pages: Vec<Range<u64>>,
    pub(super) file_pages: Vec<FilePages>,
    /// Instance and reason.
    pub(super) refused: Option<(u32, String)>,
}

impl<'l> Port<'l> {
    /// For a capture (`writes`) or a rebuild of a domain in which these instances live.
    pub(super) fn new(live: &'l [u32], writes: bool) -> Port<'l> {
        Port { live, record: writes.then(Vec::new), pages: Vec::new(), file_pages: Vec::new(), refused: None }
    }

    /// The table of its services, for as long as the port stays where it is.
    pub(super) fn table(&mut self) -> Records {
        // SAFETY: the services expect a port; the caller keeps to the condition.
        unsafe { Records::of::<Port<'_>>(std::ptr::from_mut(self).cast()) }
    }
}

/// # Safety
/// `domain` is the port of the call under way, which is made on this thread alone.
unsafe fn port<'p>(domain: *mut c_void) -> &'p mut Port<'p> {
    // SAFETY: the caller's promise.
    unsafe { &mut *domain.cast() }
}

impl RecordServices for Port<'_> {
    unsafe extern "C" fn write(domain: *mut c_void, bytes: *const u8, len: usize) -> i64 {
        // SAFETY: see `port`; the bytes are the module's own.
        let (port, bytes) = unsafe { (port(domain), std::slice::from_raw_parts(bytes, len)) };
        match &mut port.record {
            Some(record) if (record.len() + len) as u64 <= RECORD_MAX => {
                record.extend_from_slice(bytes);
                0
            }
            _ => Errno::FileTooLarge.to_value(),
        }
    }

    unsafe extern "C" fn instance(domain: *mut c_void, index: u32) -> u32 {
        // SAFETY: see `port`.
        unsafe { port(domain) }.live.get(index as usize).copied().unwrap_or(SYSTEM_INSTANCE)
    }

    unsafe extern "C" fn pages(domain: *mut c_void, address: u64, len: u64) {
        let is_whole = address.is_multiple_of(PAGE) && len.is_multiple_of(PAGE);
        assert!(is_whole && address >= ARENA_BASE && len <= ARENA_END - address, "pages of the arena");
        // SAFETY: see `port`.
        unsafe { port(domain) }.pages.push(address..address + len);
    }

    unsafe extern "C" fn file_pages(domain: *mut c_void, name: u64, address: u64, len: u64) {
        let is_whole = [name, address, len].iter().all(|number| number.is_multiple_of(PAGE)) && len > 0;
        assert!(is_whole && (FILES_BASE..FILES_END).contains(&name) && len <= FILES_END - name, "pages of files");
        // SAFETY: see `port`.
        unsafe { port(domain) }.file_pages.push(FilePages { names: name..name + len, address });
    }

    unsafe extern "C" fn refuse(domain: *mut c_void, instance: u32, text: *const u8, len: usize) {
        // SAFETY: see `port`; the text is the module's own.
        let (port, text) = unsafe { (port(domain), std::slice::from_raw_parts(text, len)) };
        port.refused = Some((instance, String::from_utf8_lossy(text).into_owned()));
    }
}
