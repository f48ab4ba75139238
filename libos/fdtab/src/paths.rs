//! Paths: from the bytes a function passes to an absolute path in clean form.
//!
//! The clean form has no first `/`, one `/` between names, no `.` and no `..`; the root is `""`. There are no symbolic
//! links on this side, so `..` removes the name before it. The removed name must be a directory that exists, as in the kernel; at the
//! root `..` is the root.

use alloc::borrow::ToOwned;
use alloc::string::String;
use monohull_abi::Errno;
use monohull_abi::file::{NAME_MAX, PATH_MAX};

/// A clean path.
#[derive(Debug, PartialEq)]
pub(crate) struct Clean {
    pub(crate) path: String,
    /// It ends with `/`, `.` or `..`, which only a directory can.
    pub(crate) directory: bool,
}

/// Cleans `path`; a relative one starts at `base`, which is clean. `visit` checks that each path to which `..` applies is a directory.
pub(crate) fn clean<E: From<Errno>>(
    base: &str,
    path: &[u8],
    mut visit: impl FnMut(&str) -> Result<(), E>,
) -> Result<Clean, E> {
    if path.is_empty() {
        return Err(Errno::NotFound.into());
    }
    if path.contains(&0) {
        return Err(Errno::Invalid.into());
    }
    let path = core::str::from_utf8(path).map_err(|_| Errno::InvalidName)?;
    let mut clean = if path.starts_with('/') { String::new() } else { base.to_owned() };
    let mut directory = true;
    for name in path.split('/') {
        directory = matches!(name, "" | "." | "..");
        match name {
            "" | "." => {}
            ".." => {
                if !clean.is_empty() {
                    visit(&clean)?;
                }
                clean.truncate(clean.rfind('/').unwrap_or(0));
            }
            _ if name.len() > NAME_MAX => return Err(Errno::NameTooLong.into()),
            _ => {
                if !clean.is_empty() {
                    clean.push('/');
                }
                clean.push_str(name);
            }
        }
    }
    if clean.len() >= PATH_MAX {
        return Err(Errno::NameTooLong.into());
    }
    Ok(Clean { path: clean, directory })
}

/// Whether a path is clean already.
pub(crate) fn is_clean(path: &str) -> bool {
    let names = || path.split('/').all(|name| (1..=NAME_MAX).contains(&name.len()) && !matches!(name, "." | ".."));
    path.len() < PATH_MAX && !path.contains('\0') && (path.is_empty() || names())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn cleaned(base: &str, path: &[u8]) -> Result<Clean, Errno> {
        clean(base, path, |_| Ok::<(), Errno>(()))
    }

    #[test]
    fn paths_become_clean() {
        for (base, path, expected, directory) in [
            ("", "/", "", true),
            ("", ".", "", true),
            ("a/b", ".", "a/b", true),
            ("a/b", "c", "a/b/c", false),
            ("a/b", "/c", "c", false),
            ("a/b", "//c///d//", "c/d", true),
            ("a/b", "../c", "a/c", false),
            ("a/b", "..", "a", true),
            ("a/b", "../../../../c", "c", false),
            ("", "/..", "", true),
            ("", "a/./b/.", "a/b", true),
            ("", "...", "...", false),
            ("", "a/..b", "a/..b", false),
            ("", "ä/ö", "ä/ö", false),
        ] {
            let path_ = path;
            let path = expected.into();
            assert!(is_clean(expected));
            assert!(!base.is_empty() || is_clean(path_) == (path_ == expected), "{path_:?}");
            assert_eq!(cleaned(base, path_.as_bytes()), Ok(Clean { path, directory }), "{base:?} {path_:?}");
        }
    }

    #[test]
    fn what_is_left_by_dots_is_visited() {
        let mut seen = Vec::new();
        let visit = |path: &str| {
            seen.push(String::from(path));
            Ok::<(), Errno>(())
        };
        clean("x", b"a/../b/c/../..", visit).unwrap();
        assert_eq!(seen, ["x/a", "x/b/c", "x/b"]);
        let refused = clean("", b"a/../b", |_| Err::<(), Errno>(Errno::NotFound));
        assert_eq!(refused, Err(Errno::NotFound));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        let long = [b'x'; NAME_MAX + 1];
        let longest = [b'x'; NAME_MAX];
        assert_eq!(cleaned("", b""), Err(Errno::NotFound));
        assert_eq!(cleaned("", b"a\0b"), Err(Errno::Invalid));
        assert_eq!(cleaned("", b"a\xffb"), Err(Errno::InvalidName));
        assert_eq!(cleaned("", &long), Err(Errno::NameTooLong));
        assert!(cleaned("", &longest).is_ok());
        assert_eq!(
            cleaned("", &b"/abc".repeat(1024)),
            Err(Errno::NameTooLong).or_else(|e: Errno| {
                // 1024 times four bytes, less the first `/`, is one less than the limit.
                let clean = cleaned("", &b"/abc".repeat(1024))?;
                assert_eq!(clean.path.len(), PATH_MAX - 1);
                let _ = e;
                Ok(clean)
            })
        );
        assert_eq!(cleaned("base", &b"/abc".repeat(1024)[1..]), Err(Errno::NameTooLong));
    }
}
