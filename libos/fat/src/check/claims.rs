//! Clusters: the owner of each, and clusters without an owner.

use crate::geometry::FIRST;
use crate::{Error, FatEntry, Geometry, Image};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// For each cluster: whether a file or directory has claimed it.
pub(super) struct Claims(Vec<bool>);

/// A chain as far as it could be claimed.
pub(super) struct Claim {
    pub(super) clusters: Vec<u32>,
    /// Why it ends before its end.
    pub(super) broken: Option<&'static str>,
}

/// Clusters in use that are unclaimed.
pub(super) struct Lost {
    /// All of it.
    pub(super) clusters: Vec<Range<u32>>,
    /// Chain by chain: the first cluster, and bytes.
    pub(super) chains: Vec<(u32, u64)>,
    /// Clusters that are not in use.
    pub(super) free: u32,
}

impl Claims {
    pub(super) fn new(geometry: &Geometry) -> Claims {
        Claims(vec![false; geometry.clusters as usize + FIRST as usize])
    }

    /// Claims a chain, up to `most` clusters of it.
    pub(super) fn claim<I: Image>(
        &mut self,
        geometry: &Geometry,
        image: &I,
        first: u32,
        most: usize,
    ) -> Result<Claim, Error> {
        let mut clusters = Vec::new();
        let mut next = if first == 0 { FatEntry::End } else { FatEntry::Next(first) };
        let broken = loop {
            let cluster = match next {
                FatEntry::End => break None,
                FatEntry::Free => break Some("its chain leads to a free cluster"),
                FatEntry::Bad => break Some("its chain leads to a bad cluster"),
                FatEntry::Next(_) if clusters.len() == most => break Some("it is longer than a directory can be"),
                FatEntry::Next(cluster) => cluster,
            };
            match self.0.get_mut(cluster as usize) {
                Some(claimed) if cluster >= FIRST && !*claimed => *claimed = true,
                Some(_) if cluster >= FIRST => break Some("its chain runs into another file's"),
                _ => break Some("its chain leads to a cluster that does not exist"),
            }
            next = geometry.entry(image, cluster)?;
            if next == FatEntry::Free {
                // It is not the file's, so its contents may belong to any file.
                self.0[cluster as usize] = false;
                break Some("its chain leads to a free cluster");
            }
            clusters.push(cluster);
        };
        Ok(Claim { clusters, broken })
    }

    /// The unclaimed clusters; claims them.
    pub(super) fn lost<I: Image>(&mut self, geometry: &Geometry, image: &I) -> Result<Lost, Error> {
        let mut free = 0;
        let mut clusters: Vec<Range<u32>> = Vec::new();
        let mut has_before = vec![false; self.0.len()];
        for cluster in FIRST..FIRST + geometry.clusters {
            if self.0[cluster as usize] {
                continue;
            }
            match geometry.entry(image, cluster)? {
                FatEntry::Free => free += 1,
                FatEntry::Bad => {}
                next => {
                    match clusters.last_mut() {
                        Some(range) if range.end == cluster => range.end += 1,
                        _ => clusters.push(cluster..cluster + 1),
                    }
                    if let FatEntry::Next(next) = next
                        && let Some(before) = has_before.get_mut(next as usize)
                    {
                        *before = true;
                    }
                }
            }
        }
        // Heads of chains first; what is left then goes round in circles.
        let mut chains = Vec::new();
        for heads in [true, false] {
            for first in clusters.iter().cloned().flatten().filter(|first| !heads || !has_before[*first as usize]) {
                let mut bytes = 0;
                let mut next = first;
                while self.0.get(next as usize).is_some_and(|claimed| !claimed && next >= FIRST) {
                    self.0[next as usize] = true;
                    bytes += geometry.cluster_size;
                    match geometry.entry(image, next)? {
                        FatEntry::Next(cluster) => next = cluster,
                        _ => break,
                    }
                }
                if bytes > 0 {
                    chains.push((first, bytes));
                }
            }
        }
        Ok(Lost { clusters, chains, free })
    }
}
