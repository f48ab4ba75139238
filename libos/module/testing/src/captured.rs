//! Capturing the modules of a miniature domain, and going on in another one.
//!
//! What a real domain captures page by page is kept here as it is: memory of cells, the buffers' pages that `mm` names, those of files in
//! memory, images.
//! Everything else of a module goes through its record.

use crate::memory::Memory;
use crate::network::Device;
use crate::services::text;
use crate::{Account, Domain, Shared};
use monohull_abi::Errno;
use monohull_abi::file::MountInfo;
use monohull_abi::layout::{ARENA_BASE, ARENA_END, FILES_BASE, FILES_END, PAGE};
use monohull_abi::module::{ModuleTable, SYSTEM_INSTANCE};
use monohull_abi::network::TapConfig;
use monohull_abi::record::{RecordServices, Records};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::c_void;
use std::slice;
use std::sync::atomic::Ordering;

/// A domain at rest, as data.
#[derive(Clone)]
pub struct Captured {
    /// The records of the modules, in the order in which the domain has them.
    pub records: Vec<Vec<u8>>,
    /// Ids of the live instances.
    pub live: BTreeSet<u32>,
    /// Its mounts.
    pub mounts: Vec<(MountInfo, String)>,
    /// What is in the files behind images; and whether changes do not reach them.
    images: HashMap<u32, (Vec<u8>, bool)>,
    memory: Memory,
    /// What the pages of files in memory contain, by their names.
    pub file_pages: BTreeMap<u64, Vec<u8>>,
    accounts: HashMap<u32, Account>,
    time: (u64, u64),
    kept_apart: bool,
    tap: Option<TapConfig>,
}

impl Captured {
    /// Sets the memory limit of an instance.
    pub fn set_limit(&mut self, instance: u32, bytes: u64) {
        self.accounts.entry(instance).or_default().limit = bytes;
    }

    /// Changes the file of the image behind a mount.
    pub fn with_image<R>(&mut self, mount: u32, change: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        change(&mut self.images.get_mut(&mount).expect("there is an image").0)
    }
}

/// What one module is asked while it is captured or rebuilt.
struct Port {
    live: BTreeSet<u32>,
    record: Vec<u8>,
    pages: Vec<(u64, u64)>,
    /// Name, address and bytes.
    file_pages: Vec<(u64, u64, u64)>,
    refused: Option<String>,
}

impl Port {
    fn new(live: &BTreeSet<u32>) -> Port {
        Port { live: live.clone(), record: Vec::new(), pages: Vec::new(), file_pages: Vec::new(), refused: None }
    }
}

impl Domain {
    /// Captures the domain. A refusal begins with `instance N: ` if it concerns one.
    pub fn capture(&self) -> Result<Captured, String> {
        let live = self.shared.live.borrow().clone();
        let mut memory = self.shared.memory.borrow().clone();
        let (mut records, mut buffers, mut file_pages) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (table, state) in &self.shared.modules {
            let mut port = Port::new(&live);
            // SAFETY: the state is live, no handler runs, and the port outlives the call.
            let saved = unsafe {
                let ask = Records::of::<Port>((&raw mut port).cast());
                (table.save)(state.load(Ordering::Relaxed), &raw const ask)
            };
            match port.refused {
                None => assert_eq!(saved, 1, "a refusal has a reason"),
                Some(why) => {
                    assert_eq!(saved, 0, "a module that refuses says so");
                    return Err(why);
                }
            }
            records.push(port.record);
            buffers.extend(port.pages);
            for (name, address, len) in port.file_pages {
                // SAFETY: memory that the module has named, which nothing changes now.
                let bytes = unsafe { slice::from_raw_parts(address as *const u8, len as usize) };
                assert!(file_pages.insert(name, bytes.to_vec()).is_none(), "a name is given once");
            }
        }
        memory.keep_in(ARENA_BASE..ARENA_END, &buffers);
        let mut accounts = self.shared.accounts.borrow().clone();
        accounts.values_mut().for_each(|account| account.charged = 0);
        let (images, files) = (self.shared.images.borrow(), self.shared.files.borrow());
        let file = |mount: &u32, image: &Vec<u8>| match files.get(mount) {
            Some(file) => (file.clone(), true),
            None => (image.clone(), false),
        };
        let images = images.iter().map(|(mount, image)| (*mount, file(mount, image))).collect();
        Ok(Captured {
            records,
            live,
            mounts: self.shared.mounts.borrow().clone(),
            images,
            memory,
            file_pages,
            accounts,
            time: self.shared.time.get(),
            kept_apart: self.shared.kept_apart.get(),
            tap: self.shared.device.as_ref().map(|device| device.config),
        })
    }

