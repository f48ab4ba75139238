//! Templates of `monohull run`: what a function has computed before it was ready, kept from one run to the next.
//!
//! ```text
//!   run      no entry ── from the image ── report ── another process makes the template ──▶ CACHE/monohull/templates/NAME
//!   run      entry: seal, age, owner ── copied into sealed memory ──▶ the instance starts from it
//!
//!   entry    | pages and record, as a worker has sent them | kind, time (16 bytes) | seal (32 bytes) |
//! ```
//!
//! The name is the hash of what is known without reading an image: the plan, this program, the processor, the isolation. The seal is one of the user's
//! key ([`image_cache`](super::image_cache)) over the content, the name and the hash of the image. So an entry of an image that has changed is found,
//! refused and replaced.
//!
//! A template is used on the host that has made it until that starts again: a time that the function has noted must not be in the future. So the entry has the
//! time of the host's clock, which begins again with the host.
//!
//! Nothing depends on an entry. One that cannot be used is removed, and the run starts from the image.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nix::libc::{ELOOP, O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::geteuid;
use sha2::{Digest, Sha256};

use super::image_cache::{Entry, path_of, state_of};
use monohull_checkpoint::Processor;
use monohull_domain::host_time::monotonic_ns;
use monohull_engine::{Ready, RunOptions};
use monohull_ipc::sealed::{seal, seal_written};
use monohull_report::{RunReport, StartKind, Status};
use monohull_sys::sealed_bytes::SealedBytes;
use monohull_worker::cgroup::CgroupMode;
use monohull_worker::{KeptTemplates, NotMade, Template, make_template};
use monohull_workflow::Plan;

/// The folder in the cache, and what its key is called by.
const KIND: &str = "templates";
/// Bytes of a template that is kept.
const BYTES_MAX: u64 = 256 << 20;
/// How long a function may take until it is ready, at most.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How much longer it may take than the run that has just ended.
const SLACK: Duration = Duration::from_secs(2);
/// The end of an entry: its note, and its seal.
const NOTE: usize = 16;
const END: usize = NOTE + 32;

/// The templates of one run.
pub(super) struct RunTemplates {
    /// Of each function, a hash of its image that is known already.
    known: Vec<Option<[u8; 32]>>,
    sought: Option<Sought>,
}

/// What was sought.
struct Sought {
    workflow: Arc<Ready>,
    names: Names,
    path: PathBuf,
    found: Found,
}

/// What there was.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Found {
    Nothing,
    Template,
    /// Why there can be none.
    Never(String),
}

/// Hashes by which a template is known.
#[derive(Clone, Copy)]
struct Names {
    /// All that decides what is in it but the images.
    template: [u8; 32],
    /// The same without what a program is told.
    program: [u8; 32],
}

/// What an entry is, and when it was made by the host's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Note {
    is_template: bool,
    made_ns: u64,
}

impl Note {
    fn bytes(self) -> [u8; NOTE] {
        let words = [u64::from(self.is_template), self.made_ns].map(u64::to_le_bytes);
        words.as_flattened().try_into().unwrap_or_else(|_| unreachable!("two words"))
    }

    fn of(bytes: [u8; NOTE]) -> Option<Note> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        match [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])] {
            [kind @ 0..=1, made_ns] => Some(Note { is_template: kind == 1, made_ns }),
            _ => None,
        }
    }
}

impl RunTemplates {
    /// Those of a workflow whose functions have these images, as far as that is known.
    pub(super) fn new(known: Vec<Option<[u8; 32]>>) -> RunTemplates {
        RunTemplates { known, sought: None }
    }

    /// Says in the report why there can be no template. Whether one is to be made.
    pub(super) fn complete(&self, report: &mut RunReport) -> bool {
        let (Some(sought), Some(start)) = (&self.sought, &mut report.start) else { return false };
        if let Found::Never(why) = &sought.found {
            start.no_template = Some(why.clone());
        }
        start.kind == StartKind::Main && sought.found == Found::Nothing && report.status == Status::Done
    }

