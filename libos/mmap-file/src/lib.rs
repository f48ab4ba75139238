//! Libos module: files of the libos, mapped into a cell.
//!
//! The visor maps, and fills pages that are touched; this module provides the extents. It asks the descriptor table to pin the file, so
//! that the visor can read its bytes where they lie, at any moment and without a lock: the thread of a function that touches
//! a page may be in the middle of a call on that very file.
//!
//! ```text
//!   FILE_MMAP(descriptor, …) ──▶ FILE_PIN ──▶ file system: extents, which stay ──▶ Host::map_file ──▶ address
//!   FILE_MUNMAP(address), or the instance ends ──▶ Host::unmap_file ──▶ FILE_UNPIN
//!
//!   captured    FILE_PIN of the pin ──▶ extents of now ──▶ Host::compare_file     record: address, pin
//!   gone on     FILE_PIN of the pin ──▶ extents of now ──▶ Host::map_file, at the address that it had
//! ```
//!
//! A mapping is the instance's own and private: it shows the file as it is when a page is first touched, and what is
//! written to it goes nowhere else.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use monohull_abi::file::{
    Advice, Extent, FILE_SIZE_MAX, FILLED_AT_ONCE, FilePin, MAPPINGS_MAX, PATH_MAX, TO_THE_END, map,
};
use monohull_abi::module::{Call, Ending, Released, SYSTEM_INSTANCE};
use monohull_abi::{Errno, number};
use monohull_module::record::{RecordsRef, Refused, fields, rise};
use monohull_module::{FileToMap, FutexMutex, HostRef, Module, module};

/// Extents that there is room for at first.
const EXTENTS: usize = 64;
/// Most extents of one mapping: 16 MiB of what is known of it. A file in more pieces has to be mapped in parts.
const EXTENTS_MAX: usize = 1 << 20;
/// So many mappings of an instance that has ended are removed at a time.
const MAPPINGS_AT_ONCE: usize = 16;

/// The mapped files of one domain.
pub struct MappedFiles {
    host: HostRef,
    /// The file of each mapping, by instance and by address.
    pins: FutexMutex<BTreeMap<u32, BTreeMap<u64, PinnedFile>>>,
}

module! {
    MappedFiles {
        number::FILE_MMAP => MappedFiles::map,
        number::FILE_MUNMAP => MappedFiles::unmap,
        number::FILE_MADVISE => MappedFiles::advise,
        number::FILE_MPROTECT => MappedFiles::protect,
    }
}

impl Module for MappedFiles {
    const NAME: &'static str = "mmap-file";

    fn start(host: HostRef) -> Option<MappedFiles> {
        Some(MappedFiles { host, pins: FutexMutex::default() })
    }

    fn ended(&self, instance: u32, _: Ending) -> Released {
        for _ in 0..MAPPINGS_AT_ONCE {
            let Some((address, file)) = self.take_one(instance) else { return Released::InputsIntact };
            self.take_back(instance, address, file.pin);
        }
        Released::More
    }

    /// Version 1 had no mappings.
    const RECORD_VERSION: u32 = 2;

    fn save(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
        let mut mapped: Vec<(u32, Vec<(u64, u64)>)> = Vec::new();
        for (instance, theirs) in &*self.pins.lock() {
            for (address, file) in theirs {
                self.compare(*instance, *address, file.pin).map_err(|errno| {
                    let why = format_args!("`/{}`, which is mapped at {address:#x}: {errno}", file.path);
                    Refused::of(*instance, why)
                })?;
            }
            let theirs: Vec<_> = theirs.iter().map(|(address, file)| (*address, file.pin)).collect();
            mapped.extend((!theirs.is_empty()).then_some((*instance, theirs)));
        }
        records.write(&mapped)
    }

    fn restore(&self, version: u32, record: &[u8], records: RecordsRef<'_>) -> Result<(), Refused> {
        let mapped: Vec<(u32, Vec<(u64, u64)>)> = match version {
            1 => fields(record).map(|()| Vec::new())?,
            _ => fields(record)?,
        };
        rise(mapped.iter().map(|(instance, _)| *instance), "the instances")?;
        let live = records.instances();
        for (instance, theirs) in mapped {
            if !live.contains(&instance) {
                return Err(Refused::new(format_args!("there is no instance {instance}")));
            }
            rise(theirs.iter().map(|(address, _)| *address), "the mappings")?;
            for (address, pin) in theirs {
                self.map_again(instance, address, pin).map_err(|errno| {
                    Refused::of(instance, format_args!("the file that was mapped at {address:#x}: {errno}"))
                })?;
            }
        }
        Ok(())
    }
}

/// The file of a mapping.
struct PinnedFile {
    pin: u64,
    /// Its absolute path when it was opened, without the first `/`.
    path: String,
}

