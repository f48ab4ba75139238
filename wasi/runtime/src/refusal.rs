//! Why a function that a program has called refuses something: the number that the program gets, and the explanation that it may ask for.

use crate::errno::WasiError;
use crate::host::explanation;
use alloc::string::{String, ToString};
use core::fmt;
use monohull_abi::Errno;
use monohull_std::durable::EventError;

/// Why a call is refused.
pub(crate) struct Refusal {
    /// The number that the program gets.
    pub(crate) errno: Errno,
    /// The explanation that it may ask for.
    pub(crate) why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.why {
            "" => self.errno.fmt(f),
            why => f.write_str(why),
        }
    }
}

impl Refusal {
    pub(crate) fn new(errno: Errno, why: &str) -> Refusal {
        Refusal { errno, why: why.to_string() }
    }

    /// What the system has said to the last hostcall.
    pub(crate) fn of_system(errno: Errno) -> Refusal {
        Refusal { errno, why: explanation() }
    }
}

impl From<WasiError> for Refusal {
    fn from(error: WasiError) -> Refusal {
        match error {
            WasiError::FAULT => Refusal::new(Errno::Fault, "an address leads out of the program's memory"),
            WasiError::ILSEQ => Refusal::new(Errno::Invalid, "a text is not UTF-8"),
            WasiError::BADF => Refusal::new(Errno::BadDescriptor, "no buffer has this handle"),
            _ => Refusal::new(Errno::Invalid, &error.to_string()),
        }
    }
}

impl From<EventError> for Refusal {
    fn from(error: EventError) -> Refusal {
        Refusal::new(error.errno(), error.message())
    }
}
