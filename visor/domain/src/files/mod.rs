//! What the file systems of a domain stand on: the workflow's mounts, opened before the domain exists.
//!
//! ```text
//!   plan: paths ── open ──▶ Mount { point, source } ── Options::mounts ──▶ Domain ── Host::mount, … ──▶ fdtab, ramfs, fatfs
//! ```
//!
//! A process opens the mounts before it drops its rights and starts the domain. The domain itself opens nothing by path.

mod host;
mod image;
mod mount;
mod open;
mod parts;
mod pool;
mod store;

pub(super) use image::Images;
pub use image::claim_image;
pub use mount::{ImageAccess, Mount, Source};
pub(super) use open::OpenFiles;
