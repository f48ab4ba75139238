//! Which pages come with one that is touched, which of them are filled, and when.

use super::*;

fn state(pages: usize) -> State {
    let bits = vec![vec![0; pages.div_ceil(64)]];
    State {
        source: None,
        missing: pages as u64,
        done: bits.clone(),
        dropped: bits.clone(),
        others: bits.clone(),
        asked: bits,
        kept: VecDeque::new(),
        next: (0, u64::MAX),
        ahead: AROUND,
        lost: None,
        before: Vec::new(),
        touched: None,
        may_leave: false,
    }
}

#[test]
fn what_is_around_a_page_comes_with_it() {
    let mut state = state(100);
    assert_eq!(state.with_page(0, 22, 100, 32), 20..24);
    state.finish(0, 20..24);
    assert_eq!(state.with_page(0, 99, 100, 32), 96..100);
    state.finish(0, 49..50);
    state.finish(0, 53..54);
    assert_eq!(state.with_page(0, 51, 100, 32), 50..52);
    assert_eq!(state.with_page(0, 54, 100, 32), 54..56);
    assert_eq!(state.with_page(0, 48, 100, 32), 48..49);
}

#[test]
fn more_and_more_comes_with_pages_one_after_the_other() {
    let (mut state, mut page, mut counts) = (state(1000), 0, Vec::new());
    for _ in 0..5 {
        let pages = state.with_page(0, page, 1000, 32);
        assert_eq!(pages.start, page);
        state.finish(0, pages.clone());
        counts.push(pages.end - pages.start);
        page = pages.end;
    }
    assert_eq!(counts, [4, 8, 16, 32, 32]);
    assert_eq!(state.with_page(0, 502, 1000, 32), 500..504, "from somewhere else");
}

#[test]
fn what_has_come_once_does_not_come_with_another_page() {
    let mut state = state(100);
    set(&mut state.asked[0], 21);
    assert_eq!(state.with_page(0, 23, 100, 32), 22..24);
    assert_eq!(state.with_page(0, 20, 100, 32), 20..21);
    assert_eq!(state.with_page(0, 21, 100, 32), 21..29, "one after the other");
}

/// Pages that have their numbers; those from 40 on are damaged.
#[derive(Debug, Default)]
struct Numbered(Mutex<Vec<Range<u64>>>, u64);

impl PageSource for Numbered {
    fn most(&self) -> u64 {
        32
    }

    fn pages(&self, address: u64, count: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), PageError> {
        let first = (address - self.1) / PAGE;
        self.0.lock().expect("no panic").push(first..first + count);
        if first + count > 40 {
            return Err(PageError::Damaged("a page is damaged".to_owned()));
        }
        let page = |number: u64| std::iter::repeat_n(number as u8, PAGE as usize);
        take(&(first..first + count).flat_map(page).collect::<Vec<_>>());
        Ok(())
    }

    fn lost(&self, _: &PageError) {}
}

/// Memory of 64 pages that are filled later.
fn later() -> (Later, Arc<Numbered>) {
    later_but(0..0)
}

/// The same, of which these pages are not the source's.
fn later_but(others: Range<u64>) -> (Later, Arc<Numbered>) {
    let bytes = 64 * PAGE;
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping where the kernel likes; it replaces nothing.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes as usize, rights, flags, -1, 0) } as u64;
    assert_ne!(start, u64::MAX, "memory");
    let faults = Faults::new().expect("userfaultfd");
    faults.watch(start..start + bytes).expect("it is watched");
    let source = Arc::new(Numbered(Mutex::default(), start));
    let parts = std::iter::once(start..start + bytes).collect();
    let others = start + others.start * PAGE..start + others.end * PAGE;
    (Later::new(source.clone(), Arc::new(faults), parts, &[others]), source)
}

impl Later {
    fn touch(&self, page: u64) -> Result<(), PageError> {
        self.fill_touched(&mut self.lock(), 0, page)
    }

    fn filled(&self) -> Vec<u64> {
        let state = self.lock();
        (0..64).filter(|page| state.is_done(0, *page)).collect()
    }

