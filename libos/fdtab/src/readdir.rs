//! Directories as lists of entries.
//!
//! The first read of a directory copies all of its entries, and later reads continue in the copy: files that are made or removed
//! meanwhile neither hide an entry nor repeat one. The copy is charged to the instance until the directory is closed or rewound.

use crate::mounts::Location;
use crate::tables::{Directory, Open};
use crate::{Answer, Files, Stop, outcome};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use monohull_abi::file::{DirEntry, FileKind, FsOp};
use monohull_abi::module::Call;
use monohull_abi::user::UserSlice;
use monohull_abi::{Errno, Outcome};

/// A file system lists this many bytes at a time.
const STEP: usize = 16 * 1024;

impl Files {
    pub(crate) fn list(&self, call: &mut Call) -> Outcome {
        outcome(self.with_open(call, |files, call, open| files.try_list(call, open)))
    }

    fn try_list(&self, call: &mut Call, open: &Open) -> Answer {
        let [_, buffer, len, ..] = call.args;
        let Some(directory) = &open.directory else {
            return Err(self.refuse(call, Errno::NotDirectory, format_args!("{}", Errno::NotDirectory)));
        };
        let _guard = open.position_lock.acquire(self.host, call).ok_or(Stop::Parked)?;
        let known = directory.listing.lock().clone();
        let listing = match known {
            Some(listing) => listing,
            None => {
                let listing = Arc::new(self.read_directory(call, &open.path)?);
                self.host.charge(directory.owner, listing.len() as u64).map_err(|errno| {
                    self.refuse(call, errno, format_args!("the directory's {} bytes of entries", listing.len()))
                })?;
                *directory.listing.lock() = Some(listing.clone());
                listing
            }
        };
        let start = open.position.load(Ordering::Relaxed);
        let rest = listing.get(start as usize..).unwrap_or_default();
        let part = &rest[..whole_records(rest, len)];
        if part.is_empty() && !rest.is_empty() {
            let needed = record_len(rest);
            return Err(self.refuse(
                call,
                Errno::Invalid,
                format_args!("the next entry needs {needed} bytes, not {len}"),
            ));
        }
        UserSlice::<u8>::new(buffer, part.len() as u64)
            .check(self.host.raw(), call)
            .and_then(|slice| slice.write(part))
            .map_err(|refusal| self.refuse_address(call, refusal, "the buffer for the entries"))?;
        open.position.store(start + part.len() as u64, Ordering::Relaxed);
        Ok(part.len() as u64)
    }

    /// Drops a listing; the next call makes a new one.
    pub(crate) fn drop_listing(&self, directory: &Directory) {
        if let Some(listing) = directory.listing.lock().take() {
            self.host.refund(directory.owner, listing.len() as u64);
        }
    }

    fn read_directory(&self, call: &mut Call, path: &str) -> Result<Vec<u8>, Stop> {
        let mut listing = Vec::new();
        let location = self.mounts.locate(call.instance, path)?;
        if let Location::OnMount(mount, rest) = location {
            let _guard = self.lock_paths(call, location)?;
            let mut start = 0;
            loop {
                let mut step = vec![0; STEP];
                let args = [rest.as_ptr() as u64, rest.len() as u64, start, step.as_mut_ptr() as u64, STEP as u64];
                let listed = self.mounts.request(FsOp::List, mount, args);
                let (bytes, [next, ..]) =
                    listed.map_err(|errno| self.refuse(call, errno, format_args!("`/{path}`: {errno}")))?;
                step.truncate(bytes as usize);
                listing.extend_from_slice(&step);
                if bytes == 0 || next == start {
                    break;
                }
                start = next;
            }
        }
        let mut names: Vec<&str> = self.mounts.names_below(path).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            if !records(&listing).any(|known| known == name.as_bytes()) {
                push(&mut listing, name);
            }
        }
        Ok(listing)
    }
}

/// Adds a directory that leads to a mount point.
fn push(listing: &mut Vec<u8>, name: &str) {
    let end = listing.len() + DirEntry::record_len(name.len());
    listing.extend_from_slice(&0u64.to_ne_bytes());
    listing.extend_from_slice(&(FileKind::Directory as u32).to_ne_bytes());
    listing.extend_from_slice(&(name.len() as u32).to_ne_bytes());
    listing.extend_from_slice(name.as_bytes());
    listing.resize(end, 0);
}

/// The names in a listing.
fn records(mut listing: &[u8]) -> impl Iterator<Item = &[u8]> {
    core::iter::from_fn(move || {
        let name = listing.get(size_of::<DirEntry>()..)?.get(..name_len(listing)?)?;
        listing = listing.get(record_len(listing)..)?;
        Some(name)
    })
}

fn name_len(record: &[u8]) -> Option<usize> {
    let at = core::mem::offset_of!(DirEntry, name_len);
    Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?) as usize)
}

/// Bytes of the first record of a listing.
fn record_len(listing: &[u8]) -> usize {
    name_len(listing).map_or(listing.len(), DirEntry::record_len).max(1)
}

/// How many bytes of whole records fit into `len`.
fn whole_records(listing: &[u8], len: u64) -> usize {
    let mut fits = 0;
    while fits < listing.len() {
        let next = fits + record_len(&listing[fits..]);
        if next as u64 > len || next > listing.len() {
            break;
        }
        fits = next;
    }
    fits
}
