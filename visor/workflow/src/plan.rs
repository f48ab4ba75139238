//! A checked workflow, ready to run: names are indices, defaults are filled in, units are explicit.
//!
//! Nothing in a [`Plan`] can be wrong any more; the orchestrator takes it as it is.

use super::bounds::{INDEX, REGISTERED};
use monohull_domain::slot_access::SlotAccess;
pub use monohull_domain::slot_access::SlotPattern;
pub use monohull_report::{FailureKind, OnUnread};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One workflow, checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The workflow's name.
    pub name: String,
    /// The functions that steps name, each with its image.
    pub functions: Vec<Function>,
    /// The steps in an order in which every step comes after those it waits for.
    pub steps: Vec<Step>,
    /// Slots filled before the first step starts.
    pub inputs: Vec<Input>,
    /// Slots that are the workflow's result. Every one must be filled when the last step has ended.
    pub outputs: Vec<Output>,
    /// The slots by which it answers HTTP requests.
    pub http: Option<Http>,
    /// What slots mean that are still filled when the last step has ended.
    pub unread: Unread,
    /// The file systems functions see.
    pub files: Vec<Mount>,
    /// Limits for the whole.
    pub limits: Limits,
    /// The isolation inside the domain.
    pub separation: Separation,
    /// Whether functions may read the time-stamp counter.
    pub time_stamp_counter: TimeStampCounter,
    /// Whether a server's process runs one invocation or several; the server decides if the file does not say.
    pub process: Option<ProcessUse>,
    /// Where its template is.
    pub template: TemplatePoint,
    /// The workflows to whose invocations it may send events; `*` for all.
    pub sends_to: Vec<String>,
    /// The workflows of which it may start children.
    pub starts: Vec<String>,
    /// What it may reach of the network.
    pub network: monohull_network::Plan,
}

/// A function: a name for an image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Function {
    /// Its name in the workflow.
    pub name: String,
    /// The image file, resolved against the workflow file's folder; or a server's function, `function:NAME`.
    pub image: PathBuf,
    /// The program that the image was made of, if the workflow file names that instead: what messages speak of.
    pub made_of: Option<PathBuf>,
    /// How an image is made of it, if it is a program. The image that it becomes says so itself.
    #[serde(skip)]
    pub making: Making,
}

impl Function {
    /// The file that the workflow file names.
    pub fn file(&self) -> &Path {
        self.made_of.as_deref().unwrap_or(&self.image)
    }
}

/// The name of the registered function that an `image` names, if it does not name a file.
pub fn registered_name(image: &Path) -> Option<&str> {
    image.to_str()?.strip_prefix(REGISTERED)
}

/// One step: some instances of one function.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Index into [`Plan::functions`].
    pub function: usize,
    /// Indices of the steps that must have ended first; all are smaller than this step's own.
    pub after: Vec<usize>,
    /// How many instances run.
    pub instances: Instances,
    /// Arguments: a JSON object, any depth.
    #[serde(with = "as_text")]
    pub args: serde_json::Map<String, serde_json::Value>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Environment variables that are secrets, each with the name of a server's grant. No run has any: a server puts the values
    /// into `env`.
    pub secrets: BTreeMap<String, String>,
    /// The slot that is the standard input, or the stem of its name if there are several instances.
    pub stdin: Option<String>,
    /// The slots its instances may take over; all if there is no list.
    pub takes: Option<Vec<SlotRule>>,
    /// The slots its instances may fill; all if there is no list.
    pub fills: Option<Vec<SlotRule>>,
    /// The mount points of the file systems its instances may use; all if there is no list.
    pub files: Option<Vec<String>>,
    /// The effect it handles: it has an instance for each request, and no other.
    pub handles: Option<String>,
    /// The effects its instances may ask for; all that are handled if there is no list.
    pub performs: Option<Vec<String>>,
    /// The longest one instance may take, from its start.
    pub timeout: Option<Duration>,
    /// What to do when an instance fails.
    pub retry: Retry,
    /// Most bytes of the image's data, heap, thread stacks (but the main one) and owned slot buffers, per instance.
    pub memory: u64,
    /// Bytes of each stack, a power of two.
    pub stack: u64,
}

/// The most instances of a workflow that may start from templates: each has a cell of its own for that, and a process has few that it keeps for its
/// next invocation.
pub const TEMPLATES_MAX: usize = 8;

/// An instance that may start from a template: its step, as an index into [`Plan::steps`], and its own index.
pub type TemplateInstance = (usize, u32);

impl Plan {
    /// The instances that may start from templates, in the order of the cells in which they do: the first of each step, then the second of each that
    /// has two, and so on. There are none of a step whose instances are as many as there are slots, which is not known before, nor of one that
    /// handles an effect.
    pub fn template_instances(&self) -> Vec<TemplateInstance> {
        let counts = self.steps.iter().map(|step| match step.instances {
            Instances::Fixed(count) if step.handles.is_none() => count,
            Instances::Fixed(_) | Instances::Each { .. } => 0,
        });
        let counts: Vec<u32> = counts.collect();
        // No step has more than its first ones.
        let rounds = 0..TEMPLATES_MAX as u32;
        let of_round = |index: u32| {
            let steps = counts.iter().enumerate().filter(move |(_, count)| index < **count);
            steps.map(move |(step, _)| (step, index))
        };
        rounds.flat_map(of_round).take(TEMPLATES_MAX).collect()
    }

