//! What happens in a domain that its driver decides on.

use super::effects::Performed;
use super::instance::{Line, Usage};
use monohull_report::failure::Failure;

/// What a driver is called for.
pub enum Event {
    /// The run begins.
    Begin,
    /// An instance has ended and everything it held is reclaimed.
    Ended(Box<Ended>),
    /// A timer set with [`Shared::set_timer`](crate::Shared::set_timer) is due.
    Timer {
        /// Which.
        token: u64,
    },
    /// An instance asks for an effect, whose handler is to be started.
    Performed(Performed),
    /// The deadline set with [`Shared::set_deadline`](crate::Shared::set_deadline) has passed.
    Deadline,
}

/// How an instance ended.
pub struct Ended {
    /// The driver's name for it.
    pub token: u64,
    /// The domain's own name for it; 0 if it never started.
    pub id: u32,
    /// Success, or what went wrong.
    pub result: Result<(), Box<Failure>>,
    /// A description of its first call that the workflow file does not allow.
    pub refusal: Option<String>,
    /// It could be started again with the inputs it had.
    pub inputs_intact: bool,
    /// What it used; times in ticks.
    pub usage: Usage,
    /// What it printed.
    pub lines: Vec<Line>,
    /// Some of what it printed was dropped.
    pub lines_dropped: bool,
    /// Ticks when it ended.
    pub ended: u64,
}
