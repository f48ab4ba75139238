//! The published FAT library, over a stage.

use super::chains::count_free;
use super::stage::Stage;
use super::{EditError, Store};
use crate::{Error, Found, Geometry, Image, encode_time, find, runs};
use alloc::sync::Arc;
use lamfat::{
    Date, DateTime, FileSystem, FsOptions, IoBase, IoError, LossyOemCpConverter, Read, Seek, SeekFrom, Time,
    TimeProvider, Write,
};
use spin::Mutex;

/// A file system of the library's.
pub(crate) type Fat<S> = FileSystem<Disk<S>, Clock, LossyOemCpConverter>;
/// An error of the library's.
pub(crate) type LibraryError = lamfat::Error<DiskError>;
/// The clock, in ns since 1970.
pub(crate) type Now = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The library over one image.
pub(crate) struct Library<S: Store> {
    now: Now,
    pub(crate) geometry: Geometry,
    stage: Arc<Mutex<Stage<S>>>,
    /// Made when it is first needed, and again after a failure: what it remembers must be what is true.
    fat: Option<Fat<S>>,
    /// The image's dirty flag before this editor set it; none until then.
    marked_before: Option<bool>,
}

impl<S: Store> Library<S> {
    pub(crate) fn new(image: S, geometry: Geometry, now: Now) -> Library<S> {
        let stage = Arc::new(Mutex::new(Stage::new(image, geometry)));
        Library { now, geometry, stage, fat: None, marked_before: None }
    }

    /// Sets the image's dirty flag, until it is closed.
    pub(crate) fn mark(&mut self) -> Result<(), Error> {
        if self.marked_before.is_none() {
            self.marked_before = Some(self.stage.lock().set_mark(true)?);
        }
        Ok(())
    }

