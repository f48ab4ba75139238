//! A hash map: `hashbrown`'s, with std's constructors and a random state of its own.

use super::reserve::refused;
use crate::collections::TryReserveError;
use crate::fmt;
use crate::hash::{BuildHasher, Hash};
use core::borrow::Borrow;
use core::ops::{Deref, DerefMut, Index};
use hashbrown::hash_map as base;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use crate::hash::{DefaultHasher, RandomState};
pub use base::{Drain, IntoIter, IntoKeys, IntoValues, Iter, IterMut, Keys, Values, ValuesMut};

/// A map from keys to values. What is not listed here comes from `hashbrown` by dereferencing.
#[derive(Clone)]
pub struct HashMap<K, V, S = RandomState>(base::HashMap<K, V, S>);

/// An entry whose key is in the map.
pub type OccupiedEntry<'a, K, V, S = RandomState> = base::OccupiedEntry<'a, K, V, S>;
/// An entry whose key is not.
pub type VacantEntry<'a, K, V, S = RandomState> = base::VacantEntry<'a, K, V, S>;

/// The place of a key in a map.
pub enum Entry<'a, K, V, S = RandomState> {
    /// The key is there.
    Occupied(OccupiedEntry<'a, K, V, S>),
    /// The key is not there.
    Vacant(VacantEntry<'a, K, V, S>),
}

impl<K, V> HashMap<K, V> {
    /// An empty map.
    #[inline]
    pub fn new() -> HashMap<K, V> {
        HashMap::default()
    }

    /// An empty map with room for `capacity` entries.
    #[inline]
    pub fn with_capacity(capacity: usize) -> HashMap<K, V> {
        HashMap::with_capacity_and_hasher(capacity, RandomState::new())
    }
}

impl<K, V, S> HashMap<K, V, S> {
    /// An empty map with another hasher.
    #[inline]
    pub const fn with_hasher(hash_builder: S) -> HashMap<K, V, S> {
        HashMap(base::HashMap::with_hasher(hash_builder))
    }

    /// An empty map with another hasher and room for `capacity` entries.
    #[inline]
    pub fn with_capacity_and_hasher(capacity: usize, hash_builder: S) -> HashMap<K, V, S> {
        HashMap(base::HashMap::with_capacity_and_hasher(capacity, hash_builder))
    }

    /// The keys, without the values.
    pub fn into_keys(self) -> IntoKeys<K, V> {
        self.0.into_keys()
    }

    /// The values, without the keys.
    pub fn into_values(self) -> IntoValues<K, V> {
        self.0.into_values()
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> HashMap<K, V, S> {
    /// The place of `key`, to look or to insert.
    #[inline]
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V, S> {
        match self.0.entry(key) {
            base::Entry::Occupied(entry) => Entry::Occupied(entry),
            base::Entry::Vacant(entry) => Entry::Vacant(entry),
        }
    }
}

impl<'a, K, V, S> Entry<'a, K, V, S> {
    /// The value, which is `default` if there was none.
    #[inline]
    pub fn or_insert(self, default: V) -> &'a mut V
    where
        K: Hash,
        S: BuildHasher,
    {
        self.or_insert_with(|| default)
    }

    /// The value, made by `default` if there was none.
    #[inline]
    pub fn or_insert_with<F: FnOnce() -> V>(self, default: F) -> &'a mut V
    where
        K: Hash,
        S: BuildHasher,
    {
        match self {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(default()),
        }
    }

    /// The value, made by `default` from the key if there was none.
    #[inline]
    pub fn or_insert_with_key<F: FnOnce(&K) -> V>(self, default: F) -> &'a mut V
    where
        K: Hash,
        S: BuildHasher,
    {
        match self {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let value = default(entry.key());
                entry.insert(value)
            }
        }
    }

    /// The value, which is the default if there was none.
    #[inline]
    pub fn or_default(self) -> &'a mut V
    where
        K: Hash,
        V: Default,
        S: BuildHasher,
    {
        self.or_insert_with(V::default)
    }

    /// Changes the value if there is one.
    #[inline]
    #[must_use]
    pub fn and_modify<F: FnOnce(&mut V)>(mut self, f: F) -> Self {
        if let Entry::Occupied(entry) = &mut self {
            f(entry.get_mut());
        }
        self
    }

    /// Sets the value.
    #[inline]
    pub fn insert_entry(self, value: V) -> OccupiedEntry<'a, K, V, S>
    where
        K: Hash,
        S: BuildHasher,
    {
        match self {
            Entry::Occupied(mut entry) => {
                entry.insert(value);
                entry
            }
            Entry::Vacant(entry) => entry.insert_entry(value),
        }
    }

    /// The key.
    pub fn key(&self) -> &K {
        match self {
            Entry::Occupied(entry) => entry.key(),
            Entry::Vacant(entry) => entry.key(),
        }
    }
}

/// An occupied entry as std shows it.
struct Occupied<'a, K, V>(&'a K, &'a V);

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Occupied<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OccupiedEntry").field("key", self.0).field("value", self.1).finish_non_exhaustive()
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for Entry<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Occupied(entry) => f.debug_tuple("Entry").field(&Occupied(entry.key(), entry.get())).finish(),
            Entry::Vacant(entry) => f.debug_tuple("Entry").field(entry).finish(),
        }
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> HashMap<K, V, S> {
    /// Makes room for so many more, or fails.
    pub fn try_reserve(&mut self, additional: usize) -> Result<(), TryReserveError> {
        self.0.try_reserve(additional).map_err(refused)
    }
}

impl<K, V, S> Deref for HashMap<K, V, S> {
    type Target = base::HashMap<K, V, S>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<K, V, S> DerefMut for HashMap<K, V, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<K, V, S: Default> Default for HashMap<K, V, S> {
    #[inline]
    fn default() -> HashMap<K, V, S> {
        HashMap(base::HashMap::default())
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for HashMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<K: Eq + Hash, V: PartialEq, S: BuildHasher> PartialEq for HashMap<K, V, S> {
    fn eq(&self, other: &HashMap<K, V, S>) -> bool {
        self.0 == other.0
    }
}

impl<K: Eq + Hash, V: Eq, S: BuildHasher> Eq for HashMap<K, V, S> {}

impl<K: Eq + Hash + Borrow<Q>, Q: Eq + Hash + ?Sized, V, S: BuildHasher> Index<&Q> for HashMap<K, V, S> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.0.get(key).expect("no entry found for key")
    }
}

impl<K: Eq + Hash, V, S: BuildHasher + Default> FromIterator<(K, V)> for HashMap<K, V, S> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> HashMap<K, V, S> {
        HashMap(base::HashMap::from_iter(entries))
    }
}

impl<K: Eq + Hash, V, const N: usize> From<[(K, V); N]> for HashMap<K, V> {
    fn from(entries: [(K, V); N]) -> HashMap<K, V> {
        HashMap::from_iter(entries)
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> Extend<(K, V)> for HashMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        self.0.extend(entries);
    }
}

impl<'a, K: Eq + Hash + Copy, V: Copy, S: BuildHasher> Extend<(&'a K, &'a V)> for HashMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (&'a K, &'a V)>>(&mut self, entries: I) {
        self.0.extend(entries);
    }
}

