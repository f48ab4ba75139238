//! The calls that take paths.

use crate::mounts::Location;
use crate::park_lock::{ParkGuard, ParkLock};
use crate::paths::{Clean, clean};
use crate::tables::{Directory, Open};
use crate::{Answer, Files, Stop, outcome};
use alloc::string::String;
use alloc::sync::Arc;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU64;
use monohull_abi::file::{FileKind, FileStat, FsOp, PATH_MAX, WORKING_DIRECTORY, open};
use monohull_abi::module::Call;
use monohull_abi::user::{UserSlice, write_one};
use monohull_abi::{Errno, Outcome};
use monohull_module::FutexMutex;

impl Files {
    pub(crate) fn open(&self, call: &mut Call) -> Outcome {
        outcome(self.try_open(call))
    }

    fn try_open(&self, call: &mut Call) -> Answer {
        self.admit(call)?;
        let flags = call.args[3];
        let writes = open::WRITE | open::APPEND;
        let wrong = flags & !open::ALL != 0
            || flags & (open::READ | writes) == 0
            || flags & (open::TRUNCATE | open::CREATE) != 0 && flags & writes == 0
            || flags & open::EXCLUSIVE != 0 && flags & open::CREATE == 0;
        if wrong {
            return Err(self.refuse(call, Errno::Invalid, format_args!("{flags:#x} is not a valid set of open flags")));
        }
        let flags = if flags & open::APPEND != 0 { flags | open::WRITE } else { flags };
        let path = self.path(call, 0)?;
        let asked = if path.directory { flags | open::DIRECTORY } else { flags };
        let location = self.locate(call, &path)?;
        let _guard = self.lock_paths(call, location)?;
        let table = self.tables.of(call.instance);
        let Some(descriptor) = table.reserve() else { return Err(self.refuse_full(call)) };
        let mut stat = FileStat::default();
        let (mount, node) = match location {
            Location::AboveMounts if flags & (open::WRITE | open::CREATE) != 0 => {
                return Err(self.refuse_path(call, &path, Errno::IsDirectory));
            }
            Location::AboveMounts => {
                stat.kind = FileKind::Directory as u32;
                (None, 0)
            }
            Location::OnMount(mount, rest) => {
                let changes = open::WRITE | open::CREATE | open::TRUNCATE;
                if self.mounts.get(mount).info.read_only != 0 && flags & changes != 0 {
                    // Nothing can be written or created.
                    self.check_read_only(location, asked).map_err(|errno| self.refuse_path(call, &path, errno))?;
                }
                let node = self.mounts.request_path(FsOp::Open, mount, rest, [asked, &raw mut stat as u64, 0]);
                (Some(mount), node.map_err(|errno| self.refuse_path(call, &path, errno))?)
            }
        };
        let is_directory = stat.kind == FileKind::Directory as u32;
        let owner = call.instance;
        let directory = is_directory.then(|| Directory { owner, listing: FutexMutex::new(None) });
        let opened = Open {
            mount,
            node,
            flags: AtomicU64::new(flags & (open::READ | open::WRITE | open::APPEND)),
            position: AtomicU64::new(0),
            position_lock: ParkLock::new(),
            path: path.path,
            directory,
        };
        descriptor.fill(Arc::new(opened)).map_err(|open| {
            self.release(open);
            self.refuse_full(call)
        })
    }

    /// Why a file on a read-only mount cannot be opened for writing.
    fn check_read_only(&self, location: Location<'_>, flags: u64) -> Result<(), Errno> {
        match self.mounts.stat(location) {
            Ok(_) if flags & open::EXCLUSIVE != 0 => Err(Errno::Exists),
            Ok(stat) if stat.kind == FileKind::Directory as u32 => Err(Errno::IsDirectory),
            Ok(_) => Err(Errno::ReadOnly),
            Err(Errno::NotFound) if flags & open::CREATE != 0 => Err(Errno::ReadOnly),
            Err(errno) => Err(errno),
        }
    }

    pub(crate) fn stat(&self, call: &mut Call) -> Outcome {
        outcome(self.with_path(call, |files, call, path, location| {
            let stat = files.mounts.stat(location).and_then(|stat| files.fits(path, stat));
            let stat = stat.map_err(|errno| files.refuse_path(call, path, errno))?;
            write_one(files.host.raw(), call, call.args[3], stat)
                .map_err(|refusal| files.refuse_address(call, refusal, "the buffer for the metadata"))?;
            Ok(0)
        }))
    }

    pub(crate) fn make_directory(&self, call: &mut Call) -> Outcome {
        self.change(call, Errno::Exists, |files, path, mount, rest| match files.mounts.holds_mount(&path.path) {
            true => Err(Errno::Exists),
            false => files.mounts.request_path(FsOp::MakeDirectory, mount, rest, [0; 3]),
        })
    }

    pub(crate) fn remove_directory(&self, call: &mut Call) -> Outcome {
        self.change(call, Errno::Busy, |files, path, mount, rest| match files.mounts.holds_mount(&path.path) {
            true => Err(Errno::Busy),
            false => files.mounts.request_path(FsOp::RemoveDirectory, mount, rest, [0; 3]),
        })
    }

