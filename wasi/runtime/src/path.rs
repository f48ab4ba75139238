//! Paths beneath a directory.
//!
//! A path of WASI is relative to an open directory and must not lead out of it. Mounts have no links, so it is enough to count names: a `..`
//! without a name before it is refused. The path goes on as it is: the libos looks whether what `.` and `..` stand behind is a directory.

use crate::errno::WasiError;

/// What a path ends with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A name.
    Name,
    /// A name and `/`, which asks for a directory.
    Slash,
    /// `.` or `..`: a directory that is there, and that has no name which could be given or taken away.
    Dots,
}

/// Checks that the path stays beneath its directory.
pub(crate) fn beneath(path: &str) -> Result<Ending, WasiError> {
    if path.is_empty() {
        return Err(WasiError::NOENT);
    }
    if path.starts_with('/') {
        return Err(WasiError::PERM);
    }
    if path.contains('\0') {
        return Err(WasiError::INVAL);
    }
    let (mut depth, mut ending) = (0u32, Ending::Dots);
    for name in path.split('/') {
        match name {
            "" if ending == Ending::Name => ending = Ending::Slash,
            "" => {}
            "." => ending = Ending::Dots,
            ".." => {
                depth = depth.checked_sub(1).ok_or(WasiError::PERM)?;
                ending = Ending::Dots;
            }
            _ => {
                depth += 1;
                ending = Ending::Name;
            }
        }
    }
    Ok(ending)
}
