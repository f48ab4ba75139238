//! What undoes finished steps.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// Begins to note how to undo what is done, for the case that what follows fails.
///
/// ```no_run
/// # use monohull::durable;
/// # fn reserve(key: &str) -> Result<u32, String> { Ok(1) }
/// # fn release(ship: u32, key: &str) -> Result<(), String> { Ok(()) }
/// # fn pay(key: &str) -> Result<(), String> { Ok(()) }
/// # fn book() -> Result<(), String> {
/// let mut booking = durable::scope();
/// let ship = durable::step("reserve").run(reserve)?;
/// booking.on_failure(move || _ = durable::step("release").attempts(9).run(|key| release(ship, key)));
/// durable::step("pay").attempts(3).run(pay)?; // if it fails, the ship is released
/// booking.commit();
/// # Ok(())
/// # }
/// ```
pub fn scope<'u>() -> Scope<'u> {
    Scope { undo: Vec::new() }
}

/// What [`scope`] gives. If it is dropped without [`commit`](Scope::commit), it undoes everything, the last thing first.
///
/// Waits and steps may be used to undo: the workflow may be suspended meanwhile. A function on `monohull-std` that panics ends at once, and
/// undoes nothing; so does any that is killed, or whose time is up. One that is cancelled is told if it waits for [`CANCEL`](super::CANCEL), and
/// undoes what it has done; one that does not is ended.
#[must_use = "it undoes everything when it is dropped"]
#[derive(Default)]
pub struct Scope<'u> {
    undo: Vec<Box<dyn FnOnce() + 'u>>,
}

impl<'u> Scope<'u> {
    /// Notes how to undo what has just been done.
    pub fn on_failure(&mut self, undo: impl FnOnce() + 'u) {
        self.undo.push(Box::new(undo));
    }

    /// All is well: nothing is undone.
    pub fn commit(mut self) {
        self.undo.clear();
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        while let Some(undo) = self.undo.pop() {
            undo();
        }
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("undo", &self.undo.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;

    fn three(undone: &RefCell<Vec<u32>>, fails_after: u32) -> Result<(), u32> {
        let mut all = scope();
        for number in 1..=3 {
            if number > fails_after {
                return Err(number);
            }
            all.on_failure(move || undone.borrow_mut().push(number));
        }
        all.commit();
        Ok(())
    }

    #[test]
    fn what_was_done_is_undone_backwards_unless_all_is_well() {
        let undone: RefCell<Vec<u32>> = RefCell::default();
        assert_eq!(three(&undone, 3), Ok(()));
        assert!(undone.take().is_empty());
        assert_eq!(three(&undone, 2), Err(3));
        assert_eq!(undone.take(), [2, 1]);
        assert_eq!(three(&undone, 0), Err(1));
        assert!(undone.take().is_empty());
    }

    #[test]
    fn scopes_nest() {
        let undone: RefCell<Vec<u32>> = RefCell::default();
        let outer = || -> Result<(), u32> {
            let mut all = scope();
            all.on_failure(|| undone.borrow_mut().push(0));
            three(&undone, 1)?;
            all.commit();
            Ok(())
        };
        assert_eq!(outer(), Err(2));
        assert_eq!(undone.take(), [1, 0]);
    }
}
