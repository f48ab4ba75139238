//! Owned paths.

use super::{Iter, Path};
use crate::borrow::{Borrow, Cow};
use crate::boxed::Box;
use crate::ffi::{OsStr, OsString};
use crate::rc::Rc;
use crate::string::String;
use crate::sync::Arc;
use core::cmp::Ordering;
use core::convert::Infallible;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;
use core::str::FromStr;

/// An owned path.
#[derive(Clone, Default)]
pub struct PathBuf(OsString);

impl PathBuf {
    /// Nothing.
    pub const fn new() -> PathBuf {
        PathBuf(OsString::new())
    }

    /// Nothing, with room for something.
    pub fn with_capacity(capacity: usize) -> PathBuf {
        PathBuf(OsString::with_capacity(capacity))
    }

    /// It, borrowed.
    pub fn as_path(&self) -> &Path {
        self
    }

    /// Appends a path; an absolute one replaces what was there.
    pub fn push<P: AsRef<Path>>(&mut self, path: P) {
        let path = path.as_ref();
        let text = self.0.as_mut_string();
        if path.is_absolute() {
            text.clear();
        } else if !text.is_empty() && !text.ends_with('/') {
            text.push('/');
        }
        text.push_str(path.as_str());
    }

    /// Cuts the last part off; false if there is none.
    pub fn pop(&mut self) -> bool {
        match self.parent().map(|parent| parent.as_str().len()) {
            Some(len) => {
                self.0.as_mut_string().truncate(len);
                true
            }
            None => false,
        }
    }

    /// Replaces the last part, or appends one.
    pub fn set_file_name<S: AsRef<OsStr>>(&mut self, name: S) {
        if self.file_name().is_some() {
            self.pop();
        }
        self.push(name.as_ref());
    }

    /// Replaces or removes the extension of the last part; false if that is no name.
    pub fn set_extension<S: AsRef<OsStr>>(&mut self, extension: S) -> bool {
        let extension = extension.as_ref().as_str();
        assert!(!extension.contains('/'), "extension cannot contain path separators: {extension:?}");
        let Some(stem) = self.file_stem() else { return false };
        let end = stem.as_str().as_ptr() as usize + stem.len() - self.as_str().as_ptr() as usize;
        let text = self.0.as_mut_string();
        text.truncate(end);
        if !extension.is_empty() {
            text.push('.');
            text.push_str(extension);
        }
        true
    }

    /// The text, to be changed.
    pub fn as_mut_os_string(&mut self) -> &mut OsString {
        &mut self.0
    }

    /// The text.
    pub fn into_os_string(self) -> OsString {
        self.0
    }

    /// As a box.
    pub fn into_boxed_path(self) -> Box<Path> {
        Path::from_boxed(self.0.into_boxed_os_str())
    }

    /// Bytes that fit without growing.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Makes it nothing.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Makes room.
    pub fn reserve(&mut self, additional: usize) {
        self.0.reserve(additional);
    }

    /// Gives up room that is not needed.
    pub fn shrink_to_fit(&mut self) {
        self.0.shrink_to_fit();
    }
}

impl Deref for PathBuf {
    type Target = Path;

    fn deref(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl fmt::Debug for PathBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq for PathBuf {
    fn eq(&self, other: &PathBuf) -> bool {
        **self == **other
    }
}

impl Eq for PathBuf {}

impl PartialOrd for PathBuf {
    fn partial_cmp(&self, other: &PathBuf) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PathBuf {
    fn cmp(&self, other: &PathBuf) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for PathBuf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl Borrow<Path> for PathBuf {
    fn borrow(&self) -> &Path {
        self
    }
}

impl AsRef<Path> for PathBuf {
    fn as_ref(&self) -> &Path {
        self
    }
}

impl AsRef<OsStr> for PathBuf {
    fn as_ref(&self) -> &OsStr {
        &self.0
    }
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for PathBuf {
    fn from(text: &T) -> PathBuf {
        PathBuf(text.as_ref().to_os_string())
    }
}

impl From<OsString> for PathBuf {
    fn from(text: OsString) -> PathBuf {
        PathBuf(text)
    }
}

impl From<String> for PathBuf {
    fn from(text: String) -> PathBuf {
        PathBuf(text.into())
    }
}

impl From<Box<Path>> for PathBuf {
    fn from(path: Box<Path>) -> PathBuf {
        path.into_path_buf()
    }
}

impl From<Cow<'_, Path>> for PathBuf {
    fn from(path: Cow<'_, Path>) -> PathBuf {
        path.into_owned()
    }
}

impl From<PathBuf> for OsString {
    fn from(path: PathBuf) -> OsString {
        path.0
    }
}

impl From<PathBuf> for Box<Path> {
    fn from(path: PathBuf) -> Box<Path> {
        path.into_boxed_path()
    }
}

impl From<PathBuf> for Arc<Path> {
    fn from(path: PathBuf) -> Arc<Path> {
        Arc::from(path.into_boxed_path())
    }
}

impl From<PathBuf> for Rc<Path> {
    fn from(path: PathBuf) -> Rc<Path> {
        Rc::from(path.into_boxed_path())
    }
}

impl From<PathBuf> for Cow<'_, Path> {
    fn from(path: PathBuf) -> Self {
        Cow::Owned(path)
    }
}

impl<'a> From<&'a PathBuf> for Cow<'a, Path> {
    fn from(path: &'a PathBuf) -> Cow<'a, Path> {
        Cow::Borrowed(path)
    }
}

impl FromStr for PathBuf {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<PathBuf, Infallible> {
        Ok(PathBuf::from(text))
    }
}

impl<P: AsRef<Path>> Extend<P> for PathBuf {
    fn extend<I: IntoIterator<Item = P>>(&mut self, parts: I) {
        parts.into_iter().for_each(|part| self.push(part));
    }
}

impl<P: AsRef<Path>> FromIterator<P> for PathBuf {
    fn from_iter<I: IntoIterator<Item = P>>(parts: I) -> PathBuf {
        let mut path = PathBuf::new();
        path.extend(parts);
        path
    }
}

impl<'a> IntoIterator for &'a PathBuf {
    type Item = &'a OsStr;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Equality between the kinds of paths and texts.
macro_rules! compare {
    ($($left:ty, $right:ty;)*) => {$(
        impl PartialEq<$right> for $left {
            fn eq(&self, other: &$right) -> bool {
                AsRef::<Path>::as_ref(self) == AsRef::<Path>::as_ref(other)
            }
        }

        impl PartialEq<$left> for $right {
            fn eq(&self, other: &$left) -> bool {
                AsRef::<Path>::as_ref(self) == AsRef::<Path>::as_ref(other)
            }
        }
    )*};
}

compare! {
    PathBuf, Path;
    PathBuf, &Path;
    PathBuf, OsStr;
    PathBuf, OsString;
    Path, OsStr;
    Path, OsString;
    PathBuf, str;
    PathBuf, &str;
    PathBuf, String;
    Path, str;
    Path, String;
}
