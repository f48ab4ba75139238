//! Paths, as in `std::path` on Unix.

mod buf;
mod components;
#[cfg(test)]
mod tests;

pub use buf::PathBuf;
pub use components::{Component, Components, Iter, PrefixComponent};

use crate::borrow::{Cow, ToOwned};
use crate::boxed::Box;
use crate::ffi::{OsStr, OsString, os_str};
use crate::io;
use crate::rc::Rc;
use crate::string::String;
use crate::sync::Arc;
use crate::sys::files;
use core::cmp::Ordering;
use core::error::Error;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::iter::FusedIterator;

/// What stands between names.
pub const MAIN_SEPARATOR: char = '/';
/// The same as a text.
pub const MAIN_SEPARATOR_STR: &str = "/";

/// Whether `c` stands between names.
pub fn is_separator(c: char) -> bool {
    c == MAIN_SEPARATOR
}

/// A path made absolute by the working directory, without asking whether it leads anywhere.
pub fn absolute<P: AsRef<Path>>(path: P) -> io::Result<PathBuf> {
    let path = path.as_ref();
    if path.as_os_str().is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "cannot make an empty path absolute"));
    }
    let mut absolute =
        if path.is_absolute() { PathBuf::new() } else { files::working_directory().map(PathBuf::from)? };
    absolute.extend(path.components().filter(|component| *component != Component::CurDir));
    if path.as_str().ends_with('/') {
        // A `/` at the end may mean something.
        absolute.push("");
    }
    Ok(absolute)
}

/// A borrowed path.
#[repr(transparent)]
pub struct Path(OsStr);

impl Path {
    /// Any text as a path.
    #[allow(unsafe_code, reason = "a reference to a type around `OsStr` has no other source")]
    pub fn new<S: AsRef<OsStr> + ?Sized>(text: &S) -> &Path {
        // SAFETY: `Path` is transparent around `OsStr`, and the lifetime stays.
        unsafe { &*(text.as_ref() as *const OsStr as *const Path) }
    }

    #[allow(unsafe_code, reason = "as above")]
    fn from_boxed(text: Box<OsStr>) -> Box<Path> {
        // SAFETY: `Path` is transparent around `OsStr`, so the allocation has the layout that freeing it needs.
        unsafe { Box::from_raw(Box::into_raw(text) as *mut Path) }
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The text.
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// The text, if it is UTF-8: always.
    pub fn to_str(&self) -> Option<&str> {
        self.0.to_str()
    }

    /// The text; what is not UTF-8 would be replaced.
    pub fn to_string_lossy(&self) -> Cow<'_, str> {
        self.0.to_string_lossy()
    }

    /// An owned copy.
    pub fn to_path_buf(&self) -> PathBuf {
        PathBuf::from(self.0.to_os_string())
    }

    /// Makes the box an owned path.
    #[allow(clippy::boxed_local, reason = "std has it so")]
    pub fn into_path_buf(self: Box<Path>) -> PathBuf {
        self.to_path_buf()
    }

    /// Whether it does not depend on the working directory.
    pub fn is_absolute(&self) -> bool {
        self.has_root()
    }

    /// Whether it depends on the working directory.
    pub fn is_relative(&self) -> bool {
        !self.is_absolute()
    }

    /// Whether it begins with `/`.
    pub fn has_root(&self) -> bool {
        self.as_str().starts_with('/')
    }

    /// Its parts.
    pub fn components(&self) -> Components<'_> {
        Components::new(self.as_str())
    }

    /// Its parts as texts.
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.components())
    }

    /// For `{}`.
    pub fn display(&self) -> Display<'_> {
        Display(self.0.display())
    }

    /// The path without its last part; `None` for the root and for nothing.
    pub fn parent(&self) -> Option<&Path> {
        let mut components = self.components();
        match components.next_back()? {
            Component::Normal(_) | Component::CurDir | Component::ParentDir => Some(components.as_path()),
            Component::RootDir | Component::Prefix(_) => None,
        }
    }

    /// The path, its parent, the parent's parent, …
    pub fn ancestors(&self) -> Ancestors<'_> {
        Ancestors(Some(self))
    }

    /// The last part, if it is a name.
    pub fn file_name(&self) -> Option<&OsStr> {
        match self.components().next_back()? {
            Component::Normal(name) => Some(name),
            _ => None,
        }
    }

    /// The last part without its extension.
    pub fn file_stem(&self) -> Option<&OsStr> {
        self.file_name().map(|name| split_extension(name).0)
    }

    /// What follows the last `.` of the last part, if something else comes before it.
    pub fn extension(&self) -> Option<&OsStr> {
        self.file_name().and_then(|name| split_extension(name).1)
    }

    /// What comes after `base`.
    pub fn strip_prefix<P: AsRef<Path>>(&self, base: P) -> Result<&Path, StripPrefixError> {
        strip(self.components(), base.as_ref().components()).map(|rest| rest.as_path()).ok_or(StripPrefixError(()))
    }

    /// Whether its first parts are those of `base`.
    pub fn starts_with<P: AsRef<Path>>(&self, base: P) -> bool {
        strip(self.components(), base.as_ref().components()).is_some()
    }

    /// Whether its last parts are those of `child`.
    pub fn ends_with<P: AsRef<Path>>(&self, child: P) -> bool {
        strip(self.components().rev(), child.as_ref().components().rev()).is_some()
    }

    /// This path, and then `path`; if that is absolute, it alone.
    pub fn join<P: AsRef<Path>>(&self, path: P) -> PathBuf {
        let mut joined = self.to_path_buf();
        joined.push(path);
        joined
    }

    /// The same with another last part.
    pub fn with_file_name<S: AsRef<OsStr>>(&self, name: S) -> PathBuf {
        let mut path = self.to_path_buf();
        path.set_file_name(name);
        path
    }

    /// The same with another extension, or without one.
    pub fn with_extension<S: AsRef<OsStr>>(&self, extension: S) -> PathBuf {
        let mut path = self.to_path_buf();
        path.set_extension(extension);
        path
    }
}

