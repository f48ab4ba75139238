//! The index of free pages against a naive model: one flag per page.

use crate::pages::{HUGE, PageSpace, Run};
use monohull_abi::layout::{ARENA_BASE, PAGE};
use proptest::prelude::*;
use std::ops::Range;
use std::vec::Vec;

/// Pages of the space under test: room for a few runs on huge pages.
const PAGES: usize = 4 * (HUGE / PAGE) as usize;

#[derive(Clone, Debug)]
enum Step {
    /// Pages, and the logarithm of the alignment in pages.
    Take(u64, u32),
    /// Which run, and by how many pages.
    Extend(usize, u64),
    /// Which run.
    Give(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pages = prop_oneof![4 => 1u64..8, 1 => 1u64..700];
    let step = prop_oneof![
        4 => (pages, prop_oneof![3 => Just(0u32), 1 => 0u32..10]).prop_map(|(pages, align)| Step::Take(pages, align)),
        1 => (any::<usize>(), 1u64..20).prop_map(|(which, pages)| Step::Extend(which, pages)),
        3 => any::<usize>().prop_map(Step::Give),
    ];
    prop::collection::vec(step, 1..400)
}

/// The pages of a run, as indices.
fn indices(run: &Run) -> Range<usize> {
    ((run.address() - ARENA_BASE) / PAGE) as usize..((run.end() - ARENA_BASE) / PAGE) as usize
}

/// The longest stretches of free pages.
fn stretches(free: &[bool]) -> Vec<Range<u64>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    for index in (0..free.len()).filter(|index| free[*index]) {
        let page = ARENA_BASE + index as u64 * PAGE;
        match found.last_mut() {
            Some(last) if last.end == page => last.end += PAGE,
            _ => found.push(page..page + PAGE),
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_index_agrees_with_a_flag_for_each_page(steps in steps()) {
        let mut free = std::vec![true; PAGES];
        let mut space = PageSpace::new(ARENA_BASE..ARENA_BASE + PAGES as u64 * PAGE);
        let mut runs: Vec<Run> = Vec::new();
        for step in steps {
            match step {
                Step::Take(pages, align) => match space.take(pages * PAGE, PAGE << align) {
                    Some(run) => {
                        prop_assert_eq!((run.bytes(), run.address() % (PAGE << align)), (pages * PAGE, 0));
                        prop_assert!(free[indices(&run)].iter().all(|free| *free), "it belongs to another run");
                        free[indices(&run)].fill(false);
                        runs.push(run);
                    }
                    None => {
                        let ample = (pages + (1 << align) - 1) * PAGE;
                        prop_assert!(stretches(&free).iter().all(|hole| hole.end - hole.start < ample));
                    }
                },
                Step::Extend(which, pages) if !runs.is_empty() => {
                    let which = which % runs.len();
                    let end = indices(&runs[which]).end;
                    let behind = free.get(end..end + pages as usize);
                    let possible = behind.is_some_and(|behind| behind.iter().all(|free| *free));
                    prop_assert_eq!(space.extend(&mut runs[which], pages * PAGE), possible);
                    free[indices(&runs[which])].fill(false);
                }
                Step::Give(which) if !runs.is_empty() => {
                    let run = runs.swap_remove(which % runs.len());
                    free[indices(&run)].fill(true);
                    space.give(run);
                }
                Step::Extend(..) | Step::Give(_) => {}
            }
            prop_assert_eq!(space.holes(), stretches(&free));
        }
        runs.into_iter().for_each(|run| space.give(run));
        prop_assert_eq!(space.holes().len(), 1, "neighbours have merged");
    }
}

#[test]
fn what_fits_snugly_is_taken_first() {
    let mut space = PageSpace::new(ARENA_BASE..ARENA_BASE + 100 * PAGE);
    let mut runs: Vec<Run> = [3, 1, 2, 1, 9].map(|pages| space.take(pages * PAGE, PAGE).unwrap()).into();
    let addresses: Vec<u64> = runs.iter().map(Run::address).collect();
    space.give(runs.remove(2));
    space.give(runs.remove(0));
    assert_eq!(space.take(2 * PAGE, PAGE).unwrap().address(), addresses[2], "not from the hole of three pages");
    assert_eq!(space.take(PAGE, PAGE).unwrap().address(), addresses[0]);
}

#[test]
fn a_run_is_cut_in_two() {
    let mut space = PageSpace::new(ARENA_BASE..ARENA_BASE + 5 * PAGE);
    let mut run = space.take(5 * PAGE, PAGE).unwrap();
    let tail = run.split_off(2 * PAGE);
    assert_eq!((run.bytes(), tail.address(), tail.bytes()), (2 * PAGE, run.end(), 3 * PAGE));
    space.give(run);
    space.give(tail);
    assert_eq!(space.take(5 * PAGE, PAGE).map(|run| run.address()), Some(ARENA_BASE), "they have merged");
}