    pub(crate) fn remove_file(&self, call: &mut Call) -> Outcome {
        self.change(call, Errno::IsDirectory, |files, path, mount, rest| {
            if files.mounts.holds_mount(&path.path) {
                return Err(Errno::IsDirectory);
            }
            if path.directory {
                files.mounts.stat(Location::OnMount(mount, rest)).and_then(|stat| files.fits(path, stat))?;
            }
            files.mounts.request_path(FsOp::RemoveFile, mount, rest, [0; 3])
        })
    }

    pub(crate) fn set_times(&self, call: &mut Call) -> Outcome {
        let [directory, _, len, read, written, _] = call.args;
        if len == 0 && directory != WORKING_DIRECTORY {
            return self.set_open_times(call, [read, written]);
        }
        self.change(call, Errno::ReadOnly, |files, path, mount, rest| {
            if path.directory {
                files.mounts.stat(Location::OnMount(mount, rest)).and_then(|stat| files.fits(path, stat))?;
            }
            files.mounts.request_path(FsOp::SetTimes, mount, rest, [read, written, 0])
        })
    }

    /// A change of the file at a path. `between` is the answer for a directory above mount points.
    fn change(
        &self,
        call: &mut Call,
        between: Errno,
        change: impl Fn(&Files, &Clean, u32, &str) -> Result<u64, Errno>,
    ) -> Outcome {
        outcome(self.with_path(call, |files, call, path, location| {
            let changed = match location {
                Location::AboveMounts => Err(between),
                Location::OnMount(mount, rest) => match files.mounts.get(mount).info.read_only {
                    0 => change(files, path, mount, rest),
                    _ => Err(Errno::ReadOnly),
                },
            };
            changed.map_err(|errno| files.refuse_path(call, path, errno))
        }))
    }

    pub(crate) fn rename(&self, call: &mut Call) -> Outcome {
        outcome(self.try_rename(call))
    }

    fn try_rename(&self, call: &mut Call) -> Answer {
        let (from, to) = (self.path(call, 0)?, self.path(call, 3)?);
        let (from_location, to_location) = (self.locate(call, &from)?, self.locate(call, &to)?);
        let (Location::OnMount(mount, from_rest), Location::OnMount(to_mount, to_rest)) = (from_location, to_location)
        else {
            return Err(self.refuse_path(call, &from, Errno::Busy));
        };
        if self.mounts.holds_mount(&from.path) || self.mounts.holds_mount(&to.path) {
            return Err(self.refuse_path(call, &from, Errno::Busy));
        }
        if mount != to_mount {
            return Err(self.refuse_path(call, &to, Errno::CrossesMounts));
        }
        if self.mounts.get(mount).info.read_only != 0 {
            return Err(self.refuse_path(call, &to, Errno::ReadOnly));
        }
        let _guard = self.lock_paths(call, from_location)?;
        if from.directory || to.directory {
            // Only a directory may be written with a `/` at its end.
            let stat = self.mounts.stat(from_location).map_err(|errno| self.refuse_path(call, &from, errno))?;
            if stat.kind != FileKind::Directory as u32 {
                return Err(self.refuse_path(call, &from, Errno::NotDirectory));
            }
        }
        let args =
            [from_rest.as_ptr() as u64, from_rest.len() as u64, to_rest.as_ptr() as u64, to_rest.len() as u64, 0];
        let renamed = self.mounts.request(FsOp::Rename, mount, args);
        renamed.map(|(value, _)| value).map_err(|errno| self.refuse_path(call, &from, errno))
    }

    pub(crate) fn change_directory(&self, call: &mut Call) -> Outcome {
        outcome(self.with_path(call, |files, call, path, location| {
            let stat = files.mounts.stat(location).map_err(|errno| files.refuse_path(call, path, errno))?;
            if stat.kind != FileKind::Directory as u32 {
                return Err(files.refuse_path(call, path, Errno::NotDirectory));
            }
            *files.tables.of(call.instance).working.lock() = path.path.clone();
            Ok(0)
        }))
    }

    pub(crate) fn working_directory(&self, call: &mut Call) -> Outcome {
        let [buffer, len, ..] = call.args;
        outcome(self.admit(call).and_then(|()| {
            let working = self.tables.of(call.instance).working.lock().clone();
            self.answer_path(call, &working, buffer, len)
        }))
    }

    pub(crate) fn real_path(&self, call: &mut Call) -> Outcome {
        outcome(self.with_path(call, |files, call, path, location| {
            let stat = files.mounts.stat(location).and_then(|stat| files.fits(path, stat));
            stat.map_err(|errno| files.refuse_path(call, path, errno))?;
            files.answer_path(call, &path.path, call.args[3], call.args[4])
        }))
    }

