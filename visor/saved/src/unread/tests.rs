//! Each page is read at once or given when it is asked for; nothing else is given, and damage is named.

use super::*;
use crate::tests::{CHANGED, COUNT, KEY, Many, plan, state_key};
use crate::{Keys, Saved};
use monohull_domain::checkpoint::Continuation;
use monohull_ipc::sealed_pages::{Most, read_pages_from};
use std::fs::{self, File};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// What is read of a file: the pages that are here, by address, and what gives the others.
type Read = (Vec<Range<u64>>, Vec<Range<u64>>, Arc<dyn GivePages>);

fn read(path: &Path, keys: Keys<'_>) -> Read {
    let (saved, later, _) = Saved::read_for_one(path, keys, plan).expect("it is right");
    let (_, placed) = read_pages_from::<Continuation<()>>(&File::from(saved.continuation), Most::ANY).expect("pages");
    let here = placed.here.iter().map(|(at, range)| *at..*at + range.len() as u64).collect();
    let elsewhere = placed.elsewhere.iter().map(|(at, bytes)| *at..*at + bytes).collect();
    (here, elsewhere, later.expect("there are many pages"))
}

fn pages(given: Option<Given>) -> Vec<u8> {
    match given {
        Some(Given::Pages(bytes)) => bytes.into_vec(),
        other => panic!("no pages: {other:?}"),
    }
}

/// All that is in neither list is zero; and zeros take no request.
#[test]
fn each_page_is_here_or_given() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let keys = Keys { seal: &KEY, state: None };
    let Many { heap, first, second } = Many::write(folder.path(), keys);
    for (path, file_of) in [(&first, (&|_| 1_u64) as &dyn Fn(u64) -> u64), (&second, &Many::file_of)] {
        let (here, elsewhere, later) = read(path, keys);
        let count: u64 = elsewhere.iter().map(|range| (range.end - range.start) / PAGE).sum();
        assert!((COUNT * 9 / 10..COUNT).contains(&count), "{count} pages are elsewhere");
        for page in (0..COUNT).step_by(7) {
            let address = heap + page * PAGE;
            let is_in = |ranges: &[Range<u64>]| ranges.iter().any(|range| range.contains(&address));
            assert!(is_in(&here) != is_in(&elsewhere), "page {page}");
            let given = later.given(Wanted { address, count: 1 });
            match is_in(&elsewhere) {
                true => assert_eq!(pages(given), Many::page(page, file_of(page)), "page {page}"),
                false => assert_eq!(given, None, "page {page}"),
            }
        }
        // Several at once, of which some are in another file.
        let around = CHANGED.start - 20..CHANGED.start + 3;
        let wanted = Wanted { address: heap + around.start * PAGE, count: around.end - around.start };
        let expected: Vec<u8> = around.flat_map(|page| Many::page(page, file_of(page))).collect();
        assert_eq!(pages(later.given(wanted)), expected);
    }
}

/// What a run has touched is read first the next time, and what it says of that may be anything.
#[test]
fn what_was_touched_is_here() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let many = Many::write(folder.path(), (&KEY).into());
    let at = |page: u64| many.heap + page * PAGE;
    let (saved, ..) = Saved::read_for_one(&many.first, &KEY, plan).expect("it is right");
    assert!(touched(saved).is_empty());
    let lies = [(0, u64::MAX), (u64::MAX, u64::MAX), (at(5) + 1, 3), (at(9), 0), (at(COUNT), PAGE), (at(1), 1 << 60)];
    let cases = [vec![(at(300), 2 * PAGE), (at(100), 5 * PAGE)], vec![(at(300), 200 * PAGE), (at(400), 50 * PAGE)]];
    for (number, list) in cases.into_iter().chain(lies.map(|lie| vec![lie])).enumerate() {
        let path = many.write_touched(folder.path(), &format!("t{number}"), &list);
        let (saved, later, _) = Saved::read_for_one(&path, &KEY, plan).expect("it is right");
        let (_, placed) =
            read_pages_from::<Continuation<()>>(&File::from(saved.continuation), Most::ANY).expect("pages");
        let is_there = |page: u64, list: &[(u64, u64)]| {
            list.iter().any(|(start, bytes)| (*start..start.saturating_add(*bytes)).contains(&at(page)))
        };
        for page in 0..COUNT {
            let is_elsewhere = is_there(page, &placed.elsewhere);
            assert!(!(number < 2 && is_there(page, &list) && is_elsewhere), "list {number}, page {page}");
            if is_elsewhere && page % 50 == 7 {
                let given = later.as_ref().and_then(|later| later.given(Wanted { address: at(page), count: 1 }));
                assert_eq!(pages(given), Many::page(page, 1), "list {number}, page {page}");
            }
        }
        if number == 0 {
            let (saved, ..) = Saved::read_for_one(&path, &KEY, plan).expect("it is right");
            assert_eq!(touched(saved), [(at(100), 5 * PAGE), (at(300), 2 * PAGE)]);
        }
    }
}

