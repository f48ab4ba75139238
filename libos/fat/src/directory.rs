//! Directories: slots of 32 bytes, in an area of their own or in a chain.

use crate::name::{self, LongName};
use crate::{Error, Geometry, Image, Runs, decode_time, read_u16, runs};
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes of a slot.
pub(crate) const SLOT: u64 = 32;
/// Offset of a slot's flags for the case of its short name, and one flag of ours: the file has another name already, and this one was
/// about to go.
pub(crate) const FLAGS: u64 = 12;
pub(crate) const MOVED: u8 = 0x01;
/// Attributes of slots that are not names: a piece of a long name, or the volume's label.
pub(crate) const LONG: u8 = 0x0f;
pub(crate) const LABEL: u8 = 0x08;
/// No directory is longer than this.
pub(crate) const BYTES_MAX: u64 = 65536 * SLOT;
/// Bytes that are read together.
const BLOCK: u64 = 512;

/// One file or directory, as its parent has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its name: the long one, or the short one if there is no other.
    pub name: String,
    /// Its short name.
    pub short: String,
    /// Where its slot is in the image, after those of its long name.
    pub slot: u64,
    /// Where the slot with the beginning of its long name is, if it has one.
    pub long_slot: Option<u64>,
    /// It is a directory.
    pub directory: bool,
    /// It is marked as not to be written.
    pub read_only: bool,
    /// First cluster; 0 if it has none.
    pub cluster: u32,
    /// Bytes; of a directory 0.
    pub size: u64,
    /// When its bytes last changed, in ns since 1970.
    pub modified: i64,
    /// When it was made, in ns since 1970.
    pub created: i64,
}

/// What a path leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// The root directory.
    Root,
    /// Anything else.
    Entry(Entry),
}

impl Found {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        match self {
            Found::Root => true,
            Found::Entry(entry) => entry.directory,
        }
    }

    /// First cluster of a directory; 0 for a root with an area of its own.
    pub(crate) fn cluster(&self, geometry: &Geometry) -> Result<u32, Error> {
        match self {
            Found::Root => Ok(geometry.root_cluster),
            Found::Entry(entry) if entry.cluster == 0 => Err(Error::Damaged("a directory has no cluster")),
            Found::Entry(entry) => Ok(entry.cluster),
        }
    }
}

/// The slots of a directory, up to the first that was never used.
pub struct Slots<'i, I: ?Sized> {
    image: &'i I,
    place: Place,
    next: u64,
    block: [u8; BLOCK as usize],
    /// What `block` holds: offset in the directory.
    loaded: Option<u64>,
}

enum Place {
    Own { start: u64, len: u64 },
    Chain(Runs),
}

