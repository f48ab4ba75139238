//! Libos module: descriptors, mounts and paths. File systems are modules of their own.
//!
//! ```text
//!   path ──▶ paths: clean, absolute ──▶ mounts: which file system ──▶ RAMFS(op, …)
//!   descriptor ──▶ tables: one per cell ──▶ Open { mount, node, flags, position } ──▶ the same
//! ```
//!
//! An open file is plain data: no part of it lives in a thread or in the kernel. Several descriptors may refer to one open file
//! (`FILE_DUP`). Closing the last one, by a call or at the end of the instance, closes the file.
//!
//! # Waiting
//!
//! Two kinds of locks park the calls that wait for them (`park_lock`). Calls with paths lock their mount, so that a file system
//! serves one of them at a time. Calls that read or write at a descriptor's position lock the position. No other lock of this
//! module is held while bytes are copied.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod data;
mod file_pins;
mod mounts;
mod park_lock;
mod path_ops;
mod paths;
mod readdir;
mod record;
mod tables;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use core::fmt;
use file_pins::Pins;
use monohull_abi::module::{Call, Ending, Released, SYSTEM_INSTANCE, Wake};
use monohull_abi::user::AccessError;
use monohull_abi::{Errno, Outcome, number};
use monohull_module::record::{RecordsRef, Refused};
use monohull_module::{FutexMutex, HostRef, Module, module};
use mounts::Mounts;
use tables::Tables;

/// So many descriptors of an instance that has ended are closed at a time.
const DESCRIPTORS_AT_ONCE: usize = 64;

/// The files of one domain.
pub struct Files {
    host: HostRef,
    mounts: Mounts,
    tables: Box<Tables>,
    pins: FutexMutex<Pins>,
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
        number::FILE_SET_TIMES => Files::set_times,
        number::FILE_PIN => Files::pin,
        number::FILE_UNPIN => Files::unpin,
        number::FILE_HELD => Files::held_behind,
    }
}

impl Module for Files {
    const NAME: &'static str = "fdtab";

    fn start(host: HostRef) -> Option<Files> {
        Some(Files { host, mounts: Mounts::load(host), tables: Tables::new(), pins: FutexMutex::default() })
    }

    /// Files that an instance wrote are an effect outside of it, like a request it sent: its inputs stay intact.
    fn ended(&self, instance: u32, _: Ending) -> Released {
        self.drop_taken_over(instance);
        let Some(table) = self.tables.find(instance) else { return Released::InputsIntact };
        let some = table.clear_some(DESCRIPTORS_AT_ONCE);
        let more = some.len() == DESCRIPTORS_AT_ONCE;
        some.into_iter().for_each(|open| self.release(open));
        if more { Released::More } else { Released::InputsIntact }
    }

    /// Since version 2 a record has pins.
    const RECORD_VERSION: u32 = 2;

    fn save(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
        self.save_tables(records)
    }

    fn restore(&self, version: u32, record: &[u8], records: RecordsRef<'_>) -> Result<(), Refused> {
        self.restore_tables(version, record, records)
    }
}

/// Why a call does not complete now.
enum Stop {
    /// It is refused.
    Refused(Errno),
    /// A lock is held; the call has been registered and will run again.
    Parked,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Refused(errno)
    }
}

/// The result of a handler.
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
    /// Refuses with an explanation.
    #[cold]
    fn refuse(&self, call: &Call, errno: Errno, why: fmt::Arguments<'_>) -> Stop {
        Stop::Refused(self.host.explain(call, errno, why))
    }

    /// Refuses an address.
    #[cold]
    fn refuse_address(&self, call: &Call, refusal: AccessError, what: &str) -> Stop {
        self.refuse(call, refusal.into(), format_args!("{what}: {refusal}"))
    }

    /// Only functions have descriptors. Calls wait here only for other calls that are under way.
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
