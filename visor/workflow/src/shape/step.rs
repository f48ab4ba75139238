//! The fields of a step: what runs, with what, how often.

use std::collections::BTreeMap;
use std::time::Duration;

use jsonc_parser::ast::Value;
use jsonc_parser::common::{Range, Ranged};
use monohull_abi::layout;

use super::words::{is_name, narrow, parse_word};
use crate::bounds;
use crate::plan::{FailureKind, Instances, Retry, SlotRule};
use crate::reader::{self, At, Reader};
use crate::server::Wanted;
use monohull_report::text::{quoted, suggestion};

/// A step as the file has it. What it lacks or has wrong is `None`, or the default.
pub(crate) struct Step<'a> {
    pub(crate) name: Option<At<&'a str>>,
    pub(crate) function: Option<At<&'a str>>,
    pub(crate) after: Vec<At<&'a str>>,
    pub(crate) instances: At<Instances>,
    /// Whether the file says how many there are.
    pub(crate) has_instances: bool,
    pub(crate) args: serde_json::Map<String, serde_json::Value>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) secrets: BTreeMap<String, String>,
    pub(crate) stdin: Option<At<&'a str>>,
    pub(crate) takes: Option<Vec<At<SlotRule>>>,
    pub(crate) fills: Option<Vec<At<SlotRule>>>,
    pub(crate) files: Option<Vec<At<&'a str>>>,
    pub(crate) handles: Option<At<&'a str>>,
    pub(crate) performs: Option<Vec<At<&'a str>>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Retry,
    pub(crate) memory: u64,
    pub(crate) stack: u64,
}

pub(super) const STEP: &[&str] = &[
    "name",
    "function",
    "after",
    "instances",
    "args",
    "env",
    "secrets",
    "stdin",
    "takes",
    "fills",
    "files",
    "handles",
    "performs",
    "timeout",
    "retry",
    "memory",
    "stack",
];
pub(super) const EACH: &[&str] = &["each", "max"];
pub(super) const RETRY: &[&str] = &["max_attempts", "interval", "backoff_rate", "on"];

