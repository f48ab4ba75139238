//! Whether an image is as it should be; what is not, by name; and how to put it right.
//!
//! Every directory claims its clusters, from the root down, and then every file. A chain that runs into a cluster that is claimed
//! already, free, bad or not there ends before it. Clusters in use that are unclaimed are lost.
//!
//! ```text
//!   tree     names: which there are, which of two goes, where directories lie
//!   claims   clusters: the owner of each, and clusters without an owner
//! ```
//!
//! Whatever is in an image, a check comes to its end, and takes memory in proportion to the image.

mod claims;
mod tree;

use crate::directory::{Found, entries};
use crate::{ASIDE, Error, Geometry, Image, ImageMut, read_u32};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use claims::Claims;
use core::ops::Range;

/// A defect.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum Finding {
    #[error("it was not closed: the last program that wrote to it was interrupted")]
    NotClosed,
    #[error("the copies of the FAT differ in {entries} entries")]
    CopiesDiffer {
        /// How many.
        entries: u64,
    },
    #[error("{bytes} bytes belong to no file, from cluster {first} on")]
    Lost {
        /// The first cluster.
        first: u32,
        /// All clusters together.
        bytes: u64,
    },
    #[error("`{path}` has {size} bytes, of which {kept} are there: {why}")]
    Cut {
        /// The file.
        path: String,
        /// The size in its directory entry.
        size: u64,
        /// What can be read.
        kept: u64,
        /// What happened to its chain.
        why: &'static str,
    },
    #[error("the directory `{path}` cannot be read whole: {why}")]
    CutDirectory {
        /// The directory.
        path: String,
        /// What happened to its chain.
        why: &'static str,
    },
    #[error("`{path}` leads back to `{to}`, in which it lies")]
    Circle {
        /// The name that goes.
        path: String,
        /// The directory that it should not lead to.
        to: String,
    },
    #[error("the directory `{path}` has a wrong `.` or `..` entry")]
    WrongLinks {
        /// The directory whose `.` or `..` is wrong.
        path: String,
    },
    #[error("`{path}` has {bytes} bytes of clusters behind its end")]
    Slack {
        /// The file.
        path: String,
        /// Whole clusters behind the end.
        bytes: u64,
    },
    #[error("`{path}` is another name of `{kept}`: a rename was interrupted")]
    Moved {
        /// The name that goes.
        path: String,
        /// The name that stays.
        kept: String,
    },
    #[error("`{path}` is left over: the program that used it temporarily was interrupted")]
    LeftOver {
        /// The file.
        path: String,
    },
    #[error("`{path}` has {slots} pieces of names that belong to nothing")]
    StrayPieces {
        /// The directory.
        path: String,
        /// How many.
        slots: u64,
    },
    #[error("the free-cluster count is {recorded}, {found} clusters are free")]
    FreeCount {
        /// The count in the image.
        recorded: u32,
        /// The count of free entries in the FAT.
        found: u32,
    },
    #[error("{count} more are not named one by one")]
    More {
        /// How many.
        count: u64,
        /// Whether any of them lose bytes of files.
        loses_data: bool,
    },
}

impl Finding {
    /// Whether bytes of a file are lost. The other findings concern space or a count.
    pub fn loses_data(&self) -> bool {
        matches!(self, Finding::Cut { .. } | Finding::CutDirectory { .. } | Finding::More { loses_data: true, .. })
    }
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Where everything is.
    pub geometry: Geometry,
    /// All defects.
    pub findings: Vec<Finding>,
    /// Files that were found.
    pub files: u64,
    /// Directories that were found, the root left out.
    pub directories: u64,
    /// Free clusters.
    pub free: u32,
}

/// Checks the whole image.
pub fn check<I: Image>(image: &I) -> Result<Report, Error> {
    Check::new(image)?.run().map(|(report, _)| report)
}

/// Repairs what [`check`] finds, and reports it. Every file keeps its readable bytes.
pub fn repair<I: ImageMut>(image: &mut I) -> Result<Report, Error> {
    let first = repair_once(image)?;
    // A repair may reveal another finding: of two files that have become empty, for example, one name is superfluous.
    for _ in 1..ROUNDS_MAX {
        if repair_once(image)?.findings.is_empty() {
            break;
        }
    }
    Ok(first)
}

