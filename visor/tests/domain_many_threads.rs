//! 100 000 parked user threads in one domain, on two carriers: all of them finish, and each costs the system side no
//! more than 690 bytes while it is parked.
//!
//! The bytes are measured, not computed: this program's allocator counts what is allocated, and what a run with few
//! threads takes is subtracted. User stacks lie in the user partition and are not system memory.

mod support;

use monohull_visor::engine::RunOptions;
use monohull_visor::report::{Progress, RunReport, Status, Stream};
use serde_json::{Value, json};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{run_with, text};

/// The system's allocator, counting the bytes that are in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is left to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: it came from `alloc` with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Notes the bytes in use at the moment when all threads are parked.
#[derive(Default)]
struct Watcher {
    parked: AtomicUsize,
}

impl Progress for Watcher {
    fn line(&self, _: &str, _: u32, _: Stream, text: &str) {
        assert_eq!(text, "parked");
        self.parked.store(IN_USE.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

const THREADS: usize = 100_000;
const FEW: usize = 100;
/// The most a parked thread may cost, in bytes.
const BYTES_PER_THREAD: f64 = 690.0;

fn document(threads: usize, together: bool) -> Value {
    json!({
        "name": "many-threads",
        "functions": { "many-threads": { "image": "many-threads" } },
        "steps": [{
            "name": "park",
            "function": "many-threads",
            "args": { "threads": threads, "together": together },
            "stack": "16KiB",
            "memory": "4GiB",
        }],
        "limits": { "carriers": 2, "threads": THREADS + 1 },
        "outputs": ["finished"],
    })
}

/// Runs it; the bytes that were in use, beyond those before the run, while all threads were parked.
fn parked_bytes(threads: usize, together: bool) -> usize {
    let before = IN_USE.load(Ordering::Relaxed);
    let watcher = Arc::new(Watcher::default());
    let report: RunReport = run_with(&document(threads, together), &RunOptions::default(), watcher.clone());
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    assert_eq!(text(&report, "finished"), threads.to_string());
    watcher.parked.load(Ordering::Relaxed) - before
}

/// One test, because another one at the same time would be counted with it.
#[test]
fn a_hundred_thousand_threads_park_cheaply_and_finish() {
    for (together, how) in [(true, "on one condition"), (false, "each on its own")] {
        let few = parked_bytes(FEW, together);
        let many = parked_bytes(THREADS, together);
        let each = (many - few) as f64 / (THREADS - FEW) as f64;
        println!("{THREADS} threads parked {how}: {each:.1} bytes each");
        assert!(each <= BYTES_PER_THREAD, "{each:.1} bytes per parked thread");
    }
}
