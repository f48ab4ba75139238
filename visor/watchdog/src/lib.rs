//! The service: workflows over HTTP, each invocation in a process of its own.
//!
//! ```text
//!            ┌ supervisor: this module, one thread that serves, a few that wait for disks ────────────────┐
//! client ──▶ │ server ─▶ routes ─▶ entries   ─▶ registry ─▶ state          PUT, GET, DELETE               │
//!            │              │                      │ images, plans                                        │
//!            │              └────▶ calls ─▶ slots ─▶ admission ─▶ perform ─▶ launch ──┐                   │
//!            │                     records ◀─ history ◀─ invocation ◀─┘     (idle)    │                   │
//!            │                     ledger ◀─ recorded ◀─ (asynchronous ones) ┘        │                   │
//!            └────────────────────────────────────────────────────────────────────────┼───────────────────┘
//!                                                                     worker process ◀┘ by socket
//! ```
//!
//! One thread serves all connections: between two processes of a workflow there is little to do, and a request that
//! stays on one core is answered sooner. This process never maps user code. What a worker says may come from hostile
//! code: it is bounded, escaped, and believed only about the invocation that it is for.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

mod endpoints;
mod execution;
mod http;
mod invocations;
pub mod log;
mod metrics;
mod registry;
mod server;
mod service;
pub mod settings;
mod store;
mod task_tracker;

use std::io;
use std::path::PathBuf;

use monohull_engine::HostError;
use monohull_worker::ProcessError;
use monohull_workflow::grants::GrantsError;

pub use endpoints::openapi;
pub use http::auth::Token;
pub use http::authority::port_of;
pub use http::error::MISSING_INPUT;
pub use http::tls::{AUTHORITY, TlsError, TlsFiles};
pub use invocations::slots::SLOTS_TYPE;
pub use server::serve;
pub use settings::{Keep, Listen, Pace, Settings};
pub use store::atomic_file::StateError;
pub use store::state_folder::{Loss, Unsuitable};

/// The service cannot begin, or cannot go on. The host or the invocation is at fault.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum ServeError {
    /// the libos modules or the domain
    #[error(transparent)]
    Host(#[from] HostError),
    /// no process for workflows can be made
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// the state folder
    #[error(transparent)]
    State(#[from] StateError),
    #[error("it cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// The host's answer.
        source: io::Error,
    },
    /// The grants file.
    #[error(transparent)]
    Grants(#[from] GrantsError),
    /// The certificate or its key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("another server listens on {0}")]
    Taken(PathBuf),
    #[error("the host failed: {0}")]
    Io(#[from] io::Error),
    #[error("it ends, as no workflow can be run any more: {0}")]
    NoProcesses(String),
}
