//! `HashMap` and `HashSet`. Their order is unspecified, so results are sorted.

use super::check;
use std::collections::hash_map::{self, Entry, HashMap};
use std::collections::{HashSet, hash_set};
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, DefaultHasher, RandomState};

fn sorted<T: Ord + Debug>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<_> = items.into_iter().collect();
    items.sort();
    items
}

pub(super) fn all() {
    maps();
    changes();
    entries();
    views();
    sets();
    set_changes();
}

fn maps() {
    let mut map = HashMap::new();
    check!("insert_and_replace", (map.insert("a", 1), map.insert("b", 2), map.insert("a", 3), map.len()));
    check!("get", (map.get("a"), map.get("x"), map["b"], map.contains_key("b"), map.get_key_value("a")));
    check!("get_mut", {
        *map.get_mut("b").unwrap() += 10;
        map["b"]
    });
    check!("debug_of_one", HashMap::from([("k", [1])]));
    check!("pretty_debug_of_one", format!("{:#?} {:#?}", HashMap::from([("k", 1)]), HashSet::from([0])));
    check!("equal_in_any_order", HashMap::from([(1, 'a'), (2, 'b')]) == [(2, 'b'), (1, 'a')].into_iter().collect());
    check!("borrowed_keys", {
        let map: HashMap<String, Vec<u8>> = [("key".to_string(), vec![1])].into();
        (map.get("key").cloned(), map.contains_key("kez"), map["key"][0])
    });
    check!("many", {
        let map: HashMap<u64, u64> = (0..20_000).map(|n| (n, n * n)).collect();
        (map.len(), map.values().sum::<u64>(), map.get(&141).copied())
    });
    check!("of_units", {
        let mut map = HashMap::new();
        (map.insert((), 1), map.insert((), 2), map.len())
    });
    check!("other_hashers", {
        let mut map: HashMap<i32, i32, BuildHasherDefault<DefaultHasher>> = HashMap::default();
        map.insert(1, 2);
        (map[&1], HashMap::<u8, u8, RandomState>::with_hasher(RandomState::new()).len())
    });
    check!("capacity", {
        let mut map: HashMap<u8, u8> = HashMap::with_capacity(100);
        let wide = map.capacity() >= 100;
        map.insert(1, 1);
        map.shrink_to(10);
        (wide, map.capacity() < 100, map.is_empty())
    });
    check!("reserve", {
        let mut map: HashMap<u8, u8> = HashMap::new();
        map.reserve(50);
        (map.capacity() >= 50, map.try_reserve(100), map.try_reserve(usize::MAX).map_err(|e| e.to_string()))
    });
    check!("clone_is_apart", {
        let mut copy = map.clone();
        copy.clear();
        (copy.len(), map.len(), copy.is_empty())
    });
    check!("index_of_a_default", HashMap::<u8, u8>::default().get(&0));
}

fn changes() {
    let mut map: HashMap<_, _> = (0..10).map(|n| (n, n * 2)).collect();
    check!("remove", (map.remove(&3), map.remove(&3), map.remove_entry(&4)));
    map.retain(|k, v| {
        *v += 1;
        k % 2 == 0
    });
    check!("retain", sorted(map.clone()));
    check!("extract_if", (sorted(map.extract_if(|k, _| *k > 5)), sorted(map.keys().copied())));
    map.extend([(1, 1), (0, 100)]);
    map.extend(&HashMap::from([(2, 200)]));
    check!("extend", sorted(map.clone()));
    check!("values_mut_and_iter_mut", {
        map.values_mut().for_each(|v| *v *= 10);
        for (k, v) in &mut map {
            *v += k;
        }
        sorted(map.values().copied())
    });
    check!("get_disjoint_mut", {
        let [a, b] = map.get_disjoint_mut([&0, &1]);
        std::mem::swap(a.unwrap(), b.unwrap());
        (map[&0], map[&1])
    });
    check!("drain", (sorted(map.drain()), map.len()));
    check!(
        "into_keys_and_values",
        (
            sorted(HashMap::from([(1, 'a'), (2, 'b')]).into_keys()),
            sorted(HashMap::from([(1, 'a'), (2, 'b')]).into_values())
        )
    );
    check!("changed_order_of_drop", {
        let map: HashMap<_, _> = (0..3).map(|n| (n, std::rc::Rc::new(n))).collect();
        let one = map[&1].clone();
        drop(map);
        std::rc::Rc::strong_count(&one)
    });
}

