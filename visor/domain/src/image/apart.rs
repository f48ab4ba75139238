//! Verifies an image in sealed memory by several threads: one parses the file, and all look for what is forbidden in its code.
//!
//! ```text
//!   sealed memory   | headers, tables | code                        | constants | data |
//!   this thread       parses            part        part
//!   other threads                            part        part  part
//! ```
//!
//! The code of a large program is read in parts, each into a buffer that stays in a processor's cache. To map a page for a single look
//! at it, and to unmap it, would take longer than to copy it. What the parts are read from is sealed already, so what was looked at is what
//! will be mapped.
//!
//! This finds out whether there is anything. What it is, and where, is found in the whole file: an image with a finding is refused, and
//! need not be refused fast.

use super::{Image, ImageError, verify};
use std::fs::File;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Bytes of code that are looked at at once.
const PART: usize = 128 << 10;
/// As many parts, 2 MiB of code, are worth a thread.
const PARTS_EACH: usize = 16;
/// The most threads.
const THREADS_MOST: usize = 4;

/// The same as [`verify`], of the bytes of a sealed file.
pub(super) fn verify_sealed(name: &str, bytes: &[u8], sealed: &File) -> Result<Image, ImageError> {
    let parts = match monohull_checker::parts(bytes, PART) {
        Ok(Some(parts)) if parts.len() > PARTS_EACH => parts,
        // A small image, or one that the checker refuses, unless the parser does.
        _ => return verify(name, bytes),
    };
    let (next, suspicious) = (AtomicUsize::new(0), AtomicBool::new(false));
    let look = || {
        let mut room = Vec::new();
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            room.resize(part.len(), 0);
            let read = sealed.read_exact_at(&mut room, part.start as u64);
            if read.is_err() || monohull_checker::is_refused(&room) {
                suspicious.store(true, Ordering::Relaxed);
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let others = cores.min(parts.len() / PARTS_EACH).clamp(1, THREADS_MOST) - 1;
    let image = thread::scope(|scope| {
        // One that cannot be started leaves its work to the others.
        let start = |_| thread::Builder::new().name("checker".to_owned()).spawn_scoped(scope, look).ok();
        let started: Vec<_> = (0..others).filter_map(start).collect();
        let image = Image::parse(name, bytes);
        look();
        started.into_iter().for_each(|other| other.join().expect("it does not panic"));
        image
    })?;
    // In the whole file there is the finding itself.
    if suspicious.into_inner() { verify(name, bytes) } else { Ok(image) }
}
