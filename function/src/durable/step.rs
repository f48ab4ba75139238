//! Effects on the outside: each has a key, and is tried again if it fails.
//!
//! ```text
//!   order-17/pay/0/charge/2
//!   │        │   │ │      └ how many steps of this name the instance has begun before
//!   │        │   │ └ the name
//!   │        │   └ the instance
//!   │        └ the step of the workflow
//!   └ the invocation
//! ```
//!
//! A process that is killed goes on from the last checkpoint, with its memory as it was there. So it counts as before, and what it does
//! again it does with the same key. A rewind keeps the invocation's id, and with it the keys. A copy has an id of its own: its effects are
//! others.

use super::{checkpoint, invocation_id, sleep};
use crate::backoff::{self, shortened};
#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use alloc::boxed::Box;
use alloc::string::String;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use core::time::Duration;
use monohull_abi::Errno;
use monohull_abi::types::{Info, InfoString, fingerprint};

/// An effect on the outside, such as a payment.
///
/// If the process is killed, what it has done since the last wait is done again. The service that is asked to do it recognises that by the key, which
/// is the same then: an HTTP service gets it as its `Idempotency-Key`, a database as the primary key of a row.
///
/// ```no_run
/// # use core::time::Duration;
/// # use monohull::durable;
/// # fn pay(amount: u32, key: &str) -> Result<String, String> { Ok(String::new()) }
/// # fn f() -> Result<(), String> {
/// let receipt = durable::step("charge").attempts(5).run(|key| pay(120, key))?;
/// # Ok(())
/// # }
/// ```
///
/// **Nothing is kept by the step itself.** A commit costs a wait for the disk, and the key makes it safe to do without: a process that is killed does
/// again all steps since the last wait or [`checkpoint`]. Of a step that is better not done twice, since its service knows no keys or it takes long,
/// [`kept`](Step::kept) makes a commit.
///
/// Steps of one name are told apart by their order. Those that threads begin at the same time should have names of their own, since their
/// order may be another one the next time.
pub fn step(name: &str) -> Step<'_> {
    Step { name, attempts: 1, first: backoff::FIRST, longest: backoff::LONGEST, is_kept: false }
}

/// What [`step`] gives: it does what it is told.
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is done before `run`"]
pub struct Step<'n> {
    name: &'n str,
    attempts: u32,
    first: Duration,
    longest: Duration,
    is_kept: bool,
}

impl Step<'_> {
    /// Tries so many times before it fails; once, unless this says more. All attempts have the same key.
    pub fn attempts(self, attempts: u32) -> Self {
        Step { attempts, ..self }
    }

    /// The pause after the first failure. Each is twice as long as the one before, and none longer than `longest`; from a second to an
    /// hour, unless this says otherwise. A pause is shortened by up to a half, by a fixed rule: many that fail together do not try again
    /// together.
    ///
    /// A pause is a [`sleep`]: the workflow may be suspended meanwhile.
    pub fn backoff(self, first: Duration, longest: Duration) -> Self {
        Step { first, longest, ..self }
    }

    /// Keeps what has come of it: when `run` returns well, all that the invocation is has been made durable, as by [`checkpoint`] with the step's
    /// name as the label. A process that is killed after that does not do the step again. One that is killed before does, with the same key.
    ///
    /// A run without a state folder keeps nothing, and this changes nothing there.
    ///
    /// # Panics
    ///
    /// `run` does if the name cannot be a label: it has 1 to 64 bytes, and is no number.
    pub fn kept(self) -> Self {
        Step { is_kept: true, ..self }
    }

    /// Does it, and gives its result. The error is that of the last attempt.
    pub fn run<T, E>(self, act: impl FnMut(&str) -> Result<T, E>) -> Result<T, E> {
        self.run_while(|_| true, act)
    }

    /// The same; tries again only after errors that pass, such as that of a network.
    pub fn run_while<T, E>(
        self,
        mut passes: impl FnMut(&E) -> bool,
        mut act: impl FnMut(&str) -> Result<T, E>,
    ) -> Result<T, E> {
        let key = key(self.name);
        let mut left = self.attempts;
        let mut failures = 0;
        loop {
            left = left.saturating_sub(1);
            match act(&key) {
                Err(error) if left > 0 && passes(&error) => {
                    failures += 1;
                    pause(&key, failures, self.first, self.longest);
                }
                Ok(came) => {
                    if self.is_kept {
                        keep(self.name);
                    }
                    return Ok(came);
                }
                failed => return failed,
            }
        }
    }
}

/// Makes a commit, where there are any.
fn keep(name: &str) {
    match checkpoint(name) {
        Ok(_) => {}
        Err(error) if error.errno() == Errno::NotPermitted => {}
        Err(error) => panic!("step `{name}` cannot be kept: {error}"),
    }
}

