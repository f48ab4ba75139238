//! Names: every file and directory, from the root down.
//!
//! Directories claim their clusters before files, because a lost directory loses everything in it. An entry that is marked as a
//! directory but does not look like one comes after both: its clusters may hold a file's bytes.

use super::claims::Claim;
use super::{Check, Finding, GONE, Repair};
use crate::directory::{BYTES_MAX, Entry, FLAGS, MOVED, SLOT, Slots, entries_in_slots, stray_pieces};
use crate::{ASIDE, Error, Geometry, Image, name};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// The root directory, among all that has a name.
const ROOT: usize = 0;
/// Most bytes of a path that are shown; longer paths cannot be opened.
const PATH_SHOWN: usize = 4096;
/// Names of the two slots with which a directory begins.
const DOT: [u8; 11] = *b".          ";
const DOT_DOT: [u8; 11] = *b"..         ";

/// A file or directory, and where its name is.
struct Named {
    /// The directory in which it was found.
    parent: usize,
    name: String,
    directory: bool,
    /// Its first cluster; 0 if it has none.
    cluster: u32,
    size: u64,
    /// All its slots; that of the short name is the last.
    slots: Vec<u64>,
    /// A temporary file.
    aside: bool,
    /// It is marked as renamed: it has another name.
    moved: bool,
    /// It is a file whose clusters have been claimed, as far as its chain is valid.
    claimed: bool,
    /// Its name is removed.
    goes: bool,
}

/// How a directory begins.
#[derive(PartialEq, Eq)]
enum Beginning {
    /// With correct `.` and `..` entries.
    Right,
    /// One of them is missing or wrong.
    Doubtful,
    /// Not like a directory.
    Wrong,
}

/// All names that have been found.
struct Tree {
    all: Vec<Named>,
    /// The owner of each chain, by its first cluster.
    owners: BTreeMap<u32, usize>,
    /// What is called the same in a directory, as FAT compares names: the slots, in their order.
    namesakes: BTreeMap<(usize, String), Vec<u64>>,
}

