//! `wasi:filesystem`: files and directories beneath the one that a program finds open, `/`, which holds all mounts.

use super::errors::ErrorCode;
use super::streams::{InputStream, OutputStream, READ_MAX};
use super::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, MetadataHash, NewTimestamp, OpenFlags,
    PathFlags, StreamFailure,
};
use super::{Caller, State, resource};
use crate::descriptors::{Descriptor, Entry, Place, Target, WRITE_THROUGH};
use crate::errno::WasiError;
use crate::files;
use crate::host::{call, now};
use crate::rights::Rights;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::result::Result as Answer;
use monohull_abi::file::{FileStat, KEEP_TIME, open};
use monohull_abi::number;
use monohull_abi::types::Clock;
use wasmtime::Result;
use wasmtime::component::{ComponentNamedList, Lift, Linker, LinkerInstance, Lower, Resource, WasmList};

/// What a descriptor of the program is.
struct Opened {
    /// Streams of a file go on when its descriptor is closed.
    descriptor: Arc<Descriptor>,
    /// What it was opened for.
    flags: DescriptorFlags,
    /// What is in this directory may be changed. C libraries ask for that only where they open a directory to be written to, which nothing does,
    /// so a directory has it from the one that it was opened through, as in Wasmtime.
    may_change: bool,
}

/// What is left of a directory's entries.
struct Entries(vec::IntoIter<Entry>);

impl Opened {
    /// What a program finds open.
    fn root() -> Opened {
        let descriptor = Arc::new(Descriptor::new(Target::Root, 0, Rights::ALL));
        Opened { descriptor, flags: DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY, may_change: true }
    }

    /// A path beneath this directory.
    fn at(&self, path: &str) -> Answer<Place, WasiError> {
        self.descriptor.at(path)
    }

    /// A path beneath this directory, of something that is to be changed.
    fn changing(&self, path: &str) -> Answer<Place, WasiError> {
        let place = self.at(path)?;
        if self.may_change { Ok(place) } else { Err(WasiError::ROFS) }
    }

    fn stat(&self) -> Answer<FileStat, WasiError> {
        files::stat_of(&self.descriptor)?.ok_or(WasiError::BADF)
    }

    /// What it is.
    fn kind(&self) -> DescriptorType {
        DescriptorType::from_kind(self.descriptor.kind())
    }

    /// At most so many bytes of a file or a device, and whether it ends there.
    fn read(&self, len: u64, offset: u64) -> Answer<(Vec<u8>, bool), WasiError> {
        let mut bytes = vec![0; len.min(READ_MAX) as usize];
        let read = match self.descriptor.target {
            Target::Device(device) => device.read(&mut bytes),
            _ => files::read_at(self.descriptor.file()?, &mut bytes, position(offset)?)? as usize,
        };
        bytes.truncate(read);
        Ok((bytes, read == 0 && len > 0))
    }

    /// A stream into it: into a file as this says.
    fn output(
        &self,
        into_file: impl FnOnce(Arc<Descriptor>) -> Answer<OutputStream, WasiError>,
    ) -> Answer<OutputStream, WasiError> {
        match self.descriptor.target {
            Target::Output(stream) => Ok(OutputStream::Output(stream)),
            Target::Device(_) => Ok(OutputStream::Device),
            _ => {
                self.descriptor.file()?;
                into_file(self.descriptor.clone())
            }
        }
    }

    fn set_size(&self, size: u64) -> Answer<(), WasiError> {
        call(number::FILE_FTRUNCATE, [self.descriptor.file()?, size]).map(drop)
    }