/// A file that stays where it is.
struct Pinned {
    pin: u64,
    offset: u64,
    len: u64,
    host_node: u64,
    extents: Vec<Extent>,
    path: String,
}

impl Pinned {
    /// All of it.
    fn to_map(&self) -> FileToMap<'_> {
        let Pinned { offset, len, host_node, .. } = *self;
        FileToMap { address: 0, offset, len, flags: 0, extents: &self.extents, host_node, path: &self.path }
    }
}

/// Which part of which file is pinned.
enum Of {
    Descriptor {
        descriptor: u64,
        offset: u64,
        len: u64,
    },
    /// That of a pin.
    Pin(u64),
}

impl MappedFiles {
    fn map(&self, call: &mut Call) -> Result<u64, Errno> {
        let [descriptor, offset, len, flags, ..] = call.args;
        self.admit(call)?;
        if flags & !map::ALL != 0 {
            return Err(self.refuse(
                call,
                Errno::Invalid,
                format_args!("{flags:#x} is not a valid set of mapping flags"),
            ));
        }
        if len == 0 || offset > FILE_SIZE_MAX || len != TO_THE_END && len > FILE_SIZE_MAX {
            return Err(self.refuse(
                call,
                Errno::Invalid,
                format_args!("{len} bytes at {offset} are no part of a file"),
            ));
        }
        let file = self.pin(call, descriptor, offset, len)?;
        let mapped = match file.len {
            0 => Err(self.refuse(call, Errno::Invalid, format_args!("there is nothing to map at {offset}"))),
            len => {
                let asked = FileToMap { flags, ..file.to_map() };
                self.host.map_file(call.instance, &asked).map_err(|errno| self.refuse_to_map(call, errno, len))
            }
        };
        match mapped {
            Ok(address) => {
                self.enter(call.instance, address, file);
                Ok(address)
            }
            Err(errno) => {
                self.unpin(file.pin);
                Err(errno)
            }
        }
    }

    /// A mapping is there.
    fn enter(&self, instance: u32, address: u64, Pinned { pin, path, .. }: Pinned) {
        self.pins.lock().entry(instance).or_default().insert(address, PinnedFile { pin, path });
    }

    /// Has the visor find which pages of a mapping are not as its file has them now.
    fn compare(&self, instance: u32, address: u64, pin: u64) -> Result<(), Errno> {
        let file = self.pin_file(instance, Of::Pin(pin))?;
        let compared = self.host.compare_file(instance, &FileToMap { address, ..file.to_map() });
        self.unpin(file.pin);
        compared
    }

    /// Maps what a captured instance had mapped there, of the file of a pin that the descriptor table has taken over.
    fn map_again(&self, instance: u32, address: u64, pin: u64) -> Result<(), Errno> {
        let file = self.pin_file(instance, Of::Pin(pin))?;
        let mapped = self.host.map_file(instance, &FileToMap { address, ..file.to_map() });
        match mapped {
            Ok(_) => {
                self.enter(instance, address, file);
                self.unpin(pin);
                Ok(())
            }
            Err(errno) => {
                self.unpin(file.pin);
                Err(errno)
            }
        }
    }

    /// Pins a part of the caller's file.
    fn pin(&self, call: &Call, descriptor: u64, offset: u64, len: u64) -> Result<Pinned, Errno> {
        self.pin_file(call.instance, Of::Descriptor { descriptor, offset, len }).map_err(|errno| match errno {
            Errno::BadDescriptor => {
                let why = format_args!("{descriptor} is not a descriptor of a file that is open for reading");
                self.refuse(call, errno, why)
            }
            Errno::Invalid => self.refuse(call, errno, format_args!("the file ends before byte {offset} + {len}")),
            Errno::TooMany => {
                self.refuse(call, errno, format_args!("it lies in more than {EXTENTS_MAX} pieces, which are the most"))
            }
            errno => self.refuse(call, errno, format_args!("{errno}")),
        })
    }

    /// Pins a part of an instance's file. What the file does not have any more is zeros; a file of the host is read when it is touched.
    fn pin_file(&self, instance: u32, of: Of) -> Result<Pinned, Errno> {
        let mut extents = vec![Extent::default(); EXTENTS];
        let mut path = vec![0; PATH_MAX];
        let (descriptor, before, offset, len) = match of {
            Of::Descriptor { descriptor, offset, len } => (descriptor, 0, offset, len),
            Of::Pin(pin) => (0, pin, 0, 0),
        };
        loop {
            let mut request = FilePin {
                offset,
                len,
                extents: extents.as_mut_ptr() as u64,
                room: extents.len() as u64,
                path: path.as_mut_ptr() as u64,
                ..FilePin::default()
            };
            let args = [instance.into(), descriptor, &raw mut request as u64, before, 0, 0];
            let (pin, _) = self.host.call(number::FILE_PIN, args)?;
            let count = request.count as usize;
            if count <= extents.len() {
                extents.truncate(count);
                path.truncate(request.path_len as usize);
                let gone = request.whole.saturating_sub(request.len);
                extents.extend((gone > 0 && request.host_node == 0).then_some(Extent { address: 0, len: gone }));
                let FilePin { offset, whole: len, host_node, .. } = request;
                let path = String::from_utf8_lossy(&path).into_owned();
                return Ok(Pinned { pin, offset, len, host_node, extents, path });
            }
            if count > EXTENTS_MAX {
                return Err(Errno::TooMany);
            }
            // It may grow meanwhile.
            extents.resize(count.next_power_of_two(), Extent::default());
        }
    }