impl Reader<'_> {
    pub(super) fn steps<'a>(&mut self, value: &'a Value<'a>) -> Vec<Step<'a>> {
        let Some(array) = self.array(value, "`steps`", "an array of steps") else { return Vec::new() };
        if array.elements.is_empty() {
            self.error(array.range, "`steps` is empty".to_owned(), "at least one step".to_owned());
        }
        array.elements.iter().filter_map(|element| self.step(element)).collect()
    }

    fn step<'a>(&mut self, value: &'a Value<'a>) -> Option<Step<'a>> {
        let fields = self.fields(value, "a step", STEP, 2)?;
        let name = fields.get("name").and_then(|value| self.name(value, "`name`"));
        let function = fields.get("function").and_then(|value| self.text(value, "`function`", "a function's name"));
        let after = fields.get("after").map(|value| self.after(value)).unwrap_or_default();
        let instances = fields.get("instances").and_then(|value| self.instances(value));
        let args = fields.get("args").and_then(|value| self.args(value));
        let env = fields.get("env").map(|value| self.env(value));
        let stdin = fields.get("stdin").and_then(|value| self.slot_name(value, "`stdin`"));
        let files = fields.get("files").map(|value| self.mount_points(value));
        let handles = fields.get("handles").and_then(|value| self.name(value, "`handles`"));
        let performs = fields.get("performs").map(|value| self.performs(value));
        let timeout = fields.get("timeout").and_then(|value| self.timeout(value));
        let retry = self.retry(fields.get("retry"));
        let memory = fields.get("memory").and_then(|value| self.memory(value));
        let stack = fields.get("stack").and_then(|value| self.stack(value));
        Some(Step {
            name,
            function,
            after,
            instances: At {
                value: instances.unwrap_or(Instances::Fixed(1)),
                at: fields.get("instances").map_or(value.range(), |value| value.range()),
            },
            has_instances: fields.get("instances").is_some(),
            args: args.unwrap_or_default(),
            secrets: fields.get("secrets").map(|value| self.secrets(value, env.as_ref())).unwrap_or_default(),
            env: env.unwrap_or_default(),
            stdin,
            takes: fields.get("takes").map(|value| self.slot_rules(value, "`takes`")),
            fills: fields.get("fills").map(|value| self.slot_rules(value, "`fills`")),
            files,
            handles,
            performs,
            timeout,
            retry,
            memory: memory.unwrap_or(bounds::MEMORY_DEFAULT),
            stack: stack.unwrap_or(layout::DEFAULT_STACK_SIZE),
        })
    }

    /// Reads how many instances a step has.
    pub(crate) fn instances(&mut self, value: &Value<'_>) -> Option<Instances> {
        let Value::Object(_) = value else {
            return self.integer(value, "`instances`", 1, bounds::INSTANCES_MAX).map(narrow).map(Instances::Fixed);
        };
        let fields = self.fields(value, "`instances`", EACH, 2)?;
        let each = fields.get("each").and_then(|value| self.slot_name(value, "`each`"))?;
        let max = fields.get("max").and_then(|value| self.integer(value, "`max`", 1, bounds::INSTANCES_MAX))?;
        match each.value.strip_suffix('*').filter(|prefix| !prefix.is_empty()) {
            Some(prefix) => Some(Instances::Each { prefix: prefix.to_owned(), max: narrow(max) }),
            None => {
                let expected = "the beginning of numbered slots with a `*` behind, such as \"part.*\"".to_owned();
                self.error(each.at, format!("`each` is {}", quoted(each.value)), expected);
                None
            }
        }
    }

    /// Reads how long an instance may take.
    pub(crate) fn timeout(&mut self, value: &Value<'_>) -> Option<Duration> {
        self.duration(value, "`timeout`", Duration::from_micros(1))
    }

    /// Reads how much memory an instance may use.
    pub(crate) fn memory(&mut self, value: &Value<'_>) -> Option<u64> {
        self.size(value, "`memory`", bounds::MEMORY_MIN, layout::ARENA_SIZE)
    }

    fn after<'a>(&mut self, value: &'a Value<'a>) -> Vec<At<&'a str>> {
        const EXPECTED: &str = "an array of the names of steps";
        let Some(array) = self.array(value, "`after`", EXPECTED) else { return Vec::new() };
        let names =
            array.elements.iter().filter_map(|element| self.text(element, "an entry of `after`", "a step's name"));
        let names: Vec<_> = names.collect();
        self.each_once(names, "`after`")
    }

    fn mount_points<'a>(&mut self, value: &'a Value<'a>) -> Vec<At<&'a str>> {
        let Some(array) = self.array(value, "`files`", "an array of mount points") else { return Vec::new() };
        let points =
            array.elements.iter().filter_map(|element| self.text(element, "an entry of `files`", "a mount point"));
        let points: Vec<_> = points.collect();
        self.each_once(points, "`files`")
    }

    fn performs<'a>(&mut self, value: &'a Value<'a>) -> Vec<At<&'a str>> {
        let Some(array) = self.array(value, "`performs`", "an array of the names of effects") else {
            return Vec::new();
        };
        let names = array.elements.iter().filter_map(|element| self.name(element, "an entry of `performs`"));
        // Another mistake would only repeat that it is no name.
        let names: Vec<_> = names.filter(|name| is_name(name.value)).collect();
        self.each_once(names, "`performs`")
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
            self.variable(name, property.name.range());
            if looks_secret(name) {
                let message = format!(
                    "{} looks like a secret: every user with read access to the workflow can read it; a server's operator can grant one \
                     to `secrets`",
                    quoted(name)
                );
                self.warning(property.name.range(), message);
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

    fn variable(&mut self, name: &str, at: Range) {
        if name.is_empty() || name.contains(['=', '\0']) {
            let message = format!("{} is no name for an environment variable", quoted(name));
            self.error(at, message, "a name without `=` and NUL".to_owned());
        }
    }

    fn secrets(&mut self, value: &Value<'_>, env: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
        let mut secrets = BTreeMap::new();
        let Some(object) = self.map(value, "`secrets`") else { return secrets };
        for property in &object.properties {
            let (variable, at) = (property.name.as_str(), property.name.range());
            self.variable(variable, at);
            if env.is_some_and(|env| env.contains_key(variable)) {
                let message = format!("the environment variable {} is in `env` too", quoted(variable));
                self.error(at, message, "each variable once".to_owned());
            }
            let Some(grant) = self.name(&property.value, "the name of a secret") else { continue };
            self.check_grant(grant, Wanted::Secret(grant.value));
            secrets.insert(variable.to_owned(), grant.value.to_owned());
        }
        secrets
    }

    /// Reads when an instance is tried again.
    pub(crate) fn retry(&mut self, value: Option<&Value<'_>>) -> Retry {
        let mut retry = Retry {
            max_attempts: 1,
            interval: Duration::from_millis(bounds::INTERVAL_DEFAULT_MS),
            backoff_rate: bounds::BACKOFF_DEFAULT,
            on: Vec::new(),
        };
        let Some(fields) = value.and_then(|value| self.fields(value, "`retry`", RETRY, 1)) else { return retry };
        if let Some(value) = fields.get("max_attempts") {
            retry.max_attempts = self.integer(value, "`max_attempts`", 1, bounds::ATTEMPTS_MAX).map_or(1, narrow);
        }
        if let Some(value) = fields.get("interval") {
            retry.interval = self.duration(value, "`interval`", Duration::ZERO).unwrap_or(retry.interval);
        }
        if let Some(value) = fields.get("backoff_rate") {
            retry.backoff_rate =
                self.number(value, "`backoff_rate`", 1.0, bounds::BACKOFF_MAX).unwrap_or(retry.backoff_rate);
        }
        if let Some(value) = fields.get("on") {
            retry.on = self.failures(value);
        }
        retry
    }

    fn failures(&mut self, value: &Value<'_>) -> Vec<FailureKind> {
        let known = FailureKind::names();
        let expected = format!("one of {}", reader::list(&known));
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

    /// Reads how large each stack of an instance is.
    pub(crate) fn stack(&mut self, value: &Value<'_>) -> Option<u64> {
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
}

/// Whether the name of an environment variable is one that secrets usually have.
fn looks_secret(name: &str) -> bool {
    const PARTS: [&str; 8] =
        ["SECRET", "PASSWORD", "PASSWD", "TOKEN", "API_KEY", "APIKEY", "PRIVATE_KEY", "CREDENTIAL"];
    let name = name.to_ascii_uppercase();
    PARTS.iter().any(|part| name.contains(part))
}
