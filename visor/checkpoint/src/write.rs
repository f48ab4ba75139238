//! Writing a checkpoint.

use crate::check;
use crate::error::Error;
use crate::hash::Hash;
use crate::header::{FORMAT, HEADER, Header};
use crate::key::KeyId;
use crate::pages::{Packing, Pages};
use crate::record::Contents;
use crate::section::{ENTRY, Entry, MANDATORY, SectionId};
use monohull_abi::layout::PAGE;
use serde::Serialize;
use std::io::{self, IoSlice, Write};

/// Slices that are passed to the kernel at once, at most (`IOV_MAX`).
const AT_ONCE: usize = 1024;

/// What has been written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Bytes of the file.
    pub bytes: u64,
    /// Its digest.
    pub digest: Hash,
    /// Pages that are stored.
    pub stored_pages: u64,
    /// Pages that were given with contents, and are zero.
    pub zero_pages: u64,
    /// Pages that were given, and are equal to another.
    pub same_pages: u64,
}

/// Writes a checkpoint, not sealed, from the file's beginning to its end. Refuses contents that a reader would refuse.
pub fn write(to: &mut impl Write, contents: &Contents, pages: &Pages<'_>, packing: Packing) -> Result<Written, Error> {
    let stored = pages.store(packing)?;
    check::check(contents, &stored.runs)?;

    let mut sections = sections_of(contents);
    sections.push((SectionId::Runs, record(&stored.runs)));
    sections.push((SectionId::Pages, stored.section()));
    sections.sort_by_key(|(id, _)| *id as u32);

    for (id, bytes) in &sections {
        if bytes.len() as u64 > id.most() {
            return Err(Error::TooLarge { section: *id, bytes: bytes.len() as u64 });
        }
    }
    let table_end = HEADER + sections.len() * ENTRY;
    let mut offset = table_end as u64;
    let mut table = Vec::with_capacity(sections.len() * ENTRY);
    for (id, bytes) in &sections {
        let entry = Entry {
            id: *id as u32,
            version: id.version(),
            flags: MANDATORY,
            offset,
            length: bytes.len() as u64,
            reserved: 0,
            hash: Hash::of(bytes),
        };
        table.extend_from_slice(&entry.encode());
        offset += bytes.len().next_multiple_of(8) as u64;
    }
    let pages_offset = match packing {
        Packing::Raw => offset.next_multiple_of(PAGE),
        Packing::Lz4 => offset,
    };
    let mut header = Header {
        format: FORMAT,
        length: HEADER as u16,
        sections: sections.len() as u32,
        file_bytes: pages_offset + stored.bytes(),
        pages_offset,
        pages_bytes: stored.bytes(),
        key: KeyId::NONE,
        reserved: [0; 16],
        digest: Hash([0; 32]),
        seal: [0; 32],
    };
    header.digest = header.digest_with(&table);

    let head = [&header.encode()[..], &table].concat();
    let zeros = [0; PAGE as usize];
    let mut slices = vec![IoSlice::new(&head)];
    for (_, bytes) in &sections {
        slices.push(IoSlice::new(bytes));
        slices.push(IoSlice::new(&zeros[..bytes.len().next_multiple_of(8) - bytes.len()]));
    }
    slices.push(IoSlice::new(&zeros[..(pages_offset - offset) as usize]));
    slices.extend(stored.pieces.iter().map(|page| IoSlice::new(page)));
    slices.push(IoSlice::new(&stored.packed));
    write_all(to, &mut slices).map_err(|source| Error::Io { doing: "writing it", source })?;
    Ok(Written {
        bytes: header.file_bytes,
        digest: header.digest,
        stored_pages: stored.hashes.len() as u64,
        zero_pages: stored.zeros,
        same_pages: stored.same,
    })
}

/// The sections of everything but pages.
fn sections_of(contents: &Contents) -> Vec<(SectionId, Vec<u8>)> {
    let Contents {
        identity,
        functions,
        instances,
        threads,
        scheduler,
        plan,
        engine,
        modules,
        handlers,
        registers,
        files,
        requests,
        chain,
    } = contents;
    let mut sections = vec![
        (SectionId::Identity, record(identity)),
        (SectionId::Functions, record(functions)),
        (SectionId::Instances, record(instances)),
        (SectionId::Threads, record(threads)),
        (SectionId::Scheduler, record(scheduler)),
        (SectionId::Plan, plan.clone()),
        (SectionId::Engine, record(engine)),
    ];
    sections.extend(modules.iter().map(|module| (SectionId::Module, record(module))));
    sections.extend((!handlers.is_empty()).then(|| (SectionId::Handlers, record(handlers))));
    sections.extend((!registers.is_empty()).then(|| (SectionId::Registers, record(registers))));
    sections.extend((!files.is_empty()).then(|| (SectionId::Files, record(files))));
    sections.extend(requests.as_ref().map(|requests| (SectionId::Requests, record(requests))));
    sections.extend(chain.as_ref().map(|chain| (SectionId::Chain, record(chain))));
    sections
}

fn record(record: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(record).unwrap_or_else(|_| unreachable!("records are plain data of known lengths"))
}

fn write_all(to: &mut impl Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    // Leading slices without bytes would look like a write that does nothing.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let at_once = slices.len().min(AT_ONCE);
        match to.write_vectored(&slices[..at_once]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
