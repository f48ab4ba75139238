//! A place where threads wait for each other.

use super::{Condvar, Mutex};
use crate::fmt;

/// Blocks threads until `n` have arrived.
pub struct Barrier {
    n: usize,
    state: Mutex<State>,
    passed: Condvar,
}

struct State {
    /// How many have come in this round.
    here: usize,
    /// Which round it is.
    round: usize,
}

/// Whether this thread came last.
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// True for exactly one thread of each round.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// A barrier for `n` threads.
    pub const fn new(n: usize) -> Barrier {
        Barrier { n, state: Mutex::new(State { here: 0, round: 0 }), passed: Condvar::new() }
    }

    /// Waits for the others.
    pub fn wait(&self) -> BarrierWaitResult {
        let Ok(mut state) = self.state.lock() else { return BarrierWaitResult(false) };
        let round = state.round;
        state.here += 1;
        if state.here < self.n {
            let _passed = self.passed.wait_while(state, |state| state.round == round);
            return BarrierWaitResult(false);
        }
        state.here = 0;
        state.round = state.round.wrapping_add(1);
        drop(state);
        self.passed.notify_all();
        BarrierWaitResult(true)
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").finish_non_exhaustive()
    }
}

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierWaitResult").field("is_leader", &self.is_leader()).finish()
    }
}
