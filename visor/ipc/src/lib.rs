//! Messages between the processes of Monohull: postcard in packets of a SEQPACKET socket, with descriptors attached.
//!
//! ```text
//!   channel   messages of any length, both ways, each with many descriptors: supervisor, spawner and workers
//!   request   a request and its reply, one at a time, with at most one descriptor: brokers and helpers
//!      │
//!   packet    one packet: the one place that sends and receives
//!   sealed    memory whose content the receiver can rely on
//!             sealed_pages: the same with pages that can be mapped
//!             later_pages: those that are not there yet
//!   recycled  memory for one message after the other, whose content it copies
//! ```
//!
//! The process at the other end may be under an attacker's control. What it sends is bounded before it is read: its bytes, its
//! descriptors, and the memory that it names. What is received and not used is closed.
//!
//! ```
//! use monohull_ipc::Channel;
//!
//! let (supervisor, worker) = Channel::<String, u32>::pair()?;
//! supervisor.send(&"a job".to_owned(), &[])?;
//! let message = worker.receive().expect("a message").expect("not the end");
//! assert_eq!(message.read().expect("a string"), "a job");
//! worker.send(&0, &[])?;
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

pub mod channel;
pub mod later_pages;
mod packet;
pub mod recycled;
pub mod request;
pub mod sealed;
pub mod sealed_pages;

pub use channel::{Channel, ChannelError, Message, Packet, Room};
pub use recycled::Recycled;
pub use request::{Protocol, Requester, Responder};
