//! The workflow file, as it is written: one type per JSON object.
//!
//! These types are what the published JSON Schema is generated from, what `monohull new` writes, and what the
//! documentation of every field is read from: a field's doc comment says what it means, what happens without it, and
//! why that is so. They hold what the author wrote (`"30s"`, `"64MiB"`, names); [`plan`](super::plan) holds what it
//! means. [`shape`](super::shape) reads a file field by field rather than through serde, which stops at the first
//! mistake; a test keeps the two in step.

mod network;

pub use network::{
    HostName, HttpsHeader, HttpsHeaderObject, HttpsOrigin, HttpsOriginObject, Network, NetworkMode, NetworkObject,
    NetworkReference, NetworkRule, SecretName, StepName,
};

use std::collections::BTreeMap;

use monohull_abi::layout;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::{
    ATTEMPTS_MAX, DURATION_PATTERN, EACH_PATTERN, INSTANCES_MAX, MEDIA_TYPE_MAX, MEDIA_TYPE_PATTERN, MOUNT_POINT_MAX,
    MOUNT_POINT_PATTERN, MOUNTS_MAX, NAME_PATTERN, RECEIVER_PATTERN, SIZE_PATTERN, SLOT_PATTERN, THREADS_MAX,
};
use super::plan::{
    Access, Checks, FailureKind, OnUnread, ProcessUse, Separation, Target, TemplatePoint, TimeStampCounter,
};

/// A Monohull workflow: steps that run functions, in the order their dependencies allow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Monohull workflow")]
pub struct Document {
    /// The path of this file's JSON Schema, for editors. Monohull itself does not read it.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub schema: Option<String>,
    /// The workflow's name: letters, digits, `-` and `_`, at most 63, so that it fits in a URL and a file name.
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// What the workflow does, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub description: Option<String>,
    /// The functions that steps run, by name. A function no step runs is allowed and warned about.
    #[schemars(extend("propertyNames" = { "pattern": NAME_PATTERN }))]
    pub functions: BTreeMap<String, Function>,
    /// The steps. Their order in the file does not matter; `after` does.
    #[schemars(length(min = 1))]
    pub steps: Vec<Step>,
    /// Slots filled before the first step starts. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// Slots that are the workflow's result; each must be filled when the last step has ended. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<Output>,
    /// The slots by which the workflow answers HTTP requests. Default: none, a server's `/http/NAME/` has nothing there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "HttpObject")]
    pub http: Option<HttpObject>,
    /// The outcome of a run that ends with a slot that is still filled and is no output: one outcome for all slots, or
    /// an object with outcomes for some of them. Default: `fail`, because a slot that nothing reads is usually lost
    /// work: a fan-out that is one instance short, or a misspelt name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Unread")]
    pub unread: Option<Unread>,
    /// The file systems functions see, by mount point. Default: none: a function finds no file that the workflow does
    /// not give it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOUNTS_MAX))]
    pub files: Vec<Mount>,
    /// Limits for the whole workflow.
    #[serde(default, skip_serializing_if = "Limits::is_default")]
    pub limits: Limits,
    /// What protection keys separate inside the workflow's domain. Default: `workflow`, because the functions of one
    /// workflow usually come from one author, and a key for every instance costs a switch of pages at each hand-over.
    #[serde(default, skip_serializing_if = "is_default_separation")]
    pub isolation: Separation,
    /// Whether functions may read the processor's time-stamp counter, which has a resolution of about a nanosecond.
    /// Default: `allow`, because it is the fast way to measure time, and a thread that counts is nearly as precise.
    /// With `deny` reading it ends the instance; Monohull's own clocks still work, and take some microseconds for each
    /// reading.
    #[serde(default, skip_serializing_if = "is_default_counter")]
    pub time_stamp_counter: TimeStampCounter,
    /// Whether a server runs each invocation in a new process, or later ones in the process of an earlier one. Default:
    /// what the server's `--process` says, and without it `reused` where protection keys are in force: only they keep a
    /// function from what trusted code of its own process holds. A server reuses a process only for the same version of
    /// the same workflow, only after an invocation that ended as `done`, and never if the workflow has a network or files
    /// of the host, or for an invocation that is durable from its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ProcessUse")]
    pub process: Option<ProcessUse>,
    /// Where the templates of the workflow's instances are, from which later invocations of a server and later runs start. Default: `when-ready`, where the
    /// function says that it is ready, because only its author knows what it has made by then that all invocations may have in common.
    /// With `after-first-wait` also a function has one that does not say so: before its first call that waits for, asks for or
    /// changes what is an invocation's own, such as an input, a file, a random number or a line of output.
    #[serde(default, skip_serializing_if = "is_default_template")]
    pub template: TemplatePoint,
    /// The workflows to whose invocations functions may send events: names, or `*` for all workflows of the state folder or
    /// the server. Default: none, because an event of the right name can approve, pay or cancel what waits for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = RECEIVER_PATTERN)))]
    pub sends_to: Vec<String>,
    /// The workflows of which functions may start children. Default: none, because what is started has the rights of its own
    /// workflow file, and takes part of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = NAME_PATTERN)))]
    pub starts: Vec<String>,
    /// What the workflow may reach of the network: a mode, or an object that also has lists of addresses. Default:
    /// nothing, because most functions need no network, and a function cannot attack what it cannot reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Network")]
    pub network: Option<Network>,
}