    /// A new domain that goes on from there, with the same modules in the same order; or why a record was refused.
    pub fn resume(tables: &[&'static ModuleTable], captured: &Captured) -> Result<Domain, String> {
        let device = captured.tap.map(|config| Device { config, ..Device::default() });
        let domain = Domain::with(tables, captured.mounts.clone(), device);
        let shared = &domain.shared;
        *shared.live.borrow_mut() = captured.live.clone();
        *shared.accounts.borrow_mut() = captured.accounts.clone();
        for (mount, (file, private)) in &captured.images {
            let set = if *private { Domain::set_private_image } else { Domain::set_image };
            set(&domain, *mount, file.clone());
        }
        *shared.memory.borrow_mut() = captured.memory.without(ARENA_BASE..ARENA_END);
        shared.time.set(captured.time);
        shared.kept_apart.set(captured.kept_apart);
        let mut buffers = Vec::new();
        for ((table, state), record) in shared.modules.iter().zip(&captured.records) {
            let mut port = Port::new(&captured.live);
            // SAFETY: as in `capture`; the record is readable.
            let restored = unsafe {
                let ask = Records::of::<Port>((&raw mut port).cast());
                (table.restore)(state.load(Ordering::Relaxed), &raw const ask, record.as_ptr(), record.len())
            };
            match port.refused {
                None => assert_eq!(restored, 1, "a refusal has a reason"),
                Some(why) => {
                    assert_eq!(restored, 0, "a module that refuses says so");
                    return Err(why);
                }
            }
            buffers.extend(port.pages);
            for (name, address, len) in port.file_pages {
                let Some(bytes) = captured.file_pages.get(&name) else { continue };
                let len = bytes.len().min(len as usize);
                // SAFETY: memory that the module has just named, and that it does not use now.
                unsafe { (address as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), len) };
            }
        }
        shared.memory.borrow_mut().copy_pages(&captured.memory, &buffers);
        Ok(domain)
    }

    /// An instance lives although it has made no call yet.
    pub fn enter(&self, instance: u32) {
        self.shared.enter(instance);
    }
}

impl Shared {
    pub(crate) fn enter(&self, instance: u32) {
        if instance != SYSTEM_INSTANCE {
            self.live.borrow_mut().insert(instance);
        }
    }
}

/// # Safety
/// `domain` is the port of the call under way.
unsafe fn port<'p>(domain: *mut c_void) -> &'p mut Port {
    // SAFETY: the caller's promise; one module at a time is asked, on this thread.
    unsafe { &mut *domain.cast::<Port>() }
}

impl RecordServices for Port {
    unsafe extern "C" fn write(domain: *mut c_void, bytes: *const u8, len: usize) -> i64 {
        // SAFETY: the module passes the table's domain, and bytes that are readable.
        let (port, bytes) = unsafe { (port(domain), text(bytes, len)) };
        if port.record.len() + len > 64 << 20 {
            return Errno::FileTooLarge.to_value();
        }
        port.record.extend_from_slice(bytes);
        0
    }

    unsafe extern "C" fn instance(domain: *mut c_void, index: u32) -> u32 {
        // SAFETY: as in `write`.
        unsafe { port(domain) }.live.iter().nth(index as usize).copied().unwrap_or(SYSTEM_INSTANCE)
    }

    unsafe extern "C" fn pages(domain: *mut c_void, address: u64, len: u64) {
        // SAFETY: as in `write`.
        unsafe { port(domain) }.pages.push((address, len));
    }

    unsafe extern "C" fn file_pages(domain: *mut c_void, name: u64, address: u64, len: u64) {
        assert!(name >= FILES_BASE && name.is_multiple_of(PAGE) && len.is_multiple_of(PAGE) && len > 0, "whole pages");
        assert!(len <= FILES_END - name, "names of files in memory");
        // SAFETY: as in `write`.
        unsafe { port(domain) }.file_pages.push((name, address, len));
    }

    unsafe extern "C" fn refuse(domain: *mut c_void, instance: u32, why: *const u8, len: usize) {
        // SAFETY: as in `write`.
        let (port, why) = unsafe { (port(domain), text(why, len)) };
        let why = str::from_utf8(why).expect("a reason is UTF-8");
        port.refused = Some(match instance {
            SYSTEM_INSTANCE => why.to_owned(),
            id => format!("instance {id}: {why}"),
        });
    }
}
