//! Disk images, mapped.
//!
//! ```text
//!   access   mapping                     a change goes
//!   read     shared, to be read          nowhere: the descriptor table refuses it
//!   copy     private                     to a page of the domain's own, made when it is first written
//!   write    shared                      to the file's page in the kernel's cache, which outlives the process
//! ```
//!
//! Modules reach a mapping by the copying services alone. Those survive the fault of a page that has been truncated from the
//! file meanwhile.

use super::mount::{ImageAccess, Mount, Source};
use crate::pager::Window;
use monohull_abi::file::ImageIdentity;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

/// Locks an image file: exclusively if it is to be written, otherwise shared. Fails if another process has a conflicting lock.
/// The lock ends with the last descriptor, also after a kill.
pub fn claim_image(file: &File, alone: bool) -> io::Result<()> {
    let claim = if alone { libc::LOCK_EX } else { libc::LOCK_SH };
    // SAFETY: a system call on a descriptor that is open.
    match unsafe { libc::flock(file.as_raw_fd(), claim | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The mapped images of a domain, by their mount's number.
#[derive(Debug, Default)]
pub(crate) struct Images(Mutex<BTreeMap<u32, Mapping>>);

/// One mapped image; unmapped when it is dropped.
#[derive(Debug)]
struct Mapping {
    address: u64,
    len: u64,
}

impl Images {
    /// Address and length of the image behind a mount, mapped if it is not yet.
    pub(crate) fn map(&self, mounts: &[Mount], index: u32) -> io::Result<(u64, u64)> {
        let Some(Source::Image { file, access }) = mounts.get(index as usize).map(|mount| &mount.source) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut images = self.0.lock().expect("images");
        if let Some(mapping) = images.get(&index) {
            return Ok((mapping.address, mapping.len));
        }
        let mapping = Mapping::new(file, *access)?;
        let place = (mapping.address, mapping.len);
        images.insert(index, mapping);
        Ok(place)
    }

    /// The image's file behind an address, from there on. Only of images that this domain alone has: others may be changed by a
    /// process that is not asked to keep what a mapping has shown, and in a private copy the file is not what modules see.
    pub(crate) fn window<'m>(&self, mounts: &'m [Mount], address: u64) -> Option<Window<'m>> {
        let images = self.0.lock().expect("images");
        let inside = |mapping: &Mapping| (mapping.address..mapping.address + mapping.len).contains(&address);
        let (index, mapping) = images.iter().find(|(_, mapping)| inside(mapping))?;
        let Some(Source::Image { file, access: ImageAccess::Write }) =
            mounts.get(*index as usize).map(|mount| &mount.source)
        else {
            return None;
        };
        let offset = address - mapping.address;
        Some(Window { file: file.as_fd(), offset, len: mapping.len - offset })
    }

    /// What identifies the file behind an image.
    pub(crate) fn identity(mounts: &[Mount], index: u32) -> io::Result<ImageIdentity> {
        let Some(Source::Image { file, access }) = mounts.get(index as usize).map(|mount| &mount.source) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let known = File::from(file.try_clone()?).metadata()?;
        let modified = known.mtime().saturating_mul(1_000_000_000).saturating_add(known.mtime_nsec());
        let private = u64::from(*access == ImageAccess::Copy);
        Ok(ImageIdentity { device: known.dev(), inode: known.ino(), len: known.len(), modified, private })
    }

    /// Waits until what was written to an image is on the disk.
    pub(crate) fn sync(mounts: &[Mount], index: u32) -> io::Result<()> {
        match mounts.get(index as usize).map(|mount| &mount.source) {
            Some(Source::Image { file, access: ImageAccess::Write }) => {
                // SAFETY: a system call on a descriptor that is open.
                match unsafe { libc::fdatasync(file.as_raw_fd()) } {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            }
            // What is the domain's own survives nothing.
            _ => Ok(()),
        }
    }

    /// Allocates the holes of a range of the image's file on the host's disk. A store into a hole is a fault when the disk is full,
    /// and a fault has no error number; this call has one. Fails where the image is not written to its file.
    pub(crate) fn reserve(mounts: &[Mount], index: u32, offset: u64, len: u64) -> io::Result<()> {
        let Some(Source::Image { file, access: ImageAccess::Write }) =
            mounts.get(index as usize).map(|mount| &mount.source)
        else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let range = (i64::try_from(offset), i64::try_from(len));
        let (Ok(offset), Ok(len)) = range else { return Err(io::ErrorKind::InvalidInput.into()) };
        loop {
            // SAFETY: a system call on a descriptor that is open. The file stays as long as it is.
            match unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, offset, len) } {
                0 => return Ok(()),
                _ => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
    }

    /// Lets others claim an image that nothing writes to any more.
    pub(crate) fn release(mounts: &[Mount]) {
        for mount in mounts {
            if let Source::Image { file, .. } = &mount.source {
                // SAFETY: as above. It cannot fail; if it did, the claim would end with the process.
                unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
            }
        }
    }
}

impl Mapping {
    fn new(file: &OwnedFd, access: ImageAccess) -> io::Result<Mapping> {
        let len = File::from(file.try_clone()?).metadata()?.len();
        let (protection, flags) = match access {
            ImageAccess::Read => (libc::PROT_READ, libc::MAP_SHARED),
            ImageAccess::Copy => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_NORESERVE),
            ImageAccess::Write => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED),
        };
        let size = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: a new mapping where the kernel likes; it replaces nothing.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, file.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { address: address as u64, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: a mapping of ours; the modules that used it have been stopped.
        unsafe { libc::munmap(self.address as *mut libc::c_void, self.len as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_change_of_the_file_is_another_identity() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[0; 4096]).expect("written");
        let mounts = [ImageAccess::Copy, ImageAccess::Read].map(|access| {
            let file = OwnedFd::from(file.try_clone().expect("another descriptor"));
            Mount { point: "/".into(), source: Source::Image { file, access } }
        });
        let known = Images::identity(&mounts, 0).expect("known");
        assert_eq!((known.len, known.private), (4096, 1));
        assert_eq!(Images::identity(&mounts, 1).expect("known"), ImageIdentity { private: 0, ..known });
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("another time");
        assert_eq!(Images::identity(&mounts, 0).expect("known"), ImageIdentity { modified: 0, ..known });
        file.set_len(8192).expect("longer");
        assert_eq!(Images::identity(&mounts, 0).expect("known").len, 8192);
        assert!(Images::identity(&mounts, 2).is_err());
    }
}
