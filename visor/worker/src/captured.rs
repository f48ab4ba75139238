//! What is captured, as sealed memory between processes: [pages](monohull_ipc::sealed_pages) that are mapped or copied from there, and a record.
//!
//! | memory | record |
//! | --- | --- |
//! | a continuation | all of it but its pages |
//! | a template | its instances |
//!
//! Pages of a continuation may also be elsewhere, and are [asked for](super::later_pages) when they are touched.
//!
//! Nothing of it is trusted by its reader: each run of pages is checked where it is used, and so is each field of a record.

use monohull_domain::checkpoint::record::{InstanceRecord, PageRun};
use monohull_domain::checkpoint::{CapturedPages, Continuation, PageSource, TemplateMemory};
use monohull_ipc::sealed::sealed_size;
use monohull_ipc::sealed_pages::{PagesFile, Placed, read_pages, read_pages_from};
use monohull_sys::sealed_bytes::SealedBytes;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A file with these pages. They are dropped one run after the other: what is captured is a copy of the workflow's memory already.
fn file_of(runs: impl IntoIterator<Item = PageRun>) -> io::Result<PagesFile> {
    let mut file = PagesFile::new()?;
    for run in runs {
        let at = file.add(run.address, run.bytes.len() as u64);
        file.write(at, &run.bytes)?;
    }
    Ok(file)
}

/// A template: the instances of a continuation, and its pages.
pub(super) fn seal_template(made: Continuation) -> io::Result<OwnedFd> {
    file_of(made.pages)?.seal(&made.instances)
}

/// Decodes a template, whose pages stay where they are.
pub(super) fn read_template(file: OwnedFd) -> Result<TemplateMemory, String> {
    let bytes = SealedBytes::map(&file).map_err(|error| format!("the template: {error}"))?;
    let read = read_pages::<Vec<InstanceRecord>>(&bytes);
    let read = read.and_then(|(instances, placed)| Ok((instances, all_here(placed)?)));
    let (instances, runs) = read.map_err(|why| format!("the template cannot be used: {why}"))?;
    Ok(TemplateMemory::new(instances, CapturedPages::in_file(file, bytes, runs)))
}

/// A continuation as sealed memory.
pub fn seal_continuation(continuation: Continuation) -> io::Result<OwnedFd> {
    let mut pages = Vec::new();
    let record = continuation.map_pages(|runs| pages = runs);
    file_of(pages)?.seal(&record)
}

/// Decodes a continuation, which may come from anywhere: what it says is checked when the domain is rebuilt. Its pages stay where they
/// are, and are mapped from there where that is less work. Those that are elsewhere come from `later`, and may stay there if that says so.
pub fn read_continuation(
    file: OwnedFd,
    later: Option<(Arc<dyn PageSource>, bool)>,
) -> Result<Continuation<CapturedPages>, String> {
    let bytes = SealedBytes::map(&file).map_err(|error| format!("the continuation: {error}"))?;
    let read = read_pages::<Continuation<()>>(&bytes);
    let placed = read.and_then(|(record, placed)| match &later {
        Some(_) => Ok((record, placed)),
        None => Ok((record, Placed { here: all_here(placed)?, elsewhere: Vec::new() })),
    });
    let (record, Placed { here, elsewhere }) =
        placed.map_err(|why| format!("the continuation cannot be used: {why}"))?;
    let pages = CapturedPages::in_file(file, bytes, here);
    Ok(record.map_pages(|()| match later {
        Some((source, may_leave)) => pages.and_later(elsewhere, source, may_leave),
        None => pages,
    }))
}

/// Where runs are none of which is elsewhere.
fn all_here(placed: Placed) -> Result<Vec<(u64, Range<usize>)>, String> {
    match placed.elsewhere.is_empty() {
        true => Ok(placed.here),
        false => Err("it lacks pages".to_owned()),
    }
}

/// The same with a copy of its pages, if it has no more than so many bytes.
pub fn copy_continuation(file: impl AsFd, most: u64) -> io::Result<Continuation> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let size = sealed_size(file.as_fd())?;
    if size > most {
        return Err(wrong(format!("{size} bytes were sent where at most {most} are taken")));
    }
    let file = File::from(file.as_fd().try_clone_to_owned()?);
    let (record, placed) = read_pages_from::<Continuation<()>>(&file).map_err(wrong)?;
    let runs = all_here(placed).map_err(wrong)?;
    let copy = |(address, range): (u64, Range<usize>)| {
        let mut bytes = vec![0; range.len()];
        file.read_exact_at(&mut bytes, range.start as u64)?;
        Ok(PageRun { address, bytes })
    };
    let pages = runs.into_iter().map(copy).collect::<io::Result<_>>()?;
    Ok(record.map_pages(|()| pages))
}

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_abi::layout::PAGE;
    use monohull_domain::checkpoint::record::SchedulerRecord;
    use monohull_ipc::sealed::{read_sealed, seal};
    use nix::sys::memfd::{MFdFlags, memfd_create};

    /// One without instances, with runs at these addresses of so many pages.
    fn continuation(runs: &[(u64, u64)]) -> Continuation {
        let run =
            |(address, pages): &(u64, u64)| PageRun { address: *address, bytes: vec![7; (pages * PAGE) as usize] };
        Continuation {
            lineage: Default::default(),
            clock: 1,
            wall: 2,
            run_deadline: Some(3),
            started: 4,
            instances: Vec::new(),
            pending: vec![(5, 1)],
            scheduler: SchedulerRecord::default(),
            modules: Vec::new(),
            driver: vec![6],
            pages: runs.iter().map(run).collect(),
            unchanged: vec![(0x20_0000, PAGE)],
            touched: vec![(0x1000, PAGE)],
        }
    }

    #[test]
    fn a_continuation_is_what_it_was() {
        for runs in [&[][..], &[(0x1000, 1)], &[(0x1000, 3), (0x8000, 1), (0x10_0000, 20)]] {
            let file = seal_continuation(continuation(runs)).expect("sealed");
            let size = read_sealed(&file, u64::MAX).expect("its bytes").len() as u64;
            assert_eq!(copy_continuation(&file, size).expect("a continuation"), continuation(runs));
            copy_continuation(&file, size - 1).expect_err("it has more bytes");
            read_continuation(file, None).expect("a continuation");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let template = || seal_template(continuation(&[(0x1000, 2)])).expect("sealed");
        read_template(template()).expect("a template");
        read_continuation(template(), None).expect_err("it is a template");
        let good = read_sealed(template(), u64::MAX).expect("its bytes");
        for bytes in [&good[1..], &good[..good.len() - 1], b""] {
            read_template(seal(bytes, 0).expect("sealed")).expect_err("it is damaged");
        }
    }

    #[test]
    fn memory_that_may_change_is_refused() {
        let file = memfd_create(c"test", MFdFlags::MFD_CLOEXEC).expect("a file");
        copy_continuation(&file, u64::MAX).expect_err("it is not sealed");
        read_continuation(file.try_clone().expect("a descriptor"), None).expect_err("it is not sealed");
        read_template(file).expect_err("it is not sealed");
    }
}
