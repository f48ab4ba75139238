//! Untrusted text, made safe to print.
//!
//! Function output, panic messages, symbols of an image, names in a disk image and file names are chosen by a function's
//! author or by a file's owner. A terminal acts on some of their characters instead of showing them: an escape sequence sets
//! the clipboard, a carriage return overwrites the line, a bidirectional override shows text in another order. Such
//! characters are replaced here by a visible notation, whether or not the output is a terminal: a log is read in one later.
//!
//! ```text
//!   for people   ESC → \u{1b}    CR → \r    LF → \n (in `Line`; `Lines` keeps it)    a byte that is not UTF-8 → \x9b
//!   in JSON      ESC → \u001b    the same string when it is parsed
//! ```
//!
//! Backslashes stay as they are, so the notation for people is not reversible; JSON is.

use std::fmt::{self, Display, Write};
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// Whether a terminal may act on a character instead of showing it: control characters (C0 without the tab, DEL, C1), line
/// and paragraph separators, and the characters that change the direction of text (`Bidi_Control` and its deprecated kin).
pub fn is_active(c: char) -> bool {
    match c {
        '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' => true,
        _ => c.is_control(),
    }
}

/// Shows a value on one line: active characters and line ends are escaped.
#[derive(Clone, Copy, Debug)]
pub struct Line<T>(pub T);

impl<T: Display> Display for Line<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping { to: f, notation: Notation::Line }, "{}", self.0)
    }
}

/// Shows a value that may have several lines: active characters are escaped, line ends stay.
#[derive(Clone, Copy, Debug)]
pub struct Lines<T>(pub T);

impl<T: Display> Display for Lines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping { to: f, notation: Notation::Lines }, "{}", self.0)
    }
}

/// A path as messages show it.
pub fn shown(path: &(impl AsRef<Path> + ?Sized)) -> impl Display {
    #[expect(clippy::disallowed_methods, reason = "this is the function that escapes it")]
    Line(path.as_ref().display())
}

/// Text of several lines within a message: every line but the first begins with a mark, so that none looks like one of the
/// message's own.
pub fn quoted_lines(text: &str) -> String {
    Lines(text.trim_end()).to_string().replace('\n', "\n  | ")
}

/// How active characters are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notation {
    /// For people; a line end is one of them.
    Line,
    /// For people; line ends stay.
    Lines,
    /// In a JSON document; line ends stay, because in strings there are none.
    Json,
}

impl Notation {
    fn write(self, to: &mut (impl Write + ?Sized), text: &str) -> fmt::Result {
        let mut rest = text;
        let acts = |c: char| is_active(c) && (c != '\n' || self == Notation::Line);
        while let Some((at, c)) = rest.char_indices().find(|&(_, c)| acts(c)) {
            to.write_str(&rest[..at])?;
            match (self, c) {
                (Notation::Json, c) => write!(to, "\\u{:04x}", c as u32)?,
                (_, '\n') => to.write_str("\\n")?,
                (_, '\r') => to.write_str("\\r")?,
                (_, c) => write!(to, "{}", c.escape_unicode())?,
            }
            rest = &rest[at + c.len_utf8()..];
        }
        to.write_str(rest)
    }

    /// One piece of text.
    pub fn escape(self, text: &str) -> String {
        let mut escaped = String::with_capacity(text.len());
        // Writing to a string does not fail.
        let _ = self.write(&mut escaped, text);
        escaped
    }
}

/// Escapes what is written through it.
struct Escaping<W> {
    to: W,
    notation: Notation,
}

impl<W: Write> Write for Escaping<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.notation.write(&mut self.to, text)
    }
}

/// Escapes bytes that arrive in pieces; a character may be cut in two.
#[derive(Debug)]
pub struct Pieces {
    notation: Notation,
    /// The beginning of a character whose end has not arrived.
    cut: Vec<u8>,
}

impl Pieces {
    /// A stream without bytes.
    pub const fn new(notation: Notation) -> Pieces {
        Pieces { notation, cut: Vec::new() }
    }

    /// What can be shown after one more piece.
    pub fn push(&mut self, piece: &[u8]) -> String {
        let bytes = [std::mem::take(&mut self.cut).as_slice(), piece].concat();
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(&self.notation.escape(chunk.valid()));
            let invalid = chunk.invalid();
            let unfinished = std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if unfinished && chunks.peek().is_none() {
                self.cut = invalid.to_vec();
            } else {
                self.not_text(&mut text, invalid);
            }
        }
        text
    }

    /// The rest, when no more comes.
    pub fn finish(self) -> String {
        let mut text = String::new();
        self.not_text(&mut text, &self.cut);
        text
    }

    fn not_text(&self, text: &mut String, bytes: &[u8]) {
        for byte in bytes {
            match self.notation {
                Notation::Json => text.push('\u{fffd}'),
                _ => text.push_str(&format!("\\x{byte:02x}")),
            }
        }
    }
}

/// A JSON document on one line.
pub fn to_json(document: &(impl Serialize + ?Sized)) -> serde_json::Result<Vec<u8>> {
    let mut json = Vec::with_capacity(128);
    document.serialize(&mut Serializer::with_formatter(&mut json, Strings(CompactFormatter)))?;
    Ok(json)
}

