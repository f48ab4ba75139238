//! What two checkpoints have in common, and what not.

use crate::chain::{Chain, Piece};
use crate::hash::Hash;
use crate::pages::{Content, Run};
use crate::read::Checkpoint;
use crate::read_at::ReadAt;
use crate::record::Contents;
use monohull_abi::layout::PAGE;
use std::collections::BTreeMap;

/// What differs between two checkpoints.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Comparison {
    /// Records that are not the same, in the order of the sections.
    pub records: Vec<(&'static str, Difference<String>)>,
    /// Pages with the same contents in both.
    pub same_pages: u64,
    /// Pages whose contents differ, or come from places that cannot be compared without other files.
    pub changed_pages: u64,
    /// Pages that are present in the first alone.
    pub removed_pages: u64,
    /// Pages that are present in the second alone.
    pub added_pages: u64,
    /// The runs of pages that are not the same, as addresses and numbers of pages.
    pub changes: Vec<Difference<(u64, u64)>>,
}

/// How one thing differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Difference<T> {
    /// The first has it, the second has not.
    Removed(T),
    /// The second has it, the first has not.
    Added(T),
    /// Both have it, and it is not the same.
    Changed(T),
}

impl Comparison {
    /// Whether they say the same. Names, numbers and times of the checkpoints themselves do not count.
    pub fn is_same(&self) -> bool {
        self.records.is_empty() && self.changes.is_empty()
    }
}

/// Compares two checkpoints. Pages are compared by their hashes, which are those of the contents unless the file is damaged.
pub fn compare<A: ReadAt, B: ReadAt>(a: &Checkpoint<A>, b: &Checkpoint<B>) -> Comparison {
    let b_follows_a = b.contents().identity.parent.as_ref().is_some_and(|parent| parent.digest == a.digest());
    let same_parent =
        a.contents().identity.parent.is_some() && a.contents().identity.parent == b.contents().identity.parent;
    let mut comparison = Comparison { records: records(a.contents(), b.contents()), ..Comparison::default() };
    let here = |run: &Run| Piece { run: *run, link: 0 };
    let (left, right) = (a.runs().iter().map(here), b.runs().iter().map(here));
    comparison.pages(left, right, |(x, in_x), (y, in_y)| {
        match (source(Some(a), x, in_x), source(Some(b), y, in_y)) {
            // The first is what the second takes its pages from.
            (_, Source::Parent) if b_follows_a => true,
            (Source::Parent, Source::Parent) => same_parent,
            (x, y) => x == y,
        }
    });
    comparison
}

/// The same of checkpoints with those that they take pages from. All pages are compared by their contents.
pub fn compare_chains<A: ReadAt, B: ReadAt>(a: &Chain<A>, b: &Chain<B>) -> Comparison {
    let records = records(a.newest().contents(), b.newest().contents());
    let mut comparison = Comparison { records, ..Comparison::default() };
    let (left, right) = (a.pieces().iter().copied(), b.pieces().iter().copied());
    let same_parent = a.last().contents().identity.parent == b.last().contents().identity.parent;
    comparison.pages(left, right, |(x, in_x), (y, in_y)| {
        match (source(a.link(x.link), x, in_x), source(b.link(y.link), y, in_y)) {
            // Of which no file is named.
            (Source::Parent, Source::Parent) => same_parent,
            (x, y) => x == y,
        }
    });
    comparison
}

/// Where a page's contents come from.
#[derive(PartialEq, Eq)]
enum Source {
    Zero,
    Base,
    Parent,
    Here(Option<Hash>),
}

/// Where those of a page of a piece do.
fn source<S: ReadAt>(checkpoint: Option<&Checkpoint<S>>, piece: Piece, page: u64) -> Source {
    match piece.run.content {
        Content::Zero => Source::Zero,
        Content::Base => Source::Base,
        Content::Parent => Source::Parent,
        Content::Here { stored } => Source::Here(checkpoint.and_then(|from| from.page_hash(stored + page))),
    }
}

fn rest(piece: Piece, pages: u64) -> Option<Piece> {
    (pages < piece.run.count).then(|| Piece { run: piece.run.after(pages), ..piece })
}

