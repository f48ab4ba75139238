//! The visor: command line, orchestrator, domain, loader.

pub mod cli;
pub mod domain;
pub mod network;
pub mod orchestrator;
pub mod process;
pub mod report;
mod sealed;
pub mod watchdog;
pub mod workflow;
