//! Libos modules: found, loaded with `dlopen` on the first call of one of their numbers, and never before.

use super::port::{FilePages, Port};
use super::statics::Statics;
use super::table::{Binding, Table};
use crate::gadgets::{self, GadgetsError};
use crate::leaving::ReleaseProgress;
use crate::threads::end_process;
use monohull_abi::module::{Ending, Host, Layout, MAGIC, ModuleEntry, ModuleTable, Released, SYMBOL, SYSTEM_INSTANCE};
use monohull_abi::{ABI_VERSION, number};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

/// A module could not be loaded.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum ModuleError {
    #[error("{path} cannot be loaded: {reason}")]
    Open {
        /// The shared object.
        path: PathBuf,
        /// The dynamic linker's message.
        reason: String,
    },
    #[error("{path} is not a libos module: it does not export {SYMBOL}")]
    NotAModule {
        /// The shared object.
        path: PathBuf,
    },
    #[error("{path} was built for version {found} of the module contract; this visor has version {ABI_VERSION}")]
    Version {
        /// The shared object.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// {path} was built for another layout of the module contract: …, this visor has …; rebuild it. The numbers are the sizes of
    /// table, services and call, and the hash of the services.
    #[error(
        "{path} was built for another layout of the module contract: {}, this visor has {}; rebuild it",
        numbers(found), numbers(&Layout::HERE)
    )]
    Layout {
        /// The shared object.
        path: PathBuf,
        /// The layout it knows.
        found: Layout,
    },
    #[error("{path} calls itself `{found}`, `{expected}` was needed")]
    Name {
        /// The shared object.
        path: PathBuf,
        /// Its name for itself.
        found: String,
        /// The name it was looked up by.
        expected: String,
    },
    #[error("{path} claims hostcall {number}, which is not one of its own")]
    ForeignNumber {
        /// The shared object.
        path: PathBuf,
        /// The number.
        number: u32,
    },
    #[error("{path} cannot be used with protection keys: {source}")]
    Gadgets {
        /// The shared object.
        path: PathBuf,
        /// Why.
        source: GadgetsError,
    },
    #[error("{path} did not start: {reason}")]
    Start {
        /// The shared object.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// A layout in an error's text.
fn numbers(layout: &Layout) -> String {
    let Layout { table, host, call, services } = layout;
    format!("{table}, {host}, {call}, {services:08x}")
}

/// A module as this domain sees it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its name.
    pub name: &'static str,
    /// How long loading and starting took.
    pub time: Duration,
    /// Why it does not work (any more), if so.
    pub failure: Option<String>,
}

struct Entry {
    loaded: Loaded,
    started: Option<(&'static ModuleTable, *mut c_void)>,
}

/// What a module has written.
pub(super) struct Saved {
    pub(super) bytes: Vec<u8>,
    /// Ranges of the arena that belong to it.
    pub(super) pages: Vec<Range<u64>>,
    /// The pages of files in memory.
    pub(super) file_pages: Vec<FilePages>,
}

/// What a module has named whose state has been rebuilt: see [`Saved`].
pub(super) struct Restored {
    pub(super) pages: Vec<Range<u64>>,
    pub(super) file_pages: Vec<FilePages>,
}

/// The modules of one domain.
pub(crate) struct Modules {
    folder: PathBuf,
    entries: RwLock<Vec<Entry>>,
    loading: Mutex<()>,
}

// SAFETY: module states may be used from any carrier; that is part of the module contract.
unsafe impl Send for Modules {}
// SAFETY: as above.
unsafe impl Sync for Modules {}

/// All modules there are.
pub const NAMES: [&str; 8] = ["mm", "stdio", "time", "fdtab", "ramfs", "fatfs", "mmap-file", "socket"];

impl Modules {
    /// None loaded; `folder` holds `NAME.so`.
    pub(crate) fn new(folder: PathBuf) -> Modules {
        Modules { folder, entries: RwLock::new(Vec::new()), loading: Mutex::new(()) }
    }

    /// What has been loaded so far.
    pub(crate) fn loaded(&self) -> Vec<Loaded> {
        self.entries.read().expect("modules").iter().map(|e| e.loaded.clone()).collect()
    }

