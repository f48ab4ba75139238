//! The services of the miniature visor: [`HostServices`] over [`Shared`].

use crate::mappings::{Mapping, charge};
use crate::{CURRENT, EXPLAINED, MEANWHILE, Shared, WAITING};
use crate::{mapped_pages, moved_pages};
use monohull_abi::file::{Advice, ImageIdentity, MapRequest, MountInfo, map};
use monohull_abi::layout::{
    ARENA_BASE, ARENA_END, CELL_SIZE, MAPPINGS_OFFSET, PAGE, USER_BASE, USER_END, cell_base, page_up,
};
use monohull_abi::module::{Call, HostServices, Outcome, SYSTEM_INSTANCE, UserBounds};
use monohull_abi::types::MapAccess;
use monohull_abi::{Errno, number};
use std::alloc::Layout;
use std::ffi::c_void;
use std::sync::atomic::Ordering;

/// Heaps begin this far into a cell, out of the way of `Domain::place`.
const HEAP_OFFSET: u64 = 1 << 32;

/// Where the constants of every instance's image are said to be.
pub const IMAGE: u64 = USER_BASE;

/// # Safety
/// `domain` is the pointer that the mock `Host` carries.
pub(crate) unsafe fn shared<'a>(domain: *mut c_void) -> &'a Shared {
    // SAFETY: the caller's promise; the domain outlives the module's state.
    unsafe { &*domain.cast::<Shared>() }
}

fn current<'a>() -> &'a Shared {
    // SAFETY: set by `Domain::start` and cleared by its drop; modules run only in between, on the same thread.
    unsafe { CURRENT.get().as_ref() }.expect("no domain runs on this thread")
}

fn is_user(address: u64) -> bool {
    (USER_BASE..USER_END).contains(&address)
}

/// # Safety
/// The text is readable for its length.
pub(crate) unsafe fn text<'a>(text: *const u8, len: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(text, len) }
}

/// The services over [`Shared`].
pub(crate) enum Services {}

impl HostServices for Services {
    unsafe extern "C" fn alloc(bytes: usize, align: usize) -> *mut u8 {
        // SAFETY: modules allocate through `GlobalAlloc`, never nothing.
        unsafe { std::alloc::alloc(Layout::from_size_align(bytes, align).unwrap()) }
    }

    unsafe extern "C" fn alloc_zeroed(bytes: usize, align: usize) -> *mut u8 {
        // SAFETY: as for `alloc`.
        unsafe { std::alloc::alloc_zeroed(Layout::from_size_align(bytes, align).unwrap()) }
    }

    unsafe extern "C" fn dealloc(memory: *mut u8, bytes: usize, align: usize) {
        // SAFETY: the memory came from `alloc` with the same layout.
        unsafe { std::alloc::dealloc(memory, Layout::from_size_align(bytes, align).unwrap()) }
    }

    unsafe extern "C" fn read_user(to: *mut u8, from: u64, len: usize) -> i64 {
        if !current().may_store(to as u64) {
            return 0;
        }
        if is_user(from) {
            let mut copy = vec![0; len];
            if !current().memory.borrow_mut().read(from, &mut copy) {
                return Errno::Fault.to_value();
            }
            // SAFETY: `to` is writable for `len` bytes, by the contract of `Host`.
            unsafe { to.copy_from_nonoverlapping(copy.as_ptr(), len) };
        } else {
            // SAFETY: a trusted caller's address: real memory of the test.
            unsafe { to.copy_from_nonoverlapping(from as *const u8, len) };
        }
        0
    }

    unsafe extern "C" fn write_user(to: u64, from: *const u8, len: usize) -> i64 {
        let mut copy = vec![0; len];
        // SAFETY: `from` is readable for `len` bytes, or arena memory, which `read_user` knows.
        if unsafe { Self::read_user(copy.as_mut_ptr(), from as u64, len) } != 0 {
            return Errno::Fault.to_value();
        }
        if (ARENA_BASE..ARENA_END).contains(&to) && current().writes_fail.get() {
            return Errno::Fault.to_value();
        }
        if is_user(to) {
            if !current().memory.borrow_mut().write(to, &copy) {
                return Errno::Fault.to_value();
            }
        } else if current().may_store(to) {
            // SAFETY: a trusted caller's address: real memory of the test.
            unsafe { (to as *mut u8).copy_from_nonoverlapping(copy.as_ptr(), len) };
        }
        0
    }

