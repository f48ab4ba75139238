//! Mounts: the file system of a path, and calls to it.
//!
//! A path belongs to the mount with the longest mount point that is a prefix of it. Directories above mount points exist and can be
//! listed, nothing else.

use crate::park_lock::ParkLock;
use alloc::string::String;
use alloc::vec::Vec;
use monohull_abi::file::{FileKind, FileStat, FsOp, MountInfo, MountKind};
use monohull_abi::{Errno, number};
use monohull_module::HostRef;

/// All mounts of a workflow.
pub(crate) struct Mounts {
    host: HostRef,
    list: Vec<Mount>,
}

/// One mount.
pub(crate) struct Mount {
    /// Its mount point, clean.
    point: String,
    pub(crate) info: MountInfo,
    /// Calls with paths hold it.
    pub(crate) path_lock: ParkLock,
}

/// The location of a clean path.
#[derive(Clone, Copy)]
pub(crate) enum Location<'p> {
    /// A path on a mount.
    OnMount(u32, &'p str),
    /// A directory above mount points.
    AboveMounts,
}

impl Mounts {
    /// Reads all of them from the host.
    pub(crate) fn load(host: HostRef) -> Mounts {
        let mounts = (0..).map_while(|index| host.mount(index));
        let mount = |(info, point): (MountInfo, String)| Mount {
            point: point.trim_matches('/').into(),
            info,
            path_lock: ParkLock::new(),
        };
        Mounts { host, list: mounts.map(mount).collect() }
    }

    pub(crate) fn get(&self, mount: u32) -> &Mount {
        &self.list[mount as usize]
    }

    /// Locates a clean path for an instance: `NotPermitted` on a mount that it may not use.
    pub(crate) fn locate<'p>(&self, instance: u32, path: &'p str) -> Result<Location<'p>, Errno> {
        let below = |mount: &Mount| below(path, &mount.point);
        let on = (0..).zip(&self.list).filter_map(|(index, mount)| Some((index, mount, below(mount)?)));
        if let Some((index, _, rest)) = on.max_by_key(|(_, mount, _)| mount.point.len()) {
            return match self.host.mount_allowed(instance, index) {
                true => Ok(Location::OnMount(index, rest)),
                false => Err(Errno::NotPermitted),
            };
        }
        if path.is_empty() || self.leads_to_mount(path) {
            return Ok(Location::AboveMounts);
        }
        Err(Errno::NotFound)
    }

    /// Whether there is a mount point at a clean path or below it: it can then be neither removed nor renamed.
    pub(crate) fn holds_mount(&self, path: &str) -> bool {
        path.is_empty() || self.list.iter().any(|mount| mount.point == path) || self.leads_to_mount(path)
    }

    fn leads_to_mount(&self, path: &str) -> bool {
        self.list.iter().any(|mount| below(&mount.point, path).is_some_and(|rest| !rest.is_empty()))
    }

    /// The names of mount points, or of directories above them, directly below a clean path.
    pub(crate) fn names_below<'m>(&'m self, path: &'m str) -> impl Iterator<Item = &'m str> {
        let rests = self.list.iter().filter_map(move |mount| below(&mount.point, path));
        rests.map(|rest| rest.split('/').next().unwrap_or(rest)).filter(|name| !name.is_empty())
    }

    /// Calls a mount's file system: the value, and the scratch words.
    pub(crate) fn request(&self, op: FsOp, mount: u32, args: [u64; 5]) -> Result<(u64, [u64; 4]), Errno> {
        let number = match self.list[mount as usize].info.kind {
            MountKind::Memory => number::RAMFS,
            MountKind::Image => number::FATFS,
            MountKind::Host => number::HOST_FILES,
        };
        let [a, b, c, d, e] = args;
        self.host.call(number, [op.word(mount), a, b, c, d, e])
    }

    /// Calls a mount's file system with one path.
    pub(crate) fn request_path(&self, op: FsOp, mount: u32, path: &str, more: [u64; 3]) -> Result<u64, Errno> {
        let [c, d, e] = more;
        self.request(op, mount, [path.as_ptr() as u64, path.len() as u64, c, d, e]).map(|(value, _)| value)
    }

    /// The metadata of a location.
    pub(crate) fn stat(&self, location: Location<'_>) -> Result<FileStat, Errno> {
        let Location::OnMount(mount, path) = location else { return Ok(between()) };
        let mut stat = FileStat::default();
        self.request_path(FsOp::Stat, mount, path, [&raw mut stat as u64, 0, 0])?;
        Ok(self.with_rights(mount, stat))
    }

    /// The metadata of a file system, read-only if its mount is.
    pub(crate) fn with_rights(&self, mount: u32, stat: FileStat) -> FileStat {
        FileStat { read_only: stat.read_only | self.get(mount).info.read_only, ..stat }
    }
}

/// The metadata of a directory above mount points.
pub(crate) fn between() -> FileStat {
    FileStat { kind: FileKind::Directory as u32, read_only: 1, mount: u32::MAX, links: 1, ..FileStat::default() }
}

/// The rest of a clean path below another, if it lies there.
fn below<'p>(path: &'p str, base: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(base)?;
    if base.is_empty() || rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}
