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

use monohull_abi::effect::PERFORMS_TOGETHER;
use monohull_abi::layout::PAGE;
use monohull_abi::record::RECORD_MAX;
use monohull_domain::checkpoint::record::{InstanceRecord, PageRun};
use monohull_domain::checkpoint::{CapturedPages, Continuation, PageSource, TemplateMemory};
use monohull_ipc::sealed::sealed_size;
use monohull_ipc::sealed_pages::{Most, PagesFile, Placed, read_pages, read_pages_from};
use monohull_sys::sealed_bytes::SealedBytes;
use monohull_workflow::Plan;
use monohull_workflow::plan::{Access, MountSource, Step};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

/// What the kernel counts the room of a file in, in bytes.
const BLOCK: u64 = 512;

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

/// How much is taken of a continuation from a worker, which may be in the wrong hands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// All its bytes.
    pub bytes: u64,
    /// Those of its record.
    pub record: Most,
}

impl Bounds {
    /// No bounds.
    pub const NONE: Bounds = Bounds { bytes: u64::MAX, record: Most::ANY };

    /// What the rest of a run of this plan may have: its limits bound memory, slots, files in memory and printed lines.
    pub fn of(plan: &Plan) -> Bounds {
        /// Bytes of a record whatever the plan.
        const RECORD: u64 = 64 << 20;
        /// Bytes in it for an instance.
        const OF_INSTANCE: u64 = 64 << 10;
        /// Bytes in it for one that was printed: a control character is six in JSON.
        const OF_PRINTED: u64 = 6;
        /// For so many bytes of memory there is one in the record: for its pages, each of which may be alone, and its threads.
        const MEMORY_OF_BYTE: u64 = 64;
        /// Numbers, whatever the plan: a thread that was interrupted has some 200 bytes of them.
        const ENTRIES: u64 = 16 << 20;
        /// A page that is alone has an address and a length, in the list of what is there and in that of what was touched.
        const MEMORY_OF_ENTRY: u64 = 256;
        /// A line costs so many bytes of output besides its text, and has three bytes of numbers.
        const OUTPUT_OF_ENTRY: u64 = 8;

        let most = |step: &Step| match step.handles {
            // One for each request, and those whose replies are not taken yet.
            Some(_) => 2 * PERFORMS_TOGETHER as u64,
            None => u64::from(step.instances.most()),
        };
        let of_step = |step: &Step| most(step).saturating_mul(step.memory.saturating_add(step.stack));
        let instances = plan.steps.iter().map(most).fold(0, u64::saturating_add);
        let memory = plan.steps.iter().map(of_step).fold(plan.limits.slots, u64::saturating_add);
        let files = plan.files.iter().map(|mount| files_of(&mount.source)).fold(0, u64::saturating_add);
        let in_memory = plan.files.iter().map(|mount| match mount.source {
            MountSource::Memory { size } => size,
            _ => 0,
        });
        let pages = in_memory.fold(memory, u64::saturating_add);
        let output = instances.saturating_mul(plan.limits.output);
        let printed = output.saturating_mul(OF_PRINTED);
        let parts = [RECORD, instances.saturating_mul(OF_INSTANCE), pages / MEMORY_OF_BYTE, files, printed];
        let record = parts.into_iter().fold(0, u64::saturating_add);
        let entries = ENTRIES.saturating_add(pages / MEMORY_OF_ENTRY).saturating_add(output / OUTPUT_OF_ENTRY);
        Bounds { bytes: memory.saturating_add(record), record: Most { bytes: record, entries } }
    }
}

/// The most bytes that a file system has in a continuation: the record that its module writes, and pages.
fn files_of(source: &MountSource) -> u64 {
    match source {
        // What they contain is in pages beside the record, and names are in it: all is charged for, to the same limit.
        MountSource::Memory { size } => *size,
        // What a run has changed of it.
        MountSource::Image { path, access: Access::Copy } => std::fs::metadata(path).map_or(0, |image| image.len()),
        // An image that is the operator's, as a rule resolved before.
        MountSource::Granted { access, .. } if *access != Some(Access::Read) => RECORD_MAX,
        MountSource::Image { .. } | MountSource::Directory { .. } | MountSource::Granted { .. } => 0,
    }
}

/// What a continuation has besides its pages. It is of a file whose seal is good, and so what a capture has left.
pub fn read_record(file: impl AsFd) -> Result<Continuation<()>, String> {
    let file = file.as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    read_pages_from::<Continuation<()>>(&File::from(file), Most::ANY).map(|(record, _)| record)
}

