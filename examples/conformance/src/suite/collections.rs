//! The ordered collections, which are alloc's own.

use super::check;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, Bound, LinkedList, TryReserveError, VecDeque, btree_map};

pub(super) fn all() {
    maps();
    sets();
    queues();
    heaps_and_lists();
}

fn maps() {
    let mut map: BTreeMap<_, _> = [(3, 'c'), (1, 'a'), (2, 'b'), (1, 'A')].into();
    check!("btree_map", (&map, map.len(), map.get(&1), map[&2]));
    check!("btree_ends", (map.first_key_value(), map.last_key_value(), map.keys().rev().collect::<Vec<_>>()));
    check!(
        "btree_range",
        (map.range(2..).collect::<Vec<_>>(), map.range((Bound::Excluded(1), Bound::Included(2))).count())
    );
    *map.entry(9).or_insert('z') = 'y';
    map.entry(1).and_modify(|c| *c = 'q').or_default();
    check!("btree_entry", &map);
    check!(
        "btree_entry_kinds",
        (
            matches!(map.entry(5), btree_map::Entry::Vacant(_)),
            match map.entry(9) {
                btree_map::Entry::Occupied(e) => Some(e.remove_entry()),
                btree_map::Entry::Vacant(_) => None,
            }
        )
    );
    check!("btree_split_and_append", {
        let mut high = map.split_off(&2);
        high.append(&mut BTreeMap::from([(0, '0')]));
        (map.clone(), high)
    });
    check!("btree_retain_and_pop", {
        let mut m: BTreeMap<_, _> = (0..10).map(|n| (n, n * n)).collect();
        m.retain(|k, _| k % 2 == 1);
        (m.pop_first(), m.pop_last(), m.into_values().collect::<Vec<_>>())
    });
    check!("btree_many", {
        let m: BTreeMap<u32, u32> = (0..3000).map(|n| (n * 7919 % 3001, n)).collect();
        (m.len(), m.keys().is_sorted(), m.range(1500..).next().map(|(k, _)| *k))
    });
    check!(
        "btree_order_and_hash",
        (BTreeMap::from([(1, 2)]) < BTreeMap::from([(1, 3)]), BTreeMap::from([(1, 2)]).cmp(&BTreeMap::new()))
    );
}

fn sets() {
    let (a, b) = (BTreeSet::from([1, 2, 3, 5]), BTreeSet::from([2, 3, 4]));
    check!("btree_set_operators", (&a & &b, &a | &b, &a - &b, &a ^ &b));
    check!(
        "btree_set_relations",
        (
            a.is_subset(&b),
            a.is_disjoint(&b),
            a.is_superset(&BTreeSet::from([1])),
            a.first(),
            a.range(2..4).collect::<Vec<_>>()
        )
    );
    let mut set = a.clone();
    check!(
        "btree_set_changes",
        (set.insert(2), set.insert(9), set.remove(&1), set.take(&5), set.replace(2), set.split_off(&3), set)
    );
}

fn queues() {
    let mut queue: VecDeque<_> = (1..=5).collect();
    queue.rotate_left(2);
    queue.push_front(0);
    check!("deque", (&queue, queue.front(), queue.back(), queue[2], queue.iter().rev().copied().collect::<Vec<_>>()));
    check!("deque_pop", (queue.pop_front(), queue.pop_back(), queue.swap_remove_front(1), queue.contains(&3)));
    queue.make_contiguous().sort();
    check!("deque_contiguous", (queue.as_slices().0, queue.binary_search(&4), queue.range(1..).count()));
    check!("deque_changes", {
        queue.extend([8, 9]);
        queue.truncate(4);
        queue.retain(|n| n % 2 == 0);
        queue.insert(0, 7);
        (queue.drain(..1).collect::<Vec<_>>(), Vec::from(queue))
    });
    check!("deque_from", (VecDeque::from(vec![1, 2]) == [1, 2], VecDeque::from([1]).split_off(0)));
}

fn heaps_and_lists() {
    let mut heap = BinaryHeap::from([3, 1, 4, 1, 5]);
    heap.push(9);
    check!("heap", (heap.peek().copied(), heap.len(), heap.pop(), heap.clone().into_sorted_vec()));
    check!("heap_of_reversed", {
        let mut h: BinaryHeap<_> = [Reverse(3), Reverse(1)].into();
        (h.pop(), h.pop(), h.pop())
    });
    check!("heap_peek_mut", {
        if let Some(mut top) = heap.peek_mut() {
            *top = 0;
        }
        heap.into_sorted_vec()
    });
    let mut list = LinkedList::from([1, 2, 3]);
    list.push_front(0);
    let tail = list.split_off(2);
    check!("list", (&list, &tail, list.front(), tail.back(), list.contains(&1)));
    check!("list_append", {
        let mut tail = tail.clone();
        list.append(&mut tail);
        (list.iter().rev().collect::<Vec<_>>(), tail.len())
    });
    check!("reserve_error", {
        let e: TryReserveError = VecDeque::<u64>::new().try_reserve(usize::MAX).unwrap_err();
        e.to_string()
    });
}
