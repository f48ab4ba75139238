//! A process whose domain has ended is made ready for another one of the same workflow.
//!
//! ```text
//! domain     modules stopped, threads joined
//!   ├─▶ cells          the first ones wiped and kept with their images, the others unmapped
//!   ├─▶ slot buffers, entry frames, blocks of other carriers        unmapped
//!   ├─▶ info page, first carrier                                     what they were before the first run
//!   └─▶ static data of modules                                       put back
//! ```
//!
//! The reservation, keys, signal stack, dispatch and timer of the first carrier stay: to make them again takes longer than a short
//! function runs. If anything cannot be reset the process must end.
//!
//! What lies outside of domains, the allocator's memory, stacks and descriptors, is the caller's.

use super::domain::Domain;
use super::error::DomainError;
use super::fault_injection::{self, Mitigation};
use super::hostcall;
use super::reservation::ReservedDomain;
use std::sync::Arc;

impl Domain {
    /// Resets a domain that has run, so that another one of the same workflow finds what it would find in a new process. An error means
    /// that something of it may be left; the process must end then.
    pub fn reset(self) -> Result<ReservedDomain, DomainError> {
        let (mut carrier, cells, space) = self.take_apart().ok_or(DomainError::InUse)?;
        let cells = cells.keep()?;
        let mut space = Arc::into_inner(space).ok_or(DomainError::InUse)?;
        space.drop_used()?;
        carrier.renew(&space)?;
        if !fault_injection::disabled(Mitigation::ResetStatics) {
            // SAFETY: the domain has been taken apart, and with it the states of its modules.
            unsafe { hostcall::restore_statics() };
        }
        Ok(ReservedDomain { carrier, space, cells })
    }
}

#[cfg(test)]
mod tests {
    use super::super::address_space::{Access, AddressSpace};
    use super::super::carrier::Carrier;
    use super::super::fault;
    use super::super::keys::{Key, Keys};
    use super::super::one_at_a_time;
    use super::super::preemption::{CARRIERS, timer_signal};
    use monohull_abi::layout::{CARRIER_BASE, CARRIER_SIZE, CarrierLine, INFO_BASE, INFO_SIZE, PAGE};
    use monohull_abi::module::NEVER;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether a timer of this process is going to go off.
    fn is_armed(timer: i32) -> bool {
        let mut setting = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec { tv_sec: 0, tv_nsec: 0 },
        };
        // SAFETY: timer_gettime(2) writes to a local.
        let status = unsafe { libc::syscall(libc::SYS_timer_gettime, timer, &raw mut setting) };
        assert_eq!(status, 0, "there is such a timer");
        setting.it_value.tv_sec != 0 || setting.it_value.tv_nsec != 0
    }

    #[test]
    fn a_carrier_that_is_renewed_is_a_new_one() {
        let _one = one_at_a_time();
        let mut space = AddressSpace::reserve(Keys::disabled()).expect("address space");
        space.protect(INFO_BASE..INFO_BASE + INFO_SIZE, Access::ReadWrite, Key::INFO).expect("the info page");
        let mut carrier = Carrier::new(&space, 0).expect("a carrier");
        let line = INFO_BASE as *mut CarrierLine;
        // SAFETY: the info page is mapped, and no other thread uses it.
        let info = || unsafe { std::slice::from_raw_parts(INFO_BASE as *const u8, INFO_SIZE as usize) }.to_vec();
        // SAFETY: the carrier's block is mapped.
        let context = || unsafe { std::slice::from_raw_parts((CARRIER_BASE + CARRIER_SIZE - PAGE) as *const u8, 256) };
        let first = (info(), context().to_vec());
        let timer = CARRIERS[0].timer_id();
        assert!(!carrier.has_handled_signals());

        // An invocation, and what its handlers leave on the signal stack.
        let stop = AtomicBool::new(true);
        carrier.bind_instance(&space, Key::FUNCTIONS, &stop, u64::MAX / 2).expect("bound");
        carrier.put_on(0x1234);
        carrier.ask_for_attention();
        let of_handlers = (CARRIER_BASE + CARRIER_SIZE - 2 * PAGE) as *mut u64;
        // SAFETY: the signal stack, which no handler uses, and a line of the info page.
        unsafe {
            of_handlers.write(7);
            (&raw mut (*line.add(3)).thread_header).write(7);
        }
        assert!(is_armed(timer) && carrier.has_attention() && info() != first.0, "otherwise this shows nothing");
        assert!(carrier.has_handled_signals());

        carrier.rest().expect("it rests");
        assert!(!is_armed(timer));
        space.drop_used().expect("it is dropped");
        carrier.renew(&space).expect("it is renewed");
        assert_eq!(CARRIERS[0].timer_id(), timer, "it stays");
        assert!(!carrier.has_attention());
        assert!(CARRIERS[0].is_unbound(), "nothing is bound");
        assert_eq!((info(), context().to_vec()), first);
        // SAFETY: as above.
        assert_eq!(unsafe { of_handlers.read() }, 0);
        assert!(!carrier.has_handled_signals());
        // It is usable.
        stop.store(false, Ordering::Relaxed);
        carrier.bind_instance(&space, Key::FUNCTIONS, &stop, NEVER - 1).expect("bound");
        carrier.unbind_instance();
    }

    /// What a thread may do with the time-stamp counter.
    fn counter() -> i32 {
        let mut allowed = 0;
        // SAFETY: writes one number.
        let status = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut allowed) };
        assert_eq!(status, 0, "this processor has one");
        allowed
    }

    /// The kernel shows it to no other process, so that this is the one place to see it.
    #[test]
    fn the_time_stamp_counter_is_allowed_again() {
        let _one = one_at_a_time();
        let space = AddressSpace::reserve(Keys::disabled()).expect("address space");
        fault::install(space.keys().variant());
        space.protect(INFO_BASE..INFO_BASE + INFO_SIZE, Access::ReadWrite, Key::INFO).expect("the info page");
        let mut carrier = Carrier::new(&space, 0).expect("a carrier");
        assert_eq!(counter(), libc::PR_TSC_ENABLE);
        carrier.deny_time_stamp_counter().expect("it is denied");
        let denied = counter();
        carrier.rest().expect("it rests");
        assert_eq!((denied, counter()), (libc::PR_TSC_SIGSEGV, libc::PR_TSC_ENABLE));
    }

    /// Whatever is on the signal stack after one, it is found.
    #[test]
    fn a_signal_that_was_handled_is_noticed() {
        let _one = one_at_a_time();
        let mut space = AddressSpace::reserve(Keys::disabled()).expect("address space");
        fault::install(space.keys().variant());
        space.protect(INFO_BASE..INFO_BASE + INFO_SIZE, Access::ReadWrite, Key::INFO).expect("the info page");
        let mut carrier = Carrier::new(&space, 0).expect("a carrier");
        for _ in 0..3 {
            assert!(!carrier.has_handled_signals());
            // SAFETY: the signal's handler is installed, and this thread has its stack.
            assert_eq!(unsafe { libc::raise(timer_signal()) }, 0);
            assert!(carrier.has_handled_signals());
            carrier.rest().expect("it rests");
            space.drop_used().expect("it is dropped");
            carrier.renew(&space).expect("it is renewed");
        }
    }
}
