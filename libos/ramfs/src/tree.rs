//! One mounted tree: the calls that take paths.

use crate::names::{Directory, Entry, split};
use crate::nodes::Nodes;
use crate::places::Places;
use crate::quota::Quota;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use monohull_abi::Errno;
use monohull_abi::file::{FileKind, FileStat, open};
use monohull_module::fs::{Listing, Times};
use monohull_module::{FutexMutex, HostRef, Once};

/// Where the tree of a mount is made when it is first used.
pub(crate) type TreeCell = Once<Box<Tree>>;

/// Directories are charged this much each.
pub(crate) const OVERHEAD: u64 = 512;
/// Numbers of directories begin here, out of the way of those of files.
pub(crate) const DIRECTORIES: u64 = 1 << 63;

/// One mounted tree.
pub(crate) struct Tree {
    host: HostRef,
    pub(crate) mount: u32,
    pub(crate) quota: Arc<Quota>,
    pub(crate) names: FutexMutex<Names>,
    pub(crate) nodes: Nodes,
}

pub(crate) struct Names {
    pub(crate) root: Directory,
    pub(crate) next: u64,
}

impl Tree {
    pub(crate) fn new(host: HostRef, mount: u32, limit: u64, places: Arc<Places>) -> Tree {
        let quota = Arc::new(Quota::new(limit, places));
        let root = Directory::new(DIRECTORIES, host.realtime() as i64);
        let names = FutexMutex::new(Names { root, next: DIRECTORIES + 1 });
        Tree { host, mount, names, nodes: Nodes::new(host, mount, quota.clone()), quota }
    }

    pub(crate) fn open(&self, path: &str, flags: u64) -> Result<(u64, FileStat), Errno> {
        let mut names = self.names.lock();
        let node = match names.root.entry(path) {
            Ok(_) if flags & (open::CREATE | open::EXCLUSIVE) == open::CREATE | open::EXCLUSIVE => {
                return Err(Errno::Exists);
            }
            Ok(Some(Entry::File(node))) => *node,
            Ok(_) if flags & (open::WRITE | open::TRUNCATE | open::CREATE) != 0 => return Err(Errno::IsDirectory),
            Ok(found) => {
                let directory = match found {
                    Some(Entry::Directory(directory)) => directory,
                    _ => &names.root,
                };
                return Ok((0, self.stat_directory(directory)));
            }
            Err(Errno::NotFound) if flags & (open::CREATE | open::DIRECTORY) == open::CREATE => {
                self.make(&mut names, path)?
            }
            Err(errno) => return Err(errno),
        };
        if flags & open::DIRECTORY != 0 {
            return Err(Errno::NotDirectory);
        }
        if flags & open::TRUNCATE != 0 {
            self.nodes.resize(node, 0)?;
        }
        self.nodes.open(node)?;
        Ok((node, self.nodes.stat(node)?))
    }

    fn make(&self, names: &mut Names, path: &str) -> Result<u64, Errno> {
        let (parent, name) = split(path)?;
        let directory = names.root.find_mut(parent)?;
        let node = self.nodes.make()?;
        directory.entries.insert(name.to_string(), Entry::File(node));
        directory.modified = self.host.realtime() as i64;
        Ok(node)
    }

    pub(crate) fn stat(&self, path: &str) -> Result<FileStat, Errno> {
        let names = self.names.lock();
        match names.root.entry(path)? {
            Some(Entry::File(node)) => self.nodes.stat(*node),
            Some(Entry::Directory(directory)) => Ok(self.stat_directory(directory)),
            None => Ok(self.stat_directory(&names.root)),
        }
    }

    /// A directory has one time: when its names last changed.
    pub(crate) fn set_times(&self, path: &str, times: Times) -> Result<(), Errno> {
        let mut names = self.names.lock();
        if let Some(Entry::File(node)) = names.root.entry(path)? {
            return self.nodes.set_times(*node, times);
        }
        let directory = names.root.find_mut(path)?;
        directory.modified = times.written.unwrap_or(directory.modified);
        Ok(())
    }

