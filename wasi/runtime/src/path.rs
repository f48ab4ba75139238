//! Paths beneath a directory.
//!
//! A path of WASI is relative to an open directory and must not lead out of it. Mounts have no links, so it is enough to look at the
//! text: `..` takes back the name before it, and one that has nothing to take back is refused.

use crate::errno::WasiError;
use alloc::string::String;
use alloc::vec::Vec;

/// The path without `.` and `..`; empty for the directory itself.
pub(crate) fn beneath(path: &str) -> Result<String, WasiError> {
    if path.is_empty() {
        return Err(WasiError::NOENT);
    }
    if path.starts_with('/') {
        return Err(WasiError::NOTCAPABLE);
    }
    if path.contains('\0') {
        return Err(WasiError::ILSEQ);
    }
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop().ok_or(WasiError::NOTCAPABLE)?;
            }
            name => names.push(name),
        }
    }
    let mut clean = names.join("/");
    // A slash at the end asks for a directory.
    if path.ends_with('/') && !clean.is_empty() {
        clean.push('/');
    }
    Ok(clean)
}