    unsafe extern "C" fn bounds(_: *mut c_void, instance: u32) -> UserBounds {
        if instance == SYSTEM_INSTANCE {
            return UserBounds { start: 0, end: u64::MAX };
        }
        let start = cell_base(instance as usize);
        UserBounds { start, end: start + CELL_SIZE }
    }

    unsafe extern "C" fn pin(domain: *mut c_void, instance: u32, address: u64, len: u64) -> u32 {
        // SAFETY: the module passes the domain of its `Host`.
        let shared = unsafe { shared(domain) };
        if !shared.serves(number::SLOT_PIN) {
            return 0;
        }
        let mut call = Call::system(number::SLOT_PIN, [u64::from(instance), address, len, 0, 0, 0]);
        (shared.dispatch(&mut call).value == 1).into()
    }

    unsafe extern "C" fn unpin(domain: *mut c_void, address: u64) {
        // SAFETY: as in `pin`.
        let unpinned =
            unsafe { shared(domain) }.dispatch(&mut Call::system(number::SLOT_UNPIN, [address, 0, 0, 0, 0, 0]));
        assert_eq!(unpinned.value, 0, "what was pinned is unpinned");
    }

    unsafe extern "C" fn wait(_: *mut c_void, _: *mut Call, key: u64, deadline: u64) {
        WAITING.set(Some((key, deadline)));
    }

    unsafe extern "C" fn wake(domain: *mut c_void, key: u64, _: u64) -> u64 {
        // SAFETY: as in `pin`.
        unsafe { shared(domain) }.woken.borrow_mut().push(key);
        0
    }

    /// There are no deadlines here.
    unsafe extern "C" fn interrupted() -> u32 {
        0
    }

    unsafe extern "C" fn now(_: *mut c_void) -> u64 {
        current().time.get().0
    }

    unsafe extern "C" fn realtime() -> u64 {
        current().time.get().1
    }

    unsafe extern "C" fn skipped(_: *mut c_void) -> u64 {
        0
    }

    unsafe extern "C" fn heap_grow(domain: *mut c_void, instance: u32, bytes: u64) -> i64 {
        // SAFETY: as in `pin`.
        let shared = unsafe { shared(domain) };
        let mut accounts = shared.accounts.borrow_mut();
        let account = accounts.entry(instance).or_default();
        assert!(bytes.is_multiple_of(PAGE));
        if bytes > account.limit.saturating_sub(account.heap + account.charged) {
            return Errno::OutOfMemory.to_value();
        }
        let address = cell_base(instance as usize) + HEAP_OFFSET + account.heap;
        account.heap += bytes;
        shared.memory.borrow_mut().map(address, bytes);
        address as i64
    }

    unsafe extern "C" fn map_pages(
        domain: *mut c_void,
        instance: u32,
        bytes: u64,
        align: u64,
        access: MapAccess,
    ) -> i64 {
        // SAFETY: as in `pin`.
        let mapped = mapped_pages::map(unsafe { shared(domain) }, instance, bytes, align, access);
        mapped.map_or_else(Errno::to_value, |address| address as i64)
    }

    unsafe extern "C" fn unmap_pages(domain: *mut c_void, instance: u32, address: u64, bytes: u64) -> i64 {
        // SAFETY: as in `pin`.
        let unmapped = mapped_pages::change(unsafe { shared(domain) }, instance, address, bytes, |_| None);
        unmapped.map_or_else(Errno::to_value, |()| 0)
    }

    unsafe extern "C" fn discard_pages(domain: *mut c_void, instance: u32, address: u64, bytes: u64) -> i64 {
        // SAFETY: as in `pin`.
        let discarded = mapped_pages::discard(unsafe { shared(domain) }, instance, address, bytes);
        discarded.map_or_else(Errno::to_value, |()| 0)
    }

    unsafe extern "C" fn protect_pages(
        domain: *mut c_void,
        instance: u32,
        address: u64,
        bytes: u64,
        access: MapAccess,
    ) -> i64 {
        // SAFETY: as in `pin`.
        let protected = mapped_pages::protect(unsafe { shared(domain) }, instance, address, bytes, access);
        protected.map_or_else(Errno::to_value, |()| 0)
    }

    unsafe extern "C" fn map_image(domain: *mut c_void, instance: u32, address: u64, bytes: u64, source: u64) -> i64 {
        if source != IMAGE {
            return Errno::NotPermitted.to_value();
        }
        // SAFETY: as in `pin`.
        let shared = unsafe { shared(domain) };
        mapped_pages::protect(shared, instance, address, bytes, MapAccess::ReadWrite)
            .map_or_else(Errno::to_value, |()| 0)
    }

