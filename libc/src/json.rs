//! The members of a JSON object, as the visor writes it: arguments and environment arrive so. The visor has checked the
//! text, so what cannot be read ends the list.

use alloc::string::String;
use alloc::vec::Vec;

/// A value: a text's characters, or anything else as it is written.
pub(crate) enum Value<'a> {
    Text(String),
    Other(&'a str),
}

/// Names and values, in order.
pub(crate) fn members(text: &str) -> Vec<(String, Value<'_>)> {
    let mut rest = Reader { text };
    let mut members = Vec::new();
    if rest.take("{").is_some() {
        while let Some(name) = rest.string() {
            if rest.take(":").is_none() {
                break;
            }
            let Some(value) = rest.value() else { break };
            members.push((name, value));
            if rest.take(",").is_none() {
                break;
            }
        }
    }
    members
}

/// The values of a list.
pub(crate) fn elements(text: &str) -> Option<Vec<Value<'_>>> {
    let mut rest = Reader { text };
    rest.take("[")?;
    let mut elements = Vec::new();
    while let Some(value) = rest.value() {
        elements.push(value);
        if rest.take(",").is_none() {
            break;
        }
    }
    Some(elements)
}

struct Reader<'a> {
    text: &'a str,
}

impl<'a> Reader<'a> {
    fn take(&mut self, what: &str) -> Option<()> {
        self.text = self.text.trim_start().strip_prefix(what)?;
        Some(())
    }

    fn string(&mut self) -> Option<String> {
        self.take("\"")?;
        let mut string = String::new();
        let mut characters = self.text.chars();
        loop {
            match characters.next()? {
                '"' => break,
                '\\' => string.push(match characters.next()? {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'u' => escaped(&mut characters)?,
                    other => other,
                }),
                other => string.push(other),
            }
        }
        self.text = characters.as_str();
        Some(string)
    }

    /// A value; of a list or an object, its text up to the bracket that closes it.
    fn value(&mut self) -> Option<Value<'a>> {
        self.text = self.text.trim_start();
        if self.text.starts_with('"') {
            return self.string().map(Value::Text);
        }
        let all = self.text;
        let mut depth = 0;
        loop {
            match self.text.bytes().next() {
                Some(b'"') => {
                    self.string()?;
                    continue;
                }
                Some(b'[' | b'{') => depth += 1,
                Some(b']' | b'}') if depth > 0 => depth -= 1,
                Some(b']' | b'}' | b',') | None if depth == 0 => break,
                None => return None,
                _ => {}
            }
            let first = self.text.chars().next()?.len_utf8();
            self.text = &self.text[first..];
        }
        let value = all[..all.len() - self.text.len()].trim_end();
        if value.is_empty() { None } else { Some(Value::Other(value)) }
    }
}

/// The character of `\uXXXX`, or of two of them.
fn escaped(characters: &mut core::str::Chars<'_>) -> Option<char> {
    fn unit(characters: &mut core::str::Chars<'_>) -> Option<u32> {
        (0..4).try_fold(0, |unit, _| Some(unit * 16 + characters.next()?.to_digit(16)?))
    }
    let high = unit(characters)?;
    if !(0xd800..0xdc00).contains(&high) {
        return char::from_u32(high);
    }
    (characters.next()? == '\\' && characters.next()? == 'u').then_some(())?;
    char::from_u32(0x10000 + ((high - 0xd800) << 10) + unit(characters)?.checked_sub(0xdc00)?)
}
