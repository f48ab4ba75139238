//! Memory that instances map: what modules have done to it for them, in pieces, so that no other thread of an instance waits long.

use crate::mapped_memory::{MappedMemory, Pages};
use crate::moved_pages::MOVED_AT_ONCE;
use crate::pager::Source;
use crate::shared::Shared;
use crate::this_thread;
use monohull_abi::Errno;
use monohull_abi::file::MapRequest;
use std::ops::Range;

/// Maps what a module asks for.
///
/// # Safety
/// The request's pointers are readable; the memory of its extents stays until the mapping has been removed.
pub(super) unsafe fn map_file(domain: &Shared, instance: u32, request: &MapRequest) -> Result<u64, Errno> {
    let (Some(instance), Some(account)) = (domain.instance(instance), domain.account(instance)) else {
        return Err(Errno::Invalid);
    };
    // SAFETY: the caller's promise.
    let (path, extents) = unsafe {
        let path = std::slice::from_raw_parts(request.path, request.path_len as usize);
        (path, std::slice::from_raw_parts(request.extents, request.count as usize))
    };
    let source = match request.host_node {
        0 => Source::of_extents(extents),
        node => {
            let file = domain.files.host_files.get(node)?;
            Source::of_file(&file, request.offset, request.len).map_err(|_| Errno::Io)?
        }
    };
    let path = String::from_utf8_lossy(path).into_owned();
    let (pager, is_hosts) = (&domain.files.pager, request.host_node != 0);
    let window = |address| domain.files.window(&domain.options.mounts, address);
    match request.address {
        0 => pager.map(&instance, account, request, path, source, window),
        _ => pager.map_again(&instance, account, request, path, (source, is_hosts), window),
    }
}

/// Compares a mapping with what a module says that its file has.
///
/// # Safety
/// The request's extents are readable, and so is the memory that they lead to, during the call.
pub(super) unsafe fn compare_file(domain: &Shared, instance: u32, request: &MapRequest) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let extents = unsafe { std::slice::from_raw_parts(request.extents, request.count as usize) };
    // What a file of the host will be is not known. Without extents all is zero.
    let known = if request.host_node == 0 { extents } else { &[] };
    domain.files.pager.compare(instance, request, &Source::of_extents(known))
}

/// Bytes of mapped memory that are freed under one lock. Freeing many takes long, and other threads of the instance need it.
pub(super) const AT_ONCE: u64 = 64 << 20;

/// Changes memory that an instance has mapped, in pieces of `step` bytes; nothing if not all of it is mapped.
pub(super) fn change(
    domain: &Shared,
    instance: u32,
    address: u64,
    bytes: u64,
    step: u64,
    work: impl Fn(&mut MappedMemory, &Pages<'_>, Range<u64>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let (Some(instance), Some(account)) = (domain.instance(instance), domain.account(instance)) else {
        return Err(Errno::Invalid);
    };
    let end = address.checked_add(bytes).ok_or(Errno::Fault)?;
    if instance.with_cell(|cell| cell.mapped().covers(address..end)) != Some(true) {
        return Err(Errno::Fault);
    }
    let mut start = address;
    while start < end {
        if this_thread::is_interrupted() {
            return Err(Errno::TimedOut);
        }
        let piece = start..start.saturating_add(step).min(end);
        start = piece.end;
        let changed = instance.with_cell(|cell| {
            let (mapped, room, key) = cell.mapped_mut();
            work(mapped, &Pages { space: &domain.space, key, account, room }, piece)
        });
        changed.unwrap_or(Err(Errno::Invalid))?;
    }
    Ok(())
}

/// Moves memory that an instance has mapped, in pieces of [`MOVED_AT_ONCE`]; nothing if not all of it may be written to. `work` gets each
/// piece, and how far behind the first it is. Whether it has said so of any.
pub(super) fn move_pages(
    domain: &Shared,
    instance: u32,
    address: u64,
    bytes: u64,
    work: impl Fn(&mut MappedMemory, &Pages<'_>, u64, Range<u64>) -> Result<bool, Errno>,
) -> Result<bool, Errno> {
    let (Some(instance), Some(account)) = (domain.instance(instance), domain.account(instance)) else {
        return Err(Errno::Fault);
    };
    let end = address.checked_add(bytes).ok_or(Errno::Fault)?;
    if instance.with_cell(|cell| cell.mapped().is_writable(&(address..end))) != Some(true) {
        return Err(Errno::Fault);
    }
    let (mut start, mut any) = (address, false);
    while start < end {
        if this_thread::is_interrupted() {
            return Err(Errno::TimedOut);
        }
        let piece = start..end.min(start + MOVED_AT_ONCE);
        let at = start - address;
        start = piece.end;
        let moved = instance.with_cell(|cell| {
            let (mapped, room, key) = cell.mapped_mut();
            work(mapped, &Pages { space: &domain.space, key, account, room }, at, piece)
        });
        any |= match moved.unwrap_or(Err(Errno::Fault)) {
            // Another thread has unmapped the rest.
            Err(Errno::Fault) if at > 0 => Err(Errno::Again),
            moved => moved,
        }?;
    }
    Ok(any)
}

/// Replaces memory that an instance has mapped by a private copy of constants of its image.
pub(super) fn map_image(domain: &Shared, instance: u32, address: u64, bytes: u64, source: u64) -> Result<(), Errno> {
    let (Some(instance), Some(account)) = (domain.instance(instance), domain.account(instance)) else {
        return Err(Errno::Invalid);
    };
    let end = address.checked_add(bytes).ok_or(Errno::Fault)?;
    let mapped = instance.with_cell(|cell| {
        if !cell.mapped().covers(address..end) {
            return Err(Errno::Fault);
        }
        let offset = cell.constants(source, bytes).ok_or(Errno::NotPermitted)?;
        let image = cell.image().clone();
        let (mapped, room, key) = cell.mapped_mut();
        let pages = Pages { space: &domain.space, key, account, room };
        mapped.map_image(&pages, address..end, image.sealed(), offset)
    });
    mapped.unwrap_or(Err(Errno::Invalid))
}
