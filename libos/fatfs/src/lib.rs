//! Libos module: FAT disk images, mapped.
//!
//! A file's bytes are copied straight between the function's buffer and the image: where they lie is known in runs, and
//! no lock but the file's own (shared) is held. Names, directories and chains are changed by the crate `monohull-fat`, in an
//! order that survives being interrupted.
//!
//! ```text
//!   read, write inside ─▶ file: size, runs ────────────────── copy ──▶ mapped image
//!   write behind, names ─▶ volume ─▶ editor ───────── ordered words ──▶     "
//! ```
//!
//! Locks, outermost first:
//!
//! - the volume's editor: while names or chains change, and while a file is opened or closed. A file that grows by gigabytes gets its
//!   clusters in pieces. Its waiters sleep.
//! - a file: shared while bytes are copied, alone while its end or its clusters change; never for more than a piece of it.
//! - the table of open files: for a few instructions.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

mod file;
mod files;
mod image;
mod moving;
mod record;
mod volume;

use alloc::boxed::Box;
use alloc::vec::Vec;
use monohull_abi::file::{Extent, FileStat, MOUNTS_MAX};
use monohull_abi::module::Call;
use monohull_abi::{Errno, number};
use monohull_module::fs::{FileSystem, Listing, Times, serve};
use monohull_module::record::{RecordsRef, Refused};
use monohull_module::{Checked, HostRef, Module, Once, Segments, module};
use volume::Volume;

/// The images of one domain, by their mount's number.
pub struct FatFs {
    host: HostRef,
    volumes: Segments<Once<Result<Box<Volume>, Errno>>>,
}

module! {
    FatFs {
        number::FATFS => FatFs::serve,
    }
}

impl Module for FatFs {
    const NAME: &'static str = "fatfs";

    fn start(host: HostRef) -> Option<FatFs> {
        Some(FatFs { host, volumes: Segments::new(MOUNTS_MAX) })
    }

    fn save(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
        self.save_volumes(records)
    }

    fn restore(&self, _version: u32, record: &[u8], _records: RecordsRef<'_>) -> Result<(), Refused> {
        self.restore_volumes(record)
    }
}

impl FatFs {
    fn serve(&self, call: &mut Call) -> Result<u64, Errno> {
        serve(self, self.host, call)
    }

    /// The volume of a mount, opened when it is first asked for.
    fn volume(&self, mount: u32) -> Result<&Volume, Errno> {
        let cell = self.volumes.make(mount as usize).ok_or(Errno::Invalid)?;
        let volume = cell.call_once(|| Volume::mount(self.host, mount).map(Box::new));
        volume.as_deref().map_err(|errno| *errno)
    }
}

impl FileSystem for FatFs {
    fn open(&self, mount: u32, path: &str, flags: u64) -> Result<(u64, FileStat), Errno> {
        self.volume(mount)?.open(path, flags)
    }

    fn close(&self, mount: u32, node: u64) -> Result<(), Errno> {
        self.volume(mount)?.close(node)
    }

    fn read(&self, mount: u32, node: u64, offset: u64, to: Checked) -> Result<u64, Errno> {
        self.volume(mount)?.read(node, offset, to)
    }

    fn write(&self, mount: u32, node: u64, offset: Option<u64>, from: Checked) -> Result<(u64, u64), Errno> {
        self.volume(mount)?.write(node, offset, from)
    }

    fn stat(&self, mount: u32, path: &str) -> Result<FileStat, Errno> {
        self.volume(mount)?.stat(path)
    }

    fn stat_node(&self, mount: u32, node: u64) -> Result<FileStat, Errno> {
        self.volume(mount)?.stat_node(node)
    }

    fn list(&self, mount: u32, path: &str, start: u64, listing: &mut Listing) -> Result<(), Errno> {
        self.volume(mount)?.list(path, start, listing)
    }

    fn make_directory(&self, mount: u32, path: &str) -> Result<(), Errno> {
        self.volume(mount)?.make_directory(path)
    }

    fn remove_directory(&self, mount: u32, path: &str) -> Result<(), Errno> {
        self.volume(mount)?.remove_directory(path)
    }

    fn remove_file(&self, mount: u32, path: &str) -> Result<(), Errno> {
        self.volume(mount)?.remove_file(path)
    }

    fn rename(&self, mount: u32, from: &str, to: &str) -> Result<(), Errno> {
        self.volume(mount)?.rename(from, to)
    }

    fn set_times(&self, mount: u32, path: &str, times: Times) -> Result<(), Errno> {
        self.volume(mount)?.set_times(path, times)
    }

    fn set_node_times(&self, mount: u32, node: u64, times: Times) -> Result<(), Errno> {
        self.volume(mount)?.set_node_times(node, times)
    }

    fn resize(&self, mount: u32, node: u64, size: u64) -> Result<(), Errno> {
        self.volume(mount)?.resize(node, size)
    }

    fn sync(&self, mount: u32, node: u64) -> Result<(), Errno> {
        self.volume(mount)?.sync(node)
    }

    fn sync_directory(&self, mount: u32, _path: &str) -> Result<(), Errno> {
        self.volume(mount)?.sync_names()
    }

    fn pin(&self, mount: u32, node: u64, offset: u64, len: u64) -> Result<(u64, Vec<Extent>), Errno> {
        // A file's pins are only counted.
        Ok((0, self.volume(mount)?.pin(node, offset, len)?))
    }

    fn unpin(&self, mount: u32, node: u64, _pin: u64) -> Result<(), Errno> {
        self.volume(mount)?.unpin(node)
    }
}
