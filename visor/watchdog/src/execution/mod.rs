//! Executing invocations: from the queue to the recorded end.

mod alarm;
mod arrivals;
mod asynchronous;
pub(crate) mod basis;
mod callbacks;
mod came;
pub(crate) mod checkpoints;
mod children;
mod commit;
pub(crate) mod durable;
mod end;
mod first_wait;
mod leg;
mod messages;
pub(crate) mod migrate;
pub(crate) mod process;
pub(crate) mod read_once;
mod residents;
mod reuse;
pub(crate) mod run;
pub(crate) mod schedules;
mod templates;
