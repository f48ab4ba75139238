//! What each instance has charged to it: one entry per cell, found without a lock.
//!
//! Each transfer of a buffer makes charges. An entry belongs to the instance whose id it has;
//! a charge for an instance that has ended meanwhile finds another id and does nothing.

use monohull_abi::layout::CELL_COUNT;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

/// The accounts of all cells.
pub(super) struct Accounts(Box<[Account]>);

/// The account of one instance.
#[derive(Default)]
pub(super) struct Account {
    /// The instance, or [`NO_INSTANCE`].
    id: AtomicU32,
    /// Most bytes of the image's data, heap, thread stacks and slot buffers.
    limit: AtomicI64,
    /// Bytes of the image's data, heap, thread stacks and slot buffers.
    charged: AtomicI64,
    /// Bytes taken over by reference.
    bytes_in: AtomicU64,
    /// Bytes given to others by reference.
    bytes_out: AtomicU64,
}

/// No instance has this id: ids begin at 1.
const NO_INSTANCE: u32 = 0;

impl Accounts {
    pub(super) fn new() -> Accounts {
        Accounts((0..CELL_COUNT).map(|_| Account::default()).collect())
    }

    /// Opens the account of an instance that is about to start with `charged` bytes.
    pub(super) fn open(&self, cell: usize, id: u32, limit: u64, charged: u64) {
        let account = &self.0[cell];
        account.limit.store(i64::try_from(limit).unwrap_or(i64::MAX), Ordering::Relaxed);
        account.charged.store(i64::try_from(charged).unwrap_or(i64::MAX), Ordering::Relaxed);
        account.bytes_in.store(0, Ordering::Relaxed);
        account.bytes_out.store(0, Ordering::Relaxed);
        account.id.store(id, Ordering::Release);
    }

    /// Closes it: later charges have no effect.
    pub(super) fn close(&self, cell: usize) {
        self.0[cell].id.store(NO_INSTANCE, Ordering::Release);
    }

    /// The account of an instance, if it is open.
    pub(super) fn of(&self, cell: usize, id: u32) -> Option<&Account> {
        self.0.get(cell).filter(|account| account.id.load(Ordering::Acquire) == id)
    }
}

impl Account {
    /// Charges or refunds bytes; false if the limit would be passed.
    pub(super) fn charge(&self, bytes: i64) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let add = |used: i64| {
            let new = used.saturating_add(bytes);
            (bytes <= 0 || new <= limit).then_some(new)
        };
        self.charged.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Bytes charged.
    pub(super) fn charged(&self) -> i64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// Counts bytes passed by reference.
    pub(super) fn pass(&self, bytes: u64, taken: bool) {
        let counter = if taken { &self.bytes_in } else { &self.bytes_out };
        counter.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Goes on counting from what was passed before.
    pub(super) fn restore_passed(&self, (taken, given): (u64, u64)) {
        self.bytes_in.store(taken, Ordering::Relaxed);
        self.bytes_out.store(given, Ordering::Relaxed);
    }

    /// Bytes taken over, and bytes given to others.
    pub(super) fn passed(&self) -> (u64, u64) {
        (self.bytes_in.load(Ordering::Relaxed), self.bytes_out.load(Ordering::Relaxed))
    }
}
