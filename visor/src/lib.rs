//! The visor: command line, orchestrator, domain, loader.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

pub mod cli;
pub mod disk;
#[allow(clippy::disallowed_methods, reason = "it shows paths of Monohull's own objects only")]
pub mod domain;
pub mod escape;
pub mod host_files;
pub mod host_input;
pub mod network;
pub mod orchestrator;
mod packets;
#[allow(clippy::print_stderr, reason = "a worker's standard error is a pipe to its server")]
pub mod process;
pub mod report;
mod sealed;
pub mod watchdog;
#[allow(clippy::print_stderr, reason = "it warns of a program that does not ship, before there is a command line")]
pub mod weaken;
pub mod workflow;
