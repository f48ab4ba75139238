//! Checkpoints with changed fields, and what holds for each.

mod changes;
#[path = "../../../../checkpoint/tests/support/promises.rs"]
mod promises;
mod sections;

pub(crate) use changes::Random;
use monohull_checkpoint::{Checkpoint, Key, Trust, seal_bytes};
use monohull_domain::checkpoint::Continuation;
use monohull_domain::checkpoint::record::PageRun;
use monohull_engine::Ready;
use monohull_ipc::sealed_pages::read_pages;
use monohull_saved::{Engine, Saved};
use monohull_sys::sealed_bytes::SealedBytes;
use sections::Sections;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;

const KEY: Key = Key::new([7; 32]);

/// Seals it and reads it as one's own.
fn read(mut file: Vec<u8>, golden: &Path) -> Option<Saved<OwnedFd>> {
    // Without the number of a key and a seal, which it may have.
    for place in [40..48, 96..128] {
        file.get_mut(place)?.fill(0);
    }
    seal_bytes(&mut file, &KEY).ok()?;
    let plan = |document: &[u8], _: &Engine| {
        known(document, golden).map(|ready| ready.plan().as_ref().clone()).ok_or("no such workflow".to_owned())
    };
    Saved::from_bytes(file, Path::new("fuzzed"), &KEY, plan).ok()
}

/// What has been read, with a copy of its pages.
fn copied(saved: Saved<OwnedFd>) -> Saved {
    let bytes = SealedBytes::map(&saved.continuation).expect("it is sealed");
    let (record, placed) = read_pages::<Continuation<()>>(&bytes).expect("it was just written");
    let run = |(address, place): (u64, std::ops::Range<usize>)| PageRun { address, bytes: bytes[place].to_vec() };
    let continuation = record.map_pages(|()| placed.here.into_iter().map(run).collect());
    saved.with(|_| Ok::<_, ()>(continuation)).expect("nothing fails")
}

/// The workflow with this document, and its images: one of those whose checkpoints are in the folder.
fn known(document: &[u8], golden: &Path) -> Option<&'static Ready> {
    static KNOWN: OnceLock<Vec<(Vec<u8>, Ready)>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let files = fs::read_dir(golden).expect("it is there").map(|entry| entry.expect("an entry").path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "checkpoint"));
        let mut documents: Vec<Vec<u8>> = files
            .map(|path| {
                let bytes = fs::read(path).expect("readable");
                let read = Checkpoint::read(bytes.as_slice(), Trust::Unchecked).expect("it is good");
                read.contents().plan.clone()
            })
            .collect();
        documents.sort();
        documents.dedup();
        let ready = |document: Vec<u8>| {
            let checked = monohull_workflow::check_bytes(&golden.join("workflow.json"), &document);
            let plan = checked.into_plan().expect("a right workflow");
            (document, Ready::new(plan).expect("right images"))
        };
        documents.into_iter().map(ready).collect()
    });
    known.iter().find(|(own, _)| own == document).map(|(_, ready)| ready)
}

/// What became of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Outcome {
    /// It is no checkpoint of a suspended workflow.
    Unread,
    /// A process does not go on with it.
    Refused,
    /// One would go on with it, as far as it can tell without a domain.
    Accepted,
}

/// Reads a file as it is, and with hashes and a seal that fit. What is accepted can be captured and read again, and is the same then.
pub(crate) fn check(bytes: &[u8], golden: &Path) -> Outcome {
    promises::check(bytes);
    let mut file = bytes.to_vec();
    promises::repair(&mut file);
    let Some(saved) = read(file, golden).map(copied) else { return Outcome::Unread };
    let ready = known(&saved.document, golden).expect("otherwise it was refused");
    if ready.check(&saved.continuation).is_err() {
        return Outcome::Refused;
    }
    let again = saved.to_bytes(Path::new("forged"), &KEY).expect("what can be gone on with can be captured");
    let again = read(again, golden).map(copied).expect("what was written can be read");
    assert!(again.continuation == saved.continuation && again.engine == saved.engine, "it is not what was written");
    ready.check(&again.continuation).expect("it is the same");
    Outcome::Accepted
}

/// Another file, of at most so many bytes, with one to three changes of sections and fields, and with hashes that fit.
pub(crate) fn changed(file: &[u8], most: usize, random: &mut Random) -> Option<Vec<u8>> {
    let sections = Sections::of(file)?;
    // A field may not be of its kind any more.
    (0..8).find_map(|_| {
        let mut sections = sections.clone();
        (0..=random.below(3)).for_each(|_| changes::change(&mut sections, random));
        sections.to_file().filter(|changed| changed.len() <= most && changed != file)
    })
}
