//! The fields of a workflow file: which there are, of what type, within what bounds.
//!
//! What a field *means*, and what it is when it is left out, stands in [`document`](super::document). A value that is
//! wrong is noted and replaced by the default, so that reading goes on; the result is then never used as a plan.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use jsonc_parser::ast::Value;
use jsonc_parser::common::{Range, Ranged};
use monohull_abi::layout;
use monohull_abi::types::SLOT_NAME_MAX;
use serde::Deserialize;

use super::document::{self as doc, NAME_MAX};
use super::plan::{
    self, Access, FailureKind, Input, Limits, Mount, MountSource, Output, Retry, Separation, TimeStampCounter,
};
use super::reader::{At, Fields, Reader};
use super::source::{quoted, suggestion};
use crate::network::{self, Rule, rule::Host};

/// A workflow whose fields are right, each for itself; names are not resolved yet.
pub(super) struct Shape<'a> {
    pub(super) name: String,
    pub(super) functions: Vec<Function<'a>>,
    pub(super) steps: Vec<Step<'a>>,
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: Vec<Output>,
    pub(super) files: Vec<Mount>,
    pub(super) limits: Limits,
    pub(super) separation: Separation,
    pub(super) time_stamp_counter: TimeStampCounter,
    pub(super) network: network::Plan,
}

/// A function as the file has it.
pub(super) struct Function<'a> {
    pub(super) name: At<&'a str>,
    pub(super) image: PathBuf,
}

/// A step as the file has it. What it lacks or has wrong is `None`, or the default.
pub(super) struct Step<'a> {
    pub(super) name: Option<At<&'a str>>,
    pub(super) function: Option<At<&'a str>>,
    pub(super) after: Vec<At<&'a str>>,
    pub(super) instances: u32,
    pub(super) args: serde_json::Map<String, serde_json::Value>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) stdin: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) retry: Retry,
    pub(super) memory: u64,
    pub(super) stack: u64,
}

const DOCUMENT: &[&str] = &[
    "name",
    "functions",
    "steps",
    "inputs",
    "outputs",
    "files",
    "limits",
    "isolation",
    "time_stamp_counter",
    "network",
    "description",
    "$schema",
];
const FUNCTION: &[&str] = &["image"];
const STEP: &[&str] =
    &["name", "function", "after", "instances", "args", "env", "stdin", "timeout", "retry", "memory", "stack"];
const RETRY: &[&str] = &["max_attempts", "interval", "backoff_rate", "on"];
const LIMITS: &[&str] = &["timeout", "slots", "output", "carriers", "threads"];
const NETWORK: &[&str] = &["mode", "connect", "listen"];
const INPUT: &[&str] = &["slot", "path"];
const OUTPUT: &[&str] = &["slot", "content_type"];
const MOUNT: &[&str] = &["at", "memory", "image", "directory", "access"];
/// The fields of a mount that say what is there; it has one of them.
const SOURCES: &[&str] = &["memory", "image", "directory"];

/// A slot at the workflow's border, with the fields of inputs and of outputs.
struct Slot {
    name: String,
    path: Option<PathBuf>,
    content_type: Option<String>,
}