    /// The first byte of a page that is there.
    fn byte(&self, page: u64) -> *mut u8 {
        (self.parts[0].start + page * PAGE) as *mut u8
    }
}

#[test]
fn what_came_with_a_page_is_filled_with_the_second_of_them_that_is_touched() {
    let (later, source) = later();
    later.touch(22).expect("filled");
    assert_eq!(later.filled(), [22]);
    assert_eq!(later.touched(), [(later.byte(22) as u64, PAGE)]);
    // SAFETY: the page is there.
    unsafe { later.byte(22).write(99) };
    // One that was dropped is not filled, and one that is there is not overwritten.
    let dropped = later.byte(21) as u64;
    later.forget(&(dropped..dropped + PAGE));
    later.touch(20).expect("filled");
    assert_eq!(later.filled(), [20, 21, 22, 23]);
    let asked = source.0.lock().expect("no panic").clone();
    assert!(matches!(&asked[..], [pages] if *pages == (20..24)), "they are not asked for again: {asked:?}");
    // SAFETY: the pages are there.
    let bytes = [20, 22, 23].map(|page| unsafe { later.byte(page).read() });
    assert_eq!(bytes, [20, 99, 23]);
    later.zero(&mut later.lock(), 0, 21..22);
    // SAFETY: it is there now.
    assert_eq!(unsafe { later.byte(21).read() }, 0);
}

#[test]
fn no_page_is_asked_for_more_than_twice() {
    let (later, source) = later();
    // One of each ten groups, so that what comes with the first is not kept any more; then the others.
    for page in (0..4).flat_map(|page| (page..40).step_by(4)) {
        if !later.filled().contains(&page) {
            later.lock().next = (0, u64::MAX);
            later.touch(page).expect("filled");
            later.lock().kept.retain(|kept| !kept.pages.contains(&0));
        }
    }
    assert_eq!(later.filled(), (0..40).collect::<Vec<_>>());
    let asked = source.0.lock().expect("no panic");
    for page in 0..40 {
        let times = asked.iter().filter(|pages| pages.contains(&page)).count();
        assert!((1..=2).contains(&times), "page {page}: {times} times");
        // SAFETY: the page is there.
        assert_eq!(u64::from(unsafe { later.byte(page).read() }), page);
    }
}

#[test]
fn nothing_is_filled_of_what_comes_with_a_damaged_page() {
    let (later, _) = later();
    later.touch(40).expect_err("it is damaged");
    assert_eq!(later.filled(), [0; 0]);
    assert!(later.lock().kept.is_empty());
    later.touch(36).expect("filled");
    assert_eq!(later.filled(), [36]);
}

#[test]
fn pages_that_are_there_when_the_domain_goes_on_are_never_the_sources() {
    let (later, source) = later_but(21..23);
    later.touched_before(Vec::new(), true);
    let at = later.byte(21) as u64;
    later.give(at, &[7; 2 * PAGE as usize]).expect("they are missing");
    assert!(later.touched().is_empty());
    // What comes with a page ends before them.
    later.touch(20).expect("filled");
    later.touch(23).expect("filled");
    later.fill(&(later.byte(0) as u64..later.byte(40) as u64)).expect("filled");
    let asked = source.0.lock().expect("no panic").clone();
    assert!(asked.iter().all(|pages| !pages.contains(&21) && !pages.contains(&22)), "{asked:?}");
    // SAFETY: the pages are there.
    let bytes = [20, 21, 22, 23].map(|page| unsafe { later.byte(page).read() });
    assert_eq!(bytes, [20, 7, 7, 23]);
    let touched = [(later.byte(0) as u64, 21 * PAGE), (later.byte(23) as u64, 17 * PAGE)];
    assert_eq!(later.touched(), touched);
    // One that was dropped is zero from then on.
    // SAFETY: madvise(2): a page of the test's, to which nothing refers.
    unsafe { libc::madvise(at as *mut _, PAGE as usize, libc::MADV_DONTNEED) };
    later.forget(&(at..at + PAGE));
    later.fill(&(at..at + PAGE)).expect("zero");
    // SAFETY: the page is there.
    assert_eq!(unsafe { later.byte(21).read() }, 0);
}
