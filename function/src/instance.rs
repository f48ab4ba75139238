//! Which copy of a step's function this is: what a fan-out divides its work by.

use crate::sys;
use monohull_abi::types::Info;

/// This instance among those of its step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instance {
    /// Which one it is, from 0.
    pub index: usize,
    /// How many the step has.
    pub count: usize,
    /// 1 when it is started first, 2 when it is started again after a failure, and so on.
    pub attempt: u32,
}

/// Asks which instance this is.
pub fn instance() -> Instance {
    Instance {
        index: sys::info(Info::InstanceIndex) as usize,
        count: sys::info(Info::InstanceCount) as usize,
        attempt: sys::info(Info::Attempt) as u32,
    }
}
