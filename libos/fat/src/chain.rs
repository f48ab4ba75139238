//! Chains of clusters, as runs of bytes that lie side by side.

use crate::{Error, FatEntry, Geometry, Image};
use alloc::vec::Vec;

/// Some clusters of a file that lie side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Where they begin in the file.
    pub start: u64,
    /// Where they begin in the image.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// All clusters of a file.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Runs {
    list: Vec<Run>,
    last: Option<u32>,
}

impl Runs {
    /// Bytes in all clusters together.
    pub fn capacity(&self) -> u64 {
        self.list.last().map_or(0, |run| run.start + run.len)
    }

    /// The runs, in the order of the file.
    pub fn list(&self) -> &[Run] {
        &self.list
    }

    /// Where a byte of the file lies in the image, and how many follow it there.
    pub fn find(&self, position: u64) -> Option<(u64, u64)> {
        let index = match self.list.as_slice() {
            [_] => 0,
            list => list.partition_point(|run| run.start + run.len <= position),
        };
        let run = self.list.get(index)?;
        let into = position - run.start;
        (into < run.len).then_some((run.offset + into, run.len - into))
    }

    /// These clusters, in this order.
    pub(crate) fn of(geometry: &Geometry, clusters: &[u32]) -> Result<Runs, Error> {
        let mut runs = Runs::default();
        clusters.iter().try_for_each(|cluster| runs.push(geometry, *cluster))?;
        Ok(runs)
    }

    /// The last cluster, if there is any.
    pub(crate) fn last(&self) -> Option<u32> {
        self.last
    }

    /// The cluster with this number in the file.
    pub(crate) fn cluster(&self, geometry: &Geometry, index: u64) -> Option<u32> {
        self.find(index * geometry.cluster_size).and_then(|(offset, _)| geometry.at(offset))
    }

    /// Forgets all but the first `bytes` bytes: whole clusters.
    pub(crate) fn cut(&mut self, geometry: &Geometry, bytes: u64) {
        self.list.retain(|run| run.start < bytes);
        if let Some(run) = self.list.last_mut() {
            run.len = run.len.min(bytes - run.start);
        }
        self.last = self.list.last().and_then(|run| geometry.at(run.offset + run.len - geometry.cluster_size));
    }

    /// Another cluster comes after the last.
    pub(crate) fn push(&mut self, geometry: &Geometry, cluster: u32) -> Result<(), Error> {
        let (offset, len) = (geometry.offset(cluster)?, geometry.cluster_size);
        let start = self.capacity();
        match self.list.last_mut() {
            Some(run) if run.offset + run.len == offset => run.len += len,
            _ => self.list.push(Run { start, offset, len }),
        }
        self.last = Some(cluster);
        Ok(())
    }

    /// Follows the chain on from where this one ended, or from `first`.
    pub fn extend<I: Image + ?Sized>(&mut self, geometry: &Geometry, image: &I, first: u32) -> Result<(), Error> {
        let mut next = match self.last {
            Some(last) => geometry.entry(image, last)?,
            None if first == 0 => FatEntry::End,
            None => FatEntry::Next(first),
        };
        let mut left = u64::from(geometry.clusters) - self.capacity() / geometry.cluster_size;
        loop {
            match next {
                FatEntry::End => return Ok(()),
                FatEntry::Next(cluster) if left > 0 => {
                    self.push(geometry, cluster)?;
                    left -= 1;
                    next = geometry.entry(image, cluster)?;
                }
                FatEntry::Next(_) => return Err(Error::Damaged("a chain goes round in a circle")),
                FatEntry::Free => return Err(Error::Damaged("a chain leads to a free cluster")),
                FatEntry::Bad => return Err(Error::Damaged("a chain leads to a bad cluster")),
            }
        }
    }
}

/// The runs of the chain that begins at `first`; none for 0.
pub fn runs<I: Image + ?Sized>(geometry: &Geometry, image: &I, first: u32) -> Result<Runs, Error> {
    let mut runs = Runs::default();
    runs.extend(geometry, image, first)?;
    Ok(runs)
}
