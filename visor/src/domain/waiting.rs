//! Who waits for what: a hash table of queues that are threaded through the control blocks themselves.
//!
//! ```text
//! bucket(key) ─▶ first ⇄ thread ⇄ thread ⇄ last        threads of several keys may share a bucket;
//!                                                       those of one key are woken in the order they came
//! ```
//!
//! Waiting allocates nothing but, now and then, a larger table.

use super::scheduler::get;
use super::thread::ThreadRef;
use monohull_abi::module::NO_KEY;
use std::hash::{BuildHasher, RandomState};

/// Buckets to begin with; a power of two.
const FIRST_BUCKETS: usize = 64;
/// The table doubles when it holds this many threads per bucket.
const THREADS_PER_BUCKET: usize = 4;

/// All threads that wait for a key.
pub(super) struct Waiting {
    /// Odd and random.
    factor: u64,
    buckets: Vec<Queue>,
    threads: usize,
}

#[derive(Clone, Copy, Default)]
struct Queue {
    first: Option<ThreadRef>,
    last: Option<ThreadRef>,
}

impl Waiting {
    pub(super) fn new() -> Waiting {
        let factor = RandomState::new().hash_one(0) | 1;
        Waiting { factor, buckets: vec![Queue::default(); FIRST_BUCKETS], threads: 0 }
    }

    /// Queues a thread behind those who wait for the same key. Nobody is ever queued for [`NO_KEY`].
    pub(super) fn link(&mut self, thread: ThreadRef, key: u64) {
        get(thread).key = key;
        if key == NO_KEY {
            return;
        }
        if self.threads >= self.buckets.len() * THREADS_PER_BUCKET {
            self.grow();
        }
        self.threads += 1;
        append(self.bucket(key), thread);
    }

    /// Takes a thread out of its queue, if it is in one.
    pub(super) fn unlink(&mut self, thread: ThreadRef) {
        let block = get(thread);
        let key = std::mem::replace(&mut block.key, NO_KEY);
        if key == NO_KEY {
            return;
        }
        self.threads -= 1;
        let (next, previous) = (block.next.take(), block.previous.take());
        let queue = self.bucket(key);
        match next {
            Some(next) => get(next).previous = previous,
            None => queue.last = previous,
        }
        match previous {
            Some(previous) => get(previous).next = next,
            None => queue.first = next,
        }
    }

    /// The thread that has waited longest for a key.
    pub(super) fn first(&mut self, key: u64) -> Option<ThreadRef> {
        of_key(self.bucket(key).first, key)
    }

    /// The next one that waits for the same key.
    pub(super) fn after(thread: ThreadRef) -> Option<ThreadRef> {
        let block = get(thread);
        of_key(block.next, block.key)
    }

    fn bucket(&mut self, key: u64) -> &mut Queue {
        // The high bits of the product depend on all bits of the key. The factor is secret: functions choose futex
        // addresses, and must not be able to choose a bucket.
        let hash = key.wrapping_mul(self.factor);
        let index = hash >> (64 - self.buckets.len().ilog2());
        &mut self.buckets[index as usize]
    }

    fn grow(&mut self) {
        let larger = vec![Queue::default(); self.buckets.len() * 2];
        for queue in std::mem::replace(&mut self.buckets, larger) {
            let mut thread = queue.first;
            while let Some(moved) = thread {
                let block = get(moved);
                thread = block.next;
                (block.next, block.previous) = (None, None);
                append(self.bucket(block.key), moved);
            }
        }
    }
}

/// The first thread from `thread` on that waits for `key`.
fn of_key(mut thread: Option<ThreadRef>, key: u64) -> Option<ThreadRef> {
    while let Some(candidate) = thread {
        let block = get(candidate);
        if block.key == key {
            break;
        }
        thread = block.next;
    }
    thread
}

fn append(queue: &mut Queue, thread: ThreadRef) {
    let block = get(thread);
    block.next = None;
    block.previous = queue.last;
    match queue.last {
        Some(last) => get(last).next = Some(thread),
        None => queue.first = Some(thread),
    }
    queue.last = Some(thread);
}
