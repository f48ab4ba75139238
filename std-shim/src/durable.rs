//! Waiting for what happens outside, from the crate `monohull`; this adds a conversion to [`io::Error`].

pub use monohull::durable::*;

use crate::io;

impl From<EventError> for io::Error {
    fn from(error: EventError) -> Self {
        let kind = io::Error::from(error.errno()).kind();
        io::Error::new(kind, error)
    }
}
