//! Directories: what is called how.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use monohull_abi::Errno;
use monohull_abi::file::NAME_MAX;

/// A directory.
pub(crate) struct Directory {
    /// Its number; files have numbers of their own below these.
    pub(crate) node: u64,
    pub(crate) created: i64,
    pub(crate) modified: i64,
    pub(crate) entries: BTreeMap<String, Entry>,
}

/// What a name leads to.
pub(crate) enum Entry {
    /// A file's node.
    File(u64),
    Directory(Box<Directory>),
}

impl Drop for Directory {
    /// One after another: by renaming, directories can be made to lie deeper in each other than a stack is.
    fn drop(&mut self) {
        let mut waiting = vec![core::mem::take(&mut self.entries)];
        while let Some(entries) = waiting.pop() {
            let inner = entries.into_values().filter_map(|entry| match entry {
                Entry::Directory(mut directory) => Some(core::mem::take(&mut directory.entries)),
                Entry::File(_) => None,
            });
            waiting.extend(inner);
        }
    }
}

impl Directory {
    pub(crate) fn new(node: u64, now: i64) -> Directory {
        Directory { node, created: now, modified: now, entries: BTreeMap::new() }
    }

    /// The directory at a clean path.
    pub(crate) fn find(&self, path: &str) -> Result<&Directory, Errno> {
        match self.entry(path)? {
            None => Ok(self),
            Some(Entry::Directory(directory)) => Ok(directory),
            Some(Entry::File(_)) => Err(Errno::NotDirectory),
        }
    }

    /// The same, to be changed.
    pub(crate) fn find_mut(&mut self, path: &str) -> Result<&mut Directory, Errno> {
        let mut directory = self;
        for name in names(path) {
            directory = match directory.entries.get_mut(name) {
                Some(Entry::Directory(next)) => next,
                Some(Entry::File(_)) => return Err(Errno::NotDirectory),
                None => return Err(Errno::NotFound),
            };
        }
        Ok(directory)
    }

    /// What is at a clean path; `None` is this directory itself.
    pub(crate) fn entry(&self, path: &str) -> Result<Option<&Entry>, Errno> {
        let mut directory = self;
        let mut found = None;
        let mut names = names(path).peekable();
        while let Some(name) = names.next() {
            let entry = directory.entries.get(name).ok_or(Errno::NotFound)?;
            match entry {
                Entry::Directory(next) => directory = next,
                Entry::File(_) if names.peek().is_some() => return Err(Errno::NotDirectory),
                Entry::File(_) => {}
            }
            found = Some(entry);
        }
        Ok(found)
    }
}

/// The names in a clean path.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// A clean path's directory and last name.
pub(crate) fn split(path: &str) -> Result<(&str, &str), Errno> {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name.len() {
        0 => Err(Errno::Busy),
        1..=NAME_MAX => Ok((parent, name)),
        _ => Err(Errno::NameTooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::{Directory, Entry};
    use alloc::boxed::Box;

    #[test]
    fn directories_deeper_than_any_stack_are_dropped() {
        let mut inner = Directory::new(0, 0);
        for node in 1..500_000 {
            let mut outer = Directory::new(node, 0);
            outer.entries.insert("d".into(), Entry::Directory(Box::new(inner)));
            inner = outer;
        }
        drop(inner);
    }
}
