//! A visor in miniature, to test libos modules on the host.
//!
//! [`Domain`] starts a module through its real table and calls its handlers as the run loop would. User memory is
//! make-believe: pages in a map, at the addresses of the real layout, so that tests can name null, foreign, trusted
//! and unmapped addresses without touching any. Addresses outside the user partition are real ones of the test.
//!
//! One domain per test thread at a time: the services that take no domain find it through a thread-local. Other threads take part
//! in it with [`Domain::take_part`].

mod captured;
mod cells;
mod files;
mod heap;
mod mapped_pages;
mod mappings;
mod memory;
mod moved_pages;
mod network;
mod owners;
mod services;

pub use captured::Captured;
pub use files::Files;
pub use heap::{CountingHeap, live_bytes};
pub use mapped_pages::MappedPage;
pub use mappings::Mapping;

use cells::{Locked, Value};
use memory::Memory;
use monohull_abi::file::{ImageIdentity, MountInfo};
use monohull_abi::layout::{ARENA_BASE, ARENA_END, PAGE, cell_base};
use monohull_abi::module::{Call, Ending, Host, ModuleEntry, ModuleTable, Outcome, Released, SYSTEM_INSTANCE, Wake};
use monohull_abi::network::TapConfig;
use network::Device;
use owners::Owners;
pub use services::IMAGE;
use services::Services;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

thread_local! {
    /// The domain of this test thread.
    static CURRENT: Cell<*const Shared> = const { Cell::new(std::ptr::null()) };
    /// Other threads take part in it, so that a call of this one may have to wait for theirs.
    static TAKES_PART: Cell<bool> = const { Cell::new(false) };
    /// What the call of this thread waits for.
    static WAITING: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
    /// Runs before this thread changes the owner of pages.
    static MEANWHILE: Cell<Option<*mut dyn FnMut()>> = const { Cell::new(None) };
    /// Why the last call of this thread was refused.
    static EXPLAINED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What a handler answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The call returned this.
    Ready(i64),
    /// The call waits.
    Parked {
        /// The wait key.
        key: u64,
        /// Until when, in monotonic ns.
        deadline: u64,
    },
}

/// Bytes counted by `passed`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Passed {
    /// Handed on.
    pub published: u64,
    /// Taken over.
    pub taken: u64,
}

/// What the services see: the `domain` pointer of the mock [`Host`].
struct Shared {
    modules: Vec<(&'static ModuleTable, AtomicPtr<c_void>)>,
    mounts: Locked<Vec<(MountInfo, String)>>,
    images: Locked<HashMap<u32, Vec<u8>>>,
    /// What is in the files behind images whose changes are the domain's own.
    files: Locked<HashMap<u32, Vec<u8>>>,
    /// How many more stores into images are made; the rest are lost.
    stores: Value<u64>,
    /// How often one was to be written to the disk.
    syncs: Value<u64>,
    /// Stores to files that have begun and are not over.
    under_way: AtomicU64,
    memory: Locked<Memory>,
    time: Value<(u64, u64)>,
    woken: Locked<Vec<u64>>,
    lines: Locked<Vec<(u32, u32, String)>>,
    accounts: Locked<HashMap<u32, Account>>,
    device: Option<Device>,
    /// The owners of the pages of the arena.
    owners: Locked<Owners>,
    /// Pages of the arena whose memory comes from a cell.
    remapped: Locked<BTreeSet<u64>>,
    /// Moving pages fails half-way: after this many bytes.
    moves: Value<u64>,
    /// Each instance has a key of its own.
    kept_apart: Value<bool>,
    /// Events may arrive from outside.
    events_open: Value<bool>,
    /// Mounts that instances may not use.
    denied_mounts: Locked<BTreeSet<(u32, u32)>>,
    /// The requests that instances handle.
    handlers: Locked<HashMap<u32, u64>>,
    /// No page changes its owner.
    assigns_nothing: Value<bool>,
    /// No page of the arena can be written to.
    writes_fail: Value<bool>,
    /// No page gives up what it holds.
    discards_nothing: Value<bool>,
    /// Mapped files, by instance and address.
    mappings: Locked<BTreeMap<(u32, u64), Mapping>>,
    /// The instances that have made a call and have not ended.
    live: Locked<BTreeSet<u32>>,
    /// Memory that functions have mapped, by page.
    mapped_pages: Locked<BTreeMap<u64, MappedPage>>,
}

/// A thread that takes part in a domain, until it is dropped.
pub struct TakesPart<'d>(PhantomData<(&'d Domain, *const ())>);