    unsafe extern "C" fn move_in(domain: *mut c_void, instance: u32, buffer: u64, address: u64, bytes: u64) -> i64 {
        // SAFETY: as in `pin`.
        moved_pages::move_in(unsafe { shared(domain) }, instance, buffer, address, bytes)
            .map_or_else(Errno::to_value, |()| 0)
    }

    unsafe extern "C" fn move_out(
        domain: *mut c_void,
        instance: u32,
        address: u64,
        buffer: u64,
        bytes: u64,
        remap: u32,
    ) -> i64 {
        // SAFETY: as in `pin`.
        let moved = moved_pages::move_out(unsafe { shared(domain) }, instance, address, buffer, bytes, remap == 1);
        moved.map_or_else(Errno::to_value, i64::from)
    }

    unsafe extern "C" fn heap_size(domain: *mut c_void, instance: u32) -> u64 {
        // SAFETY: as in `pin`.
        unsafe { shared(domain) }.accounts.borrow().get(&instance).map_or(0, |account| account.heap)
    }

    unsafe extern "C" fn arena_commit(domain: *mut c_void, address: u64, len: u64) -> i64 {
        // SAFETY: as in `pin`.
        unsafe { shared(domain) }.memory.borrow_mut().map(address, len);
        0
    }

    unsafe extern "C" fn arena_assign(domain: *mut c_void, instance: u32, address: u64, len: u64) -> i64 {
        // SAFETY: as in `owns`.
        let shared = unsafe { shared(domain) };
        if let Some(meanwhile) = MEANWHILE.take() {
            // SAFETY: it lives until `Domain::meanwhile` takes it back, which is further down on this thread's stack.
            unsafe { (*meanwhile)() };
            MEANWHILE.set(Some(meanwhile));
        }
        if shared.assigns_nothing.get() {
            return Errno::OutOfMemory.to_value();
        }
        shared.owners.borrow_mut().set(address..address + len, instance);
        i64::from(shared.kept_apart.get())
    }

    unsafe extern "C" fn arena_discard(domain: *mut c_void, address: u64, len: u64) -> i64 {
        // SAFETY: as in `pin`.
        let shared = unsafe { shared(domain) };
        if shared.discards_nothing.get() {
            return Errno::Io.to_value();
        }
        shared.memory.borrow_mut().discard(address, len);
        0
    }

    unsafe extern "C" fn arena_renew(domain: *mut c_void, address: u64, len: u64) -> i64 {
        // SAFETY: as in `pin`.
        let shared = unsafe { shared(domain) };
        if shared.discards_nothing.get() {
            return Errno::OutOfMemory.to_value();
        }
        shared.memory.borrow_mut().discard(address, len);
        shared.owners.borrow_mut().set(address..address + len, SYSTEM_INSTANCE);
        shared.remapped.borrow_mut().retain(|page| !(address..address + len).contains(page));
        0
    }

    unsafe extern "C" fn charge(domain: *mut c_void, instance: u32, bytes: i64) -> i64 {
        assert_ne!(instance, SYSTEM_INSTANCE, "trusted callers are not charged");
        // SAFETY: as in `pin`.
        let mut accounts = unsafe { shared(domain) }.accounts.borrow_mut();
        let account = accounts.entry(instance).or_default();
        if bytes > 0 && bytes as u64 > account.limit.saturating_sub(account.heap + account.charged) {
            return Errno::OutOfMemory.to_value();
        }
        account.charged = account.charged.checked_add_signed(bytes).expect("more refunded than charged");
        0
    }

    unsafe extern "C" fn memory_limit(domain: *mut c_void, instance: u32) -> u64 {
        // SAFETY: as in `pin`.
        unsafe { shared(domain) }.accounts.borrow().get(&instance).copied().unwrap_or_default().limit
    }

    unsafe extern "C" fn slot_allowed(_: *mut c_void, _: u32, _: *const u8, _: usize, _: u32) -> u32 {
        1
    }

    unsafe extern "C" fn handles(domain: *mut c_void, instance: u32) -> u64 {
        // SAFETY: as in `pin`.
        unsafe { shared(domain) }.handlers.borrow().get(&instance).copied().unwrap_or(0)
    }

    unsafe extern "C" fn instance_name(_: *mut c_void, instance: u32, name: *mut u8, capacity: usize) -> usize {
        let text = format!("step[{instance}]");
        let len = text.len().min(capacity);
        // SAFETY: it is the module's own, of this size.
        unsafe { name.copy_from_nonoverlapping(text.as_ptr(), len) };
        len
    }

