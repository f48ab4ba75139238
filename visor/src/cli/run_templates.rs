//! Templates of `monohull run`: what a function has computed before it was ready, kept from one run to the next.
//!
//! ```text
//!   run      no entry ── from the image ── report ── another process makes the template ──▶ CACHE/monohull/templates/NAME
//!   run      entry: seal, age, owner ── copied into sealed memory ──▶ the instance starts from it
//!
//!   entry    | pages and record, as a worker has sent them | kind, time (16 bytes) | seal (32 bytes) |
//! ```
//!
//! Each is of one instance of the workflow. The name is the hash of what is known without reading an image: the plan, which instance it is, this
//! program, the processor, the isolation. The seal is one of the user's key ([`image_cache`](super::image_cache)) over the content, the name and the hash of the image that the template is of. So an entry of an
//! image that has changed is found, refused and replaced.
//!
//! A template is used on the host that has made it until that starts again: a time that the function has noted must not be in the future, or of
//! another clock. So the name is also of the host's start, and the entry has the time of the clock, which may be another one in a container.
//!
//! Nothing depends on an entry. One that is damaged or of something else is removed, one that cannot be read now is left, and the run starts from
//! the image. If no template could be made or kept, that is tried again after an hour.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

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
use monohull_worker::{KeptTemplates, NotMade, OF_THE_HOST, Template, make_template, template_instances};
use monohull_workflow::Plan;
use monohull_workflow::plan::TemplateInstance;

/// The folder in the cache, and what its key is called by.
const KIND: &str = "templates";
/// Bytes of a template that is kept.
const BYTES_MAX: u64 = 256 << 20;
/// How long a function may take until it is ready, at most.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How much longer it may take than the run that has just ended.
const SLACK: Duration = Duration::from_secs(2);
/// How long none is made after one could not be made or kept.
const AGAIN_AFTER: Duration = Duration::from_secs(3600);
/// The end of an entry: its note, and its seal.
const NOTE: usize = 16;
const END: usize = NOTE + 32;

/// The templates of one run.
pub(super) struct RunTemplates {
    /// Of each function, a hash of its image that is known already.
    known: Vec<Option<[u8; 32]>>,
    /// Of each instance that may have one.
    sought: Vec<Sought>,
    /// The workflow can have none.
    is_of_host: bool,
}