    /// Whether this is the instance with which the workflow begins: nothing has filled a slot, made a file or had a cell before it, and nothing runs
    /// beside it.
    pub fn begins_alone(&self, (step, _): TemplateInstance) -> bool {
        let steps = self.steps.iter().enumerate();
        let mut first = steps.filter(|(_, step)| step.after.is_empty() && step.handles.is_none());
        let is_first = first.next().is_some_and(|(first, _)| first == step);
        is_first && first.next().is_none() && self.steps[step].instances == Instances::Fixed(1)
    }

    /// Whether questions about files have one answer for this instance whatever has been before it: it sees file systems in memory alone, which are
    /// empty at first, and none if others may have made files there.
    pub fn finds_no_files(&self, instance: TemplateInstance) -> bool {
        let in_memory = self.files.iter().all(|mount| matches!(mount.source, MountSource::Memory { .. }));
        let sees_none = self.files.is_empty() || self.steps[instance.0].files.as_ref().is_some_and(Vec::is_empty);
        in_memory && (sees_none || self.begins_alone(instance))
    }

    /// The instances of all steps, as many as there can be.
    pub fn instances(&self) -> u64 {
        self.steps.iter().map(|step| u64::from(step.instances.most())).sum()
    }
}

impl Step {
    /// The slot that is the standard input of instance `index`; empty if it has none.
    pub fn stdin_of(&self, index: u32) -> String {
        match &self.stdin {
            None => String::new(),
            Some(slot) if self.instances == Instances::Fixed(1) => slot.clone(),
            Some(slot) => format!("{slot}.{index}"),
        }
    }

    /// The slots that instance `index` may use, if its step has a list. The standard input is always its own.
    pub fn slots_of(&self, index: u32) -> Option<SlotAccess> {
        if self.takes.is_none() && self.fills.is_none() {
            return None;
        }
        let patterns = |rules: &Option<Vec<SlotRule>>| {
            rules.as_ref().map(|rules| rules.iter().map(|rule| rule.of(index)).collect::<Vec<_>>())
        };
        let mut access = SlotAccess { takes: patterns(&self.takes), fills: patterns(&self.fills) };
        if let (Some(takes), Some(_)) = (&mut access.takes, &self.stdin) {
            takes.push(SlotPattern::Name(self.stdin_of(index)));
        }
        Some(access)
    }
}

/// How many instances a step has (`"instances"` in the file).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Instances {
    /// So many, at least 1.
    Fixed(u32),
    /// One for each slot that is filled when the step starts: `PREFIX0`, `PREFIX1` and so on.
    Each {
        /// How the slots' names begin.
        prefix: String,
        /// The most.
        max: u32,
    },
}

impl Instances {
    /// The most instances there can be.
    pub fn most(&self) -> u32 {
        match self {
            Instances::Fixed(count) => *count,
            Instances::Each { max, .. } => *max,
        }
    }
}

/// Slots that a step may use.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SlotRule {
    /// The name, or how it begins; [`INDEX`] stands for the number of the instance.
    pub name: String,
    /// Whether it is only how it begins.
    pub prefix: bool,
}

impl SlotRule {
    /// A rule as the file has it: `NAME`, or `PREFIX*`.
    pub fn parse(text: &str) -> SlotRule {
        match text.strip_suffix('*') {
            Some(name) => SlotRule { name: name.to_owned(), prefix: true },
            None => SlotRule { name: text.to_owned(), prefix: false },
        }
    }

    /// As the file has it.
    pub fn text(&self) -> String {
        format!("{}{}", self.name, if self.prefix { "*" } else { "" })
    }

    fn of(&self, index: u32) -> SlotPattern {
        let name = self.name.replace(INDEX, &index.to_string());
        if self.prefix { SlotPattern::Prefix(name) } else { SlotPattern::Name(name) }
    }
}

/// When and how often a failed instance is tried again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts in all, at least 1.
    pub max_attempts: u32,
    /// Pause before the second attempt.
    pub interval: Duration,
    /// Each further pause is this many times longer, at least 1.
    pub backoff_rate: f64,
    /// Only these failures are tried again; empty means all but `timeout` of the whole workflow.
    pub on: Vec<FailureKind>,
}

/// A slot filled from outside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Input {
    /// The slot's name.
    pub slot: String,
    /// The file it is filled from unless the command line says otherwise, resolved against the workflow's folder.
    pub path: Option<PathBuf>,
}

/// A slot that leaves the workflow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Output {
    /// The slot's name.
    pub slot: String,
    /// What its bytes are, for HTTP.
    pub content_type: Option<String>,
}

/// How a workflow answers HTTP requests.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Http {
    /// The one input: the request.
    pub request: String,
    /// The output that is the answer.
    pub response: String,
}