    /// Opens what is at a path.
    fn open(&self, path: &str, how: OpenFlags, flags: DescriptorFlags) -> Answer<Opened, WasiError> {
        let bits = [
            (flags.contains(DescriptorFlags::READ), open::READ),
            (flags.contains(DescriptorFlags::WRITE), open::WRITE),
            (how.contains(OpenFlags::CREATE), open::CREATE),
            (how.contains(OpenFlags::EXCLUSIVE), open::EXCLUSIVE),
            (how.contains(OpenFlags::TRUNCATE), open::TRUNCATE),
            (how.contains(OpenFlags::DIRECTORY), open::DIRECTORY),
        ];
        let wanted = bits.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, bit)| all | bit);
        let changes = flags.intersects(DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY)
            || how.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE);
        let place = if changes { self.changing(path)? } else { self.at(path)? };
        let target = files::open(&place, wanted)?;
        let may_change = self.may_change && matches!(target, Target::Directory(_));
        let sync = DescriptorFlags::FILE_INTEGRITY_SYNC
            | DescriptorFlags::DATA_INTEGRITY_SYNC
            | DescriptorFlags::REQUESTED_WRITE_SYNC;
        let kept = if flags.intersects(sync) { WRITE_THROUGH } else { 0 };
        Ok(Opened { descriptor: Arc::new(Descriptor::new(target, kept, Rights::ALL)), flags, may_change })
    }
}

/// An offset in a file; the largest number stands for something else in calls of the libos.
fn position(offset: u64) -> Answer<u64, WasiError> {
    i64::try_from(offset).map(|_| offset).map_err(|_| WasiError::INVAL)
}

/// A time for a file, in ns since 1970.
fn time(new: NewTimestamp) -> Answer<i64, WasiError> {
    match new {
        NewTimestamp::NoChange => Ok(KEEP_TIME),
        NewTimestamp::Now => now(Clock::Realtime).map(|ns| ns as i64),
        NewTimestamp::Timestamp(time) => Ok(time.ns()),
    }
}

/// The interface, while functions get their names.
struct Methods<'a>(LinkerInstance<'a, State>);

impl Methods<'_> {
    /// A method of descriptors that makes no handle.
    fn add<Rest, T>(
        &mut self,
        name: &str,
        method: impl Fn(&Opened, Rest) -> Answer<T, WasiError> + Send + Sync + 'static,
    ) -> Result<()>
    where
        Rest: Parameters,
        Answer<T, ErrorCode>: Lower + Send + Sync,
        T: 'static,
    {
        self.0.func_wrap(name, move |caller: Caller<'_>, parameters: Rest::All| {
            let (this, rest) = Rest::split(parameters);
            let result = method(caller.data().table.get(&this)?, rest);
            Ok((result.map_err(ErrorCode::from),))
        })
    }

    /// One that makes a handle.
    fn add_making<Rest, T>(
        &mut self,
        name: &str,
        method: impl Fn(&Opened, Rest) -> Answer<T, WasiError> + Send + Sync + 'static,
    ) -> Result<()>
    where
        Rest: Parameters,
        T: Send + 'static,
    {
        self.0.func_wrap(name, move |mut caller: Caller<'_>, parameters: Rest::All| {
            let (this, rest) = Rest::split(parameters);
            let table = &mut caller.data_mut().table;
            Ok((match method(table.get(&this)?, rest) {
                Ok(made) => Ok(table.push(made)?),
                Err(error) => Err(ErrorCode::from(error)),
            },))
        })
    }

    /// One with a path in another directory.
    fn add_between(
        &mut self,
        name: &str,
        method: impl Fn(&Opened, &str, &Opened, &str) -> Answer<(), WasiError> + Send + Sync + 'static,
    ) -> Result<()> {
        type All = (Resource<Opened>, String, Resource<Opened>, String);
        self.0.func_wrap(name, move |caller: Caller<'_>, (this, path, other, other_path): All| {
            let table = &caller.data().table;
            let result = method(table.get(&this)?, &path, table.get(&other)?, &other_path);
            Ok((result.map_err(ErrorCode::from),))
        })
    }
}

/// Parameters of a method behind the descriptor.
trait Parameters: Sized {
    /// All of them.
    type All: ComponentNamedList + Lift + 'static;

    fn split(all: Self::All) -> (Resource<Opened>, Self);
}

