//! `Vec` and slices: briefly, because they are alloc's own.

use super::check;
use std::cmp::Reverse;

pub(super) fn all() {
    let mut numbers = vec![3, 1, 2];
    numbers.push(5);
    numbers.extend([4, 4]);
    check!("push_and_extend", (&numbers, numbers.len(), numbers.first(), numbers.last()));
    numbers.sort();
    numbers.dedup();
    check!("sort_and_dedup", &numbers);
    check!(
        "binary_search",
        (numbers.binary_search(&4), numbers.binary_search(&9), numbers.partition_point(|n| *n < 3))
    );
    check!("insert_and_remove", {
        numbers.insert(1, 9);
        (numbers.remove(0), numbers.swap_remove(0), numbers.pop(), numbers.clone())
    });
    check!("drain_and_splice", {
        let mut v: Vec<_> = (0..8).collect();
        let d: Vec<_> = v.drain(2..4).collect();
        let s: Vec<_> = v.splice(0..1, [70, 71]).collect();
        (d, s, v)
    });
    check!("retain_and_truncate", {
        let mut v: Vec<_> = (0..10).collect();
        v.retain(|n| n % 3 == 0);
        v.truncate(3);
        v
    });
    check!("extract_if", {
        let mut v: Vec<_> = (0..10).collect();
        (v.extract_if(.., |n| *n % 2 == 1).collect::<Vec<_>>(), v)
    });
    check!("split_off_and_append", {
        let mut v = vec![1, 2, 3];
        let mut w = v.split_off(1);
        w.append(&mut v);
        w
    });
    check!("resize_and_fill", {
        let mut v = vec![1];
        v.resize(3, 7);
        v.resize_with(4, Default::default);
        v[..2].fill(9);
        v
    });
    check!("pop_if_and_dedup_by_key", {
        let mut v = vec![10, 11, 25, 30];
        v.dedup_by_key(|n| *n / 10);
        (v.pop_if(|n| *n == 30), v)
    });
    check!("concat_join", ([[1, 2], [3, 4]].concat(), [vec![1], vec![2]].join(&0), [1, 2].repeat(2)));
    check!(
        "chunks",
        (
            vec![1, 2, 3, 4, 5].chunks(2).map(<[i32]>::len).collect::<Vec<_>>(),
            [1, 2, 3].windows(2).count(),
            [1, 2, 3, 4, 5].rchunks(2).last().map(<[i32]>::to_vec)
        )
    );
    check!("exact_chunks", {
        let v = [1, 2, 3, 4, 5];
        let c = v.chunks_exact(2);
        (c.remainder().to_vec(), c.count(), v.as_chunks::<2>().0.len())
    });
    check!(
        "split_slice",
        (
            [1, 0, 2, 0].split(|n| *n == 0).collect::<Vec<_>>(),
            [1, 2, 3].split_at(1),
            [1, 2].split_first(),
            [1, 1, 2].chunk_by(|a, b| a == b).count()
        )
    );
    check!("rotate_reverse_swap", {
        let mut v = [1, 2, 3, 4, 5];
        v.rotate_left(2);
        v.swap(0, 4);
        v.reverse();
        v
    });
    check!("copy_within", {
        let mut v = *b"abcdef";
        v.copy_within(0..3, 2);
        v
    });
    check!("sorts", {
        let mut v = ["bb", "a", "ccc", "dd"];
        v.sort_by_key(|s| Reverse(s.len()));
        let mut w = [5, 1, 4];
        w.sort_unstable_by(|a, b| b.cmp(a));
        (v, w, [1, 2, 2].is_sorted())
    });
    check!("cached_sort_and_select", {
        let mut v = [-5i32, 4, -1];
        v.sort_by_cached_key(|n| n.abs());
        let mut w = [9, 1, 8, 2];
        let m = *w.select_nth_unstable(1).1;
        (v, m)
    });
    check!("large_sort", {
        let mut v: Vec<u64> = (0..5000).map(|n| n * 2654435761 % 5003).collect();
        v.sort_unstable();
        (v.is_sorted(), v[0], v[4999])
    });
    check!(
        "search_in_slices",
        (
            [1, 2, 3].contains(&2),
            [1, 2, 3].starts_with(&[1]),
            [1, 2].ends_with(&[2]),
            [1, 2].iter().rposition(|n| *n == 1)
        )
    );
    check!(
        "from_and_into",
        (
            Vec::from("ab"),
            <[i32; 2]>::try_from(vec![1, 2]),
            <[i32; 3]>::try_from(vec![1]).is_err(),
            Box::<[i32]>::from([1]),
            vec![1, 2].into_boxed_slice()
        )
    );
    check!("capacity", {
        let mut v: Vec<u8> = Vec::with_capacity(10);
        v.push(1);
        v.shrink_to_fit();
        (v.capacity() >= 1, v.capacity() < 10, Vec::<()>::new().capacity())
    });
    check!(
        "try_reserve",
        (
            Vec::<u64>::new().try_reserve(usize::MAX).map_err(|e| e.to_string()),
            Vec::<u8>::new().try_reserve_exact(100).is_ok()
        )
    );
    check!("compare", (vec![1, 2] < vec![1, 3], vec![1] < vec![1, 0], vec![1, 2] == [1, 2], [f64::NAN] == [f64::NAN]));
    check!(
        "arrays",
        (
            [1, 2, 3].map(|n| n * 2),
            std::array::from_fn::<_, 3, _>(|i| i),
            [[0u8; 2]; 2].as_flattened().len(),
            [1, 2].each_ref().len()
        )
    );
    check!("zero_sized", {
        let v = vec![(); 1000];
        (v.len(), v.iter().count())
    });
    check!("large", {
        let mut v = vec![0u8; 3 << 20];
        v[(3 << 20) - 1] = 7;
        (v.len(), v.iter().map(|b| u32::from(*b)).sum::<u32>())
    });
}
