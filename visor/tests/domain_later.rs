//! A domain that goes on from pages that are elsewhere: it gets those that it touches, and ends where one of them cannot be had.

mod support;

use monohull_ipc::sealed_pages::{PagesFile, read_pages};
use monohull_sys::sealed_bytes::SealedBytes;
use monohull_visor::domain::checkpoint::record::PageRun;
use monohull_visor::domain::checkpoint::{CapturedPages, Continuation, PageError, PageSource};
use monohull_visor::engine::{Ready, RunEnd};
use monohull_visor::report::failure::{Blame, FailureKind};
use monohull_visor::report::{RunReport, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use support::sleeper::{go_on, sleeper};
use support::{ready, report, suspended};

const PAGE: u64 = 4096;
/// Bytes that the function has written before it sleeps.
const BYTES: u64 = 3 << 20;
/// There are enough pages, and those that are not touched may be left where they are.
const STAYS: u64 = u64::MAX - 1;
/// Runs of so many bytes are elsewhere.
const LARGE: usize = 64 << 10;

/// Pages by their addresses.
#[derive(Debug)]
struct Pages {
    pages: BTreeMap<u64, Vec<u8>>,
    given: AtomicU64,
    /// From so many given pages on there are no more, or too few.
    enough: u64,
    ends: Ends,
    lost: Mutex<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ends {
    Never,
    Damaged,
    TooFew,
}

impl PageSource for Pages {
    fn most(&self) -> u64 {
        16
    }

    fn pages(&self, address: u64, count: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), PageError> {
        assert!((1..=self.most()).contains(&count) && address.is_multiple_of(PAGE), "{count} pages at {address:#x}");
        let given = self.given.fetch_add(count, Ordering::Relaxed) + count;
        let addresses = (address..address + count * PAGE).step_by(PAGE as usize);
        let bytes: Vec<u8> = addresses.flat_map(|at| self.pages[&at].iter().copied()).collect();
        match self.ends {
            Ends::Damaged if given > self.enough => return Err(PageError::Damaged("a page is damaged".to_owned())),
            Ends::TooFew if given > self.enough => take(&bytes[1..]),
            _ => take(&bytes),
        }
        Ok(())
    }

    fn lost(&self, error: &PageError) {
        self.lost.lock().expect("no panic").push(error.to_string());
    }
}

/// The continuation with its large runs elsewhere.
fn elsewhere(whole: Continuation, enough: u64, ends: Ends) -> (Continuation<CapturedPages>, Arc<Pages>) {
    elsewhere_but(whole, enough, ends, |_| false)
}

/// The same, but for these pages of them.
fn elsewhere_but(
    whole: Continuation,
    enough: u64,
    ends: Ends,
    is_here: impl Fn(u64) -> bool,
) -> (Continuation<CapturedPages>, Arc<Pages>) {
    let mut file = PagesFile::new().expect("memory");
    let mut pages = BTreeMap::new();
    let record = whole.map_pages(|runs| {
        for run in runs {
            let all_here = run.bytes.len() < LARGE;
            for (address, bytes) in (run.address..).step_by(PAGE as usize).zip(run.bytes.chunks(PAGE as usize)) {
                if all_here || is_here(address) {
                    let at = file.add(address, PAGE);
                    file.write(at, bytes).expect("written");
                } else {
                    file.leave(address, PAGE);
                    pages.insert(address, bytes.to_vec());
                }
            }
        }
    });
    let sealed = file.seal(&()).expect("sealed");
    let bytes = SealedBytes::map(&sealed).expect("it is sealed");
    let ((), placed) = read_pages(&bytes).expect("it is as it was written");
    let source = Arc::new(Pages { pages, given: AtomicU64::new(0), enough, ends, lost: Mutex::default() });
    let may_leave = enough == STAYS;
    let here = CapturedPages::in_file(sealed, bytes, placed.here);
    let all = here.and_later(placed.elsewhere, source.clone(), may_leave);
    (record.map_pages(|()| all), source)
}

/// The rest of a run that waits, as if it had lain there until its first timer was due.
fn due(end: RunEnd) -> Continuation {
    Continuation { wall: 0, ..suspended(end).continuation }
}

fn asleep(ready: &Ready) -> Continuation {
    suspended(go_on(ready, None, false)).continuation
}

#[track_caller]
fn is_done(report: &RunReport) {
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
}

#[test]
fn pages_that_are_not_touched_are_not_asked_for() {
    let ready = sleeper(BYTES as usize, 40);
    let _one = support::one_at_a_time();
    let (continuation, source) = elsewhere(asleep(&ready), u64::MAX, Ends::Never);
    assert!(continuation.pages.are_elsewhere());
    is_done(&report(go_on(&ready, Some(continuation), true)));
    let given = source.given.load(Ordering::Relaxed);
    assert!((40..BYTES / PAGE / 2).contains(&given), "{given} pages of {}", BYTES / PAGE);
    assert!(source.lost.lock().expect("no panic").is_empty());
}

#[test]
fn a_capture_has_all_pages_whether_they_were_touched_or_not() {
    let ready = sleeper(BYTES as usize, 40);
    let _one = support::one_at_a_time();
    let first = asleep(&ready);
    let (continuation, source) = elsewhere(first.clone(), u64::MAX, Ends::Never);
    let again = suspended(go_on(&ready, Some(continuation), false)).continuation;
    assert!(again.pages == first.pages && again.unchanged.is_empty());
    assert!(source.given.load(Ordering::Relaxed) >= BYTES / PAGE);
    is_done(&report(go_on(&ready, Some(again.map_pages(CapturedPages::from)), true)));
}

/// A function that sleeps so often, and writes to some pages after each time.
fn wakes(times: u32) -> Ready {
    let args = json!({ "what": "wake", "count": 10_000, "bytes": BYTES, "pages": 10, "times": times });
    ready(&json!({
        "name": "later",
        "functions": { "probe": { "image": "bench-probe" } },
        "steps": [{ "name": "wakes", "function": "probe", "args": args }],
        "limits": { "carriers": 1 },
    }))
}

/// What has not been touched is as in the checkpoint that it has gone on from, and is not asked for.
#[test]
fn a_capture_may_leave_what_was_not_touched() {
    let ready = wakes(2);
    let _one = support::one_at_a_time();
    let first = due(go_on(&ready, None, false));
    let before: BTreeMap<u64, Vec<u8>> = pages_of(&first).collect();
    let whole = suspended(go_on(&ready, Some(elsewhere(first.clone(), u64::MAX, Ends::Never).0), false)).continuation;
    let (continuation, source) = elsewhere(first, STAYS, Ends::Never);
    let mut second = suspended(go_on(&ready, Some(continuation), false)).continuation;
    assert!(source.given.load(Ordering::Relaxed) < BYTES / PAGE / 4);
    let left: u64 = second.unchanged.iter().map(|(_, bytes)| bytes / PAGE).sum();
    assert!(left > BYTES / PAGE / 2, "{left} pages were left");
    // Both together are what a capture has that reads all of it.
    second = complete(second, &before);
    assert!(second.pages == whole.pages);
    is_done(&report(go_on(&ready, Some(second.map_pages(CapturedPages::from)), true)));
}

/// A capture with the pages that it has left out, which are as they were.
fn complete(mut capture: Continuation, before: &BTreeMap<u64, Vec<u8>>) -> Continuation {
    let mut all: BTreeMap<u64, Vec<u8>> = pages_of(&capture).collect();
    for (start, bytes) in std::mem::take(&mut capture.unchanged) {
        for page in (start..start + bytes).step_by(PAGE as usize) {
            assert!(all.insert(page, before[&page].clone()).is_none(), "page {page:#x} is there twice");
        }
    }
    capture.pages.clear();
    for (address, bytes) in all {
        match capture.pages.last_mut() {
            Some(last) if last.address + last.bytes.len() as u64 == address => last.bytes.extend(bytes),
            _ => capture.pages.push(PageRun { address, bytes }),
        }
    }
    capture
}

fn pages_of(continuation: &Continuation) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let pages = |run: &PageRun| {
        let pages: Vec<_> = run.bytes.chunks(PAGE as usize).map(<[u8]>::to_vec).collect();
        (run.address..).step_by(PAGE as usize).zip(pages)
    };
    continuation.pages.iter().flat_map(pages)
}

/// What a run has touched in one part is had first in the next one.
#[test]
fn a_capture_says_what_was_touched() {
    let ready = wakes(3);
    let _one = support::one_at_a_time();
    let first = due(go_on(&ready, None, false));
    assert!(first.touched.is_empty(), "that is not known");
    let (continuation, source) = elsewhere(first, u64::MAX, Ends::Never);
    let second = due(go_on(&ready, Some(continuation), false));
    let pages = |continuation: &Continuation| continuation.touched.iter().map(|(_, bytes)| bytes / PAGE).sum::<u64>();
    // Not what is around those pages.
    assert!((10..20).contains(&pages(&second)), "{:?}", second.touched);
    // And it is kept in mind, though these pages are not elsewhere any more.
    let touched = second.touched.clone();
    let is_touched = |page: u64| touched.iter().any(|(start, bytes)| (*start..start + bytes).contains(&page));
    let (continuation, again) = elsewhere_but(second, u64::MAX, Ends::Never, is_touched);
    let third = due(go_on(&ready, Some(continuation), false));
    assert_eq!(third.touched, touched);
    assert!(again.given.load(Ordering::Relaxed) < source.given.load(Ordering::Relaxed));
    let (continuation, _) = elsewhere(third, u64::MAX, Ends::Never);
    is_done(&report(go_on(&ready, Some(continuation), true)));
}

/// It does nothing without that page.
#[test]
fn an_instance_that_touches_a_page_which_cannot_be_had_ends() {
    let ready = sleeper(BYTES as usize, 1000);
    let _one = support::one_at_a_time();
    let first = asleep(&ready);
    for (ends, why) in [(Ends::Damaged, "a page is damaged"), (Ends::TooFew, "the host cannot fill a page")] {
        let (continuation, source) = elsewhere(first.clone(), 100, ends);
        let report = report(go_on(&ready, Some(continuation), true));
        let error = report.error.as_ref().expect("it fails");
        assert_eq!((error.kind, error.blame), (FailureKind::MemoryFault, Blame::Host), "{error:#?}");
        assert!(error.message.contains("memory whose checkpoint cannot be read") && error.message.contains(why));
        assert!(source.lost.lock().expect("no panic")[0].contains(why));
        assert!(source.given.load(Ordering::Relaxed) < 200, "nothing more is asked for");
    }
    let (continuation, _) = elsewhere(first, u64::MAX, Ends::Never);
    is_done(&report(go_on(&ready, Some(continuation), true)));
}

/// `libc/programs/asleep.c`: a program's memory is given back, mapped over, resized, and given to system calls before it is touched.
#[test]
fn memory_of_a_program_is_as_it_was_whatever_is_done_to_it_first() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let argv = ["2", "10000", "/host/file", "/memory"];
    let document: Value = json!({
        "name": "later",
        "functions": { "asleep": { "image": "libc-asleep" } },
        "files": [
            { "at": "/", "memory": "16MiB" },
            { "at": "/host", "directory": folder.path(), "access": "write" },
        ],
        "steps": [{ "name": "asleep", "function": "asleep", "args": { "argv": argv } }],
        "limits": { "timeout": "1h" },
    });
    let report = in_parts(&ready(&document));
    let lines: Vec<_> = report.steps[0].instances[0].lines.iter().map(|line| line.text.clone()).collect();
    assert!(lines.len() == 1 && lines[0].ends_with(" checks, 0 failures"), "{lines:?}");
}

