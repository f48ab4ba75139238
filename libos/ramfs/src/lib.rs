//! Libos module: files in memory, as many trees of them as the workflow mounts.
//!
//! They belong to the workflow, not to the function that wrote them, so they are charged to the limit of their mount.
//!
//! ```text
//!   names   directories: a tree of maps, under one lock that only calls with paths take
//!   record  all of that as plain data, captured and rebuilt
//!   places  names for the pages of the bytes, which are captured beside it
//!   node    a file: its size, and its bytes in chunks; reads and overwrites share its lock, growing and cutting does not
//! ```
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod body;
mod fields;
mod names;
mod nodes;
mod places;
mod quota;
mod record;
#[cfg(test)]
mod tests;
mod tree;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use monohull_abi::file::{Extent, FileStat, MOUNTS_MAX, MountKind};
use monohull_abi::module::Call;
use monohull_abi::{Errno, number};
use monohull_module::fs::{FileSystem, Listing, Times, serve};
use monohull_module::record::{RecordsRef, Refused};
use monohull_module::{Checked, HostRef, Module, Segments, module};
use places::Places;
use tree::{Tree, TreeCell};

/// The trees of one domain, by their mount's number.
pub struct RamFs {
    host: HostRef,
    trees: Segments<TreeCell>,
    places: Arc<Places>,
}

module! {
    RamFs {
        number::RAMFS => RamFs::serve,
    }
}

impl Module for RamFs {
    const NAME: &'static str = "ramfs";

    fn start(host: HostRef) -> Option<RamFs> {
        Some(RamFs { host, trees: Segments::new(MOUNTS_MAX), places: Arc::new(Places::new()) })
    }

    /// Since version 2 a record has when files were read, where that was set; since version 3 what files contain is not in it.
    const RECORD_VERSION: u32 = 3;

    fn save(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
        self.save_trees(records)
    }

    fn restore(&self, version: u32, record: &[u8], records: RecordsRef<'_>) -> Result<(), Refused> {
        self.restore_trees(version, record, records)
    }
}

impl RamFs {
    fn serve(&self, call: &mut Call) -> Result<u64, Errno> {
        serve(self, self.host, call)
    }

    /// The tree of a mount, made when it is first asked for.
    fn tree(&self, mount: u32) -> Result<&Tree, Errno> {
        let cell = self.trees.make(mount as usize).ok_or(Errno::Invalid)?;
        if let Some(tree) = cell.get() {
            return Ok(tree);
        }
        let (info, _) =
            self.host.mount(mount).filter(|(info, _)| info.kind == MountKind::Memory).ok_or(Errno::Invalid)?;
        Ok(cell.call_once(|| Box::new(Tree::new(self.host, mount, info.size, self.places.clone()))))
    }
}

impl FileSystem for RamFs {
    fn open(&self, mount: u32, path: &str, flags: u64) -> Result<(u64, FileStat), Errno> {
        self.tree(mount)?.open(path, flags)
    }

    fn close(&self, mount: u32, node: u64) -> Result<(), Errno> {
        self.tree(mount)?.nodes.close(node)
    }

    fn read(&self, mount: u32, node: u64, offset: u64, to: Checked) -> Result<u64, Errno> {
        self.tree(mount)?.nodes.read(node, offset, to)
    }

    fn write(&self, mount: u32, node: u64, offset: Option<u64>, from: Checked) -> Result<(u64, u64), Errno> {
        self.tree(mount)?.nodes.write(node, offset, from)
    }

    fn stat(&self, mount: u32, path: &str) -> Result<FileStat, Errno> {
        self.tree(mount)?.stat(path)
    }

    fn stat_node(&self, mount: u32, node: u64) -> Result<FileStat, Errno> {
        self.tree(mount)?.nodes.stat(node)
    }

    fn list(&self, mount: u32, path: &str, start: u64, listing: &mut Listing) -> Result<(), Errno> {
        self.tree(mount)?.list(path, start, listing)
    }

    fn make_directory(&self, mount: u32, path: &str) -> Result<(), Errno> {
        self.tree(mount)?.make_directory(path)
    }

    fn remove_directory(&self, mount: u32, path: &str) -> Result<(), Errno> {
        self.tree(mount)?.remove_directory(path)
    }

    fn remove_file(&self, mount: u32, path: &str) -> Result<(), Errno> {
        self.tree(mount)?.remove_file(path)
    }

    fn rename(&self, mount: u32, from: &str, to: &str) -> Result<(), Errno> {
        self.tree(mount)?.rename(from, to)
    }

    fn set_times(&self, mount: u32, path: &str, times: Times) -> Result<(), Errno> {
        self.tree(mount)?.set_times(path, times)
    }

    fn set_node_times(&self, mount: u32, node: u64, times: Times) -> Result<(), Errno> {
        self.tree(mount)?.nodes.set_times(node, times)
    }

    fn resize(&self, mount: u32, node: u64, size: u64) -> Result<(), Errno> {
        self.tree(mount)?.nodes.resize(node, size)
    }

    /// Memory outlives nothing: there is nothing to make sure of.
    fn sync(&self, _mount: u32, _node: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn sync_directory(&self, _mount: u32, _path: &str) -> Result<(), Errno> {
        Ok(())
    }

    fn pin(&self, mount: u32, node: u64, offset: u64, len: u64) -> Result<(u64, Vec<Extent>), Errno> {
        self.tree(mount)?.nodes.pin(node, offset, len)
    }

    fn unpin(&self, mount: u32, _node: u64, pin: u64) -> Result<(), Errno> {
        self.tree(mount)?.nodes.unpin(pin)
    }
}
