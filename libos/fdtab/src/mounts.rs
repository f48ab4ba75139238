//! Mounts: which file system a path lies on, and how it is asked.
//!
//! A path belongs to the mount with the longest mount point that leads to it. Where no mount lies, the directories on
//! the way to mount points exist, can be listed and nothing else.

use crate::turns::Turn;
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
    /// Held by calls with paths.
    pub(crate) turn: Turn,
}

/// What a clean path leads to.
#[derive(Clone, Copy)]
pub(crate) enum Place<'p> {
    /// A path on a mount.
    On(u32, &'p str),
    /// A directory that leads to mount points.
    Between,
}

impl Mounts {
    /// Asks the host for all of them.
    pub(crate) fn load(host: HostRef) -> Mounts {
        let mounts = (0..).map_while(|index| host.mount(index));
        let mount = |(info, point): (MountInfo, String)| Mount {
            point: point.trim_matches('/').into(),
            info,
            turn: Turn::new(),
        };
        Mounts { host, list: mounts.map(mount).collect() }
    }

    pub(crate) fn get(&self, mount: u32) -> &Mount {
        &self.list[mount as usize]
    }

    /// Where a clean path leads.
    pub(crate) fn place<'p>(&self, path: &'p str) -> Result<Place<'p>, Errno> {
        let below = |mount: &Mount| below(path, &mount.point);
        let on = (0..).zip(&self.list).filter_map(|(index, mount)| Some((index, mount, below(mount)?)));
        if let Some((index, _, rest)) = on.max_by_key(|(_, mount, _)| mount.point.len()) {
            return Ok(Place::On(index, rest));
        }
        if path.is_empty() || self.leads_to_mount(path) {
            return Ok(Place::Between);
        }
        Err(Errno::NotFound)
    }

    /// Whether something is mounted at a clean path or below it: it can then neither go nor get another name.
    pub(crate) fn holds_mount(&self, path: &str) -> bool {
        path.is_empty() || self.list.iter().any(|mount| mount.point == path) || self.leads_to_mount(path)
    }

    fn leads_to_mount(&self, path: &str) -> bool {
        self.list.iter().any(|mount| below(&mount.point, path).is_some_and(|rest| !rest.is_empty()))
    }

    /// The names of mount points, or of what leads to them, directly below a clean path.
    pub(crate) fn names_below<'m>(&'m self, path: &'m str) -> impl Iterator<Item = &'m str> {
        let rests = self.list.iter().filter_map(move |mount| below(&mount.point, path));
        rests.map(|rest| rest.split('/').next().unwrap_or(rest)).filter(|name| !name.is_empty())
    }

    /// Asks a mount's file system: the value, and the scratch words it left.
    pub(crate) fn ask(&self, op: FsOp, mount: u32, args: [u64; 5]) -> Result<(u64, [u64; 4]), Errno> {
        let number = match self.list[mount as usize].info.kind {
            MountKind::Memory => number::RAMFS,
            MountKind::Image => number::FATFS,
            MountKind::Host => number::HOST_FILES,
        };
        let [a, b, c, d, e] = args;
        self.host.call(number, [op.word(mount), a, b, c, d, e])
    }

    /// Asks about one path.
    pub(crate) fn ask_path(&self, op: FsOp, mount: u32, path: &str, more: [u64; 3]) -> Result<u64, Errno> {
        let [c, d, e] = more;
        self.ask(op, mount, [path.as_ptr() as u64, path.len() as u64, c, d, e]).map(|(value, _)| value)
    }

    /// What is known of a place.
    pub(crate) fn stat(&self, place: Place<'_>) -> Result<FileStat, Errno> {
        let Place::On(mount, path) = place else { return Ok(between()) };
        let mut stat = FileStat::default();
        self.ask_path(FsOp::Stat, mount, path, [&raw mut stat as u64, 0, 0])?;
        Ok(self.with_rights(mount, stat))
    }

    /// What a file system knows, and what its mount forbids.
    pub(crate) fn with_rights(&self, mount: u32, stat: FileStat) -> FileStat {
        FileStat { read_only: stat.read_only | self.get(mount).info.read_only, ..stat }
    }
}

/// What is known of a directory that only leads to mount points.
pub(crate) fn between() -> FileStat {
    FileStat { kind: FileKind::Directory as u32, read_only: 1, mount: u32::MAX, links: 1, ..FileStat::default() }
}

/// The rest of a clean path below another, if it lies there.
fn below<'p>(path: &'p str, base: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(base)?;
    if base.is_empty() || rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}
