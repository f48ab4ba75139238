//! The services that a domain offers to libos modules, see [`monohull_abi::module::HostServices`].

use super::state::shared;
use super::{mapped, modules};
use crate::address_space::Access;
use crate::cell::{self, Cell};
use crate::fault_injection::{self, Mitigation};
use crate::files::Images;
use crate::host_time::clock_ns;
use crate::instance::cell_of;
use crate::keys::Key;
use crate::mapped_memory::{MappedMemory, Pages};
use crate::shared::Shared;
use crate::slot_access::SlotUse;
use crate::this_thread;
use monohull_abi::file::{Advice, ImageIdentity, MapRequest, MountInfo};
use monohull_abi::layout::{ARENA_BASE, ARENA_END, page_up};
use monohull_abi::module::{Call, HostServices, Outcome, SYSTEM_INSTANCE, UserBounds};
use monohull_abi::types::MapAccess;
use monohull_abi::{Errno, number};
use monohull_trampoline::system::copy;
use std::alloc::Layout;
use std::ffi::c_void;
use std::io::{self, ErrorKind};
use std::sync::Once;

/// Takes back a pin.
fn release(domain: &Shared, address: u64) {
    // It pinned the buffer, so it serves this.
    let _ = domain.call(number::SLOT_UNPIN, [address, 0, 0, 0, 0, 0]);
}