macro_rules! parameters {
    ($(($($name:ident: $type:ident),*))*) => { $(
        impl<$($type: Lift + Send + Sync + 'static),*> Parameters for ($($type,)*) {
            type All = (Resource<Opened>, $($type,)*);

            fn split((this, $($name,)*): Self::All) -> (Resource<Opened>, Self) {
                (this, ($($name,)*))
            }
        }
    )* };
}

parameters! { () (a: A) (a: A, b: B) (a: A, b: B, c: C) (a: A, b: B, c: C, d: D) }

pub(super) fn link(linker: &mut Linker<State>) -> Result<()> {
    linker.instance("wasi:filesystem/preopens@0.2.0")?.func_wrap(
        "get-directories",
        |mut caller: Caller<'_>, (): ()| {
            let root = caller.data_mut().table.push(Opened::root())?;
            Ok((vec![(root, String::from("/"))],))
        },
    )?;
    let mut types = linker.instance("wasi:filesystem/types@0.2.0")?;
    resource::<Opened>(&mut types, "descriptor")?;
    resource::<Entries>(&mut types, "directory-entry-stream")?;
    types.func_wrap(
        "[method]directory-entry-stream.read-directory-entry",
        |mut caller: Caller<'_>, (this,): (Resource<Entries>,)| {
            let entry = caller.data_mut().table.get_mut(&this)?.0.next();
            Ok((Ok::<_, ErrorCode>(entry.map(DirectoryEntry::from)),))
        },
    )?;
    types.func_wrap("filesystem-error-code", |caller: Caller<'_>, (error,): (Resource<StreamFailure>,)| {
        Ok((Some(ErrorCode::from(caller.data().table.get(&error)?.0)),))
    })?;
    types.func_wrap(
        "[method]descriptor.is-same-object",
        |caller: Caller<'_>, (this, other): (Resource<Opened>, Resource<Opened>)| {
            let table = &caller.data().table;
            let [one, other] = [table.get(&this)?, table.get(&other)?].map(|one| one.stat().ok());
            let is_same = |(one, other): (FileStat, FileStat)| {
                (one.mount, one.node, one.kind) == (other.mount, other.node, other.kind) && one.node != 0
            };
            Ok((one.zip(other).is_some_and(is_same),))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.write",
        |caller: Caller<'_>, (this, bytes, offset): (Resource<Opened>, WasmList<u8>, u64)| {
            let descriptor = &caller.data().table.get(&this)?.descriptor;
            let bytes = bytes.as_le_slice(&caller);
            let written = match descriptor.target {
                Target::Device(_) => Ok(bytes.len() as u64),
                _ => position(offset).and_then(|offset| files::write_at(descriptor, bytes, offset)),
            };
            Ok((written.map_err(ErrorCode::from),))
        },
    )?;
    let mut methods = Methods(types);
    of_files(&mut methods)?;
    of_directories(&mut methods)
}

/// What is done with an open file or directory.
fn of_files(methods: &mut Methods<'_>) -> Result<()> {
    methods.add_making("[method]descriptor.read-via-stream", |this, (offset,)| {
        Ok(match this.descriptor.target {
            Target::Stdin => InputStream::Stdin,
            Target::Device(device) => InputStream::Device(device),
            _ => {
                this.descriptor.file()?;
                InputStream::File(this.descriptor.clone(), position(offset)?)
            }
        })
    })?;
    methods.add_making("[method]descriptor.write-via-stream", |this, (offset,)| {
        this.output(|file| Ok(OutputStream::File(file, position(offset)?)))
    })?;
    methods.add_making("[method]descriptor.append-via-stream", |this, ()| {
        this.output(|file| Ok(OutputStream::Append(file)))
    })?;
    methods.add("[method]descriptor.advise", |this, (_, _, _): (u64, u64, Advice)| this.descriptor.file().map(drop))?;
    for name in ["[method]descriptor.sync", "[method]descriptor.sync-data"] {
        methods.add(name, |this, ()| files::sync(&this.descriptor))?;
    }
    methods.add("[method]descriptor.get-flags", |this, ()| Ok(this.flags))?;
    methods.add("[method]descriptor.get-type", |this, ()| Ok(this.kind()))?;
    methods.add("[method]descriptor.set-size", |this, (size,)| this.set_size(size))?;
    methods.add("[method]descriptor.set-times", |this, (accessed, modified)| {
        files::set_times_of(&this.descriptor, time(accessed)?, time(modified)?)
    })?;
    methods.add("[method]descriptor.read", |this, (len, offset)| this.read(len, offset))?;
    methods.add("[method]descriptor.stat", |this, ()| {
        let stat = files::stat_of(&this.descriptor)?;
        Ok(stat.map_or_else(|| DescriptorStat::of_kind(this.kind()), DescriptorStat::from))
    })?;
    methods.add("[method]descriptor.metadata-hash", |this, ()| {
        Ok(files::stat_of(&this.descriptor)?.map_or(MetadataHash::NONE, MetadataHash::from))
    })
}

