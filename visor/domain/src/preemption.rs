//! How user code is taken off a carrier: the state of each carrier that other threads and its signal handler use, and the signals.
//!
//! The sandbox denies the system call that signals a thread, because it reaches other processes too. So each carrier has two kernel
//! timers: one for the deadline and the time slice of what it runs, and one that others set to preempt it.

use crate::host_time::monotonic_ns;
use crate::thread_setup::{CarrierError, checked, info_line};
use monohull_abi::layout::{CARRIER_MAX, SELECTOR_ALLOW};
use monohull_abi::module::NEVER;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};

/// The state of a carrier that other carriers and its signal handler use.
pub struct CarrierState {
    /// Kernel thread id, 0 while detached.
    pub(crate) tid: AtomicI32,
    /// [`PREEMPT_SIGNAL`] has been sent since an instance was last bound.
    pub(crate) preempt_sent: AtomicBool,
    /// Its timer has fired, or the handler has set it, since the carrier last set it.
    pub(crate) timer_set: AtomicBool,
    /// A signal interrupted trusted code: the run loop checks for the end of the instance before it enters user code.
    pub(crate) attention: AtomicBool,
    /// Kernel ids of two timers: its own, and the one by which others preempt it. -1: no such timer.
    pub(crate) timer: AtomicI32,
    /// See `timer`.
    pub(crate) preempt_timer: AtomicI32,
    /// The `stop` flag of the instance it runs, null in between.
    pub(crate) stop: AtomicPtr<AtomicBool>,
    /// When that instance's time is up.
    pub(crate) deadline: AtomicU64,
    /// How long user code runs now before others get their turn, in ns; [`NEVER`] if it is not interrupted for that.
    pub(crate) slice: AtomicU64,
    /// The hostcall that was made last.
    pub(crate) call: AtomicU64,
}

