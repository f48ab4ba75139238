//! The pages of documentation as their tests see them: fenced blocks, code within lines, links, headings.
#![allow(dead_code, reason = "each test program uses a part")]

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("visor lies in the root")
}

/// Where cargo compiles what functions of the pages depend on, once for all of them.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs-cache")
}

/// A page of documentation.
pub(crate) struct Page {
    /// Its path below the root of the repository.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A fenced block.
pub(crate) struct Block<'p> {
    /// `PAGE:LINE`, for messages.
    pub(crate) place: String,
    /// The first word behind the fence; empty if there is none.
    pub(crate) language: String,
    /// The other words behind the fence.
    pub(crate) attributes: Vec<String>,
    pub(crate) text: String,
    /// The page up to the block.
    pub(crate) before: &'p str,
}

impl Block<'_> {
    /// The value of an attribute `NAME=VALUE`.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find_map(|attribute| attribute.strip_prefix(name)?.strip_prefix('='))
    }

    /// Whether the block has this word behind its fence.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.attributes.iter().any(|attribute| attribute == word)
    }
}

/// README.md and every page below docs/.
pub(crate) fn pages() -> Vec<Page> {
    let entries = fs::read_dir(root().join("docs")).expect("docs/").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    paths.push(root().join("README.md"));
    paths.sort();
    assert!(paths.len() > 10, "the pages were not found: {paths:?}");
    paths.iter().map(|path| Page::read(path)).collect()
}

impl Page {
    /// One page by its path below the root.
    pub(crate) fn named(name: &str) -> Page {
        Page::read(&root().join(name))
    }

    fn read(path: &Path) -> Page {
        let name = path.strip_prefix(root()).expect("a path below the root").to_str().expect("UTF-8").to_owned();
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        Page { name, text }
    }

    /// Where a byte of the page is, for messages.
    pub(crate) fn place(&self, at: usize) -> String {
        format!("{}:{}", self.name, 1 + self.text[..at].matches('\n').count())
    }

    /// The block with this `name=`.
    pub(crate) fn block(&self, name: &str) -> Block<'_> {
        let found = self.blocks().into_iter().find(|block| block.attribute("name") == Some(name));
        found.unwrap_or_else(|| panic!("{} has no block {name}", self.name))
    }

    /// All fenced blocks in their order.
    pub(crate) fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks: Vec<Block<'_>> = Vec::new();
        let mut inside = false;
        for (event, range) in Parser::new(&self.text).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    let mut words = info.split([' ', ',']).filter(|word| !word.is_empty()).map(str::to_owned);
                    inside = true;
                    blocks.push(Block {
                        place: self.place(range.start),
                        language: words.next().unwrap_or_default(),
                        attributes: words.collect(),
                        text: String::new(),
                        before: &self.text[..range.start],
                    });
                }
                Event::End(TagEnd::CodeBlock) => inside = false,
                Event::Text(text) if inside => blocks.last_mut().expect("a block has begun").text += &text,
                _ => {}
            }
        }
        blocks
    }

    /// Code within lines, with its place.
    pub(crate) fn spans(&self) -> Vec<(String, String)> {
        let events = Parser::new_ext(&self.text, pulldown_cmark::Options::ENABLE_TABLES).into_offset_iter();
        let span = |(event, range): (Event<'_>, std::ops::Range<usize>)| match event {
            Event::Code(text) => Some((self.place(range.start), text.into_string())),
            _ => None,
        };
        events.filter_map(span).collect()
    }

    /// Where links lead, with their places.
    pub(crate) fn links(&self) -> Vec<(String, String)> {
        let events = Parser::new_ext(&self.text, pulldown_cmark::Options::ENABLE_TABLES).into_offset_iter();
        let link = |(event, range): (Event<'_>, std::ops::Range<usize>)| match event {
            Event::Start(Tag::Link { dest_url, .. }) => Some((self.place(range.start), dest_url.into_string())),
            _ => None,
        };
        events.filter_map(link).collect()
    }

    /// The names under which its headings can be linked to.
    pub(crate) fn anchors(&self) -> HashSet<String> {
        let mut anchors = HashSet::new();
        let mut heading: Option<String> = None;
        for event in Parser::new(&self.text) {
            match (event, &mut heading) {
                (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
                (Event::End(TagEnd::Heading(_)), Some(text)) => {
                    anchors.insert(anchor(text));
                    heading = None;
                }
                (Event::Text(text) | Event::Code(text), Some(heading)) => heading.push_str(&text),
                _ => {}
            }
        }
        anchors
    }
}

/// What a heading is called in links, as forges do it: lower case, hyphens for spaces, no punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}
