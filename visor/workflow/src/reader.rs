//! Reads JSON values of a workflow file one at a time and notes what is wrong with each, instead of stopping there.
//!
//! Every method that reads a value answers `None` after it has noted why it could not; the caller goes on with the
//! next value. So one pass over a file finds all of its mistakes.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use jsonc_parser::ast::{Array, Object, Value};
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::server::Server;
use super::source::{Level, Mistake, Source};
use super::units;
use monohull_report::text::{quoted, suggestion};

/// A value and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) at: Range,
}

/// The known fields of one object.
pub(super) struct Fields<'a> {
    at: Range,
    values: HashMap<&'static str, &'a Value<'a>>,
}

impl<'a> Fields<'a> {
    /// Where the object stands.
    pub(super) fn at(&self) -> Range {
        self.at
    }

    /// The value of a field, if the object has it.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value<'a>> {
        self.values.get(name).copied()
    }
}

/// Most mistakes of a file that are kept.
const MISTAKES_KEPT: usize = 20_000;

/// Notes mistakes while values are read.
pub(super) struct Reader<'s> {
    pub(super) source: &'s Source<'s>,
    /// What a server has, if the file is for a server.
    pub(super) registered: Option<&'s Server<'s>>,
    mistakes: Vec<Mistake>,
}