    /// Follows all chains that a change of these names leads the library along: those of the directories on the way, and of what has
    /// a name now. The library does not compare the clusters in a chain with those that exist: its arithmetic wraps, and the change
    /// would be made elsewhere in the image.
    pub(crate) fn check(&self, paths: &[&str]) -> Result<(), EditError> {
        let stage = self.stage.lock();
        if self.geometry.root_bytes == 0 {
            self.geometry.offset(self.geometry.root_cluster)?;
        }
        for path in paths {
            match find(&self.geometry, &*stage, path) {
                Ok(Found::Entry(entry)) if entry.directory && entry.cluster == 0 => {
                    return Err(Error::Damaged("a directory has no cluster").into());
                }
                Ok(Found::Entry(entry)) => drop(runs(&self.geometry, &*stage, entry.cluster)?),
                Ok(Found::Root) | Err(Error::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Makes a change: all of it, or nothing. The names in it were [checked](Self::check).
    pub(crate) fn change<R>(
        &mut self,
        change: impl FnOnce(&Fat<S>, &Mutex<Stage<S>>) -> Result<R, LibraryError>,
    ) -> Result<R, EditError> {
        self.mark()?;
        self.stage.lock().begin();
        let stage = self.stage.clone();
        let changed = self.mounted().and_then(|fat| change(fat, &stage));
        let committed = changed.map_err(EditError::from).and_then(|result| {
            self.stage.lock().commit()?;
            Ok(result)
        });
        if committed.is_err() {
            self.fat = None;
            // What the library wrote while it was dropped goes as well.
            self.stage.lock().begin();
        }
        committed
    }

    /// Makes a change of chains without the library, which forgets what it knows of them: all of it, or nothing.
    pub(crate) fn change_chains<R>(
        &mut self,
        change: impl FnOnce(&mut Stage<S>) -> Result<R, EditError>,
    ) -> Result<R, EditError> {
        self.mark()?;
        self.fat = None;
        let mut stage = self.stage.lock();
        // What the library wrote while it was dropped goes as well.
        stage.begin();
        let changed = change(&mut stage).and_then(|result| {
            stage.commit()?;
            Ok(result)
        });
        if changed.is_err() {
            stage.begin();
        }
        changed
    }

    /// Stores the number of free clusters, and clears the dirty flag. A wrong count does no harm: no reader relies on
    /// it. An image that was not closed before stays so: it has to be checked.
    pub(crate) fn close(&mut self) {
        self.fat = None;
        let mut stage = self.stage.lock();
        stage.begin();
        if let Some(marked_before) = self.marked_before.take() {
            let _ = count_free(&stage, &self.geometry).and_then(|free| stage.set_free_count(free));
            if !marked_before {
                let _ = stage.set_mark(false);
            }
        }
    }

    fn mounted(&mut self) -> Result<&Fat<S>, LibraryError> {
        if self.fat.is_none() {
            let options = FsOptions::new().time_provider(Clock(self.now.clone())).update_accessed_date(false);
            self.fat = Some(FileSystem::new(Disk { stage: self.stage.clone(), position: 0 }, options)?);
        }
        self.fat.as_ref().ok_or(lamfat::Error::InvalidInput)
    }
}

/// What the library reads and writes.
pub(crate) struct Disk<S> {
    stage: Arc<Mutex<Stage<S>>>,
    position: u64,
}

/// Why it cannot.
#[derive(Debug)]
pub(crate) enum DiskError {
    /// The image's bytes or structures.
    Image(Error),
    /// The library stopped before it had all.
    Short,
}

impl IoError for DiskError {
    fn is_interrupted(&self) -> bool {
        false
    }

    fn new_unexpected_eof_error() -> DiskError {
        DiskError::Short
    }

    fn new_write_zero_error() -> DiskError {
        DiskError::Short
    }
}

impl<S> IoBase for Disk<S> {
    type Error = DiskError;
}

impl<S: Store> Read for Disk<S> {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, DiskError> {
        let mut stage = self.stage.lock();
        stage.pay().map_err(DiskError::Image)?;
        let len = to.len().min(usize::try_from(stage.len().saturating_sub(self.position)).unwrap_or(usize::MAX));
        stage.read_as_library(self.position, &mut to[..len]).map_err(DiskError::Image)?;
        self.position += len as u64;
        Ok(len)
    }
}

impl<S: Store> Write for Disk<S> {
    fn write(&mut self, from: &[u8]) -> Result<usize, DiskError> {
        let mut stage = self.stage.lock();
        stage.pay().map_err(DiskError::Image)?;
        stage.write(self.position, from).map_err(DiskError::Image)?;
        self.position += from.len() as u64;
        Ok(from.len())
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        Ok(())
    }
}

impl<S: Store> Seek for Disk<S> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64, DiskError> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
            SeekFrom::End(distance) => self.stage.lock().len().checked_add_signed(distance),
        };
        self.position = position.ok_or(DiskError::Image(Error::Damaged("something leads before the image's start")))?;
        Ok(self.position)
    }
}

/// The clock, as the library asks for it.
pub(crate) struct Clock(Now);

impl core::fmt::Debug for Clock {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Clock")
    }
}

impl TimeProvider for Clock {
    fn get_current_date(&self) -> Date {
        self.get_current_date_time().date
    }

    fn get_current_date_time(&self) -> DateTime {
        let (date, time) = encode_time((self.0)());
        let date = Date::new(1980 + (date >> 9), date >> 5 & 15, date & 31);
        DateTime::new(date, Time::new(time >> 11, time >> 5 & 63, (time & 31) * 2, 0))
    }
}

/// An error of the image on its way through the library.
pub(crate) fn as_library_error(error: Error) -> LibraryError {
    lamfat::Error::Io(DiskError::Image(error))
}

impl From<LibraryError> for EditError {
    fn from(error: LibraryError) -> EditError {
        match error {
            lamfat::Error::NotFound => EditError::NotFound,
            lamfat::Error::AlreadyExists => EditError::Exists,
            lamfat::Error::DirectoryIsNotEmpty => EditError::NotEmpty,
            lamfat::Error::NotEnoughSpace | lamfat::Error::WriteZero => EditError::NoSpace,
            lamfat::Error::InvalidFileNameLength | lamfat::Error::UnsupportedFileNameCharacter => {
                EditError::InvalidName
            }
            lamfat::Error::Io(DiskError::Image(error)) => EditError::Image(error),
            _ => EditError::Image(Error::Damaged("its structures contradict each other")),
        }
    }
}
