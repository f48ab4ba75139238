//! Images as functions use them, through the descriptor table.

mod captured;
mod damage;
mod interrupted;
mod model;
mod plain;
mod tangled;
mod threads;

use lamfat::{FatType, FormatVolumeOptions, IoBase, Read, Seek, SeekFrom, Write};
use monohull_abi::file::{MountInfo, MountKind};
use monohull_fat::check::{Report, check};
use monohull_fat::{Error, Image};
use monohull_libos_fatfs::MONOHULL_MODULE;
use monohull_module_testing::Domain;

/// A calling instance.
const ME: u32 = 1;

/// What the library formats.
struct Memory(Vec<u8>, usize);

impl IoBase for Memory {
    type Error = ();
}

impl Read for Memory {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, ()> {
        to.copy_from_slice(&self.0[self.1..self.1 + to.len()]);
        self.1 += to.len();
        Ok(to.len())
    }
}

impl Write for Memory {
    fn write(&mut self, from: &[u8]) -> Result<usize, ()> {
        self.0[self.1..self.1 + from.len()].copy_from_slice(from);
        self.1 += from.len();
        Ok(from.len())
    }

    fn flush(&mut self) -> Result<(), ()> {
        Ok(())
    }
}

impl Seek for Memory {
    fn seek(&mut self, to: SeekFrom) -> Result<u64, ()> {
        self.1 = match to {
            SeekFrom::Start(to) => to as usize,
            SeekFrom::Current(by) => (self.1 as i64 + by) as usize,
            SeekFrom::End(by) => (self.0.len() as i64 + by) as usize,
        };
        Ok(self.1 as u64)
    }
}

/// An empty image of each kind, small enough to be filled.
fn formatted(kind: FatType) -> Vec<u8> {
    let (size, cluster) = match kind {
        FatType::Fat12 => (1 << 20, 512),
        FatType::Fat16 => (4 << 20, 512),
        FatType::Fat32 => (36 << 20, 512),
    };
    let mut memory = Memory(vec![0; size], 0);
    let options = FormatVolumeOptions::new().fat_type(kind).bytes_per_cluster(cluster);
    lamfat::format_volume(&mut memory, options).expect("it can be formatted");
    memory.0
}

/// A domain with files in memory at `/ram` and an image at `/fat`.
fn domain(image: Vec<u8>) -> Domain {
    let info = |kind, size| MountInfo { kind, read_only: 0, size };
    let mounts =
        vec![(info(MountKind::Memory, 64 << 20), "/ram".to_string()), (info(MountKind::Image, 0), "/fat".to_string())];
    let modules = [&MONOHULL_MODULE, &monohull_libos_fdtab::MONOHULL_MODULE, &monohull_libos_ramfs::MONOHULL_MODULE];
    let domain = Domain::with_mounts(&modules, mounts);
    domain.set_image(1, image);
    // 2026-11-20.
    domain.set_time(1, 1_795_132_800_000_000_000);
    domain
}

/// An image in memory.
struct Slice<'i>(&'i [u8]);

impl Image for Slice<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        let start = usize::try_from(offset).map_err(|_| Error::Bytes)?;
        let from = start.checked_add(to.len()).and_then(|end| self.0.get(start..end)).ok_or(Error::Bytes)?;
        to.copy_from_slice(from);
        Ok(())
    }
}

/// What is found in the image of a domain that ends.
fn checked(domain: Domain) -> Report {
    let image = closed(domain);
    check(&Slice(&image)).expect("it is an image")
}

/// The image of a domain that ends.
fn closed(domain: Domain) -> Vec<u8> {
    domain.close_image(1)
}
