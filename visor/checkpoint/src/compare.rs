//! What two checkpoints have in common, and what not.

use crate::hash::Hash;
use crate::pages::{Content, Run};
use crate::read::{Checkpoint, ReadAt};
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
    let mut comparison = Comparison { records: records(a.contents(), b.contents()), ..Comparison::default() };
    let b_follows_a = b.contents().identity.parent.as_ref().is_some_and(|parent| parent.digest == a.digest());
    let same_parent =
        a.contents().identity.parent.is_some() && a.contents().identity.parent == b.contents().identity.parent;

    let (mut left, mut right) = (a.runs().iter().copied(), b.runs().iter().copied());
    let (mut one, mut other) = (left.next(), right.next());
    loop {
        match (one, other) {
            (None, None) => break,
            (Some(run), None) => {
                comparison.removed(run.address, run.count);
                one = left.next();
            }
            (None, Some(run)) => {
                comparison.added(run.address, run.count);
                other = right.next();
            }
            (Some(x), Some(y)) if x.address < y.address => {
                let count = x.count.min((y.address - x.address) / PAGE);
                comparison.removed(x.address, count);
                one = rest(x, count).or_else(|| left.next());
            }
            (Some(x), Some(y)) if y.address < x.address => {
                let count = y.count.min((x.address - y.address) / PAGE);
                comparison.added(y.address, count);
                other = rest(y, count).or_else(|| right.next());
            }
            (Some(x), Some(y)) => {
                let count = x.count.min(y.count);
                for page in 0..count {
                    let (x, y) = (at(a, x, page), at(b, y, page));
                    let same = match (x, y) {
                        // The first is what the second takes its pages from.
                        (_, Source::Parent) if b_follows_a => true,
                        (Source::Parent, Source::Parent) => same_parent,
                        (x, y) => x == y,
                    };
                    if same {
                        comparison.same_pages += 1;
                    } else {
                        comparison.changed(one.map_or(0, |run| run.address) + page * PAGE);
                    }
                }
                one = rest(x, count).or_else(|| left.next());
                other = rest(y, count).or_else(|| right.next());
            }
        }
    }
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

fn at<S: ReadAt>(checkpoint: &Checkpoint<S>, run: Run, page: u64) -> Source {
    match run.content {
        Content::Zero => Source::Zero,
        Content::Base => Source::Base,
        Content::Parent => Source::Parent,
        Content::Here { stored } => Source::Here(checkpoint.page_hash(stored + page)),
    }
}

fn rest(run: Run, pages: u64) -> Option<Run> {
    (pages < run.count).then(|| run.after(pages))
}

impl Comparison {
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
    by_key(&mut found, "module", &a.modules, &b.modules, |module| module.name.clone());
    let mut whole = |kind, same: bool| {
        if !same {
            found.push((kind, Difference::Changed(String::new())));
        }
    };
    whole("scheduler", a.scheduler == b.scheduler);
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
