//! What happens when user code goes wrong: from the signal to a report that names the place and the owner.

mod report;
mod signals;
mod tsc;
mod upcall;

pub use report::{
    add_frames_of_call, add_place_of_call, add_place_of_interrupt, describe, describe_stray, frames_of_call,
    frames_of_interrupt, is_own_code,
};
pub use signals::{HANDLED, install};
pub use upcall::{FaultHandler, HandlerError};
pub(crate) use upcall::{is_code, redirect};