/// What was sought.
struct Sought {
    workflow: Arc<Ready>,
    cell: usize,
    instance: TemplateInstance,
    names: Names,
    path: PathBuf,
    found: Found,
    /// Whether it is to be made after the run.
    is_wanted: bool,
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
        RunTemplates { known, sought: Vec::new(), is_of_host: false }
    }

    /// Says in the report why there can be no templates. Whether any are to be made.
    pub(super) fn complete(&mut self, report: &mut RunReport) -> bool {
        for sought in &mut self.sought {
            let (step, index) = sought.instance;
            let instance = report.steps.get_mut(step).and_then(|step| step.instances.get_mut(index as usize));
            let Some(start) = instance.and_then(|instance| instance.start.as_deref_mut()) else { continue };
            // Whatever the process of the workflow says of it.
            let unfit = start.no_template.take();
            match (&sought.found, unfit) {
                (Found::Never(why), _) => start.no_template = Some(why.clone()),
                (Found::Template, Some(why)) if start.kind == StartKind::Main => drop_entry(&sought.path, &why),
                _ => {}
            }
            sought.is_wanted = start.kind == StartKind::Main && sought.found == Found::Nothing;
        }
        let mut instances = report.steps.iter_mut().flat_map(|step| &mut step.instances);
        if self.is_of_host
            && let Some(start) = instances.find_map(|instance| instance.start.as_deref_mut())
        {
            start.no_template = Some(OF_THE_HOST.to_owned());
        }
        report.note_start();
        report.status == Status::Done && self.sought.iter().any(|sought| sought.is_wanted)
    }

    /// Makes those that are wanted and keeps them, for a run that has taken so long, and begins none after as long again. What fails does so in silence: the
    /// next run starts from the image.
    pub(super) fn make(&self, options: &RunOptions, cgroup: CgroupMode, took: Duration) {
        let latest = Instant::now() + took.saturating_add(SLACK).min(READY_WITHIN);
        for sought in self.sought.iter().filter(|sought| sought.is_wanted) {
            if Instant::now() >= latest {
                tracing::debug!("other templates are made by later runs");
                return;
            }
            match self.try_make(sought, options, cgroup, took) {
                Ok(Some(bytes)) => tracing::debug!(bytes, "a template is kept"),
                Ok(None) => tracing::debug!("no template is made: what the program is told differs from run to run"),
                Err(why) => tracing::debug!("no template is kept: {why}"),
            }
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
        let mark = Mark::of(&sought.path, sought.names).ok_or("there is no folder for it")?;
        if !mark.is_wanted(&entry.made_from).map_err(|error| error.to_string())? {
            return Ok(None);
        }
        self.make_entry(sought, &entry, options, cgroup, took).map(Some).inspect_err(|_| {
            // What cannot be noted is tried again.
            let _ = mark.write(&failed(&entry.made_from));
        })
    }

    /// Its bytes.
    fn make_entry(
        &self,
        sought: &Sought,
        entry: &Entry,
        options: &RunOptions,
        cgroup: CgroupMode,
        took: Duration,
    ) -> Result<u64, String> {
        let within = took.saturating_add(SLACK).min(READY_WITHIN);
        let (content, is_template) =
            match make_template((&sought.workflow, sought.cell), options, cgroup, BYTES_MAX, within) {
                Ok(template) => (template.file().try_clone(), true),
                Err(NotMade::Never(why)) => (seal(why.as_bytes(), 0), false),
                Err(error) => return Err(error.to_string()),
            };
        let content = content.and_then(SealedBytes::map).map_err(|error| error.to_string())?;
        let note = Note { is_template, made_ns: monotonic_ns() };
        let seal = entry.key.seal_entry(&bound(&entry.made_from, note), &content);
        let written = entry.publish(|mut file| {
            file.write_all(&content)?;
            file.write_all(&note.bytes())?;
            file.write_all(&seal)
        });
        written.map(|()| content.len() as u64).map_err(|error| error.to_string())
    }

    /// The place of what was sought, in the cache.
    fn entry(&self, sought: &Sought) -> Option<Entry> {
        let mut hash = Sha256::new().chain_update(sought.names.template);
        let plan = sought.workflow.plan();
        let function = plan.steps.get(sought.instance.0)?.function;
        match self.known.get(function)? {
            Some(known) => hash.update([b"known".as_slice(), known].concat()),
            None => hash.update([b"image".as_slice(), &sought.workflow.images().get(function)?.hash().ok()?].concat()),
        }
        Entry::named(KIND, &sought.names.template, hash.finalize().into())
    }

    /// What there is of a workflow: the template, if there is one. An error of the kind `InvalidData` if it must not be used.
    fn look(&self, sought: &Sought) -> io::Result<(Found, Option<Template>)> {
        let file = match OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(&sought.path) {
            Ok(file) => file,
            Err(error) if error.raw_os_error() == Some(ELOOP) => return Err(wrong("it is a symbolic link")),
            // There is none, or there is no way to it.
            Err(_) => return Ok((Found::Nothing, None)),
        };
        let entry = self.entry(sought).ok_or_else(|| io::Error::other("there is no key"))?;
        let (content, note) = read(&file, &entry)?;
        // The time of the last use decides what is removed. Where it cannot be set, the entry only goes earlier.
        let _ = file.set_modified(SystemTime::now());
        if !note.is_template {
            let why = SealedBytes::map(content)?;
            return Ok((Found::Never(String::from_utf8_lossy(&why).into_owned()), None));
        }
        let template =
            Template::kept(&sought.workflow, sought.cell, content).map_err(|error| wrong(&error.to_string()))?;
        Ok((Found::Template, Some(template)))
    }
}

