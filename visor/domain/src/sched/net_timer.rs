//! When the network stack is to be polled next.
//!
//! There are three reasons to poll it. The stack has a time at which it must send something (a retransmission, an
//! acknowledgement). An event means that the device has frames. After an event, which comes once, frames may keep coming
//! without another:
//!
//! ```text
//!            event                     after the poll
//!   Armed ──────────▶ Fired ──┬─ frames are moved by functions ──▶ RepollAt ──due──▶ Fired
//!     ▲                       └─ else: arm the device
//!     └───────────────────────────────┘      a thread begins to wait for frames: arm at once
//! ```

use monohull_abi::module::NEVER;

/// With no waiter, packets are processed by the hostcalls of functions that do not wait; if none comes, poll again after this
/// delay.
const REPOLL_IDLE_NS: u64 = 1_000_000;
/// An event announced frames and a function took them first. A thread waits for frames, so poll again soon.
const REPOLL_BUSY_NS: u64 = 50_000;

/// When the network stack is to be polled next.
pub(super) struct NetTimer {
    /// It is to be polled now.
    due: bool,
    /// When the stack must be polled for its own timers (monotonic ns), or [`NEVER`].
    stack_at: u64,
    device: Device,
}

/// How frames that arrive at the device become known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Device {
    /// An event announces the next one.
    Armed,
    /// The event has come; a poll is due or under way.
    Fired,
    /// The stack is polled again at this time (monotonic ns).
    RepollAt(u64),
}

/// What follows from a poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AfterPoll {
    /// Nothing.
    Done,
    /// The device is to be armed.
    ArmDevice,
    /// A timer has been set for this time (monotonic ns).
    Repoll(u64),
}

impl NetTimer {
    /// Of a device that is armed when it is added.
    pub(super) fn new() -> NetTimer {
        NetTimer { due: false, stack_at: NEVER, device: Device::Armed }
    }

    /// Sets when the stack must be polled for its own timers.
    pub(super) fn set_stack_deadline(&mut self, at: u64) {
        self.stack_at = at;
    }

    /// When the next poll by time is due; [`NEVER`] if there is none.
    pub(super) fn next(&self) -> u64 {
        match self.device {
            Device::RepollAt(at) => at.min(self.stack_at),
            Device::Armed | Device::Fired => self.stack_at,
        }
    }

    /// Makes the poll due whose time has come.
    pub(super) fn fire(&mut self, now: u64) {
        if self.stack_at <= now {
            self.stack_at = NEVER;
            self.due = true;
        }
        if matches!(self.device, Device::RepollAt(at) if at <= now) {
            self.device = Device::Fired;
            self.due = true;
        }
    }

    /// The device has frames.
    pub(super) fn device_ready(&mut self) {
        self.device = Device::Fired;
        self.due = true;
    }

    /// Whether a poll is due; the caller polls.
    pub(super) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }

    /// Whether no event announces the next frame.
    pub(super) fn is_unarmed(&self) -> bool {
        self.device != Device::Armed
    }

    /// The stack has been polled. `was_unarmed`: [`Self::is_unarmed`] before the poll. `frames_taken`: the poll found frames.
    /// `waiters`: threads wait for something external.
    pub(super) fn polled(
        &mut self,
        was_unarmed: bool,
        frames_taken: bool,
        waiters: bool,
        now: impl FnOnce() -> u64,
    ) -> AfterPoll {
        if self.device == Device::Armed {
            return AfterPoll::Done;
        }
        let delay = match (waiters, frames_taken) {
            (false, true) => REPOLL_IDLE_NS,
            (true, false) if was_unarmed => REPOLL_BUSY_NS,
            _ => {
                self.device = Device::Armed;
                return AfterPoll::ArmDevice;
            }
        };
        let at = now() + delay;
        self.device = Device::RepollAt(at);
        AfterPoll::Repoll(at)
    }

    /// A thread begins to wait for frames. Whether the device is to be armed.
    pub(super) fn waiter_came(&mut self) -> bool {
        std::mem::replace(&mut self.device, Device::Armed) != Device::Armed
    }

    /// Nothing is due any more.
    pub(super) fn clear(&mut self) {
        self.due = false;
        self.stack_at = NEVER;
        if let Device::RepollAt(_) = self.device {
            self.device = Device::Fired;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polled(timer: &mut NetTimer, frames_taken: bool, waiters: bool) -> AfterPoll {
        let was_unarmed = timer.is_unarmed();
        timer.polled(was_unarmed, frames_taken, waiters, || 1000)
    }

    #[test]
    fn the_stack_is_polled_once_at_its_deadline() {
        let mut timer = NetTimer::new();
        assert_eq!(timer.next(), NEVER);
        timer.set_stack_deadline(500);
        timer.fire(499);
        assert!(!timer.take_due() && timer.next() == 500);
        timer.fire(500);
        assert!(timer.take_due() && !timer.take_due() && timer.next() == NEVER);
        assert_eq!(polled(&mut timer, true, true), AfterPoll::Done, "the device was armed all the time");
    }

    #[test]
    fn an_event_leads_to_one_poll_and_the_device_is_armed_again() {
        let mut timer = NetTimer::new();
        timer.device_ready();
        assert!(timer.is_unarmed() && timer.take_due() && !timer.take_due());
        assert_eq!(polled(&mut timer, true, true), AfterPoll::ArmDevice);
        assert!(!timer.is_unarmed());
        timer.device_ready();
        assert_eq!(polled(&mut timer, false, false), AfterPoll::ArmDevice, "nothing came and nothing waits");
    }

    #[test]
    fn frames_that_functions_move_are_polled_for_later() {
        let mut timer = NetTimer::new();
        timer.device_ready();
        assert!(timer.take_due());
        assert_eq!(polled(&mut timer, true, false), AfterPoll::Repoll(1000 + REPOLL_IDLE_NS));
        assert_eq!(timer.next(), 1000 + REPOLL_IDLE_NS);
        timer.fire(timer.next());
        assert!(timer.take_due());
        assert_eq!(timer.next(), NEVER);
        assert_eq!(
            polled(&mut timer, false, true),
            AfterPoll::Repoll(1000 + REPOLL_BUSY_NS),
            "another took them first"
        );
        assert!(timer.waiter_came() && !timer.waiter_came(), "armed for the first that waits");
        assert_eq!(timer.next(), NEVER);
    }

    #[test]
    fn an_event_during_a_poll_by_time_is_not_waited_for_again() {
        let mut timer = NetTimer::new();
        let was_unarmed = timer.is_unarmed();
        timer.device_ready();
        assert_eq!(timer.polled(was_unarmed, false, true, || 1000), AfterPoll::ArmDevice);
        assert!(timer.take_due(), "the poll for the event is still due");
    }

    #[test]
    fn nothing_is_due_after_the_end() {
        let mut timer = NetTimer::new();
        timer.device_ready();
        assert!(matches!(polled(&mut timer, true, false), AfterPoll::Repoll(_)));
        timer.set_stack_deadline(7);
        timer.clear();
        assert!(!timer.take_due());
        assert_eq!(timer.next(), NEVER);
        assert!(timer.waiter_came(), "no event is on its way");
    }
}
