//! The visor: command line, orchestrator, domain, loader.
