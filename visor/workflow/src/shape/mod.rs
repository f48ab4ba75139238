//! The fields of a workflow file: which there are, of what type, within what bounds.
//!
//! What a field *means*, and what it is when it is left out, stands in [`document`](super::document). A value that is
//! wrong is noted and replaced by the default, so that reading goes on; the result is then never used as a plan.

mod files;
mod https;
mod network;
mod slots;
mod step;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use monohull_abi::layout;

use super::bounds;
use super::plan::{
    self, Input, Limits, Making, Mount, Output, ProcessUse, Separation, TemplatePoint, TimeStampCounter, Unread,
};
use super::reader::{At, Reader};
pub(super) use https::{header_place, header_secrets};
use monohull_network as net;
use monohull_report::text::quoted;
pub(super) use slots::Http;
pub(super) use step::Step;
pub use words::is_name;
use words::narrow;

/// A workflow whose fields are right, each for itself; names are not resolved yet.
pub(super) struct Shape<'a> {
    pub(super) name: String,
    pub(super) functions: Vec<Function<'a>>,
    pub(super) steps: Vec<Step<'a>>,
    pub(super) inputs: Vec<At<Input>>,
    pub(super) outputs: Vec<At<Output>>,
    pub(super) http: Option<Http<'a>>,
    pub(super) unread: Unread,
    pub(super) files: Vec<Mount>,
    pub(super) limits: Limits,
    pub(super) separation: Separation,
    pub(super) time_stamp_counter: TimeStampCounter,
    pub(super) process: Option<ProcessUse>,
    pub(super) template: TemplatePoint,
    pub(super) sends_to: Vec<String>,
    pub(super) starts: Vec<String>,
    pub(super) network: net::Plan,
}

/// A function as the file has it.
pub(super) struct Function<'a> {
    pub(super) name: At<&'a str>,
    pub(super) image: PathBuf,
    pub(super) making: Making,
}

