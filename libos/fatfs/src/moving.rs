//! Files that lose their name, or get another, while they are open.
//!
//! FAT has nothing but names: a file is identified by its slot in a directory. So an open file that is removed gets a hidden name, and
//! one that is renamed is looked up again.

use crate::file::File;
use crate::files::Place;
use crate::image::{Mapped, errno_of, errno_of_damage};
use crate::volume::Volume;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use monohull_abi::Errno;
use monohull_fat::edit::{Editor, Move};
use monohull_fat::{ASIDE, Found, find};

impl Volume {
    pub(crate) fn remove_file(&self, path: &str) -> Result<(), Errno> {
        // Against a close that finds no other descriptor of the file, and others that move it.
        let mut editor = self.editor.lock();
        let entry = self.find_entry(path)?;
        if entry.directory {
            return Err(Errno::IsDirectory);
        }
        match self.files.at(entry.slot) {
            None => editor.remove(path).map_err(errno_of),
            Some(node) => self.hide(&mut editor, path, node),
        }
    }

    /// Gives an open file a hidden name.
    fn hide(&self, editor: &mut Editor<Mapped>, path: &str, node: u64) -> Result<(), Errno> {
        let name = self.hidden_name();
        self.files.place(node)?.write(node, |file| {
            let change = Move { from: path, to: &name, replaced: false, hidden: None };
            editor.rename(&change).map_err(errno_of)?;
            file.named = false;
            self.settle(node, file, &name)
        })
    }

    /// An unused hidden name.
    fn hidden_name(&self) -> String {
        loop {
            let name = format!("{ASIDE}{}", self.next_removed.fetch_add(1, Ordering::Relaxed));
            if !matches!(find(&self.geometry, &self.image, &name), Ok(Found::Entry(_))) {
                return name;
            }
        }
    }

    /// A file's slot has moved: finds it under its new path.
    fn settle(&self, node: u64, file: &mut File, path: &str) -> Result<(), Errno> {
        let found = find(&self.geometry, &self.image, path).map_err(errno_of_damage)?;
        let Found::Entry(entry) = found else { return Err(Errno::Io) };
        self.files.moved(node, file.slot, entry.slot);
        file.slot = entry.slot;
        file.path = path.to_owned();
        Ok(())
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        // What is found is not moved by others until it is.
        let mut editor = self.editor.lock();
        let moved = self.find_entry(from)?;
        if from == to {
            return Ok(());
        }
        if moved.directory && self.leads_through(to, moved.cluster) {
            return Err(Errno::Invalid);
        }
        self.check_parent(to)?;
        let replaced = match self.find(to) {
            Ok(Found::Root) => return Err(Errno::Busy),
            Ok(Found::Entry(entry)) => Some(entry),
            Err(Errno::NotFound) => None,
            Err(errno) => return Err(errno),
        };
        // Another way to write the same name replaces nothing.
        let replaced = replaced.filter(|entry| entry.slot != moved.slot);
        match replaced.as_ref().map(|replaced| (moved.directory, replaced)) {
            Some((true, replaced)) if !replaced.directory => return Err(Errno::NotDirectory),
            Some((false, replaced)) if replaced.directory => return Err(Errno::IsDirectory),
            Some((true, replaced)) => self.check_empty(replaced.clone())?,
            _ => {}
        }
        let moved_node = self.files.at(moved.slot);
        let replaced_node = replaced.as_ref().and_then(|entry| self.files.at(entry.slot));
        // Slots of open files must not be written while they move.
        let lock = |node| self.files.place(node).map(Place::lock);
        let mut moved_file = moved_node.map(lock).transpose()?;
        let mut replaced_file = replaced_node.map(lock).transpose()?;
        let hidden = replaced_node.map(|_| self.hidden_name());
        let hidden = hidden.as_deref();
        let change = Move { from, to, replaced: replaced.is_some(), hidden };
        let below = if moved.directory { self.open_below(moved.slot)? } else { Vec::new() };
        editor.rename(&change).map_err(errno_of)?;
        if let (Some(node), Some(content), Some(hidden)) = (replaced_node, &mut replaced_file, hidden) {
            let file = content.get_mut(node)?;
            file.named = false;
            self.settle(node, file, hidden)?;
        }
        if let (Some(node), Some(content)) = (moved_node, &mut moved_file) {
            self.settle(node, content.get_mut(node)?, to)?;
        }
        drop((moved_file, replaced_file));
        for (node, rest) in below {
            self.files.place(node)?.write(node, |file| {
                file.path = format!("{to}{rest}");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Whether a path leads through the directory with this cluster, by whatever name.
    fn leads_through(&self, path: &str, cluster: u32) -> bool {
        let here = |at| matches!(self.find(&path[..at]), Ok(Found::Entry(entry)) if entry.cluster == cluster);
        path.match_indices('/').any(|(at, _)| here(at))
    }

    /// The open files below the directory with this slot, and what of their paths comes after it.
    fn open_below(&self, slot: u64) -> Result<Vec<(u64, String)>, Errno> {
        let mut below = Vec::new();
        for node in self.files.all() {
            let path = self.files.place(node)?.read(node, |file| Ok(file.path.clone()))?;
            if let Some(len) = self.way_through(&path, slot) {
                below.push((node, path[len..].to_owned()));
            }
        }
        Ok(below)
    }

    /// How much of a path leads to the directory with this slot, if the path goes on from there. Spelling does not matter: case
    /// does not count, and a long name has a short one too.
    fn way_through(&self, path: &str, slot: u64) -> Option<usize> {
        let here = |at: &usize| matches!(self.find(&path[..*at]), Ok(Found::Entry(entry)) if entry.slot == slot);
        path.match_indices('/').map(|(at, _)| at).find(here)
    }
}
