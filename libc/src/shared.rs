//! Things that several descriptors can stand for: each has a place in a table, and goes with its last descriptor.

use crate::errno::{Answer, EBADF};
use crate::lock::Lock;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What is open, by place, and how many descriptors stand for each.
pub(crate) struct Shared<T>(Lock<Vec<Option<Entry<T>>>>);

/// How many descriptors stand for a thing, and the thing. It is none while the thing is being released.
type Entry<T> = (u32, Arc<T>);

impl<T> Shared<T> {
    pub(crate) const fn new() -> Shared<T> {
        Shared(Lock::new(Vec::new()))
    }

    /// Takes the lowest free place, for one descriptor.
    pub(crate) fn add(&self, thing: T) -> usize {
        self.add_with(|_| thing)
    }

    /// Likewise, for a thing that knows its place.
    pub(crate) fn add_with(&self, thing: impl FnOnce(usize) -> T) -> usize {
        let mut table = self.0.hold();
        let at = table.iter().position(Option::is_none).unwrap_or(table.len());
        if at == table.len() {
            table.push(None);
        }
        table[at] = Some((1, Arc::new(thing(at))));
        at
    }

    /// `EBADF` if another thread has closed its last descriptor meanwhile.
    pub(crate) fn get(&self, at: usize) -> Result<Arc<T>, Answer> {
        let table = self.0.hold();
        let entry = table.get(at).and_then(Option::as_ref).filter(|(descriptors, _)| *descriptors > 0);
        entry.map(|(_, thing)| Arc::clone(thing)).ok_or(EBADF)
    }

    /// All that are open.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.0.hold().iter().flatten().map(|(_, thing)| Arc::clone(thing)).collect()
    }

    /// Another descriptor stands for it.
    pub(crate) fn retain(&self, at: usize) -> Result<(), Answer> {
        let mut table = self.0.hold();
        let entry = table.get_mut(at).and_then(Option::as_mut).filter(|(descriptors, _)| *descriptors > 0);
        let (descriptors, _) = entry.ok_or(EBADF)?;
        *descriptors += 1;
        Ok(())
    }

    /// One descriptor less; the thing itself if that was the last one.
    pub(crate) fn release(&self, at: usize) -> Option<Arc<T>> {
        self.release_after(at, |_| ())
    }

    /// Likewise. If it was the last one, `forget` runs before another thing can have the place, when this one is not found any more.
    pub(crate) fn release_after(&self, at: usize, forget: impl FnOnce(&T)) -> Option<Arc<T>> {
        let released = {
            let mut table = self.0.hold();
            let (descriptors, thing) = table.get_mut(at)?.as_mut()?;
            *descriptors = descriptors.checked_sub(1)?;
            if *descriptors > 0 {
                return None;
            }
            Arc::clone(thing)
        };
        forget(&released);
        self.0.hold()[at] = None;
        Some(released)
    }
}
