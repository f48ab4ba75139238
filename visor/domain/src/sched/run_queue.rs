//! The run queue: threads that are ready, in the order in which carriers take them.
//!
//! A woken thread goes to its waker's *hand-off* slot. When the waker parks or ends, its carrier goes on with the woken
//! thread without touching the queue, and the caches still hold what the two exchange.

use super::thread::ThreadIndex;
use monohull_abi::layout::CARRIER_MAX;
use std::collections::VecDeque;

/// After this many hand-offs in a row the queue gets its turn.
const HANDOFFS_IN_A_ROW: u32 = 64;

/// Ready threads. An entry may be stale: its thread has ended or has been taken since. The caller knows which are ready.
pub(super) struct RunQueue {
    queue: VecDeque<ThreadIndex>,
    handoff: [Option<ThreadIndex>; CARRIER_MAX],
    /// How many hand-offs each carrier has taken in a row.
    in_a_row: [u32; CARRIER_MAX],
}

impl RunQueue {
    pub(super) fn new() -> RunQueue {
        RunQueue { queue: VecDeque::new(), handoff: [None; CARRIER_MAX], in_a_row: [0; CARRIER_MAX] }
    }

    /// Appends a thread to the queue.
    pub(super) fn push(&mut self, thread: ThreadIndex) {
        self.queue.push_back(thread);
    }

    /// Hands a thread to a carrier, or appends it to the queue if the carrier has one already or there is no such carrier.
    pub(super) fn hand_off(&mut self, thread: ThreadIndex, carrier: Option<usize>) {
        match carrier.and_then(|carrier| self.handoff.get_mut(carrier)) {
            Some(slot) if slot.is_none() => *slot = Some(thread),
            _ => self.queue.push_back(thread),
        }
    }

    /// Takes the next thread for a carrier: the one handed to it, else the first of the queue, else one that was handed to
    /// another of the `started` carriers.
    pub(super) fn take(
        &mut self,
        carrier: usize,
        started: usize,
        is_ready: impl Fn(ThreadIndex) -> bool,
    ) -> Option<ThreadIndex> {
        if (self.in_a_row[carrier] < HANDOFFS_IN_A_ROW || self.queue.is_empty())
            && let Some(thread) = self.handoff[carrier].take()
            && is_ready(thread)
        {
            self.in_a_row[carrier] += 1;
            return Some(thread);
        }
        self.in_a_row[carrier] = 0;
        while let Some(thread) = self.queue.pop_front() {
            if is_ready(thread) {
                return Some(thread);
            }
        }
        let handed = |slot: &mut Option<ThreadIndex>| slot.take().filter(|thread| is_ready(*thread));
        self.handoff[..started].iter_mut().find_map(handed)
    }

    /// All entries, stale ones too, in the order in which one carrier would take them.
    pub(super) fn iter(&self) -> impl Iterator<Item = ThreadIndex> {
        self.queue.iter().copied().chain(self.handoff.iter().copied().flatten())
    }

    /// Whether the queue, from which any carrier may take, has entries.
    pub(super) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether there are entries at all, hand-offs to the `started` carriers included.
    pub(super) fn has_any(&self, started: usize) -> bool {
        self.has_queued() || self.handoff[..started].iter().any(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(number: u32) -> ThreadIndex {
        ThreadIndex::of_number(number)
    }

    #[test]
    fn a_handed_over_thread_goes_first_and_only_so_many_times() {
        let mut queue = RunQueue::new();
        for _ in 0..HANDOFFS_IN_A_ROW {
            queue.push(thread(1));
            queue.hand_off(thread(2), Some(0));
            assert_eq!(queue.take(0, 2, |_| true), Some(thread(2)));
        }
        queue.hand_off(thread(2), Some(0));
        assert_eq!(queue.take(0, 2, |_| true), Some(thread(1)), "the queue has its turn");
        assert_eq!(queue.take(0, 2, |_| true), Some(thread(2)));
    }

    #[test]
    fn an_occupied_slot_and_an_unknown_carrier_mean_the_queue() {
        let mut queue = RunQueue::new();
        queue.hand_off(thread(1), Some(1));
        assert!(!queue.has_queued() && queue.has_any(2) && !queue.has_any(1));
        queue.hand_off(thread(2), Some(1));
        queue.hand_off(thread(3), Some(usize::MAX));
        queue.hand_off(thread(4), None);
        let order: Vec<_> = std::iter::from_fn(|| queue.take(0, 2, |_| true)).collect();
        assert_eq!(order, [2, 3, 4, 1].map(thread), "the hand-off of the other carrier comes last");
    }

    #[test]
    fn stale_entries_are_skipped() {
        let mut queue = RunQueue::new();
        queue.hand_off(thread(1), Some(0));
        queue.push(thread(1));
        queue.push(thread(2));
        assert_eq!(queue.take(0, 1, |other| other != thread(1)), Some(thread(2)));
        assert!(!queue.has_any(1));
    }
}