impl Drop for TakesPart<'_> {
    fn drop(&mut self) {
        CURRENT.set(std::ptr::null());
        TAKES_PART.set(false);
    }
}

/// Memory of one instance.
#[derive(Clone, Copy)]
struct Account {
    limit: u64,
    heap: u64,
    charged: u64,
    placed: u64,
    passed: Passed,
}

impl Default for Account {
    fn default() -> Account {
        Account { limit: 1 << 30, heap: 0, charged: 0, placed: 0, passed: Passed::default() }
    }
}

/// A workflow domain with some modules in it. Instances need no registration: instance `n` lives in cell `n`.
pub struct Domain {
    // Not boxes: modules point into both, and a box that is moved may not be pointed into.
    shared: Arc<Shared>,
    /// Outlives the module's state, which points to it.
    host: Arc<Host>,
}

impl Domain {
    /// Starts one module.
    pub fn start(table: &'static ModuleTable) -> Domain {
        Domain::with_mounts(&[table], Vec::new())
    }

    /// Starts several modules that call each other, in a workflow with these mounts.
    pub fn with_mounts(tables: &[&'static ModuleTable], mounts: Vec<(MountInfo, String)>) -> Domain {
        Domain::with(tables, mounts, None)
    }

    /// Starts one module with a network device.
    pub fn start_with_tap(table: &'static ModuleTable, config: TapConfig) -> Domain {
        Domain::with(&[table], Vec::new(), Some(Device { config, ..Device::default() }))
    }

    fn with(tables: &[&'static ModuleTable], mounts: Vec<(MountInfo, String)>, device: Option<Device>) -> Domain {
        let shared = Arc::new(Shared {
            modules: tables.iter().map(|table| (*table, AtomicPtr::new(std::ptr::null_mut()))).collect(),
            mounts: Locked::new(mounts),
            images: Locked::default(),
            files: Locked::default(),
            stores: Value::new(u64::MAX),
            syncs: Value::new(0),
            under_way: AtomicU64::new(0),
            memory: Locked::default(),
            time: Value::new((0, 0)),
            woken: Locked::default(),
            lines: Locked::default(),
            accounts: Locked::default(),
            device,
            owners: Locked::default(),
            remapped: Locked::default(),
            moves: Value::new(u64::MAX),
            kept_apart: Value::new(false),
            events_open: Value::new(false),
            handlers: Locked::default(),
            denied_mounts: Locked::default(),
            assigns_nothing: Value::new(false),
            writes_fail: Value::new(false),
            discards_nothing: Value::new(false),
            mappings: Locked::default(),
            live: Locked::default(),
            mapped_pages: Locked::default(),
        });
        assert!(CURRENT.get().is_null(), "one domain per test thread at a time");
        CURRENT.set(Arc::as_ptr(&shared));
        // SAFETY: the services expect `Shared`, which lives in the domain, as the table does.
        let host = Arc::new(unsafe { Host::of::<Services>(Arc::as_ptr(&shared).cast_mut().cast()) });
        for (table, state) in &shared.modules {
            // SAFETY: the host lives in the domain, longer than the state.
            state.store(unsafe { (table.start)(Arc::as_ptr(&host)) }, Ordering::Relaxed);
            assert!(!state.load(Ordering::Relaxed).is_null(), "the module refused to start");
        }
        Domain { shared, host }
    }

    /// The services, as a handler has them.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Puts the bytes of a disk image behind a mount. They stay where they are until the domain ends.
    pub fn set_image(&self, mount: u32, bytes: Vec<u8>) {
        self.shared.images.borrow_mut().insert(mount, bytes);
    }

    /// The same, but changes do not reach the file.
    pub fn set_private_image(&self, mount: u32, bytes: Vec<u8>) {
        self.shared.files.borrow_mut().insert(mount, bytes.clone());
        self.set_image(mount, bytes);
    }

    /// Reads or changes a disk image while no call is under way.
    pub fn with_image<R>(&self, mount: u32, look: impl FnOnce(&mut [u8]) -> R) -> R {
        look(self.shared.images.borrow_mut().get_mut(&mount).expect("there is an image"))
    }

    /// Ends the domain, and gives what is in the image behind a mount then.
    pub fn close_image(mut self, mount: u32) -> Vec<u8> {
        self.stop();
        self.shared.images.borrow_mut().remove(&mount).expect("there is an image")
    }

    /// From now on only so many more stores into disk images are made: what follows is lost, as if the process had been
    /// killed between two of them. Returns how many were left.
    pub fn cut_off_after(&self, stores: u64) -> u64 {
        self.shared.stores.replace(stores)
    }

    /// How often a disk image was to be written to the disk.
    pub fn image_syncs(&self) -> u64 {
        self.shared.syncs.get()
    }

    /// Sets both clocks, in ns.
    pub fn set_time(&self, monotonic: u64, realtime: u64) {
        self.shared.time.set((monotonic, realtime));
    }

    /// Sets the memory limit of an instance (1 GiB otherwise).
    pub fn set_limit(&self, instance: u32, bytes: u64) {
        self.shared.accounts.borrow_mut().entry(instance).or_default().limit = bytes;
    }

    /// From here on each instance has a key of its own.
    pub fn keep_apart(&self) {
        self.shared.kept_apart.set(true);
    }

    /// From here on events may arrive from outside.
    pub fn open_events(&self) {
        self.shared.events_open.set(true);
    }

    /// From here on an instance may not use a mount.
    pub fn deny_mount(&self, instance: u32, mount: u32) {
        self.shared.denied_mounts.borrow_mut().insert((instance, mount));
    }

    /// From here on an instance is the handler of a request.
    pub fn set_handler(&self, instance: u32, request: u64) {
        self.shared.handlers.borrow_mut().insert(instance, request);
    }

    /// Whether the host refuses to change the owner of pages.
    pub fn refuse_to_assign(&self, refuse: bool) {
        self.shared.assigns_nothing.set(refuse);
    }

    /// Whether the host refuses to give memory of the arena back.
    pub fn refuse_to_discard(&self, refuse: bool) {
        self.shared.discards_nothing.set(refuse);
    }

    /// Whether writing to the arena fails, as if the host had no memory for it.
    pub fn fail_to_write_arena(&self, fail: bool) {
        self.shared.writes_fail.set(fail);
    }

    /// Does something in which `other` runs each time before pages of the arena change their owner: in place of another carrier, whose
    /// calls are served there only if the module holds no lock then.
    pub fn meanwhile<R>(&self, other: &mut dyn FnMut(), work: impl FnOnce() -> R) -> R {
        let other: *mut (dyn FnMut() + '_) = other;
        // SAFETY: only the lifetime changes, and it is taken back before that ends.
        let other = unsafe { std::mem::transmute::<*mut (dyn FnMut() + '_), *mut dyn FnMut()>(other) };
        MEANWHILE.set(Some(other));
        let result = work();
        MEANWHILE.set(None);
        result
    }

    /// A call that has not been made yet.
    pub fn prepare(&self, instance: u32, number: u32, args: [u64; 6]) -> Call {
        self.shared.enter(instance);
        Call { instance, thread: instance, ..Call::system(number, args) }
    }

    /// Runs the handler of a call, once.
    pub fn step(&self, call: &mut Call) -> Step {
        WAITING.set(None);
        EXPLAINED.take();
        let outcome = self.shared.dispatch(call);
        match outcome.tag {
            Outcome::READY => Step::Ready(outcome.value),
            Outcome::PARK => {
                let (key, deadline) = WAITING.get().expect("a handler parked without registering");
                Step::Parked { key, deadline }
            }
            tag => panic!("unexpected outcome {tag}"),
        }
    }

    /// Makes a call that must not park, except for threads that take part.
    pub fn call(&self, instance: u32, number: u32, args: [u64; 6]) -> i64 {
        let mut call = self.prepare(instance, number, args);
        loop {
            match self.step(&mut call) {
                Step::Ready(value) => return value,
                Step::Parked { .. } if TAKES_PART.get() => {
                    call.wake = Wake::Woken;
                    std::thread::yield_now();
                }
                parked => panic!("the call parked: {parked:?}"),
            }
        }
    }

    /// Lets a thread that has not started the domain make calls.
    pub fn take_part(&self) -> TakesPart<'_> {
        assert!(CURRENT.get().is_null(), "one domain per test thread at a time");
        CURRENT.set(&raw const *self.shared);
        TAKES_PART.set(true);
        TakesPart(PhantomData)
    }

    /// A frame arrives at the device, its header first.
    pub fn frame_arrives(&self, frame: &[u8]) {
        self.device().arriving.borrow_mut().push_back(frame.to_vec());
    }

    /// The frames that have left since the last time.
    pub fn take_frames(&self) -> Vec<Vec<u8>> {
        self.device().left.take()
    }

    /// Removes the device.
    pub fn take_device_away(&self) {
        self.device().gone.set(true);
    }

    /// When the module wants to be polled, in monotonic ns.
    pub fn alarm(&self) -> u64 {
        self.device().alarm.get()
    }

    /// Polls every module.
    pub fn poll(&self) {
        for (table, state) in &self.shared.modules {
            // SAFETY: the state is live.
            unsafe { (table.poll)(state.load(Ordering::Relaxed)) }
        }
    }

    fn device(&self) -> &Device {
        self.shared.device.as_ref().expect("the domain has a device")
    }

    /// Makes a call as trusted code.
    pub fn system(&self, number: u32, args: [u64; 6]) -> i64 {
        self.call(SYSTEM_INSTANCE, number, args)
    }

    /// Ends an instance in all modules; returns whether its inputs are intact.
    pub fn end(&self, instance: u32, ending: Ending) -> bool {
        self.end_in_steps(instance, ending, || ())
    }

    /// The same; `between` runs whenever a module has returned with more to release.
    pub fn end_in_steps(&self, instance: u32, ending: Ending, mut between: impl FnMut()) -> bool {
        self.shared.live.borrow_mut().remove(&instance);
        let mut intact = true;
        for (table, state) in &self.shared.modules {
            loop {
                // SAFETY: the state is live, and no handler runs.
                match unsafe { (table.ended)(state.load(Ordering::Relaxed), instance, ending) } {
                    Released::More => between(),
                    Released::InputsIntact => break,
                    Released::InputsLost => {
                        intact = false;
                        break;
                    }
                }
            }
        }
        intact
    }

    /// Puts bytes in the instance's cell; returns their address, which is page-aligned.
    pub fn place(&self, instance: u32, bytes: &[u8]) -> u64 {
        let mut accounts = self.shared.accounts.borrow_mut();
        let account = accounts.entry(instance).or_default();
        let address = cell_base(instance as usize) + PAGE + account.placed;
        let len = (bytes.len() as u64).max(1).next_multiple_of(PAGE);
        // One page stays unmapped behind each.
        account.placed += len + PAGE;
        let mut memory = self.shared.memory.borrow_mut();
        memory.map(address, len);
        assert!(memory.write(address, bytes), "just mapped");
        address
    }

    /// Writes user memory; panics if it is not mapped.
    pub fn poke(&self, address: u64, bytes: &[u8]) {
        assert!(self.shared.memory.borrow_mut().write(address, bytes), "{address:#x} is not mapped");
    }

    /// Reads user memory; panics if it is not mapped.
    pub fn peek(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert!(self.shared.memory.borrow_mut().read(address, &mut bytes), "{address:#x} is not mapped");
        bytes
    }

    /// Pages of the arena that hold something.
    pub fn pages_in_arena(&self) -> usize {
        self.shared.memory.borrow().pages_in(ARENA_BASE..ARENA_END)
    }

    /// What was committed of the arena by its first request.
    pub fn committed_in_arena(&self) -> Range<u64> {
        self.shared.memory.borrow().mapped_at(ARENA_BASE)
    }

    /// The owner of the page at an address in the arena; the system, if it was never assigned.
    pub fn owner_of(&self, address: u64) -> u32 {
        self.shared.owners.borrow().of(address)
    }

    /// Why the last call was refused.
    pub fn explained(&self) -> String {
        EXPLAINED.with_borrow(String::clone)
    }

    /// The lines sent since the last time: instance, stream, text.
    pub fn take_lines(&self) -> Vec<(u32, u32, String)> {
        self.shared.lines.take()
    }

    /// The keys woken since the last time.
    pub fn take_woken(&self) -> Vec<u64> {
        self.shared.woken.take()
    }

    /// Bytes charged to an instance, its heap apart.
    pub fn charged(&self, instance: u32) -> u64 {
        self.account(instance).charged
    }

    /// Bytes an instance handed on and took over.
    pub fn passed(&self, instance: u32) -> Passed {
        self.account(instance).passed
    }

    fn account(&self, instance: u32) -> Account {
        self.shared.accounts.borrow().get(&instance).copied().unwrap_or_default()
    }
}

impl Domain {
    /// Stops the modules.
    fn stop(&mut self) {
        for (table, state) in &self.shared.modules {
            let state = state.swap(std::ptr::null_mut(), Ordering::Relaxed);
            if !state.is_null() {
                // SAFETY: the state is live until here, and no handler runs.
                unsafe { (table.stop)(state) };
            }
        }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.stop();
        CURRENT.set(std::ptr::null());
        assert!(
            std::thread::panicking() || self.shared.under_way.load(Ordering::Relaxed) == 0,
            "each store that begins ends"
        );
    }
}

impl Shared {
    /// A file changes its identity with its bytes.
    fn image_identity(&self, mount: u32) -> Option<ImageIdentity> {
        let (images, files) = (self.images.borrow(), self.files.borrow());
        let (private, bytes) = match files.get(&mount) {
            Some(bytes) => (1, bytes),
            None => (0, images.get(&mount)?),
        };
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let modified = hasher.finish() as i64;
        Some(ImageIdentity { device: 1, inode: mount.into(), len: bytes.len() as u64, modified, private })
    }

    /// Whether a copy to this address is made; counts those into images.
    fn may_store(&self, to: u64) -> bool {
        let images = self.images.borrow();
        let is_image = |image: &Vec<u8>| image.as_ptr_range().contains(&(to as *const u8));
        if !images.values().any(is_image) {
            return true;
        }
        let left = self.stores.get();
        self.stores.set(left.saturating_sub(1));
        left > 0
    }

    fn dispatch(&self, call: &mut Call) -> Outcome {
        let found = self.modules.iter().find_map(|(table, state)| Some((find(table, call.number)?, state)));
        let (entry, state) = found.unwrap_or_else(|| panic!("no module serves number {}", call.number));
        // SAFETY: the state is the one that `start` made.
        unsafe { (entry.handler)(state.load(Ordering::Relaxed), call) }
    }

    fn serves(&self, number: u32) -> bool {
        self.modules.iter().any(|(table, _)| find(table, number.into()).is_some())
    }
}

/// A module's entry for a number.
fn find(table: &'static ModuleTable, number: u64) -> Option<&'static ModuleEntry> {
    // SAFETY: `entries` and `entry_count` describe one static slice.
    let entries = unsafe { std::slice::from_raw_parts(table.entries, table.entry_count as usize) };
    entries.iter().find(|entry| u64::from(entry.number) == number)
}