/// Sleeps after so many failures of the step that has this key.
pub(crate) fn pause(key: &str, failures: u32, first: Duration, longest: Duration) {
    let number = fingerprint(key.as_bytes()) ^ u64::from(failures);
    sleep(shortened(backoff::after(failures, first, longest), number));
}

/// A key that no other step has, of this invocation or another.
pub(crate) fn key(name: &str) -> String {
    let number = uses(name).fetch_add(1, Ordering::Relaxed);
    let (step, instance) = (sys::info_string(InfoString::Step), sys::info(Info::InstanceIndex));
    alloc::format!("{}/{step}/{instance}/{name}/{number}", invocation_id())
}

/// How often a name has been used: one of a list, to which names are added, and from which none is removed.
struct Uses {
    name: Box<str>,
    count: AtomicU64,
    next: *const Uses,
}

static USES: AtomicPtr<Uses> = AtomicPtr::new(ptr::null_mut());

/// The count of a name. Of two threads that are the first to use it at the same time, one makes an entry for nothing.
#[allow(unsafe_code, reason = "a list that threads add to without a lock: std's may be either std's")]
fn uses(name: &str) -> &'static AtomicU64 {
    let mut first = USES.load(Ordering::Acquire);
    loop {
        let mut next = first.cast_const();
        // SAFETY: what is in the list was leaked, and is not changed after it was added with `Release` order, but for its count.
        while let Some(entry) = unsafe { next.as_ref() } {
            if *entry.name == *name {
                return &entry.count;
            }
            next = entry.next;
        }
        let entry = Box::leak(Box::new(Uses { name: name.into(), count: AtomicU64::new(0), next: first }));
        match USES.compare_exchange(first, entry, Ordering::Release, Ordering::Acquire) {
            Ok(_) => return &entry.count,
            Err(other) => first = other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::host::{now, send};
    use alloc::vec::Vec;

    #[test]
    fn each_step_has_a_key_of_its_own_and_its_attempts_share_it() {
        let mut keys = Vec::new();
        let mut record = |key: &str| {
            keys.push(String::from(key));
            if keys.len() == 2 { Ok(7) } else { Err("not yet") }
        };
        assert_eq!(step("keys").attempts(3).run(&mut record), Ok(7));
        assert_eq!(step("keys").run(&mut record), Err("not yet"));
        assert_eq!(step("other keys").run(&mut record), Err("not yet"));
        let own = "the-invocation/the-step/1";
        assert_eq!(keys[0], alloc::format!("{own}/keys/0"));
        assert_eq!(keys[1], keys[0]);
        assert_eq!(keys[2..], [alloc::format!("{own}/keys/1"), alloc::format!("{own}/other keys/0")]);
    }

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let (second, longest) = (Duration::from_nanos(1000), Duration::from_nanos(3000));
        let mut times = Vec::new();
        let failed = step("pauses").attempts(5).backoff(second, longest).run(|_| {
            times.push(now());
            Err::<(), _>(times.len())
        });
        assert_eq!(failed, Err(5), "the last error");
        let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let bounds = [500..=1000, 1000..=2000, 1500..=3000, 1500..=3000];
        assert!(pauses.iter().zip(&bounds).all(|(pause, bounds)| bounds.contains(pause)), "{pauses:?}");
        assert_eq!(pauses.len(), bounds.len());
    }

    #[test]
    fn an_error_that_does_not_pass_is_the_last() {
        let mut tried = 0;
        let failed = step("passes").attempts(9).run_while(
            |error| *error < 3,
            |_| {
                tried += 1;
                Err::<(), _>(tried)
            },
        );
        assert_eq!(failed, Err(3));
        assert_eq!(step("none").attempts(0).run(|_| Ok::<_, ()>(1)), Ok(1), "it is tried once");
    }

    #[test]
    fn a_step_that_is_kept_makes_a_save_point_if_it_is_well() {
        let events = || crate::slot::host::census().0;
        send("checkpoint:kept", b"\0");
        let before = events();
        assert_eq!(step("kept").run(|_| Ok::<_, ()>(1)), Ok(1));
        assert_eq!(step("kept").kept().run(|_| Err::<(), _>(2)), Err(2));
        assert_eq!(events(), before, "nothing was asked for");
        assert_eq!(step("kept").kept().attempts(2).run(|_| Ok::<_, ()>(3)), Ok(3));
        assert_eq!(events(), before - 1, "it has waited for the commit");
    }

    #[test]
    fn threads_count_each_use_once() {
        let mut counts: Vec<u64> = std::thread::scope(|scope| {
            let count = || (0..100).map(|_| uses("threads").fetch_add(1, Ordering::Relaxed)).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        counts.sort_unstable();
        assert!(counts.into_iter().eq(0..400));
    }
}