    unsafe extern "C" fn passed(domain: *mut c_void, instance: u32, bytes: u64, taken: u32) {
        // SAFETY: as in `pin`.
        let mut accounts = unsafe { shared(domain) }.accounts.borrow_mut();
        let passed = &mut accounts.entry(instance).or_default().passed;
        *if taken == 0 { &mut passed.published } else { &mut passed.taken } += bytes;
    }

    unsafe extern "C" fn call(domain: *mut c_void, call: *mut Call) -> i64 {
        // SAFETY: as in `pin`; the call is the module's own.
        let (shared, call) = unsafe { (shared(domain), &mut *call) };
        if call.number == u64::from(number::EVENTS_OPEN) {
            return shared.events_open.get().into();
        }
        let outcome = shared.dispatch(call);
        if outcome.tag == Outcome::READY { outcome.value } else { Errno::Deadlock.to_value() }
    }

    unsafe extern "C" fn mount_allowed(domain: *mut c_void, instance: u32, index: u32) -> u32 {
        // SAFETY: as in `pin`.
        let denied = unsafe { shared(domain) }.denied_mounts.borrow();
        (!denied.contains(&(instance, index))).into()
    }

    unsafe extern "C" fn mount(
        domain: *mut c_void,
        index: u32,
        info: *mut MountInfo,
        point: *mut u8,
        capacity: usize,
    ) -> i64 {
        // SAFETY: as in `pin`.
        let mounts = unsafe { shared(domain) }.mounts.borrow();
        let Some((known, name)) = mounts.get(index as usize) else { return Errno::NotFound.to_value() };
        assert!(name.len() <= capacity);
        // SAFETY: both are the module's own, of these sizes.
        unsafe {
            info.write(*known);
            point.copy_from_nonoverlapping(name.as_ptr(), name.len());
        }
        name.len() as i64
    }

    unsafe extern "C" fn store_alloc(_: *mut c_void, bytes: u64) -> u64 {
        // SAFETY: modules do not ask for nothing.
        unsafe { std::alloc::alloc_zeroed(Layout::from_size_align(bytes as usize, 1).unwrap()) as u64 }
    }

    unsafe extern "C" fn store_free(_: *mut c_void, address: u64, bytes: u64) {
        // SAFETY: the memory came from `store_alloc` with the same size.
        unsafe { std::alloc::dealloc(address as *mut u8, Layout::from_size_align(bytes as usize, 1).unwrap()) }
    }

    /// Mappings are not filled before a test looks at them, see [`crate::Domain::touch_mapping`]: there is nothing to keep.
    unsafe extern "C" fn store_begins(domain: *mut c_void, _: u64, _: u64) -> i64 {
        // SAFETY: as in `pin`.
        let under_way = unsafe { &shared(domain).under_way };
        under_way.fetch_add(1, Ordering::Relaxed);
        0
    }

    unsafe extern "C" fn store_ended(domain: *mut c_void, _: u64) {
        // SAFETY: as in `pin`.
        let under_way = unsafe { &shared(domain).under_way };
        assert_ne!(under_way.fetch_sub(1, Ordering::Relaxed), 0, "a store that has begun");
    }

    unsafe extern "C" fn image_map(domain: *mut c_void, index: u32, len: *mut u64) -> i64 {
        // SAFETY: as in `owns`; `len` is the module's own.
        let (shared, len) = unsafe { (shared(domain), &mut *len) };
        let mut images = shared.images.borrow_mut();
        let Some(image) = images.get_mut(&index) else { return Errno::NotFound.to_value() };
        *len = image.len() as u64;
        image.as_mut_ptr() as i64
    }

    unsafe extern "C" fn image_sync(domain: *mut c_void, _: u32) -> i64 {
        // SAFETY: as in `owns`.
        let syncs = unsafe { &shared(domain).syncs };
        syncs.set(syncs.get() + 1);
        0
    }

    unsafe extern "C" fn image_identity(domain: *mut c_void, index: u32, identity: *mut ImageIdentity) -> i64 {
        // SAFETY: as in `pin`.
        let shared = unsafe { shared(domain) };
        let Some(known) = shared.image_identity(index) else { return Errno::Io.to_value() };
        // SAFETY: the place is the module's own.
        unsafe { identity.write(known) };
        0
    }

    unsafe extern "C" fn image_reserve(_: *mut c_void, _: u32, _: u64, _: u64) -> i64 {
        Errno::Io.to_value()
    }

