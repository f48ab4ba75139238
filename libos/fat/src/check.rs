//! Whether an image is as it should be; what is not, by name; and how to put it right.
//!
//! Every file and directory claims its clusters, in the order in which they are found. A chain that runs into a cluster
//! that is claimed already, free, bad or not there ends before it. What is in use and nobody has claimed is lost.

use crate::directory::{Entry, FLAGS, Found, MOVED, entries, entries_in_slots, stray_pieces};
use crate::geometry::FIRST;
use crate::name;
use crate::{ASIDE, Error, FatEntry, Geometry, Image, ImageMut, read_u32};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Finding {
    /// it was not closed: whoever wrote to it last was interrupted
    #[error("it was not closed: whoever wrote to it last was interrupted")]
    NotClosed,
    /// the copies of the FAT differ in {entries} entries
    #[error("the copies of the FAT differ in {entries} entries")]
    CopiesDiffer {
        /// How many.
        entries: u64,
    },
    /// {bytes} bytes belong to no file, from cluster {first} on
    #[error("{bytes} bytes belong to no file, from cluster {first} on")]
    Lost {
        /// The first cluster.
        first: u32,
        /// All clusters together.
        bytes: u64,
    },
    /// `{path}` has {size} bytes, of which {kept} are there: {why}
    #[error("`{path}` has {size} bytes, of which {kept} are there: {why}")]
    Cut {
        /// The file.
        path: String,
        /// What its directory says.
        size: u64,
        /// What can be read.
        kept: u64,
        /// What happened to its chain.
        why: &'static str,
    },
    /// the directory `{path}` cannot be read whole: {why}
    #[error("the directory `{path}` cannot be read whole: {why}")]
    CutDirectory {
        /// The directory.
        path: String,
        /// What happened to its chain.
        why: &'static str,
    },
    /// `{path}` has {bytes} bytes of clusters behind its end
    #[error("`{path}` has {bytes} bytes of clusters behind its end")]
    Slack {
        /// The file.
        path: String,
        /// Whole clusters behind the end.
        bytes: u64,
    },
    /// `{path}` is another name of `{kept}`: somebody who moved it was interrupted
    #[error("`{path}` is another name of `{kept}`: somebody who moved it was interrupted")]
    Moved {
        /// The name that goes.
        path: String,
        /// The name that stays.
        kept: String,
    },
    /// `{path}` is left over: somebody who needed it for a while was interrupted
    #[error("`{path}` is left over: somebody who needed it for a while was interrupted")]
    LeftOver {
        /// The file.
        path: String,
    },
    /// `{path}` has {slots} pieces of names that belong to nothing
    #[error("`{path}` has {slots} pieces of names that belong to nothing")]
    StrayPieces {
        /// The directory.
        path: String,
        /// How many.
        slots: u64,
    },
    /// {said} clusters are said to be free, {found} are
    #[error("{said} clusters are said to be free, {found} are")]
    FreeCount {
        /// What the image says.
        said: u32,
        /// What the FAT says.
        found: u32,
    },
}

impl Finding {
    /// Whether bytes of a file are gone; the rest is space or a count.
    pub fn loses_data(&self) -> bool {
        matches!(self, Finding::Cut { .. } | Finding::CutDirectory { .. })
    }
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Where everything is.
    pub geometry: Geometry,
    /// Everything that is not as it should be.
    pub findings: Vec<Finding>,
    /// Files that were found.
    pub files: u64,
    /// Directories that were found, the root left out.
    pub directories: u64,
    /// Clusters that nobody has.
    pub free: u32,
}

/// Looks at the whole image.
pub fn check<I: Image>(image: &I) -> Result<Report, Error> {
    Check::new(image)?.run().map(|(report, _)| report)
}

/// Puts right what [`check`] finds, and tells what it was. Every file keeps what can be read of it.
pub fn repair<I: ImageMut>(image: &mut I) -> Result<Report, Error> {
    let (report, repairs) = Check::new(image)?.run()?;
    for repair in repairs {
        repair.make(&report.geometry, image)?;
    }
    Ok(report)
}