/// A name before its last `.`, and what follows; a `.` at the start divides nothing.
fn split_extension(name: &OsStr) -> (&OsStr, Option<&OsStr>) {
    match name.as_str().rsplit_once('.') {
        Some(("", _)) | None => (name, None),
        Some((stem, extension)) => (OsStr::from_str(stem), Some(OsStr::from_str(extension))),
    }
}

/// What is left of `all` after all of `first`.
fn strip<'a, 'b, I, J>(mut all: I, first: J) -> Option<I>
where
    I: Iterator<Item = Component<'a>>,
    J: Iterator<Item = Component<'b>>,
{
    for part in first {
        if all.next() != Some(part) {
            return None;
        }
    }
    Some(all)
}

/// What [`Path::ancestors`] returns.
#[derive(Clone, Copy, Debug)]
pub struct Ancestors<'a>(Option<&'a Path>);

impl<'a> Iterator for Ancestors<'a> {
    type Item = &'a Path;

    fn next(&mut self) -> Option<&'a Path> {
        let next = self.0;
        self.0 = next.and_then(Path::parent);
        next
    }
}

impl FusedIterator for Ancestors<'_> {}

/// What [`Path::display`] returns.
pub struct Display<'a>(os_str::Display<'a>);

impl fmt::Display for Display<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Display<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A path does not begin with another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StripPrefixError(());

impl fmt::Display for StripPrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("prefix not found")
    }
}

impl Error for StripPrefixError {}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Path) -> bool {
        self.components() == other.components()
    }
}

impl Eq for Path {}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Path) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Path) -> Ordering {
        self.components().cmp(other.components())
    }
}

impl Hash for Path {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.components().hash(state);
    }
}

impl ToOwned for Path {
    type Owned = PathBuf;

    fn to_owned(&self) -> PathBuf {
        self.to_path_buf()
    }
}

impl Clone for Box<Path> {
    fn clone(&self) -> Box<Path> {
        self.to_path_buf().into_boxed_path()
    }
}

impl<'a> IntoIterator for &'a Path {
    type Item = &'a OsStr;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl AsRef<OsStr> for Path {
    fn as_ref(&self) -> &OsStr {
        &self.0
    }
}

/// Everything that is a path in a way.
macro_rules! as_path {
    ($($type:ty,)*) => {$(
        impl AsRef<Path> for $type {
            fn as_ref(&self) -> &Path {
                Path::new(self)
            }
        }
    )*};
}

as_path!(OsStr, OsString, str, String,);

impl AsRef<Path> for Path {
    fn as_ref(&self) -> &Path {
        self
    }
}

impl AsRef<Path> for Cow<'_, OsStr> {
    fn as_ref(&self) -> &Path {
        Path::new(&**self)
    }
}

impl AsRef<Path> for Iter<'_> {
    fn as_ref(&self) -> &Path {
        self.as_path()
    }
}

impl From<&Path> for Box<Path> {
    fn from(path: &Path) -> Box<Path> {
        path.to_path_buf().into_boxed_path()
    }
}

impl From<&Path> for Arc<Path> {
    fn from(path: &Path) -> Arc<Path> {
        Arc::from(path.to_path_buf().into_boxed_path())
    }
}

impl From<&Path> for Rc<Path> {
    fn from(path: &Path) -> Rc<Path> {
        Rc::from(path.to_path_buf().into_boxed_path())
    }
}

impl<'a> From<&'a Path> for Cow<'a, Path> {
    fn from(path: &'a Path) -> Cow<'a, Path> {
        Cow::Borrowed(path)
    }
}
