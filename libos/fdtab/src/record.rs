//! Descriptors as records.
//!
//! An open file is recorded once, however many descriptors lead to it. A file in memory is found again by its number, which the record
//! of its file system keeps. A file of a disk image or of the host is opened again by its path, with the rights of today's
//! mount, and must be the same file.
//!
//! ```text
//!  instance ─▶ working directory, open files ◀── descriptor, descriptor, …, pin, …
//!                                  │
//!                                  ├─ Numbered   its number is known to the file system in memory
//!                                  ├─ ByPath     opened again; its inode is compared
//!                                  └─ Directory  its entries, if some have been read
//! ```
//!
//! A pin is taken over with its number, so that the module that has it can pin its file again.

use crate::Files;
use crate::mounts::Location;
use crate::park_lock::ParkLock;
use crate::paths::is_clean;
use crate::tables::{Directory, Open, Table};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::Errno;
use monohull_abi::file::{
    DESCRIPTORS_MAX, FILE_SIZE_MAX, FIRST_DESCRIPTOR, FileKind, FileStat, FsOp, MAPPINGS_MAX, MountKind, open,
};
use monohull_module::FutexMutex;
use monohull_module::record::{RecordsRef, Refused, fields, rise};
use serde::{Deserialize, Serialize};

/// The files of one instance.
#[derive(Serialize, Deserialize)]
pub(crate) struct TableRecord {
    pub(crate) instance: u32,
    /// Its working directory, clean.
    pub(crate) working: String,
    pub(crate) files: Vec<OpenRecord>,
    /// Each with the index of its open file.
    pub(crate) descriptors: Vec<(u64, u32)>,
    /// By their numbers.
    pub(crate) pins: Vec<PinRecord>,
}

/// The table of version 1.
#[derive(Deserialize)]
struct TableWithoutPins {
    instance: u32,
    working: String,
    files: Vec<OpenRecord>,
    descriptors: Vec<(u64, u32)>,
}

impl From<TableWithoutPins> for TableRecord {
    fn from(TableWithoutPins { instance, working, files, descriptors }: TableWithoutPins) -> TableRecord {
        TableRecord { instance, working, files, descriptors, pins: Vec::new() }
    }
}

/// A part of a file that a module reads in place.
#[derive(Serialize, Deserialize)]
pub(crate) struct PinRecord {
    pub(crate) number: u64,
    /// The index of its open file.
    pub(crate) file: u32,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct OpenRecord {
    /// Clean.
    pub(crate) path: String,
    pub(crate) flags: u64,
    pub(crate) position: u64,
    pub(crate) target: TargetRecord,
}

/// What is open.
#[derive(Serialize, Deserialize)]
pub(crate) enum TargetRecord {
    /// A file in memory, by its file system's number.
    Numbered(u64),
    /// A file that is opened again, and the number that the file system reports to functions.
    ByPath(u64),
    /// A directory, and its entries as they were.
    Directory(Option<Vec<u8>>),
}

impl Files {
    pub(crate) fn save_tables(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
        let mut tables = Vec::new();
        for instance in records.instances() {
            if let Some(table) = self.tables.find(instance) {
                tables.push(self.describe_table(instance, table)?);
            }
        }
        records.write(&tables)
    }

    fn describe_table(&self, instance: u32, table: &Table) -> Result<TableRecord, Refused> {
        let mut known: Vec<Arc<Open>> = Vec::new();
        let mut descriptors = Vec::new();
        for (descriptor, open) in table.all() {
            let index = known.iter().position(|other| Arc::ptr_eq(other, &open)).unwrap_or(known.len());
            if index == known.len() {
                known.push(open);
            }
            descriptors.push((descriptor, index as u32));
        }
        let mut pins = Vec::new();
        for (number, pin) in self.pins.lock().of(instance) {
            let index = known.iter().position(|other| Arc::ptr_eq(other, &pin.open)).unwrap_or(known.len());
            if index == known.len() {
                known.push(pin.open.clone());
            }
            pins.push(PinRecord { number, file: index as u32, offset: pin.offset, len: pin.len });
        }
        let files = known.iter().map(|open| self.describe_open(instance, open)).collect::<Result<_, _>>()?;
        Ok(TableRecord { instance, working: table.working.lock().clone(), files, descriptors, pins })
    }