impl<I: Image> Check<'_, I> {
    /// Every directory and then every file: how many there are of each, files first.
    pub(super) fn tree(&mut self) -> Result<(u64, u64), Error> {
        let (mut tree, root) = (Tree::new(self.geometry.root_cluster), self.root()?);
        let (mut open, mut doubtful) = (vec![(ROOT, root)], Vec::new());
        let (mut files, mut aside) = (Vec::new(), Vec::new());
        loop {
            while let Some((directory, clusters)) = open.pop() {
                for index in self.list(&mut tree, directory, &clusters)? {
                    if self.is_second_name(&mut tree, index) {
                        continue;
                    }
                    if !tree.all[index].directory {
                        files.push(index);
                        continue;
                    }
                    match self.beginning(&tree.all[index])? {
                        Beginning::Right => open.extend(self.directory(&mut tree, index)?),
                        Beginning::Doubtful => doubtful.push(index),
                        Beginning::Wrong => self.forget(&mut tree, index, "what is there is no directory"),
                    }
                }
            }
            for index in files.drain(..).filter(|index| !tree.all[*index].goes).collect::<Vec<_>>() {
                if tree.all[index].aside {
                    aside.push(index);
                } else {
                    self.file(&mut tree, index)?;
                }
            }
            let Some(index) = doubtful.pop() else { break };
            open.extend(self.directory(&mut tree, index)?);
        }
        for index in aside {
            self.left_over(&mut tree, index)?;
        }
        self.links(&tree)?;
        let count =
            |directory| tree.all[1..].iter().filter(|named| named.directory == directory && !named.goes).count();
        Ok((count(false) as u64, count(true) as u64))
    }

    /// The clusters of the root directory; none if it lies in an area of its own.
    fn root(&mut self) -> Result<Vec<u32>, Error> {
        let first = self.geometry.root_cluster;
        if self.geometry.root_bytes > 0 {
            return Ok(Vec::new());
        }
        let claim = self.claim_directory(first)?;
        // Without a root everything would be lost: that is not put right by making it so.
        if claim.clusters.is_empty() {
            return Err(Error::Damaged("the root directory is not there"));
        }
        if self.slot_name(self.geometry.offset(first)?)? == DOT {
            return Err(Error::Damaged("another directory has the root directory's cluster"));
        }
        if let Some(why) = claim.broken {
            self.found(Finding::CutDirectory { path: "/".into(), why });
        }
        Ok(claim.clusters)
    }

    /// Enters what is in a directory that has these clusters.
    fn list(&mut self, tree: &mut Tree, parent: usize, clusters: &[u32]) -> Result<Vec<usize>, Error> {
        let slots = || {
            let slots = Slots::of(&self.geometry, self.image, clusters);
            if parent == ROOT { slots } else { slots.map(Slots::behind_links) }
        };
        let mut found = Vec::new();
        let listed = entries_in_slots(&self.geometry, slots()?, |entry, slots| {
            found.push((entry, slots.to_vec()));
            true
        });
        let stray = listed.and_then(|()| stray_pieces(slots()?))?;
        if !stray.is_empty() {
            self.repairs.extend(stray.iter().map(|slot| Repair::Bytes(*slot, vec![GONE])));
            let path = format!("{}/", tree.path(parent));
            self.found(Finding::StrayPieces { path, slots: stray.len() as u64 });
        }
        let first = tree.all.len();
        for (Entry { name, slot, directory, cluster, size, .. }, slots) in found {
            let mut flags = [0];
            self.image.read(slot + FLAGS, &mut flags)?;
            let aside = parent == ROOT && !directory && name.starts_with(ASIDE);
            let moved = flags[0] & MOVED != 0;
            tree.namesakes.entry((parent, name::folded(&name))).or_default().push(slot);
            tree.all.push(Named {
                parent,
                name,
                directory,
                cluster,
                size,
                slots,
                aside,
                moved,
                claimed: false,
                goes: false,
            });
        }
        Ok((first..tree.all.len()).collect())
    }

    /// Whether something that has been found goes, because it leads to what another name led to: a name was being changed, and one of
    /// the two goes, so that it is as before the change or as after it. Or it leads to a directory in which it lies.
    fn is_second_name(&mut self, tree: &mut Tree, index: usize) -> bool {
        let named = &tree.all[index];
        if named.goes {
            return true;
        }
        let first = match (named.cluster, named.directory) {
            (0, true) => ROOT,
            (0, false) => {
                // Empty files have no clusters that identify them.
                let goes = tree.is_hidden(named);
                if goes {
                    let path = tree.path(index);
                    self.give_up(tree, index, Finding::Moved { kept: path.clone(), path });
                }
                return goes;
            }
            (cluster, _) => *tree.owners.entry(cluster).or_insert(index),
        };
        let owner = &tree.all[first];
        if owner.goes {
            tree.owners.insert(named.cluster, index);
            return false;
        }
        if first == index || (owner.directory, owner.size) != (named.directory, named.size) {
            // Its own, or it runs into something else.
            return false;
        }
        if named.directory && tree.lies_in(index, first) {
            let (path, to) = (tree.path(index), tree.path(first));
            self.give_up(tree, index, Finding::Circle { path, to: if to.is_empty() { "/".into() } else { to } });
            return true;
        }
        // What is replaced and what replaces it may both be there: the name stays with the one that it has led to. If only one is, the old
        // name has to go.
        let ranks = |named: &Named| (tree.is_hidden(named), !tree.hides(named), named.moved, named.aside);
        if !owner.claimed && ranks(owner) > ranks(named) {
            // Whatever was found in it is in it still, by its other name.
            tree.all.swap(first, index);
        }
        let (path, kept) = (tree.path(index), tree.path(first));
        self.give_up(tree, index, Finding::Moved { path, kept });
        self.give_up_replaced(tree, first);
        true
    }

    /// Takes away what has the name of a file that was being moved, and was to be replaced by it: the name leads to the moved one already.
    fn give_up_replaced(&mut self, tree: &mut Tree, kept: usize) {
        if !tree.hides(&tree.all[kept]) {
            return;
        }
        let (parent, path) = (tree.all[kept].parent, tree.path(kept));
        let key = (parent, name::folded(&tree.all[kept].name));
        let slots = tree.namesakes.insert(key, vec![tree.all[kept].slot()]).unwrap_or_default();
        let hidden: BTreeSet<u64> = slots.into_iter().skip(1).collect();
        let is_hidden = |named: &Named| named.parent == parent && !named.directory && hidden.contains(&named.slot());
        let replaced: Vec<usize> = (0..tree.all.len()).filter(|index| is_hidden(&tree.all[*index])).collect();
        for index in replaced {
            self.give_up(tree, index, Finding::Moved { path: path.clone(), kept: path.clone() });
        }
    }

    /// Takes a name away, the slot that counts first.
    fn give_up(&mut self, tree: &mut Tree, index: usize, finding: Finding) {
        let named = &mut tree.all[index];
        named.goes = true;
        if let Some(slots) = tree.namesakes.get_mut(&(named.parent, name::folded(&named.name))) {
            slots.retain(|slot| *slot != named.slot());
        }
        self.repairs.extend(named.slots.iter().rev().map(|slot| Repair::Bytes(*slot, vec![GONE])));
        self.found(finding);
    }

    /// Takes away the name of a directory of which nothing else is left.
    fn forget(&mut self, tree: &mut Tree, index: usize, why: &'static str) {
        let path = tree.path(index);
        self.give_up(tree, index, Finding::CutDirectory { path, why });
    }

    /// Claims a directory; what is to be looked into: all that could be claimed of it.
    fn directory(&mut self, tree: &mut Tree, index: usize) -> Result<Option<(usize, Vec<u32>)>, Error> {
        let claim = self.claim_directory(tree.all[index].cluster)?;
        let Some(why) = claim.broken else { return Ok(Some((index, claim.clusters))) };
        if claim.clusters.is_empty() {
            self.forget(tree, index, why);
            return Ok(None);
        }
        self.found(Finding::CutDirectory { path: tree.path(index), why });
        Ok(Some((index, claim.clusters)))
    }

    fn claim_directory(&mut self, first: u32) -> Result<Claim, Error> {
        self.claim(first, (BYTES_MAX / self.geometry.cluster_size).max(1) as usize)
    }

    /// Claims a chain; one that is broken ends where it breaks.
    fn claim(&mut self, first: u32, most: usize) -> Result<Claim, Error> {
        let claim = self.claims.claim(&self.geometry, self.image, first, most)?;
        if let (Some(_), Some(last)) = (claim.broken, claim.clusters.last()) {
            self.repairs.push(Repair::Entry(*last, Geometry::END));
        }
        Ok(claim)
    }

    fn beginning(&self, named: &Named) -> Result<Beginning, Error> {
        // A chain without a directory is free to be claimed.
        let Ok(start) = self.geometry.offset(named.cluster) else { return Ok(Beginning::Doubtful) };
        let (dot, dot_dot) = (self.slot_name(start)?, self.slot_name(start + SLOT)?);
        Ok(match (dot == DOT, dot_dot == DOT_DOT) {
            (true, true) if self.link(start)? == named.cluster => Beginning::Right,
            (false, false) if dot[0] != 0 => Beginning::Wrong,
            _ => Beginning::Doubtful,
        })
    }

    /// The `.` and `..` entries of directories.
    fn links(&mut self, tree: &Tree) -> Result<(), Error> {
        for (index, named) in tree.all.iter().enumerate().skip(1).filter(|(_, named)| named.directory && !named.goes) {
            let start = self.geometry.offset(named.cluster)?;
            let parent = tree.all[named.parent].cluster;
            let parents = if named.parent == ROOT { [0, parent] } else { [parent; 2] };
            let names = [self.slot_name(start)?, self.slot_name(start + SLOT)?] == [DOT, DOT_DOT];
            if names && self.link(start)? == named.cluster && parents.contains(&self.link(start + SLOT)?) {
                continue;
            }
            self.found(Finding::WrongLinks { path: tree.path(index) });
            for (slot, name, cluster) in [(start, DOT, named.cluster), (start + SLOT, DOT_DOT, parents[0])] {
                let mut bytes = [0; SLOT as usize];
                self.image.read(slot, &mut bytes)?;
                if bytes[..11] != name {
                    bytes = [0; SLOT as usize];
                    bytes[..11].copy_from_slice(&name);
                    bytes[11] = 0x10;
                }
                bytes[20..22].copy_from_slice(&cluster.to_le_bytes()[2..]);
                bytes[26..28].copy_from_slice(&cluster.to_le_bytes()[..2]);
                self.repairs.push(Repair::Bytes(slot, bytes.to_vec()));
            }
        }
        Ok(())
    }

    /// Claims a file that was there for a while, if it is still one, and gives back what it has.
    fn left_over(&mut self, tree: &mut Tree, index: usize) -> Result<(), Error> {
        let clusters = self.file(tree, index)?;
        if tree.all[index].aside && !tree.all[index].goes {
            self.repairs.extend(clusters.into_iter().map(|cluster| Repair::Entry(cluster, 0)));
            let path = tree.path(index);
            self.give_up(tree, index, Finding::LeftOver { path });
        }
        Ok(())
    }

    /// Claims a file; gives the clusters that are its own.
    fn file(&mut self, tree: &mut Tree, index: usize) -> Result<Vec<u32>, Error> {
        tree.all[index].claimed = true;
        let named = &tree.all[index];
        let (cluster_size, slot) = (self.geometry.cluster_size, named.slot());
        let Claim { mut clusters, broken } = self.claim(named.cluster, usize::MAX)?;
        let capacity = clusters.len() as u64 * cluster_size;
        let kept = named.size.min(capacity);
        if broken.is_some() || kept < named.size {
            let why = broken.unwrap_or("its chain ends before");
            self.found(Finding::Cut { path: tree.path(index), size: named.size, kept, why });
            self.repairs.push(Repair::Bytes(slot + 28, (kept as u32).to_le_bytes().to_vec()));
        }
        let needed = kept.div_ceil(cluster_size) as usize;
        if clusters.len() > needed {
            let bytes = (clusters.len() - needed) as u64 * cluster_size;
            self.found(Finding::Slack { path: tree.path(index), bytes });
            if let Some(last) = needed.checked_sub(1) {
                self.repairs.push(Repair::Entry(clusters[last], Geometry::END));
            }
            self.repairs.extend(clusters.drain(needed..).map(|cluster| Repair::Entry(cluster, 0)));
        }
        if needed == 0 && named.cluster != 0 {
            self.repairs.push(Repair::Bytes(slot + 26, vec![0; 2]));
            if self.geometry.root_bytes == 0 {
                self.repairs.push(Repair::Bytes(slot + 20, vec![0; 2]));
            }
        }
        Ok(clusters)
    }

    fn slot_name(&self, slot: u64) -> Result<[u8; 11], Error> {
        let mut name = [0; 11];
        self.image.read(slot, &mut name)?;
        Ok(name)
    }

    /// The first cluster that a slot has.
    fn link(&self, slot: u64) -> Result<u32, Error> {
        crate::first_cluster(&self.geometry, self.image, slot)
    }
}

