//! The visor: command line, orchestrator, domain, loader.

pub mod cli;
pub mod disk;
pub mod domain;
pub mod host_files;
pub mod host_input;
pub mod network;
pub mod orchestrator;
mod packets;
pub mod process;
pub mod report;
mod sealed;
pub mod watchdog;
pub mod weaken;
pub mod workflow;