    unsafe extern "C" fn map_file(domain: *mut c_void, instance: u32, request: *const MapRequest) -> i64 {
        // SAFETY: the module passes the domain of its `Host`, and a request with what it leads to.
        let (shared, request, extents, path) = unsafe {
            let request = &*request;
            let extents = std::slice::from_raw_parts(request.extents, request.count as usize);
            let path = std::slice::from_raw_parts(request.path, request.path_len as usize);
            (shared(domain), request, extents, path)
        };
        assert_eq!(
            extents.iter().map(|extent| extent.len).sum::<u64>(),
            request.len,
            "extents for every byte, and no more"
        );
        if !charge(shared, instance, page_up(request.len) as i64) {
            return Errno::OutOfMemory.to_value();
        }
        let mut mappings = shared.mappings.borrow_mut();
        let start = cell_base(instance as usize) + MAPPINGS_OFFSET;
        let last = mappings.range((instance, 0)..(instance + 1, 0)).next_back();
        let next = last.map_or(start, |((_, address), mapping)| address + page_up(mapping.len) + PAGE);
        let address = if request.address == 0 { next } else { request.address };
        let mapping = Mapping {
            len: request.len,
            offset: request.offset,
            path: String::from_utf8(path.to_vec()).expect("a path is UTF-8"),
            writable: request.flags & map::WRITE != 0,
            extents: extents.to_vec(),
        };
        mappings.insert((instance, address), mapping);
        address as i64
    }

    unsafe extern "C" fn compare_file(domain: *mut c_void, instance: u32, request: *const MapRequest) -> i64 {
        // SAFETY: as in `map_file`.
        let (shared, request) = unsafe { (shared(domain), &*request) };
        // SAFETY: as in `map_file`.
        let extents = unsafe { std::slice::from_raw_parts(request.extents, request.count as usize) };
        assert_eq!(extents.iter().map(|extent| extent.len).sum::<u64>(), request.len, "extents for every byte");
        match shared.mappings.borrow().get(&(instance, request.address)) {
            Some(mapping) if (mapping.len, mapping.offset) == (request.len, request.offset) => 0,
            _ => Errno::Invalid.to_value(),
        }
    }

    unsafe extern "C" fn unmap_file(domain: *mut c_void, instance: u32, address: u64) -> i64 {
        // SAFETY: as in `pin`.
        let shared = unsafe { shared(domain) };
        let Some(gone) = shared.mappings.borrow_mut().remove(&(instance, address)) else {
            return Errno::Invalid.to_value();
        };
        assert!(charge(shared, instance, -(page_up(gone.len) as i64)));
        0
    }

    unsafe extern "C" fn advise_file(
        domain: *mut c_void,
        instance: u32,
        address: u64,
        offset: u64,
        len: u64,
        _: Advice,
    ) -> i64 {
        // SAFETY: as in `pin`.
        let mappings = unsafe { shared(domain) }.mappings.borrow();
        let end = mappings.get(&(instance, address)).map(|mapping| mapping.len);
        match offset.checked_add(len).zip(end) {
            Some((to, end)) if to <= end => 0,
            _ => Errno::Invalid.to_value(),
        }
    }

    unsafe extern "C" fn protect_file(domain: *mut c_void, instance: u32, address: u64, writable: u32) -> i64 {
        // SAFETY: as in `pin`.
        match unsafe { shared(domain) }.mappings.borrow_mut().get_mut(&(instance, address)) {
            Some(mapping) => {
                mapping.writable = writable == 1;
                0
            }
            None => Errno::Invalid.to_value(),
        }
    }

    unsafe extern "C" fn line(domain: *mut c_void, instance: u32, stream: u32, line: *const u8, len: usize) {
        // SAFETY: as in `pin`; the text is readable.
        let (shared, line) = unsafe { (shared(domain), text(line, len)) };
        shared.lines.borrow_mut().push((instance, stream, String::from_utf8_lossy(line).into_owned()));
    }

    unsafe extern "C" fn explain(_: *mut c_void, _: *const Call, why: *const u8, len: usize) {
        // SAFETY: the text is readable.
        let why = unsafe { text(why, len) };
        EXPLAINED.set(String::from_utf8(why.to_vec()).expect("an explanation is UTF-8"));
    }

    unsafe extern "C" fn panicked(why: *const u8, len: usize) -> ! {
        // SAFETY: the text is readable.
        panic!("the module panicked: {}", String::from_utf8_lossy(unsafe { text(why, len) }))
    }
}