    /// Copies a path with its first `/`, all of it or nothing.
    fn answer_path(&self, call: &Call, clean: &str, buffer: u64, len: u64) -> Answer {
        let path = alloc::format!("/{clean}");
        if path.len() as u64 > len {
            let why = format_args!("the path has {} bytes, the buffer {len}", path.len());
            return Err(self.refuse(call, Errno::NameTooLong, why));
        }
        UserSlice::<u8>::new(buffer, path.len() as u64)
            .check(self.host.raw(), call)
            .and_then(|slice| slice.write(path.as_bytes()))
            .map_err(|refusal| self.refuse_address(call, refusal, "the buffer for the path"))?;
        Ok(path.len() as u64)
    }

    /// A call with one path: reads it, finds its mount and locks that.
    fn with_path(&self, call: &mut Call, run: impl FnOnce(&Files, &Call, &Clean, Location<'_>) -> Answer) -> Answer {
        let path = self.path(call, 0)?;
        let location = self.locate(call, &path)?;
        let _guard = self.lock_paths(call, location)?;
        run(self, call, &path, location)
    }

    /// Whether the file matches the form of the path: only a directory may have a `/` at its end.
    fn fits(&self, path: &Clean, stat: FileStat) -> Result<FileStat, Errno> {
        match path.directory && stat.kind != FileKind::Directory as u32 {
            true => Err(Errno::NotDirectory),
            false => Ok(stat),
        }
    }

    /// Reads a path from three arguments, the first of them at `first`: directory, address, length.
    fn path(&self, call: &mut Call, first: usize) -> Result<Clean, Stop> {
        self.admit(call)?;
        let [dir, address, len] = [call.args[first], call.args[first + 1], call.args[first + 2]];
        if len > PATH_MAX as u64 {
            return Err(self.refuse(call, Errno::NameTooLong, format_args!("a path of {len} bytes")));
        }
        let mut bytes = [const { MaybeUninit::uninit() }; PATH_MAX];
        let path = UserSlice::<u8>::new(address, len)
            .check(self.host.raw(), call)
            .and_then(|slice| slice.read_at(0, &mut bytes[..len as usize]))
            .map_err(|refusal| self.refuse_address(call, refusal, "the path"))?;
        let base = match dir {
            _ if path.starts_with(b"/") => String::new(),
            WORKING_DIRECTORY => self.tables.find(call.instance).map(|t| t.working.lock().clone()).unwrap_or_default(),
            descriptor => {
                let open = self.tables.open(call.instance, descriptor).map_err(|errno| {
                    self.refuse(call, errno, format_args!("{descriptor} is not an open descriptor"))
                })?;
                let path = open.directory.as_ref().map(|_| open.path.clone());
                // Another thread may have closed it meanwhile, so that this was the last reference.
                self.release(open);
                let Some(path) = path else {
                    let why = format_args!("descriptor {descriptor} is not a directory");
                    return Err(self.refuse(call, Errno::NotDirectory, why));
                };
                path
            }
        };
        // The closure below needs the call too, but not its arguments.
        let (path, mut parked) = (path.to_vec(), false);
        let cleaned = clean(&base, &path, |left| {
            let location = self.mounts.locate(call.instance, left)?;
            let _guard = match self.lock_paths(call, location) {
                Ok(guard) => guard,
                Err(_) => {
                    parked = true;
                    return Err(Errno::Again);
                }
            };
            match self.mounts.stat(location)?.kind == FileKind::Directory as u32 {
                true => Ok(()),
                false => Err(Errno::NotDirectory),
            }
        });
        match cleaned {
            Ok(path) => Ok(path),
            Err(_) if parked => Err(Stop::Parked),
            Err(errno) => Err(self.refuse(
                call,
                errno,
                format_args!("`{}`: {errno}", String::from_utf8_lossy(&path).escape_debug()),
            )),
        }
    }

    fn locate<'p>(&self, call: &Call, path: &'p Clean) -> Result<Location<'p>, Stop> {
        self.mounts.locate(call.instance, &path.path).map_err(|errno| {
            let why = if errno == Errno::NotPermitted {
                format_args!("`/{}` is on a mount that is not in the step's list `files`", path.path)
            } else {
                format_args!("`/{}`: the workflow has no mount there (`files` in its document)", path.path)
            };
            self.refuse(call, errno, why)
        })
    }

    /// Locks a location's mount for calls with paths.
    pub(crate) fn lock_paths(&self, call: &mut Call, location: Location<'_>) -> Result<Option<ParkGuard<'_>>, Stop> {
        let Location::OnMount(mount, _) = location else { return Ok(None) };
        self.mounts.get(mount).path_lock.acquire(self.host, call).map(Some).ok_or(Stop::Parked)
    }

    #[cold]
    fn refuse_path(&self, call: &Call, path: &Clean, errno: Errno) -> Stop {
        self.refuse(call, errno, format_args!("`/{}`: {errno}", path.path.escape_debug()))
    }

    /// Drops a reference to an open file; the last one closes it.
    pub(crate) fn release(&self, open: Arc<Open>) {
        let Some(open) = Arc::into_inner(open) else { return };
        match (&open.directory, open.mount) {
            (Some(directory), _) => self.drop_listing(directory),
            (None, Some(mount)) => {
                // The call that follows reports a file system that has failed.
                let _ = self.mounts.request(FsOp::Close, mount, [open.node, 0, 0, 0, 0]);
            }
            (None, None) => {}
        }
    }
}
