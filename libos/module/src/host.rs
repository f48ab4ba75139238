//! The visor's services as safe methods.

use crate::{Memory, NetworkRef, Text};
use alloc::string::String;
use alloc::vec;
use core::fmt::{self, Write};
use monohull_abi::Errno;
use monohull_abi::continuation::WAITER_NAME_MAX;
use monohull_abi::effect::PerformId;
use monohull_abi::file::{Advice, Extent, ImageIdentity, MapRequest, MountInfo, MountKind, PATH_MAX};
use monohull_abi::layout::{ARENA_BASE, ARENA_END};
use monohull_abi::module::{Call, Host};
use monohull_abi::types::MapAccess;

/// One page of zeros to copy from.
static ZEROS: [u8; 4096] = [0; 4096];

/// What is to be mapped; see [`MapRequest`].
#[derive(Clone, Copy, Debug)]
pub struct FileToMap<'a> {
    /// Where the mapping begins, if it was captured or is compared; otherwise 0.
    pub address: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Bytes, at least 1.
    pub len: u64,
    /// Bits of [`monohull_abi::file::map`].
    pub flags: u64,
    /// Where the bytes are.
    pub extents: &'a [Extent],
    /// The visor's number for the file, if it is a file of the host; otherwise 0.
    pub host_node: u64,
    /// The file's path, for reports.
    pub path: &'a str,
}

impl FileToMap<'_> {
    fn request(&self) -> MapRequest {
        MapRequest {
            address: self.address,
            len: self.len,
            flags: self.flags,
            extents: self.extents.as_ptr(),
            count: self.extents.len() as u64,
            host_node: self.host_node,
            offset: self.offset,
            path: self.path.as_ptr(),
            path_len: self.path.len() as u64,
        }
    }
}

