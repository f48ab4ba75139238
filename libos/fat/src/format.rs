//! Making an image with nothing in it.
//!
//! The library places clusters where the FATs happen to end. Mapped files are shown in place where a cluster begins with a page of
//! the image's file, so the image gets some more reserved sectors:
//!
//! ```text
//!   library   | boot, reserved | FATs | root | clusters …
//!   image     | boot, reserved | gap | FATs | root | clusters …        the first cluster begins with a page
//! ```

use crate::Error;
use crate::edit::Store;
use core::ops::RangeInclusive;
use lamfat::{FormatVolumeOptions, IoBase, IoError, Read, Seek, SeekFrom, Write};

/// Bytes of a sector.
const SECTOR: u64 = 512;
/// Sectors of a page.
const ALIGN: u64 = 8;
/// Where the library prefers smaller clusters, and there are enough for clusters of a page.
const PAGE_CLUSTERS: RangeInclusive<u64> = 20 << 20..=128 << 20;
/// Fields of the boot sector: offset of the number of reserved sectors, and so on.
const RESERVED: usize = 14;
const FATS: usize = 16;
const ROOT_ENTRIES: usize = 17;
const TOTAL_16: usize = 19;
const FAT_SECTORS_16: usize = 22;
const TOTAL_32: usize = 32;
const FAT_SECTORS_32: usize = 36;
const BACKUP: usize = 50;

/// Makes an empty file system in all of an image, whose bytes are zeros. `volume` is its serial number.
pub fn format<S: Store>(image: &S, volume: u32) -> Result<(), Error> {
    let bytes = image.len();
    // With more reserved sectors there are fewer for the rest, which may be one less for the FATs.
    let fits = |gap: &u64| {
        let boot = Boot::of(bytes - gap * SECTOR, options(bytes, volume))?;
        Some(boot).filter(|boot| (boot.first_cluster() + gap).is_multiple_of(ALIGN)).map(|boot| (*gap, boot))
    };
    let aligned = (0..4 * ALIGN).take_while(|gap| gap * SECTOR < bytes).find_map(|gap| fits(&gap));
    let (gap, boot) = match aligned {
        Some((gap, boot)) => (gap * SECTOR, Some(boot)),
        None => (0, None),
    };
    let fats = boot.as_ref().map_or(0, |boot| boot.reserved() * SECTOR);
    let mut disk = Disk { image, position: 0, fats, gap };
    lamfat::format_volume(&mut disk, options(bytes, volume)).map_err(reason)?;
    let Some(mut boot) = boot.filter(|_| gap > 0) else { return Ok(()) };
    boot.widen(gap / SECTOR);
    image.store(0, &boot.0)?;
    match boot.backup() {
        0 => Ok(()),
        sector => image.store(sector * SECTOR, &boot.0),
    }
}

/// For an image of this size.
fn options(bytes: u64, volume: u32) -> FormatVolumeOptions {
    let options = FormatVolumeOptions::new().volume_id(volume).volume_label(*b"MONOHULL   ");
    if PAGE_CLUSTERS.contains(&bytes) { options.bytes_per_cluster((ALIGN * SECTOR) as u32) } else { options }
}

fn reason(error: lamfat::Error<Failed>) -> Error {
    match error {
        lamfat::Error::Io(Failed(error)) => error,
        _ => Error::NotFat("it is too small, or too large"),
    }
}

/// A boot sector.
struct Boot([u8; SECTOR as usize]);

impl Boot {
    /// What the library begins an image of this size with; `None` if it makes none.
    fn of(bytes: u64, options: FormatVolumeOptions) -> Option<Boot> {
        let mut trial = Trial { bytes, position: 0, boot: Boot([0; SECTOR as usize]) };
        // It ends behind the boot sector, or before.
        let _ = lamfat::format_volume(&mut trial, options);
        Some(trial.boot).filter(|boot| boot.0[510..] == [0x55, 0xaa])
    }

