//! Images as records.
//!
//! An image is a file of the host, which the record names by what distinguishes it from every other state of every other file: where
//! it is, its size, and when it last changed. Changes that stay in the file are written to the disk first. Changes that are the domain's own
//! go into the record, page by page.
//!
//! ```text
//!  record    | images: identity, changed pages, times of open files | bytes of the changed pages
//! ```
//!
//! Which files are open is the descriptor table's to record; it opens them again. A file that has lost its name while it is open cannot be
//! found again, so it refuses: the next mount of the image would remove it.

use crate::FatFs;
use crate::image::Mapped;
use crate::volume::Volume;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use monohull_abi::file::{ImageIdentity, MOUNTS_MAX, MountKind};
use monohull_abi::layout::PAGE;
use monohull_module::record::{RecordsRef, Refused, fields_and_rest, rise};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(crate) struct VolumeRecord {
    pub(crate) mount: u32,
    /// Device, inode, bytes, and when it last changed.
    pub(crate) identity: (u64, u64, u64, i64),
    /// Changed pages: runs of first page and count, in order.
    pub(crate) pages: Vec<(u64, u64)>,
    /// When bytes of open files last changed, by slot.
    pub(crate) times: Vec<(u64, i64)>,
}

impl FatFs {
    pub(crate) fn save_volumes(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
        let cells = (0..MOUNTS_MAX).filter_map(|mount| Some((mount as u32, self.volumes.get(mount)?.get()?)));
        // An image that cannot be mounted is tried again.
        let volumes: Vec<(u32, &Volume)> =
            cells.filter_map(|(mount, volume)| Some((mount, &**volume.as_ref().ok()?))).collect();
        let describe = |(mount, volume): &(u32, &Volume)| self.describe(*mount, volume);
        let described = volumes.iter().map(describe).collect::<Result<Vec<_>, _>>()?;
        records.write(&described)?;
        for ((mount, volume), record) in volumes.iter().zip(&described) {
            for page in pages_of(&record.pages) {
                let start = page * PAGE;
                let mut bytes = vec![0; (volume.image.len_of_image() - start).min(PAGE) as usize];
                volume.image.fill(start, &mut bytes).map_err(|errno| self.refused(*mount, format_args!("{errno}")))?;
                records.write_bytes(&bytes)?;
            }
        }
        Ok(())
    }

    fn describe(&self, mount: u32, volume: &Volume) -> Result<VolumeRecord, Refused> {
        let times = volume
            .settle_files()
            .map_err(|path| self.refused(mount, format_args!("`{path}` has been removed while it is open")))?;
        let synced = volume.sync_names().and_then(|()| self.host.image_identity(mount));
        let identity = synced.map_err(|errno| self.refused(mount, format_args!("{errno}")))?;
        Ok(VolumeRecord { mount, identity: tuple(&identity), pages: volume.image.changed(), times })
    }

    pub(crate) fn restore_volumes(&self, record: &[u8]) -> Result<(), Refused> {
        let (volumes, mut bytes): (Vec<VolumeRecord>, &[u8]) = fields_and_rest(record)?;
        rise(volumes.iter().map(|volume| volume.mount), "the images")?;
        for VolumeRecord { mount, identity, pages, times } in volumes {
            let is_image = self.host.mount(mount).is_some_and(|(info, _)| info.kind == MountKind::Image);
            let cell = self.volumes.make(mount as usize).filter(|_| is_image);
            let cell = cell.ok_or_else(|| Refused::new(format_args!("mount {mount} is no disk image")))?;
            let known =
                self.host.image_identity(mount).map_err(|errno| self.refused(mount, format_args!("{errno}")))?;
            if tuple(&known) != identity {
                return Err(self.refused(mount, format_args!("the file has changed, or is another one")));
            }
            let image = Mapped::new(self.host, mount).map_err(|errno| self.refused(mount, format_args!("{errno}")))?;
            let Some(rest) = restore_pages(&image, &pages, bytes) else {
                return Err(self.refused(mount, format_args!("its record is damaged: the changed pages")));
            };
            bytes = rest;
            let volume = Volume::of(self.host, mount, image, times);
            let volume = volume.map_err(|errno| self.refused(mount, format_args!("{errno}")))?;
            cell.call_once(|| Ok(Box::new(volume)));
        }
        match bytes {
            [] => Ok(()),
            _ => Err(Refused::new(format_args!("its record has {} bytes behind its end", bytes.len()))),
        }
    }

    fn refused(&self, mount: u32, why: fmt::Arguments<'_>) -> Refused {
        let point = self.host.mount(mount).map(|(_, point)| point).unwrap_or_default();
        Refused::new(format_args!("the disk image at `{point}`: {why}"))
    }
}

/// Puts changed pages from the front of `bytes` into an image whose changes are the domain's own; the rest of the bytes.
fn restore_pages<'b>(image: &Mapped, pages: &[(u64, u64)], mut bytes: &'b [u8]) -> Option<&'b [u8]> {
    let len = image.len_of_image();
    let mut next = 0;
    for (first, count) in pages.iter().copied() {
        let end = first.checked_add(count).filter(|end| *end <= len.div_ceil(PAGE))?;
        if count == 0 || first < next || !image.is_private() {
            return None;
        }
        next = end;
    }
    for page in pages_of(pages) {
        let start = page * PAGE;
        let (own, rest) = bytes.split_at_checked((len - start).min(PAGE) as usize)?;
        image.write(start, own).ok()?;
        bytes = rest;
    }
    Some(bytes)
}

fn pages_of(runs: &[(u64, u64)]) -> impl Iterator<Item = u64> {
    runs.iter().flat_map(|(first, count)| *first..first + count)
}

fn tuple(identity: &ImageIdentity) -> (u64, u64, u64, i64) {
    (identity.device, identity.inode, identity.len, identity.modified)
}