    /// Loads a module and binds its numbers; if that fails, binds them to `refuse`. `keys`: protection keys are in force.
    pub(crate) fn load(&self, name: &'static str, keys: bool, host: &Host, table: &Table, refuse: Binding) {
        let _one = self.loading.lock().expect("loading");
        if self.entries.read().expect("modules").iter().any(|e| e.loaded.name == name) {
            return;
        }
        let begin = Instant::now();
        let started = self.start(name, keys, host);
        let time = begin.elapsed();
        let failure = started.as_ref().err().map(|error| error.to_string());
        let entry = Entry { loaded: Loaded { name, time, failure }, started: started.ok() };
        let started = entry.started;
        // Known before its numbers are bound: other carriers use them from that moment on.
        self.entries.write().expect("modules").push(entry);
        let serving = started.map_or(&[][..], |(module, _)| entries_of(module));
        for number in numbers_of(name) {
            match (serving.iter().find(|entry| entry.number == number), started) {
                (Some(entry), Some((_, state))) => table.bind([number], entry.handler, state),
                _ => table.bind([number], refuse.handler, refuse.state),
            }
        }
    }

    /// Why a module does not work.
    pub(crate) fn failure(&self, name: &str) -> Option<String> {
        let entries = self.entries.read().expect("modules");
        entries.iter().find(|e| e.loaded.name == name)?.loaded.failure.clone()
    }

    /// Releases what the modules hold for an instance that has ended, one module after the other, until one has more to release
    /// than it may at a time. True once nothing is left in any.
    pub(crate) fn release(&self, instance: u32, ending: Ending, progress: &mut ReleaseProgress) -> bool {
        loop {
            let entry = self.entries.read().expect("modules").get(progress.next).map(|entry| entry.started);
            // A module that is loaded from here on has never served the instance.
            let Some(started) = entry else { return true };
            if let Some((table, state)) = started {
                // SAFETY: the module is started, no thread of the instance runs any more, and only the holder of `progress`
                // makes this call for it.
                match unsafe { (table.ended)(state, instance, ending) } {
                    Released::More => return false,
                    Released::InputsLost => progress.inputs_lost = true,
                    Released::InputsIntact => {}
                }
            }
            progress.next += 1;
        }
    }

    /// Captures the state of a module in which these instances are known; `None` if it does not run. An error is an instance, or
    /// [`monohull_abi::module::SYSTEM_INSTANCE`], and the reason. No handler runs meanwhile.
    pub(super) fn save(&self, name: &str, live: &[u32]) -> Result<Option<Saved>, (u32, String)> {
        let Some((table, state)) = self.started(name) else { return Ok(None) };
        let mut port = Port::new(live, true);
        let ask = port.table();
        // SAFETY: the module is started; the table and its port outlive the call.
        let saved = unsafe { (table.save)(state, &raw const ask) } == 1;
        match port.refused {
            None if saved => {
                let Port { record, pages, file_pages, .. } = port;
                Ok(Some(Saved { bytes: record.unwrap_or_default(), pages, file_pages }))
            }
            refused => Err(refused.unwrap_or_else(unexplained)),
        }
    }

    /// Rebuilds the state of a module that has served no call.
    pub(super) fn restore(&self, name: &str, record: &[u8], live: &[u32]) -> Result<Restored, (u32, String)> {
        let (table, state) = self.started(name).ok_or_else(unexplained)?;
        let mut port = Port::new(live, false);
        let ask = port.table();
        // SAFETY: as in `save`; the record is readable.
        let restored = unsafe { (table.restore)(state, &raw const ask, record.as_ptr(), record.len()) } == 1;
        match port.refused {
            None if restored => Ok(Restored { pages: port.pages, file_pages: port.file_pages }),
            refused => Err(refused.unwrap_or_else(unexplained)),
        }
    }

    fn started(&self, name: &str) -> Option<(&'static ModuleTable, *mut c_void)> {
        self.entries.read().expect("modules").iter().find(|e| e.loaded.name == name)?.started
    }

    /// Notifies a module of an external event.
    pub(crate) fn poll(&self, name: &str) {
        if let Some((table, state)) = self.started(name) {
            // SAFETY: the module is started, and is stopped only when no carrier runs.
            unsafe { (table.poll)(state) }
        }
    }

    /// Stops every module: no carrier runs any more.
    pub(crate) fn stop(&self) {
        for entry in self.entries.write().expect("modules").iter_mut() {
            if let Some((table, state)) = entry.started.take() {
                // SAFETY: the state came from this module's `start` and is used no more.
                unsafe { (table.stop)(state) }
            }
        }
    }