/// A function: the image that holds its code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// The image file `monohull build` made. A relative path counts from the workflow file's folder, so that a
    /// workflow can be run from anywhere. For a server: `function:NAME`, a function registered there.
    #[schemars(length(min = 1))]
    pub image: String,
    /// What a Python program that `image` names is built for: `native` or `wasi`. Default: `native`, which is faster and
    /// has more; with `wasi` its interpreter is a WebAssembly program, which cannot leave its memory.
    #[serde(default, skip_serializing_if = "is_default_target")]
    pub target: Target,
    /// What keeps a WebAssembly program that `image` names in its memory: `guards`, pages without access around it, or
    /// `explicit`, instructions that compare each address, as `monohull build --explicit-checks` compiles them. Default:
    /// `guards`, which is faster. The other one is for hosts where a fault ends the process: with protection keys before
    /// Linux 6.12, where tracing is refused.
    #[serde(default, skip_serializing_if = "is_default_checks")]
    pub checks: Checks,
}

/// One step: some instances of one function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The step's name: letters, digits, `-` and `_`, at most 63. Unique in the workflow; `--set` and reports
    /// use it.
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// The name of a function in `functions`.
    pub function: String,
    /// The steps that must have ended before this one starts. Default: none, the step starts at once. Slots alone
    /// also order steps: taking a slot that is not filled yet waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("uniqueItems" = true))]
    pub after: Vec<String>,
    /// How many instances of the function run. Default: 1. Instances beyond the number of cores and of cells (256) wait
    /// for their turn. All steps together have at most 100 000, so that a small file cannot ask for much memory. An
    /// object counts slots instead.
    #[serde(default, skip_serializing_if = "Instances::is_one")]
    pub instances: Instances,
    /// The function's arguments: a JSON object with values of any type. `--set STEP.ARG=VALUE` replaces a value that is
    /// here; an argument that is only ever given there can be `null` here. Default: empty.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub args: serde_json::Map<String, serde_json::Value>,
    /// Environment variables of the function. Default: none. The host's environment is never passed on, because a
    /// workflow should mean the same everywhere and must not leak what the host keeps there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// On a server: environment variables that are secrets, each with the name of what the operator grants. Default:
    /// none. A document holds no secret itself, because every client of the server can read it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, SecretName>,
    /// The slot whose bytes are the function's standard input: an input of the workflow, or what another step fills.
    /// The first read takes it. With several instances each reads its own part: `NAME.0`, `NAME.1` and so on. Default:
    /// none, the standard input is at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SlotName")]
    pub stdin: Option<SlotName>,
    /// The slots that its instances may take: names, or beginnings of names with a `*` behind; `{index}` stands for the
    /// instance's number, from 0. The standard input is allowed by itself. Default: every slot of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<SlotName>", extend("uniqueItems" = true))]
    pub takes: Option<Vec<SlotName>>,
    /// The slots that its instances may fill, in the same way. Default: every slot of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<SlotName>", extend("uniqueItems" = true))]
    pub fills: Option<Vec<SlotName>>,
    /// The mount points of the file systems that its instances may use, of those in `files` of the workflow. Default: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<MountPoint>", extend("uniqueItems" = true))]
    pub files: Option<Vec<MountPoint>>,
    /// The effect whose requests the step handles: an instance of the function runs for each, takes it from the slot `request`, and
    /// fills the slot `reply`. Such a step has no `after` and no `instances`, and nothing comes after it. Default: none, the step
    /// runs when those before it have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EffectName")]
    pub handles: Option<EffectName>,
    /// The effects that its instances may ask for. Default: every effect that a step of the workflow handles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<EffectName>", extend("uniqueItems" = true))]
    pub performs: Option<Vec<EffectName>>,
    /// The longest one instance may take, from its start, each attempt anew. Default: no limit of its own, because only
    /// the author knows how long the work takes; `limits.timeout` still holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText")]
    pub timeout: Option<DurationText>,
    /// When a failed instance is tried again. Default: never, because work must not be repeated without being asked
    /// for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Retry")]
    pub retry: Option<Retry>,
    /// Most bytes of the image's data, heap, thread stacks and owned slot buffers, per instance. A stack counts from its
    /// first thread on, and later threads use it again; a slot buffer that moves while it becomes larger counts twice.
    /// Default: `1GiB`: ample for most work, and a leak ends one instance before it exhausts the machine's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Size")]
    pub memory: Option<Size>,
    /// Bytes of each stack, a power of two from 16 KiB to 1 GiB. Default: `1MiB`; only touched pages cost memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Size")]
    pub stack: Option<Size>,
}

