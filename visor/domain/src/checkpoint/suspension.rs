//! Whether the run of a domain has ended in a suspension, and with what; and when it is to come to rest.

use super::Suspended;
use super::residence::Standing;
use monohull_abi::module::NEVER;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The first pause before a domain that could not be captured is captured again; each is twice as long, up to the usual time.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest before a workflow that could not be suspended is suspended in a later wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The same if what it was captured as could not be kept: each time costs as many bytes as it has.
const LONGEST_PAUSE_UNKEPT: Duration = Duration::from_secs(30);

/// Whether the domain is to be suspended, and what became of it.
pub(crate) struct Suspension {
    state: Mutex<State>,
    /// When it is to come to rest (monotonic ns), or [`NEVER`].
    halts_at: AtomicU64,
    /// It is not suspended before that (monotonic ns).
    suspends_from: AtomicU64,
}

impl Default for Suspension {
    fn default() -> Suspension {
        Suspension { state: Mutex::default(), halts_at: AtomicU64::new(NEVER), suspends_from: AtomicU64::new(0) }
    }
}

#[derive(Default)]
struct State {
    suspended: Option<Box<Suspended>>,
    /// It stands still.
    standing: Option<Standing>,
    /// It has stood still, and is to go on elsewhere.
    handed_over: bool,
    /// Why it could not be suspended when it last was to be.
    refused: Option<String>,
    /// How often in a row.
    not_suspended: u32,
    /// Why it could not be captured when it had come to rest, or why it has not come to rest.
    not_halted: Option<String>,
    /// How often in a row.
    refusals: u32,
    /// When it is to come to rest again, after a capture in place has been answered.
    then: u64,
}

impl Suspension {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("suspension")
    }

    /// Whether the run has ended that way.
    pub(crate) fn is_done(&self) -> bool {
        let state = self.lock();
        state.suspended.is_some() || state.handed_over
    }

    /// The run ends: it goes on elsewhere with what it was captured as when it stood still.
    pub(super) fn hand_over(&self) {
        self.lock().handed_over = true;
    }

    /// Whether it has ended that way.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.lock().handed_over
    }

    /// Takes what the run ended with, if it was suspended.
    pub(crate) fn take(&self) -> Option<Box<Suspended>> {
        self.lock().suspended.take()
    }

    /// Why the run was not suspended when it only waited, or was halted.
    pub(crate) fn refused(&self) -> Option<String> {
        let state = self.lock();
        state.refused.clone().or_else(|| state.not_halted.clone())
    }

    /// The run ends with this.
    pub(super) fn succeed(&self, suspended: Suspended) {
        self.lock().suspended = Some(Box::new(suspended));
    }

    /// The domain stands still.
    pub(super) fn stand(&self, standing: Standing) {
        self.lock().standing = Some(standing);
    }

    /// What it was captured as has been kept.
    pub(super) fn kept(&self) {
        let mut state = self.lock();
        (state.refused, state.not_suspended) = (None, 0);
    }

    /// It does not any more.
    pub(super) fn take_standing(&self) -> Option<Standing> {
        self.lock().standing.take()
    }

    /// There is no template, for this reason.
    pub(super) fn refuse(&self, reason: String) {
        self.lock().refused = Some(reason);
    }

    /// It was not suspended, for this reason: that is tried again in a later wait, and after a pause.
    pub(super) fn suspend_later(&self, why: String, at: impl Fn(Duration) -> u64) {
        self.try_again(why, LONGEST_PAUSE, at);
    }

    /// What it was captured as could not be kept, for this reason: the same.
    pub(super) fn not_kept(&self, why: String, at: impl Fn(Duration) -> u64) {
        self.try_again(why, LONGEST_PAUSE_UNKEPT, at);
    }

    fn try_again(&self, why: String, longest: Duration, at: impl Fn(Duration) -> u64) {
        let mut state = self.lock();
        let pause = pause(state.not_suspended).min(longest);
        state.refused = Some(why);
        state.not_suspended = state.not_suspended.saturating_add(1);
        self.suspends_from.store(at(pause), Ordering::Relaxed);
    }

    /// It is not suspended before that.
    pub(crate) fn suspends_from(&self) -> u64 {
        self.suspends_from.load(Ordering::Relaxed)
    }

    /// The run begins; at this time it is to come to rest.
    pub(crate) fn begin(&self, halts_at: u64) {
        self.halts_at.store(halts_at, Ordering::Relaxed);
    }

    /// When the domain is to come to rest.
    pub(crate) fn halts_at(&self) -> u64 {
        self.halts_at.load(Ordering::Relaxed)
    }

    /// It was captured and goes on. It comes to rest again at `then`, if there has been an answer by then.
    pub(super) fn go_on(&self, then: u64) {
        let mut state = self.lock();
        (state.not_halted, state.refusals, state.then) = (None, 0, then);
        self.halts_at.store(NEVER, Ordering::Relaxed);
    }

    /// There is an answer to the capture with which it went on.
    pub(super) fn captured_is_answered(&self) {
        self.halts_at.store(self.lock().then, Ordering::Relaxed);
    }

    /// It was not captured, for this reason: that is tried again, after a pause that is `usual` at the latest.
    pub(super) fn halt_again(&self, why: String, usual: Duration, at: impl Fn(Duration) -> u64) {
        let mut state = self.lock();
        let pause = pause(state.refusals).min(usual);
        state.not_halted = Some(why);
        state.refusals += 1;
        self.halts_at.store(at(pause), Ordering::Relaxed);
    }
}

/// The pause after so many refusals in a row before the last one.
fn pause(before: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << before.min(16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn stands(suspension: &Suspension) {
        suspension.stand(Standing { clock: 0, wall: 0, since: 0, taken: Vec::new(), sent: 0 });
    }

    /// Each time is a capture and a file: what cannot be kept must not be tried without a pause.
    #[test]
    fn pauses_grow_as_long_as_nothing_can_be_kept() {
        let suspension = Suspension::default();
        let pauses = RefCell::new(Vec::new());
        let fails = || {
            stands(&suspension);
            suspension.not_kept("the disk is full".to_owned(), |pause| {
                pauses.borrow_mut().push(pause);
                pause.as_nanos() as u64
            });
        };
        (0..20).for_each(|_| fails());
        assert_eq!(suspension.suspends_from(), 30_000_000_000);
        assert_eq!(suspension.refused().as_deref(), Some("the disk is full"));
        suspension.kept();
        assert_eq!(suspension.refused(), None);
        fails();
        let pauses = pauses.into_inner();
        assert_eq!(pauses[0], FIRST_PAUSE);
        assert!(pauses[..20].windows(2).all(|two| two[1] == (two[0] * 2).min(LONGEST_PAUSE_UNKEPT)), "{pauses:?}");
        assert_eq!(pauses[20], FIRST_PAUSE);
    }
}
