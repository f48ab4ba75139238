//! Changes of a checkpoint's fields and sections.

use super::sections::{Body, Section, Sections};
use serde_json::{Value, json};

/// Lists of numbers that are longer are bytes, which are changed as one.
const SHORT: usize = 15;

/// Marsaglia's xorshift: the same seed makes the same changes.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u32) -> Random {
        Random(u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % end.max(1)
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        all.get(self.below(all.len())).cloned()
    }
}

/// Makes one change, to a section or to a field.
pub(super) fn change(sections: &mut Sections, random: &mut Random) {
    let index = random.below(sections.list.len());
    if sections.list.is_empty() || random.below(12) == 0 {
        return change_list(sections, index, random);
    }
    let mut donors = Donors::default();
    sections.list.iter().for_each(|section| donors.take("", section));
    match &mut sections.list[index].body {
        Body::Fields(value) => {
            let mut number = random.below(count(value));
            change_field(value, "", &mut number, &donors, random);
        }
        Body::Bytes(bytes) => change_bytes(bytes, random),
    }
}

/// A section that is missing, there twice, in another place, of another kind or version; and pages that are missing or others.
fn change_list(sections: &mut Sections, index: usize, random: &mut Random) {
    let list = &mut sections.list;
    let other = random.below(list.len());
    match random.below(8) {
        _ if list.is_empty() => change_bytes(&mut sections.pages, random),
        0 => _ = list.remove(index),
        1 => {
            let twice: Section = list[index].clone();
            list.insert(index, twice);
        }
        2 => list.swap(index, other),
        3 => list[index].id = random.below(18) as u32,
        4 => list[index].version = random.below(3) as u16,
        5 => list[index].flags = random.below(3) as u16,
        6 => list[index].body = list[other].body.clone(),
        _ => change_bytes(&mut sections.pages, random),
    }
}

/// Values of all sections, with the names of the fields that they are in.
#[derive(Default)]
struct Donors {
    named: Vec<(String, Value)>,
    numbers: Vec<Value>,
    texts: Vec<Value>,
}

impl Donors {
    fn take(&mut self, name: &str, section: &Section) {
        if let Body::Fields(value) = &section.body {
            self.take_value(name, value);
        }
    }

    fn take_value(&mut self, name: &str, value: &Value) {
        if !value.is_null() {
            self.named.push((name.to_owned(), value.clone()));
        }
        match value {
            Value::Number(_) => self.numbers.push(value.clone()),
            Value::String(_) => self.texts.push(value.clone()),
            Value::Array(list) if !is_bytes(list) => list.iter().for_each(|value| self.take_value(name, value)),
            Value::Object(fields) => fields.iter().for_each(|(name, value)| self.take_value(name, value)),
            _ => {}
        }
    }

    /// A value that such a field has elsewhere, or might have.
    fn of_name(&self, name: &str, random: &mut Random) -> Option<Value> {
        let others = self.named.iter().filter(|(own, _)| own == name).map(|(_, value)| value.clone());
        random.one_of(&others.chain(possible(name)).collect::<Vec<_>>())
    }
}

/// Values that no good checkpoint may have at hand.
fn possible(name: &str) -> Vec<Value> {
    match name {
        "state" => vec![
            json!("Reserved"),
            json!("Hidden"),
            json!("Read"),
            json!("ReadWrite"),
            json!({ "Ready": "Woken" }),
            json!({ "Ready": "TimedOut" }),
            json!({ "Ready": "First" }),
            json!({ "Ready": { "Value": -1 } }),
            json!({ "Waiting": { "on": "Time", "deadline": null } }),
            json!({ "Waiting": { "on": { "Thread": { "number": 0 } }, "deadline": 1 } }),
        ],
        "on" => vec![json!("Time"), json!({ "Slot": { "name": "a" } }), json!({ "Event": { "name": "a" } })],
        "content" => vec![json!("Zero"), json!("Base"), json!("Parent"), json!({ "Here": { "stored": 0 } })],
        "what" => vec![json!("Run"), json!({ "Driver": 0 })],
        _ => Vec::new(),
    }
}

fn is_bytes(list: &[Value]) -> bool {
    list.len() > SHORT && list.iter().all(|value| value.as_u64().is_some_and(|value| value < 256))
}