/// The files in the root directory that somebody left there who was interrupted: those of which nothing is a named file's too, as it
/// is for a moment when a name changes. They can be removed.
pub fn left_over<I: Image>(image: &I) -> Result<Vec<String>, Error> {
    let geometry = Geometry::read(image)?;
    let mut names = Vec::new();
    entries(&geometry, image, &Found::Root, |entry| {
        if entry.name.starts_with(ASIDE) && !entry.directory {
            names.push(entry.name);
        }
        true
    })?;
    if !names.is_empty() {
        let findings = check(image)?.findings;
        let is_named = |name: &String| {
            let same = |path: &String| path.strip_prefix('/') == Some(name);
            let same = |finding: &Finding| matches!(finding, Finding::Moved { path, kept } if same(path) || same(kept));
            findings.iter().any(same)
        };
        names.retain(|name| !is_named(name));
    }
    Ok(names)
}

/// One change that puts something right.
enum Repair {
    /// A cluster's entry.
    Entry(u32, u32),
    /// Bytes at a place.
    Bytes(u64, Vec<u8>),
}

impl Repair {
    fn make(self, geometry: &Geometry, image: &mut impl ImageMut) -> Result<(), Error> {
        match self {
            Repair::Bytes(offset, bytes) => image.write(offset, &bytes),
            Repair::Entry(cluster, value) => {
                for copy in 0..geometry.fats {
                    let at = geometry.entry_offset(cluster) + copy * geometry.fat_bytes;
                    let (mut bytes, len) = ([0; 4], geometry.entry_len());
                    image.read(at, &mut bytes[..len])?;
                    let bytes = geometry.with_value(bytes, cluster, value);
                    image.write(at, &bytes[..len])?;
                }
                Ok(())
            }
        }
    }
}

/// The value that ends a chain, whatever the bits of the FAT.
const END: u32 = 0x0fff_ffff;
/// The first byte of a slot that is free again.
const GONE: u8 = 0xe5;

struct Check<'i, I> {
    image: &'i I,
    geometry: Geometry,
    /// For each cluster: whether somebody has claimed it.
    claimed: Vec<bool>,
    /// By its first cluster: who has claimed a chain.
    owners: BTreeMap<u32, Named>,
    /// How many are called the same, by their path as FAT compares it.
    namesakes: BTreeMap<String, u32>,
    findings: Vec<Finding>,
    repairs: Vec<Repair>,
    files: u64,
    directories: u64,
}

/// A file or directory, and where its name is.
struct Named {
    path: String,
    directory: bool,
    size: u64,
    /// All its slots.
    slots: Vec<u64>,
    /// It was there for a while.
    aside: bool,
    /// It says that it has another name.
    moved: bool,
}

/// A chain as far as it could be claimed.
struct Claim {
    clusters: Vec<u32>,
    /// Why it ends before its end.
    broken: Option<&'static str>,
}