impl Tree {
    /// The root alone.
    fn new(cluster: u32) -> Tree {
        let root = Named {
            parent: ROOT,
            name: String::new(),
            directory: true,
            cluster,
            size: 0,
            slots: Vec::new(),
            aside: false,
            moved: false,
            claimed: false,
            goes: false,
        };
        let owners = if cluster == 0 { BTreeMap::new() } else { BTreeMap::from([(cluster, ROOT)]) };
        Tree { all: vec![root], owners, namesakes: BTreeMap::new() }
    }

    /// The path of a name; only its end if it is too long.
    fn path(&self, index: usize) -> String {
        let (mut at, mut path) = (index, String::new());
        while at != ROOT && path.len() < PATH_SHOWN {
            path = format!("/{}{path}", self.all[at].name);
            at = self.all[at].parent;
        }
        if at == ROOT { path } else { format!("…{path}") }
    }

    /// The slots of what has this name in its directory: it leads to the first.
    fn namesakes(&self, named: &Named) -> &[u64] {
        self.namesakes.get(&(named.parent, name::folded(&named.name))).map_or(&[], Vec::as_slice)
    }

    /// Whether the name leads to something else. Of directories none is preferred: what is in either is kept.
    fn is_hidden(&self, named: &Named) -> bool {
        match self.namesakes(named) {
            [first, _, ..] => *first != named.slot() || named.directory,
            _ => false,
        }
    }

    /// Whether the name leads to this file, and another one has it.
    fn hides(&self, named: &Named) -> bool {
        matches!(self.namesakes(named), [first, _, ..] if *first == named.slot() && !named.directory)
    }

    /// Whether something lies in a directory, or in one that lies there.
    fn lies_in(&self, index: usize, directory: usize) -> bool {
        let mut at = index;
        while at != ROOT && at != directory {
            at = self.all[at].parent;
        }
        at == directory
    }
}

impl Named {
    fn slot(&self) -> u64 {
        self.slots.last().copied().unwrap_or_default()
    }
}
