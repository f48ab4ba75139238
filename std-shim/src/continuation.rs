//! Going back to an earlier point of the instance, from the crate `monohull`; this adds conversions to [`io::Error`].

pub use monohull::continuation::*;

use crate::io;

impl From<CaptureError> for io::Error {
    fn from(error: CaptureError) -> Self {
        let kind = io::Error::from(error.errno()).kind();
        io::Error::new(kind, error)
    }
}

impl From<RewindError> for io::Error {
    fn from(error: RewindError) -> Self {
        let kind = io::Error::from(error.errno()).kind();
        io::Error::new(kind, error)
    }
}

impl From<ContinuationError> for io::Error {
    fn from(error: ContinuationError) -> Self {
        let kind = io::Error::from(error.errno()).kind();
        io::Error::new(kind, error)
    }
}