/// The visor, as the module of one domain sees it. Every method may be called from any carrier.
#[derive(Clone, Copy)]
pub struct HostRef(&'static Host);

impl HostRef {
    /// # Safety
    /// `host` is valid, and stays so for as long as this reference and its copies are used.
    pub const unsafe fn new(host: *const Host) -> HostRef {
        // SAFETY: the caller's promise.
        HostRef(unsafe { &*host })
    }

    /// The table itself, which [`monohull_abi::user`] asks for.
    pub fn raw(&self) -> &'static Host {
        self.0
    }

    /// The services for sockets.
    pub fn network(&self) -> NetworkRef {
        NetworkRef(self.0)
    }

    /// Monotonic time in ns, by the domain's clock.
    pub fn now(&self) -> u64 {
        // SAFETY: no conditions: as for all services below, the table comes from the visor.
        unsafe { self.0.now() }
    }

    /// Wall-clock time in ns since 1970, by the domain's clock.
    pub fn realtime(&self) -> u64 {
        // SAFETY: no conditions.
        unsafe { self.0.realtime().saturating_add(self.0.skipped()) }
    }

    /// Registers the call's thread on `key` until `deadline` (as [`Self::now`], or
    /// [`NEVER`](monohull_abi::module::NEVER)). Call it under the lock that wakers take; then return
    /// [`Outcome::park`](monohull_abi::Outcome::park).
    pub fn wait(&self, call: &mut Call, key: u64, deadline: u64) {
        // SAFETY: the call is the handler's.
        unsafe { self.0.wait(call, key, deadline) }
    }

    /// Wakes up to `most` threads that wait on `key`; returns how many.
    pub fn wake(&self, key: u64, most: u64) -> u64 {
        // SAFETY: no conditions.
        unsafe { self.0.wake(key, most) }
    }

    /// Sends a whole line (without its newline) of an instance's output stream 1 or 2.
    pub fn line(&self, instance: u32, stream: u32, text: &[u8]) {
        // SAFETY: the text is readable for its length.
        unsafe { self.0.line(instance, stream, text.as_ptr(), text.len()) }
    }

    /// Sets the text for `LAST_ERROR_MESSAGE`: why this call is about to be refused. Returns `errno`.
    #[cold]
    pub fn explain(&self, call: &Call, errno: Errno, why: fmt::Arguments<'_>) -> Errno {
        let mut text = Text::<768>::new();
        // A `Text` takes what fits and never fails.
        let _ = text.write_fmt(why);
        let text = text.as_bytes();
        // SAFETY: the text is readable for its length.
        unsafe { self.0.explain(call, text.as_ptr(), text.len()) };
        errno
    }

    /// Adds whole pages to the heap of an instance; returns the first address.
    pub fn heap_grow(&self, instance: u32, bytes: u64) -> Result<u64, Errno> {
        // SAFETY: no conditions.
        Errno::from_value(unsafe { self.0.heap_grow(instance, bytes) })
    }

    /// Maps zeroed pages into the cell of an instance; returns the first address.
    pub fn map_pages(&self, instance: u32, bytes: u64, align: u64, access: MapAccess) -> Result<u64, Errno> {
        // SAFETY: no conditions.
        Errno::from_value(unsafe { self.0.map_pages(instance, bytes, align, access) })
    }

    /// Takes back pages that [`HostRef::map_pages`] gave.
    pub fn unmap_pages(&self, instance: u32, address: u64, bytes: u64) -> Result<(), Errno> {
        // SAFETY: no conditions: the visor compares the range with what the instance has mapped.
        Errno::from_value(unsafe { self.0.unmap_pages(instance, address, bytes) }).map(drop)
    }

    /// Frees the memory of such pages, which stay mapped.
    pub fn discard_pages(&self, instance: u32, address: u64, bytes: u64) -> Result<(), Errno> {
        // SAFETY: as for `unmap_pages`.
        Errno::from_value(unsafe { self.0.discard_pages(instance, address, bytes) }).map(drop)
    }

    /// Changes what such pages may be used for.
    pub fn protect_pages(&self, instance: u32, address: u64, bytes: u64, access: MapAccess) -> Result<(), Errno> {
        // SAFETY: as for `unmap_pages`.
        Errno::from_value(unsafe { self.0.protect_pages(instance, address, bytes, access) }).map(drop)
    }

    /// Moves the first bytes of a buffer of the arena, which the instance holds, to pages that it has mapped.
    pub fn move_in(&self, instance: u32, buffer: u64, address: u64, bytes: u64) -> Result<(), Errno> {
        assert_in_arena(buffer, bytes);
        // SAFETY: as for `unmap_pages`; the pages of the arena belong to the instance, and hold no trusted data.
        Errno::from_value(unsafe { self.0.move_in(instance, buffer, address, bytes) }).map(drop)
    }

    /// Moves bytes of such pages to committed pages of the arena. Whether these are a mapping of their own afterwards, which they
    /// become only if `remap` is true.
    pub fn move_out(&self, instance: u32, address: u64, buffer: u64, bytes: u64, remap: bool) -> Result<bool, Errno> {
        assert_in_arena(buffer, bytes);
        // SAFETY: as for `move_in`.
        let answer = unsafe { self.0.move_out(instance, address, buffer, bytes, remap.into()) };
        Errno::from_value(answer).map(|answer| answer == 1)
    }

    /// Replaces such pages by a private copy of constants of the instance's image.
    pub fn map_image(&self, instance: u32, address: u64, bytes: u64, source: u64) -> Result<(), Errno> {
        // SAFETY: as for `unmap_pages`; the visor compares the source with the image.
        Errno::from_value(unsafe { self.0.map_image(instance, address, bytes, source) }).map(drop)
    }

    /// Bytes of heap of an instance, and of what it has mapped.
    pub fn heap_size(&self, instance: u32) -> u64 {
        // SAFETY: no conditions.
        unsafe { self.0.heap_size(instance) }
    }

    /// The memory limit of an instance in bytes.
    pub fn memory_limit(&self, instance: u32) -> u64 {
        // SAFETY: no conditions.
        unsafe { self.0.memory_limit(instance) }
    }

    /// Whether the workflow lets an instance take the slot of this name, or fill it.
    pub fn slot_allowed(&self, instance: u32, name: &str, fills: bool) -> bool {
        // SAFETY: the name lives during the call.
        unsafe { self.0.slot_allowed(instance, name.as_ptr(), name.len(), fills.into()) == 1 }
    }

    /// The request that an instance handles, if it is a handler.
    pub fn handles(&self, instance: u32) -> Option<PerformId> {
        // SAFETY: no conditions.
        PerformId::from_raw(unsafe { self.0.handles(instance) })
    }

    /// The name of an instance that lives, for messages.
    pub fn instance_name(&self, instance: u32) -> String {
        let mut name = [0; WAITER_NAME_MAX];
        // SAFETY: it is writable for its size.
        let len = unsafe { self.0.instance_name(instance, name.as_mut_ptr(), name.len()) };
        let name = &name[..len.min(WAITER_NAME_MAX)];
        // A character at the end may have been cut.
        let whole = name.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        String::from(whole)
    }

    /// Charges bytes to an instance's memory limit.
    pub fn charge(&self, instance: u32, bytes: u64) -> Result<(), Errno> {
        // SAFETY: no conditions.
        Errno::from_value(unsafe { self.0.charge(instance, bytes as i64) }).map(drop)
    }

    /// Takes a charge back.
    pub fn refund(&self, instance: u32, bytes: u64) {
        // SAFETY: no conditions. A refund is never refused.
        unsafe { self.0.charge(instance, -(bytes as i64)) };
    }

    /// Calls another module's `number`: the value, and the scratch words.
    pub fn call(&self, number: u32, args: [u64; 6]) -> Result<(u64, [u64; 4]), Errno> {
        let mut call = Call::system(number, args);
        // SAFETY: the call lives until the other handler has returned.
        let value = unsafe { self.0.call(&raw mut call) };
        Errno::from_value(value).map(|value| (value, call.scratch))
    }

    /// The workflow's mount of this number, and where it is; `None` behind the last.
    pub fn mount(&self, index: u32) -> Option<(MountInfo, String)> {
        let mut info = MountInfo { kind: MountKind::Memory, read_only: 0, size: 0 };
        let mut point = vec![0; PATH_MAX];
        // SAFETY: both are writable for their sizes.
        let len = unsafe { self.0.mount(index, &raw mut info, point.as_mut_ptr(), point.len()) };
        point.truncate(Errno::from_value(len).ok()? as usize);
        Some((info, String::from_utf8(point).ok()?))
    }

    /// Whether the workflow lets an instance use a mount.
    pub fn mount_allowed(&self, instance: u32, index: u32) -> bool {
        // SAFETY: no conditions.
        unsafe { self.0.mount_allowed(instance, index) == 1 }
    }

    /// The bytes of the disk image behind a mount: mapped when they are first asked for, shared with the file or private to
    /// this domain, according to the workflow.
    pub fn image(&self, mount: u32) -> Result<Memory, Errno> {
        let mut len = 0;
        // SAFETY: it is writable.
        let address = unsafe { self.0.image_map(mount, &raw mut len) };
        let address = Errno::from_value(address)?;
        // SAFETY: the mapping is there for this module alone, which reaches it through `Memory` only.
        Ok(unsafe { Memory::new(*self, address, len) })
    }

    /// Writes the image behind a mount to the host's disk.
    pub fn image_sync(&self, mount: u32) -> Result<(), Errno> {
        // SAFETY: no conditions.
        Errno::from_value(unsafe { self.0.image_sync(mount) }).map(drop)
    }

    /// What distinguishes the file behind an image from others, and from itself after a change.
    pub fn image_identity(&self, mount: u32) -> Result<ImageIdentity, Errno> {
        let mut identity = ImageIdentity::default();
        // SAFETY: it is writable.
        Errno::from_value(unsafe { self.0.image_identity(mount, &raw mut identity) })?;
        Ok(identity)
    }

    /// Allocates blocks of the host's file system for a range of the image behind a mount, after a store there has failed.
    pub fn image_reserve(&self, mount: u32, offset: u64, len: u64) -> Result<(), Errno> {
        // SAFETY: no conditions.
        Errno::from_value(unsafe { self.0.image_reserve(mount, offset, len) }).map(drop)
    }

    /// Maps bytes of a file into an instance's cell; returns the first address.
    ///
    /// The bytes of the extents stay at their addresses, and belong to the file, until [`HostRef::unmap_file`] has returned or the
    /// instance's mappings have been taken back by the visor.
    pub fn map_file(&self, instance: u32, file: &FileToMap<'_>) -> Result<u64, Errno> {
        let request = file.request();
        // SAFETY: the request and what it leads to are readable.
        Errno::from_value(unsafe { self.0.map_file(instance, &raw const request) })
    }

    /// For the capture that is under way: the mapping at the file's address is compared with these bytes, which stay at their addresses
    /// during the call.
    pub fn compare_file(&self, instance: u32, file: &FileToMap<'_>) -> Result<(), Errno> {
        let request = file.request();
        // SAFETY: the request and what it leads to are readable.
        Errno::from_value(unsafe { self.0.compare_file(instance, &raw const request) }).map(drop)
    }

    /// Takes back the mapping of an instance that begins at an address.
    pub fn unmap_file(&self, instance: u32, address: u64) -> Result<(), Errno> {
        // SAFETY: no conditions.
        Errno::from_value(unsafe { self.0.unmap_file(instance, address) }).map(drop)
    }

    /// Announces how a part of that mapping will be used.
    pub fn advise_file(&self, instance: u32, address: u64, offset: u64, len: u64, advice: Advice) -> Result<(), Errno> {
        // SAFETY: no conditions.
        let status = unsafe { self.0.advise_file(instance, address, offset, len, advice) };
        Errno::from_value(status).map(drop)
    }

    /// Changes whether that mapping may be written to.
    pub fn protect_file(&self, instance: u32, address: u64, writable: bool) -> Result<(), Errno> {
        // SAFETY: no conditions.
        let status = unsafe { self.0.protect_file(instance, address, writable.into()) };
        Errno::from_value(status).map(drop)
    }

    /// Counts bytes that an instance published.
    pub fn count_published(&self, instance: u32, bytes: u64) {
        // SAFETY: no conditions.
        unsafe { self.0.passed(instance, bytes, 0) }
    }

    /// Counts bytes that an instance took.
    pub fn count_taken(&self, instance: u32, bytes: u64) {
        // SAFETY: no conditions.
        unsafe { self.0.passed(instance, bytes, 1) }
    }

    /// Makes whole pages of the arena readable and writable for functions; new ones read as zero.
    pub fn arena_commit(&self, address: u64, bytes: u64) -> Result<(), Errno> {
        assert_in_arena(address, bytes);
        // SAFETY: the range is the arena's, which holds no trusted data.
        Errno::from_value(unsafe { self.0.arena_commit(address, bytes) }).map(drop)
    }

    /// Transfers whole committed pages of the arena to an instance, or to [`monohull_abi::module::SYSTEM_INSTANCE`]. Whether pages of
    /// different owners are different mappings.
    pub fn arena_assign(&self, instance: u32, address: u64, bytes: u64) -> Result<bool, Errno> {
        assert_in_arena(address, bytes);
        // SAFETY: as for `arena_commit`.
        let answer = Errno::from_value(unsafe { self.0.arena_assign(instance, address, bytes) });
        answer.map(|answer| answer == 1)
    }

    /// Discards the memory of whole committed pages of the arena; they read as zero afterwards. After an error they may still hold
    /// what they held.
    pub fn arena_discard(&self, address: u64, bytes: u64) -> Result<(), Errno> {
        assert_in_arena(address, bytes);
        // SAFETY: as for `arena_commit`.
        Errno::from_value(unsafe { self.0.arena_discard(address, bytes) }).map(drop)
    }

    /// Replaces whole committed pages of the arena by new ones, which are zero and the system's.
    pub fn arena_renew(&self, address: u64, bytes: u64) -> Result<(), Errno> {
        assert_in_arena(address, bytes);
        // SAFETY: as for `arena_commit`.
        Errno::from_value(unsafe { self.0.arena_renew(address, bytes) }).map(drop)
    }

    /// Zeroes committed memory of the arena.
    ///
    /// Trusted code picks the range, functions may write there at the same moment. That is why this and
    /// [`HostRef::arena_copy`] go through the visor's copy routine: to the compiler the arena is no memory of this
    /// program, so there is no object to break and no data race.
    pub fn arena_zero(&self, address: u64, bytes: u64) -> Result<(), Errno> {
        assert_in_arena(address, bytes);
        let mut done = 0;
        while done < bytes {
            let step = (bytes - done).min(ZEROS.len() as u64);
            // SAFETY: the source is readable for `step` bytes; the target is the arena's, and holes are survived.
            let status = unsafe { self.0.write_user(address + done, ZEROS.as_ptr(), step as usize) };
            Errno::from_value(status)?;
            done += step;
        }
        Ok(())
    }

    /// Copies committed memory of the arena to other committed memory of the arena; the ranges do not overlap. `TimedOut` if the
    /// caller reaches its deadline first.
    pub fn arena_copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), Errno> {
        assert_in_arena(from, bytes);
        assert_in_arena(to, bytes);
        let mut done = 0;
        while done < bytes {
            if self.is_interrupted() {
                return Err(Errno::TimedOut);
            }
            let step = (bytes - done).min(COPIED_AT_ONCE);
            // SAFETY: both ranges are the arena's; see `arena_zero`. The caller has committed the source, so it is readable.
            let status = unsafe { self.0.write_user(to + done, (from + done) as *const u8, step as usize) };
            Errno::from_value(status)?;
            done += step;
        }
        Ok(())
    }

    /// Whether the call that is being served is to stop early, with an error: its caller has reached the deadline.
    pub fn is_interrupted(&self) -> bool {
        // SAFETY: the service asks for nothing.
        unsafe { self.0.interrupted() == 1 }
    }
}

/// Bytes of a long copy between two checks of the deadline.
const COPIED_AT_ONCE: u64 = 4 << 20;

/// What trusted code is about to change must be the arena's: anything else would be a bug of the module.
fn assert_in_arena(address: u64, bytes: u64) {
    let fits = (ARENA_BASE..=ARENA_END).contains(&address) && bytes <= ARENA_END - address;
    assert!(fits, "{bytes} bytes at {address:#x} do not lie in the arena");
}
