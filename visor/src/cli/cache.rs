//! The user's folder for what can be made again.

use std::path::PathBuf;

/// `monohull` in the user's cache. None if the user has no home folder.
pub(super) fn cache() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    Some(cache?.join("monohull"))
}
