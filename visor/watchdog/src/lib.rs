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

mod admission;
mod auth;
mod body;
mod callback;
mod calls;
mod durable;
mod entries;
mod error;
mod folder;
mod head;
mod health;
mod history;
mod invocation;
mod launch;
mod ledger;
pub mod log;
mod metrics;
pub mod openapi;
mod page;
mod perform;
mod recorded;
mod records;
mod redact;
mod refusals;
mod registry;
mod routes;
mod server;
pub mod settings;
mod slots;
mod socket;
mod state;
mod tally;
mod tls;
mod trace;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use admission::Admission;
use body::Budget;
use health::StateWatch;
use history::History;
use launch::Launcher;
use ledger::Ledger;
use metrics::Metrics;
use redact::Secrets;
use registry::Registry;
use routes::Routes;
use std::sync::atomic::AtomicBool;
use tally::Tally;
use tls::Tls;
use tokio::sync::Semaphore;

pub use auth::Token;
pub use durable::StateError;
pub use error::MISSING_INPUT;
pub use folder::{Loss, Unsuitable};
pub use server::serve;
pub use settings::{Keep, Listen, Pace, Settings};
pub use slots::SLOTS_TYPE;
pub use tls::AUTHORITY;
pub use tls::{TlsError, TlsFiles};

use hyper::http::uri::Authority;
use monohull_engine::HostError;
use monohull_worker::ProcessError;
use monohull_workflow::grants::GrantsError;

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

/// Everything the service knows.
struct Watchdog {
    settings: Settings,
    /// What TCP connections begin with; nothing if they are plain.
    tls: Option<Tls>,
    routes: Routes,
    registry: Registry,
    ledger: Ledger,
    state_watch: StateWatch,
    secrets: Secrets,
    history: History,
    admission: Admission,
    /// For large bodies.
    budget: Budget,
    launcher: Launcher,
    /// For calls to other servers.
    callbacks: Semaphore,
    metrics: Metrics,
    /// What should be finished before the service ends: invocations, changes of the state.
    work: Arc<Tally>,
    /// The end has begun: nothing new is taken.
    ending: AtomicBool,
    /// `process` or `mpk`.
    isolation: &'static str,
    /// The control groups of workflows' processes: `own`, or `none` and why.
    cgroup: String,
}

/// The port in an address, the usual one if there is none; `None` if what is there is no port.
pub fn port_of(authority: &Authority, usual: u16) -> Option<u16> {
    // What stands before a bracket is an address of version 6.
    let behind = authority.as_str().rsplit(']').next().unwrap_or_default();
    authority.port_u16().or_else(|| (!behind.contains(':')).then_some(usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_none_is_not_taken_for_the_usual_one() {
        let port = |text: &str| port_of(&text.parse().expect("an authority"), 80);
        let given = ["host", "[::1]", "host:81", "[::1]:81", "host:99999", "[::1]:99999", "host:"].map(port);
        assert_eq!(given, [Some(80), Some(80), Some(81), Some(81), None, None, None]);
    }
}