    /// Makes the template and keeps it, for a run that has taken so long. What fails does so in silence: the next run starts from the image.
    pub(super) fn make(&self, options: &RunOptions, cgroup: CgroupMode, took: Duration) {
        let Some(sought) = &self.sought else { return };
        match self.try_make(sought, options, cgroup, took) {
            Ok(Some(bytes)) => tracing::debug!(bytes, "a template is kept"),
            Ok(None) => tracing::debug!("no template is made: what the program is told differs from run to run"),
            Err(why) => tracing::debug!("no template is kept: {why}"),
        }
    }

    fn try_make(
        &self,
        sought: &Sought,
        options: &RunOptions,
        cgroup: CgroupMode,
        took: Duration,
    ) -> Result<Option<u64>, String> {
        let entry = self.entry(sought).ok_or("there is no folder for it, or no key")?;
        // What cannot be written is not made.
        let is_wanted = is_wanted(&sought.path, sought.names).map_err(|error| error.to_string())?;
        if !is_wanted {
            return Ok(None);
        }
        let within = took.saturating_add(SLACK).min(READY_WITHIN);
        let (content, is_template) = match make_template(&sought.workflow, options, cgroup, BYTES_MAX, within) {
            Ok(template) => (template.file().try_clone(), true),
            Err(NotMade::Never(why)) => (seal(why.as_bytes(), 0), false),
            Err(NotMade::Now(error)) => return Err(error.to_string()),
        };
        let content = content.and_then(SealedBytes::map).map_err(|error| error.to_string())?;
        let note = Note { is_template, made_ns: monotonic_ns() };
        let seal = entry.key.seal_entry(&bound(&entry.made_from, note), &content);
        let written = entry.publish(|mut file| {
            file.write_all(&content)?;
            file.write_all(&note.bytes())?;
            file.write_all(&seal)
        });
        written.map(|()| Some(content.len() as u64)).map_err(|error| error.to_string())
    }

    /// The place of what was sought, in the cache.
    fn entry(&self, sought: &Sought) -> Option<Entry> {
        let mut hash = Sha256::new().chain_update(sought.names.template);
        for (image, known) in sought.workflow.images().iter().zip(&self.known) {
            match known {
                Some(known) => hash.update([b"known".as_slice(), known].concat()),
                None => hash.update([b"image".as_slice(), &image.hash()].concat()),
            }
        }
        Entry::named(KIND, &sought.names.template, hash.finalize().into())
    }

    /// What there is of a workflow: the template, if there is one.
    fn look(&self, sought: &Sought) -> Result<(Found, Option<Template>), String> {
        let file = match OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(&sought.path) {
            Ok(file) => file,
            Err(error) if error.raw_os_error() == Some(ELOOP) => return Err("it is a symbolic link".to_owned()),
            // There is none, or there is no way to it.
            Err(_) => return Ok((Found::Nothing, None)),
        };
        let entry = self.entry(sought).ok_or("there is no key")?;
        let (content, note) = read(&file, &entry).map_err(|error| error.to_string())?;
        // The time of the last use decides what is removed. Where it cannot be set, the entry only goes earlier.
        let _ = file.set_modified(SystemTime::now());
        if !note.is_template {
            let why = SealedBytes::map(content).map_err(|error| error.to_string())?;
            return Ok((Found::Never(String::from_utf8_lossy(&why).into_owned()), None));
        }
        let template = Template::kept(&sought.workflow, content).map_err(|error| error.to_string())?;
        Ok((Found::Template, Some(template)))
    }
}

impl KeptTemplates for RunTemplates {
    fn find(&mut self, workflow: &Arc<Ready>, keys: bool) -> Option<Arc<Template>> {
        let names = Names::of(workflow, keys)?;
        let path = path_of(KIND, &names.template)?;
        let sought = Sought { workflow: workflow.clone(), names, path, found: Found::Nothing };
        let (found, template) = self.look(&sought).unwrap_or_else(|why| {
            drop_entry(&sought.path, &why);
            (Found::Nothing, None)
        });
        self.sought = Some(Sought { found, ..sought });
        template.map(Arc::new)
    }

    fn refuse(&mut self, why: &str) {
        if let Some(sought) = &mut self.sought {
            drop_entry(&sought.path, why);
            sought.found = Found::Nothing;
        }
    }
}

