//! From places in a document that was made of a workflow file back to places in that file.
//!
//! `monohull deploy` sends a server a document that differs from the file: images are names of registered functions, inputs have no
//! paths, and lines are laid out anew. The author has the file, so a mistake that the server finds is shown there.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::source::Source;

/// Where the parts of a document stand in the file that it was made of. Lines and columns are from 1; columns count characters.
#[derive(Clone, Debug, Default)]
pub struct Places(BTreeMap<(usize, usize), (usize, usize)>);

impl Places {
    /// Looks for each part of the document at the same place of the file's structure. Parts have the same names in both; either may
    /// have some that the other lacks.
    pub fn new(document: &str, file: &str) -> Places {
        let mut pairs = Pairs {
            document: Source::new(Path::new(""), document),
            file: Source::new(Path::new(""), file.strip_prefix('\u{feff}').unwrap_or(file)),
            places: Places::default(),
        };
        let [in_document, in_file] = [pairs.document.text, pairs.file.text].map(|text| {
            let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default());
            parsed.ok().and_then(|parsed| parsed.value)
        });
        if let (Some(in_document), Some(in_file)) = (in_document, in_file) {
            pairs.walk(&in_document, &in_file);
        }
        pairs.places
    }

    /// The place in the file of a place in the document; that of the last part before it, if nothing begins there.
    pub fn in_file(&self, line: usize, column: usize) -> (usize, usize) {
        self.0.range(..=(line, column)).next_back().map_or((1, 1), |(_, place)| *place)
    }
}

/// Both texts, and what has been found.
struct Pairs<'t> {
    document: Source<'t>,
    file: Source<'t>,
    places: Places,
}

impl Pairs<'_> {
    fn pair(&mut self, in_document: usize, in_file: usize) {
        self.places.0.insert(self.document.position(in_document), self.file.position(in_file));
    }

    fn walk(&mut self, in_document: &Value<'_>, in_file: &Value<'_>) {
        self.pair(in_document.range().start, in_file.range().start);
        match (in_document, in_file) {
            (Value::Object(in_document), Value::Object(in_file)) => {
                let others: HashMap<_, _> =
                    in_file.properties.iter().map(|other| (other.name.as_str(), other)).collect();
                for property in &in_document.properties {
                    if let Some(other) = others.get(property.name.as_str()) {
                        self.pair(property.range.start, other.range.start);
                        self.walk(&property.value, &other.value);
                    }
                }
            }
            (Value::Array(in_document), Value::Array(in_file)) => {
                in_document.elements.iter().zip(&in_file.elements).for_each(|(one, other)| self.walk(one, other));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_found_in_the_file() {
        let file = "\u{feff}{\"inputs\": [{ \"path\": \"ä\", \"slot\": \"in\" }],\n  \"functions\":{\"f\":{\"image\":\"f.so\"}}}";
        let document = serde_json::json!({
            "inputs": [{ "slot": "in" }],
            "functions": { "f": { "image": "function:w-f" } },
        });
        let document = format!("{document:#}");
        let places = Places::new(&document, file);
        let at = |text: &str, part: &str| {
            let text = text.trim_start_matches('\u{feff}');
            Source::new(Path::new(""), text).position(text.find(part).expect("a part"))
        };
        for part in ["\"inputs\"", "\"slot\"", "\"in\"", "\"functions\"", "\"f\"", "\"image\""] {
            let (line, column) = at(&document, part);
            assert_eq!(places.in_file(line, column), at(file, part), "{part}");
        }
        let (line, column) = at(&document, "\"function:w-f\"");
        assert_eq!(places.in_file(line, column), at(file, "\"f.so\""));
        // In the middle of a part, before all of them, and where nothing is known.
        assert_eq!(places.in_file(line, column + 3), at(file, "\"f.so\""));
        assert_eq!(places.in_file(0, 1), (1, 1));
        assert_eq!(Places::new("{", file).in_file(7, 7), (1, 1));
    }
}
