//! The state of libos modules as records: captured from a domain at rest, rebuilt in a new one.
//!
//! ```text
//!  save      socket, time, stdio, mmap-file, fdtab, fatfs, ramfs, mm        users before what they use
//!  restore   mm, ramfs, fatfs, fdtab, mmap-file, stdio, time, socket        what is used before its users
//! ```
//!
//! A record is bytes to this crate; only its module understands it. Beside it, `mm` names the ranges of the arena that belong to
//! live buffers: no other page of the arena is captured, and a capture has no business with another one. And `ramfs` names the pages of
//! its files, which lie in memory that it has from the visor: what their contents are is known before `mmap-file` shows them again.

use super::hostcalls::Hostcalls;
use super::modules::{NAMES, Restored, Saved};
use super::port::FilePages;
use super::record_error::RecordError;
use crate::checkpoint::RestoreError;
use crate::shared::Shared;
use monohull_abi::module::SYSTEM_INSTANCE;
use std::ops::Range;

/// The modules in the order in which they are rebuilt.
const ORDER: [&str; NAMES.len()] = ["mm", "ramfs", "fatfs", "fdtab", "mmap-file", "stdio", "time", "socket"];

/// The captured state of one module.
#[derive(Clone, Debug)]
pub struct ModuleRecord {
    /// The module.
    pub name: String,
    /// Its record, which begins with a version of its own.
    pub bytes: Vec<u8>,
    /// The ranges of the arena, whole pages, whose contents belong to it.
    pub pages: Vec<Range<u64>>,
    /// The pages of files in memory, whose contents belong to it as well. Not read where a module is rebuilt, which names its own.
    pub file_pages: Vec<FilePages>,
}

impl Shared {
    /// Captures the state of all modules that work, and changes nothing. No carrier serves a call meanwhile.
    pub fn save_modules(&self) -> Result<Vec<ModuleRecord>, RecordError> {
        let live = self.live_ids();
        let mut records = Vec::new();
        for name in ORDER.into_iter().rev() {
            let saved = self.hostcalls.modules.save(name, &live);
            if let Some(Saved { bytes, pages, file_pages }) =
                saved.map_err(|refused| self.record_error(name, refused, false))?
            {
                records.push(ModuleRecord { name: name.into(), bytes, pages, file_pages });
            }
        }
        Ok(records)
    }

    /// Rebuilds the state of modules that have served no call. The domain's instances are there, with what their cells hold
    /// charged to them; no thread runs. After an error the domain is good for nothing. `fill` gives pages of files in memory their contents,
    /// which are zero. Gives the ranges of the arena, and the names of the pages of files, whose contents belong to the state.
    pub fn restore_modules(
        &self,
        records: &[ModuleRecord],
        mut fill: impl FnMut(&[FilePages]) -> Result<(), RestoreError>,
    ) -> Result<Vec<Range<u64>>, RestoreError> {
        let error = |name: &str, reason: &str| -> Result<_, RestoreError> {
            let (module, reason) = (name.into(), reason.into());
            Err(RecordError { module, function: None, instance: None, reason, is_hosts: false }.into())
        };
        if let Some(record) = records.iter().find(|record| !ORDER.contains(&record.name.as_str())) {
            return error(&record.name, "this Monohull has no such module");
        }
        let live = self.live_ids();
        let mut pages = Vec::new();
        for name in ORDER {
            let mut own = records.iter().filter(|record| record.name == name);
            let Some(record) = own.next() else { continue };
            if own.next().is_some() {
                return error(name, "it has two records");
            }
            self.load_module(name);
            if let Some(reason) = self.hostcalls.modules.failure(name) {
                return error(name, &reason);
            }
            let Hostcalls { modules, addresses, .. } = &self.hostcalls;
            let restored = addresses.while_rebuilding(|| modules.restore(name, &record.bytes, &live));
            let Restored { pages: buffers, file_pages } =
                restored.map_err(|refused| self.record_error(name, refused, addresses.were_taken()))?;
            fill(&file_pages)?;
            pages.extend(buffers.into_iter().chain(file_pages.into_iter().map(|pages| pages.names)));
        }
        Ok(pages)
    }

    fn live_ids(&self) -> Vec<u32> {
        self.instances.live().iter().map(|instance| instance.id).collect()
    }

    fn record_error(&self, module: &str, (instance, reason): (u32, String), is_hosts: bool) -> RecordError {
        let live = self.instance(instance);
        let function = live.as_ref().map(|live| live.config.labels.function.clone());
        let instance =
            (instance != SYSTEM_INSTANCE).then(|| live.map_or_else(|| instance.to_string(), |live| live.name()));
        RecordError { module: module.into(), function, instance, reason, is_hosts }
    }
}
