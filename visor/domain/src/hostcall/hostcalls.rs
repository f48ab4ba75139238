//! What serves the hostcalls of a domain.

use super::held_addresses::HeldAddresses;
use super::modules::Modules;
use super::table::Table;
use monohull_abi::module::Host;
use std::path::PathBuf;

/// The services that modules use, the table, and the modules that fill it.
pub(crate) struct Hostcalls {
    pub(crate) host: Host,
    pub(crate) table: Table,
    pub(crate) modules: Modules,
    pub(super) addresses: HeldAddresses,
}

impl Hostcalls {
    /// Nothing bound; `folder` holds the modules.
    pub(crate) fn new(host: Host, folder: PathBuf) -> Hostcalls {
        Hostcalls { host, table: Table::new(), modules: Modules::new(folder), addresses: HeldAddresses::default() }
    }
}
