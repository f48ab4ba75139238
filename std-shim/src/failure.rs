//! Errors that `main` returns: what the report says of them, and whether the instance is tried again.

use crate::boxed::Box;
use crate::error::Error;
use crate::fmt;

/// An error that another attempt would not mend: input that is malformed, say. An instance whose `main` returns it is not
/// tried again, whatever the step's `retry` says, and fails with the kind `permanent`.
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
