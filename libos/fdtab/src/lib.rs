//! Libos module: descriptors, mounts and paths. The bytes are the file systems' business.
//!
//! ```text
//!   path ──▶ paths: clean, absolute ──▶ mounts: which file system ──▶ RAMFS(op, …)
//!   descriptor ──▶ tables: one per cell ──▶ Open { mount, node, flags, position } ──▶ the same
//! ```
//!
//! An open file is plain data: nothing of it lives in a thread or in the kernel. Several descriptors may lead to one
//! (`FILE_DUP`); the last that goes closes it, be it by a call or because its instance ended.
//!
//! # Waiting
//!
//! Calls with paths take turns on each mount, so that a file system sees one of them at a time. Calls that read or write
//! at a descriptor's position take turns on that descriptor. Whoever finds it taken parks and is called again; nobody
//! holds a lock of this module while bytes move.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod data;
mod listing;
mod mounts;
mod names;
mod paths;
mod pins;
mod tables;
#[cfg(test)]
mod tests;
mod turns;

use alloc::boxed::Box;
use core::fmt;
use monohull_abi::module::{Call, Ending, SYSTEM_INSTANCE, Wake};
use monohull_abi::user::Refusal;
use monohull_abi::{Errno, Outcome, number};
use monohull_module::{HostRef, Module, SleepingMutex, module};
use mounts::Mounts;
use pins::Pins;
use tables::Tables;

/// The files of one domain.
pub struct Files {
    host: HostRef,
    mounts: Mounts,
    tables: Box<Tables>,
    pins: SleepingMutex<Pins>,
}

module! {
    Files {
        number::FILE_OPEN => Files::open,
        number::FILE_CLOSE => Files::close,
        number::FILE_READ => Files::read,
        number::FILE_WRITE => Files::write,
        number::FILE_PREAD => Files::read_at,
        number::FILE_PWRITE => Files::write_at,
        number::FILE_READV => Files::read_vector,
        number::FILE_WRITEV => Files::write_vector,
        number::FILE_SEEK => Files::seek,
        number::FILE_STAT => Files::stat,
        number::FILE_FSTAT => Files::stat_open,
        number::FILE_GETDENTS => Files::list,
        number::FILE_MKDIR => Files::make_directory,
        number::FILE_RMDIR => Files::remove_directory,
        number::FILE_UNLINK => Files::remove_file,
        number::FILE_RENAME => Files::rename,
        number::FILE_FTRUNCATE => Files::resize,
        number::FILE_FSYNC => Files::sync,
        number::FILE_DUP => Files::duplicate,
        number::FILE_CHDIR => Files::change_directory,
        number::FILE_GETCWD => Files::working_directory,
        number::FILE_FLAGS => Files::flags,
        number::FILE_REALPATH => Files::real_path,
        number::FILE_PIN => Files::pin,
        number::FILE_UNPIN => Files::unpin,
    }
}

impl Module for Files {
    const NAME: &'static str = "fdtab";

    fn start(host: HostRef) -> Option<Files> {
        Some(Files { host, mounts: Mounts::load(host), tables: Tables::new(), pins: SleepingMutex::default() })
    }

    /// Files that an instance wrote are an effect outside of it, like a request it sent: they do not make its inputs any
    /// less whole.
    fn ended(&self, instance: u32, _: Ending) -> bool {
        if let Some(table) = self.tables.find(instance) {
            for open in table.clear() {
                self.let_go(open);
            }
        }
        true
    }
}

/// Why a call does not come to its end now.
enum Stop {
    /// It is refused.
    Refused(Errno),
    /// Its turn has not come; it has been registered and will be called again.
    Parked,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Refused(errno)
    }
}

/// What a handler ends with.
type Answer = Result<u64, Stop>;

/// A handler's outcome.
fn outcome(answer: Answer) -> Outcome {
    match answer {
        Ok(value) => Outcome::ready(value as i64),
        Err(Stop::Refused(errno)) => Outcome::error(errno),
        Err(Stop::Parked) => Outcome::park(),
    }
}

impl Files {
    /// Refuses with words.
    #[cold]
    fn refuse(&self, call: &Call, errno: Errno, why: fmt::Arguments<'_>) -> Stop {
        Stop::Refused(self.host.explain(call, errno, why))
    }

    /// Refuses an address.
    #[cold]
    fn refuse_address(&self, call: &Call, refusal: Refusal, what: &str) -> Stop {
        self.refuse(call, refusal.into(), format_args!("{what}: {refusal}"))
    }

    /// Only functions have descriptors, and nothing that waits here waits for anything but a call that is under way.
    fn admit(&self, call: &Call) -> Result<(), Stop> {
        if call.instance == SYSTEM_INSTANCE {
            return Err(Errno::NotPermitted.into());
        }
        if call.wake == Wake::Deadlock {
            return Err(self.refuse(
                call,
                Errno::Deadlock,
                format_args!("the file stays in use, and nothing else runs"),
            ));
        }
        Ok(())
    }
}
