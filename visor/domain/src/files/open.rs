//! The files that a domain has open or mapped.

use super::host::HostFiles;
use super::image::Images;
use super::mount::Mount;
use super::store::Stores;
use crate::address_space::AddressSpace;
use crate::epoll_set::EpollSet;
use crate::pager::{Pager, Window};
use std::sync::Arc;

/// The files that a domain has open or mapped.
pub(crate) struct OpenFiles {
    /// Its thread ends before what it reads is unmapped.
    pub(crate) pager: Pager,
    /// Unmapped after the modules that use them have been stopped, as are the images.
    pub(crate) stores: Stores,
    pub(crate) images: Images,
    pub(crate) host_files: HostFiles,
}

impl OpenFiles {
    /// None yet.
    pub(crate) fn new(space: Arc<AddressSpace>, epoll_set: Option<Arc<EpollSet>>) -> OpenFiles {
        OpenFiles {
            pager: Pager::new(space, epoll_set),
            stores: Stores::default(),
            images: Images::default(),
            host_files: HostFiles::default(),
        }
    }

    /// The file whose pages trusted memory from an address on is, if mappings may show them: the domain alone changes them.
    pub(crate) fn window<'f>(&'f self, mounts: &'f [Mount], address: u64) -> Option<Window<'f>> {
        self.stores.window(address).or_else(|| self.images.window(mounts, address))
    }
}
