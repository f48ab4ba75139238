//! The files that a domain has open or mapped.

use super::host::HostFiles;
use super::image::Images;
use crate::address_space::AddressSpace;
use crate::epoll_set::EpollSet;
use crate::pager::Pager;
use std::sync::Arc;

/// The files that a domain has open or mapped.
pub(crate) struct OpenFiles {
    /// Its thread ends before what it reads is unmapped.
    pub(crate) pager: Pager,
    /// Unmapped after the modules that use them have been stopped.
    pub(crate) images: Images,
    pub(crate) host_files: HostFiles,
}

impl OpenFiles {
    /// None yet.
    pub(crate) fn new(space: Arc<AddressSpace>, epoll_set: Option<Arc<EpollSet>>) -> OpenFiles {
        OpenFiles { pager: Pager::new(space, epoll_set), images: Images::default(), host_files: HostFiles::default() }
    }
}
