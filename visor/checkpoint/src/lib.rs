//! The file format of checkpoints.
//!
//! A *checkpoint* is a captured workflow, as a file: what its instances, threads and modules are, and the pages of memory
//! that cannot be had elsewhere. The crate writes, reads, checks, seals and compares such files. It knows nothing of how a
//! domain is captured or restored: those fill and take the plain records of [`record`].
//!
//! ```text
//!   0     header (128 bytes)        magic, format, lengths, digest, seal      `header`
//!   128   table of sections         number, version, place, SHA-256           `section`
//!   …     sections                  records, and the hash of each page        `record`, `pages`
//!   …     stored pages              aligned to pages, or compressed one by one
//! ```
//!
//! The digest is the hash of header and table, the table has the hash of each section, and a section has those of the pages.
//! So one HMAC over some hundred bytes seals all of it, and damage is found where it is.
//!
//! | module | |
//! | --- | --- |
//! | [`write()`], [`Pages`] | makes a file of records and pages |
//! | [`Checkpoint`] | reads one, which is untrusted: every field is checked (`check`) |
//! | [`Chain`] | reads one that has only what changed, with those before it |
//! | [`seal`], [`Key`] | authenticates |
//! | [`NewFile`] | gives a file its name when it is complete |
//! | [`compare()`] | what two checkpoints have in common |
//!
//! A key file is created once and then read. A checkpoint fits a processor that has at least the features of the one that
//! it was captured on:
//!
//! ```
//! use monohull_checkpoint::{CheckpointId, Key, Processor};
//!
//! # let folder = tempfile::tempdir()?;
//! let path = folder.path().join("checkpoint.key");
//! let key = Key::load_or_create(&path)?;
//! assert_eq!(Key::load(&path)?.id(), key.id());
//!
//! let captured_on = Processor { words: vec![0b11] };
//! let restored_on = Processor { words: vec![0b01] };
//! assert_eq!(captured_on.missing_on(&restored_on), ["ssse3"]);
//!
//! let id = CheckpointId::random()?;
//! assert_eq!(id.to_string().parse(), Ok(id));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod chain;
mod check;
mod compare;
mod error;
mod hash;
mod header;
mod host;
mod key;
mod kinds;
mod new_file;
mod pages;
mod read;
mod read_at;
pub mod record;
mod requests;
mod section;
mod write;

pub use chain::{Chain, Piece, check_unchanged};
pub use check::NAME_MAX;
pub use compare::{Comparison, Difference, compare, compare_chains};
pub use error::{Error, Part};
pub use hash::{CheckpointId, Hash, NotAnId};
pub use host::{FEATURES, Layout, Processor};
pub use key::{KEY_BYTES, Key, KeyError, KeyId};
pub use kinds::{PageCounts, PageKind, count_pages};
pub use new_file::{NewFile, Replace, remove_abandoned};
pub use pages::{Content, Heat, Packing, Pages, Run};
pub use read::{Checkpoint, SectionSize, Trust, seal, seal_bytes};
pub use read_at::ReadAt;
pub use section::{SECTION_MAX, SectionId};
pub use write::{Written, write};