fn repair_once<I: ImageMut>(image: &mut I) -> Result<Report, Error> {
    let (report, repairs) = Check::new(image)?.run()?;
    for repair in repairs {
        repair.make(&report.geometry, image)?;
    }
    Ok(report)
}

/// The temporary files in the root directory that an interrupted program did not remove, except those that share clusters with a
/// named file, as they do for a moment during a rename. They can be removed.
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
    /// Clusters that become free.
    Free(Range<u32>),
    /// Bytes at an offset.
    Bytes(u64, Vec<u8>),
}

impl Repair {
    fn make(self, geometry: &Geometry, image: &mut impl ImageMut) -> Result<(), Error> {
        match self {
            Repair::Bytes(offset, bytes) => image.write(offset, &bytes),
            Repair::Free(mut clusters) => {
                clusters.try_for_each(|cluster| Repair::Entry(cluster, 0).make(geometry, image))
            }
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

/// The first byte of a slot that is free again.
const GONE: u8 = 0xe5;
/// Most passes of a repair.
const ROUNDS_MAX: u32 = 8;
/// Most findings that are named one by one.
const NAMED_MAX: usize = 1000;

struct Check<'i, I> {
    image: &'i I,
    geometry: Geometry,
    claims: Claims,
    findings: Vec<Finding>,
    repairs: Vec<Repair>,
}

impl<'i, I: Image> Check<'i, I> {
    fn new(image: &'i I) -> Result<Check<'i, I>, Error> {
        let geometry = Geometry::read(image)?;
        Ok(Check { image, geometry, claims: Claims::new(&geometry), findings: Vec::new(), repairs: Vec::new() })
    }

    fn run(mut self) -> Result<(Report, Vec<Repair>), Error> {
        self.mark()?;
        self.copies()?;
        let (files, directories) = self.tree()?;
        let free = self.lost()?;
        self.count(free)?;
        let Check { geometry, findings, repairs, .. } = self;
        Ok((Report { geometry, findings, files, directories, free }, repairs))
    }

    fn found(&mut self, finding: Finding) {
        let room = self.findings.len() < NAMED_MAX;
        match self.findings.last_mut() {
            Some(Finding::More { count, loses_data }) => {
                *count += 1;
                *loses_data |= finding.loses_data();
            }
            _ if room => self.findings.push(finding),
            _ => self.findings.push(Finding::More { count: 1, loses_data: finding.loses_data() }),
        }
    }

    fn mark(&mut self) -> Result<(), Error> {
        let mut flags = [0];
        self.image.read(self.geometry.dirty_flag(), &mut flags)?;
        if flags[0] & 1 != 0 {
            self.found(Finding::NotClosed);
            self.repairs.push(Repair::Bytes(self.geometry.dirty_flag(), vec![flags[0] & !1]));
        }
        Ok(())
    }

    /// The first FAT is authoritative; the others should be equal.
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
            self.found(Finding::CopiesDiffer { entries });
        }
        Ok(())
    }

    /// Finds unclaimed clusters in use; returns the number of free clusters.
    fn lost(&mut self) -> Result<u32, Error> {
        let lost = self.claims.lost(&self.geometry, self.image)?;
        self.repairs.extend(lost.clusters.into_iter().map(Repair::Free));
        for (first, bytes) in lost.chains {
            self.found(Finding::Lost { first, bytes });
        }
        Ok(lost.free)
    }

    /// The free-cluster count of the image, if it has one.
    fn count(&mut self, found: u32) -> Result<(), Error> {
        let Some(at) = self.geometry.info else { return Ok(()) };
        let recorded = read_u32(self.image, at)?;
        if recorded != found && recorded != u32::MAX {
            self.found(Finding::FreeCount { recorded, found });
        }
        if !self.repairs.is_empty() || recorded != found {
            // Repairs may have freed some, and the count is optional.
            self.repairs.push(Repair::Bytes(at, u32::MAX.to_le_bytes().to_vec()));
        }
        Ok(())
    }
}
