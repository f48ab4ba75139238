//! What the file systems of a domain stand on: the workflow's mounts, opened before the domain exists.
//!
//! ```text
//!   plan: paths ── open ──▶ Mount { point, source } ── Options::mounts ──▶ Domain ── Host::mount, … ──▶ fdtab, ramfs
//! ```
//!
//! Whoever starts a domain opens its mounts with the rights it has then. The domain itself opens nothing by path.

use monohull_abi::file::{MountInfo, MountKind};

mod store;

pub(super) use store::{store_alloc, store_free};

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
}

impl Mount {
    /// What modules are told of it.
    pub fn info(&self) -> MountInfo {
        match &self.source {
            Source::Memory { size } => MountInfo { kind: MountKind::Memory, read_only: 0, size: *size },
        }
    }
}
