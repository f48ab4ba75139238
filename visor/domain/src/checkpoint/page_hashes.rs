//! The hashes of the pages that a capture has looked at.
//!
//! ```text
//!   Hashes ─ address ─▶ Node: of each page, whether it has a hash or is as in a fresh mapping ─▶ Leaf: the hashes
//!                       16 MiB, two bits a page                                                  256 KiB, 16 bytes a page
//! ```
//!
//! Two captures share the nodes and leaves in which they do not differ. So a capture takes over what has not been written to without
//! a look at each page: a node that it has from the latest one, and which the one that it is compared with has as well, is one pointer.

use monohull_abi::layout::PAGE;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;

/// By address. A leaf has the hashes of `LEAF` pages, at most 64, and a node has `LEAVES` leaves.
#[derive(Clone, Default)]
pub(super) struct Hashes<const LEAF: usize, const LEAVES: usize>(BTreeMap<u64, Arc<Node<LEAF, LEAVES>>>);

/// One bit for each page of each leaf. A page with neither bit has not been looked at.
#[derive(Clone)]
struct Node<const LEAF: usize, const LEAVES: usize> {
    /// It has a hash.
    hashed: [u64; LEAVES],
    /// It is as in a fresh mapping.
    fresh: [u64; LEAVES],
    /// None has hashes of pages without that bit, which mean nothing.
    leaves: [Option<Arc<[u128; LEAF]>>; LEAVES],
}

/// What becomes of a run of pages that have not been written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unwritten {
    /// They are as in the capture that this one is compared with.
    Unchanged,
    /// They have to be read.
    Unknown,
}

impl<const LEAF: usize, const LEAVES: usize> Node<LEAF, LEAVES> {
    fn empty() -> Self {
        Node { hashed: [0; LEAVES], fresh: [0; LEAVES], leaves: [const { None }; LEAVES] }
    }

    fn hash(&self, (leaf, page): (usize, usize)) -> Option<u128> {
        let hashes = self.leaves[leaf].as_deref().filter(|_| self.hashed[leaf] & (1 << page) != 0)?;
        Some(hashes[page])
    }

    /// Which of these pages of a leaf have the same hash here and there.
    fn same(&self, other: &Self, leaf: usize, pages: u64) -> u64 {
        let both = pages & self.hashed[leaf] & other.hashed[leaf];
        match (&self.leaves[leaf], &other.leaves[leaf]) {
            (Some(one), Some(other)) if !Arc::ptr_eq(one, other) => {
                let same = bits(both).filter(|page| one[*page] == other[*page]);
                same.fold(0, |same, page| same | 1 << page)
            }
            (Some(_), Some(_)) => both,
            _ => 0,
        }
    }

    /// Takes over pages of a leaf: those that have a hash there, and those that are as in a fresh mapping.
    fn take_over(&mut self, from: &Self, leaf: usize, hashed: u64, fresh: u64) {
        let had = self.hashed[leaf];
        self.hashed[leaf] = (had | hashed) & !fresh;
        self.fresh[leaf] = (self.fresh[leaf] | fresh) & !hashed;
        let Some(hashes) = from.leaves[leaf].as_ref().filter(|_| hashed != 0) else { return };
        match &mut self.leaves[leaf] {
            Some(own) if had != 0 => {
                let own = Arc::make_mut(own);
                bits(hashed).for_each(|page| own[page] = hashes[page]);
            }
            own => *own = Some(hashes.clone()),
        }
    }
}

impl<const LEAF: usize, const LEAVES: usize> Hashes<LEAF, LEAVES> {
    const NODE: u64 = (LEAF * LEAVES) as u64 * PAGE;

    /// Its node, and its leaf and place there.
    fn place(page: u64) -> (u64, (usize, usize)) {
        let in_node = (page % Self::NODE / PAGE) as usize;
        (page / Self::NODE, (in_node / LEAF, in_node % LEAF))
    }

    /// The hash of a page; `None` too if it is as in a fresh mapping.
    pub(super) fn hash(&self, page: u64) -> Option<u128> {
        let (node, place) = Self::place(page);
        self.0.get(&node)?.hash(place)
    }

