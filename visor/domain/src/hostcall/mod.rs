//! Hostcalls on the trusted side: the dispatch table, the visor's own calls, the modules that serve the rest.

mod caller;
mod copies;
mod core;
mod datagrams;
mod dispatch;
mod effects;
mod held_addresses;
mod host;
mod host_files;
mod hostcalls;
mod https;
mod leaving;
mod mapped;
mod modules;
mod network;
mod port;
mod record_error;
mod records;
mod rewind;
mod state;
mod statics;
mod table;

pub(crate) use core::{bind as bind_core, futex_wait};
pub(crate) use datagrams::Datagrams;
pub(crate) use host::Services;
pub use host_files::RWF_APPEND;
pub(crate) use hostcalls::Hostcalls;
pub(crate) use https::Relayed;
pub(crate) use modules::restore_statics;
pub use modules::{Loaded, ModuleError, NAMES, preload};
pub use port::FilePages;
pub use record_error::RecordError;
pub use records::ModuleRecord;
pub(crate) use rewind::note_numbers;
pub(crate) use table::Binding;
