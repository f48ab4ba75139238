//! The files of granted directories that are open.

use monohull_abi::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

/// The open files of all granted directories, by number.
#[derive(Debug, Default)]
pub(crate) struct HostFiles(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    files: BTreeMap<u64, Arc<OwnedFd>>,
    /// Numbers are not used again.
    last: u64,
}

impl HostFiles {
    /// Enters a file; its number.
    pub(crate) fn insert(&self, file: OwnedFd) -> u64 {
        let mut open = self.lock();
        open.last += 1;
        let node = open.last;
        open.files.insert(node, Arc::new(file));
        node
    }

    /// The file with this number.
    pub(crate) fn get(&self, node: u64) -> Result<Arc<OwnedFd>, Errno> {
        self.lock().files.get(&node).cloned().ok_or(Errno::BadDescriptor)
    }

    /// Removes a file; it is closed when no call uses it any more.
    pub(crate) fn remove(&self, node: u64) {
        self.lock().files.remove(&node);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().expect("host files")
    }
}