    fn u16(&self, at: usize) -> u64 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]]).into()
    }

    fn u32(&self, at: usize) -> u64 {
        self.u16(at) | self.u16(at + 2) << 16
    }

    fn reserved(&self) -> u64 {
        self.u16(RESERVED)
    }

    /// The sector of a copy of it; 0 if there is none.
    fn backup(&self) -> u64 {
        if self.u16(FAT_SECTORS_16) == 0 { self.u16(BACKUP) } else { 0 }
    }

    /// The sector that clusters begin with.
    fn first_cluster(&self) -> u64 {
        let fat = if self.u16(FAT_SECTORS_16) != 0 { self.u16(FAT_SECTORS_16) } else { self.u32(FAT_SECTORS_32) };
        self.reserved() + u64::from(self.0[FATS]) * fat + (self.u16(ROOT_ENTRIES) * 32).div_ceil(SECTOR)
    }

    /// Adds reserved sectors.
    fn widen(&mut self, sectors: u64) {
        let total = sectors + if self.u16(TOTAL_16) != 0 { self.u16(TOTAL_16) } else { self.u32(TOTAL_32) };
        let reserved = self.reserved() + sectors;
        let (short, long) = u16::try_from(total).map_or((0, total as u32), |short| (short, 0));
        self.0[RESERVED..RESERVED + 2].copy_from_slice(&(reserved as u16).to_le_bytes());
        self.0[TOTAL_16..TOTAL_16 + 2].copy_from_slice(&short.to_le_bytes());
        self.0[TOTAL_32..TOTAL_32 + 4].copy_from_slice(&long.to_le_bytes());
    }
}

/// What the library formats, to see its boot sector.
struct Trial {
    bytes: u64,
    position: u64,
    boot: Boot,
}

/// What the library formats: the image without the gap.
struct Disk<'i, S> {
    image: &'i S,
    position: u64,
    /// Where the FATs begin in what it formats.
    fats: u64,
    /// Bytes that lie before them in the image besides.
    gap: u64,
}

impl<S: Store> Disk<'_, S> {
    /// Where the next bytes are in the image, and how many of so many.
    fn next(&self, len: usize) -> (u64, usize) {
        match self.fats.checked_sub(self.position) {
            Some(before) if before > 0 => (self.position, len.min(usize::try_from(before).unwrap_or(len))),
            _ => (self.position + self.gap, len),
        }
    }
}

#[derive(Debug)]
struct Failed(Error);

impl IoError for Failed {
    fn is_interrupted(&self) -> bool {
        false
    }

    fn new_unexpected_eof_error() -> Failed {
        Failed(Error::Bytes)
    }

    fn new_write_zero_error() -> Failed {
        Failed(Error::Bytes)
    }
}

/// The position after a move from another one.
fn moved(position: u64, len: u64, to: SeekFrom) -> Result<u64, Failed> {
    let position = match to {
        SeekFrom::Start(position) => Some(position),
        SeekFrom::Current(distance) => position.checked_add_signed(distance),
        SeekFrom::End(distance) => len.checked_add_signed(distance),
    };
    position.ok_or(Failed(Error::Bytes))
}

impl IoBase for Trial {
    type Error = Failed;
}

impl Read for Trial {
    fn read(&mut self, _: &mut [u8]) -> Result<usize, Failed> {
        Err(Failed(Error::Bytes))
    }
}

impl Write for Trial {
    fn write(&mut self, from: &[u8]) -> Result<usize, Failed> {
        let start = usize::try_from(self.position).map_err(|_| Failed(Error::Bytes))?;
        let to = self.boot.0.get_mut(start..).and_then(|rest| rest.get_mut(..from.len()));
        to.ok_or(Failed(Error::Bytes))?.copy_from_slice(from);
        self.position += from.len() as u64;
        Ok(from.len())
    }

    fn flush(&mut self) -> Result<(), Failed> {
        Ok(())
    }
}

impl Seek for Trial {
    fn seek(&mut self, to: SeekFrom) -> Result<u64, Failed> {
        self.position = moved(self.position, self.bytes, to)?;
        Ok(self.position)
    }
}

impl<S> IoBase for Disk<'_, S> {
    type Error = Failed;
}