/// What unread slots mean.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Unread {
    /// For slots that no rule matches.
    pub default: OnUnread,
    /// The first rule that matches a slot decides.
    pub rules: Vec<(SlotPattern, OnUnread)>,
}

impl Unread {
    /// These outcomes, the most specific pattern first.
    pub fn new(default: OnUnread, mut rules: Vec<(SlotPattern, OnUnread)>) -> Unread {
        rules.sort_by_key(|(pattern, _)| match pattern {
            SlotPattern::Name(name) => (0, Reverse(name.len())),
            SlotPattern::Prefix(prefix) => (1, Reverse(prefix.len())),
        });
        Unread { default, rules }
    }

    /// What an unread slot of this name means.
    pub fn outcome(&self, slot: &str) -> OnUnread {
        self.rules.iter().find(|(pattern, _)| pattern.matches(slot)).map_or(self.default, |(_, outcome)| *outcome)
    }
}

/// A file system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mount {
    /// Where functions find it: an absolute path in clean form.
    pub point: String,
    /// What is there.
    pub source: MountSource,
}

/// What a mount point leads to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MountSource {
    /// Memory, at first empty.
    Memory {
        /// The most bytes it may hold.
        size: u64,
    },
    /// A FAT disk image.
    Image {
        /// The file, resolved against the workflow file's folder.
        path: PathBuf,
        /// What becomes of changes.
        access: Access,
    },
    /// A directory of the host.
    Directory {
        /// Where it is, resolved against the workflow file's folder.
        path: PathBuf,
        /// Functions may change it.
        writable: bool,
    },
    /// What a server's operator grants under this name. No run has any: a server puts in its place what is granted.
    Granted {
        /// The name of the grant.
        grant: String,
        /// What for, if the file says.
        access: Option<Access>,
    },
}

impl Mount {
    /// The same, with a relative path counted from a folder.
    pub(super) fn in_folder(self, folder: &Path) -> Mount {
        let source = match self.source {
            MountSource::Image { path, access } => MountSource::Image { path: folder.join(path), access },
            MountSource::Directory { path, writable } => MountSource::Directory { path: folder.join(path), writable },
            source @ (MountSource::Memory { .. } | MountSource::Granted { .. }) => source,
        };
        Mount { source, ..self }
    }
}

impl MountSource {
    /// The file or directory of the host that it leads to.
    pub fn path(&self) -> Option<&Path> {
        match self {
            MountSource::Memory { .. } | MountSource::Granted { .. } => None,
            MountSource::Image { path, .. } | MountSource::Directory { path, .. } => Some(path),
        }
    }
}

/// What becomes of changes to a mount (`"access"` in the file).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// They are refused.
    Read,
    /// They are kept in memory and dropped when the workflow ends.
    Copy,
    /// They are written to the image. No other workflow can use it meanwhile.
    Write,
}

/// Limits for the whole workflow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// The longest the workflow may take.
    pub timeout: Option<Duration>,
    /// Most bytes in slot buffers, all owners together.
    pub slots: u64,
    /// Most bytes of standard output and error kept, per instance.
    pub output: u64,
    /// Most carrier threads; the host's cores if the file does not say.
    pub carriers: Option<usize>,
    /// Most user threads of one instance.
    pub threads: u32,
}

/// What protection keys separate inside a domain (`"isolation"` in the file).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Separation {
    /// Functions are separated from the system.
    #[default]
    Workflow,
    /// Every instance is also separated from every other.
    Function,
}

/// How an image is made of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Making {
    /// Of a program in Python.
    pub target: Target,
    /// Of a WebAssembly program.
    pub checks: Checks,
}

/// What keeps a WebAssembly program in its memory (`"checks"` in the file).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Checks {
    /// Pages without access around it.
    #[default]
    Guards,
    /// Instructions that compare each address.
    Explicit,
}

/// What a program in Python is built for (`"target"` in the file).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// The processor: its interpreter is a function.
    #[default]
    Native,
    /// WebAssembly: its interpreter is a WebAssembly program, which cannot leave its memory.
    Wasi,
}

/// Whether functions may read the processor's time-stamp counter (`"time_stamp_counter"` in the file).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimeStampCounter {
    /// Functions may read it.
    #[default]
    Allow,
    /// Reading it ends the instance.
    Deny,
}

/// How many invocations a process of a server runs (`"process"` in the file).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessUse {
    /// One: each invocation has a new process.
    PerInvocation,
    /// Several, one after the other. The process is reset in between.
    Reused,
}

/// Where a server's template of a workflow is (`"template"` in the file).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TemplatePoint {
    /// Where the function says that it is ready. There is none if it does not say so.
    #[default]
    WhenReady,
    /// There, or already before the function's first call that waits for, asks for or changes what is an invocation's own. The function
    /// need not say anything.
    AfterFirstWait,
}

/// JSON inside of formats that do not describe themselves.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    type Object = serde_json::Map<String, serde_json::Value>;

    pub(super) fn serialize<S: Serializer>(object: &Object, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&serde_json::to_string(object).expect("a JSON object is JSON"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Object, D::Error> {
        serde_json::from_str(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}