/// Removes an entry that is not to be used.
fn drop_entry(path: &Path, why: &str) {
    tracing::debug!("a template is not used, and is removed: {why}");
    // What cannot be removed is refused again.
    let _ = fs::remove_file(path);
}

/// What an entry holds in sealed memory, and its note, if the user's key has sealed both for this image.
fn read(file: &File, entry: &Entry) -> io::Result<(OwnedFd, Note)> {
    let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(wrong("it is no file"));
    }
    if metadata.uid() != geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return Err(wrong("others may write to it"));
    }
    let content = metadata.len().checked_sub(END as u64).ok_or_else(|| wrong("it is too short"))?;
    if content > BYTES_MAX {
        return Err(wrong("it is too long"));
    }
    let mut end = [0; END];
    file.read_exact_at(&mut end, content)?;
    let (note, seal) = end.split_first_chunk::<NOTE>().ok_or_else(|| wrong("it is too short"))?;
    let note = Note::of(*note).ok_or_else(|| wrong("its note is none"))?;
    let memory = seal_written(|mut memory| io::copy(&mut io::Read::take(file, content), &mut memory).map(drop))?;
    let bytes = SealedBytes::map(memory.as_fd())?;
    let seal: &[u8; 32] = seal.try_into().map_err(|_| wrong("it has no seal"))?;
    if !entry.key.has_sealed_entry(&bound(&entry.made_from, note), &bytes, seal) {
        return Err(wrong("the image is another one, or the entry was changed"));
    }
    if note.made_ns > monotonic_ns() {
        return Err(wrong("the host has started again since"));
    }
    Ok((memory, note))
}

/// What a seal is made for, besides the content.
fn bound(made_from: &[u8; 32], note: Note) -> [u8; 32] {
    Sha256::new().chain_update(made_from).chain_update(note.bytes()).finalize().into()
}

/// Whether a template is to be made, for a program that has been run without one: if this is its first run, or the second in a row for which it is told
/// the same. Programs that are told something else each time would have them all made in vain.
fn is_wanted(path: &Path, names: Names) -> io::Result<bool> {
    let mark = path_of(KIND, &names.program).filter(|mark| mark.parent() == path.parent());
    let mark = mark.ok_or(io::ErrorKind::NotFound)?;
    let flags = O_NOFOLLOW | O_NONBLOCK;
    let before = OpenOptions::new().read(true).custom_flags(flags).open(&mark).and_then(|file| {
        let mut before = [0; 32];
        file.read_exact_at(&mut before, 0).map(|()| before)
    });
    if before.as_ref().is_ok_and(|before| *before == names.template) {
        return Ok(true);
    }
    // Never through a link. Of two processes that do this at once one may fail: then it makes none.
    let _ = fs::remove_file(&mark);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&mark)?;
    file.write_all(&names.template)?;
    Ok(before.is_err())
}

impl Names {
    fn of(workflow: &Ready, keys: bool) -> Option<Names> {
        let program = fs::metadata("/proc/self/exe").ok()?;
        let mut hash = Sha256::new().chain_update(concat!("monohull template ", env!("CARGO_PKG_VERSION")));
        hash.update(state_of(&program));
        hash.update([u8::from(keys)]);
        hash.update((workflow.carriers() as u64).to_le_bytes());
        for word in Processor::here().words {
            hash.update(word.to_le_bytes());
        }
        let mut plan = Plan::clone(workflow.plan());
        for function in plan.functions.iter_mut().filter(|function| function.made_of.is_some()) {
            // It is memory of this process.
            function.image = PathBuf::new();
        }
        let with = |plan: &Plan, kind: &str| -> Option<[u8; 32]> {
            let plan = postcard::to_extend(plan, Vec::new()).ok()?;
            Some(hash.clone().chain_update(kind).chain_update(plan).finalize().into())
        };
        let template = with(&plan, "template")?;
        for step in &mut plan.steps {
            step.args.clear();
            step.env.clear();
        }
        Some(Names { template, program: with(&plan, "program")? })
    }
}