    fn start(
        &self,
        name: &'static str,
        keys: bool,
        host: &Host,
    ) -> Result<(&'static ModuleTable, *mut c_void), ModuleError> {
        let path = self.folder.join(format!("{name}.so"));
        let table = open(&path, keys)?;
        let own_name = CStr::from_bytes_until_nul(&table.name).unwrap_or_default().to_string_lossy();
        if own_name != name {
            return Err(ModuleError::Name { path, found: own_name.into_owned(), expected: name.into() });
        }
        if let Some(foreign) = entries_of(table).iter().find(|e| number::module_of(e.number) != Some(name)) {
            return Err(ModuleError::ForeignNumber { path, number: foreign.number });
        }
        // SAFETY: the host's services outlive the module's state, which is stopped before the domain ends.
        let state = unsafe { (table.start)(host) };
        if state.is_null() {
            return Err(ModuleError::Start { path, reason: "it could not make its state".into() });
        }
        Ok((table, state))
    }
}

/// A module has refused without a reason.
fn unexplained() -> (u32, String) {
    (SYSTEM_INSTANCE, "it gives no reason".into())
}

/// What a module serves.
fn entries_of(table: &'static ModuleTable) -> &'static [ModuleEntry] {
    // SAFETY: a module of our version exports `entry_count` entries, and stays loaded.
    unsafe { std::slice::from_raw_parts(table.entries, table.entry_count as usize) }
}

/// Every number that belongs to a module.
fn numbers_of(name: &str) -> impl Iterator<Item = u32> {
    (0..number::TABLE_SIZE as u32).filter(move |n| number::module_of(*n) == Some(name))
}

/// A module's object, which stays loaded.
struct Opened {
    table: &'static ModuleTable,
    /// Its static data before anything of it was called.
    statics: Statics,
}

static OPENED: Mutex<Option<HashMap<PathBuf, Opened>>> = Mutex::new(None);

/// Puts the static data of all modules back to what it was before the first domain of this process.
///
/// # Safety
/// There is no domain: every module's state has been stopped.
pub(crate) unsafe fn restore_statics() {
    for opened in OPENED.lock().expect("opened modules").iter().flat_map(HashMap::values) {
        // SAFETY: the object stays loaded, and the caller promises that no state refers to its data.
        unsafe { opened.statics.restore() }
    }
}

/// Opens a shared object, once per process: a module's code stays loaded, its state is per domain. With keys in force it
/// loses its gadgets before anything of it is called.
fn open(path: &Path, keys: bool) -> Result<&'static ModuleTable, ModuleError> {
    let mut opened = OPENED.lock().expect("opened modules");
    let opened = opened.get_or_insert_default();
    if let Some(opened) = opened.get(path) {
        return Ok(opened.table);
    }
    let failed = |reason: String| ModuleError::Open { path: path.to_owned(), reason };
    let name =
        CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| failed("its path has a zero byte".into()))?;
    // SAFETY: modules are trusted code: part of Monohull, named by the operator's module folder.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: after a failed dlopen, dlerror returns a string valid until the next call on this thread.
        let reason = unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy().into_owned();
        return Err(failed(reason));
    }
    let symbol = CString::new(SYMBOL).expect("no zero byte");
    // SAFETY: the handle is open.
    let table = unsafe { libc::dlsym(handle, symbol.as_ptr()) }.cast::<ModuleTable>();
    let refuse = |error| {
        // SAFETY: nothing of it is used.
        unsafe { libc::dlclose(handle) };
        Err(error)
    };
    if table.is_null() {
        return refuse(ModuleError::NotAModule { path: path.to_owned() });
    }
    // SAFETY: a table of every version begins with magic and version, and is longer than the layout that follows in ours; the
    // object stays loaded.
    let (magic, version, layout) = unsafe { ((*table).magic, (*table).abi_version, (*table).layout) };
    if magic != MAGIC {
        return refuse(ModuleError::NotAModule { path: path.to_owned() });
    }
    if version != ABI_VERSION {
        return refuse(ModuleError::Version { path: path.to_owned(), found: version });
    }
    if layout != Layout::HERE {
        return refuse(ModuleError::Layout { path: path.to_owned(), found: layout });
    }
    if keys && let Err(source) = gadgets::remove() {
        return refuse(ModuleError::Gadgets { path: path.to_owned(), source });
    }
    // SAFETY: it is a table of our version and layout, in an object that is never closed from here on.
    let table: &'static ModuleTable = unsafe { &*table };
    let statics = Statics::of(std::ptr::from_ref(table) as u64);
    opened.insert(path.to_owned(), Opened { table, statics });
    Ok(table)
}

/// Maps a module for the processes forked from this one. It is still started on its first call. The caller removes its
/// gadgets.
pub fn preload(folder: &Path, name: &str) -> Result<(), ModuleError> {
    open(&folder.join(format!("{name}.so")), false).map(drop)
}

/// The host service behind a module's panic handler: a module that panics ends the process. It may hold locks that other
/// carriers wait for, and what it was changing is half changed.
#[allow(clippy::print_stderr, reason = "the last output of a worker, whose standard error is a pipe to its server")]
pub(super) fn panicked(text: &[u8]) -> ! {
    eprintln!("a libos module panicked: {}", String::from_utf8_lossy(text));
    end_process()
}
