//! The boot sector: where everything is.

use crate::{Error, Image};

/// Bits of a cluster number in the FAT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Fewer than 4085 clusters.
    Fat12,
    /// Fewer than 65525.
    Fat16,
    /// More.
    Fat32,
}

/// The FAT entry of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FatEntry {
    /// It is free.
    Free,
    /// The chain goes on here.
    Next(u32),
    /// The chain ends here.
    End,
    /// It cannot be used.
    Bad,
}

/// Offsets in an image. All have been compared with its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bits of the FAT.
    pub kind: Kind,
    /// Bytes of a cluster: a power of two.
    pub cluster_size: u64,
    /// How many clusters there are; their numbers begin at 2.
    pub clusters: u32,
    /// First byte of the first FAT.
    pub fat_start: u64,
    /// Bytes of each FAT.
    pub fat_bytes: u64,
    /// How many copies of the FAT there are.
    pub fats: u64,
    /// First byte of the root directory, if it lies in an area of its own.
    pub root_start: u64,
    /// Bytes of the root directory there; 0 if it is a chain.
    pub root_bytes: u64,
    /// First cluster of the root directory, if it is a chain.
    pub root_cluster: u32,
    /// First byte of cluster 2.
    pub data_start: u64,
    /// Offset of the free-cluster count, if there is one.
    pub info: Option<u64>,
}

/// The first cluster's number.
pub(crate) const FIRST: u32 = 2;

impl Geometry {
    /// The value that ends a chain, whatever the bits of the FAT.
    pub(crate) const END: u32 = 0x0fff_ffff;

    /// Reads the boot sector.
    pub fn read<I: Image + ?Sized>(image: &I) -> Result<Geometry, Error> {
        let mut boot = [0; 512];
        if image.len() < 512 {
            return Err(Error::NotFat("it is shorter than a boot sector"));
        }
        image.read(0, &mut boot)?;
        let u16_at = |at: usize| u64::from(u16::from_le_bytes([boot[at], boot[at + 1]]));
        let u32_at = |at: usize| u64::from(u32::from_le_bytes([boot[at], boot[at + 1], boot[at + 2], boot[at + 3]]));
        if boot[510..] != [0x55, 0xaa] {
            return Err(Error::NotFat("the boot sector's signature is missing"));
        }
        let sector = u16_at(11);
        if !sector.is_power_of_two() || !(512..=4096).contains(&sector) {
            return Err(Error::NotFat("the sector size is invalid"));
        }
        let per_cluster = u64::from(boot[13]);
        if !per_cluster.is_power_of_two() {
            return Err(Error::NotFat("the cluster size is invalid"));
        }
        let reserved = u16_at(14);
        let fats = u64::from(boot[16]);
        if reserved == 0 || !(1..=2).contains(&fats) {
            return Err(Error::NotFat("there is no room for the FAT"));
        }
        let root_bytes = (u16_at(17) * 32).next_multiple_of(sector);
        let sectors = if u16_at(19) != 0 { u16_at(19) } else { u32_at(32) };
        let fat_sectors = if u16_at(22) != 0 { u16_at(22) } else { u32_at(36) };
        let fat_start = reserved * sector;
        let fat_bytes = fat_sectors * sector;
        let root_start = fat_start + fats * fat_bytes;
        let data_start = root_start + root_bytes;
        let end = sectors * sector;
        if end > image.len() {
            return Err(Error::NotFat("it is shorter than its boot sector declares"));
        }
        let cluster_size = per_cluster * sector;
        let Some(clusters) = end.checked_sub(data_start).map(|bytes| bytes / cluster_size).filter(|count| *count > 0)
        else {
            return Err(Error::NotFat("there is no room for data"));
        };
        let kind = match clusters {
            ..4085 => Kind::Fat12,
            4085..65525 => Kind::Fat16,
            _ => Kind::Fat32,
        };
        let needed = match kind {
            Kind::Fat12 => ((clusters + 2) * 3).div_ceil(2),
            Kind::Fat16 => (clusters + 2) * 2,
            Kind::Fat32 => (clusters + 2) * 4,
        };
        let clusters = u32::try_from(clusters).ok().filter(|clusters| *clusters < 0x0fff_fff0);
        let clusters = clusters.filter(|_| needed <= fat_bytes).ok_or(Error::NotFat("the FAT is too small"))?;
        let is_32 = kind == Kind::Fat32;
        if is_32 != (root_bytes == 0) {
            return Err(Error::NotFat("the root directory has no room"));
        }
        // Only the first FAT is read, and every change is made in all of them.
        let (unmirrored, active) = (u16_at(40) & 0x80 != 0, u16_at(40) & 0xf);
        if is_32 && unmirrored && active != 0 {
            return Err(Error::NotFat("its FATs are not copies of each other"));
        }
        let info_sector = u16_at(48);
        let info = (is_32 && (1..reserved).contains(&info_sector)).then_some(info_sector * sector + 488);
        let root_cluster = if is_32 { u32_at(44) as u32 } else { 0 };
        Ok(Geometry {
            kind,
            cluster_size,
            clusters,
            fat_start,
            fat_bytes,
            fats,
            root_start,
            root_bytes,
            root_cluster,
            data_start,
            info,
        })
    }