impl Comparison {
    /// Compares pages; `same` says whether one is as another.
    fn pages(
        &mut self,
        mut left: impl Iterator<Item = Piece>,
        mut right: impl Iterator<Item = Piece>,
        same: impl Fn((Piece, u64), (Piece, u64)) -> bool,
    ) {
        let (mut one, mut other) = (left.next(), right.next());
        loop {
            match (one, other) {
                (None, None) => break,
                (Some(Piece { run, .. }), None) => {
                    self.removed(run.address, run.count);
                    one = left.next();
                }
                (None, Some(Piece { run, .. })) => {
                    self.added(run.address, run.count);
                    other = right.next();
                }
                (Some(x), Some(y)) if x.run.address < y.run.address => {
                    let count = x.run.count.min((y.run.address - x.run.address) / PAGE);
                    self.removed(x.run.address, count);
                    one = rest(x, count).or_else(|| left.next());
                }
                (Some(x), Some(y)) if y.run.address < x.run.address => {
                    let count = y.run.count.min((x.run.address - y.run.address) / PAGE);
                    self.added(y.run.address, count);
                    other = rest(y, count).or_else(|| right.next());
                }
                (Some(x), Some(y)) => {
                    let count = x.run.count.min(y.run.count);
                    for page in 0..count {
                        match same((x, page), (y, page)) {
                            true => self.same_pages += 1,
                            false => self.changed(x.run.address + page * PAGE),
                        }
                    }
                    one = rest(x, count).or_else(|| left.next());
                    other = rest(y, count).or_else(|| right.next());
                }
            }
        }
    }

    fn removed(&mut self, address: u64, count: u64) {
        self.removed_pages += count;
        self.changes.push(Difference::Removed((address, count)));
    }

    fn added(&mut self, address: u64, count: u64) {
        self.added_pages += count;
        self.changes.push(Difference::Added((address, count)));
    }

    fn changed(&mut self, address: u64) {
        self.changed_pages += 1;
        match self.changes.last_mut() {
            Some(Difference::Changed((start, count))) if *start + *count * PAGE == address => *count += 1,
            _ => self.changes.push(Difference::Changed((address, 1))),
        }
    }
}

/// The records that differ, by what they are about.
fn records(a: &Contents, b: &Contents) -> Vec<(&'static str, Difference<String>)> {
    let mut found = Vec::new();
    let mut whole = |kind, same: bool, what: &str| {
        if !same {
            found.push((kind, Difference::Changed(what.to_owned())));
        }
    };
    whole("workflow", a.identity.workflow == b.identity.workflow, "name");
    whole("workflow", a.identity.plan == b.identity.plan, "plan");
    whole("workflow", a.identity.tenant == b.identity.tenant, "tenant");
    whole("host", a.identity.processor == b.identity.processor, "processor");
    by_key(&mut found, "function", &a.functions, &b.functions, |function| function.name.clone());
    by_key(&mut found, "instance", &a.instances, &b.instances, |instance| {
        format!("{}[{}] ({:#x})", instance.step, instance.index, instance.id)
    });
    by_key(&mut found, "thread", &a.threads, &b.threads, |thread| format!("{:#x}", thread.number));
    by_key(&mut found, "mapped file", &a.files, &b.files, |file| format!("{} ({:#x})", file.path, file.start));
    by_key(&mut found, "module", &a.modules, &b.modules, |module| module.name.clone());
    let mut whole = |kind, same: bool| {
        if !same {
            found.push((kind, Difference::Changed(String::new())));
        }
    };
    whole("scheduler", a.scheduler == b.scheduler);
    whole("requests", a.requests == b.requests);
    whole("engine", a.engine == b.engine);
    found
}

fn by_key<T: PartialEq>(
    found: &mut Vec<(&'static str, Difference<String>)>,
    kind: &'static str,
    a: &[T],
    b: &[T],
    key: impl Fn(&T) -> String,
) {
    let left: BTreeMap<String, &T> = a.iter().map(|record| (key(record), record)).collect();
    let mut right: BTreeMap<String, &T> = b.iter().map(|record| (key(record), record)).collect();
    for (key, record) in left {
        match right.remove(&key) {
            None => found.push((kind, Difference::Removed(key))),
            Some(other) if other != record => found.push((kind, Difference::Changed(key))),
            Some(_) => {}
        }
    }
    found.extend(right.into_keys().map(|key| (kind, Difference::Added(key))));
}