impl<'s> Reader<'s> {
    pub(super) fn new(source: &'s Source<'s>, registered: Option<&'s Server<'s>>) -> Reader<'s> {
        Reader { source, registered, mistakes: Vec::new() }
    }

    /// All mistakes, in the order of the file.
    pub(super) fn into_mistakes(mut self) -> Vec<Mistake> {
        self.mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
        self.mistakes
    }

    /// Whether something found so far means that the file is refused.
    pub(super) fn has_errors(&self) -> bool {
        self.mistakes.iter().any(|mistake| mistake.level == Level::Error)
    }

    /// Notes an error.
    pub(super) fn error(&mut self, at: Range, message: String, expected: impl Into<Option<String>>) {
        self.note(at, Level::Error, message, expected.into());
    }

    /// Notes a warning.
    pub(super) fn warning(&mut self, at: Range, message: String) {
        self.note(at, Level::Warning, message, None);
    }

    /// Keeps a mistake, if there are not too many: one more stands for all that come then, as an error.
    fn note(&mut self, at: Range, level: Level, message: String, expected: Option<String>) {
        let mistake = match self.mistakes.len() {
            ..MISTAKES_KEPT => self.source.mistake(at, level, message, expected),
            MISTAKES_KEPT => {
                let message =
                    format!("there are more than {MISTAKES_KEPT} mistakes; what comes from here on is not listed");
                self.source.mistake(at, Level::Error, message, None)
            }
            _ => return,
        };
        self.mistakes.push(mistake);
    }

    /// Parses the text. A syntax error is the only mistake found then: what follows it cannot be trusted.
    pub(super) fn parse(&mut self) -> Option<Value<'s>> {
        // `serde_json` judges what JSON is (strictly, to a limited depth), the other parser only adds the places.
        if let Err(error) = serde_json::from_str::<serde_json::Value>(self.source.text) {
            let text = error.to_string();
            let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
            let at = Range::from_byte_index(self.source.offset(error.line(), error.column()));
            self.error(at, format!("not valid JSON: {message}"), None);
            return None;
        }
        match parse_to_ast(self.source.text, &CollectOptions::default(), &STRICT) {
            Ok(parsed) => parsed.value,
            Err(error) => {
                self.error(error.range(), format!("not valid JSON: {}", error.kind()), None);
                None
            }
        }
    }

    /// Reads an object with these fields; the first `required` of them must be there. Unknown, repeated and missing
    /// ones are noted.
    pub(super) fn fields<'a>(
        &mut self,
        value: &'a Value<'a>,
        what: &str,
        known: &'static [&'static str],
        required: usize,
    ) -> Option<Fields<'a>> {
        let object = self.object(value, what)?;
        self.check_duplicates(object);
        let mut values = HashMap::new();
        for property in &object.properties {
            let name = property.name.as_str();
            match known.iter().find(|&&field| field == name) {
                Some(&field) => {
                    values.entry(field).or_insert(&property.value);
                }
                None => {
                    let hint = suggestion(name, known.iter().copied());
                    let message = format!("{what} has no field {}{hint}", quoted(name));
                    self.error(property.name.range(), message, format!("one of {}", list(known)));
                }
            }
        }
        for &field in &known[..required] {
            if !values.contains_key(field) {
                let at = Range::from_byte_index(object.range.start);
                self.error(at, format!("{what} lacks the field `{field}`"), format!("`{field}`, which is required"));
            }
        }
        Some(Fields { at: object.range, values })
    }

    /// Notes keys that an object has twice.
    fn check_duplicates(&mut self, object: &Object<'_>) {
        let mut seen = HashSet::new();
        for property in &object.properties {
            if !seen.insert(property.name.as_str()) {
                let message = format!("the field {} is given twice", quoted(property.name.as_str()));
                self.error(property.name.range(), message, "each field once".to_owned());
            }
        }
    }

    /// Notes keys that are there twice, in a value of any depth (which the parser has limited).
    pub(super) fn check_duplicates_within(&mut self, value: &Value<'_>) {
        match value {
            Value::Object(object) => {
                self.check_duplicates(object);
                object.properties.iter().for_each(|property| self.check_duplicates_within(&property.value));
            }
            Value::Array(array) => array.elements.iter().for_each(|element| self.check_duplicates_within(element)),
            _ => {}
        }
    }

    /// Notes that a value has the wrong type.
    pub(super) fn wrong_type(&mut self, value: &Value<'_>, what: &str, expected: impl Into<String>) {
        self.error(value.range(), format!("{what} is {}", kind(value)), expected.into());
    }

    /// Reads an object.
    pub(super) fn object<'a>(&mut self, value: &'a Value<'a>, what: &str) -> Option<&'a Object<'a>> {
        let object = value.as_object();
        if object.is_none() {
            self.wrong_type(value, what, "an object");
        }
        object
    }

    /// Reads an object whose keys are the author's, not ours: each once.
    pub(super) fn map<'a>(&mut self, value: &'a Value<'a>, what: &str) -> Option<&'a Object<'a>> {
        let object = self.object(value, what)?;
        self.check_duplicates(object);
        Some(object)
    }

    /// Reads an array.
    pub(super) fn array<'a>(&mut self, value: &'a Value<'a>, what: &str, expected: &str) -> Option<&'a Array<'a>> {
        let array = value.as_array();
        if array.is_none() {
            self.wrong_type(value, what, expected);
        }
        array
    }

    /// Reads a string.
    pub(super) fn text<'a>(&mut self, value: &'a Value<'a>, what: &str, expected: &str) -> Option<At<&'a str>> {
        match value {
            Value::StringLit(literal) => Some(At { value: literal.value.as_ref(), at: literal.range }),
            _ => {
                self.wrong_type(value, what, expected);
                None
            }
        }
    }

    /// Reads a whole number within bounds.
    pub(super) fn integer(&mut self, value: &Value<'_>, what: &str, least: u64, most: u64) -> Option<u64> {
        self.bounded(value, what, least..=most, "a whole number")
    }

    /// Reads a number within bounds.
    pub(super) fn number(&mut self, value: &Value<'_>, what: &str, least: f64, most: f64) -> Option<f64> {
        self.bounded(value, what, least..=most, "a number")
    }

    fn bounded<N: FromStr + PartialOrd + Display>(
        &mut self,
        value: &Value<'_>,
        what: &str,
        bounds: RangeInclusive<N>,
        kind: &str,
    ) -> Option<N> {
        let expected = format!("{kind} from {} to {}", bounds.start(), bounds.end());
        let Some(literal) = value.as_number_lit() else {
            self.wrong_type(value, what, expected);
            return None;
        };
        let number = literal.value.parse().ok().filter(|number| bounds.contains(number));
        if number.is_none() {
            self.error(literal.range, format!("{what} is {}", shorten(literal.value)), expected);
        }
        number
    }

    /// Reads a duration of at least `least`.
    pub(super) fn duration(&mut self, value: &Value<'_>, what: &str, least: Duration) -> Option<Duration> {
        const EXPECTED: &str = "a whole number with one of the units us, ms, s, m, h, such as \"30s\", at most a year";
        let text = self.text(value, what, EXPECTED)?;
        let Some(duration) = units::duration(text.value) else {
            self.error(
                text.at,
                format!("{what} is {}, which is not a duration", quoted(text.value)),
                EXPECTED.to_owned(),
            );
            return None;
        };
        if duration < least {
            self.error(text.at, format!("{what} is {}", quoted(text.value)), "more than nothing".to_owned());
            return None;
        }
        Some(duration)
    }

    /// Reads a size in bytes within bounds.
    pub(super) fn size(&mut self, value: &Value<'_>, what: &str, least: u64, most: u64) -> Option<u64> {
        let expected = format!(
            "a number of bytes or a string such as \"64MiB\", from {} to {}",
            units::show_size(least),
            units::show_size(most)
        );
        let (bytes, shown) = match value {
            Value::NumberLit(literal) => (literal.value.parse().ok(), shorten(literal.value)),
            Value::StringLit(literal) => (units::size(&literal.value), quoted(&literal.value)),
            _ => {
                self.wrong_type(value, what, expected);
                return None;
            }
        };
        let bytes = bytes.filter(|bytes| (least..=most).contains(bytes));
        if bytes.is_none() {
            self.error(value.range(), format!("{what} is {shown}"), expected);
        }
        bytes
    }
}

/// JSON as RFC 8259 has it, without the liberties the parser also offers.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A description of a value.
fn kind(value: &Value<'_>) -> &'static str {
    match value {
        Value::StringLit(_) => "a string",
        Value::NumberLit(_) => "a number",
        Value::BooleanLit(_) => "a boolean",
        Value::Object(_) => "an object",
        Value::Array(_) => "an array",
        Value::NullKeyword(_) => "null",
    }
}

/// A number as messages show it.
fn shorten(number: &str) -> String {
    quoted(number).trim_matches('`').to_owned()
}

/// Names as a list in a message.
pub(super) fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
