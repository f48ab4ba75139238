//! A checkpoint that has only what changed, together with those before it.
//!
//! ```text
//!   newest        runs   │ stored │ parent      │ zero │ parent │          a page in no run of the newest is not there,
//!                                      │                  │                whatever an older one has
//!   its parent    runs        │ stored │ parent    │    stored     │
//!                                          │
//!   the first     runs        │  stored           │ …                      whole: it has no parent
//! ```
//!
//! Each names the file of the one before it and its digest. The digest covers all contents, so no other file takes its place, and the
//! order cannot be changed. Pages of older ones that the newest does not take are neither read nor checked.

use crate::error::Error;
use crate::pages::{Content, Run};
use crate::read::{Checkpoint, Trust};
use crate::read_at::ReadAt;
use crate::record::Contents;
use monohull_abi::layout::PAGE;
use std::io;
use std::path::PathBuf;

/// A checkpoint and those that it takes pages from.
#[derive(Debug)]
pub struct Chain<S> {
    /// The newest first. There is at least one.
    links: Vec<Checkpoint<S>>,
    pieces: Vec<Piece>,
}

/// Pages that lie one after the other, and in which checkpoint of a chain their contents are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The pages. Their contents are those of a parent only where no file of one is named.
    pub run: Run,
    /// How many checkpoints before the newest.
    pub link: usize,
}

impl<S: ReadAt> Chain<S> {
    /// Reads a checkpoint, and those before it: `open` opens the file with a name, in the folder of the newest. Each must be of the same
    /// origin.
    pub fn read(source: S, trust: Trust<'_>, open: impl FnMut(&str) -> io::Result<S>) -> Result<Chain<S>, Error> {
        Chain::of(Checkpoint::read(source, trust)?, trust, open)
    }

    /// The same of one that has been read.
    pub fn of(
        newest: Checkpoint<S>,
        trust: Trust<'_>,
        mut open: impl FnMut(&str) -> io::Result<S>,
    ) -> Result<Chain<S>, Error> {
        let pieces = newest.runs().iter().map(|run| Piece { run: *run, link: 0 }).collect();
        let mut chain = Chain { links: vec![newest], pieces };
        while let Some((file, parent)) = chain.next_parent(trust, &mut open)? {
            let checked = chain.last().check_parent(&parent).and_then(|()| chain.take_from(&parent));
            chain.pieces = checked.map_err(|error| error.of_ancestor(file))?;
            chain.links.push(parent);
        }
        Ok(chain)
    }

