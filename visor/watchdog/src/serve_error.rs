//! Why the service cannot start, or cannot go on.

use std::io;
use std::path::PathBuf;

use crate::http::tls::TlsError;
use crate::invocations::ledger::LedgerError;
use crate::store::error::StateError;
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
    /// the ledger of durable invocations
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("it cannot listen on {address}: {source}{}", listen_hint(address, source))]
    Listen {
        /// Where.
        address: String,
        /// The host's answer.
        source: io::Error,
    },
    #[error("`--listen systemd`: {0}")]
    Passed(String),
    #[error("a certificate and a key need an address and a port: a Unix socket has no TLS")]
    UnixTls,
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

/// What helps where a server cannot listen.
fn listen_hint(address: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse if address.starts_with("unix:") => "; a file that is no socket has this name",
        io::ErrorKind::AddrInUse => "; another program listens there. `--listen ADDRESS:0` takes a port that is free",
        _ => "",
    }
}
