//! Mapped files in miniature: which extents lie where. Nothing is copied before a test looks, as the visor copies nothing
//! before a function touches it.

use crate::services::shared;
use crate::{Domain, Shared};
use monohull_abi::Errno;
use monohull_abi::file::{Advice, Extent, MapRequest, map};
use monohull_abi::layout::{MAPPINGS_OFFSET, PAGE, cell_base, page_up};
use std::ffi::c_void;

/// What the visor has been asked to map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Bytes.
    pub len: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file's path.
    pub path: String,
    /// It may be written to.
    pub writable: bool,
    /// Where the bytes are.
    extents: Vec<Extent>,
}

impl Domain {
    /// The mapping of an instance at an address.
    pub fn mapping(&self, instance: u32, address: u64) -> Option<Mapping> {
        self.shared.mappings.borrow().get(&(instance, address)).cloned()
    }

    /// How many there are.
    pub fn mappings(&self) -> usize {
        self.shared.mappings.borrow().len()
    }

    /// What a function would see that touches a mapping now.
    pub fn touch_mapping(&self, instance: u32, address: u64) -> Vec<u8> {
        let mapping = self.mapping(instance, address).expect("a mapping begins there");
        let mut bytes = Vec::new();
        for Extent { address, len } in mapping.extents {
            match address {
                0 => bytes.resize(bytes.len() + len as usize, 0),
                // SAFETY: whoever gave the extent keeps what it leads to until the mapping is taken back.
                _ => bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(address as *const u8, len as usize) }),
            }
        }
        bytes
    }
}

/// Charges an instance, or with a negative number refunds it.
fn charge(shared: &Shared, instance: u32, bytes: i64) -> bool {
    let mut accounts = shared.accounts.borrow_mut();
    let account = accounts.entry(instance).or_default();
    if bytes > 0 && bytes as u64 > account.limit.saturating_sub(account.heap + account.charged) {
        return false;
    }
    account.charged = account.charged.checked_add_signed(bytes).expect("more refunded than charged");
    true
}

pub(crate) unsafe extern "C" fn map_file(domain: *mut c_void, instance: u32, request: *const MapRequest) -> i64 {
    // SAFETY: the module passes the domain of its `Host`, and a request with what it leads to.
    let (shared, request, extents, path) = unsafe {
        let request = &*request;
        let extents = std::slice::from_raw_parts(request.extents, request.count as usize);
        let path = std::slice::from_raw_parts(request.path, request.path_len as usize);
        (shared(domain), request, extents, path)
    };
    assert_eq!(
        extents.iter().map(|extent| extent.len).sum::<u64>(),
        request.len,
        "extents for every byte, and no more"
    );
    if !charge(shared, instance, page_up(request.len) as i64) {
        return Errno::OutOfMemory.to_value();
    }
    let mut mappings = shared.mappings.borrow_mut();
    let start = cell_base(instance as usize) + MAPPINGS_OFFSET;
    let last = mappings.range((instance, 0)..(instance + 1, 0)).next_back();
    let address = last.map_or(start, |((_, address), mapping)| address + page_up(mapping.len) + PAGE);
    let mapping = Mapping {
        len: request.len,
        offset: request.offset,
        path: String::from_utf8(path.to_vec()).expect("a path is UTF-8"),
        writable: request.flags & map::WRITE != 0,
        extents: extents.to_vec(),
    };
    mappings.insert((instance, address), mapping);
    address as i64
}

pub(crate) unsafe extern "C" fn unmap_file(domain: *mut c_void, instance: u32, address: u64) -> i64 {
    // SAFETY: as in `map_file`.
    let shared = unsafe { shared(domain) };
    let Some(gone) = shared.mappings.borrow_mut().remove(&(instance, address)) else {
        return Errno::Invalid.to_value();
    };
    assert!(charge(shared, instance, -(page_up(gone.len) as i64)));
    0
}

pub(crate) unsafe extern "C" fn advise_file(
    domain: *mut c_void,
    instance: u32,
    address: u64,
    offset: u64,
    len: u64,
    _: Advice,
) -> i64 {
    // SAFETY: as in `map_file`.
    let mappings = unsafe { shared(domain) }.mappings.borrow();
    let end = mappings.get(&(instance, address)).map(|mapping| mapping.len);
    match offset.checked_add(len).zip(end) {
        Some((to, end)) if to <= end => 0,
        _ => Errno::Invalid.to_value(),
    }
}

pub(crate) unsafe extern "C" fn protect_file(domain: *mut c_void, instance: u32, address: u64, writable: u32) -> i64 {
    // SAFETY: as in `map_file`.
    match unsafe { shared(domain) }.mappings.borrow_mut().get_mut(&(instance, address)) {
        Some(mapping) => {
            mapping.writable = writable == 1;
            0
        }
        None => Errno::Invalid.to_value(),
    }
}
