//! What many fields are made of: names, paths, words of an enumeration, lists without repetitions.

use std::collections::HashMap;
use std::path::PathBuf;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Range;
use serde::Deserialize;

use crate::bounds::NAME_MAX;
use crate::reader::{At, Reader};
use monohull_report::text::{quoted, suggestion};

impl Reader<'_> {
    pub(crate) fn path(&mut self, value: &Value<'_>, what: &str) -> Option<PathBuf> {
        let path = self.text(value, what, "a path")?;
        if path.value.is_empty() || path.value.contains('\0') {
            self.error(path.at, format!("{what} is {}", quoted(path.value)), "the path of a file".to_owned());
        }
        Some(PathBuf::from(path.value))
    }

    pub(super) fn name<'a>(&mut self, value: &'a Value<'a>, what: &str) -> Option<At<&'a str>> {
        let name = self.text(value, what, "a name")?;
        self.check_name(name, what);
        Some(name)
    }

    pub(crate) fn check_name(&mut self, name: At<&str>, what: &str) {
        if !is_name(name.value) {
            let expected = format!("1 to {NAME_MAX} letters, digits, `-` and `_`, a letter or digit first");
            self.error(name.at, format!("{what} is {}", quoted(name.value)), expected);
        }
    }

    /// One of a few words.
    pub(crate) fn word<T: for<'de> Deserialize<'de>>(
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
    pub(crate) fn each_once<'a>(&mut self, names: Vec<At<&'a str>>, what: &str) -> Vec<At<&'a str>> {
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

/// Whether a text may name a workflow, function or step.
pub fn is_name(text: &str) -> bool {
    let first_is_right = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let rest_is_right = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    first_is_right && rest_is_right && text.len() <= NAME_MAX
}

/// A word of an enumeration, by the name serde gives it.
pub(super) fn parse_word<T: for<'de> Deserialize<'de>>(word: &str) -> Option<T> {
    let deserializer: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
        serde::de::IntoDeserializer::into_deserializer(word);
    T::deserialize(deserializer).ok()
}

/// A number whose bound has been checked to fit.
pub(super) fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