    fn describe_open(&self, instance: u32, open: &Open) -> Result<OpenRecord, Refused> {
        let target = match (&open.directory, open.mount) {
            (Some(directory), _) => {
                TargetRecord::Directory(directory.listing.lock().as_ref().map(|listing| Vec::clone(listing)))
            }
            (None, Some(mount)) if self.mounts.get(mount).info.kind == MountKind::Memory => {
                TargetRecord::Numbered(open.node)
            }
            (None, Some(mount)) => TargetRecord::ByPath(self.node_under_its_path(instance, open, mount)?),
            (None, None) => return Err(Refused::of(instance, format_args!("`/{}` is open", open.path))),
        };
        Ok(OpenRecord {
            path: open.path.clone(),
            flags: open.flags.load(Ordering::Relaxed),
            position: open.position.load(Ordering::Relaxed),
            target,
        })
    }

    /// The number that functions know an open file by, if its path leads to it still.
    fn node_under_its_path(&self, instance: u32, open: &Open, mount: u32) -> Result<u64, Refused> {
        let mut stat = FileStat::default();
        let asked = self.mounts.request(FsOp::StatNode, mount, [open.node, &raw mut stat as u64, 0, 0, 0]);
        let found = self.mounts.locate(instance, &open.path).and_then(|location| self.mounts.stat(location));
        match (asked, found) {
            (Ok(_), Ok(found)) if found.node == stat.node && found.kind == FileKind::File as u32 => Ok(stat.node),
            (Err(errno), _) => Err(Refused::of(instance, format_args!("`/{}`: {errno}", open.path))),
            _ => {
                let why = format_args!("`/{}` has been removed or renamed while it is open", open.path);
                Err(Refused::of(instance, why))
            }
        }
    }

    pub(crate) fn restore_tables(&self, version: u32, record: &[u8], records: RecordsRef<'_>) -> Result<(), Refused> {
        let tables: Vec<TableRecord> = match version {
            1 => fields::<Vec<TableWithoutPins>>(record)?.into_iter().map(TableRecord::from).collect(),
            _ => fields(record)?,
        };
        rise(tables.iter().map(|table| table.instance), "the instances")?;
        let live = records.instances();
        for table in tables {
            let instance = table.instance;
            if !live.contains(&instance) {
                return Err(Refused::new(format_args!("there is no instance {instance}")));
            }
            self.restore_table(table)?;
        }
        Ok(())
    }

    fn restore_table(&self, record: TableRecord) -> Result<(), Refused> {
        let TableRecord { instance, working, files, descriptors, pins } = record;
        let damaged = |what: &str| Refused::of(instance, format_args!("its record is damaged: {what}"));
        let table = self.tables.of(instance);
        if !is_clean(&working) {
            return Err(damaged("the working directory"));
        }
        *table.working.lock() = working;
        rise(descriptors.iter().map(|(descriptor, _)| *descriptor), "the descriptors")?;
        let mut leads = vec![false; files.len()];
        for (descriptor, index) in &descriptors {
            let is_descriptor = (FIRST_DESCRIPTOR..DESCRIPTORS_MAX as u64).contains(descriptor);
            match leads.get_mut(*index as usize).filter(|_| is_descriptor) {
                Some(leads) => *leads = true,
                None => return Err(damaged("a descriptor")),
            }
        }
        rise(pins.iter().map(|pin| pin.number), "the pins")?;
        if pins.len() > MAPPINGS_MAX {
            return Err(damaged("the number of pins"));
        }
        for PinRecord { file, offset, len, .. } in &pins {
            let is_part = offset.checked_add(*len).is_some_and(|end| *len > 0 && end <= FILE_SIZE_MAX);
            let is_file =
                |file: &OpenRecord| !matches!(file.target, TargetRecord::Directory(_)) && file.flags & open::READ != 0;
            match files.get(*file as usize).filter(|file| is_part && is_file(file)) {
                Some(_) => leads[*file as usize] = true,
                None => return Err(damaged("a pin")),
            }
        }
        if leads.contains(&false) {
            return Err(damaged("an open file without a descriptor or a pin"));
        }
        let mut opened = Vec::new();
        for file in files {
            opened.push(Arc::new(self.restore_open(instance, file)?));
        }
        for (descriptor, index) in descriptors {
            let before = table.replace(descriptor, opened[index as usize].clone());
            if !matches!(before, Ok(None)) {
                return Err(damaged("a descriptor"));
            }
        }
        for PinRecord { number, file, offset, len } in pins {
            let open = opened[file as usize].clone();
            if !self.pins.lock().take_over(number, instance, open, (offset, len)) {
                return Err(damaged("the number of a pin"));
            }
        }
        Ok(())
    }