/// How many instances a step has: a number, or one for each of some slots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Instances {
    /// So many.
    Count(#[schemars(range(min = 1, max = INSTANCES_MAX))] u32),
    /// One for each of some slots.
    Each(EachObject),
}

impl Default for Instances {
    fn default() -> Instances {
        Instances::Count(1)
    }
}

impl Instances {
    fn is_one(&self) -> bool {
        *self == Instances::default()
    }
}

/// One instance for each slot that is filled when the step starts. The step needs an `after`, with the step that fills them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EachObject {
    /// The beginning of the slots' names, with a `*` behind. The slots are numbered: `part.*` stands for `part.0`, `part.1` and
    /// so on, without a gap; instance 0 is for `part.0`. If there are none, the step has no instances and ends at once.
    #[schemars(length(max = 255), regex(pattern = EACH_PATTERN))]
    pub each: String,
    /// The most instances; more slots are an error. Required, so that the file shows the most that it may take.
    #[schemars(range(min = 1, max = INSTANCES_MAX))]
    pub max: u32,
}

/// When and how often a failed instance is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Attempts in all, the first included. Required: there is no number of attempts that suits every function.
    #[schemars(range(min = 1, max = ATTEMPTS_MAX))]
    pub max_attempts: u32,
    /// Pause before the second attempt. Default: `100ms`: a new instance starts in microseconds, so the pause is for
    /// what the function depends on outside of Monohull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText")]
    pub interval: Option<DurationText>,
    /// Each further pause is this many times longer. Default: 2, so that an overloaded peer gets time to recover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64", range(min = 1, max = 100))]
    pub backoff_rate: Option<f64>,
    /// Only these failures are tried again. Default: all of them. An error that the function marks as permanent is
    /// never tried again, nor is a failure after a call that the workflow file does not allow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("uniqueItems" = true))]
    pub on: Vec<FailureKind>,
}

/// A slot filled from outside: its name, or an object that also names a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Input {
    /// The slot's name; the command line gives its content.
    Name(SlotName),
    /// The slot's name and where its content comes from.
    Object(InputObject),
}

/// A slot filled from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputObject {
    /// The slot's name.
    pub slot: SlotName,
    /// The file its content comes from. A relative path counts from the workflow file's folder. Default: none;
    /// `--input SLOT=PATH` gives it, and overrides it where it is given here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub path: Option<String>,
}

/// A slot that leaves the workflow: its name, or an object that also says what its bytes are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Output {
    /// The slot's name.
    Name(SlotName),
    /// The slot's name and what its bytes are.
    Object(OutputObject),
}

/// A slot that leaves the workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputObject {
    /// The slot's name.
    pub slot: SlotName,
    /// The `Content-Type` of an HTTP answer that is this slot. Default: `application/octet-stream`, because a slot is
    /// bytes, and its type is not guessed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = MEDIA_TYPE_MAX), regex(pattern = MEDIA_TYPE_PATTERN))]
    pub content_type: Option<String>,
}

/// The slots by which a workflow answers HTTP requests. Both hold messages of HTTP/1.1: a first line, fields, an empty line and
/// the content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpObject {
    /// The slot that is filled with the request. It is the workflow's one input.
    pub request: SlotName,
    /// The slot that the answer is taken from. It is an output of the workflow.
    pub response: SlotName,
}

/// What happens if slots are left unread: one outcome for all slots, or outcomes by slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Unread {
    /// One outcome for all slots.
    All(OnUnread),
    /// Outcomes by slot.
    Object(UnreadObject),
}

