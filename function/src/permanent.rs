//! Errors that `main` returns: their text in the report, and whether the instance is tried again.

use alloc::boxed::Box;
use core::error::Error;
use core::fmt;

/// An error that a retry would not fix, such as malformed input. An instance whose `main` returns it is not
/// tried again, whatever the step's `retry` is, and fails with the kind `permanent`.
///
/// ```text
/// #[monohull::main]
/// fn main(count: String) -> Result<(), Box<dyn Error>> {
///     let count: u32 = count.parse().map_err(Permanent::new)?;
///     …
/// }
/// ```
pub struct Permanent(Box<dyn Error + Send + Sync>);

impl Permanent {
    /// Makes an error permanent.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Permanent {
        Permanent(error.into())
    }
}

impl fmt::Display for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Error for Permanent {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