    /// The page has been looked at. Without a hash it is as in a fresh mapping.
    pub(super) fn set(&mut self, page: u64, hash: Option<u128>) {
        let (node, (leaf, page)) = Self::place(page);
        let node = Arc::make_mut(self.0.entry(node).or_insert_with(|| Arc::new(Node::empty())));
        let (has, has_not) = match hash {
            Some(hash) => {
                let hashes = node.leaves[leaf].get_or_insert_with(|| Arc::new([0; LEAF]));
                Arc::make_mut(hashes)[page] = hash;
                (&mut node.hashed, &mut node.fresh)
            }
            None => (&mut node.fresh, &mut node.hashed),
        };
        has[leaf] |= 1 << page;
        has_not[leaf] &= !(1 << page);
    }

    /// Pages have not been written to since the latest capture. Takes over those that it has as the base has them, or as they are in a
    /// fresh mapping, and tells of the former and of those that have to be read: runs of each, upwards.
    pub(super) fn take_over(
        &mut self,
        pages: Range<u64>,
        latest: &Self,
        base: &Self,
        mut tell: impl FnMut(Range<u64>, Unwritten),
    ) {
        let mut at = pages.start;
        while at < pages.end {
            let (index, _) = Self::place(at);
            let part = at..pages.end.min((index + 1) * Self::NODE);
            at = part.end;
            let Some(from) = latest.0.get(&index) else {
                tell(part, Unwritten::Unknown);
                continue;
            };
            let before = base.0.get(&index);
            let is_as_before = before.is_some_and(|before| Arc::ptr_eq(before, from));
            let mut node = match self.0.entry(index) {
                Entry::Vacant(vacant) if is_as_before && part.end - part.start == Self::NODE => {
                    vacant.insert(from.clone());
                    None
                }
                entry => Some(Arc::make_mut(entry.or_insert_with(|| Arc::new(Node::empty())))),
            };
            let first = index * Self::NODE;
            let mut tell_all = |leaf: usize, bits: u64, what| {
                let leaf = first + (leaf * LEAF) as u64 * PAGE;
                for run in runs(bits) {
                    tell(leaf + run.start * PAGE..leaf + run.end * PAGE, what);
                }
            };
            let of_node = ((part.start - first) / PAGE) as usize..((part.end - first) / PAGE) as usize;
            for leaf in of_node.start / LEAF..of_node.end.div_ceil(LEAF) {
                let start = of_node.start.saturating_sub(leaf * LEAF);
                let asked = mask(start..(of_node.end - leaf * LEAF).min(LEAF));
                let same = before.map_or(0, |before| from.same(before, leaf, asked));
                let fresh = asked & from.fresh[leaf];
                if let Some(node) = &mut node {
                    node.take_over(from, leaf, same, fresh);
                }
                tell_all(leaf, same, Unwritten::Unchanged);
                tell_all(leaf, asked & !same & !fresh, Unwritten::Unknown);
            }
        }
    }
}

/// Ones at these places, of which there is at least one.
fn mask(places: Range<usize>) -> u64 {
    (u64::MAX >> (64 - (places.end - places.start))) << places.start
}

/// The places of the ones.
fn bits(bits: u64) -> impl Iterator<Item = usize> {
    runs(bits).flatten().map(|place| place as usize)
}

