//! Mapped files in miniature: which extents lie where. Nothing is copied before a test reads it, as the visor copies nothing
//! before a function touches it.

use crate::{Domain, Shared};
use monohull_abi::file::Extent;

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
    pub(crate) extents: Vec<Extent>,
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
                // SAFETY: the module keeps the memory of the extent until the mapping is removed.
                _ => bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(address as *const u8, len as usize) }),
            }
        }
        bytes
    }
}

/// Charges an instance, or with a negative number refunds it.
pub(crate) fn charge(shared: &Shared, instance: u32, bytes: i64) -> bool {
    let mut accounts = shared.accounts.borrow_mut();
    let account = accounts.entry(instance).or_default();
    if bytes > 0 && bytes as u64 > account.limit.saturating_sub(account.heap + account.charged) {
        return false;
    }
    account.charged = account.charged.checked_add_signed(bytes).expect("more refunded than charged");
    true
}
