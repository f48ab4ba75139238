//! Mounts: where functions find a file system, and what it is made of.

use monohull_abi::file::{MountInfo, MountKind};
use monohull_host_files::Client;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// One mount, open.
#[derive(Debug)]
pub struct Mount {
    /// Where functions find it: an absolute path in clean form.
    pub point: String,
    /// What is there.
    pub source: Source,
}

/// What a mount point leads to.
#[derive(Debug)]
pub enum Source {
    /// Memory of the domain, at first empty.
    Memory {
        /// The most bytes it may hold.
        size: u64,
    },
    /// A FAT disk image.
    Image {
        /// The file; open for writing if the access is.
        file: OwnedFd,
        /// What becomes of changes.
        access: ImageAccess,
    },
    /// A granted directory of the host.
    Directory {
        /// Where its files come from.
        client: Arc<Client>,
        /// Functions may change it.
        writable: bool,
    },
}

/// What becomes of changes to an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageAccess {
    /// They are refused.
    Read,
    /// They are the domain's own.
    Copy,
    /// They stay.
    Write,
}

impl Mount {
    /// Its description for modules.
    pub fn info(&self) -> MountInfo {
        match &self.source {
            Source::Memory { size } => MountInfo { kind: MountKind::Memory, read_only: 0, size: *size },
            Source::Image { access, .. } => {
                MountInfo { kind: MountKind::Image, read_only: (*access == ImageAccess::Read).into(), size: 0 }
            }
            Source::Directory { writable, .. } => {
                MountInfo { kind: MountKind::Host, read_only: (!writable).into(), size: 0 }
            }
        }
    }

    /// Whether what functions change there outlives the domain.
    pub fn outlives_domain(&self) -> bool {
        matches!(self.source, Source::Image { access: ImageAccess::Write, .. })
    }
}