const DOCUMENT: &[&str] = &[
    "name",
    "functions",
    "steps",
    "inputs",
    "outputs",
    "http",
    "unread",
    "files",
    "limits",
    "isolation",
    "time_stamp_counter",
    "process",
    "template",
    "sends_to",
    "starts",
    "network",
    "description",
    "$schema",
];
const FUNCTION: &[&str] = &["image", "target", "checks"];
const LIMITS: &[&str] = &["timeout", "slots", "output", "carriers", "threads"];

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
        let inputs = self.inputs(fields.get("inputs"));
        let outputs = self.outputs(fields.get("outputs"));
        let http = fields.get("http").and_then(|value| self.http(value));
        let unread = fields.get("unread").map(|value| self.unread(value)).unwrap_or_default();
        let files = fields.get("files").map(|value| self.files(value)).unwrap_or_default();
        let limits = self.limits(fields.get("limits"));
        let separation = fields
            .get("isolation")
            .and_then(|value| self.word(value, "`isolation`", "`workflow` or `function`", &["workflow", "function"]));
        let counter = fields
            .get("time_stamp_counter")
            .and_then(|value| self.word(value, "`time_stamp_counter`", "`allow` or `deny`", &["allow", "deny"]));
        let process = fields.get("process").and_then(|value| {
            let words = ["per-invocation", "reused"];
            self.word(value, "`process`", "`per-invocation` or `reused`", &words)
        });
        let template = fields.get("template").and_then(|value| {
            let words = ["when-ready", "after-first-wait"];
            self.word(value, "`template`", "`when-ready` or `after-first-wait`", &words)
        });
        let sends_to = fields.get("sends_to").map(|value| self.sends_to(value)).unwrap_or_default();
        let starts = fields.get("starts").map(|value| self.starts(value)).unwrap_or_default();
        let network = fields.get("network").map(|value| self.network(value)).unwrap_or_default();
        if let Some(value) = fields.get("network") {
            self.check_origins(value, &steps);
        }
        Some(Shape {
            name: name.unwrap_or_default(),
            functions,
            steps,
            inputs,
            outputs,
            http,
            unread,
            files,
            limits,
            separation: separation.unwrap_or_default(),
            time_stamp_counter: counter.unwrap_or_default(),
            process,
            template: template.unwrap_or_default(),
            sends_to,
            starts,
            network,
        })
    }

    /// Reads the names of workflows, or `*`.
    fn sends_to(&mut self, value: &Value<'_>) -> Vec<String> {
        let Some(array) = self.array(value, "`sends_to`", "an array of the names of workflows") else {
            return Vec::new();
        };
        let mut names = Vec::new();
        for element in &array.elements {
            let Some(name) = self.text(element, "an entry of `sends_to`", "the name of a workflow, or `*`") else {
                continue;
            };
            if name.value != "*" {
                self.check_name(name, "an entry of `sends_to`");
            }
            names.push(name);
        }
        self.each_once(names, "`sends_to`").iter().map(|name| name.value.to_owned()).collect()
    }

    /// Reads the names of workflows.
    fn starts(&mut self, value: &Value<'_>) -> Vec<String> {
        let Some(array) = self.array(value, "`starts`", "an array of the names of workflows") else {
            return Vec::new();
        };
        let mut names = Vec::new();
        for element in &array.elements {
            names.extend(self.name(element, "an entry of `starts`"));
        }
        self.each_once(names, "`starts`").iter().map(|name| name.value.to_owned()).collect()
    }

    fn functions<'a>(&mut self, value: &'a Value<'a>) -> Vec<Function<'a>> {
        let Some(object) = self.map(value, "`functions`") else { return Vec::new() };
        let mut functions = Vec::new();
        for property in &object.properties {
            let name = At { value: property.name.as_str(), at: property.name.range() };
            self.check_name(name, "the name of a function");
            let what = format!("function {}", quoted(name.value));
            let fields = self.fields(&property.value, &what, FUNCTION, 1);
            let field = |name| fields.as_ref().and_then(|fields| fields.get(name));
            let image = field("image").and_then(|value| self.image(value)).unwrap_or_default();
            let target = field("target")
                .and_then(|value| self.word(value, "`target`", "`native` or `wasi`", &["native", "wasi"]))
                .unwrap_or_default();
            let checks = field("checks")
                .and_then(|value| self.word(value, "`checks`", "`guards` or `explicit`", &["guards", "explicit"]))
                .unwrap_or_default();
            functions.push(Function { name, image, making: Making { target, checks } });
        }
        functions
    }

    /// Reads where a function's image is: a file, or for a server one of its functions.
    fn image(&mut self, value: &Value<'_>) -> Option<PathBuf> {
        let path = self.path(value, "`image`")?;
        let Some(server) = self.registered else { return Some(path) };
        match plan::registered_name(&path) {
            Some(name) if (server.functions)(name) => {}
            None if server.deploying => {}
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

    fn limits(&mut self, value: Option<&Value<'_>>) -> Limits {
        let mut limits = Limits {
            timeout: None,
            slots: bounds::SLOTS_DEFAULT,
            output: bounds::OUTPUT_DEFAULT,
            carriers: None,
            threads: bounds::THREADS_DEFAULT,
        };
        let Some(fields) = value.and_then(|value| self.fields(value, "`limits`", LIMITS, 0)) else { return limits };
        let least = Duration::from_micros(1);
        limits.timeout = fields.get("timeout").and_then(|value| self.duration(value, "`timeout`", least));
        if let Some(value) = fields.get("slots") {
            limits.slots = self.size(value, "`slots`", layout::PAGE, layout::ARENA_SIZE).unwrap_or(limits.slots);
        }
        if let Some(value) = fields.get("output") {
            limits.output = self.size(value, "`output`", 0, bounds::OUTPUT_MAX).unwrap_or(limits.output);
        }
        limits.carriers = fields
            .get("carriers")
            .and_then(|value| self.integer(value, "`carriers`", 1, layout::CARRIER_MAX as u64))
            .map(|count| count as usize);
        if let Some(value) = fields.get("threads") {
            limits.threads = self.integer(value, "`threads`", 1, bounds::THREADS_MAX).map_or(limits.threads, narrow);
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::files::MOUNT;
    use super::https::{HEADER, ORIGIN};
    use super::network::{NETWORK, REFERENCE};
    use super::slots::{HTTP, INPUT, OUTPUT, UNREAD};
    use super::step::{EACH, RETRY, STEP};
    use super::words::parse_word;
    use super::*;
    use crate::plan::FailureKind;

    /// Fields of the object called `name` in the published schema (the root for `None`).
    fn published(name: Option<&str>) -> Vec<String> {
        let schema = crate::schema();
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
            (Some("EachObject"), EACH, 2),
            (Some("Retry"), RETRY, 1),
            (Some("Limits"), LIMITS, 0),
            (Some("NetworkObject"), NETWORK, 1),
            (Some("NetworkReference"), REFERENCE, 1),
            (Some("HttpsOriginObject"), ORIGIN, 1),
            (Some("HttpsHeaderObject"), HEADER, 0),
            (Some("InputObject"), INPUT, 1),
            (Some("OutputObject"), OUTPUT, 1),
            (Some("HttpObject"), HTTP, 2),
            (Some("UnreadObject"), UNREAD, 0),
            (Some("Mount"), MOUNT, 1),
        ] {
            let mut sorted: Vec<_> = known.to_vec();
            sorted.sort_unstable();
            assert_eq!(published(name), sorted, "{name:?}");
            let schema = crate::schema();
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
