//! Capturing a module's state as a record, and rebuilding it: the safe side of [`monohull_abi::record`].
//!
//! ```text
//!  record    | version, 4 bytes | fields, as postcard writes them | bytes that follow them, if the module has such |
//! ```
//!
//! A record is untrusted. The fields are numbers, texts and lists. What a list claims to hold is compared with the bytes
//! that are left before memory is allocated for it; postcard does that for byte strings, and serde allocates lists step by step. No
//! type in a record contains itself, so no record leads to deep recursion.

use crate::{Module, Store};
use alloc::collections::BTreeSet;
use alloc::string::String;
use core::fmt::{self, Write};
use monohull_abi::module::SYSTEM_INSTANCE;
use monohull_abi::record::Records;
use serde::{Deserialize, Serialize};

/// Bytes of the version at the start of a record.
const VERSION_BYTES: usize = size_of::<u32>();

/// Why a state cannot be captured, or a record is refused.
#[derive(Debug)]
pub struct Refused {
    instance: u32,
    why: String,
}

impl Refused {
    /// No single instance is concerned. The text names the thing.
    #[cold]
    pub fn new(why: fmt::Arguments<'_>) -> Refused {
        Refused::of(SYSTEM_INSTANCE, why)
    }

    /// It is something of an instance, which the visor names; the text names the thing.
    #[cold]
    pub fn of(instance: u32, why: fmt::Arguments<'_>) -> Refused {
        let mut text = String::new();
        // Writing to a `String` does not fail.
        let _ = text.write_fmt(why);
        Refused { instance, why: text }
    }
}

/// The visor, as a module sees it while its state is captured or rebuilt.
#[derive(Clone, Copy)]
pub struct RecordsRef<'r>(&'r Records);

impl<'r> RecordsRef<'r> {
    /// # Safety
    /// `records` is valid for as long as this reference and its copies are used.
    pub(crate) unsafe fn new(records: *const Records) -> RecordsRef<'r> {
        // SAFETY: the caller's promise.
        RecordsRef(unsafe { &*records })
    }

    /// Appends fields to the record.
    pub fn write(&self, fields: &impl Serialize) -> Result<(), Refused> {
        let bytes = postcard::to_allocvec(fields)
            .map_err(|error| Refused::new(format_args!("its record cannot be written: {error}")))?;
        self.write_bytes(&bytes)
    }

    /// Appends bytes to the record.
    pub fn write_bytes(&self, bytes: &[u8]) -> Result<(), Refused> {
        // SAFETY: the bytes are readable for their length.
        match unsafe { self.0.write(bytes.as_ptr(), bytes.len()) } {
            0 => Ok(()),
            _ => Err(Refused::new(format_args!("its state is larger than a record may be"))),
        }
    }

    /// The ids of all live instances.
    pub fn instances(&self) -> BTreeSet<u32> {
        // SAFETY: no conditions.
        let ids = (0..).map(|index| unsafe { self.0.instance(index) });
        ids.take_while(|id| *id != SYSTEM_INSTANCE).collect()
    }

    /// Whole pages of the arena belong to the state.
    pub fn pages(&self, address: u64, len: u64) {
        // SAFETY: no conditions.
        unsafe { self.0.pages(address, len) }
    }

    /// Whole pages at the start of a store belong to the state, under these names: at `name` and behind it.
    pub fn file_pages(&self, name: u64, store: &Store, len: u64) {
        // SAFETY: no conditions.
        unsafe { self.0.file_pages(name, store.address(), len.min(store.len())) }
    }

    fn refuse(&self, refused: &Refused) {
        // SAFETY: the text is readable for its length.
        unsafe { self.0.refuse(refused.instance, refused.why.as_ptr(), refused.why.len()) }
    }
}

/// The fields of a record that has nothing behind them.
pub fn fields<'r, T: Deserialize<'r>>(record: &'r [u8]) -> Result<T, Refused> {
    match fields_and_rest(record)? {
        (fields, []) => Ok(fields),
        (_, rest) => Err(Refused::new(format_args!("its record has {} bytes behind its end", rest.len()))),
    }
}

/// The fields of a record, and the bytes behind them.
pub fn fields_and_rest<'r, T: Deserialize<'r>>(record: &'r [u8]) -> Result<(T, &'r [u8]), Refused> {
    postcard::take_from_bytes(record).map_err(|error| Refused::new(format_args!("its record is damaged: {error}")))
}

/// Writes the record of a module; false after a refusal.
pub(crate) fn save<M: Module>(module: &M, records: RecordsRef<'_>) -> bool {
    let saved = records.write_bytes(&M::RECORD_VERSION.to_le_bytes()).and_then(|()| module.save(records));
    saved.inspect_err(|refused| records.refuse(refused)).is_ok()
}

/// Rebuilds a module from its record; false after a refusal.
pub(crate) fn restore<M: Module>(module: &M, record: &[u8], records: RecordsRef<'_>) -> bool {
    let restored = split_version::<M>(record).and_then(|(version, record)| module.restore(version, record, records));
    restored.inspect_err(|refused| records.refuse(refused)).is_ok()
}

fn split_version<M: Module>(record: &[u8]) -> Result<(u32, &[u8]), Refused> {
    let Some((version, rest)) = record.split_first_chunk::<VERSION_BYTES>() else {
        return Err(Refused::new(format_args!("its record is damaged: it has {} bytes", record.len())));
    };
    match u32::from_le_bytes(*version) {
        0 => Err(Refused::new(format_args!("its record is damaged: there is no version 0"))),
        version if version > M::RECORD_VERSION => Err(Refused::new(format_args!(
            "its record has version {version}; this Monohull knows versions up to {}",
            M::RECORD_VERSION
        ))),
        version => Ok((version, rest)),
    }
}

/// Checks that numbers of a record's list rise, so that none comes twice.
pub fn rise<N: PartialOrd>(mut numbers: impl Iterator<Item = N>, what: &str) -> Result<(), Refused> {
    let Some(mut last) = numbers.next() else { return Ok(()) };
    for next in numbers {
        if next <= last {
            return Err(Refused::new(format_args!("its record is damaged: {what} are not in order")));
        }
        last = next;
    }
    Ok(())
}
