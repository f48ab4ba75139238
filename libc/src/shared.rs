//! Things that several descriptors can stand for: each has a place in a table, and goes with its last descriptor.

use crate::errno::{Answer, EBADF};
use crate::lock::Lock;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What is open, by place, and how many descriptors stand for each.
pub(crate) struct Shared<T>(Lock<Vec<Option<Entry<T>>>>);

/// How many descriptors stand for a thing, and the thing.
type Entry<T> = (u32, Arc<T>);

impl<T> Shared<T> {
    pub(crate) const fn new() -> Shared<T> {
        Shared(Lock::new(Vec::new()))
    }

    /// Takes the lowest free place, for one descriptor.
    pub(crate) fn add(&self, thing: T) -> usize {
        let mut table = self.0.hold();
        let at = table.iter().position(Option::is_none).unwrap_or(table.len());
        if at == table.len() {
            table.push(None);
        }
        table[at] = Some((1, Arc::new(thing)));
        at
    }

    /// `EBADF` if another thread has closed its last descriptor meanwhile.
    pub(crate) fn get(&self, at: usize) -> Result<Arc<T>, Answer> {
        self.0.hold().get(at).and_then(Option::as_ref).map(|(_, thing)| Arc::clone(thing)).ok_or(EBADF)
    }

    /// All that are open.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.0.hold().iter().flatten().map(|(_, thing)| Arc::clone(thing)).collect()
    }

    /// Another descriptor stands for it.
    pub(crate) fn retain(&self, at: usize) -> Result<(), Answer> {
        let mut table = self.0.hold();
        let (descriptors, _) = table.get_mut(at).and_then(Option::as_mut).ok_or(EBADF)?;
        *descriptors += 1;
        Ok(())
    }

    /// One descriptor less; the thing itself if that was the last one.
    pub(crate) fn release(&self, at: usize) -> Option<Arc<T>> {
        let mut table = self.0.hold();
        let place = table.get_mut(at)?;
        let (descriptors, _) = place.as_mut()?;
        *descriptors -= 1;
        if *descriptors > 0 {
            return None;
        }
        place.take().map(|(_, thing)| thing)
    }
}