impl<'i, I: Image> Check<'i, I> {
    fn new(image: &'i I) -> Result<Check<'i, I>, Error> {
        let geometry = Geometry::read(image)?;
        let claimed = vec![false; geometry.clusters as usize + FIRST as usize];
        let (owners, namesakes) = (BTreeMap::new(), BTreeMap::new());
        let (findings, repairs) = (Vec::new(), Vec::new());
        Ok(Check { image, geometry, claimed, owners, namesakes, findings, repairs, files: 0, directories: 0 })
    }

    fn run(mut self) -> Result<(Report, Vec<Repair>), Error> {
        self.mark()?;
        self.copies()?;
        self.tree()?;
        let free = self.lost()?;
        self.count(free)?;
        let Check { geometry, findings, files, directories, repairs, .. } = self;
        Ok((Report { geometry, findings, files, directories, free }, repairs))
    }

    fn mark(&mut self) -> Result<(), Error> {
        let mut flags = [0];
        self.image.read(self.geometry.dirty_flag(), &mut flags)?;
        if flags[0] & 1 != 0 {
            self.findings.push(Finding::NotClosed);
            self.repairs.push(Repair::Bytes(self.geometry.dirty_flag(), vec![flags[0] & !1]));
        }
        Ok(())
    }

    /// The first FAT counts; the others should say the same.
    fn copies(&mut self) -> Result<(), Error> {
        let Geometry { fat_start, fat_bytes, fats, .. } = self.geometry;
        let mut entries = 0;
        for copy in 1..fats {
            for at in (0..fat_bytes).step_by(512) {
                let (mut first, mut other) = ([0; 512], [0; 512]);
                self.image.read(fat_start + at, &mut first)?;
                self.image.read(fat_start + copy * fat_bytes + at, &mut other)?;
                if first != other {
                    let len = self.geometry.entry_len();
                    entries += first.chunks(len).zip(other.chunks(len)).filter(|(one, two)| one != two).count() as u64;
                    self.repairs.push(Repair::Bytes(fat_start + copy * fat_bytes + at, first.to_vec()));
                }
            }
        }
        if entries > 0 {
            self.findings.push(Finding::CopiesDiffer { entries });
        }
        Ok(())
    }

    /// Claims a chain.
    fn claim(&mut self, first: u32) -> Result<Claim, Error> {
        let mut clusters = Vec::new();
        let mut next = if first == 0 { FatEntry::End } else { FatEntry::Next(first) };
        let broken = loop {
            let cluster = match next {
                FatEntry::End => break None,
                FatEntry::Free => break Some("its chain leads to a free cluster"),
                FatEntry::Bad => break Some("its chain leads to a bad cluster"),
                FatEntry::Next(cluster) => cluster,
            };
            match self.claimed.get_mut(cluster as usize) {
                Some(claimed) if cluster >= FIRST && !*claimed => *claimed = true,
                Some(_) if cluster >= FIRST => break Some("its chain runs into another file's"),
                _ => break Some("its chain leads to a cluster that does not exist"),
            }
            next = self.geometry.entry(self.image, cluster)?;
            if next == FatEntry::Free {
                // It is not the file's: what lies in it may be anybody's.
                self.claimed[cluster as usize] = false;
                break Some("its chain leads to a free cluster");
            }
            clusters.push(cluster);
        };
        if let (Some(_), Some(last)) = (broken, clusters.last()) {
            self.repairs.push(Repair::Entry(*last, END));
        }
        Ok(Claim { clusters, broken })
    }

    /// Every file and directory, from the root down.
    fn tree(&mut self) -> Result<(), Error> {
        if self.geometry.root_cluster != 0
            && let Some(why) = self.claim(self.geometry.root_cluster)?.broken
        {
            self.findings.push(Finding::CutDirectory { path: "/".into(), why });
        }
        let mut open = vec![(Found::Root, String::new())];
        let mut aside = Vec::new();
        while let Some((directory, path)) = open.pop() {
            let mut found = Vec::new();
            let listed = self.list(&directory, &mut found);
            if let Err(error) = listed {
                let why = if let Error::Damaged(why) = error { why } else { return Err(error) };
                self.findings.push(Finding::CutDirectory { path: format!("{path}/"), why });
            }
            let stray = stray_pieces(&self.geometry, self.image, &directory).unwrap_or_default();
            if !stray.is_empty() {
                self.repairs.extend(stray.iter().map(|slot| Repair::Bytes(*slot, vec![GONE])));
                self.findings.push(Finding::StrayPieces { path: format!("{path}/"), slots: stray.len() as u64 });
            }
            for (entry, _) in &found {
                *self.namesakes.entry(name::folded(&format!("{path}/{}", entry.name))).or_default() += 1;
            }
            for (entry, slots) in found {
                let mut flags = [0];
                self.image.read(entry.slot + FLAGS, &mut flags)?;
                let named = Named {
                    path: format!("{path}/{}", entry.name),
                    directory: entry.directory,
                    size: entry.size,
                    slots,
                    aside: directory == Found::Root && !entry.directory && entry.name.starts_with(ASIDE),
                    moved: flags[0] & MOVED != 0,
                };
                let (path, places, is_aside) = (named.path.clone(), named.slots.clone(), named.aside);
                if self.is_second_name(&entry, named) {
                    continue;
                }
                if entry.directory {
                    if self.directory(&entry, &path)? {
                        open.push((Found::Entry(entry), path));
                    }
                    continue;
                }
                let clusters = self.file(&entry, path.clone())?;
                if is_aside {
                    aside.push((entry.cluster, path, places, clusters));
                }
            }
        }
        for (cluster, path, slots, clusters) in aside {
            // Unless that name has gone already, because its file has another.
            if self.owners.get(&cluster).is_none_or(|owner| owner.path == path) {
                self.repairs.extend(slots.iter().rev().map(|slot| Repair::Bytes(*slot, vec![GONE])));
                self.repairs.extend(clusters.into_iter().map(|cluster| Repair::Entry(cluster, 0)));
                self.findings.push(Finding::LeftOver { path });
            }
        }
        Ok(())
    }

    /// The entries of a directory whose chain has been claimed, and their slots, as far as that goes.
    fn list(&self, directory: &Found, found: &mut Vec<(Entry, Vec<u64>)>) -> Result<(), Error> {
        entries_in_slots(&self.geometry, self.image, directory, |entry, slots| {
            found.push((entry, slots.to_vec()));
            true
        })
    }

    /// Whether something that has been found is what another name led to, or an empty namesake of something else: a name was being
    /// changed. Then one of the two goes, so that it is as before the change or as after it.
    fn is_second_name(&mut self, entry: &Entry, named: Named) -> bool {
        if entry.cluster == 0 {
            let goes = !named.directory && self.has_namesake(&named);
            if goes {
                let kept = named.path.clone();
                self.give_up(named, kept);
            }
            return goes;
        }
        let Some(first) = self.owners.remove(&entry.cluster) else {
            self.owners.insert(entry.cluster, named);
            return false;
        };
        if (first.directory, first.size) != (named.directory, named.size) {
            // Not the same, but two that run into each other.
            self.owners.insert(entry.cluster, first);
            return false;
        }
        // What is to be replaced is there still; if it is not, the old name has to go.
        let ranks = |named: &Named| (self.has_namesake(named), named.moved, named.aside);
        let (goes, stays) = if ranks(&first) > ranks(&named) { (first, named) } else { (named, first) };
        self.give_up(goes, stays.path.clone());
        self.owners.insert(entry.cluster, stays);
        true
    }

    fn has_namesake(&self, named: &Named) -> bool {
        self.namesakes.get(&name::folded(&named.path)).is_some_and(|count| *count > 1)
    }

    /// Takes a name away, the slot that counts first.
    fn give_up(&mut self, named: Named, kept: String) {
        if let Some(count) = self.namesakes.get_mut(&name::folded(&named.path)) {
            *count -= 1;
        }
        self.repairs.extend(named.slots.iter().rev().map(|slot| Repair::Bytes(*slot, vec![GONE])));
        self.findings.push(Finding::Moved { path: named.path, kept });
    }

    /// Claims a directory; whether it can be looked into.
    fn directory(&mut self, entry: &Entry, path: &str) -> Result<bool, Error> {
        self.directories += 1;
        let claim = self.claim(entry.cluster)?;
        let why = match (claim.broken, claim.clusters.is_empty()) {
            (None, false) => return Ok(true),
            (Some(why), _) => why,
            (None, true) => "it has no cluster",
        };
        self.findings.push(Finding::CutDirectory { path: path.into(), why });
        if claim.clusters.is_empty() {
            // Nothing of it is left but its name.
            self.repairs.push(Repair::Bytes(entry.slot, vec![GONE]));
        }
        Ok(false)
    }

    /// Claims a file; gives the clusters that are its own.
    fn file(&mut self, entry: &Entry, path: String) -> Result<Vec<u32>, Error> {
        self.files += 1;
        let cluster_size = self.geometry.cluster_size;
        let Claim { mut clusters, broken } = self.claim(entry.cluster)?;
        let capacity = clusters.len() as u64 * cluster_size;
        let kept = entry.size.min(capacity);
        if broken.is_some() || kept < entry.size {
            let why = broken.unwrap_or("its chain ends before");
            self.findings.push(Finding::Cut { path: path.clone(), size: entry.size, kept, why });
            self.repairs.push(Repair::Bytes(entry.slot + 28, (kept as u32).to_le_bytes().to_vec()));
        }
        let needed = kept.div_ceil(cluster_size) as usize;
        if clusters.len() > needed {
            let bytes = (clusters.len() - needed) as u64 * cluster_size;
            self.findings.push(Finding::Slack { path, bytes });
            if let Some(last) = needed.checked_sub(1) {
                self.repairs.push(Repair::Entry(clusters[last], END));
            }
            self.repairs.extend(clusters.drain(needed..).map(|cluster| Repair::Entry(cluster, 0)));
        }
        if needed == 0 && entry.cluster != 0 {
            self.repairs.push(Repair::Bytes(entry.slot + 26, vec![0; 2]));
            if self.geometry.root_bytes == 0 {
                self.repairs.push(Repair::Bytes(entry.slot + 20, vec![0; 2]));
            }
        }
        Ok(clusters)
    }

    /// What is in use and claimed by nobody, chain by chain; gives the number of free clusters.
    fn lost(&mut self) -> Result<u32, Error> {
        let mut free = 0;
        let mut lost = Vec::new();
        let mut has_before = vec![false; self.claimed.len()];
        for cluster in FIRST..FIRST + self.geometry.clusters {
            if self.claimed[cluster as usize] {
                continue;
            }
            match self.geometry.entry(self.image, cluster)? {
                FatEntry::Free => free += 1,
                FatEntry::Bad => {}
                next => {
                    lost.push(cluster);
                    if let FatEntry::Next(next) = next
                        && let Some(before) = has_before.get_mut(next as usize)
                    {
                        *before = true;
                    }
                }
            }
        }
        self.repairs.extend(lost.iter().map(|cluster| Repair::Entry(*cluster, 0)));
        // Heads of chains first; what is left then goes round in circles.
        let (heads, rest): (Vec<u32>, Vec<u32>) = lost.into_iter().partition(|cluster| !has_before[*cluster as usize]);
        for first in heads.into_iter().chain(rest) {
            let mut bytes = 0;
            let mut next = first;
            while self.claimed.get(next as usize).is_some_and(|claimed| !claimed && next >= FIRST) {
                self.claimed[next as usize] = true;
                bytes += self.geometry.cluster_size;
                match self.geometry.entry(self.image, next)? {
                    FatEntry::Next(cluster) => next = cluster,
                    _ => break,
                }
            }
            if bytes > 0 {
                self.findings.push(Finding::Lost { first, bytes });
            }
        }
        Ok(free)
    }

    /// The number of free clusters that the image says it has, if it says any.
    fn count(&mut self, found: u32) -> Result<(), Error> {
        let Some(at) = self.geometry.info else { return Ok(()) };
        let said = read_u32(self.image, at)?;
        if said != found && said != u32::MAX {
            self.findings.push(Finding::FreeCount { said, found });
        }
        if !self.repairs.is_empty() || said != found {
            // What was put right may have freed some: nobody needs the count.
            self.repairs.push(Repair::Bytes(at, u32::MAX.to_le_bytes().to_vec()));
        }
        Ok(())
    }
}
