//! The files of a crate form no circle of more than two: of three that need each other, none can be read or changed alone.
//!
//! ```text
//!   a.rs ──▶ b.rs ──▶ c.rs        good: c is understood without the others
//!    ▲                 │
//!    └─────────────────┘          refused
//! ```
//!
//! An arrow is the use of a name that the other file defines; a name that a module passes on (`pub use`) counts as that of the file it
//! comes from. A module and those inside of it may name each other: to see a parent's private items is what a child module is for.
//!
//! A circle is cut where one file holds two things: what the others are made of, which moves to a file of its own, and what is made
//! of the others.

mod source;

use crate::workspace::{FUZZ_WORKSPACES, Workspace, root};
use crate::{Result, shell};
use source::{Path as Name, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Workspaces of their own whose crates are checked too.
const OTHERS: [&str; 2] = ["wasi", "programs"];

/// Looks at every crate: libraries, programs and tests.
pub(crate) fn lint() -> Result {
    shell::heading("circles of files");
    let mut circles = Vec::new();
    let others = OTHERS.iter().chain(&FUZZ_WORKSPACES).map(|folder| Workspace::load_of(&root().join(folder)));
    for workspace in std::iter::once(Workspace::load()).chain(others) {
        for file in workspace?.roots() {
            let krate = Crate::read(&file, &|path: &Path| fs::read_to_string(path).ok())?;
            circles.extend(krate.circles().iter().map(|circle| krate.describe(circle)));
        }
    }
    match circles.is_empty() {
        true => Ok(()),
        false => Err(circles.join("\n")),
    }
}

/// The files of one library, program or test.
struct Crate {
    /// By the path of the module; that of the root is empty.
    modules: BTreeMap<Name, Module>,
}

struct Module {
    file: PathBuf,
    source: Source,
}

/// Files that need each other, by their modules.
type Circle<'c> = BTreeSet<&'c Name>;

impl Crate {
    /// Reads all files from the root on. `read` gives a file's text, if there is such a file.
    fn read(file: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Result<Crate> {
        let mut modules = BTreeMap::new();
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let mut waiting = vec![(Name::new(), file.to_owned(), folder)];
        while let Some((name, file, folder)) = waiting.pop() {
            let text = read(&file).ok_or_else(|| format!("cannot read {}", file.display()))?;
            let source = Source::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
            for (child, path) in &source.modules {
                let inner = folder.join(child);
                let places = match path {
                    // It is as `mod.rs`: its own modules lie beside it.
                    Some(path) => vec![file.with_file_name(path)],
                    None => vec![folder.join(format!("{child}.rs")), inner.join("mod.rs")],
                };
                let found = places.into_iter().find(|place| read(place).is_some());
                let found = found.ok_or_else(|| format!("{}: no file of `mod {child}`", file.display()))?;
                let inner = if path.is_some() { found.parent().map(Path::to_owned).unwrap_or_default() } else { inner };
                waiting.push(([&name[..], std::slice::from_ref(child)].concat(), found, inner));
            }
            modules.insert(name, Module { file, source });
        }
        Ok(Crate { modules })
    }

    /// The path from the root of what a module calls `path`; none if it is of another crate.
    fn absolute(&self, module: &Name, path: &[String]) -> Option<Name> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" | "super" => {
                let up = path.iter().filter(|segment| *segment == "super").count();
                let named = path.iter().skip_while(|segment| matches!(segment.as_str(), "self" | "super"));
                Some(module.iter().take(module.len().checked_sub(up)?).chain(named).cloned().collect())
            }
            _ => {
                let child = [&module[..], std::slice::from_ref(first)].concat();
                self.modules.contains_key(&child).then(|| [&module[..], path].concat())
            }
        }
    }

    /// The module whose file defines what a module calls `path`; none if it is of another crate, or a module as such.
    fn definer(&self, module: &Name, path: &[String]) -> Option<Name> {
        let (mut module, mut path) = (module.clone(), path.to_vec());
        // Names that are passed on in a circle are passed on for ever.
        for _ in 0..self.modules.len() {
            let name = match self.absolute(&module, &path) {
                Some(name) => name,
                // Perhaps the first segment is a name that was brought in.
                None => {
                    let imported = self.modules[&module].source.imports.get(&path[0])?;
                    let name = self.absolute(&module, imported)?;
                    [&name[..], &path[1..]].concat()
                }
            };
            let len = (0..=name.len()).rev().find(|len| self.modules.contains_key(&name[..*len]))?;
            let (found, rest) = name.split_at(len);
            let item = rest.first()?;
            module = found.to_vec();
            match self.modules[&module].source.imports.get(item) {
                Some(origin) => path = [&origin[..], &rest[1..]].concat(),
                None => return Some(module),
            }
        }
        None
    }

    /// The arrows of one file, each with a name for which it is there.
    fn arrows(&self, module: &Name) -> BTreeMap<Name, String> {
        let paths = &self.modules[module].source.paths;
        let arrows = paths.iter().filter_map(|path| Some((self.definer(module, path)?, path.join("::"))));
        arrows.filter(|(to, _)| !to.starts_with(module) && !module.starts_with(to)).collect()
    }

    /// The largest sets of more than two files in which each leads to each.
    fn circles(&self) -> BTreeSet<Circle<'_>> {
        let arrows: BTreeMap<&Name, BTreeMap<Name, String>> =
            self.modules.keys().map(|module| (module, self.arrows(module))).collect();
        let reach = |from: &Name| {
            let mut reached = BTreeSet::new();
            let mut waiting: Vec<&Name> = arrows[from].keys().collect();
            while let Some(module) = waiting.pop() {
                if reached.insert(module) {
                    waiting.extend(arrows[module].keys());
                }
            }
            reached
        };
        let reached: BTreeMap<&Name, BTreeSet<&Name>> =
            self.modules.keys().map(|module| (module, reach(module))).collect();
        let circle = |module: &Name| {
            let back = |other: &&Name| reached[*other].contains(module);
            self.modules.keys().filter(|other| reached[module].contains(other)).filter(back).collect::<Circle<'_>>()
        };
        self.modules.keys().map(circle).filter(|circle| circle.len() > 2).collect()
    }

    /// The arrows of a circle.
    fn describe(&self, circle: &Circle<'_>) -> String {
        let file = |module: &Name| {
            let file = &self.modules[module].file;
            file.strip_prefix(root()).unwrap_or(file).display().to_string()
        };
        let mut text = format!("{} files form a circle:", circle.len());
        for module in circle {
            for (to, name) in self.arrows(module).iter().filter(|(to, _)| circle.contains(to)) {
                text += &format!("\n  {} uses {name} of {}", file(module), file(to));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate whose files are these.
    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let read =
            |path: &Path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned());
        let krate = Crate::read(Path::new(files[0].0), &read).unwrap();
        krate.circles().iter().map(|circle| circle.iter().map(|module| module.join("::")).collect()).collect()
    }

    #[test]
    fn a_circle_of_three_is_found_and_one_of_two_is_not() {
        let root = ("lib.rs", "mod a; mod b; mod c; mod d;");
        let (a, c) = (("a.rs", "use crate::b::{self, B as Bee}; fn a() { b::f() }"), ("c.rs", "type C = super::a::A;"));
        let d = ("d.rs", "fn d() { format!(\"{}\", crate::a::A) }");
        assert_eq!(circles(&[root, a, ("b.rs", "use super::c::C;"), c, d]), [["a", "b", "c"]]);
        assert!(circles(&[root, a, ("b.rs", "use super::{a::A, d::D};"), c, ("d.rs", "")]).is_empty());
    }

    #[test]
    fn a_name_is_of_the_file_that_defines_it() {
        let root = ("src/lib.rs", "mod a; mod b; mod c; pub use a::A;");
        let a = ("src/a/mod.rs", "mod inner; mod types; pub(crate) use types::{A, Other as Kind}; use crate::c::C;");
        let inner = ("src/a/inner.rs", "use crate::b::B;");
        let (b, c) =
            (("src/b.rs", "use crate::A; use crate::a; fn f(_: a::Kind) {}"), ("src/c.rs", "use crate::b::B;"));
        // `a` uses `c`, `c` uses `b`, and that uses what `a` only passes on.
        let types = ("src/a/types.rs", "pub struct A; pub struct Other;");
        assert!(circles(&[root, a, inner, types, b, c]).is_empty());
        let types = ("src/a/types.rs", "use crate::c::C;");
        assert_eq!(circles(&[root, a, inner, types, b, c]), [["a::types", "b", "c"]]);
    }

    #[test]
    fn tests_comments_and_other_crates_do_not_count() {
        let root = ("main.rs", "mod a; mod b; mod c; #[cfg(test)] mod tests;");
        let (a, b) = (("a.rs", "use crate::b::B;"), ("b.rs", "use crate::c::C;"));
        for c in [
            "// use crate::a::A;\nconst TEXT: &str = \"crate::a::A\";",
            "use ::a::A; fn f() { ::a::f() }",
            "pub(in crate::a) struct C;",
            "#[cfg(test)] mod tests { use crate::a::A; }",
            "mod inner { use super::D; }",
        ] {
            assert!(circles(&[root, a, b, ("c.rs", c)]).is_empty(), "{c}");
        }
        for c in ["mod inner { use super::super::a::A; }", "fn f() { use crate::a::A; }", "type C = Vec<super::a::A>;"]
        {
            assert_eq!(circles(&[root, a, b, ("c.rs", c)]), [["a", "b", "c"]], "{c}");
        }
    }

    #[test]
    fn modules_lie_where_rust_looks_for_them() {
        let files = [
            ("tests/program.rs", "#[path = \"support/checks.rs\"] mod checks; mod own; mod other;"),
            ("tests/support/checks.rs", "mod letter;"),
            ("tests/support/letter.rs", ""),
            ("tests/own.rs", "mod inner;"),
            ("tests/own/inner.rs", ""),
            ("tests/other/mod.rs", ""),
        ];
        assert!(circles(&files).is_empty());
    }
}
