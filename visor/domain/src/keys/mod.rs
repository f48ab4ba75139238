//! Protection keys: whether there are any, which instance has which, and what is tagged with them.
//!
//! ```text
//! key 0    everything that is not tagged: the visor, its modules, its stacks     denied to functions
//! key 1    the info page                                                         functions read, never write
//! key 2 …  cells, slot buffers, entry frames                                     a function has its own, and no other
//! ```
//!
//! On a machine without keys the same calls are made and tag nothing: see [`Keys::in_force`].

mod support;

pub use support::{Missing, Support, by_default, support};

use crate::fault_injection::{self, Mitigation};
use monohull_abi::layout::KEY_COUNT;
use monohull_trampoline::system::{FIRST_FUNCTION_KEY, INFO_KEY, Variant};
use std::io;
use std::sync::Mutex;

/// The tag of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key(u32);

impl Key {
    /// Trusted memory; what every fresh mapping has.
    pub const SYSTEM: Key = Key(0);
    /// What functions may read and never write.
    pub const INFO: Key = Key(INFO_KEY);
    /// The functions of a workflow, kept from the system but not from each other.
    pub const FUNCTIONS: Key = Key(FIRST_FUNCTION_KEY);

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// The name of an isolation in reports: `process`, or `mpk` where keys are in force.
pub fn isolation(keys: bool) -> &'static str {
    match (fault_injection::is_unhardened(), keys) {
        (true, _) => "unhardened",
        (false, true) => "mpk",
        (false, false) => "process",
    }
}

/// The keys of a domain, all of them; freed on drop.
#[derive(Debug)]
pub struct Keys {
    taken: Vec<u32>,
    /// With a key for each instance: those that are free.
    free: Option<Mutex<Vec<Key>>>,
}

/// The keys cannot be put in force.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum KeysError {
    #[error(transparent)]
    Missing(#[from] Missing),
    #[error("the kernel gave key {got} where key {expected} was expected: another part of this process uses keys")]
    InUse {
        /// What came.
        got: i64,
        /// What the gates' code knows.
        expected: u32,
    },
}

impl Keys {
    /// No keys: nothing is tagged.
    pub fn disabled() -> Keys {
        Keys { taken: Vec::new(), free: None }
    }

    /// A key for each instance, of which there are so few; on paper, for tests: nothing is tagged.
    #[cfg(test)]
    pub(super) fn scarce(count: usize) -> Keys {
        let few = (0..count as u32).map(|number| Key(FIRST_FUNCTION_KEY + number)).collect();
        Keys { taken: Vec::new(), free: Some(Mutex::new(few)) }
    }

    /// Takes the keys that the gates know by number. The calling thread, and those it starts from here on, may use them
    /// all; only the gates deny them, to functions.
    pub fn enabled() -> Result<Keys, KeysError> {
        if let Support::Missing(missing) = support() {
            return Err(missing.into());
        }
        let mut keys = Keys::disabled();
        for expected in INFO_KEY..KEY_COUNT as u32 {
            // With rights 0 the kernel opens the key for the calling thread: no WRPKRU of our own is needed for that,
            // and none must lie about.
            // SAFETY: takes two integers; pages get the key only later.
            let got = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0usize, 0usize) };
            if got < 0 {
                return Err(Missing::Refused(io::Error::last_os_error().to_string()).into());
            }
            keys.taken.push(got as u32);
            if got != i64::from(expected) {
                return Err(KeysError::InUse { got, expected });
            }
        }
        Ok(keys)
    }

    /// From here on every instance gets a key of its own, if keys are in force.
    pub fn separate_instances(&mut self) {
        if self.in_force() {
            self.free = Some(Mutex::new((FIRST_FUNCTION_KEY..KEY_COUNT as u32).rev().map(Key).collect()));
        }
    }

    /// Whether every instance has a key of its own.
    pub fn separate(&self) -> bool {
        self.free.is_some()
    }

    /// A key for a cell; `None` if all are in use. Without a key for each instance there is one for all.
    pub fn acquire(&self) -> Option<Key> {
        match &self.free {
            Some(_) if fault_injection::disabled(Mitigation::SeparateKeys) => Some(Key::FUNCTIONS),
            Some(free) => free.lock().expect("keys").pop(),
            None => Some(Key::FUNCTIONS),
        }
    }

    /// The same: the one that this cell gets in a new domain, if it is free.
    pub fn acquire_for(&self, cell: usize) -> Option<Key> {
        let Some(free) = self.free.as_ref().filter(|_| !fault_injection::disabled(Mitigation::SeparateKeys)) else {
            return self.acquire();
        };
        let mut free = free.lock().expect("keys");
        match free.iter().position(|key| *key == self.of_cell(cell)) {
            Some(own) => Some(free.remove(own)),
            None => free.pop(),
        }
    }

    /// The key that the cell with this index gets in a new domain in which nothing has failed.
    pub fn of_cell(&self, index: usize) -> Key {
        match self.free {
            Some(_) if !fault_injection::disabled(Mitigation::SeparateKeys) => Key(FIRST_FUNCTION_KEY + index as u32),
            _ => Key::FUNCTIONS,
        }
    }

    /// Takes a key that some pages have already.
    pub fn claim(&self, key: Key) {
        if let Some(free) = &self.free {
            free.lock().expect("keys").retain(|free| *free != key);
        }
    }

    /// Releases a key, which no page has any more.
    pub fn release(&self, key: Key) {
        if let Some(free) = &self.free {
            free.lock().expect("keys").push(key);
        }
    }

    /// Whether [`Self::acquire`] would find one.
    pub fn has_free(&self) -> bool {
        self.free.as_ref().is_none_or(|free| !free.lock().expect("keys").is_empty())
    }

    /// How often [`Self::acquire`] would find one; `None` if there is one for all.
    pub fn free(&self) -> Option<usize> {
        let few = self.free.as_ref().filter(|_| !fault_injection::disabled(Mitigation::SeparateKeys));
        few.map(|free| free.lock().expect("keys").len())
    }

    /// Whether pages are really tagged.
    pub fn in_force(&self) -> bool {
        !self.taken.is_empty()
    }

    /// The gates to use.
    pub fn variant(&self) -> Variant {
        if self.in_force() { Variant::Keys } else { Variant::Plain }
    }

    /// The name of the isolation in reports.
    pub fn isolation(&self) -> &'static str {
        isolation(self.in_force())
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        for key in &self.taken {
            // SAFETY: taken by `enabled`; the domain's pages are unmapped by then.
            unsafe { libc::syscall(libc::SYS_pkey_free, *key) };
        }
    }
}
