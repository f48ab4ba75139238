//! Pins: other modules keep an instance's file open, and its bytes at their addresses.
//!
//! A module pins a file to read its bytes in place. A pin outlives the descriptor it was made with.

use crate::Files;
use crate::tables::Open;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use monohull_abi::Errno;
use monohull_abi::file::{FilePin, FileStat, FsOp, MountKind, PATH_MAX, TO_THE_END, open};
use monohull_abi::module::{Call, SYSTEM_INSTANCE};
use monohull_abi::user::{UserSlice, read_one, write_one};

/// All pins, by their numbers.
#[derive(Default)]
pub(crate) struct Pins {
    held: BTreeMap<u64, Pin>,
    last: u64,
}

impl Pins {
    /// A file that is pinned, if one is.
    pub(crate) fn first(&self) -> Option<&Open> {
        self.held.values().next().map(|pin| &*pin.open)
    }
}

struct Pin {
    open: Arc<Open>,
    /// The file system's number for the pin.
    inner: u64,
}

impl Files {
    /// Pins a part of a file of an instance.
    pub(crate) fn pin(&self, call: &mut Call) -> Result<u64, Errno> {
        let [instance, descriptor, request, ..] = call.args;
        if call.instance != SYSTEM_INSTANCE {
            return Err(Errno::NotPermitted);
        }
        let mut pin = read_one::<FilePin>(self.host.raw(), call, request)?;
        let open = self.tables.open(instance as u32, descriptor)?;
        let pinned = self.pin_open(call, &open, &mut pin);
        let pinned = pinned.and_then(|inner| {
            write_one(self.host.raw(), call, request, pin)?;
            Ok(inner)
        });
        match pinned {
            Ok(Some(inner)) => {
                let mut pins = self.pins.lock();
                pins.last += 1;
                let number = pins.last;
                pins.held.insert(number, Pin { open, inner });
                Ok(number)
            }
            Ok(None) => {
                self.release(open);
                Ok(0)
            }
            Err(errno) => {
                self.release(open);
                Err(errno)
            }
        }
    }

    /// The file system's pin; `None` if its extents do not fit.
    fn pin_open(&self, call: &Call, open: &Open, pin: &mut FilePin) -> Result<Option<u64>, Errno> {
        let (Some(mount), None) = (open.mount, &open.directory) else { return Err(Errno::IsDirectory) };
        if !open.has(open::READ) {
            return Err(Errno::BadDescriptor);
        }
        let mut stat = FileStat::default();
        self.mounts.request(FsOp::StatNode, mount, [open.node, &raw mut stat as u64, 0, 0, 0])?;
        let left = stat.size.checked_sub(pin.offset).ok_or(Errno::Invalid)?;
        match pin.len {
            TO_THE_END => pin.len = left,
            len if len > left => return Err(Errno::Invalid),
            _ => {}
        }
        let path = &open.path.as_bytes()[..open.path.len().min(PATH_MAX)];
        UserSlice::<u8>::new(pin.path, path.len() as u64).check(self.host.raw(), call)?.write(path)?;
        pin.path_len = path.len() as u64;
        pin.host_node = if self.mounts.get(mount).info.kind == MountKind::Host { open.node } else { 0 };
        let args = [open.node, pin.offset, pin.len, pin.extents, pin.room];
        let (count, scratch) = self.mounts.request(FsOp::Pin, mount, args)?;
        pin.count = count;
        Ok((count <= pin.room).then_some(scratch[0]))
    }

    pub(crate) fn unpin(&self, call: &mut Call) -> Result<u64, Errno> {
        if call.instance != SYSTEM_INSTANCE {
            return Err(Errno::NotPermitted);
        }
        let pin = self.pins.lock().held.remove(&call.args[0]).ok_or(Errno::Invalid)?;
        if let Some(mount) = pin.open.mount {
            // It fails only if the file system has failed as a whole.
            let _ = self.mounts.request(FsOp::Unpin, mount, [pin.open.node, pin.inner, 0, 0, 0]);
        }
        self.release(pin.open);
        Ok(0)
    }
}
