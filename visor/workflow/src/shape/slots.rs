//! The slots at a workflow's border: what it is given, what it gives, and what it may leave unread.

use std::path::PathBuf;

use jsonc_parser::ast::Value;
use jsonc_parser::common::{Range, Ranged};
use monohull_abi::types::SLOT_NAME_MAX;

use crate::bounds;
use crate::plan::{Input, OnUnread, Output, SlotPattern, SlotRule, Unread};
use crate::reader::{At, Reader};
use monohull_report::text::quoted;

pub(super) const INPUT: &[&str] = &["slot", "path"];
pub(super) const OUTPUT: &[&str] = &["slot", "content_type"];
pub(super) const HTTP: &[&str] = &["request", "response"];
pub(super) const UNREAD: &[&str] = &["default", "slots"];

/// The slots by which a workflow answers HTTP requests.
pub(crate) struct Http<'a> {
    pub(crate) request: At<&'a str>,
    pub(crate) response: At<&'a str>,
}

/// A slot at the workflow's border, with the fields of inputs and of outputs.
struct Slot {
    name: String,
    at: Range,
    path: Option<PathBuf>,
    content_type: Option<String>,
}

impl Reader<'_> {
    /// Reads `inputs`.
    pub(super) fn inputs(&mut self, value: Option<&Value<'_>>) -> Vec<At<Input>> {
        let slots = self.slots(value, "inputs", INPUT);
        slots.into_iter().map(|slot| At { value: Input { slot: slot.name, path: slot.path }, at: slot.at }).collect()
    }

    /// Reads `outputs`.
    pub(super) fn outputs(&mut self, value: Option<&Value<'_>>) -> Vec<At<Output>> {
        let slots = self.slots(value, "outputs", OUTPUT);
        let output =
            |slot: Slot| At { value: Output { slot: slot.name, content_type: slot.content_type }, at: slot.at };
        slots.into_iter().map(output).collect()
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
                slots.push(Slot { name: name.value.to_owned(), at: name.at, path, content_type });
            }
        }
        self.each_once(names, &format!("`{field}`"));
        slots
    }

    /// Reads `http`: the slots of the request and of the answer.
    pub(super) fn http<'a>(&mut self, value: &'a Value<'a>) -> Option<Http<'a>> {
        let fields = self.fields(value, "`http`", HTTP, 2)?;
        let request = fields.get("request").and_then(|value| self.slot_name(value, "`request`"));
        let response = fields.get("response").and_then(|value| self.slot_name(value, "`response`"));
        Some(Http { request: request?, response: response? })
    }

    /// Reads `unread`: an outcome, or an object with outcomes by slot.
    pub(super) fn unread(&mut self, value: &Value<'_>) -> Unread {
        match value {
            Value::StringLit(_) => Unread::new(self.on_unread(value, "`unread`"), Vec::new()),
            Value::Object(_) => {
                let Some(fields) = self.fields(value, "`unread`", UNREAD, 0) else { return Unread::default() };
                let default = fields.get("default").map(|value| self.on_unread(value, "`default`"));
                let slots = fields.get("slots").and_then(|value| self.map(value, "`slots`"));
                let mut rules = Vec::new();
                for property in slots.iter().flat_map(|slots| &slots.properties) {
                    let name = At { value: property.name.as_str(), at: property.name.range() };
                    self.check_slot_name(name);
                    let outcome = self.on_unread(&property.value, &format!("the outcome of {}", quoted(name.value)));
                    rules.push((SlotPattern::parse(name.value), outcome));
                }
                Unread::new(default.unwrap_or_default(), rules)
            }
            _ => {
                self.wrong_type(
                    value,
                    "`unread`",
                    "`fail`, `warn` or `ignore`, or an object with `default` and `slots`",
                );
                Unread::default()
            }
        }
    }

    fn on_unread(&mut self, value: &Value<'_>, what: &str) -> OnUnread {
        const WORDS: &[&str] = &["fail", "warn", "ignore"];
        self.word(value, what, "`fail`, `warn` or `ignore`", WORDS).unwrap_or_default()
    }

    /// Reads a list of slots that a step may use.
    pub(super) fn slot_rules(&mut self, value: &Value<'_>, what: &str) -> Vec<At<SlotRule>> {
        let Some(array) = self.array(value, what, "an array of slots") else { return Vec::new() };
        let entry = format!("an entry of {what}");
        let names: Vec<_> = array.elements.iter().filter_map(|element| self.slot_name(element, &entry)).collect();
        let names = self.each_once(names, what).into_iter();
        names.map(|name| At { value: SlotRule::parse(name.value), at: name.at }).collect()
    }

    pub(super) fn slot_name<'a>(&mut self, value: &'a Value<'a>, what: &str) -> Option<At<&'a str>> {
        let name = self.text(value, what, "a slot's name")?;
        self.check_slot_name(name);
        Some(name)
    }

    fn check_slot_name(&mut self, name: At<&str>) {
        let expected = format!("1 to {SLOT_NAME_MAX} bytes without `=` and control characters");
        if name.value.is_empty() {
            self.error(name.at, "the name of a slot is empty".to_owned(), expected);
        } else if name.value.len() > SLOT_NAME_MAX {
            let message = format!("the name of slot {} has {} bytes", quoted(name.value), name.value.len());
            self.error(name.at, message, expected);
        } else if name.value.contains(|c: char| c == '=' || c.is_ascii_control()) {
            self.error(name.at, format!("{} is no name for a slot here", quoted(name.value)), expected);
        }
    }

    fn input_path(&mut self, value: &Value<'_>) -> Option<PathBuf> {
        let path = self.path(value, "`path`")?;
        if self.registered.is_some_and(|server| !server.deploying) {
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
}

/// Whether a text can stand in a `Content-Type` header; [`bounds::MEDIA_TYPE_PATTERN`] says the same.
fn is_media_type(text: &str) -> bool {
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let (media, parameters) = text.split_once(';').map_or((text, ""), |(media, rest)| (media, rest));
    let named = media.split_once('/').is_some_and(|(family, kind)| token(family) && token(kind));
    named && parameters.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.len() <= bounds::MEDIA_TYPE_MAX
}
