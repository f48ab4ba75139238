//! What a program is told when a function of slots refuses something.

use crate::errno::WasiError;
use crate::host::explanation;
use alloc::string::String;
use monohull_abi::Errno;
use monohull_std::slot::SlotError;

/// Why a function of slots refuses something: the number that the program gets, and the explanation that it may ask for.
pub(crate) struct SlotRefusal {
    pub(crate) number: WasiError,
    pub(crate) why: String,
}

impl SlotRefusal {
    /// What the system has said to the last hostcall.
    pub(crate) fn of_system(errno: Errno) -> SlotRefusal {
        SlotRefusal { number: errno.into(), why: explanation() }
    }
}

impl From<SlotError> for SlotRefusal {
    fn from(error: SlotError) -> SlotRefusal {
        let why = String::from(error.message());
        SlotRefusal { number: error.into(), why }
    }
}

impl From<WasiError> for SlotRefusal {
    fn from(number: WasiError) -> SlotRefusal {
        let why = match number {
            WasiError::FAULT => "an address leads out of the program's memory",
            WasiError::ILSEQ => "a text is not UTF-8",
            WasiError::BADF => "no buffer has this handle",
            // The number says it.
            _ => "",
        };
        SlotRefusal { number, why: String::from(why) }
    }
}
