//! Trees as records. What the files contain is in pages of its own, as the memory of functions is, so that the next capture has only what
//! has changed.
//!
//! ```text
//!  record    | trees: directories, names, files, free numbers | when files were read, where set | places of chunks, file by file |
//!  pages         behind FILES_BASE, where the places of the chunks say
//! ```
//!
//! Until version 2 the bytes of the files followed in the record, one file after the other.
//!
//! The record has no type that contains itself: a directory names its parent, which comes before it. Numbers of files and
//! directories are kept, because functions see them and descriptors lead to them. What a tree holds is charged again.

use crate::RamFs;
use crate::body::Contents;
use crate::fields::{AccessedRecord, Damage, DirectoryRecord, NameRecord, TreeRecord};
use crate::names::{Directory, Entry};
use crate::nodes::Nodes;
use crate::tree::{DIRECTORIES, Names, OVERHEAD, Tree};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use monohull_abi::file::{MOUNTS_MAX, NAME_MAX};
use monohull_module::record::{RecordsRef, Refused, fields, fields_and_rest, rise};

/// Numbers of directories stay below this; a tree would have to make one each nanosecond for a century to get there.
const NEXT_MAX: u64 = DIRECTORIES + (1 << 62);

impl RamFs {
    pub(crate) fn save_trees(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
        let cells = (0..MOUNTS_MAX).filter_map(|mount| self.trees.get(mount));
        let trees: Vec<&Tree> = cells.filter_map(|cell| cell.get().map(|tree| &**tree)).collect();
        // The names are borrowed until the record is written.
        let names: Vec<_> = trees.iter().map(|tree| tree.names.lock()).collect();
        let described: Vec<TreeRecord<'_>> =
            trees.iter().zip(&names).map(|(tree, names)| tree.describe(names)).collect();
        let of_tree = |tree: &&Tree| {
            let mount = tree.mount;
            tree.nodes.accessed().into_iter().map(move |(place, at)| AccessedRecord { mount, place, at })
        };
        let accessed: Vec<_> = trees.iter().flat_map(of_tree).collect();
        let mut places = Vec::new();
        trees.iter().for_each(|tree| tree.nodes.name_pages(&mut places, records));
        records.write(&(described, accessed, places))
    }

    pub(crate) fn restore_trees(&self, version: u32, record: &[u8], records: RecordsRef<'_>) -> Result<(), Refused> {
        let places: Vec<u32>;
        let (trees, accessed, mut contents): (Vec<TreeRecord<'_>>, Vec<AccessedRecord>, _) = match version {
            1 => fields_and_rest(record).map(|(trees, bytes)| (trees, Vec::new(), Contents::Here(bytes)))?,
            2 => fields_and_rest(record).map(|((trees, accessed), bytes)| (trees, accessed, Contents::Here(bytes)))?,
            _ => {
                let (trees, accessed, all) = fields(record)?;
                places = all;
                (trees, accessed, Contents::Pages(&places, records))
            }
        };
        rise(trees.iter().map(|tree| tree.mount), "the trees")?;
        for record in trees {
            let mount = record.mount;
            let tree = self.tree(mount).map_err(|_| Refused::new(format_args!("mount {mount} is no memory")))?;
            tree.restore(record, &mut contents).map_err(|damage| self.refused(mount, format_args!("{damage}")))?;
        }
        rise(accessed.iter().map(|record| (record.mount, record.place)), "the times of files")?;
        for AccessedRecord { mount, place, at } in accessed {
            let tree = self.trees.get(mount as usize).and_then(|cell| cell.get());
            if !tree.is_some_and(|tree| tree.nodes.restore_accessed(place, at)) {
                return Err(self.refused(mount, format_args!("its record is damaged: a time of file {place}")));
            }
        }
        match contents {
            Contents::Here([]) | Contents::Pages([], _) => Ok(()),
            Contents::Here(bytes) => {
                Err(Refused::new(format_args!("its record has {} bytes behind its end", bytes.len())))
            }
            Contents::Pages(places, _) => {
                Err(Refused::new(format_args!("its record is damaged: it has {} places without chunks", places.len())))
            }
        }
    }

