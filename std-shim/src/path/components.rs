//! The parts of a path, from either end.

use super::Path;
use crate::ffi::OsStr;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::iter::FusedIterator;

/// A part of a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Component<'a> {
    /// A drive or the like; this system has none.
    Prefix(PrefixComponent<'a>),
    /// The `/` at the start.
    RootDir,
    /// A `.` at the start; others leave no trace.
    CurDir,
    /// `..`.
    ParentDir,
    /// A name.
    Normal(&'a OsStr),
}

/// A drive or the like; this system has none, so there is no such value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PrefixComponent<'a>(core::convert::Infallible, core::marker::PhantomData<&'a OsStr>);

impl<'a> PrefixComponent<'a> {
    /// Its text.
    pub fn as_os_str(&self) -> &'a OsStr {
        match self.0 {}
    }
}

impl<'a> Component<'a> {
    /// Its text.
    pub fn as_os_str(self) -> &'a OsStr {
        match self {
            Component::Prefix(prefix) => prefix.as_os_str(),
            Component::RootDir => OsStr::from_str("/"),
            Component::CurDir => OsStr::from_str("."),
            Component::ParentDir => OsStr::from_str(".."),
            Component::Normal(name) => name,
        }
    }
}

impl AsRef<OsStr> for Component<'_> {
    fn as_ref(&self) -> &OsStr {
        self.as_os_str()
    }
}

impl AsRef<Path> for Component<'_> {
    fn as_ref(&self) -> &Path {
        Path::new(self.as_os_str())
    }
}

/// The parts of a path that have not been given yet.
///
/// ```text
///   "/a/./b//c/"    RootDir  a  b  c         front ─▶ rest ◀─ back
///   "./a"           CurDir  a
/// ```
#[derive(Clone)]
pub struct Components<'a> {
    rest: &'a str,
    /// Nothing has been given from the front yet: a `/` or `.` there counts.
    front: bool,
}

impl<'a> Components<'a> {
    pub(super) fn new(path: &'a str) -> Components<'a> {
        Components { rest: path, front: true }
    }

    /// What the rest begins with, if that is not a name, and its length.
    fn head(&self) -> Option<(Component<'a>, usize)> {
        match self.rest.as_bytes() {
            [b'/', ..] if self.front => Some((Component::RootDir, 1)),
            [b'.'] | [b'.', b'/', ..] if self.front => Some((Component::CurDir, 1)),
            _ => None,
        }
    }

    /// The path of what is left.
    pub fn as_path(&self) -> &'a Path {
        let head = self.head().map_or(0, |(_, len)| len);
        let (mut start, mut end) = (0, self.rest.len());
        // What leaves no trace is cut off on both sides.
        while end > head {
            let name = self.rest[head..end].rfind('/').map_or(head, |at| head + at + 1);
            if component(&self.rest[name..end]).is_some() {
                break;
            }
            end = name.saturating_sub(1).max(head);
        }
        while !self.front && start < end {
            let name = self.rest[start..end].find('/').map_or(end, |at| start + at);
            if component(&self.rest[start..name]).is_some() {
                break;
            }
            start = (name + 1).min(end);
        }
        Path::new(&self.rest[start..end])
    }
}

/// A name as a part of a path; `None` if it leaves no trace.
fn component(name: &str) -> Option<Component<'_>> {
    match name {
        "" | "." => None,
        ".." => Some(Component::ParentDir),
        name => Some(Component::Normal(OsStr::from_str(name))),
    }
}

impl<'a> Iterator for Components<'a> {
    type Item = Component<'a>;

    fn next(&mut self) -> Option<Component<'a>> {
        let head = self.head();
        self.front = false;
        if let Some((component, len)) = head {
            self.rest = &self.rest[len..];
            return Some(component);
        }
        while !self.rest.is_empty() {
            let (name, rest) = self.rest.split_once('/').unwrap_or((self.rest, ""));
            self.rest = rest;
            if let Some(component) = component(name) {
                return Some(component);
            }
        }
        None
    }
}

impl<'a> DoubleEndedIterator for Components<'a> {
    fn next_back(&mut self) -> Option<Component<'a>> {
        let head = self.head();
        let start = head.map_or(0, |(_, len)| len);
        while self.rest.len() > start {
            let at = self.rest[start..].rfind('/').map(|at| start + at);
            let name = &self.rest[at.map_or(start, |at| at + 1)..];
            self.rest = &self.rest[..at.unwrap_or(start)];
            if let Some(component) = component(name) {
                return Some(component);
            }
        }
        self.rest = "";
        head.map(|(component, _)| component)
    }
}

impl FusedIterator for Components<'_> {}

impl PartialEq for Components<'_> {
    fn eq(&self, other: &Self) -> bool {
        Iterator::eq(self.clone(), other.clone())
    }
}

impl Eq for Components<'_> {}

impl PartialOrd for Components<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Components<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        Iterator::cmp(self.clone(), other.clone())
    }
}

impl Hash for Components<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.clone().for_each(|component| component.hash(state));
    }
}

impl fmt::Debug for Components<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct List<'a>(&'a Components<'a>);
        impl fmt::Debug for List<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_list().entries(self.0.clone()).finish()
            }
        }
        f.debug_tuple("Components").field(&List(self)).finish()
    }
}

impl AsRef<Path> for Components<'_> {
    fn as_ref(&self) -> &Path {
        self.as_path()
    }
}

impl AsRef<OsStr> for Components<'_> {
    fn as_ref(&self) -> &OsStr {
        self.as_path().as_os_str()
    }
}

/// The parts of a path as texts.
#[derive(Clone)]
pub struct Iter<'a>(pub(super) Components<'a>);

impl<'a> Iter<'a> {
    /// The path of what is left.
    pub fn as_path(&self) -> &'a Path {
        self.0.as_path()
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a OsStr;

    fn next(&mut self) -> Option<&'a OsStr> {
        self.0.next().map(Component::as_os_str)
    }
}

impl<'a> DoubleEndedIterator for Iter<'a> {
    fn next_back(&mut self) -> Option<&'a OsStr> {
        self.0.next_back().map(Component::as_os_str)
    }
}

impl FusedIterator for Iter<'_> {}

impl fmt::Debug for Iter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Iter").field(&crate::vec::Vec::from_iter(self.clone())).finish()
    }
}
