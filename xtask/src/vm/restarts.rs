//! Whether a machine whose kernel panicked, or that never said a word, is started anew.
//!
//! Kernels do die in QEMU's emulation by faults of the emulation, so one such end in a guest is forgiven: what ran is run
//! again. It may also have been a test's doing, so nothing more is forgiven: whichever the second is, the lane fails.

/// What comes next.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// A new machine goes on with what ran, or was about to.
    Again,
    /// What ran has failed, as the kernel panicked under it both times. A new machine goes on behind it.
    Behind,
    /// No other machine: items without a result have failed.
    Nothing,
}

/// What ran when the machines of one guest were lost, as an index; nothing before the first item and between two.
#[derive(Default)]
pub(super) struct Restarts {
    lost: Vec<Option<usize>>,
}

impl Restarts {
    /// Another machine is lost.
    pub(super) fn after(&mut self, running: Option<usize>) -> Next {
        self.lost.push(running);
        match self.lost[..] {
            [_] => Next::Again,
            [Some(first), Some(second)] if first == second => Next::Behind,
            _ => Next::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn decided(lost: &[Option<usize>], decisions: &[Next]) {
        let mut restarts = Restarts::default();
        let next: Vec<Next> = lost.iter().map(|running| restarts.after(*running)).collect();
        assert_eq!(next, decisions, "{lost:?}");
    }

    #[test]
    fn one_panic_is_forgiven_whatever_ran() {
        decided(&[None], &[Next::Again]);
        decided(&[Some(0)], &[Next::Again]);
    }

    #[test]
    fn an_item_under_which_the_kernel_panics_twice_has_failed() {
        decided(&[Some(3), Some(3)], &[Next::Again, Next::Behind]);
    }

    #[test]
    fn a_second_panic_elsewhere_ends_the_guest() {
        decided(&[None, None], &[Next::Again, Next::Nothing]);
        decided(&[None, Some(0)], &[Next::Again, Next::Nothing]);
        decided(&[Some(0), None], &[Next::Again, Next::Nothing]);
        decided(&[Some(0), Some(1)], &[Next::Again, Next::Nothing]);
    }

    #[test]
    fn a_third_panic_ends_the_guest() {
        for third in [None, Some(3), Some(4)] {
            decided(&[Some(3), Some(3), third], &[Next::Again, Next::Behind, Next::Nothing]);
        }
    }
}