impl Reader<'_> {
    /// Reads the whole file.
    pub(super) fn document<'a>(&mut self, value: &'a Value<'a>) -> Option<Shape<'a>> {
        let fields = self.fields(value, "the workflow", DOCUMENT, 3)?;
        for field in ["description", "$schema"] {
            if let Some(value) = fields.get(field) {
                self.text(value, &format!("`{field}`"), "a string");
            }
        }
        let name = fields.get("name").and_then(|value| self.name(value, "`name`")).map(|name| name.value.to_owned());
        let functions = fields.get("functions").map(|value| self.functions(value)).unwrap_or_default();
        let steps = fields.get("steps").map(|value| self.steps(value)).unwrap_or_default();
        let inputs = self.slots(fields.get("inputs"), "inputs", INPUT);
        let outputs = self.slots(fields.get("outputs"), "outputs", OUTPUT);
        let files = fields.get("files").map(|value| self.files(value)).unwrap_or_default();
        let limits = self.limits(fields.get("limits"));
        let separation = fields
            .get("isolation")
            .and_then(|value| self.word(value, "`isolation`", "`workflow` or `function`", &["workflow", "function"]));
        let counter = fields
            .get("time_stamp_counter")
            .and_then(|value| self.word(value, "`time_stamp_counter`", "`allow` or `deny`", &["allow", "deny"]));
        let network = fields.get("network").map(|value| self.network(value)).unwrap_or_default();
        Some(Shape {
            name: name.unwrap_or_default(),
            functions,
            steps,
            inputs: inputs.into_iter().map(|slot| Input { slot: slot.name, path: slot.path }).collect(),
            outputs: outputs
                .into_iter()
                .map(|slot| Output { slot: slot.name, content_type: slot.content_type })
                .collect(),
            files,
            limits,
            separation: separation.unwrap_or_default(),
            time_stamp_counter: counter.unwrap_or_default(),
            network,
        })
    }

    fn functions<'a>(&mut self, value: &'a Value<'a>) -> Vec<Function<'a>> {
        let Some(object) = self.map(value, "`functions`") else { return Vec::new() };
        let mut functions = Vec::new();
        for property in &object.properties {
            let name = At { value: property.name.as_str(), at: property.name.range() };
            self.check_name(name, "the name of a function");
            let what = format!("function {}", quoted(name.value));
            let image =
                self.fields(&property.value, &what, FUNCTION, 1).and_then(|fields| self.image(fields.get("image")?));
            functions.push(Function { name, image: image.unwrap_or_default() });
        }
        functions
    }

    fn steps<'a>(&mut self, value: &'a Value<'a>) -> Vec<Step<'a>> {
        let Some(array) = self.array(value, "`steps`", "an array of steps") else { return Vec::new() };
        if array.elements.is_empty() {
            self.error(array.range, "`steps` is empty".to_owned(), "at least one step".to_owned());
        }
        array.elements.iter().filter_map(|element| self.step(element)).collect()
    }

    fn step<'a>(&mut self, value: &'a Value<'a>) -> Option<Step<'a>> {
        let fields = self.fields(value, "a step", STEP, 2)?;
        let least = Duration::from_micros(1);
        let name = fields.get("name").and_then(|value| self.name(value, "`name`"));
        let function = fields.get("function").and_then(|value| self.text(value, "`function`", "a function's name"));
        let after = fields.get("after").map(|value| self.after(value)).unwrap_or_default();
        let instances =
            fields.get("instances").and_then(|value| self.integer(value, "`instances`", 1, doc::INSTANCES_MAX));
        let args = fields.get("args").and_then(|value| self.args(value));
        let env = fields.get("env").map(|value| self.env(value));
        let stdin = fields.get("stdin").and_then(|value| self.slot_name(value, "`stdin`"));
        let timeout = fields.get("timeout").and_then(|value| self.duration(value, "`timeout`", least));
        let retry = self.retry(fields.get("retry"));
        let memory =
            fields.get("memory").and_then(|value| self.size(value, "`memory`", doc::MEMORY_MIN, layout::ARENA_SIZE));
        let stack = fields.get("stack").and_then(|value| self.stack(value));
        Some(Step {
            name,
            function,
            after,
            instances: instances.map_or(1, narrow),
            args: args.unwrap_or_default(),
            env: env.unwrap_or_default(),
            stdin: stdin.map(|slot| slot.value.to_owned()),
            timeout,
            retry,
            memory: memory.unwrap_or(doc::MEMORY_DEFAULT),
            stack: stack.unwrap_or(layout::DEFAULT_STACK_SIZE),
        })
    }

    fn after<'a>(&mut self, value: &'a Value<'a>) -> Vec<At<&'a str>> {
        const EXPECTED: &str = "an array of the names of steps";
        let Some(array) = self.array(value, "`after`", EXPECTED) else { return Vec::new() };
        let names =
            array.elements.iter().filter_map(|element| self.text(element, "an entry of `after`", "a step's name"));
        let names: Vec<_> = names.collect();
        self.each_once(names, "`after`")
    }

    fn args(&mut self, value: &Value<'_>) -> Option<serde_json::Map<String, serde_json::Value>> {
        let object = self.object(value, "`args`")?;
        self.check_duplicates_within(value);
        // The same text has passed `serde_json` as part of the whole file.
        serde_json::from_str(&self.source.text[object.range.start..object.range.end]).ok()
    }

    fn env(&mut self, value: &Value<'_>) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        let Some(object) = self.map(value, "`env`") else { return env };
        for property in &object.properties {
            let name = property.name.as_str();
            if name.is_empty() || name.contains(['=', '\0']) {
                let message = format!("{} is no name for an environment variable", quoted(name));
                self.error(property.name.range(), message, "a name without `=` and NUL".to_owned());
            }
            let what = format!("environment variable {}", quoted(name));
            let Some(text) = self.text(&property.value, &what, "a string; numbers need quotes here") else { continue };
            if text.value.contains('\0') {
                self.error(text.at, format!("{what} holds a NUL"), "text without NUL".to_owned());
            }
            env.insert(name.to_owned(), text.value.to_owned());
        }
        env
    }

    fn retry(&mut self, value: Option<&Value<'_>>) -> Retry {
        let mut retry = Retry {
            max_attempts: 1,
            interval: Duration::from_millis(doc::INTERVAL_DEFAULT_MS),
            backoff_rate: doc::BACKOFF_DEFAULT,
            on: Vec::new(),
        };
        let Some(fields) = value.and_then(|value| self.fields(value, "`retry`", RETRY, 1)) else { return retry };
        if let Some(value) = fields.get("max_attempts") {
            retry.max_attempts = self.integer(value, "`max_attempts`", 1, doc::ATTEMPTS_MAX).map_or(1, narrow);
        }
        if let Some(value) = fields.get("interval") {
            retry.interval = self.duration(value, "`interval`", Duration::ZERO).unwrap_or(retry.interval);
        }
        if let Some(value) = fields.get("backoff_rate") {
            retry.backoff_rate =
                self.number(value, "`backoff_rate`", 1.0, doc::BACKOFF_MAX).unwrap_or(retry.backoff_rate);
        }
        if let Some(value) = fields.get("on") {
            retry.on = self.failures(value);
        }
        retry
    }

    fn failures(&mut self, value: &Value<'_>) -> Vec<FailureKind> {
        let known = FailureKind::names();
        let expected = format!("one of {}", super::reader::list(&known));
        let Some(array) = self.array(value, "`on`", "an array of kinds of failures") else { return Vec::new() };
        let names: Vec<_> =
            array.elements.iter().filter_map(|element| self.text(element, "an entry of `on`", &expected)).collect();
        for name in &names {
            if !known.contains(&name.value) {
                let hint = suggestion(name.value, known.iter().copied());
                self.error(name.at, format!("no failure is called {}{hint}", quoted(name.value)), expected.clone());
            }
        }
        self.each_once(names, "`on`").iter().filter_map(|name| parse_word(name.value)).collect()
    }

    fn stack(&mut self, value: &Value<'_>) -> Option<u64> {
        let size = self.size(value, "`stack`", layout::MIN_STACK_SIZE, layout::MAX_STACK_SIZE)?;
        if !size.is_power_of_two() {
            self.error(
                value.range(),
                format!("`stack` is {size} bytes"),
                "a power of two, such as \"1MiB\"".to_owned(),
            );
        }
        Some(size)
    }

    fn limits(&mut self, value: Option<&Value<'_>>) -> Limits {
        let mut limits = Limits {
            timeout: None,
            slots: doc::SLOTS_DEFAULT,
            output: doc::OUTPUT_DEFAULT,
            carriers: None,
            threads: doc::THREADS_DEFAULT,
        };
        let Some(fields) = value.and_then(|value| self.fields(value, "`limits`", LIMITS, 0)) else { return limits };
        let least = Duration::from_micros(1);
        limits.timeout = fields.get("timeout").and_then(|value| self.duration(value, "`timeout`", least));
        if let Some(value) = fields.get("slots") {
            limits.slots = self.size(value, "`slots`", layout::PAGE, layout::ARENA_SIZE).unwrap_or(limits.slots);
        }
        if let Some(value) = fields.get("output") {
            limits.output = self.size(value, "`output`", 0, doc::OUTPUT_MAX).unwrap_or(limits.output);
        }
        limits.carriers = fields
            .get("carriers")
            .and_then(|value| self.integer(value, "`carriers`", 1, layout::CARRIER_MAX as u64))
            .map(|count| count as usize);
        if let Some(value) = fields.get("threads") {
            limits.threads = self.integer(value, "`threads`", 1, doc::THREADS_MAX).map_or(limits.threads, narrow);
        }
        limits
    }

    fn files(&mut self, value: &Value<'_>) -> Vec<Mount> {
        let Some(array) = self.array(value, "`files`", "an array of file systems") else { return Vec::new() };
        if array.elements.len() > doc::MOUNTS_MAX {
            let message = format!("`files` has {} entries", array.elements.len());
            self.error(array.range, message, format!("at most {}", doc::MOUNTS_MAX));
        }
        let (mut points, mut mounts) = (Vec::new(), Vec::new());
        for element in &array.elements {
            let Some(fields) = self.fields(element, "an entry of `files`", MOUNT, 1) else { continue };
            let at = fields.get("at").and_then(|value| self.mount_point(value));
            let source = self.source(element.range(), &fields);
            if let (Some(at), Some(source)) = (at, source) {
                points.push(at);
                mounts.push(Mount { point: at.value.to_owned(), source });
            }
        }
        self.each_once(points, "`files`");
        mounts
    }

    /// Reads a path on the host, which a server does not go to for a workflow.
    fn host_path(&mut self, value: &Value<'_>, what: &str) -> Option<PathBuf> {
        if self.registered.is_some() {
            let message = format!("{what} is on the host, and a server opens no files of it for a workflow");
            self.error(value.range(), message, "files in `memory`".to_owned());
        }
        self.path(value, what)
    }

    /// Reads what is at a mount point.
    fn source(&mut self, entry: Range, fields: &Fields<'_>) -> Option<MountSource> {
        let given: Vec<_> = SOURCES.iter().filter_map(|name| Some((*name, fields.get(name)?))).collect();
        let [(name, value)] = given[..] else {
            let has = if given.is_empty() { "no source" } else { "more than one source" };
            let expected = format!("one of {}", super::reader::list(SOURCES));
            self.error(entry, format!("an entry of `files` has {has}"), expected);
            return None;
        };
        let access = fields.get("access");
        match name {
            "memory" => {
                if let Some(access) = access {
                    let message = "`access` says nothing about files in memory".to_owned();
                    self.error(access.range(), message, "`access` with an `image` or a `directory`".to_owned());
                }
                let size = self.size(value, "`memory`", doc::FILES_MIN, layout::ARENA_SIZE)?;
                Some(MountSource::Memory { size })
            }
            "image" => {
                const WORDS: &[&str] = &["read", "copy", "write"];
                let access = match access {
                    Some(value) => self.word(value, "`access`", "`read`, `copy` or `write`", WORDS)?,
                    None => Access::Copy,
                };
                Some(MountSource::Image { path: self.host_path(value, "`image`")?, access })
            }
            _ => {
                let access = match access {
                    Some(value) => self.word(value, "`access`", "`read` or `write`", &["read", "write"])?,
                    None => Access::Read,
                };
                if let (Access::Copy, Some(value)) = (access, fields.get("access")) {
                    self.error(value.range(), "`access` is `copy`".to_owned(), "`read` or `write`".to_owned());
                }
                let path = self.host_path(value, "`directory`")?;
                Some(MountSource::Directory { path, writable: access == Access::Write })
            }
        }
    }

    fn mount_point<'a>(&mut self, value: &'a Value<'a>) -> Option<At<&'a str>> {
        let expected = "an absolute path such as \"/data\", without `.`, `..` and doubled `/`";
        let point = self.text(value, "`at`", expected)?;
        if !is_mount_point(point.value) {
            self.error(point.at, format!("`at` is {}", quoted(point.value)), expected.to_owned());
        }
        Some(point)
    }

    fn network(&mut self, value: &Value<'_>) -> network::Plan {
        const MODES: &[&str] = &["host", "tap"];
        let object = match value {
            Value::StringLit(_) => None,
            Value::Object(_) => match self.fields(value, "`network`", NETWORK, 1) {
                Some(fields) => Some(fields),
                None => return network::Plan::None,
            },
            _ => {
                self.wrong_type(value, "`network`", "a mode, or an object with a `mode`");
                return network::Plan::None;
            }
        };
        let mode = object.as_ref().map_or(Some(value), |fields| fields.get("mode"));
        let mode = mode
            .and_then(|mode| self.word::<doc::NetworkMode>(mode, "the mode of `network`", "`host` or `tap`", MODES));
        let mut rules =
            |field| object.as_ref().and_then(|fields| fields.get(field)).map(|list| self.rules(list, field));
        let lists = network::Rules {
            connect: rules("connect").unwrap_or_default(),
            listen: rules("listen").unwrap_or_default(),
        };
        match mode {
            Some(doc::NetworkMode::Host) => {
                if lists == network::Rules::default() && !self.has_errors() {
                    self.warning(value.range(), "`network` lists no address, so nothing can be reached".to_owned());
                }
                network::Plan::Host(lists)
            }
            Some(doc::NetworkMode::Tap) => {
                for field in ["connect", "listen"] {
                    if let Some(list) = object.as_ref().and_then(|fields| fields.get(field)) {
                        let message = format!("`{field}` says nothing about the mode `tap`");
                        self.error(
                            list.range(),
                            message,
                            "no lists: the host filters what its devices carry".to_owned(),
                        );
                    }
                }
                network::Plan::Tap
            }
            None => network::Plan::None,
        }
    }

    fn rules(&mut self, value: &Value<'_>, field: &str) -> Vec<Rule> {
        const EXPECTED: &str = "an entry such as \"192.0.2.7:443\", \"10.0.0.0/8:5432\", \"[fd00::/8]:8000-8100\"";
        let what = format!("`{field}`");
        let Some(array) = self.array(value, &what, "an array of addresses with ports") else { return Vec::new() };
        let entry = format!("an entry of {what}");
        let texts = array.elements.iter().filter_map(|element| self.text(element, &entry, EXPECTED));
        let texts: Vec<_> = texts.collect();
        let mut rules = Vec::new();
        for text in self.each_once(texts, &what) {
            match Rule::parse(text.value) {
                Ok(Rule { host: Host::Name(_), .. }) if field == "listen" => {
                    let message = format!("{entry} is {}: a name", quoted(text.value));
                    self.error(text.at, message, "an address of this host".to_owned());
                }
                Ok(rule) => rules.push(rule),
                Err(why) => {
                    self.error(text.at, format!("{entry} is {}: {why}", quoted(text.value)), EXPECTED.to_owned());
                }
            }
        }
        rules
    }

    /// Reads `inputs` or `outputs`: slot names, bare or in objects.
    fn slots(&mut self, value: Option<&Value<'_>>, field: &str, known: &'static [&'static str]) -> Vec<Slot> {
        let Some(value) = value else { return Vec::new() };
        let Some(array) = self.array(value, &format!("`{field}`"), "an array of slots") else { return Vec::new() };
        let entry = format!("an entry of `{field}`");
        let mut names = Vec::new();
        let mut slots = Vec::new();
        for element in &array.elements {
            let (name, path, content_type) = match element {
                Value::StringLit(_) => (self.slot_name(element, &entry), None, None),
                Value::Object(_) => {
                    let Some(fields) = self.fields(element, &entry, known, 1) else { continue };
                    let name = fields.get("slot").and_then(|value| self.slot_name(value, "`slot`"));
                    let path = fields.get("path").and_then(|value| self.input_path(value));
                    (name, path, fields.get("content_type").and_then(|value| self.content_type(value)))
                }
                _ => {
                    self.wrong_type(element, &entry, "a slot's name, or an object with a `slot`");
                    continue;
                }
            };
            if let Some(name) = name {
                names.push(name);
                slots.push(Slot { name: name.value.to_owned(), path, content_type });
            }
        }
        self.each_once(names, &format!("`{field}`"));
        slots
    }

    fn slot_name<'a>(&mut self, value: &'a Value<'a>, what: &str) -> Option<At<&'a str>> {
        let name = self.text(value, what, "a slot's name")?;
        let expected = format!("1 to {SLOT_NAME_MAX} bytes without `=` and control characters");
        if name.value.is_empty() {
            self.error(name.at, "the name of a slot is empty".to_owned(), expected);
        } else if name.value.len() > SLOT_NAME_MAX {
            let message = format!("the name of slot {} has {} bytes", quoted(name.value), name.value.len());
            self.error(name.at, message, expected);
        } else if name.value.contains(|c: char| c == '=' || c.is_ascii_control()) {
            self.error(name.at, format!("{} is no name for a slot here", quoted(name.value)), expected);
        }
        Some(name)
    }

    /// Reads where a function's image is: a file, or for a server one of its functions.
    fn image(&mut self, value: &Value<'_>) -> Option<PathBuf> {
        let path = self.path(value, "`image`")?;
        let Some(registered) = self.registered else { return Some(path) };
        match plan::registered_name(&path) {
            Some(name) if registered(name) => {}
            Some(name) => {
                let message = format!("no function is registered as {}", quoted(name));
                self.error(value.range(), message, "the name of a registered function".to_owned());
            }
            None => {
                let message = "`image` is a file, and a server reads no files for a workflow".to_owned();
                let expected = "\"function:NAME\", a registered function; `monohull deploy` registers files";
                self.error(value.range(), message, expected.to_owned());
            }
        }
        Some(path)
    }

    fn input_path(&mut self, value: &Value<'_>) -> Option<PathBuf> {
        let path = self.path(value, "`path`")?;
        if self.registered.is_some() {
            let message = "`path` is a file, and a server reads no files for a workflow".to_owned();
            self.error(value.range(), message, "the slot's name alone: each invocation brings the content".to_owned());
        }
        Some(path)
    }

    fn content_type(&mut self, value: &Value<'_>) -> Option<String> {
        let text = self.text(value, "`content_type`", "a media type")?;
        if !is_media_type(text.value) {
            let expected = "a media type, such as \"text/plain; charset=utf-8\"".to_owned();
            self.error(text.at, format!("`content_type` is {}", quoted(text.value)), expected);
        }
        Some(text.value.to_owned())
    }

    fn path(&mut self, value: &Value<'_>, what: &str) -> Option<PathBuf> {
        let path = self.text(value, what, "a path")?;
        if path.value.is_empty() || path.value.contains('\0') {
            self.error(path.at, format!("{what} is {}", quoted(path.value)), "the path of a file".to_owned());
        }
        Some(PathBuf::from(path.value))
    }

    fn name<'a>(&mut self, value: &'a Value<'a>, what: &str) -> Option<At<&'a str>> {
        let name = self.text(value, what, "a name")?;
        self.check_name(name, what);
        Some(name)
    }

    fn check_name(&mut self, name: At<&str>, what: &str) {
        if !is_name(name.value) {
            let expected = format!("1 to {NAME_MAX} letters, digits, `-` and `_`, a letter or digit first");
            self.error(name.at, format!("{what} is {}", quoted(name.value)), expected);
        }
    }

    /// One of a few words.
    fn word<T: for<'de> Deserialize<'de>>(
        &mut self,
        value: &Value<'_>,
        what: &str,
        expected: &str,
        known: &[&str],
    ) -> Option<T> {
        let text = self.text(value, what, expected)?;
        let word = parse_word(text.value);
        if word.is_none() {
            let hint = suggestion(text.value, known.iter().copied());
            self.error(text.at, format!("{what} is {}{hint}", quoted(text.value)), expected.to_owned());
        }
        word
    }

    /// Notes names that a list has twice, and drops them.
    fn each_once<'a>(&mut self, names: Vec<At<&'a str>>, what: &str) -> Vec<At<&'a str>> {
        let mut first: HashMap<&str, Range> = HashMap::new();
        let mut once = Vec::new();
        for name in names {
            match first.get(name.value) {
                None => {
                    first.insert(name.value, name.at);
                    once.push(name);
                }
                Some(first) => {
                    let (line, column) = self.source.position(first.start);
                    let message = format!("{what} names {} twice, first at {line}:{column}", quoted(name.value));
                    self.error(name.at, message, "each name once".to_owned());
                }
            }
        }
        once
    }
}