impl<S: Store> Read for Disk<'_, S> {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Failed> {
        let (at, len) = self.next(to.len());
        self.image.read(at, &mut to[..len]).map_err(Failed)?;
        self.position += len as u64;
        Ok(len)
    }
}

impl<S: Store> Write for Disk<'_, S> {
    fn write(&mut self, from: &[u8]) -> Result<usize, Failed> {
        let (at, len) = self.next(from.len());
        self.image.store(at, &from[..len]).map_err(Failed)?;
        self.position += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> Result<(), Failed> {
        Ok(())
    }
}

impl<S: Store> Seek for Disk<'_, S> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64, Failed> {
        self.position = moved(self.position, self.image.len() - self.gap, to)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check;
    use crate::{Geometry, Image, Kind};
    use std::sync::{Mutex, MutexGuard};
    use std::vec;
    use std::vec::Vec;

    struct Bytes(Mutex<Vec<u8>>);

    impl Bytes {
        fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
            self.0.lock().expect("bytes")
        }
    }

    impl Image for Bytes {
        fn len(&self) -> u64 {
            self.lock().len() as u64
        }

        fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
            let bytes = self.lock();
            let from = bytes.get(offset as usize..).and_then(|rest| rest.get(..to.len())).ok_or(Error::Bytes)?;
            to.copy_from_slice(from);
            Ok(())
        }
    }

    impl Store for Bytes {
        fn store(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
            let mut bytes = self.lock();
            let to = bytes.get_mut(offset as usize..).and_then(|rest| rest.get_mut(..from.len()));
            to.ok_or(Error::Bytes)?.copy_from_slice(from);
            Ok(())
        }
    }

    fn formatted(bytes: usize) -> Result<(Bytes, Geometry), Error> {
        let image = Bytes(Mutex::new(vec![0; bytes]));
        format(&image, 7)?;
        let geometry = Geometry::read(&image)?;
        Ok((image, geometry))
    }

    #[test]
    fn clusters_begin_with_a_page_whatever_the_size() {
        let sizes = [64 << 10, 1 << 20, 1_474_560, 5 << 20, 16 << 20, 20 << 20, 33 << 20, 64 << 20, 96 << 20];
        for bytes in sizes.into_iter().chain((1..40).map(|n| (3 << 20) + n * 512 * 511)) {
            let (image, geometry) = formatted(bytes).unwrap_or_else(|error| panic!("{bytes}: {error}"));
            assert!(geometry.data_start.is_multiple_of(4096), "{bytes}: {geometry:?}");
            let end = geometry.data_start + u64::from(geometry.clusters) * geometry.cluster_size;
            assert!(end <= bytes as u64, "{bytes}: {geometry:?}");
            assert!(end + geometry.cluster_size + 4096 > bytes as u64, "{bytes}: little is left over: {geometry:?}");
            let report = check(&image).expect("it can be read");
            assert!(report.findings.is_empty(), "{bytes}: {:?}", report.findings);
        }
    }

    #[test]
    fn an_image_of_fat32_has_a_copy_of_its_boot_sector() {
        let (image, geometry) = formatted(540 << 20).expect("an image");
        assert_eq!((geometry.kind, geometry.cluster_size), (Kind::Fat32, 4096));
        assert!(geometry.data_start.is_multiple_of(4096));
        let bytes = image.lock();
        assert_eq!(bytes[..512], bytes[6 * 512..7 * 512]);
    }

    #[test]
    fn medium_images_have_clusters_of_a_page() {
        for (bytes, cluster) in [(16 << 20, 1024), (20 << 20, 4096), (128 << 20, 4096), (200 << 20, 4096)] {
            let (_, geometry) = formatted(bytes).expect("an image");
            assert_eq!((geometry.kind, geometry.cluster_size), (Kind::Fat16, cluster), "{bytes}");
        }
    }

    #[test]
    fn what_is_too_small_is_no_image() {
        for bytes in [0, 1, 511, 512, 4096] {
            assert!(matches!(formatted(bytes), Err(Error::NotFat(_))), "{bytes}");
        }
    }
}
