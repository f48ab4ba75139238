//! One workflow domain: an address space with a libos in it, running instances of functions.
//!
//! It knows nothing of JSON, HTTP or processes. A [`Driver`] starts instances and gets an event when one has ended. The
//! domain decides which thread runs on which carrier, and isolates the instances.
//!
//! ```text
//!  Driver ──start(InstanceConfig)──▶ pending ─▶ cell + instance ─▶ threads ─▶ carriers: enter … exit … park
//!     ▲                                                              │
//!     └───────────────── events: Ended, Timer, Deadline ◀────────────┘
//! ```
//!
//! Locks, outermost first: driver, scheduler, an instance's cell. Module locks are taken around the scheduler's, never
//! inside it.
//!
//! ```
//! use monohull_domain::keys;
//!
//! match keys::support() {
//!     keys::Support::Available => println!("protection keys can be used"),
//!     keys::Support::Missing(reason) => println!("isolation by process only: {reason}"),
//! }
//! ```
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod account;
pub mod address_space;
pub mod carrier;
#[cfg(all(test, not(miri)))]
mod carrier_orders;
pub mod cell;
mod cell_pool;
pub mod checkpoint;
mod clock;
mod deadline;
mod dispatcher;
mod domain;
mod driver;
mod effect_replies;
mod effects;
mod epoll_set;
mod error;
mod event;
mod event_delivery;
mod explanation;
pub mod fault;
#[allow(clippy::print_stderr, reason = "it warns of a program that does not ship, before there is a command line")]
pub mod fault_injection;
pub mod files;
pub mod gadgets;
mod given_events;
pub mod host_time;
pub mod hostcall;
pub mod image;
mod inbox;
pub mod instance;
mod instance_table;
pub mod keys;
mod leaving;
mod lifecycle;
mod mapped_memory;
mod mapped_ranges;
mod milestones;
mod missing_pages;
mod moved_pages;
mod net_poll;
mod options;
mod outbox;
mod pager;
mod pieces;
mod poller;
pub mod preemption;
mod processor;
mod published;
pub mod ranges;
mod reservation;
mod reuse;
mod rewinding;
mod run;
mod sched;
mod shared;
pub mod slot_access;
mod slot_buffers;
mod this_thread;
pub mod thread_setup;
mod threads;
mod timekeeper;

pub use domain::Domain;
pub use driver::Driver;
pub use effect_replies::NoReply;
pub use effects::{Handled, Performed};
pub use epoll_set::EpollSet;
pub use error::DomainError;
pub use event::{Ended, Event};
pub use given_events::GivenEvent;
pub use hostcall::RWF_APPEND;
pub use inbox::Inbox;
pub use instance::Sink;
pub use options::{Options, TIME_SLICE};
pub use outbox::may_be_sent;
pub use pager::{Mapped, faults};
pub use published::may_be_published;
pub use reservation::{PreforkDomain, ReservedDomain, prepare_forks};
pub use shared::Shared;
pub use threads::{PANICKED, spawn_detached};

/// For unit tests, which run in several threads of one process: held while there is a domain.
#[cfg(test)]
pub(crate) fn one_at_a_time() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// For unit tests that fault. The models of other tests have stacks of their own, and with the first model their library installs a handler
/// of SIGSEGV. It must not replace ours, so it is made to come first.
#[cfg(test)]
pub(crate) fn install_fault_handlers() {
    loom::model(|| ());
    fault::install(monohull_trampoline::system::Variant::Plain);
}
