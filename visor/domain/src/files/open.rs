//! The files that a domain has open or mapped.

use super::host::HostFiles;
use super::image::Images;
use crate::ears::Ears;
use crate::mapped::Mappings;
use crate::region::Partition;
use std::sync::Arc;

/// The files that a domain has open or mapped.
pub(crate) struct OpenFiles {
    /// Its thread ends before what it reads is unmapped.
    pub(crate) mappings: Mappings,
    /// Unmapped after the modules that use them have been stopped.
    pub(crate) images: Images,
    pub(crate) host_files: HostFiles,
}

impl OpenFiles {
    /// None yet.
    pub(crate) fn new(space: Arc<Partition>, ears: Option<Arc<Ears>>) -> OpenFiles {
        OpenFiles { mappings: Mappings::new(space, ears), images: Images::default(), host_files: HostFiles::default() }
    }
}
