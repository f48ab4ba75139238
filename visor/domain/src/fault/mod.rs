//! What happens when user code goes wrong: from the signal to a report that names the place and the owner.

mod handler;
mod report;
mod signals;
mod tsc;
mod upcall;

pub(crate) use handler::is_code;
pub use handler::{FaultHandler, HandlerError};
pub use report::{
    add_frames_of_call, add_place_of_call, add_place_of_interrupt, describe, describe_forged, describe_stray,
    frames_of_call, frames_of_interrupt, is_own_code,
};
pub use signals::{HANDLED, install};
pub(crate) use upcall::redirect;