/// A path in a JSON document, for `#[serde(serialize_with)]`. What is not UTF-8 in it is replaced: without that there is no document.
///
/// # Errors
///
/// Those of the document.
pub fn json_path<S: serde::Serializer>(path: &(impl AsRef<Path> + ?Sized), to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.as_ref().to_string_lossy())
}

/// The same, if there is a path.
///
/// # Errors
///
/// Those of the document.
pub fn json_path_if_any<S: serde::Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(to)
}

/// A JSON document for people to look at.
pub fn to_json_pretty(document: &(impl Serialize + ?Sized)) -> serde_json::Result<Vec<u8>> {
    let mut json = Vec::with_capacity(128);
    document.serialize(&mut Serializer::with_formatter(&mut json, Strings(PrettyFormatter::new())))?;
    Ok(json)
}

/// Writes the active characters in strings that JSON itself does not escape as `\u`.
struct Strings<F>(F);

impl<F: Formatter> Formatter for Strings<F> {
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, to: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.contains(is_active) {
            to.write_all(Notation::Json.escape(fragment).as_bytes())
        } else {
            to.write_all(fragment.as_bytes())
        }
    }

    fn begin_array<W: io::Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.0.begin_array(to)
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.0.end_array(to)
    }

    fn begin_array_value<W: io::Write + ?Sized>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(to, first)
    }

    fn end_array_value<W: io::Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.0.end_array_value(to)
    }

    fn begin_object<W: io::Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.0.begin_object(to)
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.0.end_object(to)
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(to, first)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.0.begin_object_value(to)
    }

    fn end_object_value<W: io::Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.0.end_object_value(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One of each class: what it is, and how it is shown to people.
    const CLASSES: [(&str, &str, &str); 10] = [
        ("an escape sequence", "\x1b]52;c;eA==", "\\u{1b}]52;c;eA=="),
        ("the end of such a sequence", "\x07", "\\u{7}"),
        ("a carriage return", "a\rb", "a\\rb"),
        ("a backspace", "a\x08b", "a\\u{8}b"),
        ("NUL", "\0", "\\u{0}"),
        ("DEL", "\x7f", "\\u{7f}"),
        ("a sequence introduced by C1", "\u{9b}2J", "\\u{9b}2J"),
        ("a bidirectional override", "\u{202e}txt.exe", "\\u{202e}txt.exe"),
        ("a bidirectional isolate", "\u{2066}a\u{2069}", "\\u{2066}a\\u{2069}"),
        ("a line separator", "a\u{2028}b", "a\\u{2028}b"),
    ];

    #[test]
    fn every_class_is_escaped_for_people_and_in_json() {
        for (what, text, shown) in CLASSES {
            assert_eq!(Line(text).to_string(), shown, "{what}");
            assert_eq!(Lines(text).to_string(), shown, "{what}");
            for json in [to_json(text), to_json_pretty(text)] {
                let json = String::from_utf8(json.expect("JSON")).expect("UTF-8");
                assert!(!json.contains(is_active), "{what}: {json:?}");
                assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text, "{what}");
            }
        }
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        let text = "plain\ttext, ä, 漢字, עברית, 👩‍🚀, C:\\folder, \"quoted\"";
        assert_eq!(Line(text).to_string(), text);
        assert_eq!(serde_json::to_vec(text).expect("JSON"), to_json(text).expect("JSON"));
    }

    #[test]
    fn line_ends_are_escaped_marked_or_kept() {
        assert_eq!(Line("a\nb").to_string(), "a\\nb");
        assert_eq!(Lines("a\nb\n").to_string(), "a\nb\n");
        assert_eq!(quoted_lines("panicked:\nat fault  the host\r\n"), "panicked:\n  | at fault  the host");
    }

    #[test]
    fn a_path_is_one_line() {
        assert_eq!(shown("a\n\x1b[2J/b").to_string(), "a\\n\\u{1b}[2J/b");
    }

    #[test]
    fn documents_are_written_as_serde_json_writes_them() {
        let document = serde_json::json!({ "a": [1, 2.5, null, true], "b": { "c": "d\n\"" }, "e": [], "f": {} });
        assert_eq!(to_json(&document).expect("JSON"), serde_json::to_vec(&document).expect("JSON"));
        assert_eq!(to_json_pretty(&document).expect("JSON"), serde_json::to_vec_pretty(&document).expect("JSON"));
    }

    #[test]
    fn a_byte_that_is_not_text_is_shown_by_its_value() {
        let mut pieces = Pieces::new(Notation::Lines);
        assert_eq!(pieces.push(b"a\x9b2J\xe2\x80"), "a\\x9b2J");
        // It was the beginning of U+202E.
        assert_eq!(pieces.push(b"\xae\xc3"), "\\u{202e}");
        assert_eq!(pieces.finish(), "\\xc3");
    }

    proptest! {
        #[test]
        fn bytes_are_shown_alike_however_they_are_cut(bytes: Vec<u8>, cuts: Vec<prop::sample::Index>) {
            let mut whole = Pieces::new(Notation::Lines);
            let mut expected = whole.push(&bytes);
            expected += &whole.finish();
            prop_assert!(!expected.contains(|c| is_active(c) && c != '\n'));
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let mut pieces = Pieces::new(Notation::Lines);
            let (mut text, mut from) = (String::new(), 0);
            for to in cuts.into_iter().chain([bytes.len()]) {
                text += &pieces.push(&bytes[from..to]);
                from = to;
            }
            text += &pieces.finish();
            prop_assert_eq!(text, expected);
        }
    }
}