/// Whether a text can stand in a `Content-Type` header; [`doc::MEDIA_TYPE_PATTERN`] says the same.
fn is_media_type(text: &str) -> bool {
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let (media, parameters) = text.split_once(';').map_or((text, ""), |(media, rest)| (media, rest));
    let named = media.split_once('/').is_some_and(|(family, kind)| token(family) && token(kind));
    named && parameters.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.len() <= doc::MEDIA_TYPE_MAX
}

/// Whether a text may name a workflow, function or step.
pub(crate) fn is_name(text: &str) -> bool {
    let first_is_right = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let rest_is_right = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    first_is_right && rest_is_right && text.len() <= NAME_MAX
}

/// Whether a text is an absolute path in clean form.
fn is_mount_point(text: &str) -> bool {
    let Some(names) = text.strip_prefix('/') else { return false };
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
    text.len() <= doc::MOUNT_POINT_MAX && (names.is_empty() || names.split('/').all(is_name))
}

/// A word of an enumeration, by the name serde gives it.
fn parse_word<T: for<'de> Deserialize<'de>>(word: &str) -> Option<T> {
    let deserializer: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
        serde::de::IntoDeserializer::into_deserializer(word);
    T::deserialize(deserializer).ok()
}

/// A number whose bound has been checked to fit.
fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields of the object called `name` in the published schema (the root for `None`).
    fn published(name: Option<&str>) -> Vec<String> {
        let schema = doc::schema();
        let object = name.map_or(&schema, |name| &schema["$defs"][name]);
        let mut fields: Vec<_> = object["properties"].as_object().expect("an object").keys().cloned().collect();
        fields.sort();
        fields
    }

    #[test]
    fn reader_and_schema_know_the_same_fields() {
        for (name, known, required) in [
            (None, DOCUMENT, 3),
            (Some("Function"), FUNCTION, 1),
            (Some("Step"), STEP, 2),
            (Some("Retry"), RETRY, 1),
            (Some("Limits"), LIMITS, 0),
            (Some("NetworkObject"), NETWORK, 1),
            (Some("InputObject"), INPUT, 1),
            (Some("OutputObject"), OUTPUT, 1),
            (Some("Mount"), MOUNT, 1),
        ] {
            let mut sorted: Vec<_> = known.to_vec();
            sorted.sort_unstable();
            assert_eq!(published(name), sorted, "{name:?}");
            let schema = doc::schema();
            let object = name.map_or(&schema, |name| &schema["$defs"][name]);
            let needed = object["required"].as_array().map_or(0, Vec::len);
            assert_eq!(needed, required, "{name:?}");
            for field in &known[..required] {
                assert!(object["required"].as_array().is_some_and(|names| names.iter().any(|name| name == field)));
            }
        }
    }

    #[test]
    fn failure_names_are_the_ones_serde_knows() {
        for name in FailureKind::names() {
            assert!(parse_word::<FailureKind>(name).is_some(), "{name}");
        }
        assert!(FailureKind::ALL.iter().all(|kind| parse_word(kind.name()) == Some(*kind)));
    }
}