    fn refused(&self, mount: u32, why: fmt::Arguments<'_>) -> Refused {
        let point = self.host.mount(mount).map(|(_, point)| point).unwrap_or_default();
        Refused::new(format_args!("files in memory at `{point}`: {why}"))
    }
}

fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && !matches!(name, "." | "..") && !name.contains(['/', '\0'])
}

impl Tree {
    fn describe<'n>(&self, names: &'n Names) -> TreeRecord<'n> {
        let mut directories = vec![describe(&names.root, 0, "")];
        let mut files = Vec::new();
        let mut open = vec![&names.root];
        let mut at = 0;
        while let Some(directory) = open.get(at).copied() {
            for (name, entry) in &directory.entries {
                match entry {
                    Entry::File(node) => files.push(NameRecord { directory: at as u32, name, place: *node as u32 }),
                    Entry::Directory(inner) => {
                        directories.push(describe(inner, at as u32, name));
                        open.push(inner);
                    }
                }
            }
            at += 1;
        }
        let (places, free) = self.nodes.describe();
        TreeRecord { mount: self.mount, next: names.next, directories, names: files, places, free }
    }

    fn restore(&self, record: TreeRecord<'_>, contents: &mut Contents<'_>) -> Result<(), Damage> {
        let TreeRecord { next, directories, names, places, free, .. } = record;
        let mut made = self.make_directories(next, &directories)?;
        let mut named = vec![None; places.len()];
        for (index, NameRecord { directory, name, place }) in names.into_iter().enumerate() {
            let directory = made.get_mut(directory as usize).filter(|_| is_name(name)).ok_or(Damage::Name(index))?;
            let slot = named.get_mut(place as usize).filter(|slot| slot.is_none()).ok_or(Damage::Name(index))?;
            let generation = places[place as usize].generation;
            *slot = Some(index);
            let node = Nodes::number(generation, place);
            if directory.entries.insert(name.to_string(), Entry::File(node)).is_some() {
                return Err(Damage::Name(index));
            }
        }
        self.nodes.restore(places, free, &named, contents)?;
        // From the last to the first: each is whole when it goes into its parent.
        while made.len() > 1 {
            let (index, Some(directory)) = (made.len() - 1, made.pop()) else { break };
            let DirectoryRecord { parent, name, .. } = directories[index];
            if made[parent as usize].entries.insert(name.to_string(), Entry::Directory(Box::new(directory))).is_some() {
                return Err(Damage::Directory(index));
            }
        }
        let root = made.pop().ok_or(Damage::Directory(0))?;
        *self.names.lock() = Names { root, next };
        Ok(())
    }

    /// The directories, still empty, and charged.
    fn make_directories(&self, next: u64, records: &[DirectoryRecord<'_>]) -> Result<Vec<Directory>, Damage> {
        let mut numbers: Vec<u64> = records.iter().map(|record| record.node).collect();
        numbers.sort_unstable();
        let unique = numbers.windows(2).all(|pair| pair[0] < pair[1]);
        if !unique || next > NEXT_MAX || numbers.last().is_none_or(|last| *last >= next) {
            return Err(Damage::Numbers);
        }
        let mut made = Vec::new();
        for (index, DirectoryRecord { parent, name, node, created, modified }) in records.iter().enumerate() {
            let fits = match index {
                0 => *node == DIRECTORIES && name.is_empty(),
                _ => *node > DIRECTORIES && (*parent as usize) < index && is_name(name),
            };
            if !fits {
                return Err(Damage::Directory(index));
            }
            if index > 0 {
                self.quota.charge(OVERHEAD)?;
            }
            let mut directory = Directory::new(*node, *created);
            directory.modified = *modified;
            made.push(directory);
        }
        Ok(made)
    }
}

fn describe<'n>(directory: &Directory, parent: u32, name: &'n str) -> DirectoryRecord<'n> {
    let Directory { node, created, modified, .. } = *directory;
    DirectoryRecord { parent, name, node, created, modified }
}