/// How many fields there are in it, itself included.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(list) if !is_bytes(list) => 1 + list.iter().map(count).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

/// Changes the field with this number.
fn change_field(value: &mut Value, name: &str, number: &mut usize, donors: &Donors, random: &mut Random) -> bool {
    if *number == 0 {
        *value = changed(value, name, donors, random);
        return true;
    }
    *number -= 1;
    match value {
        Value::Array(list) if !is_bytes(list) => {
            list.iter_mut().any(|value| change_field(value, name, number, donors, random))
        }
        Value::Object(fields) => {
            fields.iter_mut().any(|(name, value)| change_field(value, name, number, donors, random))
        }
        _ => false,
    }
}

fn changed(value: &Value, name: &str, donors: &Donors, random: &mut Random) -> Value {
    if random.below(4) == 0
        && let Some(other) = donors.of_name(name, random)
    {
        return other;
    }
    match value {
        Value::Null => random.one_of(&donors.numbers).unwrap_or_else(|| json!(1)),
        Value::Bool(flag) => json!(!flag),
        Value::Number(_) => changed_number(value, donors, random),
        Value::String(text) => changed_text(text, donors, random),
        Value::Array(list) if is_bytes(list) => {
            let mut bytes: Vec<u8> = list.iter().filter_map(Value::as_u64).map(|byte| byte as u8).collect();
            change_bytes(&mut bytes, random);
            json!(bytes)
        }
        Value::Array(list) => changed_list(list, name, donors, random),
        Value::Object(_) => match random.below(2) {
            0 => Value::Null,
            _ => donors.of_name(name, random).unwrap_or(Value::Null),
        },
    }
}

fn changed_number(value: &Value, donors: &Donors, random: &mut Random) -> Value {
    let number = value.as_u64().unwrap_or_else(|| value.as_i64().unwrap_or(0) as u64);
    let page = 4096;
    match random.below(12) {
        0 => json!(0),
        1 => json!(number.wrapping_add(1)),
        2 => json!(number.wrapping_sub(1)),
        3 => json!(number ^ 1 << random.below(64)),
        4 => json!(number ^ 1 << random.below(8)),
        5 => json!(number.wrapping_add(page)),
        6 => json!(number.wrapping_sub(page)),
        7 => json!(u64::MAX >> (8 * random.below(8))),
        8 => json!(1u64 << random.below(64)),
        9 => json!(random.below(300)),
        10 => json!(-(number as i64 & i64::MAX)),
        _ => random.one_of(&donors.numbers).unwrap_or(Value::Null),
    }
}

fn changed_text(text: &str, donors: &Donors, random: &mut Random) -> Value {
    match random.below(7) {
        0 => json!(""),
        1 => json!(format!("{text}x")),
        2 => json!(text.chars().skip(1).collect::<String>()),
        3 => json!(format!("{text}\0")),
        4 => json!("x".repeat(1 << random.below(14))),
        5 => json!(format!("{text}/../ä")),
        _ => random.one_of(&donors.texts).unwrap_or(Value::Null),
    }
}

fn changed_list(list: &[Value], name: &str, donors: &Donors, random: &mut Random) -> Value {
    let mut list = list.to_vec();
    let (at, other) = (random.below(list.len()), random.below(list.len()));
    match random.below(7) {
        0 | 1 if !list.is_empty() => _ = list.remove(at),
        2 if !list.is_empty() => {
            let twice = list[at].clone();
            list.insert(other, twice);
        }
        3 if !list.is_empty() => list.swap(at, other),
        4 => list.reverse(),
        5 => list.truncate(at),
        _ => {
            let more = donors.of_name(name, random).filter(|value| !value.is_array());
            list.push(more.or_else(|| random.one_of(&donors.numbers)).unwrap_or(Value::Null));
        }
    }
    Value::Array(list)
}

fn change_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len());
    match random.below(6) {
        _ if bytes.is_empty() => bytes.push(random.below(256) as u8),
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.below(256) as u8,
        2 => bytes.truncate(at),
        3 => bytes.insert(at, random.below(256) as u8),
        4 => _ = bytes.remove(at),
        _ => {
            let end = (at + 1 + random.below(16)).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
    }
}
