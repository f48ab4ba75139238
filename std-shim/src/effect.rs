//! Effects that other steps handle, from the crate `monohull`; this adds a conversion to [`io::Error`].

pub use monohull::effect::*;

use crate::io;

impl From<PerformError> for io::Error {
    fn from(error: PerformError) -> Self {
        let kind = io::Error::from(error.errno()).kind();
        io::Error::new(kind, error)
    }
}