/// Outcomes for unread slots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnreadObject {
    /// The outcome for slots that `slots` does not name. Default: `fail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OnUnread")]
    pub default: Option<OnUnread>,
    /// Outcomes by slot: a name, or the beginning of names with a `*` behind. A name takes precedence over a beginning,
    /// and a longer beginning over a shorter one. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = { "minLength": 1, "maxLength": 255, "pattern": SLOT_PATTERN }))]
    pub slots: BTreeMap<String, OnUnread>,
}

/// A file system that all functions of the workflow see at the same place. It has one source: `memory`, `image`, `directory`
/// or `grant`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["memory"], "not": { "required": ["access"] } },
    { "required": ["image"] },
    { "required": ["directory"], "properties": { "access": { "enum": ["read", "write"] } } },
    { "required": ["grant"] },
]))]
pub struct Mount {
    /// Where it is: an absolute path without `.`, `..` and doubled `/`. A mount point can lie inside another.
    #[schemars(length(max = MOUNT_POINT_MAX), regex(pattern = MOUNT_POINT_PATTERN))]
    pub at: String,
    /// Files in memory, at first none; dropped when the workflow ends. The value is the most bytes they may take together:
    /// they belong to the workflow, so no function's own limit counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Size")]
    pub memory: Option<Size>,
    /// The files of a FAT disk image, such as `monohull image create` makes. A relative path counts from the workflow
    /// file's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub image: Option<String>,
    /// A directory of the host, granted with everything below it on the same file system. Symbolic links in it are not
    /// followed. A relative path counts from the workflow file's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub directory: Option<String>,
    /// On a server: files that its operator grants under this name. Without `access`, a directory is for reading and an image
    /// is a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = NAME_PATTERN))]
    pub grant: Option<String>,
    /// What happens to changes of an image: `read` refuses them; `copy` keeps them in memory until the workflow ends,
    /// so that any number of workflows can use one image at the same time; `write` puts them into the image, which no
    /// other workflow can use meanwhile. Default: `copy`, so that a workflow finds the same files each time it runs. A
    /// directory has `read` or `write`, by default `read`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Access")]
    pub access: Option<Access>,
}

/// The name of a slot: 1 to 255 bytes without `=` (which separates the slot from its path on the command line) and
/// control characters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlotName(#[schemars(length(min = 1, max = 255), regex(pattern = SLOT_PATTERN))] pub String);

/// The mount point of a file system of the workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MountPoint(#[schemars(length(max = MOUNT_POINT_MAX), regex(pattern = MOUNT_POINT_PATTERN))] pub String);

/// The name of an effect: letters, digits, `-` and `_`, at most 63.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EffectName(#[schemars(regex(pattern = NAME_PATTERN))] pub String);

/// A whole number with a unit: `500us`, `250ms`, `30s`, `2m`, `1h`, `30d`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DurationText(#[schemars(regex(pattern = DURATION_PATTERN))] pub String);

/// Bytes as a number, or a whole number with a unit: `512KiB`, `64MiB`, `2GiB`. Units are powers of 1024.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Size {
    /// A number of bytes.
    Bytes(u64),
    /// A number with a unit.
    Text(#[schemars(regex(pattern = SIZE_PATTERN))] String),
}

/// Limits for the whole workflow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The longest the workflow may take. Default: no limit; a server has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText")]
    pub timeout: Option<DurationText>,
    /// Most bytes in slot buffers, all owners together. Default: `4GiB`: a workflow that accumulates buffers fails with
    /// a message before it exhausts the machine's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Size")]
    pub slots: Option<Size>,
    /// Most bytes of standard output and error kept per instance; each line takes 32 besides its text. Default: `1MiB`:
    /// output is for people and logs; data travels in slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Size")]
    pub output: Option<Size>,
    /// Most threads of the host that run functions at the same time. Default: the host's cores; more would not run at
    /// the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = layout::CARRIER_MAX))]
    pub carriers: Option<u32>,
    /// Most user threads of one instance. Default: 1024: a thread costs little, but a loop that starts threads without
    /// end has to fail at some point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = THREADS_MAX))]
    pub threads: Option<u32>,
}

impl Limits {
    fn is_default(&self) -> bool {
        *self == Limits::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_default_separation(separation: &Separation) -> bool {
    *separation == Separation::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_default_target(target: &Target) -> bool {
    *target == Target::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_default_checks(checks: &Checks) -> bool {
    *checks == Checks::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_default_counter(counter: &TimeStampCounter) -> bool {
    *counter == TimeStampCounter::default()
}

fn is_default_template(template: &TemplatePoint) -> bool {
    *template == TemplatePoint::default()
}

/// The JSON Schema of the workflow file, as published in `workflows/workflow.schema.json`.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Document).to_value()
}