/// What is done with paths beneath a directory. No mount has links, so it does not matter whether they are followed.
fn of_directories(methods: &mut Methods<'_>) -> Result<()> {
    methods.add_making("[method]descriptor.read-directory", |this, ()| {
        Ok(Entries(files::list(&this.descriptor)?.into_iter()))
    })?;
    methods.add_making(
        "[method]descriptor.open-at",
        |this, (_, path, how, flags): (PathFlags, String, OpenFlags, DescriptorFlags)| this.open(&path, how, flags),
    )?;
    for (name, number) in [
        ("[method]descriptor.create-directory-at", number::FILE_MKDIR),
        ("[method]descriptor.remove-directory-at", number::FILE_RMDIR),
        ("[method]descriptor.unlink-file-at", number::FILE_UNLINK),
    ] {
        methods.add(name, move |this, (path,): (String,)| files::by_path(number, &this.changing(&path)?))?;
    }
    methods.add("[method]descriptor.stat-at", |this, (_, path): (PathFlags, String)| {
        let place = this.at(&path)?;
        match place.device() {
            Some(target) => Ok(DescriptorStat::of_kind(DescriptorType::from_kind(target.kind()))),
            None => place.stat().map(DescriptorStat::from),
        }
    })?;
    methods.add("[method]descriptor.metadata-hash-at", |this, (_, path): (PathFlags, String)| {
        let place = this.at(&path)?;
        if place.device().is_some() { Ok(MetadataHash::NONE) } else { place.stat().map(MetadataHash::from) }
    })?;
    methods.add(
        "[method]descriptor.set-times-at",
        |this, (_, path, accessed, modified): (PathFlags, String, NewTimestamp, NewTimestamp)| {
            files::set_times(&this.changing(&path)?, time(accessed)?, time(modified)?)
        },
    )?;
    methods.add_between("[method]descriptor.rename-at", |this, path, other, other_path| {
        files::rename(&this.changing(path)?, &other.changing(other_path)?)
    })?;
    methods.add("[method]descriptor.readlink-at", |this, (path,): (String,)| {
        this.at(&path)?.stat()?;
        Err::<String, _>(WasiError::INVAL)
    })?;
    methods.add("[method]descriptor.symlink-at", |this, (_, path): (String, String)| {
        this.changing(&path)?;
        Err::<(), _>(WasiError::NOTSUP)
    })?;
    methods.0.func_wrap(
        "[method]descriptor.link-at",
        |caller: Caller<'_>, (this, _, path, other, other_path): LinkParameters| {
            let table = &caller.data().table;
            let (this, other) = (table.get(&this)?, table.get(&other)?);
            let result = this.at(&path).and_then(|place| place.stat()).and_then(|_| other.changing(&other_path));
            Ok((result.and(Err::<(), _>(WasiError::NOTSUP)).map_err(ErrorCode::from),))
        },
    )
}

/// The file as it is, how its path is read, and the name that it is to have as well.
type LinkParameters = (Resource<Opened>, PathFlags, String, Resource<Opened>, String);
