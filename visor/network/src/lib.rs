//! What a workflow may do on the network, and how it gets there.
//!
//! ```text
//!   rule      one entry of a list: range or name, ports
//!   list      all of them, names resolved once: may this address be reached, may that one be bound?
//!   broker    makes sockets that the list allows, above the worker        client   asks it, in the worker
//!   https     carries plain HTTP of functions over TLS to hosts by name, for the broker
//!   helper    makes devices, with the rights for it                      lease    asks it, above the worker
//!   pool      the addresses that devices get                             device   the system calls behind it
//!   way_out   masquerading for devices whose workflows ask for it, where the operator has it
//!   probe     what this host has for all that
//! ```
//!
//! ```
//! use monohull_network::Rule;
//!
//! let rule = Rule::parse("10.0.0.0/8:443")?;
//! assert!(rule.covers("10.1.2.3:443".parse().expect("an address")));
//! assert!(!rule.covers("10.1.2.3:80".parse().expect("an address")));
//! # Ok::<(), monohull_network::RuleError>(())
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

mod broker;
mod client;
mod device;
pub mod helper;
pub mod https;
pub mod lease;
pub mod list;
pub mod pool;
pub mod probe;
pub mod rule;
pub mod way_out;
mod wire;

pub use client::Client;
pub use lease::{Addresses, Tap};
pub use list::{ResolveError, Rules};
pub use rule::{Rule, RuleError};

use monohull_abi::Errno;
use monohull_report::escape::shown;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The network of a workflow, as its file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Plan {
    /// None.
    #[default]
    None,
    /// The host's sockets under lists of addresses.
    Host(Rules),
    /// A device with addresses of its own.
    Tap {
        /// With a way out, by the host's address.
        outside: bool,
    },
    /// What a server's operator grants under this name. No run has any: a server puts in its place what is granted.
    Granted(String),
}

/// What a worker needs to get to its network. The files travel with its job; the resources behind them are released with the
/// last open descriptor.
#[derive(Debug, Default)]
pub struct Way {
    /// In an order that the plan's kind of network knows.
    pub files: Vec<OwnedFd>,
    /// The addresses of a device, if there is one.
    pub addresses: Option<Box<Addresses>>,
}

/// The network of a run, as the run's own process sees it.
#[derive(Clone, Debug, Default)]
pub enum Network {
    /// None: every call is refused.
    #[default]
    None,
    /// The host's sockets, by way of a broker.
    Host(Arc<Client>),
    /// A device with addresses of its own.
    Tap(Arc<Tap>),
}

/// The network of a workflow cannot be set up.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum NetworkError {
    #[error("{what}: {source}")]
    Host {
        /// What was tried.
        what: &'static str,
        /// The host's answer.
        source: io::Error,
    },
    #[error("cannot connect to the network helper at {}: {source}; `monohull network` starts it", shown(path))]
    NoHelper {
        /// The path of the helper's socket.
        path: PathBuf,
        /// The host's answer.
        source: io::Error,
    },
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Header(#[from] https::HeaderError),
    /// Only a server grants networks.
    #[error(
        "the network `{0}` is one that a server's operator grants (`monohull serve --grants`); here there are none"
    )]
    Granted(String),
    #[error("the way to the network is missing; this is a bug in Monohull")]
    NoBroker,
}

impl Plan {
    /// The same, with relative paths counted from a folder.
    pub fn in_folder(mut self, folder: &Path) -> Plan {
        if let Plan::Host(rules) = &mut self {
            rules.https.iter_mut().for_each(|origin| origin.in_folder(folder));
        }
        self
    }

    /// Opens the way to the network, in a process that may go there. It does not wait: names are resolved meanwhile.
    pub fn open(&self) -> Result<Way, NetworkError> {
        match self {
            Plan::None => Ok(Way::default()),
            Plan::Granted(name) => Err(NetworkError::Granted(name.clone())),
            Plan::Host(rules) => {
                let what = "starting a broker for the network";
                let relay = https::Relay::new(&rules.https, &rules.connect)?;
                let link = broker::start(rules.clone(), relay).map_err(|source| NetworkError::Host { what, source })?;
                Ok(Way { files: vec![link], addresses: None })
            }
            Plan::Tap { outside } => {
                let (device, lease, addresses) = lease::ask(*outside)?;
                Ok(Way { files: vec![device, lease], addresses: Some(Box::new(addresses)) })
            }
        }
    }

    /// Goes there, in the run's own process.
    pub fn enter(&self, way: Way) -> Result<Network, NetworkError> {
        let mut files = way.files.into_iter();
        match self {
            Plan::None => Ok(Network::None),
            Plan::Granted(name) => Err(NetworkError::Granted(name.clone())),
            Plan::Host(rules) => {
                let link = files.next().ok_or(NetworkError::NoBroker)?;
                Ok(Network::Host(Arc::new(Client::connect(link, rules.https.clone())?)))
            }
            Plan::Tap { .. } => match (files.next(), files.next(), way.addresses) {
                (Some(device), Some(lease), Some(addresses)) => {
                    Ok(Network::Tap(Arc::new(Tap::new(device, *addresses, lease))))
                }
                _ => Err(NetworkError::NoBroker),
            },
        }
    }
}

/// An error number of the kernel's as hostcalls give it.
pub fn errno_of(number: i32) -> Errno {
    match number {
        libc::EACCES => Errno::NotPermitted,
        libc::EMFILE | libc::ENFILE | libc::ENOBUFS => Errno::TooMany,
        libc::EINTR => Errno::Again,
        libc::EAFNOSUPPORT | libc::ENOPROTOOPT => Errno::NotSupported,
        other => Errno::from_value(-i64::from(other)).err().unwrap_or(Errno::Io),
    }
}