fn image_answer(done: io::Result<()>) -> i64 {
    match done.map_err(|error| error.kind()) {
        Ok(()) => 0,
        Err(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => Errno::NoSpace.to_value(),
        Err(_) => Errno::Io.to_value(),
    }
}

/// With a key for each instance, pages of the arena without an owner are the system's.
fn key_without_owner(domain: &Shared) -> Key {
    if domain.space.keys().separate() { Key::SYSTEM } else { Key::FUNCTIONS }
}

fn status(done: Result<(), Errno>) -> i64 {
    done.map_or_else(Errno::to_value, |()| 0)
}

/// The services that this domain offers to modules.
pub(crate) enum Services {}

impl HostServices for Services {
    unsafe extern "C" fn alloc(bytes: usize, align: usize) -> *mut u8 {
        match Layout::from_size_align(bytes, align) {
            // SAFETY: the size is not zero.
            Ok(layout) if bytes > 0 => unsafe { std::alloc::alloc(layout) },
            _ => std::ptr::null_mut(),
        }
    }

    unsafe extern "C" fn alloc_zeroed(bytes: usize, align: usize) -> *mut u8 {
        match Layout::from_size_align(bytes, align) {
            // SAFETY: the size is not zero.
            Ok(layout) if bytes > 0 => unsafe { std::alloc::alloc_zeroed(layout) },
            _ => std::ptr::null_mut(),
        }
    }

    unsafe extern "C" fn dealloc(memory: *mut u8, bytes: usize, align: usize) {
        let layout = Layout::from_size_align(bytes, align).expect("as at alloc");
        // SAFETY: the module frees what `alloc` returned, with the same layout.
        unsafe { std::alloc::dealloc(memory, layout) }
    }

    unsafe extern "C" fn read_user(to: *mut u8, from: u64, len: usize) -> i64 {
        // SAFETY: `to` is the module's own; `from` was checked; faults are survived.
        if unsafe { copy(to, from as *const u8, len) } { 0 } else { Errno::Fault.to_value() }
    }

    unsafe extern "C" fn write_user(to: u64, from: *const u8, len: usize) -> i64 {
        // SAFETY: `from` is the module's own; `to` was checked; faults are survived.
        if unsafe { copy(to as *mut u8, from, len) } { 0 } else { Errno::Fault.to_value() }
    }

    unsafe extern "C" fn bounds(_domain: *mut c_void, instance: u32) -> UserBounds {
        match instance {
            _ if fault_injection::disabled(Mitigation::Arguments) => UserBounds { start: 0, end: u64::MAX },
            SYSTEM_INSTANCE => UserBounds { start: 0, end: u64::MAX },
            id => cell::bounds(cell_of(id)),
        }
    }

    unsafe extern "C" fn pin(domain: *mut c_void, instance: u32, address: u64, len: u64) -> u32 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        // Without buffers the module that knows them is not loaded, and need not be.
        let known = domain.hostcalls.table.is_bound(number::SLOT_PIN);
        let is_held = known && domain.call(number::SLOT_PIN, [instance.into(), address, len, 0, 0, 0]) == Ok(1);
        if is_held && fault_injection::disabled(Mitigation::Pins) {
            release(domain, address);
        }
        is_held.into()
    }

    unsafe extern "C" fn unpin(domain: *mut c_void, address: u64) {
        if !fault_injection::disabled(Mitigation::Pins) {
            // SAFETY: see `shared`.
            release(unsafe { shared(domain) }, address);
        }
    }

    unsafe extern "C" fn wait(domain: *mut c_void, call: *mut Call, key: u64, deadline: u64) {
        // SAFETY: see `shared`; the module passes the call it serves.
        let (domain, call) = unsafe { (shared(domain), &*call) };
        let mut scheduler = domain.lock();
        // Trusted callers have no thread to park; their call comes back as not served.
        if let Some(thread) = domain.thread_of(&scheduler, call) {
            let armed = scheduler.wait(thread, key, domain.clock.on_host(deadline));
            domain.sched.announce(&mut scheduler, armed);
        }
    }

    unsafe extern "C" fn wake(domain: *mut c_void, key: u64, most: u64) -> u64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        let mut scheduler = domain.lock();
        let woken = scheduler.wake(key, most, None, this_thread::carrier());
        domain.sched.notify(&mut scheduler, woken)
    }

    unsafe extern "C" fn interrupted() -> u32 {
        this_thread::is_interrupted().into()
    }

    unsafe extern "C" fn now(domain: *mut c_void) -> u64 {
        // SAFETY: see `shared`.
        unsafe { shared(domain) }.clock.now()
    }

    unsafe extern "C" fn realtime() -> u64 {
        clock_ns(libc::CLOCK_REALTIME)
    }

    unsafe extern "C" fn skipped(domain: *mut c_void) -> u64 {
        // SAFETY: see `shared`.
        unsafe { shared(domain) }.clock.wall_ahead()
    }

    unsafe extern "C" fn heap_grow(domain: *mut c_void, instance: u32, bytes: u64) -> i64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        let (Some(instance), Some(account)) = (domain.instance(instance), domain.account(instance)) else {
            return Errno::Invalid.to_value();
        };
        let Ok(charge) = i64::try_from(page_up(bytes)) else { return Errno::OutOfMemory.to_value() };
        if !account.charge(charge) {
            return Errno::OutOfMemory.to_value();
        }
        match instance.with_cell(|cell| cell.grow_heap(&domain.space, bytes)) {
            Some(Ok(Some(address))) => address as i64,
            _ => {
                account.charge(-charge);
                Errno::OutOfMemory.to_value()
            }
        }
    }

    unsafe extern "C" fn map_pages(
        domain: *mut c_void,
        instance: u32,
        bytes: u64,
        align: u64,
        access: MapAccess,
    ) -> i64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        let (Some(instance), Some(account)) = (domain.instance(instance), domain.account(instance)) else {
            return Errno::Invalid.to_value();
        };
        let mapped = instance.with_cell(|cell| {
            let (mapped, room, key) = cell.mapped_mut();
            mapped.map(&Pages { space: &domain.space, key, account, room }, bytes, align, access)
        });
        mapped.unwrap_or(Err(Errno::Invalid)).map_or_else(Errno::to_value, |address| address as i64)
    }

    unsafe extern "C" fn unmap_pages(domain: *mut c_void, instance: u32, address: u64, bytes: u64) -> i64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        status(mapped::change(domain, instance, address, bytes, mapped::AT_ONCE, MappedMemory::unmap))
    }

    unsafe extern "C" fn discard_pages(domain: *mut c_void, instance: u32, address: u64, bytes: u64) -> i64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        status(mapped::change(domain, instance, address, bytes, mapped::AT_ONCE, MappedMemory::discard))
    }

    unsafe extern "C" fn protect_pages(
        domain: *mut c_void,
        instance: u32,
        address: u64,
        bytes: u64,
        access: MapAccess,
    ) -> i64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        let protect = |mapped: &mut MappedMemory, pages: &Pages<'_>, range| mapped.protect(pages, range, access);
        // All at once: it is done wholly or not at all.
        status(mapped::change(domain, instance, address, bytes, u64::MAX, protect))
    }

    unsafe extern "C" fn map_image(domain: *mut c_void, instance: u32, address: u64, bytes: u64, source: u64) -> i64 {
        // SAFETY: see `shared`.
        status(mapped::map_image(unsafe { shared(domain) }, instance, address, bytes, source))
    }

    unsafe extern "C" fn move_in(domain: *mut c_void, instance: u32, buffer: u64, address: u64, bytes: u64) -> i64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        let moved = mapped::move_pages(domain, instance, address, bytes, |mapped, pages, at, part| {
            mapped.move_in(pages, buffer + at, part).map(|()| false)
        });
        status(moved.map(drop))
    }

    unsafe extern "C" fn move_out(
        domain: *mut c_void,
        instance: u32,
        address: u64,
        buffer: u64,
        bytes: u64,
        remap: u32,
    ) -> i64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        let moved = mapped::move_pages(domain, instance, address, bytes, |mapped, pages, at, part| {
            mapped.move_out(pages, part, buffer + at, remap == 1)
        });
        moved.map_or_else(Errno::to_value, i64::from)
    }

    unsafe extern "C" fn heap_size(domain: *mut c_void, instance: u32) -> u64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        let bytes = |cell: &mut Cell| cell.heap().end - cell.heap().start + cell.mapped().charged();
        domain.instance(instance).and_then(|instance| instance.with_cell(bytes)).unwrap_or(0)
    }

    unsafe extern "C" fn arena_commit(domain: *mut c_void, address: u64, len: u64) -> i64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        let Some(end) = address.checked_add(len).filter(|end| address >= ARENA_BASE && *end <= ARENA_END) else {
            return Errno::OutOfMemory.to_value();
        };
        let key = key_without_owner(domain);
        domain.space.commit_arena(address..end, key).map_or(Errno::OutOfMemory.to_value(), |()| 0)
    }

    unsafe extern "C" fn arena_assign(domain: *mut c_void, instance: u32, address: u64, len: u64) -> i64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        if !domain.space.keys().separate() {
            return 0;
        }
        let holder = domain.instance(instance);
        if holder.is_none() && fault_injection::disabled(Mitigation::HandingOn) {
            return 0;
        }
        let key = holder.map_or(Key::SYSTEM, |instance| instance.key);
        match domain.space.protect(address..address + len, Access::ReadWrite, key) {
            Ok(()) => i64::from(!fault_injection::disabled(Mitigation::HeldBuffers)),
            Err(_) => Errno::OutOfMemory.to_value(),
        }
    }

    unsafe extern "C" fn arena_discard(domain: *mut c_void, address: u64, len: u64) -> i64 {
        // SAFETY: see `shared`.
        let Err(error) = unsafe { shared(domain) }.space.discard(address..address + len) else { return 0 };
        // It is tried again and again: logged once.
        static LOGGED: Once = Once::new();
        LOGGED.call_once(|| {
            tracing::warn!("memory of slot buffers cannot be wiped and is not used until it can: {error}")
        });
        Errno::Io.to_value()
    }

    unsafe extern "C" fn arena_renew(domain: *mut c_void, address: u64, len: u64) -> i64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        let renewed = domain.space.renew_arena(address..address + len, key_without_owner(domain));
        renewed.map_or(Errno::OutOfMemory.to_value(), |()| 0)
    }

    unsafe extern "C" fn charge(domain: *mut c_void, instance: u32, bytes: i64) -> i64 {
        // SAFETY: see `shared`.
        match unsafe { shared(domain) }.account(instance) {
            Some(account) if !account.charge(bytes) => Errno::OutOfMemory.to_value(),
            _ => 0,
        }
    }

    unsafe extern "C" fn memory_limit(domain: *mut c_void, instance: u32) -> u64 {
        // SAFETY: see `shared`.
        unsafe { shared(domain) }.instance(instance).map_or(u64::MAX, |i| i.config.memory_limit)
    }

    unsafe extern "C" fn slot_allowed(
        domain: *mut c_void,
        instance: u32,
        name: *const u8,
        len: usize,
        fills: u32,
    ) -> u32 {
        // SAFETY: see `shared`.
        let Some(instance) = (unsafe { shared(domain) }).instance(instance) else { return 0 };
        let Some(access) = instance.config.slots.as_ref().filter(|_| !fault_injection::disabled(Mitigation::SlotLists))
        else {
            return 1;
        };
        // SAFETY: the name is the module's own, which has read and checked it.
        let name = unsafe { std::slice::from_raw_parts(name, len) };
        let intent = if fills == 1 { SlotUse::Fill } else { SlotUse::Take };
        std::str::from_utf8(name).is_ok_and(|name| access.allows(intent, name)).into()
    }

    unsafe extern "C" fn handles(domain: *mut c_void, instance: u32) -> u64 {
        // SAFETY: see `shared`.
        let instance = unsafe { shared(domain) }.instance(instance);
        instance.and_then(|instance| instance.config.handles).map_or(0, |handled| handled.id.to_raw())
    }

    unsafe extern "C" fn instance_name(domain: *mut c_void, instance: u32, name: *mut u8, capacity: usize) -> usize {
        // SAFETY: see `shared`.
        let instance = unsafe { shared(domain) }.instance(instance);
        let text = instance.map(|instance| instance.name()).unwrap_or_default();
        let len = text.len().min(capacity);
        // SAFETY: it is the module's own, of this size.
        unsafe { name.copy_from_nonoverlapping(text.as_ptr(), len) };
        len
    }

    unsafe extern "C" fn passed(domain: *mut c_void, instance: u32, bytes: u64, taken: u32) {
        // SAFETY: see `shared`.
        if let Some(account) = unsafe { shared(domain) }.account(instance) {
            account.pass(bytes, taken == 1);
        }
    }

    unsafe extern "C" fn call(domain: *mut c_void, call: *mut Call) -> i64 {
        // SAFETY: see `shared`; the call is the module's own.
        let (domain, call) = unsafe { (shared(domain), &mut *call) };
        let outcome = domain.dispatch(call);
        if outcome.tag == Outcome::READY { outcome.value } else { Errno::Deadlock.to_value() }
    }

    unsafe extern "C" fn mount_allowed(domain: *mut c_void, instance: u32, index: u32) -> u32 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        let (Some(instance), Some(mount)) = (domain.instance(instance), domain.options.mounts.get(index as usize))
        else {
            return 0;
        };
        let list = instance.config.files.as_ref().filter(|_| !fault_injection::disabled(Mitigation::SlotLists));
        list.is_none_or(|list| list.contains(&mount.point)).into()
    }

    unsafe extern "C" fn mount(
        domain: *mut c_void,
        index: u32,
        info: *mut MountInfo,
        point: *mut u8,
        capacity: usize,
    ) -> i64 {
        // SAFETY: see `shared`.
        let Some(mount) = unsafe { shared(domain) }.options.mounts.get(index as usize) else {
            return Errno::NotFound.to_value();
        };
        let name = mount.point.as_bytes();
        // SAFETY: both places are the module's own, of these sizes.
        unsafe {
            info.write(mount.info());
            point.copy_from_nonoverlapping(name.as_ptr(), name.len().min(capacity));
        }
        name.len().min(capacity) as i64
    }

    unsafe extern "C" fn store_alloc(domain: *mut c_void, bytes: u64) -> u64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        domain.files.stores.alloc(&domain.options.mounts, bytes)
    }

    unsafe extern "C" fn store_free(domain: *mut c_void, address: u64, bytes: u64) {
        // SAFETY: see `shared`; the module frees what `store_alloc` returned, with the same size.
        unsafe { shared(domain).files.stores.free(address, bytes) }
    }

    unsafe extern "C" fn store_begins(domain: *mut c_void, address: u64, bytes: u64) -> i64 {
        // SAFETY: see `shared`.
        let begun = unsafe { shared(domain) }.files.pager.store_begins(address, bytes);
        begun.map_or_else(Errno::to_value, |number| number as i64)
    }

    unsafe extern "C" fn store_ended(domain: *mut c_void, number: u64) {
        // SAFETY: see `shared`.
        unsafe { shared(domain) }.files.pager.store_ended(number);
    }

    unsafe extern "C" fn image_map(domain: *mut c_void, index: u32, len: *mut u64) -> i64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        match domain.files.images.map(&domain.options.mounts, index) {
            Ok((address, bytes)) => {
                // SAFETY: the place is the module's own.
                unsafe { len.write(bytes) };
                address as i64
            }
            Err(_) => Errno::Io.to_value(),
        }
    }

    unsafe extern "C" fn image_sync(domain: *mut c_void, index: u32) -> i64 {
        // SAFETY: see `shared`.
        image_answer(Images::sync(&unsafe { shared(domain) }.options.mounts, index))
    }

    unsafe extern "C" fn image_identity(domain: *mut c_void, index: u32, identity: *mut ImageIdentity) -> i64 {
        // SAFETY: see `shared`.
        match Images::identity(&unsafe { shared(domain) }.options.mounts, index) {
            Ok(known) => {
                // SAFETY: the place is the module's own.
                unsafe { identity.write(known) };
                0
            }
            Err(_) => Errno::Io.to_value(),
        }
    }

    unsafe extern "C" fn image_reserve(domain: *mut c_void, index: u32, offset: u64, len: u64) -> i64 {
        // SAFETY: see `shared`.
        image_answer(Images::reserve(&unsafe { shared(domain) }.options.mounts, index, offset, len))
    }

    unsafe extern "C" fn map_file(domain: *mut c_void, instance: u32, request: *const MapRequest) -> i64 {
        // SAFETY: see `shared`; the request is the module's own.
        let (domain, request) = unsafe { (shared(domain), &*request) };
        // SAFETY: so are its pointers, and by contract the memory of its extents stays.
        match unsafe { mapped::map_file(domain, instance, request) } {
            Ok(address) => address as i64,
            Err(errno) => errno.to_value(),
        }
    }

    unsafe extern "C" fn compare_file(domain: *mut c_void, instance: u32, request: *const MapRequest) -> i64 {
        // SAFETY: see `shared`; the request is the module's own, and so are its pointers.
        status(unsafe { mapped::compare_file(shared(domain), instance, &*request) })
    }

    unsafe extern "C" fn unmap_file(domain: *mut c_void, instance: u32, address: u64) -> i64 {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        status(domain.files.pager.unmap(instance, domain.account(instance), address))
    }

    unsafe extern "C" fn advise_file(
        domain: *mut c_void,
        instance: u32,
        address: u64,
        offset: u64,
        len: u64,
        advice: Advice,
    ) -> i64 {
        // SAFETY: see `shared`.
        status(unsafe { shared(domain) }.files.pager.advise(instance, address, offset, len, advice))
    }

    unsafe extern "C" fn protect_file(domain: *mut c_void, instance: u32, address: u64, writable: u32) -> i64 {
        // SAFETY: see `shared`.
        status(unsafe { shared(domain) }.files.pager.protect(instance, address, writable == 1))
    }

    unsafe extern "C" fn line(domain: *mut c_void, instance: u32, stream: u32, text: *const u8, len: usize) {
        // SAFETY: see `shared`; the text is the module's own.
        let (domain, bytes) = unsafe { (shared(domain), std::slice::from_raw_parts(text, len)) };
        if let Some(instance) = domain.instance(instance) {
            let sink = domain.options.sink.as_deref();
            instance.print(stream, String::from_utf8_lossy(bytes).into_owned(), sink);
        }
    }

    unsafe extern "C" fn explain(domain: *mut c_void, call: *const Call, text: *const u8, len: usize) {
        // SAFETY: see `shared`; call and text are the module's.
        let (domain, call, bytes) = unsafe { (shared(domain), &*call, std::slice::from_raw_parts(text, len)) };
        domain.explain(call, String::from_utf8_lossy(bytes).into_owned());
    }

    unsafe extern "C" fn panicked(text: *const u8, len: usize) -> ! {
        // SAFETY: the module passes its own, finished text.
        modules::panicked(unsafe { std::slice::from_raw_parts(text, len) })
    }
}
