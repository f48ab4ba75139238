//! Functions that never end, and functions whose wait nothing can end.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use monohull_abi::number;
use monohull_abi::types::{BYTES_FINGERPRINT, SlotView, TypeDesc};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::process;
use monohull_std::slot::SlotBuffer;
use monohull_std::sync::Mutex;
use monohull_std::thread;
use monohull_std::time::Duration;
use monohull_trampoline::user::hostcall;

#[inline(never)]
pub(crate) fn endless_loop() {
    static TURNS: AtomicU64 = AtomicU64::new(0);
    loop {
        TURNS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Lets others run first.
#[inline(never)]
pub(crate) fn endless_loop_after_sleep() {
    thread::sleep(Duration::from_millis(50));
    endless_loop();
}

#[inline(never)]
pub(crate) fn endless_loop_in_thread() {
    thread::spawn(endless_loop).join().expect("no thread ends with a panic");
}

#[inline(never)]
pub(crate) fn sleep_for_ever() {
    println!("good night");
    thread::sleep(Duration::from_secs(1_000_000));
}

/// Locks a mutex that it has locked.
#[inline(never)]
pub(crate) fn deadlock() {
    let mutex = Mutex::new(1);
    let first = mutex.lock();
    let second = mutex.lock();
    println!("{}", first.is_ok() && second.is_ok());
}

/// Takes a slot that no step fills.
#[inline(never)]
pub(crate) fn missing_slot() -> Result<(), Box<dyn Error>> {
    let slot = SlotBuffer::<u64>::from_slot("never-filled")?;
    println!("{}", *slot);
    Ok(())
}

/// Overwrites the name of a slot for which a thread waits, between two sleeps. The second is long, so that a capture is tried during it on a
/// busy machine too.
#[inline(never)]
pub(crate) fn rename_slot() {
    static NAME: [AtomicU8; 4] = [const { AtomicU8::new(b'x') }; 4];
    let sleep = |milliseconds| thread::sleep(Duration::from_millis(milliseconds));
    drop(thread::spawn(|| {
        let name = "[u8]";
        let ty = TypeDesc {
            fingerprint: BYTES_FINGERPRINT,
            name: name.as_ptr() as u64,
            name_len: name.len() as u64,
            element_size: 1,
        };
        let mut view = SlotView::default();
        let (ty, view) = (core::ptr::from_ref(&ty) as u64, core::ptr::from_mut(&mut view) as u64);
        hostcall(number::SLOT_TAKE, [NAME.as_ptr() as u64, NAME.len() as u64, ty, view, 0, 0])
    }));
    sleep(60);
    NAME.iter().for_each(|byte| byte.store(0xff, Ordering::Relaxed));
    sleep(1_000);
    println!("renamed");
    process::exit(0);
}