    fn stat_directory(&self, directory: &Directory) -> FileStat {
        FileStat {
            kind: FileKind::Directory as u32,
            read_only: 0,
            size: 0,
            mount: self.mount,
            links: 1,
            node: directory.node,
            modified: directory.modified,
            accessed: directory.modified,
            created: directory.created,
        }
    }

    pub(crate) fn list(&self, path: &str, start: u64, listing: &mut Listing) -> Result<(), Errno> {
        let names = self.names.lock();
        for (name, entry) in names.root.find(path)?.entries.iter().skip(start as usize) {
            let fits = match entry {
                Entry::File(node) => listing.push(name, FileKind::File, node + 1),
                Entry::Directory(directory) => listing.push(name, FileKind::Directory, directory.node),
            };
            if !fits {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn make_directory(&self, path: &str) -> Result<(), Errno> {
        let names = &mut *self.names.lock();
        if path.is_empty() {
            return Err(Errno::Exists);
        }
        let (parent, name) = split(path)?;
        let directory = names.root.find_mut(parent)?;
        if directory.entries.contains_key(name) {
            return Err(Errno::Exists);
        }
        self.quota.charge(OVERHEAD)?;
        let now = self.host.realtime() as i64;
        directory.entries.insert(name.to_string(), Entry::Directory(Box::new(Directory::new(names.next, now))));
        directory.modified = now;
        names.next += 1;
        Ok(())
    }

    pub(crate) fn remove_directory(&self, path: &str) -> Result<(), Errno> {
        let names = &mut *self.names.lock();
        let (parent, name) = split(path)?;
        let directory = names.root.find_mut(parent)?;
        match directory.entries.get(name).ok_or(Errno::NotFound)? {
            Entry::File(_) => return Err(Errno::NotDirectory),
            Entry::Directory(inner) if !inner.entries.is_empty() => return Err(Errno::NotEmpty),
            Entry::Directory(_) => {}
        }
        directory.entries.remove(name);
        directory.modified = self.host.realtime() as i64;
        self.quota.refund(OVERHEAD);
        Ok(())
    }

    pub(crate) fn remove_file(&self, path: &str) -> Result<(), Errno> {
        let names = &mut *self.names.lock();
        let (parent, name) = split(path)?;
        let directory = names.root.find_mut(parent)?;
        let node = match directory.entries.get(name).ok_or(Errno::NotFound)? {
            Entry::File(node) => *node,
            Entry::Directory(_) => return Err(Errno::IsDirectory),
        };
        directory.entries.remove(name);
        directory.modified = self.host.realtime() as i64;
        self.nodes.unname(node);
        Ok(())
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        let names = &mut *self.names.lock();
        let ((from_parent, from_name), (to_parent, to_name)) = (split(from)?, split(to)?);
        let moved = names.root.entry(from)?.ok_or(Errno::Busy)?;
        let is_directory = matches!(moved, Entry::Directory(_));
        if from == to {
            return Ok(());
        }
        if is_directory && to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
            return Err(Errno::Invalid);
        }
        match names.root.find(to_parent)?.entries.get(to_name) {
            Some(Entry::File(_)) if is_directory => return Err(Errno::NotDirectory),
            Some(Entry::Directory(_)) if !is_directory => return Err(Errno::IsDirectory),
            Some(Entry::Directory(inner)) if !inner.entries.is_empty() => return Err(Errno::NotEmpty),
            _ => {}
        }
        let now = self.host.realtime() as i64;
        let directory = names.root.find_mut(from_parent)?;
        directory.modified = now;
        let moved = directory.entries.remove(from_name).ok_or(Errno::NotFound)?;
        let directory = names.root.find_mut(to_parent)?;
        directory.modified = now;
        match directory.entries.insert(to_name.to_string(), moved) {
            Some(Entry::File(node)) => self.nodes.unname(node),
            Some(Entry::Directory(_)) => self.quota.refund(OVERHEAD),
            None => {}
        }
        Ok(())
    }
}
