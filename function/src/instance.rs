//! Which copy of a step's function this is, what a fan-out divides its work by; and which copy of the workflow.

use crate::sys;
use monohull_abi::number;
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

/// How often the workflow has gone on from a checkpoint; 0 if it has run without interruption.
///
/// A value that must not exist twice, such as a random key, is made again if this has changed: a checkpoint can be gone on with
/// more than once, and each run has the same memory then.
pub fn generation() -> u64 {
    sys::info(Info::Generation)
}

/// A workflow among the copies that were made of one checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fork {
    /// Which copy it is, from 1; 0 for what is no copy: the workflow that the copies were made of goes on as it was.
    pub index: u32,
    /// How many copies were made together with it; 0 for what is no copy.
    pub count: u32,
}

/// Asks which copy of the workflow this is. The answer stays the same until a copy is forked itself.
pub fn fork() -> Fork {
    Fork { index: sys::info(Info::ForkIndex) as u32, count: sys::info(Info::ForkCount) as u32 }
}

/// Says that the function is ready for its inputs. True if this instance has started here, and not at the beginning of `main`.
///
/// What comes before is the same for all instances: tables, parsers, a compiled pattern. A server runs it once for each version of the
/// function, in a process without inputs, and keeps the memory at this point as a *template*. Later instances have that memory from their
/// start, and their first instruction is the return from this call.
///
/// Everything else comes after it: slots, events, files, output, threads, sockets, random numbers, the id of the invocation. A function that uses
/// any of these before has no template. It works all the same, and the report of its invocations says why (`start`). Arguments and
/// environment are of the workflow's version, and may be read before; the clock goes on.
pub fn ready() -> bool {
    sys::call(number::READY, []) == Ok(1)
}
