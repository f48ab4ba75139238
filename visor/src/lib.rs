//! The visor: its command line, and one name for each of the crates it is made of.
//!
//! ```text
//!   cli ──▶ watchdog ──▶ worker ──▶ engine ──▶ workflow ──▶ domain ──▶ network, host-files ──▶ ipc, report, sys
//! ```
//!
//! An arrow means "uses". A crate also uses those further to the right of it, and none to the left.
//!
//! ```no_run
//! // The whole program: `monohull run`, `monohull serve` and the other verbs.
//! let status: std::process::ExitCode = monohull_visor::cli::main();
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

pub mod cli;
pub mod disk;

pub use monohull_domain as domain;
pub use monohull_engine as engine;
pub use monohull_host_files as host_files;
pub use monohull_network as network;
pub use monohull_report as report;
pub use monohull_watchdog as watchdog;
pub use monohull_worker as worker;
pub use monohull_workflow as workflow;