impl KeptTemplates for RunTemplates {
    fn find(&mut self, workflow: &Arc<Ready>, keys: bool) -> Vec<Arc<Template>> {
        self.is_of_host = !workflow.is_self_contained();
        let instances = template_instances(workflow);
        let names = if instances.is_empty() { None } else { Names::of(workflow, keys) };
        let Some(names) = names else { return Vec::new() };
        let mut templates = Vec::new();
        for (cell, instance) in instances.into_iter().enumerate() {
            let names = names.of_cell(cell);
            let Some(path) = path_of(KIND, &names.template) else { continue };
            let workflow = workflow.clone();
            let sought = Sought { workflow, cell, instance, names, path, found: Found::Nothing, is_wanted: false };
            let (found, template) = match self.look(&sought) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    drop_entry(&sought.path, &error.to_string());
                    (Found::Nothing, None)
                }
                Err(error) => {
                    tracing::debug!("a template is not used: {error}");
                    continue;
                }
            };
            self.sought.push(Sought { found, ..sought });
            templates.extend(template.map(Arc::new));
        }
        templates
    }

    fn refuse(&mut self, why: &str) {
        for sought in self.sought.iter_mut().filter(|sought| sought.found == Found::Template) {
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

/// An entry that must not be used.
fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// What an entry holds in sealed memory, and its note, if the user's key has sealed both for this image.
fn read(file: &File, entry: &Entry) -> io::Result<(OwnedFd, Note)> {
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
        return Err(wrong("its time is still to come"));
    }
    Ok((memory, note))
}

/// What a seal is made for, besides the content.
fn bound(made_from: &[u8; 32], note: Note) -> [u8; 32] {
    Sha256::new().chain_update(made_from).chain_update(note.bytes()).finalize().into()
}

/// What is noted beside the templates of a program, whatever it is told: for which hash a template was made last, or would have been, and whether in
/// vain.
struct Mark(PathBuf);

impl Mark {
    fn of(entry: &Path, names: Names) -> Option<Mark> {
        path_of(KIND, &names.program).filter(|mark| mark.parent() == entry.parent()).map(Mark)
    }

    /// Whether a template is to be made of what has this hash, for a program that has been run without one: if this is its first run, or the second
    /// in a row with the same image that is told the same. Programs that are told something else each time, or built anew, would have them all made
    /// in vain.
    fn is_wanted(&self, made_from: &[u8; 32]) -> io::Result<bool> {
        let flags = O_NOFOLLOW | O_NONBLOCK;
        let before = OpenOptions::new().read(true).custom_flags(flags).open(&self.0).and_then(|file| {
            let mut before = [0; 32];
            file.read_exact_at(&mut before, 0)?;
            Ok((before, file.metadata()?.modified()?))
        });
        match before {
            Ok((before, _)) if before == *made_from => return Ok(true),
            Ok((before, at)) if before == failed(made_from) && at.elapsed().is_ok_and(|ago| ago < AGAIN_AFTER) => {
                return Ok(false);
            }
            _ => {}
        }
        self.write(made_from)?;
        Ok(before.map_or(true, |(before, _)| before == failed(made_from)))
    }

    /// Never through a link. Of two processes that do this at once one may fail: then it makes none.
    fn write(&self, content: &[u8; 32]) -> io::Result<()> {
        let _ = fs::remove_file(&self.0);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.0)?;
        file.write_all(content)
    }
}

/// What is noted if the template of what has this hash could not be made.
fn failed(made_from: &[u8; 32]) -> [u8; 32] {
    made_from.map(|byte| !byte)
}

impl Names {
    fn of(workflow: &Ready, keys: bool) -> Option<Names> {
        let program = fs::metadata("/proc/self/exe").ok()?;
        let boot = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
        let mut hash = Sha256::new().chain_update(concat!("monohull template ", env!("CARGO_PKG_VERSION")));
        hash.update(state_of(&program));
        hash.update(boot);
        hash.update([u8::from(keys)]);
        hash.update((workflow.carriers() as u64).to_le_bytes());
        for word in Processor::here().words {
            hash.update(word.to_le_bytes());
        }
        let mut plan = Plan::clone(workflow.plan());
        // Programs of one name in several folders are several programs.
        for function in &mut plan.functions {
            let file = function.made_of.as_ref().unwrap_or(&function.image);
            let file = std::path::absolute(file).ok()?;
            if function.made_of.is_some() {
                // The image is memory of this process.
                function.image = PathBuf::new();
                function.made_of = Some(file);
            } else {
                function.image = file;
            }
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

    /// The same of the instance of this cell.
    fn of_cell(&self, cell: usize) -> Names {
        let of = |name: &[u8; 32]| Sha256::new().chain_update(name).chain_update((cell as u64).to_le_bytes());
        Names { template: of(&self.template).finalize().into(), program: of(&self.program).finalize().into() }
    }
}