/// The same with a copy of its pages, if it has no more than that.
pub fn copy_continuation(file: impl AsFd, most: Bounds) -> io::Result<Continuation> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let size = sealed_size(file.as_fd())?;
    if size > most.bytes {
        return Err(wrong(format!("{size} bytes were sent where at most {} are taken", most.bytes)));
    }
    let file = File::from(file.as_fd().try_clone_to_owned()?);
    // A page that is not there costs its sender nothing, and memory here.
    let there = file.metadata()?.blocks().saturating_mul(BLOCK);
    if size > there.saturating_add(PAGE) {
        return Err(wrong(format!("{size} bytes were sent of which only {there} are there")));
    }
    let (record, placed) = read_pages_from::<Continuation<()>>(&file, most.record).map_err(wrong)?;
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
    use monohull_domain::checkpoint::record::{RequestsRecord, SchedulerRecord};
    use monohull_ipc::sealed::{read_sealed, seal, seal_written};
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
            requests: RequestsRecord { last: 3, answered: vec![(5, 2)] },
            driver: vec![6],
            pages: runs.iter().map(run).collect(),
            unchanged: vec![(0x20_0000, PAGE)],
            touched: vec![(0x1000, PAGE)],
        }
    }

    /// Pages that a worker only names cost it nothing: they are not copied.
    #[test]
    fn pages_that_are_not_there_are_refused() {
        let with_holes = |pages: u64| {
            let mut file = file_of([]).expect("memory");
            file.add(0x10_0000, pages * PAGE);
            file.seal(&continuation(&[]).map_pages(|_| ())).expect("sealed")
        };
        let error = copy_continuation(with_holes(1 << 20), Bounds::NONE).expect_err("4 GiB of holes");
        assert!(error.to_string().contains("are there"), "{error}");
    }

    /// A step that handles an effect has more instances than its plan says.
    #[test]
    fn bounds_count_instances_of_handlers() {
        let plan = |handles: &str| {
            let document = format!(
                r#"{{ "name": "w", "functions": {{ "f": {{ "image": "f.so" }} }}, "limits": {{ "slots": "1MiB" }},
                    "steps": [{{ "name": "s", "function": "f", "memory": "64MiB"{handles} }},
                              {{ "name": "t", "function": "f", "memory": "1MiB" }}] }}"#
            );
            let checked = monohull_workflow::check_bytes("w.json".as_ref(), document.as_bytes());
            checked.into_plan().unwrap_or_else(|error| panic!("{error}"))
        };
        let of = |handles| Bounds::of(&plan(handles)).bytes;
        assert!(of("") < 1 << 30);
        assert!(of(r#", "handles": "blob""#) > PERFORMS_TOGETHER as u64 * (64 << 20));
    }

    #[test]
    fn a_continuation_is_what_it_was() {
        for runs in [&[][..], &[(0x1000, 1)], &[(0x1000, 3), (0x8000, 1), (0x10_0000, 20)]] {
            let file = seal_continuation(continuation(runs)).expect("sealed");
            let size = read_sealed(&file, u64::MAX).expect("its bytes").len() as u64;
            let most = |bytes| Bounds { bytes, ..Bounds::NONE };
            assert_eq!(copy_continuation(&file, most(size)).expect("a continuation"), continuation(runs));
            copy_continuation(&file, most(size - 1)).expect_err("it has more bytes");
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
        copy_continuation(&file, Bounds::NONE).expect_err("it is not sealed");
        read_continuation(file.try_clone().expect("a descriptor"), None).expect_err("it is not sealed");
        read_template(file).expect_err("it is not sealed");
    }
    fn plan(files: &str, more: &str) -> Plan {
        let document = format!(
            r#"{{ "name": "w", "functions": {{ "f": {{ "image": "f" }} }}, "files": [{files}],
                "steps": [{{ "name": "s", "function": "f", "memory": "16MiB", "instances": 2 }}],
                "limits": {{ "slots": "1MiB" {more} }} }}"#
        );
        monohull_workflow::load_str(std::path::Path::new("/tmp/w.json"), &document).expect("a workflow")
    }

    #[test]
    fn bounds_count_what_a_plan_lets_a_run_have() {
        let least = Bounds::of(&plan("", ""));
        let memory = 2 * (16 << 20) + (1 << 20);
        assert!(least.record.bytes >= 64 << 20 && least.bytes >= least.record.bytes + memory, "{least:?}");
        let with_files = Bounds::of(&plan(r#"{ "at": "/t", "memory": "3GiB" }"#, ""));
        // They are pages, each of which may be alone, or names.
        let files = (3 << 30) + (3 << 30) / 64;
        assert_eq!((with_files.record.bytes - least.record.bytes, with_files.bytes - least.bytes), (files, files));
        assert_eq!(with_files.record.entries - least.record.entries, (3 << 30) / 256);
        let with_output = Bounds::of(&plan("", r#", "output": "1GiB""#));
        assert!(with_output.record.bytes - least.record.bytes >= 2 * ((1 << 30) - (1 << 20)));
    }

    /// Memory that costs a worker nothing, and would cost the process above it all that it has.
    #[test]
    fn a_worker_cannot_have_memory_taken_that_it_does_not_have_itself() {
        let bounds = Bounds::of(&plan("", ""));
        let refused = |file: OwnedFd| copy_continuation(file, bounds).expect_err("it is an attack").to_string();
        // A record of zeros that no one has written.
        for (bytes, why) in [(bounds.record.bytes / 2, "are there"), (1 << 40, "bytes were sent where at most")] {
            let memory = seal_written(|memory| memory.write_all_at(&bytes.to_le_bytes(), bytes)).expect("memory");
            let why_not = refused(memory);
            assert!(why_not.contains(why), "{why_not}");
        }
        // Queues without threads, and times that nothing has touched: many times the memory that they have bytes.
        let mut queues = continuation(&[]);
        queues.scheduler.queues = vec![Vec::new(); (1 << 20) + 1];
        let why = refused(seal_continuation(queues).expect("sealed"));
        assert!(why.contains("cannot be read"), "{why}");
        let mut touched = continuation(&[]);
        touched.touched = vec![(0, 0); 10 << 20];
        let why = refused(seal_continuation(touched).expect("sealed"));
        assert!(why.contains("besides texts and byte strings"), "{why}");
        let harmless = seal_continuation(continuation(&[(0x1000, 1)])).expect("sealed");
        assert_eq!(copy_continuation(harmless, bounds).expect("no attack"), continuation(&[(0x1000, 1)]));
    }
}