    fn restore_open(&self, instance: u32, record: OpenRecord) -> Result<Open, Refused> {
        const RIGHTS: u64 = open::READ | open::WRITE;
        let OpenRecord { path, flags, position, target } = record;
        if !is_clean(&path) || flags & !(RIGHTS | open::APPEND) != 0 || flags & RIGHTS == 0 || position > FILE_SIZE_MAX
        {
            return Err(Refused::of(instance, format_args!("its record is damaged: an open file")));
        }
        let refuse = |why: &str| Err(Refused::of(instance, format_args!("`/{path}`: {why}")));
        let located = self.mounts.locate(instance, &path);
        let location = match located {
            Ok(location) => location,
            Err(Errno::NotPermitted) => return refuse("it is on a mount that its step may not use"),
            Err(_) => return refuse("the workflow has no mount there"),
        };
        let mount = match location {
            Location::OnMount(mount, _) => Some(mount),
            Location::AboveMounts => None,
        };
        let is_read_only = mount.is_none_or(|mount| self.mounts.get(mount).info.read_only != 0);
        if flags & open::WRITE != 0 && is_read_only {
            return refuse("its mount is read-only");
        }
        let kind = mount.map(|mount| self.mounts.get(mount).info.kind);
        let (node, directory) = match (target, location, kind) {
            (TargetRecord::Directory(listing), ..) if flags & open::WRITE == 0 => {
                if let Some(listing) = &listing
                    && self.host.charge(instance, listing.len() as u64).is_err()
                {
                    return refuse("its entries exceed the memory limit");
                }
                let listing = FutexMutex::new(listing.map(Arc::new));
                (0, Some(Directory { owner: instance, listing }))
            }
            (TargetRecord::Numbered(node), Location::OnMount(mount, _), Some(MountKind::Memory)) => {
                let mut stat = FileStat::default();
                if self.mounts.request(FsOp::StatNode, mount, [node, &raw mut stat as u64, 0, 0, 0]).is_err() {
                    return refuse("there is no such file in memory");
                }
                (node, None)
            }
            (TargetRecord::ByPath(node), Location::OnMount(mount, rest), Some(MountKind::Image | MountKind::Host)) => {
                match self.open_again(mount, rest, flags & RIGHTS, node) {
                    Ok(node) => (node, None),
                    Err(Errno::NotFound) => return refuse("it is not there any more"),
                    Err(Errno::Exists | Errno::IsDirectory) => return refuse("another file is there now"),
                    Err(errno) => return Err(Refused::of(instance, format_args!("`/{path}`: {errno}"))),
                }
            }
            _ => return refuse("its mount is of another kind"),
        };
        Ok(Open {
            mount,
            node,
            flags: AtomicU64::new(flags),
            position: AtomicU64::new(position),
            position_lock: ParkLock::new(),
            path: path.to_owned(),
            directory,
        })
    }

    /// Opens a file that functions know by this number; `Exists` if another one is there.
    fn open_again(&self, mount: u32, path: &str, flags: u64, known: u64) -> Result<u64, Errno> {
        let mut stat = FileStat::default();
        let node = self.mounts.request_path(FsOp::Open, mount, path, [flags, &raw mut stat as u64, 0])?;
        if stat.kind == FileKind::Directory as u32 {
            return Err(Errno::IsDirectory);
        }
        if stat.node != known {
            // The file system has failed if it fails.
            let _ = self.mounts.request(FsOp::Close, mount, [node, 0, 0, 0, 0]);
            return Err(Errno::Exists);
        }
        Ok(node)
    }
}
