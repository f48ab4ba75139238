//! Which names a source file uses: an approximation that needs no compiler.
//!
//! Seen are `mod` and `use` items and all paths of two segments or more, those in the arguments of macros included. Not seen are methods
//! and fields of another file's types. What is compiled for tests alone does not count.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::collections::BTreeMap;

/// A path as it is written.
pub(super) type Path = Vec<String>;

/// What a file consists of, as far as it matters here.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// Files that it declares as its modules, with their `#[path]`.
    pub(super) modules: Vec<(String, Option<String>)>,
    /// What `use` items bring into it, by the name that it has here.
    pub(super) imports: BTreeMap<String, Path>,
    /// Paths that it uses: in its code, and by `use` items. A name that it passes on is not used.
    pub(super) paths: Vec<Path>,
    /// Names that it passes on (`pub use`).
    passed_on: Vec<(String, Path)>,
    /// How often each identifier stands in it.
    counts: BTreeMap<String, usize>,
}

/// What stands in front of an item.
#[derive(Default)]
struct Prefix {
    is_public: bool,
    is_test: bool,
    path: Option<String>,
}

impl Source {
    /// Reads a file's text.
    pub(super) fn parse(text: &str) -> Result<Source, String> {
        let tokens = text.parse::<TokenStream>().map_err(|error| format!("{error}"))?;
        let mut source = Source::default();
        source.read(tokens, 0);
        // What is passed on and also used is used.
        for (name, path) in std::mem::take(&mut source.passed_on) {
            if name != "*" && source.counts.get(&name).is_some_and(|count| *count > 1) {
                source.paths.push(path);
            }
        }
        Ok(source)
    }

    /// Reads tokens that stand in `depth` modules of the file.
    fn read(&mut self, tokens: TokenStream, depth: usize) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut prefix = Prefix::default();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    at += 1;
                    if let Some(TokenTree::Group(group)) = tokens.get(at) {
                        prefix.add(group);
                        at += 1;
                    }
                }
                TokenTree::Punct(punct) => {
                    if punct.as_char() == ';' {
                        prefix = Prefix::default();
                    }
                    // `::name` begins with a crate.
                    at += if is_separator(&tokens, at) { 3 } else { 1 };
                }
                TokenTree::Ident(ident) if *ident == "pub" => {
                    prefix.is_public = true;
                    // `(in super::super)` is no use of anything.
                    at += if group(tokens.get(at + 1), Delimiter::Parenthesis).is_some() { 2 } else { 1 };
                }
                TokenTree::Ident(ident) if *ident == "mod" => {
                    at = self.read_module(&tokens, at + 1, std::mem::take(&mut prefix), depth);
                }
                TokenTree::Ident(ident) if *ident == "use" => {
                    let Prefix { is_public, is_test, .. } = std::mem::take(&mut prefix);
                    let mut names = Vec::new();
                    at = read_use(&tokens, at + 1, Path::new(), &mut names);
                    for (path, name) in names.into_iter().filter(|_| !is_test) {
                        self.add_import(name, path, is_public, depth);
                    }
                }
                TokenTree::Ident(_) => at = self.read_path(&tokens, at, depth),
                TokenTree::Group(group) => {
                    let ends = group.delimiter() == Delimiter::Brace;
                    let item = if ends { std::mem::take(&mut prefix) } else { Prefix::default() };
                    if !item.is_test {
                        self.read(group.stream(), depth);
                    }
                    at += 1;
                }
                TokenTree::Literal(_) => at += 1,
            }
        }
    }

    /// `mod name;` or `mod name { … }`, from its name on; gives what comes next.
    fn read_module(&mut self, tokens: &[TokenTree], at: usize, prefix: Prefix, depth: usize) -> usize {
        let Prefix { is_test, path, .. } = prefix;
        let (Some(TokenTree::Ident(name)), Some(body)) = (tokens.get(at), tokens.get(at + 1)) else { return at };
        match body {
            TokenTree::Group(body) if !is_test => self.read(body.stream(), depth + 1),
            TokenTree::Punct(_) if !is_test => self.modules.push((name.to_string(), path)),
            _ => {}
        }
        at + 2
    }

    /// An identifier, or a path that begins with it; gives what comes next.
    fn read_path(&mut self, tokens: &[TokenTree], mut at: usize, depth: usize) -> usize {
        let mut path = Path::new();
        while let Some(TokenTree::Ident(segment)) = tokens.get(at) {
            path.push(segment.to_string());
            at += 1;
            if !is_separator(tokens, at) || !matches!(tokens.get(at + 2), Some(TokenTree::Ident(_))) {
                break;
            }
            at += 2;
        }
        for segment in &path {
            *self.counts.entry(segment.clone()).or_default() += 1;
        }
        if path.len() > 1 {
            self.paths.extend(seen_from_file(path, depth));
        }
        at
    }

    fn add_import(&mut self, name: String, path: Path, is_public: bool, depth: usize) {
        *self.counts.entry(name.clone()).or_default() += 1;
        let Some(path) = seen_from_file(path, depth) else { return };
        match is_public {
            true => self.passed_on.push((name.clone(), path.clone())),
            false => self.paths.push(path.clone()),
        }
        self.imports.insert(name, path);
    }
}

impl Prefix {
    /// Reads an attribute.
    fn add(&mut self, attribute: &Group) {
        let text: String = attribute.stream().to_string().split_whitespace().collect();
        self.is_test |= text == "cfg(test)";
        if let Some(path) = text.strip_prefix("path=") {
            self.path = Some(path.trim_matches('"').to_owned());
        }
    }
}

/// The path as it would be written outside of the `depth` modules; none if it stays inside of them.
fn seen_from_file(path: Path, depth: usize) -> Option<Path> {
    let up = path.iter().take_while(|segment| *segment == "super").count();
    match (depth, path.first()?.as_str()) {
        (0, _) | (_, "crate") => Some(path),
        (_, "super") if up >= depth => Some([&["self".to_owned()], &path[depth..]].concat()),
        (_, "super" | "self") => None,
        _ => Some(path),
    }
}

/// Adds what a tree of `use` names: its path, and the name that it has here. Gives what comes next.
fn read_use(tokens: &[TokenTree], mut at: usize, mut path: Path, names: &mut Vec<(Path, String)>) -> usize {
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Ident(ident) if *ident == "as" => {
                names.extend(tokens.get(at + 1).map(|name| (path, name.to_string())));
                return at + 2;
            }
            TokenTree::Ident(ident) => path.push(ident.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == '*' => path.push("*".to_owned()),
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let mut next = 0;
                while next < inner.len() {
                    next = read_use(&inner, next, path.clone(), names);
                }
                // Behind it comes a comma, or the end.
                return at + 2;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => {}
            _ => break,
        }
        at += 1;
    }
    // `a::{self}` names `a`.
    if path.len() > 1 {
        path.pop_if(|last| last == "self");
    }
    names.extend(path.last().cloned().map(|name| (path, name)));
    at + 1
}

/// Whether `::` stands here.
fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    let is_colon = |at| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    is_colon(at) && is_colon(at + 1)
}

fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}
