//! Replaces the values of secrets in printed lines, reports and errors.
//!
//! A function gets a secret to use it, and may print it by mistake. Printed lines are logged, shown and kept, also for
//! people without access to the secret; so the value is replaced by the name of the grant. This guards against mistakes only: a
//! malicious function can encode the secret, or write it into its output, which is passed on unchanged.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use crate::http::error::ApiError;
use monohull_report::RunReport;
use monohull_workflow::grants::{Grants, SECRET_MIN};

/// The secrets that this server has had. Those that were replaced may still be printed.
#[derive(Default)]
pub(crate) struct Secrets(RwLock<Arc<Redactor>>);

/// The shortest text that may have been cut, in bytes: lines are cut at 8 KiB, texts of panics at 2 KiB, other messages later. In
/// what is that long, parts of values are taken out too.
const CUT_MIN: usize = 1024;
/// Fields of a report that hold a constant of Monohull, never a function's text: a secret equal to such a constant is not redacted there.
const WORDS: [&str; 7] = ["status", "kind", "blame", "isolation", "stream", "outcome", "cgroup"];

/// Replaces values by names.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    /// What is replaced, and by what; the longest first.
    values: Vec<(String, String)>,
}

impl Secrets {
    pub(crate) fn new(grants: &Grants) -> Secrets {
        let secrets = Secrets::default();
        secrets.add(grants);
        secrets
    }

    /// From now on these are taken out, too.
    pub(crate) fn add(&self, grants: &Grants) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut redactor = Redactor::clone(&known);
        grants.secrets().for_each(|(name, value)| redactor.add(name, value));
        *known = Arc::new(redactor);
    }

    pub(crate) fn redactor(&self) -> Arc<Redactor> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Redactor {
    /// Takes out a value as it is, and as it stands in JSON. Of one with several lines each is taken out, as they are printed one
    /// by one; lines that are very short say little, and are in much else.
    fn add(&mut self, name: &str, value: &str) {
        let escaped = Value::from(value).to_string();
        let escaped = &escaped[1..escaped.len() - 1];
        let lines = value.lines().filter(|line| line.chars().count() >= SECRET_MIN);
        for text in [value, escaped].into_iter().chain(lines) {
            if !self.values.iter().any(|(known, _)| known == text) {
                self.values.push((text.to_owned(), format!("[secret {name}]")));
            }
        }
        self.values.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn text(&self, text: String) -> String {
        let replaced = |text: String, (value, name): &(String, String)| {
            let text = if text.contains(value.as_str()) { text.replace(value.as_str(), name) } else { text };
            if text.len() >= CUT_MIN { without_parts(text, value, name) } else { text }
        };
        self.values.iter().fold(text, replaced)
    }

    /// A report without the values. One that cannot be put together again is left out.
    pub(crate) fn report(&self, report: &RunReport) -> Option<RunReport> {
        let mut value = serde_json::to_value(report).ok()?;
        self.value(&mut value);
        let mut report: RunReport = serde_json::from_value(value).ok()?;
        report.published = self.published(&report.published);
        Some(report)
    }

    /// What a function has published: it chooses the names, too.
    pub(crate) fn published(&self, published: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        published.iter().map(|(name, text)| (self.text(name.clone()), self.text(text.clone()))).collect()
    }

    pub(crate) fn refusal(&self, mut refusal: ApiError) -> ApiError {
        refusal.error.message = self.text(std::mem::take(&mut refusal.error.message));
        refusal
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(std::mem::take(text)),
            Value::Array(all) => all.iter_mut().for_each(|value| self.value(value)),
            Value::Object(all) => {
                let texts = all.iter_mut().filter(|(field, _)| !WORDS.contains(&field.as_str()));
                texts.for_each(|(_, value)| self.value(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Takes out the part of a value that a cut has left: its beginning, its end, or a piece from its middle.
fn without_parts(mut text: String, value: &str, name: &str) -> String {
    if value.contains(text.as_str()) {
        return name.to_owned();
    }
    let (first, last) = (anchor(value.chars()), anchor(value.chars().rev()));
    let head = value.char_indices().nth(first).map_or(value.len(), |(at, _)| at);
    let tail = value.char_indices().rev().nth(last - 1).map_or(0, |(at, _)| at);
    if name.contains(&value[..head]) || name.contains(&value[tail..]) {
        // It would be found again in its own place.
        return text;
    }
    // A beginning, wherever it stands: a message may go on behind the cut.
    while let Some(at) = text.find(&value[..head]) {
        let common = text[at..].char_indices().zip(value.chars()).take_while(|((_, a), b)| a == b).count();
        let end = text[at..].char_indices().nth(common).map_or(text.len(), |(len, _)| at + len);
        text.replace_range(at..end, name);
    }
    while let Some(found) = text.find(&value[tail..]) {
        let end = found + value.len() - tail;
        let common = text[..end].chars().rev().zip(value.chars().rev()).take_while(|(a, b)| a == b).count();
        let start = text[..end].char_indices().rev().nth(common - 1).map_or(0, |(at, _)| at);
        text.replace_range(start..end, name);
    }
    text
}

/// How many characters of a value are looked for: a part with fewer says little.
fn anchor(value: impl Iterator<Item = char>) -> usize {
    value.take(SECRET_MIN).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_taken_out_however_it_is_printed() {
        let mut redactor = Redactor::default();
        redactor.add("key", "hunter2hunter2");
        redactor.add("longer", "hunter2hunter2-and-more");
        redactor.add("quoted", "say \"friend\"");
        redactor.add("pem", "-----BEGIN-----\nMIIEvQIBADAN\nxy\n-----END-----\n");
        let text = |text: &str| redactor.text(text.to_owned());
        assert_eq!(text("hunter2hunter2, hunter2hunter2-and-more"), "[secret key], [secret longer]");
        assert_eq!(text(r#"{"a":"say \"friend\""}"#), r#"{"a":"[secret quoted]"}"#);
        assert_eq!(text("MIIEvQIBADAN"), "[secret pem]");
        assert_eq!(text("xy, hunter2"), "xy, hunter2", "what is short, or only a part, says little");
        let mut report = serde_json::json!({ "blame": "hunter2hunter2", "message": "hunter2hunter2" });
        redactor.value(&mut report);
        assert_eq!(report, serde_json::json!({ "blame": "hunter2hunter2", "message": "[secret key]" }));
        let mut value = serde_json::json!({ "a": ["hunter2hunter2", 1, { "b": "x hunter2hunter2 y" }] });
        redactor.value(&mut value);
        assert_eq!(value, serde_json::json!({ "a": ["[secret key]", 1, { "b": "x [secret key] y" }] }));
    }

    #[test]
    fn the_parts_that_a_cut_has_left_are_taken_out() {
        let value: String = (0..600).map(|n| format!("{}.", 1000 + n * 7919 % 10_007)).collect();
        assert!(value.len() > 2900);
        let mut redactor = Redactor::default();
        redactor.add("long", &value);
        let text = |text: &str| redactor.text(text.to_owned());
        let other = "other text ".repeat(200);
        assert_eq!(text(&value[100..2500]), "[secret long]");
        assert_eq!(text(&format!("{other}{}", &value[..700])), format!("{other}[secret long]"));
        assert_eq!(text(&format!("{other}{} and so on", &value[..700])), format!("{other}[secret long] and so on"));
        assert_eq!(text(&format!("{}{other}", &value[1000..])), format!("[secret long]{other}"));
        assert_eq!(text(&other), other);
    }
}