fn entries() {
    let mut map: HashMap<&str, u32> = HashMap::new();
    for word in "the hull and the keel and the mast".split(' ') {
        *map.entry(word).or_insert(0) += 1;
    }
    check!("or_insert", sorted(map.clone()));
    map.entry("hull").and_modify(|n| *n += 40).or_insert(7);
    map.entry("deck").and_modify(|n| *n += 40).or_insert(7);
    check!("and_modify", (map["hull"], map["deck"]));
    check!(
        "or_default_and_with",
        (
            *map.entry("new").or_default(),
            *map.entry("with").or_insert_with(|| 5),
            *map.entry("key").or_insert_with_key(|k| k.len() as u32)
        )
    );
    check!("entry_key", map.entry("some").key());
    match map.entry("the") {
        Entry::Occupied(mut entry) => check!(
            "occupied",
            (
                *entry.key(),
                *entry.get(),
                {
                    *entry.get_mut() += 1;
                    *entry.get()
                },
                entry.insert(50),
                entry.remove_entry()
            )
        ),
        Entry::Vacant(_) => check!("occupied", "vacant"),
    }
    match map.entry("the") {
        Entry::Vacant(entry) => check!("vacant", (*entry.key(), *entry.insert(8))),
        Entry::Occupied(_) => check!("vacant", "occupied"),
    }
    check!(
        "into_mut_and_into_key",
        (
            match map.entry("the") {
                Entry::Occupied(e) => *e.into_mut(),
                Entry::Vacant(_) => 0,
            },
            match map.entry("gone") {
                Entry::Vacant(e) => e.into_key(),
                Entry::Occupied(_) => "",
            }
        )
    );
    check!("insert_entry", (map.entry("put").insert_entry(3).remove(), map.contains_key("put")));
    check!("debug_of_entries", (format!("{:?}", map.entry("the")), format!("{:?}", map.entry("none"))));
}

fn views() {
    let map = HashMap::from([(1, "one")]);
    check!(
        "debug_of_views",
        format!("{:?} {:?} {:?} {:?}", map.iter(), map.keys(), map.values(), map.clone().into_iter())
    );
    check!(
        "sizes_of_views",
        (map.iter().len(), map.keys().size_hint(), map.clone().into_iter().len(), map.clone().drain().len())
    );
    let iter: hash_map::Iter<'_, i32, &str> = map.iter();
    let keys: hash_map::Keys<'_, i32, &str> = map.keys();
    check!("views_are_cloned", (iter.clone().eq(iter), keys.clone().count()));
    check!("hasher_is_kept", map.hasher().clone().build_the_same(&map));
    check!("fold_of_iter", (0..100).collect::<HashSet<_>>().iter().fold(0, |a, b| a + b));
}

trait Same {
    fn build_the_same(&self, map: &HashMap<i32, &str>) -> bool;
}

impl Same for RandomState {
    fn build_the_same(&self, map: &HashMap<i32, &str>) -> bool {
        use std::hash::BuildHasher;
        self.hash_one(1) == map.hasher().hash_one(1)
    }
}

fn sets() {
    check!("other_set_made_on_the_spot", {
        let set = HashSet::from([1, 2, 3]);
        let both = sorted(set.intersection(&[2].into()).copied());
        (both, set.is_subset(&[1].into()), sorted(set.union(&[4].into()).copied()))
    });
    let (a, b) = (HashSet::from([1, 2, 3]), [2, 3, 4].into_iter().collect::<HashSet<_>>());
    check!("set_operators", (sorted(&a & &b), sorted(&a | &b), sorted(&a - &b), sorted(&a ^ &b)));
    check!(
        "set_views",
        (sorted(a.intersection(&b)), sorted(a.union(&b)), sorted(a.difference(&b)), sorted(a.symmetric_difference(&b)))
    );
    check!(
        "set_relations",
        (
            a.is_subset(&b),
            a.is_disjoint(&HashSet::from([7])),
            a.is_superset(&HashSet::from([1])),
            a == HashSet::from([3, 2, 1])
        )
    );
    check!("set_operators_assign", {
        let mut s = a.clone();
        s.extend(&b);
        sorted(s)
    });
    check!("set_debug", (format!("{:?}", HashSet::from(["x"])), format!("{:?}", HashSet::<u8>::new())));
    let union: hash_set::Union<'_, i32, RandomState> = a.union(&b);
    check!("set_views_are_cloned", union.clone().count() == union.count());
}

fn set_changes() {
    let mut set = HashSet::new();
    check!("set_insert", (set.insert("a"), set.insert("a"), set.len(), set.contains("a"), set.get("a")));
    check!("set_take_and_replace", (set.replace("a"), set.take("a"), set.take("a"), set.remove("zz")));
    let mut set: HashSet<_> = (0..10).collect();
    set.retain(|n| n % 3 == 0);
    check!("set_retain", sorted(set.clone()));
    check!("set_extract_if", (sorted(set.extract_if(|n| *n > 4)), sorted(set.iter().copied())));
    check!("set_drain", (sorted(set.drain()), set.is_empty(), set.capacity() > 0));
    check!(
        "set_reserve",
        (
            set.try_reserve(10),
            {
                set.shrink_to_fit();
                set.capacity()
            },
            HashSet::<u8>::with_capacity(9).capacity() >= 9
        )
    );
    check!("set_of_strings", {
        let s: HashSet<String> = ["x", "y"].map(String::from).into();
        (s.contains("x"), s.get("y").cloned())
    });
}
