//! Libos module: clocks and sleep.
//!
//! A sleeping function is parked on no key: only its deadline wakes it.
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

use monohull_abi::module::{Call, NEVER, NO_KEY, Wake};
use monohull_abi::types::Clock;
use monohull_abi::{Errno, Outcome, number};
use monohull_module::record::{RecordsRef, Refused, fields};
use monohull_module::{HostRef, Module, module};

/// The clocks of one domain.
pub struct Time {
    host: HostRef,
}

module! {
    Time {
        number::CLOCK_GETTIME => Time::clock,
        number::NANOSLEEP => Time::sleep,
    }
}

impl Module for Time {
    const NAME: &'static str = "time";

    fn start(host: HostRef) -> Option<Time> {
        Some(Time { host })
    }

    /// A sleeping thread and its deadline are the visor's.
    fn save(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
        records.write(&())
    }

    fn restore(&self, _version: u32, record: &[u8], _records: RecordsRef<'_>) -> Result<(), Refused> {
        fields(record)
    }
}

impl Time {
    fn clock(&self, call: &mut Call) -> Result<u64, Errno> {
        const MONOTONIC: u64 = Clock::Monotonic as u64;
        const REALTIME: u64 = Clock::Realtime as u64;
        match call.args[0] {
            MONOTONIC => Ok(self.host.now().min(LAST)),
            REALTIME => Ok(self.host.realtime().min(LAST)),
            other => Err(self.host.explain(call, Errno::Invalid, format_args!("there is no clock {other}"))),
        }
    }

    fn sleep(&self, call: &mut Call) -> Outcome {
        match call.wake {
            Wake::First if call.args[0] == 0 => Outcome::ready(0),
            Wake::First => {
                // However long it is it has an end, so that it never is a wait in which nothing can happen.
                let time = call.args[0].min(LAST.saturating_sub(self.host.realtime()));
                let deadline = self.host.now().saturating_add(time).min(LAST);
                self.host.wait(call, NO_KEY, deadline);
                Outcome::park()
            }
            Wake::Woken | Wake::TimedOut => Outcome::ready(0),
            Wake::Deadlock => Outcome::error(Errno::Deadlock),
        }
    }
}

/// The last time that a clock shows, since what it answers beyond that is an error: that of the wall is in 2262.
const LAST: u64 = i64::MAX as u64;
const _: () = assert!(LAST < NEVER);

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_module_testing::{Domain, Step};

    #[test]
    fn clocks_are_the_hosts() {
        let domain = Domain::start(&MONOHULL_MODULE);
        domain.set_time(70, 90);
        assert_eq!(domain.call(1, number::CLOCK_GETTIME, [0; 6]), 70);
        assert_eq!(domain.call(1, number::CLOCK_GETTIME, [1, 0, 0, 0, 0, 0]), 90);
        assert_eq!(domain.call(1, number::CLOCK_GETTIME, [2, 0, 0, 0, 0, 0]), Errno::Invalid.to_value());
        assert_eq!(domain.explained(), "there is no clock 2");
        domain.set_time(u64::MAX, u64::MAX);
        for clock in [0, 1] {
            assert_eq!(domain.call(1, number::CLOCK_GETTIME, [clock, 0, 0, 0, 0, 0]), i64::MAX, "none is an error");
        }
    }

    #[test]
    fn a_sleep_parks_until_its_deadline() {
        let domain = Domain::start(&MONOHULL_MODULE);
        domain.set_time(1000, 0);
        let mut call = domain.prepare(1, number::NANOSLEEP, [500, 0, 0, 0, 0, 0]);
        assert_eq!(domain.step(&mut call), Step::Parked { key: NO_KEY, deadline: 1500 });
        call.wake = Wake::TimedOut;
        assert_eq!(domain.step(&mut call), Step::Ready(0));
    }

    #[test]
    fn no_time_at_all_does_not_park_and_the_longest_sleep_has_an_end() {
        let domain = Domain::start(&MONOHULL_MODULE);
        domain.set_time(1000, 0);
        assert_eq!(domain.call(1, number::NANOSLEEP, [0; 6]), 0);
        for long in [u64::MAX, u64::MAX - 1] {
            let mut call = domain.prepare(1, number::NANOSLEEP, [long, 0, 0, 0, 0, 0]);
            domain.set_time(1000, 3000);
            assert_eq!(domain.step(&mut call), Step::Parked { key: NO_KEY, deadline: LAST - 2000 });
            call.wake = Wake::TimedOut;
            assert_eq!(domain.step(&mut call), Step::Ready(0));
        }
    }

    #[test]
    fn there_is_nothing_to_capture() {
        let domain = Domain::start(&MONOHULL_MODULE);
        domain.set_time(1000, 0);
        let mut call = domain.prepare(1, number::NANOSLEEP, [500, 0, 0, 0, 0, 0]);
        domain.step(&mut call);
        let mut captured = domain.capture().unwrap();
        drop(domain);
        let domain = Domain::resume(&[&MONOHULL_MODULE], &captured).unwrap();
        call.wake = Wake::TimedOut;
        assert_eq!(domain.step(&mut call), Step::Ready(0));
        drop(domain);
        captured.records[0].push(0);
        let refused = Domain::resume(&[&MONOHULL_MODULE], &captured).err();
        assert_eq!(refused.as_deref(), Some("its record has 1 bytes behind its end"));
    }
}
