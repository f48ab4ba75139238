//! A hash set: `hashbrown`'s, with std's constructors and a random state of its own.

use super::reserve::refused;
use crate::collections::TryReserveError;
use crate::fmt;
use crate::hash::{BuildHasher, Hash, RandomState};
use core::ops::{BitAnd, BitOr, BitXor, Deref, DerefMut, Sub};
use hashbrown::hash_set as base;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use base::{Difference, Drain, Intersection, IntoIter, Iter, SymmetricDifference, Union};

/// A set. What is not listed here comes from `hashbrown` by dereferencing.
#[derive(Clone)]
pub struct HashSet<T, S = RandomState>(base::HashSet<T, S>);

impl<T> HashSet<T> {
    /// An empty set.
    #[inline]
    pub fn new() -> HashSet<T> {
        HashSet::default()
    }

    /// An empty set with room for `capacity` elements.
    #[inline]
    pub fn with_capacity(capacity: usize) -> HashSet<T> {
        HashSet::with_capacity_and_hasher(capacity, RandomState::new())
    }
}

impl<T, S> HashSet<T, S> {
    /// An empty set with another hasher.
    #[inline]
    pub const fn with_hasher(hasher: S) -> HashSet<T, S> {
        HashSet(base::HashSet::with_hasher(hasher))
    }

    /// An empty set with another hasher and room for `capacity` elements.
    #[inline]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> HashSet<T, S> {
        HashSet(base::HashSet::with_capacity_and_hasher(capacity, hasher))
    }
}

impl<T: Eq + Hash, S: BuildHasher> HashSet<T, S> {
    /// Makes room for so many more, or fails.
    pub fn try_reserve(&mut self, additional: usize) -> Result<(), TryReserveError> {
        self.0.try_reserve(additional).map_err(refused)
    }

    /// Elements that both have.
    pub fn intersection<'a>(&'a self, other: &'a HashSet<T, S>) -> Intersection<'a, T, S> {
        self.0.intersection(&other.0)
    }

    /// Elements that either has.
    pub fn union<'a>(&'a self, other: &'a HashSet<T, S>) -> Union<'a, T, S> {
        self.0.union(&other.0)
    }

    /// Elements that only this one has.
    pub fn difference<'a>(&'a self, other: &'a HashSet<T, S>) -> Difference<'a, T, S> {
        self.0.difference(&other.0)
    }

    /// Elements that only one of the two has.
    pub fn symmetric_difference<'a>(&'a self, other: &'a HashSet<T, S>) -> SymmetricDifference<'a, T, S> {
        self.0.symmetric_difference(&other.0)
    }

    /// Whether no element is in both.
    pub fn is_disjoint(&self, other: &HashSet<T, S>) -> bool {
        self.0.is_disjoint(&other.0)
    }

    /// Whether the other has all elements.
    pub fn is_subset(&self, other: &HashSet<T, S>) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Whether all elements of the other are here.
    pub fn is_superset(&self, other: &HashSet<T, S>) -> bool {
        self.0.is_superset(&other.0)
    }
}

impl<T, S> Deref for HashSet<T, S> {
    type Target = base::HashSet<T, S>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T, S> DerefMut for HashSet<T, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<T, S: Default> Default for HashSet<T, S> {
    #[inline]
    fn default() -> HashSet<T, S> {
        HashSet(base::HashSet::default())
    }
}

impl<T: fmt::Debug, S> fmt::Debug for HashSet<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Eq + Hash, S: BuildHasher> PartialEq for HashSet<T, S> {
    fn eq(&self, other: &HashSet<T, S>) -> bool {
        self.0 == other.0
    }
}

impl<T: Eq + Hash, S: BuildHasher> Eq for HashSet<T, S> {}

impl<T: Eq + Hash, S: BuildHasher + Default> FromIterator<T> for HashSet<T, S> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> HashSet<T, S> {
        HashSet(base::HashSet::from_iter(elements))
    }
}

impl<T: Eq + Hash, const N: usize> From<[T; N]> for HashSet<T> {
    fn from(elements: [T; N]) -> HashSet<T> {
        HashSet::from_iter(elements)
    }
}

impl<T: Eq + Hash, S: BuildHasher> Extend<T> for HashSet<T, S> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        self.0.extend(elements);
    }
}

impl<'a, T: Eq + Hash + Copy + 'a, S: BuildHasher> Extend<&'a T> for HashSet<T, S> {
    fn extend<I: IntoIterator<Item = &'a T>>(&mut self, elements: I) {
        self.0.extend(elements);
    }
}

impl<T, S> IntoIterator for HashSet<T, S> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        self.0.into_iter()
    }
}

impl<'a, T, S> IntoIterator for &'a HashSet<T, S> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.0.iter()
    }
}

macro_rules! set_operators {
    ($($operator:ident $method:ident $function:ident)*) => { $(
        impl<T: Eq + Hash + Clone, S: BuildHasher + Default> $operator<&HashSet<T, S>> for &HashSet<T, S> {
            type Output = HashSet<T, S>;

            fn $method(self, other: &HashSet<T, S>) -> HashSet<T, S> {
                self.0.$function(&other.0).cloned().collect()
            }
        }
    )* };
}

set_operators! {
    BitAnd bitand intersection
    BitOr bitor union
    BitXor bitxor symmetric_difference
    Sub sub difference
}

impl<T: Serialize, S> Serialize for HashSet<T, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.collect_seq(self)
    }
}

impl<'de, T: Deserialize<'de> + Eq + Hash, S: BuildHasher + Default> Deserialize<'de> for HashSet<T, S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A sequence is read as one, and the set keeps one of each.
        crate::vec::Vec::deserialize(deserializer).map(HashSet::from_iter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_those_of_sets() {
        let (a, b) = (HashSet::from([1, 2, 3]), HashSet::from([2, 3, 4]));
        assert_eq!(&a & &b, HashSet::from([2, 3]));
        assert_eq!(&a | &b, HashSet::from([1, 2, 3, 4]));
        assert_eq!(&a - &b, HashSet::from([1]));
        assert_eq!(&a ^ &b, HashSet::from([1, 4]));
        assert!(a.contains(&1) && !b.contains(&1));
    }

    #[test]
    fn the_other_set_may_be_made_on_the_spot() {
        let set = HashSet::from([1, 2, 3]);
        assert_eq!(set.intersection(&[2].into()).collect::<crate::vec::Vec<_>>(), [&2]);
        assert_eq!(set.union(&[4].into()).count(), 4);
        assert_eq!(set.difference(&[1, 2].into()).collect::<crate::vec::Vec<_>>(), [&3]);
        assert_eq!(set.symmetric_difference(&[1, 2, 4].into()).count(), 2);
        assert!(set.is_disjoint(&[4].into()) && set.is_subset(&[1, 2, 3, 4].into()) && set.is_superset(&[1].into()));
    }
}
