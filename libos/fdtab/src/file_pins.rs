//! Pins: other modules keep an instance's file open, and its bytes at their addresses.
//!
//! A module pins a file to read its bytes in place. A pin outlives the descriptor it was made with.

use crate::Files;
use crate::tables::Open;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use monohull_abi::Errno;
use monohull_abi::file::{FilePin, FileStat, FsOp, MountKind, PATH_MAX, TO_THE_END, open};
use monohull_abi::layout::{CELL_SIZE, MAPPINGS_OFFSET};
use monohull_abi::module::{Call, SYSTEM_INSTANCE};
use monohull_abi::user::{UserSlice, read_one, write_one};

/// All pins, by their numbers.
#[derive(Default)]
pub(crate) struct Pins {
    held: BTreeMap<u64, Pin>,
    last: u64,
}

/// A part of an instance's file.
#[derive(Clone)]
pub(crate) struct Pin {
    pub(crate) instance: u32,
    pub(crate) open: Arc<Open>,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// The file system's number for the pin. A pin of a captured domain has none: it is there for its module to pin its file again.
    inner: Option<u64>,
}

impl Pins {
    /// The pins of an instance, by their numbers.
    pub(crate) fn of(&self, instance: u32) -> impl Iterator<Item = (u64, &Pin)> {
        let theirs = self.held.iter().filter(move |(_, pin)| pin.instance == instance);
        theirs.map(|(number, pin)| (*number, pin))
    }

    /// Takes over a pin of a captured domain; false if another one has its number.
    pub(crate) fn take_over(&mut self, number: u64, instance: u32, open: Arc<Open>, (offset, len): (u64, u64)) -> bool {
        if number == 0 || number > LAST_MAX || self.held.contains_key(&number) {
            return false;
        }
        self.last = self.last.max(number);
        self.held.insert(number, Pin { instance, open, offset, len, inner: None });
        true
    }

    /// Removes a pin that was taken over, and that no module has pinned again, of an instance that has ended.
    fn pop_taken_over(&mut self, instance: u32) -> Option<Pin> {
        let (number, _) = self.of(instance).find(|(_, pin)| pin.inner.is_none())?;
        self.held.remove(&number)
    }
}

/// Numbers of pins stay below this.
const LAST_MAX: u64 = 1 << 62;

impl Files {
    /// Pins a part of a file of an instance.
    pub(crate) fn pin(&self, call: &mut Call) -> Result<u64, Errno> {
        let [instance, descriptor, request, before, ..] = call.args;
        if call.instance != SYSTEM_INSTANCE {
            return Err(Errno::NotPermitted);
        }
        let mut pin = read_one::<FilePin>(self.host.raw(), call, request)?;
        let instance = instance as u32;
        let open = match before {
            0 => self.tables.open(instance, descriptor)?,
            before => {
                let pins = self.pins.lock();
                let known = pins.held.get(&before).filter(|pin| pin.instance == instance).ok_or(Errno::Invalid)?;
                (pin.offset, pin.len) = (known.offset, known.len);
                known.open.clone()
            }
        };
        let pinned = self.pin_open(call, &open, &mut pin, before != 0);
        let pinned = pinned.and_then(|inner| {
            write_one(self.host.raw(), call, request, pin)?;
            Ok(inner)
        });
        match pinned {
            Ok(Some(inner)) => {
                let mut pins = self.pins.lock();
                pins.last += 1;
                let number = pins.last;
                let FilePin { offset, whole: len, .. } = pin;
                pins.held.insert(number, Pin { instance, open, offset, len, inner: Some(inner) });
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

    /// The file system's pin; `None` if its extents do not fit. `again`: of the part what the file has now.
    fn pin_open(&self, call: &Call, open: &Open, pin: &mut FilePin, again: bool) -> Result<Option<u64>, Errno> {
        let (Some(mount), None) = (open.mount, &open.directory) else { return Err(Errno::IsDirectory) };
        if !open.has(open::READ) {
            return Err(Errno::BadDescriptor);
        }
        let is_hosts = self.mounts.get(mount).info.kind == MountKind::Host;
        let mut stat = FileStat::default();
        self.mounts.request(FsOp::StatNode, mount, [open.node, &raw mut stat as u64, 0, 0, 0])?;
        let mut offset = pin.offset;
        if again {
            pin.whole = pin.len;
            if !is_hosts {
                offset = offset.min(stat.size);
                pin.len = pin.len.min(stat.size - offset);
            }
        } else {
            let left = stat.size.checked_sub(offset).ok_or(Errno::Invalid)?;
            match pin.len {
                TO_THE_END => pin.len = left,
                len if len > left => return Err(Errno::Invalid),
                _ => {}
            }
            pin.whole = pin.len;
        }
        // No more can be mapped, so it is not looked at.
        if pin.len > CELL_SIZE - MAPPINGS_OFFSET {
            return Err(Errno::NoSpace);
        }
        let path = &open.path.as_bytes()[..open.path.len().min(PATH_MAX)];
        UserSlice::<u8>::new(pin.path, path.len() as u64).check(self.host.raw(), call)?.write(path)?;
        pin.path_len = path.len() as u64;
        pin.host_node = if is_hosts { open.node } else { 0 };
        let args = [open.node, offset, pin.len, pin.extents, pin.room];
        let (count, scratch) = self.mounts.request(FsOp::Pin, mount, args)?;
        pin.count = count;
        Ok((count <= pin.room).then_some(scratch[0]))
    }

    pub(crate) fn unpin(&self, call: &mut Call) -> Result<u64, Errno> {
        if call.instance != SYSTEM_INSTANCE {
            return Err(Errno::NotPermitted);
        }
        let pin = self.pins.lock().held.remove(&call.args[0]).ok_or(Errno::Invalid)?;
        self.drop_pin(pin);
        Ok(0)
    }

    fn drop_pin(&self, pin: Pin) {
        if let (Some(mount), Some(inner)) = (pin.open.mount, pin.inner) {
            // It fails only if the file system has failed as a whole.
            let _ = self.mounts.request(FsOp::Unpin, mount, [pin.open.node, inner, 0, 0, 0]);
        }
        self.release(pin.open);
    }

    /// Drops what was taken over of an instance that has ended, for which no module has come.
    pub(crate) fn drop_taken_over(&self, instance: u32) {
        loop {
            let pin = self.pins.lock().pop_taken_over(instance);
            match pin {
                Some(pin) => self.drop_pin(pin),
                None => break,
            }
        }
    }
}
