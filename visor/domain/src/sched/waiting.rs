//! Which threads wait for what: a hash table of queues that are threaded through the thread table itself.
//!
//! ```text
//! bucket(key) ─▶ first ⇄ thread ⇄ thread ⇄ last        threads of several keys may share a bucket;
//!                                                       those of one key are woken in the order they came
//! ```
//!
//! Waiting allocates nothing but, now and then, a larger table.

use super::thread::{ThreadIndex, Threads};
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
    first: Option<ThreadIndex>,
    last: Option<ThreadIndex>,
}

impl Waiting {
    pub(super) fn new() -> Waiting {
        let factor = RandomState::new().hash_one(0) | 1;
        Waiting { factor, buckets: vec![Queue::default(); FIRST_BUCKETS], threads: 0 }
    }

    /// Queues a thread behind those that wait for the same key. No thread is ever queued for [`NO_KEY`].
    pub(super) fn link(&mut self, threads: &mut Threads, thread: ThreadIndex, key: u64) {
        threads[thread].key = key;
        if key == NO_KEY {
            return;
        }
        if self.threads >= self.buckets.len() * THREADS_PER_BUCKET {
            self.grow(threads);
        }
        self.threads += 1;
        append(self.bucket(key), threads, thread);
    }

    /// Takes a thread out of its queue, if it is in one.
    pub(super) fn unlink(&mut self, threads: &mut Threads, thread: ThreadIndex) {
        let entry = &mut threads[thread];
        let key = std::mem::replace(&mut entry.key, NO_KEY);
        if key == NO_KEY {
            return;
        }
        self.threads -= 1;
        let (next, previous) = (entry.next.take(), entry.previous.take());
        let queue = self.bucket(key);
        match next {
            Some(next) => threads[next].previous = previous,
            None => queue.last = previous,
        }
        match previous {
            Some(previous) => threads[previous].next = next,
            None => queue.first = next,
        }
    }

    /// The thread that has waited longest for a key.
    pub(super) fn first(&self, threads: &Threads, key: u64) -> Option<ThreadIndex> {
        of_key(threads, self.buckets[self.bucket_of(key)].first, key)
    }

    /// The threads that wait for a key, in the order in which they came.
    pub(super) fn queue(&self, threads: &Threads, key: u64) -> impl Iterator<Item = ThreadIndex> {
        std::iter::successors(self.first(threads, key), |thread| Waiting::after(threads, *thread))
    }

    /// The next one that waits for the same key.
    pub(super) fn after(threads: &Threads, thread: ThreadIndex) -> Option<ThreadIndex> {
        let entry = &threads[thread];
        of_key(threads, entry.next, entry.key)
    }

    fn bucket(&mut self, key: u64) -> &mut Queue {
        let index = self.bucket_of(key);
        &mut self.buckets[index]
    }

    fn bucket_of(&self, key: u64) -> usize {
        // The high bits of the product depend on all bits of the key. The factor is secret: functions choose futex
        // addresses, and must not be able to choose a bucket.
        let hash = key.wrapping_mul(self.factor);
        (hash >> (64 - self.buckets.len().ilog2())) as usize
    }

    fn grow(&mut self, threads: &mut Threads) {
        let larger = vec![Queue::default(); self.buckets.len() * 2];
        for queue in std::mem::replace(&mut self.buckets, larger) {
            let mut thread = queue.first;
            while let Some(moved) = thread {
                let entry = &mut threads[moved];
                thread = entry.next.take();
                entry.previous = None;
                let key = entry.key;
                append(self.bucket(key), threads, moved);
            }
        }
    }
}

/// The first thread from `thread` on that waits for `key`.
fn of_key(threads: &Threads, mut thread: Option<ThreadIndex>, key: u64) -> Option<ThreadIndex> {
    while let Some(candidate) = thread {
        let entry = &threads[candidate];
        if entry.key == key {
            break;
        }
        thread = entry.next;
    }
    thread
}

fn append(queue: &mut Queue, threads: &mut Threads, thread: ThreadIndex) {
    let entry = &mut threads[thread];
    entry.next = None;
    entry.previous = queue.last;
    match queue.last {
        Some(last) => threads[last].next = Some(thread),
        None => queue.first = Some(thread),
    }
    queue.last = Some(thread);
}
