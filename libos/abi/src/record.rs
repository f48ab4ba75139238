//! What a module writes when its state is captured, and what it reads when that state is rebuilt in another process.
//!
//! A *record* is plain data: a version, then the module's state without any address of trusted memory. The visor stores it and
//! does not look into it. A record that is read may have been written by anyone, so a module checks every field of it as it
//! checks an argument of a hostcall.
//!
//! ```text
//!  capture    visor ── save(state, records) ─────────▶ module ── write, pages, refuse ──▶ visor: record, ranges of the arena
//!  rebuild    visor ── restore(state, records, …) ───▶ module ── instance, pages, refuse ─▶ visor: accounts, keys
//! ```
//!
//! While either runs, no other handler of the domain does: no lock is held, no buffer is pinned, no call is under way except
//! parked ones. An instance whose end has begun has been reported to [`crate::module::ModuleTable::ended`] already.

use crate::services::service_table;

/// Most bytes of one module's record.
pub const RECORD_MAX: u64 = 1 << 32;

service_table! {
    /// What a module may ask while its state is captured or rebuilt. A table serves one of the two, for one module.
    struct Records;
    /// An implementation of the services: the visor's, or a test double.
    trait RecordServices;

    /// Appends bytes to the record: 0; `FileTooLarge` negated behind [`RECORD_MAX`] bytes, or where nothing is captured.
    fn write(&domain, bytes: *const u8, len: usize) -> i64;
    /// The id of live instance `index`, in no particular order; [`crate::module::SYSTEM_INSTANCE`] behind the last.
    fn instance(&domain, index: u32) -> u32;
    /// Whole pages of the arena belong to the state: their contents are captured, or have been, beside the record.
    fn pages(&domain, address: u64, len: u64);
    /// Whole pages of memory that the module has from the visor belong to the state: their contents are captured, or brought before another
    /// module is rebuilt, beside the record. There they have these pages of [`crate::layout::FILES_BASE`] as their names.
    fn file_pages(&domain, name: u64, address: u64, len: u64);
    /// Why the state cannot be captured, or a record is refused: an instance, or [`crate::module::SYSTEM_INSTANCE`] if none is
    /// concerned, and a text that names the thing.
    fn refuse(&domain, instance: u32, text: *const u8, len: usize);
}
