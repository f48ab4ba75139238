//! Source files and lines for the places in code that a report names.
//!
//! `monohull build` writes the debug information of an image into a file of its own, `NAME.debug` beside `NAME.so`. The worker
//! that makes a report can open neither of them. This process adds the lines afterwards.
//!
//! Debug information comes from the author of the function and is not trusted. Only a command that runs a workflow for the same
//! user reads it. A server does not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use goblin::elf::Elf;
use monohull_report::escape::shown;
use monohull_report::{CodePlace, Failure, FailureKind, RunReport};
use monohull_workflow::Plan;

/// The most bytes of an image or of its debug information that are read.
const FILE_MAX: u64 = 1 << 30;
/// Files with these in their path belong to the standard library, or to Monohull's. Where code of theirs was inlined into a
/// function, the line of that function says more.
const LIBRARIES: [&str; 4] = ["/rustc/", "/library/", "/std-shim/", "/function/src/slot/"];

/// The place of an image's debug information.
pub(super) fn debug_file(image: &Path) -> PathBuf {
    image.with_extension("debug")
}

/// Adds source lines to all places of a report. Images without debug information are left as they are. Gives the reasons why some
/// debug information was not used.
pub(super) fn add(report: &mut RunReport, plan: &Plan) -> Vec<String> {
    let images = plan.functions.iter().map(|function| (function.name.as_str(), function.image.as_path()));
    let mut sources = Sources { images: images.collect(), open: BTreeMap::new(), notes: Vec::new() };
    if let Some(failure) = &mut report.error {
        sources.locate(failure);
    }
    for instance in report.steps.iter_mut().flat_map(|step| &mut step.instances) {
        let attempts = instance.failed_attempts.iter_mut().map(|attempt| &mut attempt.error);
        for failure in instance.error.as_deref_mut().into_iter().chain(attempts) {
            sources.locate(failure);
        }
    }
    sources.notes
}

struct Sources<'p> {
    images: BTreeMap<&'p str, &'p Path>,
    /// By function, what was opened for it, if that worked.
    open: BTreeMap<String, Option<Loader>>,
    notes: Vec<String>,
}

impl Sources<'_> {
    fn locate(&mut self, failure: &mut Failure) {
        let Some(function) = &failure.function else { return };
        if failure.ip.is_none() && failure.backtrace.is_empty() {
            return;
        }
        if !self.open.contains_key(function) {
            let opened = match self.images.get(function.as_str()).map(|image| open(image)) {
                Some(Ok(loader)) => loader,
                Some(Err(note)) => {
                    self.notes.push(note);
                    None
                }
                None => None,
            };
            self.open.insert(function.clone(), opened);
        }
        let Some(Some(loader)) = self.open.get(function) else { return };
        // A fault is at an instruction. All other places are where a call returns to: the call lies before.
        let distance = u64::from(!is_fault(failure.kind));
        if let Some(place) = &mut failure.ip {
            place.source = source(loader, place, distance);
        }
        for place in &mut failure.backtrace {
            place.source = source(loader, place, 1);
        }
    }
}

/// Whether a failure of this kind happens at an instruction, not in a call.
fn is_fault(kind: FailureKind) -> bool {
    use FailureKind::*;
    matches!(kind, MemoryFault | StackOverflow | IllegalInstruction | Arithmetic | Trap | SystemCall | TimeStampCounter)
}

/// Opens the debug information that belongs to an image; none if there is none.
fn open(image: &Path) -> Result<Option<Loader>, String> {
    let path = debug_file(image);
    if !path.is_file() {
        return Ok(None);
    }
    let unused = |why: String| format!("no source lines from {}: {why}", shown(&path));
    let own = build_id(image).map_err(unused)?;
    let of_debug = build_id(&path).map_err(unused)?;
    if own != of_debug {
        return Err(unused(format!("it belongs to another build of {}", shown(image))));
    }
    Loader::new(&path).map(Some).map_err(|error| unused(error.to_string()))
}

/// What the linker called this build.
fn build_id(path: &Path) -> Result<Vec<u8>, String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > FILE_MAX {
        return Err(format!("{} has {size} bytes, more than {FILE_MAX}, the limit", shown(path)));
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let elf = Elf::parse(&bytes).map_err(|error| format!("{} is not an ELF file: {error}", shown(path)))?;
    let mut notes = elf.iter_note_sections(&bytes, Some(".note.gnu.build-id")).into_iter().flatten().flatten();
    notes.next().map(|note| note.desc.to_vec()).ok_or_else(|| format!("{} has no build ID", shown(path)))
}

/// The file, line and column of a place: of the innermost function there that does not belong to a library, if there is one.
fn source(loader: &Loader, place: &CodePlace, distance: u64) -> Option<String> {
    let mut frames = loader.find_frames(place.offset.checked_sub(distance)?).ok()?;
    let mut innermost = None;
    while let Ok(Some(frame)) = frames.next() {
        let Some(location) = frame.location else { continue };
        let (Some(file), Some(line)) = (location.file, location.line) else { continue };
        let text = match location.column {
            Some(column) if column > 0 => format!("{file}:{line}:{column}"),
            _ => format!("{file}:{line}"),
        };
        if !LIBRARIES.iter().any(|library| file.contains(library)) {
            return Some(text);
        }
        innermost.get_or_insert(text);
    }
    innermost
}