/// Runs of ones.
fn runs(mut bits: u64) -> impl Iterator<Item = Range<u64>> {
    std::iter::from_fn(move || {
        let start = (bits != 0).then(|| bits.trailing_zeros())?;
        let count = (bits >> start).trailing_ones();
        bits &= !mask(start as usize..(start + count) as usize);
        Some(start.into()..(start + count).into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::random::Random;

    /// What is known of a page, by number: its hash, or that it is as in a fresh mapping.
    type Model = BTreeMap<u64, Option<u128>>;

    /// Whatever is set and taken over, each capture knows what a list of all pages would.
    fn hashes_are_those_of_a_list<const LEAF: usize, const LEAVES: usize>(rounds: u32) {
        let pages = (LEAF * LEAVES) as u64 * 7 / 2 + 9;
        // Not where a node begins.
        let first = Hashes::<LEAF, LEAVES>::NODE * 3 + 5 * PAGE;
        let address = |page: u64| first + page * PAGE;
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let nothing = || (Model::new(), Hashes::<LEAF, LEAVES>::default());
        let (mut latest, mut base) = (nothing(), nothing());
        let (mut unchanged, mut read) = (0, 0);
        for round in 0..rounds {
            let mut next = nothing();
            let mut page = random.below(9);
            while page < pages {
                // Runs as long as a node, and others within a leaf.
                let most = if random.below(3) == 0 { pages } else { LEAF as u64 };
                let end = (page + 1 + random.below(most)).min(pages);
                let set = |page: u64, random: &mut Random, next: &mut (Model, Hashes<LEAF, LEAVES>)| {
                    let hash = Some(u128::from(random.below(3))).filter(|hash| *hash != 0);
                    next.0.insert(page, hash);
                    next.1.set(address(page), hash);
                };
                match random.below(8) {
                    // Nothing of it is in this capture.
                    0 => {}
                    1 | 2 if end - page <= LEAF as u64 => {
                        (page..end).for_each(|page| set(page, &mut random, &mut next))
                    }
                    _ => {
                        let mut told = Model::new();
                        let mut unknown = Vec::new();
                        next.1.take_over(address(page)..address(end), &latest.1, &base.1, |run, what| {
                            for page in (run.start - first) / PAGE..(run.end - first) / PAGE {
                                match what {
                                    Unwritten::Unchanged => assert!(told.insert(page, None).is_none(), "twice"),
                                    Unwritten::Unknown => unknown.push(page),
                                }
                            }
                        });
                        for page in page..end {
                            let known = latest.0.get(&page);
                            let is_unchanged = known.is_some_and(|hash| hash.is_some() && base.0.get(&page) == known);
                            let is_fresh = known == Some(&None);
                            assert_eq!(told.contains_key(&page), is_unchanged, "round {round}, page {page}");
                            let is_unknown = unknown.binary_search(&page).is_ok();
                            assert_eq!(is_unknown, !is_unchanged && !is_fresh, "round {round}, page {page}");
                            if !is_unknown {
                                next.0.insert(page, *known.expect("it is known"));
                            }
                        }
                        (unchanged, read) = (unchanged + told.len(), read + unknown.len());
                        // They are read, or, where a capture is to end, are not.
                        unknown.into_iter().for_each(|page| {
                            if random.below(8) != 0 {
                                set(page, &mut random, &mut next);
                            }
                        });
                    }
                }
                page = end;
            }
            for page in 0..pages {
                let known = next.0.get(&page).copied().flatten();
                assert_eq!(next.1.hash(address(page)), known, "round {round}, page {page}");
            }
            match random.below(8) {
                0 => base = nothing(),
                1 | 2 => {}
                _ => base = next.clone(),
            }
            latest = next;
        }
        assert!(unchanged > 1000 && read > 1000, "{unchanged} were taken over, {read} read");
    }

    #[test]
    fn what_is_taken_over_is_what_a_list_would_have() {
        hashes_are_those_of_a_list::<64, 64>(60);
        hashes_are_those_of_a_list::<4, 3>(3_000);
        hashes_are_those_of_a_list::<1, 1>(3_000);
    }

    /// A capture that has what the one before it has shares its nodes, so that no page is looked at.
    #[test]
    fn what_has_not_changed_is_shared() {
        let mut base = Hashes::<64, 64>::default();
        let pages = 3 * 64 * 64;
        for page in 0..pages {
            base.set(page * PAGE, Some(7));
        }
        let mut next = Hashes::default();
        let mut told = Vec::new();
        let written = 64 * 64 + 100;
        for run in [0..written, written + 1..pages] {
            next.take_over(run.start * PAGE..run.end * PAGE, &base, &base, |run, what| told.push((run, what)));
        }
        next.set(written * PAGE, Some(8));
        assert!(told.iter().all(|(_, what)| *what == Unwritten::Unchanged));
        let shares = [0, 1, 2].map(|node| Arc::ptr_eq(&base.0[&node], &next.0[&node]));
        assert_eq!(shares, [true, false, true]);
        let leaves = |hashes: &Hashes<64, 64>| hashes.0[&1].leaves.clone().map(|leaf| leaf.expect("all have hashes"));
        let own = leaves(&base).iter().zip(&leaves(&next)).filter(|(one, other)| !Arc::ptr_eq(one, other)).count();
        assert_eq!(own, 1);
    }
}