/// The same with memory that is dropped, unmapped, protected, moved to and from buffers, and captured by the function itself.
#[test]
fn mapped_memory_is_as_it_was_whatever_is_done_to_it_first() {
    let folder = tempfile::TempDir::new().expect("a folder");
    in_parts(&ready(&json!({
        "name": "later",
        "functions": { "rewinds": { "image": "rewinds" } },
        "files": [{ "at": "/host", "directory": folder.path(), "access": "write" }],
        "steps": [{ "name": "asleep", "function": "rewinds", "args": { "how": "asleep", "rounds": 10_000 } }],
        "outputs": ["result"],
        "limits": { "timeout": "1h" },
    })));
}

/// Runs a workflow to its end, which it reaches as it should, in as many parts as it only waits; again with captures that leave out
/// what was not touched; and with pages in the midst of such memory that are not elsewhere.
#[track_caller]
fn in_parts(ready: &Ready) -> RunReport {
    let _one = support::one_at_a_time();
    let reports = [(u64::MAX, None), (STAYS, None), (STAYS, Some(20))].map(|(enough, one_in)| {
        let (mut end, mut parts, mut given) = (go_on(ready, None, false), 0, 0);
        let mut before = BTreeMap::new();
        while let RunEnd::Suspended(_) = end {
            let whole = complete(due(end), &before);
            before = pages_of(&whole).collect();
            let is_here = |page: u64| one_in.is_some_and(|one_in| (page / PAGE).is_multiple_of(one_in));
            let (continuation, source) = elsewhere_but(whole, enough, Ends::Never, is_here);
            end = go_on(ready, Some(continuation), false);
            given += source.given.load(Ordering::Relaxed);
            parts += 1;
        }
        let report = report(end);
        is_done(&report);
        assert!(parts >= 1 && given > 500, "{parts} parts, {given} pages");
        report
    });
    let lines = |report: &RunReport| {
        format!("{:?}", report.steps[0].instances[0].lines.iter().map(|line| &line.text).collect::<Vec<_>>())
    };
    assert!(reports.iter().all(|report| lines(report) == lines(&reports[0])));
    let [report, ..] = reports;
    report
}
