//! The FAT library, for everything that changes names, directories and chains.

use crate::file::File;
use crate::stage::{Mapped, Stage};
use alloc::sync::Arc;
use lamfat::{
    Date, DateTime, FileSystem, FsOptions, IoBase, IoError, LossyOemCpConverter, Read, Seek, SeekFrom, Time,
    TimeProvider, Write,
};
use monohull_abi::Errno;
use monohull_fat::{Error, Geometry, encode_time};
use monohull_module::{HostRef, Mutex};

/// A file system of the library's.
pub(crate) type Fat = FileSystem<Disk, Clock, LossyOemCpConverter>;
/// An error of the library's.
pub(crate) type LibraryError = lamfat::Error<DiskError>;

/// Bytes that are written to make a file longer. Only the chain is wanted: their contents are dropped on the way.
static ROOM: [u8; 64 * 1024] = [0; 64 * 1024];

/// The library over one image.
pub(crate) struct Library {
    host: HostRef,
    stage: Arc<Mutex<Stage>>,
    /// Made when it is first needed, and again after a failure: what it remembers must be what is true.
    fat: Option<Fat>,
}

impl Library {
    pub(crate) fn new(host: HostRef, image: Mapped, geometry: Geometry) -> Library {
        Library { host, stage: Arc::new(Mutex::new(Stage::new(image, geometry))), fat: None }
    }

    /// Makes a change: all of it, or nothing.
    pub(crate) fn change<R>(
        &mut self,
        change: impl FnOnce(&Fat, &Mutex<Stage>) -> Result<R, LibraryError>,
    ) -> Result<R, Errno> {
        self.stage.lock().begin();
        let stage = self.stage.clone();
        let changed = self.mounted().and_then(|fat| change(fat, &stage));
        let committed = changed.map_err(errno_of).and_then(|result| {
            self.stage.lock().commit().map_err(errno_of_damage)?;
            Ok(result)
        });
        if committed.is_err() {
            self.fat = None;
            // What the library wrote while it was dropped goes as well.
            self.stage.lock().begin();
        }
        committed
    }

    /// Writes down how many clusters are free. A wrong count does no harm: nobody relies on it.
    pub(crate) fn close(&mut self) {
        self.stage.lock().begin();
        // An image in use has no count that can be trusted; the library counts anew then.
        let counted = self.fat.take().map(|fat| fat.stats().and_then(|_| fat.unmount()));
        if let Some(Ok(())) = counted {
            let _ = self.stage.lock().commit();
        }
    }

    fn mounted(&mut self) -> Result<&Fat, LibraryError> {
        if self.fat.is_none() {
            let options = FsOptions::new().time_provider(Clock(self.host)).update_accessed_date(false);
            self.fat = Some(FileSystem::new(Disk { stage: self.stage.clone(), position: 0 }, options)?);
        }
        self.fat.as_ref().ok_or(lamfat::Error::InvalidInput)
    }
}

/// Makes a file's chain long enough for `to` bytes, and leaves its size as it is.
pub(crate) fn lengthen(fat: &Fat, stage: &Mutex<Stage>, file: &File, to: u64) -> Result<(), LibraryError> {
    let mut chain = fat.root_dir().open_file(&file.path)?;
    let mut left = to.saturating_sub(chain.seek(SeekFrom::End(0))?);
    while left > 0 {
        let room = &ROOM[..left.min(ROOM.len() as u64) as usize];
        match chain.write(room)? {
            0 => return Err(lamfat::Error::NotEnoughSpace),
            written => left -= written as u64,
        }
    }
    drop(chain);
    let size = (file.size as u32).to_le_bytes();
    stage.lock().write(file.slot + 28, &size).map_err(as_library_error)
}

/// Cuts a file, and gives back the clusters behind its new end.
pub(crate) fn shorten(fat: &Fat, path: &str, size: u64) -> Result<(), LibraryError> {
    let mut file = fat.root_dir().open_file(path)?;
    file.seek(SeekFrom::Start(size))?;
    file.truncate()
}

/// What the library reads and writes.
pub(crate) struct Disk {
    stage: Arc<Mutex<Stage>>,
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

impl IoBase for Disk {
    type Error = DiskError;
}

impl Read for Disk {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, DiskError> {
        use monohull_fat::Image;
        let mut stage = self.stage.lock();
        stage.pay().map_err(DiskError::Image)?;
        let len = to.len().min(usize::try_from(stage.len().saturating_sub(self.position)).unwrap_or(usize::MAX));
        stage.read(self.position, &mut to[..len]).map_err(DiskError::Image)?;
        self.position += len as u64;
        Ok(len)
    }
}

impl Write for Disk {
    fn write(&mut self, from: &[u8]) -> Result<usize, DiskError> {
        if !ROOM.as_ptr_range().contains(&from.as_ptr()) {
            let mut stage = self.stage.lock();
            stage.pay().map_err(DiskError::Image)?;
            stage.write(self.position, from).map_err(DiskError::Image)?;
        }
        self.position += from.len() as u64;
        Ok(from.len())
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        Ok(())
    }
}

impl Seek for Disk {
    fn seek(&mut self, to: SeekFrom) -> Result<u64, DiskError> {
        use monohull_fat::Image;
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
            SeekFrom::End(distance) => self.stage.lock().len().checked_add_signed(distance),
        };
        self.position = position.ok_or(DiskError::Image(Error::Damaged("something leads before the image's start")))?;
        Ok(self.position)
    }
}

/// The host's clock, as the library asks for it.
pub(crate) struct Clock(HostRef);

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
        let (date, time) = encode_time(self.0.realtime() as i64);
        let date = Date::new(1980 + (date >> 9), date >> 5 & 15, date & 31);
        DateTime::new(date, Time::new(time >> 11, time >> 5 & 63, (time & 31) * 2, 0))
    }
}

fn errno_of(error: LibraryError) -> Errno {
    match error {
        lamfat::Error::NotFound => Errno::NotFound,
        lamfat::Error::AlreadyExists => Errno::Exists,
        lamfat::Error::DirectoryIsNotEmpty => Errno::NotEmpty,
        lamfat::Error::NotEnoughSpace | lamfat::Error::WriteZero => Errno::NoSpace,
        lamfat::Error::InvalidFileNameLength | lamfat::Error::UnsupportedFileNameCharacter => Errno::InvalidName,
        lamfat::Error::Io(DiskError::Image(error)) => errno_of_damage(error),
        _ => Errno::Io,
    }
}

/// An error of the image on its way through the library.
pub(crate) fn as_library_error(error: Error) -> LibraryError {
    lamfat::Error::Io(DiskError::Image(error))
}

pub(crate) fn errno_of_damage(error: Error) -> Errno {
    match error {
        Error::NotFound => Errno::NotFound,
        Error::NotDirectory => Errno::NotDirectory,
        Error::Bytes | Error::NotFat(_) | Error::Damaged(_) => Errno::Io,
    }
}