impl<K, V, S> IntoIterator for HashMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    fn into_iter(self) -> IntoIter<K, V> {
        self.0.into_iter()
    }
}

impl<'a, K, V, S> IntoIterator for &'a HashMap<K, V, S> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.0.iter()
    }
}

impl<'a, K, V, S> IntoIterator for &'a mut HashMap<K, V, S> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;

    fn into_iter(self) -> IterMut<'a, K, V> {
        self.0.iter_mut()
    }
}

impl<K: Serialize, V: Serialize, S> Serialize for HashMap<K, V, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.collect_map(self)
    }
}

impl<'de, K, V, S> Deserialize<'de> for HashMap<K, V, S>
where
    K: Deserialize<'de> + Eq + Hash,
    V: Deserialize<'de>,
    S: BuildHasher + Default,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::env::members(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_count_words() {
        let mut counts: HashMap<&str, u32> = HashMap::new();
        for word in ["the", "hull", "the", "bulkhead"] {
            *counts.entry(word).or_insert(0) += 1;
        }
        counts.entry("hull").and_modify(|count| *count = 9).or_default();
        assert_eq!((counts["the"], counts["hull"], counts.get("mast")), (2, 9, None));
        assert_eq!(counts, HashMap::from([("hull", 9), ("the", 2), ("bulkhead", 1)]));
        assert!(matches!(counts.entry("mast"), Entry::Vacant(_)));
    }

    #[test]
    fn maps_are_read_from_json() {
        let map: HashMap<host_std::string::String, u8> = serde_json::from_str(r#"{"a": 1, "b": 2}"#).unwrap();
        assert_eq!(map.len(), 2);
        assert!(serde_json::from_str::<HashMap<u8, u8>>("[1]").is_err());
        assert_eq!(serde_json::to_string(&HashMap::from([("a", 1)])).unwrap(), r#"{"a":1}"#);
    }
}