impl<'i, I: Image + ?Sized> Slots<'i, I> {
    /// Those of the directory that begins at `cluster`; 0 is a root with an area of its own.
    pub fn new(geometry: &Geometry, image: &'i I, cluster: u32) -> Result<Slots<'i, I>, Error> {
        let place = match cluster {
            0 => Place::Own { start: geometry.root_start, len: geometry.root_bytes },
            cluster => Place::Chain(runs(geometry, image, cluster)?),
        };
        Ok(Slots::at(image, place))
    }

    /// Those of a directory that has these clusters; none is a root with an area of its own.
    pub(crate) fn of(geometry: &Geometry, image: &'i I, clusters: &[u32]) -> Result<Slots<'i, I>, Error> {
        let place = match clusters {
            [] => Place::Own { start: geometry.root_start, len: geometry.root_bytes },
            clusters => Place::Chain(Runs::of(geometry, clusters)?),
        };
        Ok(Slots::at(image, place))
    }

    /// Those behind the first two, whatever is in these.
    pub(crate) fn behind_links(mut self) -> Slots<'i, I> {
        self.next = 2 * SLOT;
        self
    }

    fn at(image: &'i I, place: Place) -> Slots<'i, I> {
        Slots { image, place, next: 0, block: [0; BLOCK as usize], loaded: None }
    }

    /// Where the next slot is, in the directory.
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    /// Where a slot of the directory is in the image, used or not.
    pub(crate) fn offset(&self, at: u64) -> Option<u64> {
        match &self.place {
            Place::Own { start, len } => (at < *len).then_some(start + at),
            Place::Chain(runs) => runs.find(at).map(|(offset, _)| offset),
        }
    }

    /// Bytes of the directory, used or not.
    pub(crate) fn capacity(&self) -> u64 {
        match &self.place {
            Place::Own { len, .. } => *len,
            Place::Chain(runs) => runs.capacity(),
        }
    }

    /// The last cluster of a chain.
    pub(crate) fn last_cluster(&self) -> Option<u32> {
        match &self.place {
            Place::Own { .. } => None,
            Place::Chain(runs) => runs.last(),
        }
    }

    /// The next slot and its offset; `None` at the end.
    pub fn next_slot(&mut self) -> Result<Option<(u64, [u8; 32])>, Error> {
        let at = self.next;
        let Some(offset) = self.offset(at) else { return Ok(None) };
        if at >= BYTES_MAX && self.last_cluster().is_some() {
            return Err(Error::Damaged("a directory has too many entries"));
        }
        let block = at / BLOCK * BLOCK;
        if self.loaded != Some(block) {
            // Clusters are whole blocks, and so is a root directory.
            self.image.read(offset - at % BLOCK, &mut self.block)?;
            self.loaded = Some(block);
        }
        let start = (at % BLOCK) as usize;
        let mut slot = [0; 32];
        slot.copy_from_slice(&self.block[start..start + SLOT as usize]);
        if slot[0] == 0 {
            return Ok(None);
        }
        self.next += SLOT;
        Ok(Some((offset, slot)))
    }
}

/// The entries of a directory, without `.`, `..` and the volume's label.
pub fn entries<I: Image + ?Sized>(
    geometry: &Geometry,
    image: &I,
    directory: &Found,
    mut each: impl FnMut(Entry) -> bool,
) -> Result<(), Error> {
    let slots = Slots::new(geometry, image, directory.cluster(geometry)?)?;
    entries_of(geometry, slots, |_, _| true, |entry, _| each(entry))
}

/// The same, each with the offsets of all its slots.
pub(crate) fn entries_in_slots<I: Image + ?Sized>(
    geometry: &Geometry,
    slots: Slots<'_, I>,
    each: impl FnMut(Entry, &[u64]) -> bool,
) -> Result<(), Error> {
    entries_of(geometry, slots, |_, _| true, each)
}

/// Those of the entries that are wanted for their names: the long one, which may not be whole, and the slot of the short one.
fn entries_of<I: Image + ?Sized>(
    geometry: &Geometry,
    mut slots: Slots<'_, I>,
    wanted: impl Fn(&LongName, &[u8; 32]) -> bool,
    mut each: impl FnMut(Entry, &[u64]) -> bool,
) -> Result<(), Error> {
    let mut long = LongName::default();
    // Of the long name, whose pieces come last to first, and then of the short one.
    let mut places = Vec::new();
    while let Some((offset, slot)) = slots.next_slot()? {
        match slot {
            _ if slot[0] != 0xe5 && slot[11] & 0x3f == LONG => {
                places.push(offset);
                long.piece(&slot);
                continue;
            }
            [0xe5, ..] => long = LongName::default(),
            _ if slot[11] & LABEL != 0 || slot[0] == b'.' || !wanted(&long, &slot) => long = LongName::default(),
            _ => {
                let entry = entry(geometry, offset, &slot, long.take(&slot), places.last().copied());
                places.push(offset);
                if !each(entry, &places) {
                    return Ok(());
                }
            }
        }
        places.clear();
    }
    Ok(())
}

/// The slots of a directory with pieces of long names that belong to no short one.
pub(crate) fn stray_pieces<I: Image + ?Sized>(mut slots: Slots<'_, I>) -> Result<Vec<u64>, Error> {
    let mut long = LongName::default();
    let (mut stray, mut pieces) = (Vec::new(), Vec::new());
    while let Some((offset, slot)) = slots.next_slot()? {
        if slot[0] != 0xe5 && slot[11] & 0x3f == LONG {
            if slot[0] & LongName::FIRST != 0 {
                stray.append(&mut pieces);
            }
            pieces.push(offset);
            long.piece(&slot);
            continue;
        }
        let is_name = slot[0] != 0xe5 && slot[11] & LABEL == 0;
        if long.take(&slot).is_none() || !is_name {
            stray.append(&mut pieces);
        }
        pieces.clear();
    }
    stray.append(&mut pieces);
    Ok(stray)
}

fn entry(geometry: &Geometry, offset: u64, slot: &[u8; 32], long: Option<String>, before: Option<u64>) -> Entry {
    let u16_at = |at: usize| u16::from_le_bytes([slot[at], slot[at + 1]]);
    let short = name::short(slot);
    let directory = slot[11] & 0x10 != 0;
    let high = if geometry.root_bytes == 0 { u16_at(20) } else { 0 };
    let size = u32::from_le_bytes([slot[28], slot[29], slot[30], slot[31]]);
    Entry {
        long_slot: before.filter(|_| long.is_some()),
        name: long.unwrap_or_else(|| short.clone()),
        short,
        slot: offset,
        directory,
        read_only: slot[11] & 0x01 != 0,
        cluster: u32::from(high) << 16 | u32::from(u16_at(26)),
        size: if directory { 0 } else { size.into() },
        modified: decode_time(u16_at(24), u16_at(22)),
        created: decode_time(u16_at(16), u16_at(14)),
    }
}

impl Entry {
    /// The same entry with what its slot says now: those that have the file open change its size and its first cluster.
    pub fn again<I: Image + ?Sized>(&self, geometry: &Geometry, image: &I) -> Result<Entry, Error> {
        let mut slot = [0; SLOT as usize];
        image.read(self.slot, &mut slot)?;
        let now = entry(geometry, self.slot, &slot, Some(self.name.clone()), self.long_slot);
        Ok(Entry { long_slot: self.long_slot, ..now })
    }
}

/// The first cluster that the entry with this slot has; 0 for none.
pub fn first_cluster<I: Image + ?Sized>(geometry: &Geometry, image: &I, slot: u64) -> Result<u32, Error> {
    let high = if geometry.root_bytes == 0 { read_u16(image, slot + 20)? } else { 0 };
    Ok(u32::from(high) << 16 | u32::from(read_u16(image, slot + 26)?))
}

/// What has this name in a directory.
pub fn find_in<I: Image + ?Sized>(
    geometry: &Geometry,
    image: &I,
    directory: &Found,
    name: &str,
) -> Result<Entry, Error> {
    let slots = Slots::new(geometry, image, directory.cluster(geometry)?)?;
    find_with_slots(geometry, slots, name)?.map(|(entry, _)| entry).ok_or(Error::NotFound)
}

/// The same, with the offsets of its slots.
pub(crate) fn find_with_slots<I: Image + ?Sized>(
    geometry: &Geometry,
    slots: Slots<'_, I>,
    name: &str,
) -> Result<Option<(Entry, Vec<u64>)>, Error> {
    let mut found = None;
    let wanted = |long: &LongName, slot: &[u8; 32]| {
        long.is_in_order(slot) && name::same(long.chars(), name.chars()) || name::same_short(slot, name)
    };
    entries_of(geometry, slots, wanted, |entry, slots| {
        found = Some((entry, slots.to_vec()));
        false
    })?;
    Ok(found)
}

/// What a path leads to: names with a `/` between them; the root for none.
pub fn find<I: Image + ?Sized>(geometry: &Geometry, image: &I, path: &str) -> Result<Found, Error> {
    let mut found = Found::Root;
    // A walk through all directories would never end in a directory that contains itself.
    let mut above = Vec::new();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        if !found.is_directory() {
            return Err(Error::NotDirectory);
        }
        above.push(found.cluster(geometry)?);
        let entry = find_in(geometry, image, &found, name)?;
        if entry.directory && above.contains(&entry.cluster) {
            return Err(Error::Damaged("a directory lies in itself"));
        }
        found = Found::Entry(entry);
    }
    Ok(found)
}
