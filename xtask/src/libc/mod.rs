//! The libc that C programs and the real std link: musl's source, changed, over the personality of the crate `libc/`.
//!
//! ```text
//! Debian's pool ── tarball, by its SHA-256 ── source.rs ─▶ target/sources/musl-VERSION.tar.gz
//!        changes.rs (what is replaced, set aside)              │
//!                                                              ▼
//!        compile.rs ── the host's gcc ──▶ target/libc/musl-HASH/ (objects in one archive, headers)
//! crate libc/ ── cargo, ld -r, objcopy ──▶ personality.o        │
//!                                              └───────┬───────┘
//!        archive.rs                                    ▼
//!                      target/libc/lib/libmonohull_c.a, include/, LICENSE-musl
//!        kernel.rs ─▶  target/libc/kernel/ (links to the host's headers of the kernel)
//! ```
//!
//! Nothing of musl is in the repository. `HASH` is that of everything the objects depend on: another change, flag or
//! compiler builds them anew.

mod archive;
mod changes;
mod compile;
pub(crate) mod kernel;
mod programs;
mod source;

use crate::workspace::{Workspace, root};
use crate::{Result, apt};
use std::path::PathBuf;

pub(crate) use compile::list;

/// Fetches musl's source.
pub(crate) fn fetch() -> Result {
    source::MUSL.fetch()
}

/// Where everything about the libc lies.
pub(crate) fn folder() -> PathBuf {
    root().join("target/libc")
}

/// Builds the archive, the headers and the files that a linker is given.
pub(crate) fn build(workspace: &Workspace) -> Result {
    apt::make(&folder())?;
    // Two builds at a time share the folder `work`.
    let _held = apt::lock(&folder())?;
    let musl = compile::built()?;
    archive::make(workspace, &musl)?;
    programs::make()
}
