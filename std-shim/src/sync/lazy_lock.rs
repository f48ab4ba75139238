//! A value that is computed at its first use.

use super::{Mutex, OnceLock};
use crate::fmt;
use core::ops::{Deref, DerefMut};

/// A value made on first use.
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    init: Mutex<Option<F>>,
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that `init` will make.
    pub const fn new(init: F) -> LazyLock<T, F> {
        LazyLock { value: OnceLock::new(), init: Mutex::new(Some(init)) }
    }

    /// Makes the value now, unless it is there.
    #[inline]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.value.get_or_init(|| {
            let init = this.init.lock().ok().and_then(|mut init| init.take());
            // `get_or_init` lets one caller in, once, and an `init` that panics ends the instance.
            init.expect("a lazy value is made once")()
        })
    }
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// Makes the value now, unless it is there, to be changed.
    pub fn force_mut(this: &mut LazyLock<T, F>) -> &mut T {
        LazyLock::force(this);
        this.value.get_mut().expect("it has just been made")
    }
}

impl<T, F: FnOnce() -> T> DerefMut for LazyLock<T, F> {
    fn deref_mut(&mut self) -> &mut T {
        LazyLock::force_mut(self)
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> LazyLock<T> {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_tuple("LazyLock");
        match self.value.get() {
            Some(value) => text.field(value),
            None => text.field(&format_args!("<uninit>")),
        };
        text.finish()
    }
}
