//! The text of a workflow file, and mistakes with their place in it.

use std::fmt;
use std::path::{Path, PathBuf};

use jsonc_parser::ast::Value;
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::{Deserialize, Serialize};

use monohull_report::escape::{json_path, shown};

/// A workflow file's text, with the means to turn offsets into lines and columns.
pub(super) struct Source<'a> {
    /// What the file is called in messages.
    pub(super) file: &'a Path,
    /// Its text, without a byte-order mark.
    pub(super) text: &'a str,
    line_starts: Vec<usize>,
    /// How many characters there are before each block of the text, so that a column in a long line is found without counting
    /// from its start: a hostile file is one line with a mistake in every other character.
    characters: Vec<usize>,
}

/// Bytes of a block.
const BLOCK: usize = 1024;

impl<'a> Source<'a> {
    pub(super) fn new(file: &'a Path, text: &'a str) -> Source<'a> {
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let mut characters = vec![0];
        for block in text.as_bytes().chunks(BLOCK) {
            let before = characters.last().copied().unwrap_or(0);
            characters.push(before + count_characters(block));
        }
        Source { file, text, line_starts, characters }
    }

    /// How many characters begin before a byte.
    fn characters_before(&self, byte: usize) -> usize {
        let block = byte / BLOCK;
        self.characters[block] + count_characters(&self.text.as_bytes()[block * BLOCK..byte])
    }

    /// Line and column of a byte, both from 1; columns count characters.
    pub(super) fn position(&self, byte: usize) -> (usize, usize) {
        let byte = (0..=byte.min(self.text.len())).rfind(|&byte| self.text.is_char_boundary(byte)).unwrap_or(0);
        let line = self.line_starts.partition_point(|&start| start <= byte);
        let start = self.line_starts[line - 1];
        (line, self.characters_before(byte) - self.characters_before(start) + 1)
    }

    /// The byte at a line and a byte column, both from 1, as `serde_json` counts them.
    pub(super) fn offset(&self, line: usize, byte_column: usize) -> usize {
        let start = self.line_starts.get(line.saturating_sub(1)).copied().unwrap_or(self.text.len());
        (start + byte_column.saturating_sub(1)).min(self.text.len())
    }

    /// Where a value of the document stands, by its path: names of fields, and indices of arrays. Where the path leads nowhere,
    /// it is the last value on the way.
    pub(super) fn find(&self, path: &[&str]) -> Range {
        let parsed = parse_to_ast(self.text, &CollectOptions::default(), &ParseOptions::default());
        let document = parsed.ok().and_then(|parsed| parsed.value);
        let mut value = document.as_ref();
        let mut at = Range::from_byte_index(0);
        for &part in path {
            value = match value {
                Some(Value::Object(object)) => object.get(part).map(|property| &property.value),
                Some(Value::Array(array)) => part.parse().ok().and_then(|index: usize| array.elements.get(index)),
                _ => None,
            };
            let Some(value) = value else { break };
            at = value.range();
        }
        at
    }

    /// A mistake at a place in the text.
    pub(super) fn mistake(&self, at: Range, level: Level, message: String, expected: Option<String>) -> Mistake {
        let (line, column) = self.position(at.start);
        let file = self.file.to_path_buf();
        Mistake { level, file, line, column, message, expected, blame: Blame::Workflow }
    }
}

/// How bad a mistake is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// The workflow is refused.
    Error,
    /// The workflow runs; something in it is probably not meant.
    Warning,
}

/// The party at fault for a mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blame {
    /// The workflow file.
    Workflow,
    /// The image of a function that it names.
    Function,
}

/// Something wrong in a workflow file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mistake {
    /// How bad it is.
    pub level: Level,
    /// The file.
    #[serde(serialize_with = "json_path")]
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What would have been right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The party at fault: the workflow file, or the image of a function.
    pub blame: Blame,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", shown(&self.file), self.line, self.column)?;
        if self.level == Level::Warning {
            f.write_str("warning: ")?;
        }
        f.write_str(&self.message)?;
        match &self.expected {
            Some(expected) => write!(f, " (expected {expected})"),
            None => Ok(()),
        }
    }
}

/// How many characters begin in these bytes of UTF-8.
fn count_characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters() {
        let source = Source::new(Path::new("x"), "aé\nßb\n");
        assert_eq!(source.position(0), (1, 1));
        assert_eq!(source.position(3), (1, 3));
        assert_eq!(source.position(4), (2, 1));
        assert_eq!(source.position(6), (2, 2));
        assert_eq!(source.position(8), (3, 1));
        assert_eq!(source.position(1000), (3, 1));
        assert_eq!(source.offset(2, 3), 6);
        assert_eq!(source.offset(9, 9), 8);
    }

    #[test]
    fn columns_count_characters_in_lines_of_any_length() {
        let long: String = ["ä", "b", "€", "𝄞"].into_iter().cycle().take(5000).collect();
        let text = format!("{long}\n{long}{long}\nshort");
        let source = Source::new(Path::new("test.json"), &text);
        let (mut line, mut column) = (1, 1);
        for (at, character) in text.char_indices() {
            assert_eq!(source.position(at), (line, column), "byte {at}");
            (line, column) = if character == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        assert_eq!(source.position(text.len()), (line, column));
        assert_eq!(source.position(text.len() + 10), (line, column));
    }
}