impl CarrierState {
    /// What a carrier begins with; thread and timers apart.
    pub(crate) fn clear(&self) {
        self.preempt_sent.store(false, Ordering::Relaxed);
        self.timer_set.store(false, Ordering::Relaxed);
        self.attention.store(false, Ordering::Relaxed);
        self.stop.store(std::ptr::null_mut(), Ordering::Release);
        self.deadline.store(NEVER, Ordering::Relaxed);
        self.slice.store(NEVER, Ordering::Relaxed);
        self.call.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
impl CarrierState {
    /// The kernel's id of its timer.
    pub(super) fn timer_id(&self) -> i32 {
        self.timer.load(Ordering::Acquire)
    }

    /// Whether no instance is bound to it, and none has left anything.
    pub(super) fn is_unbound(&self) -> bool {
        self.stop.load(Ordering::Acquire).is_null()
            && self.deadline.load(Ordering::Relaxed) == NEVER
            && self.slice.load(Ordering::Relaxed) == NEVER
            && self.call.load(Ordering::Relaxed) == 0
    }
}

/// All carriers of the process, by index.
pub static CARRIERS: [CarrierState; CARRIER_MAX] = [const {
    CarrierState {
        tid: AtomicI32::new(0),
        preempt_sent: AtomicBool::new(false),
        timer_set: AtomicBool::new(false),
        attention: AtomicBool::new(false),
        timer: AtomicI32::new(-1),
        preempt_timer: AtomicI32::new(-1),
        stop: AtomicPtr::new(std::ptr::null_mut()),
        deadline: AtomicU64::new(NEVER),
        slice: AtomicU64::new(NEVER),
        call: AtomicU64::new(0),
    }
}; CARRIER_MAX];

/// A handler that interrupts trusted code of an instance that has to stop sets the timer this far ahead.
const RETRY_NS: u64 = 1_000_000;

/// The signal that preempts a carrier that runs user code.
pub const PREEMPT_SIGNAL: i32 = libc::SIGUSR2;

/// The signal of the carriers' timers.
pub fn timer_signal() -> i32 {
    libc::SIGRTMIN() + 2
}

/// Whether a signal takes user code off its carrier that has done nothing to cause it.
pub fn is_interrupt(signal: i32) -> bool {
    signal == PREEMPT_SIGNAL || signal == timer_signal()
}

/// The set of the preemption signal and the timer's.
pub fn interrupts() -> libc::sigset_t {
    // SAFETY: a set of no signals is all zeros; then valid signals are added.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigaddset(&mut set, PREEMPT_SIGNAL);
        libc::sigaddset(&mut set, timer_signal());
        set
    }
}

/// Whether the instance with this flag is bound to carrier `index`.
pub fn runs(index: usize, stop: &AtomicBool) -> bool {
    std::ptr::eq(CARRIERS[index].stop.load(Ordering::Acquire), stop)
}

/// Carrier `index` begins to serve this hostcall.
#[inline]
pub fn note_call(index: usize, number: u64) {
    if let Some(state) = CARRIERS.get(index) {
        state.call.store(number, Ordering::Relaxed);
    }
}

/// The hostcall that carrier `index` serves; `None` if it runs user code. It may have changed when this returns.
pub fn call_under_way(index: usize) -> Option<u64> {
    // SAFETY: a carrier's line lies on the info page, which is there as long as there is a domain.
    let selector = unsafe { (&raw const (*info_line(index)).selector).read_volatile() };
    (selector == SELECTOR_ALLOW).then(|| CARRIERS[index].call.load(Ordering::Relaxed))
}

/// Makes the first carrier preemptible: to be called before another thread is started. All other carriers are preemptible
/// from the start.
///
/// The system call that signals a thread can signal other processes too, so the sandbox denies it. A timer that belongs to
/// the carrier sends the signal; to preempt is to set that timer.
pub fn allow_preempting_first() -> Result<(), CarrierError> {
    let state = &CARRIERS[0];
    if state.preempt_timer.load(Ordering::Acquire) < 0 {
        let timer = new_timer(state.tid.load(Ordering::Acquire), PREEMPT_SIGNAL)?;
        if state.preempt_timer.compare_exchange(-1, timer, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another thread was faster.
            // SAFETY: the timer has just been made here, and nothing else knows of it.
            unsafe { libc::syscall(libc::SYS_timer_delete, timer) };
        }
    }
    Ok(())
}

/// Preempts carrier `index`. Called under the scheduler's lock, while the instance that is to stop is bound to it.
pub fn preempt(index: usize) {
    let state = &CARRIERS[index];
    if state.tid.load(Ordering::Acquire) != 0 && !state.preempt_sent.swap(true, Ordering::AcqRel) {
        // The thread is alive: it unbinds the instance under the same lock, and detaches later.
        let sent = match state.preempt_timer.load(Ordering::Acquire) {
            // No such timer, perhaps for lack of resources: its own serves. It is set again before the carrier runs another
            // instance.
            ..0 => {
                state.timer_set.store(true, Ordering::Release);
                set(state.timer.load(Ordering::Acquire), 1)
            }
            preempt_timer => set(preempt_timer, 1),
        };
        if sent.is_err() {
            // The signal does not come; the next call tries again.
            state.preempt_sent.store(false, Ordering::Release);
        }
    }
}

/// Carrier `index` is about to check whether its instance has to stop: a signal after this is a new one.
pub fn clear_attention(index: usize) {
    if let Some(state) = CARRIERS.get(index) {
        state.attention.store(false, Ordering::Relaxed);
    }
}

/// Whether a signal has asked for the end of what carrier `index` runs, so that a long operation must stop half-way. Always
/// false for threads that are not carriers.
pub fn is_interrupted(index: usize) -> bool {
    let Some(state) = CARRIERS.get(index).filter(|state| state.attention.load(Ordering::Relaxed)) else { return false };
    // SAFETY: as in `on_preempt_signal`.
    let stop = unsafe { state.stop.load(Ordering::Acquire).as_ref() };
    stop.is_some_and(|stop| stop.load(Ordering::Acquire) || monotonic_ns() >= state.deadline.load(Ordering::Relaxed))
}

/// The handler's side of [`PREEMPT_SIGNAL`] and of the timer on carrier `index`. Only atomics and system calls.
pub fn on_preempt_signal(index: usize, signal: i32, in_user: bool) {
    // The timekeeper has a block and is not a carrier. Its signals come from other processes.
    let Some(state) = CARRIERS.get(index) else { return };
    if signal != PREEMPT_SIGNAL {
        // It is disarmed now; `armed` of the carrier is out of date.
        state.timer_set.store(true, Ordering::Relaxed);
    }
    if in_user {
        return;
    }
    // Trusted code was interrupted. The run loop checks this before it enters user code...
    state.attention.store(true, Ordering::Relaxed);
    // ...but may just have done so: come again, soon if the bound instance has to stop. The signal may have been meant for an
    // earlier one.
    // SAFETY: the flag is that of an instance that is bound to this very thread, which unbinds it under the scheduler's lock;
    // an instance is reclaimed only under that lock, when it is bound to no carrier.
    let Some(stop) = (unsafe { state.stop.load(Ordering::Acquire).as_ref() }) else { return };
    let (now, deadline) = (monotonic_ns(), state.deadline.load(Ordering::Relaxed));
    let again = match state.slice.load(Ordering::Relaxed) {
        _ if stop.load(Ordering::Acquire) || now >= deadline => now + RETRY_NS,
        NEVER => return,
        slice => deadline.min(now.saturating_add(slice)),
    };
    state.timer_set.store(true, Ordering::Relaxed);
    let _ = set_timer(state, again);
}

/// Sets the timer of a carrier.
pub(crate) fn set_timer(state: &CarrierState, at: u64) -> Result<(), CarrierError> {
    set(state.timer.load(Ordering::Acquire), at)
}

/// Sets a timer to a monotonic time in ns; [`NEVER`] disarms it.
pub(crate) fn set(timer: i32, at: u64) -> Result<(), CarrierError> {
    // A deadline that has passed must fire, and zero would switch the timer off.
    let at = if at == NEVER { 0 } else { at.max(1) };
    let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let value = libc::timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
    let setting = libc::itimerspec { it_interval: zero, it_value: value };
    // SAFETY: the timer is this process's; the old setting is not asked for.
    let status = unsafe {
        libc::syscall(libc::SYS_timer_settime, timer, libc::TIMER_ABSTIME, &setting, std::ptr::null_mut::<u8>())
    };
    checked("timer_settime", status)
}

/// A timer that sends this signal to a thread of this process.
pub(crate) fn new_timer(tid: i32, signal: i32) -> Result<i32, CarrierError> {
    // SAFETY: plain data.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    event.sigev_notify_thread_id = tid;
    let mut timer = 0i32;
    // SAFETY: both pointers are to locals; the kernel writes a 32-bit id.
    let status =
        unsafe { libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
    checked("timer_create", status)?;
    Ok(timer)
}