fn touched(saved: Saved<OwnedFd>) -> Vec<(u64, u64)> {
    let (record, _) = read_pages_from::<Continuation<()>>(&File::from(saved.continuation), Most::ANY).expect("pages");
    record.touched
}

/// The next file may take pages from the one that was read, until those after the whole one have as many bytes together as that.
#[test]
fn a_chain_becomes_no_larger_than_it_may() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let many = Many::write(folder.path(), (&KEY).into());
    let (mut path, changed) = (many.first, COUNT * 2 / 5);
    let mut bytes = vec![fs::metadata(&path).expect("a file").len()];
    loop {
        let (_, later, base) = Saved::read_for_one(&path, &KEY, plan).expect("it is right");
        assert!(later.is_some(), "there are many pages");
        assert_eq!(base.is_some(), bytes[1..].iter().sum::<u64>() < bytes[0], "{bytes:?}");
        let Some(base) = base else { break };
        let stays = vec![(many.heap + changed * PAGE, (COUNT - changed) * PAGE)];
        let next =
            Many::saved(0..changed, 3, stays).write(folder.path(), &format!("c{}", bytes.len()), &KEY, Some(&base));
        let next = next.expect("written");
        (path, _) = (next.path, bytes.push(next.bytes));
    }
    assert_eq!(bytes.len(), 4);
}

/// What no pager asks for.
#[test]
fn other_pages_are_not_given() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let Many { heap, first, .. } = Many::write(folder.path(), (&KEY).into());
    let (_, _, later) = read(&first, (&KEY).into());
    let at = heap + 3 * PAGE;
    pages(later.given(Wanted { address: at, count: PAGES_MOST }));
    let wrong = [
        (at, 0),
        (at, PAGES_MOST + 1),
        (at, u64::MAX),
        (at + 8, 1),
        (0, 1),
        (heap - PAGE, 2),
        (heap + COUNT * PAGE, 1),
        (heap + (COUNT - 1) * PAGE, 2),
        (u64::MAX - PAGE + 1, 2),
    ];
    for (address, count) in wrong {
        assert_eq!(later.given(Wanted { address, count }), None, "{count} pages at {address:#x}");
    }
}

/// It is said of the page that is asked for, and of no other; also of a file that another one takes pages from, and if it is damaged after it
/// was opened.
#[test]
fn a_damaged_page_is_named_when_it_is_asked_for() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let Many { heap, first, second } = Many::write(folder.path(), (&KEY).into());
    let (_, _, before) = read(&second, (&KEY).into());
    let mut bytes = fs::read(&first).expect("a file");
    let page = Many::page(2000, 1);
    let at = bytes.windows(page.len()).position(|window| window == page).expect("it is there");
    bytes[at + 100] ^= 1;
    fs::write(&first, bytes).expect("written");
    let (_, _, of_first) = read(&first, (&KEY).into());
    let (_, _, of_second) = read(&second, (&KEY).into());
    for (later, file) in [(&of_first, None), (&of_second, Some("a.checkpoint")), (&before, Some("a.checkpoint"))] {
        let wanted = |page: u64, count| later.given(Wanted { address: heap + page * PAGE, count });
        for (page, count) in [(2000, 1), (1995, 10)] {
            let Some(Given::Damaged(why)) = wanted(page, count) else { panic!("it is damaged") };
            assert!(why.contains("has changed since it was written"), "{why}");
            assert!(file.is_none_or(|file| why.contains(file)), "{why}");
        }
        assert_eq!(pages(wanted(2001, 1)), Many::page(2001, 1));
    }
}

/// Its contents would be in memory as long as the worker.
#[test]
fn an_encrypted_file_is_read_as_a_whole() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let state = state_key(folder.path());
    let keys = Keys { seal: &KEY, state: Some(&state) };
    let Many { second, .. } = Many::write(folder.path(), keys);
    let (_, later, _) = Saved::read_for_one(&second, keys, plan).expect("it is right");
    assert!(later.is_none());
}

/// Each page is asked for once, or a little more often.
#[test]
fn pages_are_not_given_without_end() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let Many { heap, first, .. } = Many::write(folder.path(), (&KEY).into());
    let (_, elsewhere, later) = read(&first, (&KEY).into());
    let pages: u64 = elsewhere.iter().map(|range| (range.end - range.start) / PAGE).sum();
    let wanted = Wanted { address: heap + 3 * PAGE, count: PAGES_MOST };
    let given = (0..).take_while(|_| later.given(wanted).is_some()).count() as u64 * PAGES_MOST;
    assert!((pages * 2..pages * 2 + 2 * PAGES_MOST).contains(&given), "{given} of {pages}");
}

#[test]
fn a_few_pages_are_read_at_once() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = crate::tests::saved().write(folder.path(), "small", &KEY, None).expect("written").path;
    let (_, later, _) = Saved::read_for_one(&path, &KEY, plan).expect("it is right");
    assert!(later.is_none());
}
