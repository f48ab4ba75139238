//! `std::iter`: briefly, because it is core's own.

use super::check;
use std::iter;
use std::ops::ControlFlow;

pub(super) fn all() {
    check!("adapters", (1..=10).filter(|n| n % 2 == 0).map(|n| n * n).rev().take(3).collect::<Vec<_>>());
    check!("zip_and_unzip", ["a", "b"].into_iter().zip(1..).unzip::<&str, i32, Vec<_>, Vec<_>>());
    check!("chain_cycle_step", (0..2).chain(5..7).cycle().step_by(3).take(5).collect::<Vec<_>>());
    check!(
        "scan_and_take_while",
        (1..)
            .scan(0, |sum, n| {
                *sum += n;
                Some(*sum)
            })
            .take_while(|s| *s < 30)
            .collect::<Vec<_>>()
    );
    check!(
        "flat_map_and_flatten",
        ([[1, 2], [3, 4]].iter().flatten().sum::<i32>(), "ab cd".split(' ').flat_map(str::chars).collect::<String>())
    );
    check!("peekable", {
        let mut i = [1, 1, 2].iter().peekable();
        (i.next_if_eq(&&1), i.peek().copied(), i.next_if(|n| **n > 1))
    });
    check!(
        "fold_and_try_fold",
        ((1..5).fold(1, |a, b| a * b), [1i8, 100, 100].iter().try_fold(0i8, |a, b| a.checked_add(*b)))
    );
    check!(
        "control_flow",
        (1..).try_for_each(|n| if n == 4 { ControlFlow::Break(n) } else { ControlFlow::Continue(()) })
    );
    check!(
        "min_max",
        (
            ["bb", "a"].iter().min_by_key(|s| s.len()),
            [2.5, 1.0].into_iter().max_by(f64::total_cmp),
            iter::empty::<u8>().max()
        )
    );
    check!(
        "partition_and_position",
        ((0..6).partition::<Vec<_>, _>(|n| n % 3 == 0), [4, 5].iter().position(|n| *n == 5))
    );
    check!("compare", ([1, 2].iter().cmp([1, 3].iter()), (0..3).eq(0..3), [1.0].iter().partial_cmp([f64::NAN].iter())));
    check!(
        "collect_results",
        (
            ["1", "2"].iter().map(|s| s.parse::<u8>()).collect::<Result<Vec<_>, _>>(),
            ["1", "x"].iter().map(|s| s.parse::<u8>().ok()).collect::<Option<Vec<_>>>()
        )
    );
    check!(
        "sources",
        (
            iter::once(1).chain(iter::repeat_n(2, 2)).collect::<Vec<_>>(),
            iter::successors(Some(1), |n| (*n < 50).then_some(n * 3)).collect::<Vec<_>>(),
            iter::zip([1], [2]).next()
        )
    );
    check!("from_fn_and_map_while", {
        let mut n = 0;
        iter::from_fn(|| {
            n += 1;
            Some(n)
        })
        .map_while(|n| (n < 4).then_some(n * 2))
        .collect::<Vec<_>>()
    });
    check!(
        "sizes",
        ((0..10).size_hint(), (0..10).filter(|_| true).size_hint(), (0..10).len(), "abc".chars().size_hint())
    );
    check!(
        "sums",
        ((1..=4).product::<i32>(), [0.5, 0.25].iter().sum::<f64>(), [Some(1), None].into_iter().sum::<Option<i32>>())
    );
    check!(
        "nth_last_count",
        ((0..9).nth(3), (0..9).nth_back(2), (0..9).last(), (0..9).skip(2).count(), (0..9).is_sorted())
    );
}
