//! What is in a checkpoint, for people and as JSON.

use super::file::CheckpointFile;
use super::{Read, Seal, Trouble};
use humantime::{format_duration, format_rfc3339_millis};
use monohull_abi::effect::{EffectPart, EffectSlot};
use monohull_abi::event::EVENT_SEPARATOR;
use monohull_abi::number::name_of;
use monohull_checkpoint::record::{Contents, InstanceRecord, Resumption, ThreadRecord, ThreadState, WaitOn};
use monohull_checkpoint::{Packing, count_pages};
use monohull_report::escape::Line;
use monohull_report::text::quoted;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

/// How a worker finds the pages that have changed since the checkpoint before. Which ones it has to look at may depend on the kernel.
const CHANGES: &str = "comparing hashes of pages";
/// Threads of an instance that get a line of their own; the others are counted.
const THREAD_LINES: usize = 16;
/// Seconds from 1970 that calendars have: until the year 9999.
const CALENDAR: u64 = 253_402_300_800;

/// What is in a checkpoint.
#[derive(Serialize)]
pub(super) struct Description {
    id: String,
    generation: u64,
    label: String,
    parent: Option<Parent>,
    workflow: String,
    tenant: String,
    plan: String,
    /// RFC 3339, in UTC; absent for a time that no calendar has.
    captured: Option<String>,
    /// What the workflow's own clock showed.
    domain_ns: u64,
    program: String,
    format: u16,
    abi: u32,
    seal: Seal,
    sealed_by: Option<String>,
    digest: String,
    processor: ProcessorText,
    functions: Vec<Function>,
    instances: Vec<Instance>,
    /// Instances that wait for a cell.
    pending: usize,
    modules: Vec<Module>,
    pages: Vec<Pages>,
    stored: Stored,
    /// Bytes of the file, by what they are.
    bytes: BTreeMap<String, u64>,
}

/// The checkpoint whose pages it takes where they have not changed.
#[derive(Serialize)]
pub(super) struct Parent {
    id: String,
    digest: String,
    /// The name of its file, in the same folder.
    file: Option<String>,
    /// How many checkpoints there are before it and with it.
    depth: u32,
    /// Whether it and those before it are there, as they were.
    found: bool,
    /// What is wrong, if something is.
    reason: Option<String>,
    /// How its writer found what has changed since.
    changes: &'static str,
}

impl Parent {
    /// That of a checkpoint which has one; the files are looked for in its folder.
    pub(super) fn of(file: &CheckpointFile<'_>, checkpoint: &Read) -> Option<Parent> {
        let parent = checkpoint.contents().identity.parent.as_ref()?;
        let chain = checkpoint.contents().chain.as_ref();
        let reason = match file.read_chain() {
            Ok(chain) => (!chain.is_whole()).then(|| "its file is not named".to_owned()),
            Err(Trouble::Checkpoint { error, .. }) => Some(error.to_string()),
            Err(trouble) => Some(trouble.to_string()),
        };
        Some(Parent {
            id: parent.id.to_string(),
            digest: parent.digest.to_string(),
            file: chain.map(|chain| chain.file.clone()),
            depth: chain.map_or(1, |chain| chain.depth),
            found: reason.is_none(),
            reason,
            changes: CHANGES,
        })
    }
}

#[derive(Serialize)]
struct ProcessorText {
    level: &'static str,
    features: Vec<String>,
}

#[derive(Serialize)]
struct Function {
    name: String,
    image_sha256: String,
    image_bytes: u64,
}

#[derive(Serialize)]
struct Instance {
    id: u32,
    step: String,
    index: u32,
    attempt: u32,
    function: String,
    heap_bytes: u64,
    deadline_ns: Option<u64>,
    threads: Vec<Thread>,
    /// The parts of files that it has mapped.
    mapped_files: Vec<MappedFile>,
}

#[derive(Serialize)]
struct MappedFile {
    path: String,
    address: u64,
    offset: u64,
    bytes: u64,
    writable: bool,
    /// Pages that have been made; the others are made when they are touched.
    pages: u64,
}