    /// The parent of the oldest one so far, and the name of its file.
    fn next_parent(
        &self,
        trust: Trust<'_>,
        open: &mut impl FnMut(&str) -> io::Result<S>,
    ) -> Result<Option<(String, Checkpoint<S>)>, Error> {
        let Some(record) = &self.last().contents().chain else { return Ok(None) };
        let source = match open(&record.file) {
            Ok(source) => source,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::NoAncestor { file: PathBuf::from(&record.file) });
            }
            Err(source) => return Err(Error::Io { doing: "opening it", source }.of_ancestor(record.file.clone())),
        };
        let parent = Checkpoint::read(source, trust).map_err(|error| error.of_ancestor(record.file.clone()))?;
        let depth = parent.contents().chain.as_ref().map_or(0, |chain| chain.depth);
        if depth + 1 != record.depth {
            let reason = format_args!("there are {depth} checkpoints before it, and not {}", record.depth - 1);
            return Err(Error::wrong("its place in the chain", reason).of_ancestor(record.file.clone()));
        }
        Ok(Some((record.file.clone(), parent)))
    }

    /// The pieces with their contents in this checkpoint where they were in the parent of the one after it.
    fn take_from(&self, parent: &Checkpoint<S>) -> Result<Vec<Piece>, Error> {
        same_workflow(self.last().contents(), parent.contents())?;
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            if piece.run.content != Content::Parent {
                pieces.push(*piece);
                continue;
            }
            let mut rest = Some(piece.run);
            while let Some(run) = rest {
                let there = part_of(parent.runs(), run)?;
                pieces.push(Piece { run: there, link: self.links.len() });
                rest = (there.count < run.count).then(|| run.after(there.count));
            }
        }
        Ok(pieces)
    }

    /// The oldest checkpoint.
    pub(crate) fn last(&self) -> &Checkpoint<S> {
        self.links.last().expect("there is at least one")
    }

    /// The newest checkpoint. What it says is what the workflow is; only pages are taken from others.
    pub fn newest(&self) -> &Checkpoint<S> {
        &self.links[0]
    }

    /// How many bytes the oldest has, and how many those after it.
    pub fn bytes(&self) -> (u64, u64) {
        let others = self.links.iter().rev().skip(1);
        (self.last().bytes(), others.map(Checkpoint::bytes).sum())
    }

    /// How many checkpoints there are before the newest.
    pub fn depth(&self) -> usize {
        self.links.len() - 1
    }

    /// Whether all contents of pages are in it. They are not if a checkpoint has a parent and does not name its file.
    pub fn is_whole(&self) -> bool {
        self.last().contents().identity.parent.is_none()
    }

    /// All pages, by ascending address.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether the run that was captured had touched the first page of a piece: as a rule all of them then.
    pub fn is_active(&self, piece: &Piece) -> bool {
        let link = self.link(piece.link);
        link.is_some_and(|link| matches!(piece.run.content, Content::Here { stored } if stored < link.active_pages()))
    }

    /// The checkpoint so many before the newest.
    pub(crate) fn link(&self, link: usize) -> Option<&Checkpoint<S>> {
        self.links.get(link)
    }

    /// Reads stored pages of a piece, from its first one on, as many as there is room for.
    pub fn read_pages(&self, piece: Piece, room: &mut [u8]) -> Result<(), Error> {
        let none = || Error::wrong(format_args!("page {:#x}", piece.run.address), "it is not stored");
        let (Some(link), Content::Here { stored }) = (self.link(piece.link), piece.run.content) else {
            return Err(none());
        };
        link.read_pages(stored, room).map_err(|error| self.named(piece.link, error))
    }

    /// Reads all stored pages of all checkpoints, and compares each with its hash.
    pub fn verify_pages(&self) -> Result<(), Error> {
        self.links
            .iter()
            .enumerate()
            .try_for_each(|(link, checkpoint)| checkpoint.verify_pages().map_err(|error| self.named(link, error)))
    }

    /// Names the file that an error is of, if it is not the newest.
    fn named(&self, link: usize, error: Error) -> Error {
        let after = link.checked_sub(1).and_then(|after| self.link(after));
        match after.and_then(|after| after.contents().chain.as_ref()) {
            Some(record) => error.of_ancestor(record.file.clone()),
            None => error,
        }
    }
}

impl Error {
    fn of_ancestor(self, file: String) -> Error {
        Error::Ancestor { file: PathBuf::from(file), error: Box::new(self) }
    }
}

/// A parent is of the same workflow with the same images, on the same kind of processor.
fn same_workflow(child: &Contents, parent: &Contents) -> Result<(), Error> {
    let of = |contents: &Contents| {
        let identity = &contents.identity;
        (identity.workflow.clone(), identity.plan, identity.tenant.clone(), contents.functions.clone())
    };
    match of(child) == of(parent) {
        true => Ok(()),
        false => Err(Error::wrong("its workflow", "it is another one than that of the checkpoint after it")),
    }
}

/// As many of the first pages of a run as one of these runs has, and where they are there.
fn part_of(runs: &[Run], run: Run) -> Result<Run, Error> {
    let before = runs.partition_point(|own| own.address <= run.address);
    let own = before.checked_sub(1).map(|index| runs[index]).filter(|own| own.end() > run.address);
    let own = own.ok_or_else(|| lacks(run.address))?;
    let own = own.after((run.address - own.address) / PAGE);
    Ok(Run { count: own.count.min(run.count), ..own })
}

fn lacks(page: u64) -> Error {
    Error::wrong(format_args!("page {page:#x}"), "a later checkpoint takes it from there, and it has none")
}

/// Whether a checkpoint with these runs has all of these pages, which are upwards, so that another one may take them from it. It takes as many steps
/// as there are of both, whatever they are.
pub fn check_unchanged(parent: &[Run], pages: impl IntoIterator<Item = (u64, u64)>) -> Result<(), Error> {
    let (mut parent, mut before) = (parent.iter().peekable(), 0);
    for (address, count) in pages {
        let end = count.checked_mul(PAGE).and_then(|bytes| address.checked_add(bytes));
        let end = end.filter(|_| address >= before && address.is_multiple_of(PAGE));
        let end = end.ok_or_else(|| {
            Error::wrong(format_args!("page {address:#x}"), "it is to be taken from another checkpoint, out of order")
        })?;
        let mut page = address;
        while page < end {
            while parent.next_if(|own| own.end() <= page).is_some() {}
            let own = parent.peek().filter(|own| own.address <= page).ok_or_else(|| lacks(page))?;
            page = own.end();
        }
        before = end;
    }
    Ok(())
}
