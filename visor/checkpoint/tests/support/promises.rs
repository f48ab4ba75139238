//! What holds for any file: for the fuzz target and for the files that it keeps.

use monohull_checkpoint::{Chain, Checkpoint, Content, Hash, Heat, Packing, Pages, Trust, compare, write};
use std::io;

/// A page.
const PAGE: usize = 4096;

/// Reads a file as it is, and with hashes that fit, as one would make them who edits a file and has no key. It is refused,
/// or it says something that can be written again.
pub(crate) fn check(file: &[u8]) {
    let _ = Checkpoint::read(file, Trust::Unchecked).map(|read| read.verify_pages());
    let mut file = file.to_vec();
    repair(&mut file);
    let Ok(read) = Checkpoint::read(file.as_slice(), Trust::Unchecked) else { return };
    if read.verify_pages().is_err() {
        return;
    }
    assert!(compare(&read, &read).changes.is_empty(), "it differs from itself");
    chained(&file);

    let stored = read.stored_pages();
    let mut contents = vec![0; stored as usize * PAGE];
    read.read_pages(0, &mut contents).expect("its pages were verified");
    let mut pages = Pages::new();
    for run in read.runs() {
        match run.content {
            Content::Zero => pages.zero(run.address, run.count),
            Content::Base => pages.base(run.address, run.count),
            Content::Parent => pages.parent(run.address, run.count),
            Content::Here { stored } => {
                let bytes = &contents[stored as usize * PAGE..(stored + run.count) as usize * PAGE];
                pages.here(run.address, bytes, Heat::Rest)
            }
        }
        .expect("it was read");
    }
    let mut again = Vec::new();
    write(&mut again, read.contents(), &pages, Packing::Raw).expect("what was read can be written");
    let again = Checkpoint::read(again.as_slice(), Trust::NotSealed).expect("what was written can be read");
    assert!(again.contents() == read.contents());
    again.verify_pages().expect("pages were written as they were");
}

/// The file as its own parent, and with none: it is refused, or has all its pages, each in a checkpoint.
fn chained(file: &[u8]) {
    let read = |open: &dyn Fn(&str) -> io::Result<_>| Chain::read(file, Trust::Unchecked, open);
    for open in [&(|_: &str| Ok(file)) as &dyn Fn(&str) -> _, &|_: &str| Err(io::ErrorKind::NotFound.into())] {
        let Ok(chain) = read(open) else { continue };
        let (pages, pieces) = (chain.newest().runs().iter(), chain.pieces().iter());
        assert!(pages.map(|run| run.count).sum::<u64>() == pieces.map(|piece| piece.run.count).sum::<u64>());
        let parents = chain.pieces().iter().any(|piece| piece.run.content == Content::Parent);
        assert!(!(chain.is_whole() && parents), "it is whole, and a page is not there");
    }
}

/// Sets the number of bytes, the hash of each section and the digest to what they must be, as far as the table can be read.
pub(crate) fn repair(file: &mut [u8]) {
    let word = |file: &[u8], at: usize| {
        file.get(at..at + 8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
    };
    let Some(count) = word(file, 8).map(|word| (word >> 32) as usize).filter(|count| *count <= 256) else { return };
    let end = 128 + count * 64;
    if file.len() < end {
        return;
    }
    let length = file.len() as u64;
    file[16..24].copy_from_slice(&length.to_le_bytes());
    for entry in (128..end).step_by(64) {
        let (Some(offset), Some(bytes)) = (word(file, entry + 8), word(file, entry + 16)) else { return };
        let range = usize::try_from(offset).ok().zip(usize::try_from(offset.saturating_add(bytes)).ok());
        let Some(section) = range.and_then(|(start, end)| file.get(start..end)) else { continue };
        let hash = Hash::of(section).0;
        file[entry + 32..entry + 64].copy_from_slice(&hash);
    }
    let digest = Hash::of(&[&file[..40], &file[128..end]].concat());
    file[64..96].copy_from_slice(&digest.0);
}