#[derive(Serialize)]
struct Thread {
    number: u32,
    hostcall: Option<&'static str>,
    /// What it waits for: `time`, `word`, `thread`, `slot`, `event`; or `ready`.
    state: &'static str,
    /// The word's address, the thread's number, or the name of the slot or the event.
    on: Option<String>,
    /// When it goes on in any case: RFC 3339, if the clock had gone on since the capture.
    until: Option<String>,
    /// The same, in ns from the capture.
    after_ns: Option<u64>,
}

#[derive(Serialize)]
struct Module {
    name: String,
    version: u32,
    bytes: usize,
    pages: u64,
}

#[derive(Serialize)]
struct Pages {
    of: &'static str,
    stored: u64,
    zero: u64,
    as_in_image: u64,
    as_in_parent: u64,
}

#[derive(Serialize)]
struct Stored {
    pages: u64,
    active: u64,
    bytes: u64,
    packing: &'static str,
}

impl Description {
    pub(super) fn of(checkpoint: &Read, seal: Seal, parent: Option<Parent>) -> Description {
        let contents = checkpoint.contents();
        let identity = &contents.identity;
        let mut bytes = BTreeMap::from([("pages stored".to_owned(), checkpoint.stored_bytes())]);
        for section in checkpoint.sections() {
            *bytes.entry(section.name()).or_default() += section.bytes;
        }
        let known: u64 = bytes.values().sum();
        bytes.insert("header, table, padding".to_owned(), checkpoint.bytes() - known);
        let pages = count_pages(contents, checkpoint.runs()).into_iter().map(|(kind, counts)| Pages {
            of: kind.name(),
            stored: counts.here,
            zero: counts.zero,
            as_in_image: counts.base,
            as_in_parent: counts.parent,
        });
        Description {
            id: identity.id.to_string(),
            generation: identity.generation,
            label: identity.label.clone(),
            parent,
            workflow: identity.workflow.clone(),
            tenant: identity.tenant.clone(),
            plan: identity.plan.to_string(),
            captured: date(identity.wall_ns),
            domain_ns: identity.domain_ns,
            program: identity.program.clone(),
            format: checkpoint.format(),
            abi: identity.abi,
            seal,
            sealed_by: checkpoint.sealed_by().map(|key| key.to_string()),
            digest: checkpoint.digest().to_string(),
            processor: ProcessorText { level: identity.processor.level(), features: identity.processor.features() },
            functions: functions(contents),
            instances: instances(contents),
            pending: contents.scheduler.pending.len(),
            modules: modules(contents),
            pages: pages.collect(),
            stored: Stored {
                pages: checkpoint.stored_pages(),
                active: checkpoint.active_pages(),
                bytes: checkpoint.stored_bytes(),
                packing: match checkpoint.packing() {
                    Packing::Raw => "raw",
                    Packing::Lz4 => "lz4",
                },
            },
            bytes,
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, to: &mut String) -> std::fmt::Result {
        let label = if self.label.is_empty() { String::new() } else { format!(", {}", quoted(&self.label)) };
        writeln!(to, "checkpoint  {}, generation {}{label}", self.id, self.generation)?;
        if let Some(Parent { id, file, depth, reason, changes, .. }) = &self.parent {
            let file = file.as_deref().map_or_else(String::new, |file| format!(", file {}", quoted(file)));
            writeln!(to, "parent      {id}{file}, {depth} before this one; changes found by {changes}")?;
            if let Some(reason) = reason {
                writeln!(to, "parent      CANNOT BE USED: {}", Line(reason))?;
            }
        }
        let tenant =
            if self.tenant.is_empty() { String::new() } else { format!(" of tenant {}", quoted(&self.tenant)) };
        writeln!(to, "workflow    {}{tenant}", quoted(&self.workflow))?;
        let captured = self.captured.as_deref().unwrap_or("at a time that no calendar has");
        let program = Line(&self.program);
        writeln!(to, "captured    {captured}, at {} of its clock, by Monohull {program}", time(self.domain_ns))?;
        let key = self.sealed_by.as_deref().unwrap_or_default();
        match self.seal {
            Seal::None => writeln!(to, "seal        none: what it says may have been edited")?,
            Seal::Valid => writeln!(to, "seal        valid, by key {key}")?,
            Seal::Unchecked => writeln!(to, "seal        not checked: key {key} is not at hand")?,
            Seal::Edited => writeln!(to, "seal        WRONG: it was edited since key {key} sealed it")?,
        }
        writeln!(to, "format      {}, hostcall interface {}", self.format, self.abi)?;
        writeln!(to, "processor   {} ({} features)", self.processor.level, self.processor.features.len())?;
        for function in &self.functions {
            writeln!(to, "function    {}, SHA-256 {}", quoted(&function.name), function.image_sha256)?;
        }
        for instance in &self.instances {
            let Instance { id, step, index, attempt, function, heap_bytes, .. } = instance;
            let name = format!("{}[{index}]", Line(step));
            write!(to, "instance    {name}: {}, id {id:#x}, attempt {attempt}", quoted(function))?;
            writeln!(to, ", heap {heap_bytes} bytes, {} threads", instance.threads.len())?;
            for thread in instance.threads.iter().take(THREAD_LINES) {
                writeln!(to, "              thread {:#x} {}", thread.number, thread.text())?;
            }
            let more = instance.threads.len().saturating_sub(THREAD_LINES);
            if more > 0 {
                writeln!(to, "              and {more} more threads")?;
            }
            for file in instance.mapped_files.iter().take(THREAD_LINES) {
                let MappedFile { path, address, offset, bytes, pages, .. } = file;
                let path = quoted(path);
                writeln!(
                    to,
                    "              {bytes} bytes of {path} from {offset} on at {address:#x}, {pages} pages there"
                )?;
            }
            let more = instance.mapped_files.len().saturating_sub(THREAD_LINES);
            if more > 0 {
                writeln!(to, "              and {more} more mapped files")?;
            }
        }
        if self.pending > 0 {
            writeln!(to, "waiting     {} instances wait for a cell", self.pending)?;
        }
        for module in &self.modules {
            let Module { name, version, bytes, pages } = module;
            writeln!(to, "module      {}, version {version}: {bytes} bytes, {pages} pages", quoted(name))?;
        }
        for pages in &self.pages {
            let Pages { of, stored, zero, as_in_image, as_in_parent } = pages;
            write!(to, "pages       {of}: {stored} stored, {zero} zero, {as_in_image} as in the image")?;
            writeln!(to, ", {as_in_parent} as in the parent")?;
        }
        let Stored { pages, active, bytes, packing } = &self.stored;
        writeln!(to, "stored      {pages} pages, {active} of them active, {bytes} bytes ({packing})")?;
        for (kind, bytes) in &self.bytes {
            writeln!(to, "bytes       {bytes:>9}  {kind}")?;
        }
        Ok(())
    }
}

fn functions(contents: &Contents) -> Vec<Function> {
    let functions = contents.functions.iter();
    functions
        .map(|function| Function {
            name: function.name.clone(),
            image_sha256: function.image.to_string(),
            image_bytes: function.image_bytes,
        })
        .collect()
}

fn instances(contents: &Contents) -> Vec<Instance> {
    let mut threads: BTreeMap<u32, Vec<Thread>> = BTreeMap::new();
    for record in &contents.threads {
        threads.entry(record.instance).or_default().push(thread(record, contents));
    }
    let name = |instance: &InstanceRecord| contents.functions[instance.function as usize].name.clone();
    let instances = contents.instances.iter();
    instances
        .map(|instance| Instance {
            id: instance.id,
            step: instance.step.clone(),
            index: instance.index,
            attempt: instance.attempt,
            function: name(instance),
            heap_bytes: instance.heap_end - instance.heap_start,
            deadline_ns: instance.deadline,
            threads: threads.remove(&instance.id).unwrap_or_default(),
            mapped_files: mapped_files(contents, instance.id),
        })
        .collect()
}

fn mapped_files(contents: &Contents, instance: u32) -> Vec<MappedFile> {
    let files = contents.files.iter().filter(|file| file.instance == instance);
    files
        .map(|file| MappedFile {
            path: format!("/{}", file.path),
            address: file.start,
            offset: file.offset,
            bytes: file.bytes,
            writable: file.writable,
            pages: file.there.iter().map(|range| range.count).sum(),
        })
        .collect()
}

fn thread(record: &ThreadRecord, contents: &Contents) -> Thread {
    let (state, on, deadline) = match &record.state {
        ThreadState::Ready(_) => ("ready", None, None),
        ThreadState::Waiting { on, deadline } => match on {
            WaitOn::Time => ("time", None, *deadline),
            WaitOn::Futex { address } => ("word", Some(format!("{address:#x}")), *deadline),
            WaitOn::Thread { number } => ("thread", Some(format!("{number:#x}")), *deadline),
            WaitOn::Slot { name } => match EffectSlot::parse(name).map(|slot| slot.part) {
                Some(EffectPart::Resume) => ("continuation", None, *deadline),
                Some(_) => ("reply", None, *deadline),
                None => ("slot", Some(name.clone()), *deadline),
            },
            WaitOn::Queue { number } => ("queue", Some(number.to_string()), *deadline),
            WaitOn::Event { name } => ("event", Some(name.replace(EVENT_SEPARATOR, " or ")), *deadline),
        },
    };
    let registers = contents.registers.iter().find(|registers| registers.thread == record.number);
    let (state, on) = match registers {
        Some(registers) => ("interrupted", Some(format!("{:#x}", registers.ip))),
        None => (state, on),
    };
    let done = matches!(record.state, ThreadState::Ready(Resumption::Value(_)));
    let after_ns = deadline.map(|deadline| deadline.saturating_sub(contents.identity.domain_ns));
    Thread {
        number: record.number,
        hostcall: name_of(record.frame.number).filter(|_| !done),
        state,
        on,
        until: after_ns.and_then(|after| date(contents.identity.wall_ns.saturating_add(after))),
        after_ns,
    }
}

impl Thread {
    fn text(&self) -> String {
        let on = self.on.as_deref().unwrap_or_default();
        let what = match self.state {
            "time" => "sleeps".to_owned(),
            "word" => format!("waits for the word at {on}"),
            "thread" => format!("waits for the end of thread {on}"),
            "reply" => "waits for the reply to a request".to_owned(),
            "continuation" => "waits until its continuation is used".to_owned(),
            "slot" => format!("waits for slot {}", quoted(on)),
            "queue" => format!("waits for what is posted to queue {on}"),
            "event" => format!("waits for event {}", quoted(on)),
            "interrupted" => format!("was interrupted at {on}"),
            _ => "is ready".to_owned(),
        };
        match self.after_ns {
            Some(after) => {
                let date = self.until.as_deref().map_or_else(String::new, |date| format!(" ({date})"));
                format!("{what}, at most until {} after the capture{date}", time(after))
            }
            None => what,
        }
    }
}

fn modules(contents: &Contents) -> Vec<Module> {
    let modules = contents.modules.iter();
    modules
        .map(|module| Module {
            name: module.name.clone(),
            version: module.version().unwrap_or_default(),
            bytes: module.bytes.len(),
            pages: module.pages.iter().map(|range| range.count).sum(),
        })
        .collect()
}

/// A time of the calendar.
fn date(ns: u64) -> Option<String> {
    let since = Duration::from_nanos(ns);
    (since.as_secs() < CALENDAR).then(|| format_rfc3339_millis(UNIX_EPOCH + since).to_string())
}

/// A duration, to the millisecond.
fn time(ns: u64) -> String {
    format_duration(Duration::from_millis(ns / 1_000_000)).to_string()
}