    /// Whether a cluster of this number exists.
    pub fn has(&self, cluster: u32) -> bool {
        (FIRST..FIRST + self.clusters).contains(&cluster)
    }

    /// First byte of a cluster.
    pub fn offset(&self, cluster: u32) -> Result<u64, Error> {
        match self.has(cluster) {
            true => Ok(self.data_start + u64::from(cluster - FIRST) * self.cluster_size),
            false => Err(Error::Damaged("a chain leads to a cluster that does not exist")),
        }
    }

    /// The cluster that a byte lies in; none before the first.
    pub(crate) fn at(&self, offset: u64) -> Option<u32> {
        let index = offset.checked_sub(self.data_start)? / self.cluster_size;
        u32::try_from(index).ok()?.checked_add(FIRST).filter(|cluster| self.has(*cluster))
    }

    /// Offset of a cluster's entry in the first FAT.
    pub fn entry_offset(&self, cluster: u32) -> u64 {
        let cluster = u64::from(cluster);
        self.fat_start
            + match self.kind {
                Kind::Fat12 => cluster + cluster / 2,
                Kind::Fat16 => cluster * 2,
                Kind::Fat32 => cluster * 4,
            }
    }

    /// Bytes that an entry is read and written with.
    pub fn entry_len(&self) -> usize {
        if self.kind == Kind::Fat32 { 4 } else { 2 }
    }

    /// The bits of a cluster's entry in the first FAT.
    pub fn value<I: Image + ?Sized>(&self, image: &I, cluster: u32) -> Result<u32, Error> {
        let mut bytes = [0; 4];
        image.read(self.entry_offset(cluster), &mut bytes[..self.entry_len()])?;
        let value = u32::from_le_bytes(bytes);
        Ok(match self.kind {
            Kind::Fat12 if cluster.is_multiple_of(2) => value & 0xfff,
            Kind::Fat12 => value >> 4,
            Kind::Fat16 => value,
            Kind::Fat32 => value & 0x0fff_ffff,
        })
    }

    /// The bytes of an entry with another value; what does not belong to it stays.
    pub fn with_value(&self, bytes: [u8; 4], cluster: u32, value: u32) -> [u8; 4] {
        let old = u32::from_le_bytes(bytes);
        let new = match self.kind {
            Kind::Fat12 if cluster.is_multiple_of(2) => old & 0xf000 | value & 0xfff,
            Kind::Fat12 => old & 0x000f | value << 4,
            Kind::Fat16 => value,
            Kind::Fat32 => old & 0xf000_0000 | value & 0x0fff_ffff,
        };
        new.to_le_bytes()
    }

    /// A cluster's entry in the first FAT.
    pub fn entry<I: Image + ?Sized>(&self, image: &I, cluster: u32) -> Result<FatEntry, Error> {
        let value = self.value(image, cluster)?;
        Ok(match value {
            0 => FatEntry::Free,
            value if self.is_end(value) => FatEntry::End,
            value if value == self.end() - 1 => FatEntry::Bad,
            value => FatEntry::Next(value),
        })
    }

    /// Whether a cluster with this entry is its chain's last.
    pub(crate) fn is_end(&self, value: u32) -> bool {
        value >= self.end()
    }

    fn end(&self) -> u32 {
        match self.kind {
            Kind::Fat12 => 0xff8,
            Kind::Fat16 => 0xfff8,
            Kind::Fat32 => 0x0fff_fff8,
        }
    }

    /// Offset of the byte whose lowest bit is the dirty flag.
    pub fn dirty_flag(&self) -> u64 {
        if self.kind == Kind::Fat32 { 0x41 } else { 0x25 }
    }
}