    fn refuse_to_map(&self, call: &Call, errno: Errno, len: u64) -> Errno {
        match errno {
            Errno::OutOfMemory => {
                let limit = self.host.memory_limit(call.instance);
                let why =
                    format_args!("mapping {len} bytes goes over the memory limit of {limit} bytes, or the machine's");
                self.refuse(call, errno, why)
            }
            Errno::TooMany => {
                let why = format_args!("an instance may have {MAPPINGS_MAX} mappings, and all together not many more");
                self.refuse(call, errno, why)
            }
            Errno::NoSpace => self.refuse(call, errno, format_args!("there is no room for {len} bytes in the cell")),
            errno => self.refuse(call, errno, format_args!("{errno}")),
        }
    }

    fn unmap(&self, call: &mut Call) -> Result<u64, Errno> {
        let address = call.args[0];
        self.admit(call)?;
        let pin = self.pins.lock().get_mut(&call.instance).and_then(|theirs| theirs.remove(&address));
        let Some(PinnedFile { pin, .. }) = pin else {
            return Err(self.refuse_address(call, address));
        };
        self.take_back(call.instance, address, pin);
        Ok(0)
    }

    fn advise(&self, call: &mut Call) -> Result<u64, Errno> {
        let [address, offset, len, advice, ..] = call.args;
        self.admit(call)?;
        let Some(advice) = Advice::from_raw(advice) else {
            return Err(self.refuse(call, Errno::Invalid, format_args!("there is no advice {advice}")));
        };
        let advised = self.host.advise_file(call.instance, address, offset, len, advice);
        let filled = if advice == Advice::WillNeed { len.min(FILLED_AT_ONCE) } else { 0 };
        advised.map(|()| filled).map_err(|errno| match errno {
            Errno::Io => self.refuse(call, errno, format_args!("the file cannot be read there")),
            _ => self.refuse_address(call, address),
        })
    }

    fn protect(&self, call: &mut Call) -> Result<u64, Errno> {
        let [address, writable, ..] = call.args;
        self.admit(call)?;
        if writable > 1 {
            return Err(self.refuse(call, Errno::Invalid, format_args!("{writable} is neither 0 nor 1")));
        }
        let changed = self.host.protect_file(call.instance, address, writable == 1);
        changed.map(|()| 0).map_err(|errno| match errno {
            Errno::Invalid => self.refuse_address(call, address),
            errno => self.refuse(call, errno, format_args!("{errno}")),
        })
    }

    /// Removes one mapping of an instance from the list: its address and its file. The list goes with the last one.
    fn take_one(&self, instance: u32) -> Option<(u64, PinnedFile)> {
        let mut pins = self.pins.lock();
        let mapping = pins.get_mut(&instance)?.pop_first();
        if mapping.is_none() {
            pins.remove(&instance);
        }
        mapping
    }

    /// The pin of a mapping is not needed any more.
    fn take_back(&self, instance: u32, address: u64, pin: u64) {
        // It is not there only if the visor has taken it back by itself.
        let _ = self.host.unmap_file(instance, address);
        self.unpin(pin);
    }

    fn unpin(&self, pin: u64) {
        // Not served only if the descriptor table has failed; then nothing moves any more.
        let _ = self.host.call(number::FILE_UNPIN, [pin, 0, 0, 0, 0, 0]);
    }

    /// Only functions have cells to map into.
    fn admit(&self, call: &Call) -> Result<(), Errno> {
        if call.instance == SYSTEM_INSTANCE { Err(Errno::NotPermitted) } else { Ok(()) }
    }

    #[cold]
    fn refuse(&self, call: &Call, errno: Errno, why: fmt::Arguments<'_>) -> Errno {
        self.host.explain(call, errno, why)
    }

    #[cold]
    fn refuse_address(&self, call: &Call, address: u64) -> Errno {
        self.refuse(
            call,
            Errno::Invalid,
            format_args!("no mapping of the caller's begins at {address:#x}, or ends later"),
        )
    }
}
