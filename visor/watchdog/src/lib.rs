//! The service: workflows over HTTP, each invocation in a process of its own.
//!
//! ```text
//!            ┌ supervisor: this crate, a few threads that serve or wait for disks ───────────────────────────────┐
//! client ──▶ │ server ─▶ http/ ─▶ endpoints/registered ─▶ registry/ ─▶ store/                 PUT, GET, DELETE   │
//!            │                    endpoints/invoke ─▶ invocations/admission ─▶ execution/run ─▶ invocations/workers ─┐
//!            │                    endpoints/invocations ◀─ invocations/history ◀──┘ │                             │  │
//!            │                    asynchronous ones: invocations/ledger ◀─ execution/asynchronous                 │  │
//!            │                    those that wait:   invocations/ledger ◀─▶ execution/durable ─▶ …/workers        │  │
//!            └────────────────────────────────────────────────────────────────────────────────────────────────────┘  │
//!                                                                                        worker process ◀─ socket ──┘
//! ```
//!
//! The folders build on each other, from the bottom: `store` (files), `http` (the protocol), `registry` and `invocations`
//! (the data), `service` (all of it together), `execution`, `endpoints`, `server`.
//!
//! A few threads serve all connections, one where there are few cores: between two processes of a workflow there is little to do, and a
//! request that stays on one core is answered sooner. What they share is behind locks that are held for moments. This process never
//! maps user code. What a worker sends may come from hostile code: it is bounded, escaped, and counts only for the invocation that it is
//! for.
//!
//! ```no_run
//! use monohull_watchdog::{Settings, serve};
//!
//! // On the main thread, before others start. Returns after SIGTERM or SIGINT.
//! serve(Settings::new("/var/lib/monohull".into()), |address| println!("{address}"))?;
//! # Ok::<(), monohull_watchdog::ServeError>(())
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

mod clock;
mod endpoints;
mod execution;
mod http;
mod idle;
mod ids;
mod invocations;
mod listener;
pub mod log;
mod metrics;
mod registry;
mod serve_error;
mod server;
mod service;
pub mod settings;
mod store;
mod sweep;
mod task_tracker;

pub use endpoints::openapi;
pub use http::auth::Token;
pub use http::authority::port_of;
pub use http::client_limits::ClientLimits;
pub use http::error::MISSING_INPUT;
pub use http::tls::{AUTHORITY, TlsError, TlsFiles};
pub use invocations::ledger::{LedgerError, durable_folder};
pub use invocations::slots::SLOTS_TYPE;
pub use serve_error::ServeError;
pub use server::serve;
pub use settings::{Keep, Listen, Residence, Settings};
pub use store::backup::back_up;
pub use store::error::{Loss, StateError, Unsuitable};
