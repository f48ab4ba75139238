//! `std::sync::atomic`: briefly, because it is core's own, and under real threads.

use super::check;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{self, AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize};
use std::thread;

pub(super) fn all() {
    let n = AtomicU32::new(5);
    check!(
        "fetch",
        (
            n.fetch_add(3, SeqCst),
            n.fetch_sub(1, Relaxed),
            n.fetch_max(20, AcqRel),
            n.fetch_and(0b110, SeqCst),
            n.fetch_xor(1, SeqCst),
            n.load(Acquire)
        )
    );
    check!(
        "swap_and_compare",
        (
            n.swap(7, SeqCst),
            n.compare_exchange(7, 8, SeqCst, Relaxed),
            n.compare_exchange(7, 9, SeqCst, Relaxed),
            n.load(SeqCst)
        )
    );
    check!(
        "update",
        (
            n.fetch_update(SeqCst, SeqCst, |n| n.checked_mul(2)),
            n.fetch_update(SeqCst, SeqCst, |_| None),
            n.into_inner()
        )
    );
    check!("bool", {
        let b = AtomicBool::new(true);
        (b.fetch_not(SeqCst), b.fetch_or(true, SeqCst), b.fetch_nand(true, SeqCst), b.load(SeqCst))
    });
    check!("wraps", {
        let n = AtomicU8::new(255);
        (n.fetch_add(2, SeqCst), n.load(SeqCst), AtomicI64::new(i64::MIN).fetch_sub(1, SeqCst))
    });
    check!("pointer", {
        let mut value = 1;
        let p = AtomicPtr::new(&raw mut value);
        (p.load(SeqCst) == &raw mut value, p.swap(std::ptr::null_mut(), SeqCst).is_null(), p.into_inner().is_null())
    });
    check!("counting_threads", {
        let n = AtomicUsize::new(0);
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    (0..5000).for_each(|_| {
                        n.fetch_add(1, Relaxed);
                    })
                });
            }
        });
        n.into_inner()
    });
    check!("message_passing", {
        let (data, ready) = (AtomicU32::new(0), AtomicBool::new(false));
        thread::scope(|s| {
            s.spawn(|| {
                data.store(42, Relaxed);
                ready.store(true, Release);
            });
            while !ready.load(Acquire) {
                thread::yield_now();
            }
            data.load(Relaxed)
        })
    });
    check!("fences", {
        atomic::fence(SeqCst);
        atomic::compiler_fence(AcqRel);
        std::hint::spin_loop()
    });
    check!("debug", format!("{:?} {:?}", AtomicUsize::default(), AtomicBool::from(true)));
}
