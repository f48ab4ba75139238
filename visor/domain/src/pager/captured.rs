//! Mappings of a domain that is captured, and of one that goes on from there.
//!
//! ```text
//!   capture    module ─ extents of now ─▶ compare ─▶ pages that are there, and those that differ ─▶ records, contents
//!   restore    records ─▶ expect    module ─ extents of now ─▶ map_again: shown or filled    contents ─▶ settle
//! ```
//!
//! A page that is there has to stay as it is, whatever becomes of its file. One that is as the file has it is not stored: files in memory
//! are in the checkpoint themselves, and a disk image is the same file with the same bytes, or the checkpoint is refused. It is shown
//! again, or copied from the file before anything runs. What a file of a granted directory will be is not known, so all that is there is
//! stored.

use super::record::MappedFileRecord;
use super::{DOMAIN_MAX, Mapping, Pager, Source, Window, runs};
use crate::account::Account;
use crate::address_space::AddressSpaceError;
use crate::cell;
use crate::instance::{Instance, cell_of};
use monohull_abi::Errno;
use monohull_abi::file::MapRequest;
use monohull_abi::layout::PAGE;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, MutexGuard};

/// The mappings of a captured domain, in the one that goes on from it.
#[derive(Default)]
pub(super) struct Again {
    /// Those that have not been made, by their first addresses, and whose they are.
    expected: BTreeMap<u64, (u32, MappedFileRecord)>,
    /// Those that have been, and whether they may be written to.
    made: Vec<(Arc<Mapping>, bool)>,
}

impl Pager {
    /// For the capture that is under way: finds what is there of a mapping, and what of that differs from `file`.
    pub(crate) fn compare(&self, instance: u32, request: &MapRequest, file: &Source) -> Result<(), Errno> {
        let mapping = self.table.of(instance, request.address)?;
        if (mapping.len, mapping.offset) != (request.len, request.offset) {
            return Err(Errno::Invalid);
        }
        mapping.compare(file);
        Ok(())
    }

    /// The mappings of an instance, each of which has been compared; `each` gets the pages that differ. The path of one that has not been,
    /// or cannot be read, is the error.
    pub(crate) fn capture(
        &self,
        instance: u32,
        mut each: impl FnMut(u64, &[u8]),
    ) -> Result<Vec<MappedFileRecord>, String> {
        let cell = cell::bounds(cell_of(instance));
        let mappings: Vec<_> = self.table.lock().range(cell.start..cell.end).map(|(_, found)| found.clone()).collect();
        let record = |mapping: &Arc<Mapping>| {
            let (there, writable) = mapping.take_compared(&mut each).ok_or_else(|| mapping.path.clone())?;
            let there = there.into_iter().map(|range| (range.start, range.end - range.start)).collect();
            let (start, path) = (mapping.range.start, mapping.path.clone());
            Ok(MappedFileRecord { start, len: mapping.len, offset: mapping.offset, path, writable, there })
        };
        mappings.iter().map(record).collect()
    }

    fn again(&self) -> MutexGuard<'_, Again> {
        self.again.lock().expect("mappings that are made again")
    }

    /// An instance of a captured domain has had these, which have been checked. Its module makes them again.
    pub(crate) fn expect(&self, instance: u32, records: Vec<MappedFileRecord>) {
        let records = records.into_iter().map(|record| (record.start, (instance, record)));
        self.again().expected.extend(records);
    }

    /// Whether all that were expected have been made.
    pub(crate) fn all_are_made(&self) -> bool {
        self.again().expected.is_empty()
    }

    /// Makes a mapping that a captured instance had, at its address. What is there of it may be written to until [`Pager::settle`].
    /// `is_hosts`: its file is one of a granted directory.
    pub(crate) fn map_again<'f>(
        &self,
        instance: &Instance,
        account: &Account,
        request: &MapRequest,
        path: String,
        (source, is_hosts): (Source, bool),
        window: impl Fn(u64) -> Option<Window<'f>>,
    ) -> Result<u64, Errno> {
        let is_it = |(owner, record): &(u32, MappedFileRecord)| {
            (*owner, record.len, record.offset) == (instance.id, request.len, request.offset)
        };
        let mut again = self.again();
        if !again.expected.get(&request.address).is_some_and(is_it) {
            return Err(Errno::Invalid);
        }
        let (_, record) = again.expected.remove(&request.address).ok_or(Errno::Invalid)?;
        drop(again);
        let range = record.range();
        let size = (range.end - range.start) as i64;
        if !account.charge(size) {
            return Err(Errno::OutOfMemory);
        }
        let plan = runs::plan(&source, record.len, window);
        let place = (path, record.offset);
        let mapping = Arc::new(Mapping::new(range, record.len, instance.id, instance.key, place, source, true));
        let first = |address: u64| (address - record.start) / PAGE;
        let there: Vec<Range<u64>> = record.there().map(|there| first(there.start)..first(there.end)).collect();
        let entered = self.enter_again(&mapping);
        let made = entered.and_then(|()| {
            let shown = plan.iter().map(|planned| planned.run.clone()).collect();
            if !plan.is_empty() && self.table.shown.enter(&mapping, shown) {
                mapping.show(&self.table.space, &mut mapping.lock(), plan)?;
            }
            mapping.open_again(&self.table.space, || self.faults(), &there, is_hosts)
        });
        if let Err(errno) = made {
            if entered.is_ok() {
                self.end(&mapping);
            }
            account.charge(-size);
            return Err(errno);
        }
        self.count(record.len);
        self.again().made.push((mapping, record.writable));
        Ok(record.start)
    }

    /// Its addresses have been checked: no other mapping has them.
    fn enter_again(&self, mapping: &Arc<Mapping>) -> Result<(), Errno> {
        let mut by_start = self.table.lock();
        if by_start.len() >= DOMAIN_MAX {
            return Err(Errno::TooMany);
        }
        by_start.insert(mapping.range.start, mapping.clone());
        Ok(())
    }

    /// The contents of all pages are there: mappings have the rights that they had.
    pub(crate) fn settle(&self) -> Result<(), AddressSpaceError> {
        let made = std::mem::take(&mut self.again().made);
        made.iter().try_for_each(|(mapping, writable)| mapping.set_writable(&self.table.space, *writable))
    }
}
