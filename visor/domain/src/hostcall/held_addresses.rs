//! Addresses of sockets that a captured workflow gets back.
//!
//! Its process, or the broker that this had, may not have ended yet when the workflow goes on in another one: they have the address until
//! then, which is not long. What else has the address has it for good.

use monohull_abi::Errno;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long those may take to end that had the address.
const ENDED_WITHIN: Duration = Duration::from_secs(2);
/// The pause before it is asked for once more.
const PAUSE: Duration = Duration::from_millis(2);

/// Whether modules are being rebuilt, and so ask for addresses that they had.
#[derive(Default)]
pub(crate) struct HeldAddresses {
    rebuilds: AtomicBool,
    taken: AtomicBool,
}

impl HeldAddresses {
    /// What is asked for by `rebuild` was the workflow's.
    pub(super) fn while_rebuilding<T>(&self, rebuild: impl FnOnce() -> T) -> T {
        self.rebuilds.store(true, Ordering::Relaxed);
        let rebuilt = rebuild();
        self.rebuilds.store(false, Ordering::Relaxed);
        rebuilt
    }

    /// Whether another program had an address that the workflow had. It may end.
    pub(super) fn were_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// Asks for an address; again for a while if it is in use and was the workflow's.
    pub(super) fn ask<T>(&self, ask: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        let begin = Instant::now();
        loop {
            match ask() {
                Err(Errno::AddressInUse) if self.rebuilds.load(Ordering::Relaxed) && begin.elapsed() < ENDED_WITHIN => {
                    std::thread::sleep(PAUSE);
                }
                answer => {
                    let is_taken = self.rebuilds.load(Ordering::Relaxed) && matches!(answer, Err(Errno::AddressInUse));
                    self.taken.fetch_or(is_taken, Ordering::Relaxed);
                    return answer;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// An address that becomes free when it has been asked for so often.
    fn free_after(times: u32, addresses: &HeldAddresses) -> (Result<(), Errno>, u32) {
        let asked = Cell::new(0);
        let answer = addresses.ask(|| {
            asked.set(asked.get() + 1);
            if asked.get() > times { Ok(()) } else { Err(Errno::AddressInUse) }
        });
        (answer, asked.get())
    }

    #[test]
    fn what_was_the_workflows_is_waited_for_and_nothing_else() {
        let addresses = HeldAddresses::default();
        assert_eq!(free_after(3, &addresses), (Err(Errno::AddressInUse), 1), "a function is told at once");
        assert_eq!(addresses.while_rebuilding(|| free_after(3, &addresses)), (Ok(()), 4));
        assert_eq!(free_after(3, &addresses), (Err(Errno::AddressInUse), 1), "it is over");
        let refused = addresses.while_rebuilding(|| addresses.ask(|| Err::<(), _>(Errno::NotPermitted)));
        assert_eq!(refused, Err(Errno::NotPermitted));
        assert!(!addresses.were_taken());
    }

    #[test]
    fn what_another_program_has_is_not_waited_for_without_end() {
        let addresses = HeldAddresses::default();
        let (answer, asked) = addresses.while_rebuilding(|| free_after(u32::MAX, &addresses));
        assert!(answer == Err(Errno::AddressInUse) && asked > 1, "{asked}");
        assert!(addresses.were_taken());
    }
}
