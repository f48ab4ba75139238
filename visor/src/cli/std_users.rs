//! Which dependency brings the real std into a function, why, and what to write into Cargo.toml.
//!
//! Whether a crate links std is in its source, which only the compiler reads. It says that there are two of a *lang item* (E0152), that which
//! says what happens at a panic: a [`Clash`]. Usually some crate's feature `std` is on because somewhere above it default features were not
//! switched off. Cargo's resolved graph has the chain of requests:
//!
//! ```text
//!   hello ── default features ──▶ serde_yaml: `default` ── `std` ──▶ indexmap/std ──▶ std
//! ```
//!
//! [`explain`] follows it from the crate that the compiler named up to the function, whose manifest can be changed. Its words stand in the place of
//! the compiler's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;

/// Rust's std, and the feature by which most crates switch to it.
const STD: &str = "std";
/// The lang item that std has, and each crate that is made into an image without it.
const PANIC_HANDLER: &str = "`panic_impl`";

/// What `cargo metadata` says about a crate and all it depends on.
#[derive(Deserialize)]
pub(super) struct Graph {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
    root: Option<String>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    features: Vec<String>,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    features: BTreeMap<String, Vec<String>>,
    dependencies: Vec<Dependency>,
    #[serde(default)]
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    rename: Option<String>,
    req: String,
    kind: Option<String>,
    features: Vec<String>,
    uses_default_features: bool,
}

impl Dependency {
    /// What features of the crate that has it call it.
    fn key(&self) -> &str {
        self.rename.as_deref().unwrap_or(&self.name)
    }
}

impl Package {
    /// Whether code calls it this.
    fn is_called(&self, name: &str) -> bool {
        self.name.replace('-', "_") == name
            || self.library().is_some_and(|library| library.name.replace('-', "_") == name)
    }

    fn library(&self) -> Option<&Target> {
        self.targets.iter().find(|target| target.kind.iter().any(|kind| kind.ends_with("lib")))
    }

    /// The feature by which it switches to std, as the root of its library says.
    fn switch(&self) -> String {
        let root = self.library().and_then(|library| fs::read_to_string(&library.src_path).ok());
        let named = root.as_deref().and_then(switch_in).filter(|name| self.features.contains_key(*name));
        named.unwrap_or(STD).to_owned()
    }

    /// All features that one of them switches on in the same crate, itself included.
    fn closure<'p>(&'p self, feature: &'p str) -> BTreeSet<&'p str> {
        let mut found = BTreeSet::from([feature]);
        let mut open = vec![feature];
        while let Some(next) = open.pop() {
            for entry in self.features.get(next).into_iter().flatten() {
                if !entry.contains('/') && !entry.starts_with("dep:") && found.insert(entry) {
                    open.push(entry);
                }
            }
        }
        found
    }
}

/// Why a feature of a crate is on.
#[derive(Clone, Copy)]
enum Cause<'g> {
    /// The dependency asks for it, itself or by the default features.
    Dependency(&'g Dependency),
    /// A feature of the dependent crate does, which is on in turn.
    Feature(&'g str),
}

/// Something that is on, and what is next on the way to the function.
struct Link<'g> {
    package: &'g Package,
    feature: &'g str,
    by: &'g Package,
    cause: Cause<'g>,
}

/// The feature in the attribute that says when a library is `no_std`: `#![cfg_attr(not(feature = "std"), no_std)]`.
fn switch_in(root: &str) -> Option<&str> {
    let attribute =
        root.lines().find(|line| line.trim_start().starts_with("#![cfg_attr(") && line.contains("no_std"))?;
    let (_, name) = attribute.split_once("feature = \"")?;
    name.split_once('"').map(|(name, _)| name)
}

/// Two crates that each say what happens at a panic, of which an image has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Clash {
    /// The crate that is known to say so: mostly std.
    first: String,
    /// The crate that links this one.
    by: Option<String>,
    /// The other that says so; None for the crate that was compiled.
    second: Option<String>,
}

impl Clash {
    /// Of what the compiler says about a lang item that is defined twice, and of its notes.
    pub(super) fn of<'m>(message: &str, mut notes: impl Iterator<Item = &'m str>) -> Option<Clash> {
        if !message.contains(PANIC_HANDLER) {
            return None;
        }
        let (first, by) = notes.find_map(|note| named_after(note, "first defined in crate `"))?;
        let second = named_after(message, "lang item in crate `").map(|(name, _)| name.to_owned());
        Some(Clash { first: first.to_owned(), by: by.map(str::to_owned), second })
    }
}

/// The crate that a message names after these words, and the one that is said to depend on it.
fn named_after<'m>(message: &'m str, words: &str) -> Option<(&'m str, Option<&'m str>)> {
    let (_, rest) = message.split_once(words)?;
    let (name, rest) = rest.split_once('`')?;
    let by = rest.strip_prefix(" (which `").and_then(|rest| rest.split_once("` depends on)"));
    Some((name, by.map(|(by, _)| by)))
}

/// What to do about two crates that cannot be in one image. `compiled` is the package for which the compiler has found them, and what code
/// calls it.
pub(super) fn explain(graph: &Graph, clash: &Clash, compiled: (&str, &str)) -> String {
    let (id, compiled) = compiled;
    let std = if graph.uses("monohull-std") { "monohull-std" } else { "Rust's own std" };
    let package = |name: &str| graph.called(name);
    if clash.first != STD || clash.second.is_some() {
        let name = clash.second.as_deref().filter(|_| clash.first == STD).unwrap_or(&clash.first);
        let mut text = format!("the crate `{name}` has a panic handler of its own, and so has {std}: an image has one");
        text += &graph.way_to(package(name));
        return text + "\n  To do: do without the crate, or without its feature for that";
    }
    match clash.by.as_deref().filter(|by| *by != compiled) {
        Some(by) if graph.uses("monohull-std") => graph.explain_std(
            format!("the crate `{by}` brings the real std along; a function has monohull-std in its place"),
            package(by),
        ),
        Some(by) => graph.explain_std(
            format!("the crate `{by}` brings Rust's own std along, and `{compiled}` is `#![no_std]` and has a panic handler of its own"),
            package(by),
        ),
        None if graph.uses("monohull-std") => {
            let way = graph.way_to(graph.package(id).filter(|package| graph.root().is_some_and(|root| root.id != package.id)));
            format!(
                "the crate `{compiled}` uses Rust's own std beside monohull-std, which a function has in its place{way}\n  To do: \
                 `#![no_std]` as the first line of its root, and no `extern crate std`. Or, in its Cargo.toml, give monohull-std the name of std:\n    \
                 std = {{ package = \"monohull-std\", version = \"{}\" }}",
                env!("CARGO_PKG_VERSION")
            )
        }
        None => format!(
            "the crate `{compiled}` has a panic handler of its own (`#[panic_handler]`), and uses Rust's own std, which has one: an image \
             has one\n  To do: leave out the panic handler, or std"
        ),
    }
}

/// A line for the manifest: the dependency without a feature, and with all else that it had.
fn without(package: &Package, feature: &str, dependency: &Dependency) -> String {
    let keeps = |name: &&str| !package.closure(name).contains(feature);
    let asked = dependency.features.iter().map(String::as_str);
    let default = package.features.get("default").into_iter().flatten().map(String::as_str);
    let default =
        default.filter(|entry| dependency.uses_default_features && !entry.contains('/') && !entry.starts_with("dep:"));
    let kept: BTreeSet<&str> = asked.chain(default).filter(keeps).collect();
    let mut line = format!("{} = {{ ", dependency.key());
    if dependency.rename.is_some() {
        let _ = write!(line, "package = {:?}, ", dependency.name);
    }
    let _ = write!(line, "version = {:?}, default-features = false", dependency.req.trim_start_matches('^'));
    if !kept.is_empty() {
        let _ = write!(line, ", features = {kept:?}");
    }
    // A set is written with braces.
    line.replace("features = {", "features = [").replace('}', "]") + " }"
}

impl Graph {
    /// Whether the function's crate depends on a crate of this name, itself or through others.
    pub(super) fn uses(&self, name: &str) -> bool {
        let Some(root) = self.root() else { return false };
        let wanted = self.packages.iter().filter(|package| package.name == name);
        wanted.into_iter().any(|package| self.way(root, package).first().is_some_and(|first| first.id == root.id))
    }

    /// The package that code calls this: of several, the one that the function links by its switch to std.
    fn called(&self, name: &str) -> Option<&Package> {
        let is_switched = |package: &&Package| self.is_on(package, &package.switch());
        let mut called = self.packages.iter().filter(|package| package.is_called(name));
        called.clone().find(is_switched).or_else(|| called.next())
    }

    fn is_on(&self, package: &Package, feature: &str) -> bool {
        self.node(package).is_some_and(|node| node.features.iter().any(|on| on == feature))
    }

    /// By which crates the function comes to one, as a line.
    fn way_to(&self, package: Option<&Package>) -> String {
        let (Some(package), Some(root)) = (package, self.root()) else { return String::new() };
        let way: Vec<&str> = self.way(root, package).iter().map(|package| package.name.as_str()).collect();
        format!("\n  it is used by the way of {}", way.join(" → "))
    }

    /// Adds to a text why this crate brings std along, and what to do.
    fn explain_std(&self, mut text: String, package: Option<&Package>) -> String {
        let (Some(package), Some(root)) = (package, self.root()) else { return text };
        let (name, switch) = (format!("{} {}", package.name, package.version), package.switch());
        // Writing to a string does not fail.
        let chain = match self.is_on(package, &switch) {
            false => None,
            true => {
                let _ = write!(text, "\n  {name} is compiled with its feature `{switch}`");
                self.chain(package, &switch, root)
            }
        };
        let Some(chain) = chain else {
            text += &self.way_to(Some(package));
            let _ = write!(
                text,
                "\n  To do: {name} has no switch for it here. Use another crate, or a copy of it that is changed in one line (see \
                 \"Published crates\" in docs/std.md), or let the function be over Rust's own std, as `monohull new` without `--small` makes it"
            );
            return text;
        };
        for link in &chain {
            let by = &link.by.name;
            let _ = match link.cause {
                Cause::Feature(feature) => {
                    write!(
                        text,
                        "\n    because the feature `{feature}` of {by} asks for `{}/{}`",
                        link.package.name, link.feature
                    )
                }
                Cause::Dependency(dependency) if dependency.features.iter().any(|asked| asked == link.feature) => {
                    write!(text, "\n    because {by} asks for its feature `{}`", link.feature)
                }
                Cause::Dependency(_) => {
                    write!(text, "\n    because {by} takes the default features of {}", link.package.name)
                }
            };
        }
        match chain.last() {
            Some(Link { package, feature, by, cause: Cause::Dependency(dependency) }) if by.id == root.id => {
                let _ = write!(text, "\n  To do, in Cargo.toml:\n    {}", without(package, feature, dependency));
            }
            Some(Link { package, by, .. }) => {
                let _ = write!(
                    text,
                    "\n  To do: {} {} always asks {} for that. Use another crate, or another version of it, or let the function be over Rust's \
                     own std, as `monohull new` without `--small` makes it",
                    by.name, by.version, package.name
                );
            }
            None => {}
        }
        text
    }

    fn root(&self) -> Option<&Package> {
        self.package(self.resolve.root.as_deref()?)
    }

    fn package(&self, id: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.id == id)
    }

    fn node(&self, package: &Package) -> Option<&Node> {
        self.resolve.nodes.iter().find(|node| node.id == package.id)
    }

    /// The crates that a function would link if it linked this one: those that build scripts use are not among them.
    fn dependents(&self, of: &Package) -> impl Iterator<Item = (&Package, &Node)> {
        let of = of.id.clone();
        self.resolve.nodes.iter().filter_map(move |node| {
            let links = |edge: &Edge| edge.pkg == of && edge.dep_kinds.iter().any(|kind| kind.kind.is_none());
            node.deps.iter().any(links).then(|| Some((self.package(&node.id)?, node))).flatten()
        })
    }

    /// The shortest chain of requests that ends at the root, or else one that ends where no feature could be switched off.
    fn chain<'g>(&'g self, package: &'g Package, switch: &'g str, root: &Package) -> Option<Vec<Link<'g>>> {
        let mut seen = BTreeSet::from([(package.id.as_str(), switch)]);
        let mut links: Vec<(Link<'g>, Option<usize>)> = Vec::new();
        let mut open: VecDeque<(&'g Package, &'g str, Option<usize>)> = VecDeque::from([(package, switch, None)]);
        let mut fixed = None;
        while let Some((package, feature, from)) = open.pop_front() {
            for (by, node) in self.dependents(package) {
                for cause in causes(package, feature, by, node) {
                    let link = Link { package, feature, by, cause };
                    links.push((link, from));
                    let this = links.len() - 1;
                    match cause {
                        Cause::Dependency(_) if by.id == root.id => return Some(unwind(links, this)),
                        Cause::Dependency(_) => fixed = fixed.or(Some(this)),
                        Cause::Feature(next) => {
                            if seen.insert((&by.id, next)) {
                                open.push_back((by, next, Some(this)));
                            }
                        }
                    }
                }
            }
        }
        fixed.map(|last| unwind(links, last))
    }

    /// The shortest way from one crate to another.
    fn way<'g>(&'g self, from: &'g Package, to: &'g Package) -> Vec<&'g Package> {
        let mut ways: VecDeque<Vec<&'g Package>> = VecDeque::from([vec![to]]);
        let mut seen = BTreeSet::from([to.id.as_str()]);
        while let Some(way) = ways.pop_front() {
            if way[0].id == from.id {
                return way;
            }
            for (by, _) in self.dependents(way[0]) {
                if seen.insert(&by.id) {
                    ways.push_back([&[by], &way[..]].concat());
                }
            }
        }
        vec![to]
    }
}

/// Why `feature` of `package` is on, as far as `by` has to do with it.
fn causes<'g>(package: &'g Package, feature: &str, by: &'g Package, node: &'g Node) -> Vec<Cause<'g>> {
    let mut causes = Vec::new();
    let declared =
        by.dependencies.iter().filter(|dependency| dependency.kind.is_none() && dependency.name == package.name);
    for dependency in declared {
        let default = dependency.uses_default_features.then_some("default");
        let asked = dependency.features.iter().map(String::as_str).chain(default);
        if asked.into_iter().any(|asked| package.closure(asked).contains(feature)) {
            causes.push(Cause::Dependency(dependency));
        }
        for enabled in &node.features {
            let asks = |entry: &String| {
                let asked = entry.split_once('/').filter(|(name, _)| name.trim_end_matches('?') == dependency.key());
                asked.is_some_and(|(_, asked)| package.closure(asked).contains(feature))
            };
            if by.features.get(enabled).is_some_and(|entries| entries.iter().any(asks)) {
                causes.push(Cause::Feature(enabled));
            }
        }
    }
    causes
}

fn unwind(links: Vec<(Link<'_>, Option<usize>)>, last: usize) -> Vec<Link<'_>> {
    let mut order = vec![last];
    while let Some(from) = links[order[order.len() - 1]].1 {
        order.push(from);
    }
    let mut links: Vec<Option<Link<'_>>> = links.into_iter().map(|(link, _)| Some(link)).collect();
    order.into_iter().rev().filter_map(|index| links[index].take()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn package(name: &str, features: Value, dependencies: Value) -> Value {
        json!({ "id": name, "name": name, "version": "1.2.3", "features": features, "dependencies": dependencies })
    }

    fn dependency(name: &str, default: bool, features: &[&str]) -> Value {
        json!({
            "name": name, "rename": null, "req": "^1.2", "kind": null, "features": features, "uses_default_features": default
        })
    }

    fn node(id: &str, features: &[&str], deps: &[&str]) -> Value {
        let deps: Vec<Value> = deps.iter().map(|dep| json!({ "pkg": dep, "dep_kinds": [{ "kind": null }] })).collect();
        json!({ "id": id, "features": features, "deps": deps })
    }

    fn graph(packages: &[Value], nodes: &[Value]) -> Graph {
        let document = json!({ "packages": packages, "resolve": { "nodes": nodes, "root": "hello" } });
        serde_json::from_value(document).expect("a graph")
    }

    /// That a crate brings std along, as the compiler has found it for the function.
    fn explain(graph: &Graph, by: &str) -> String {
        let clash = Clash { first: "std".to_owned(), by: Some(by.to_owned()), second: None };
        super::explain(graph, &clash, ("hello", "hello"))
    }

    #[test]
    fn the_compilers_messages_name_the_crates() {
        let clash = |first: &str, by: Option<&str>, second: Option<&str>| {
            Some(Clash { first: first.to_owned(), by: by.map(str::to_owned), second: second.map(str::to_owned) })
        };
        let of = |message: &str, note: &str| {
            Clash::of(message, ["second definition in `x` loaded from /x", note].into_iter())
        };
        const LOCAL: &str = "found duplicate lang item `panic_impl`";
        let note = "the lang item is first defined in crate `std` (which `some_crate` depends on)";
        assert_eq!(of(LOCAL, note), clash("std", Some("some_crate"), None));
        assert_eq!(of(LOCAL, "the lang item is first defined in crate `halts`"), clash("halts", None, None));
        let other = "duplicate lang item in crate `halts` (which `g` depends on): `panic_impl`";
        assert_eq!(of(other, note), clash("std", Some("some_crate"), Some("halts")));
        assert_eq!(of("found duplicate lang item `sized`", note), None);
        assert_eq!(of(LOCAL, "another note"), None);
    }

    #[test]
    fn a_root_names_its_switch() {
        assert_eq!(switch_in("//! A crate.\n#![cfg_attr(not(feature = \"use_std\"), no_std)]\n"), Some("use_std"));
        assert_eq!(switch_in("#![cfg_attr(not(any(test, feature = \"full\")), no_std)]"), Some("full"));
        assert_eq!(switch_in("#![cfg_attr(feature = \"nightly\", feature(test))]\n#![no_std]"), None);
        assert_eq!(switch_in(""), None);
    }

    /// What is said where no feature of a dependency is the cause.
    #[test]
    fn the_crate_itself_and_panic_handlers_of_others() {
        let packages = ["hello", "monohull-std", "halts"].map(|name| package(name, json!({}), json!([])));
        let nodes = |deps: &[&str]| [node("hello", &[], deps), node("monohull-std", &[], &[]), node("halts", &[], &[])];
        let (small, bare) =
            (graph(&packages, &nodes(&["monohull-std", "halts"])), graph(&packages, &nodes(&["halts"])));
        let said = |graph: &Graph, first: &str, by: &str, second: Option<&str>| {
            let clash = Clash { first: first.to_owned(), by: Some(by.to_owned()), second: second.map(str::to_owned) };
            super::explain(graph, &clash, ("hello", "hello"))
        };
        let text = said(&small, "std", "hello", None);
        assert!(text.contains("the crate `hello` uses Rust's own std beside monohull-std"), "{text}");
        assert!(text.contains("`#![no_std]` as the first line") && text.contains("\n    std = { package = "), "{text}");
        let text = said(&bare, "std", "hello", None);
        assert!(text.contains("the crate `hello` has a panic handler of its own") && text.contains("or std"), "{text}");
        for (graph, first, second, std) in
            [(&small, "halts", None, "monohull-std"), (&bare, "std", Some("halts"), "Rust's own std")]
        {
            let text = said(graph, first, "hello", second);
            assert!(
                text.starts_with(&format!("the crate `halts` has a panic handler of its own, and so has {std}")),
                "{text}"
            );
            assert!(text.contains("by the way of hello → halts\n  To do: do without the crate"), "{text}");
        }
    }

    #[test]
    fn a_dependency_with_default_features() {
        let features = json!({ "default": ["std", "fast"], "std": ["alloc"], "alloc": [], "fast": [] });
        let packages = [
            package("hello", json!({}), json!([dependency("some-crate", true, &["more"])])),
            package("some-crate", features, json!([])),
            package("monohull-std", json!({}), json!([])),
        ];
        let nodes = [
            node("hello", &[], &["some-crate", "monohull-std"]),
            node("some-crate", &["default", "std", "fast"], &[]),
            node("monohull-std", &[], &[]),
        ];
        assert_eq!(
            explain(&graph(&packages, &nodes), "some_crate"),
            "the crate `some_crate` brings the real std along; a function has monohull-std in its place
  some-crate 1.2.3 is compiled with its feature `std`
    because hello takes the default features of some-crate
  To do, in Cargo.toml:
    some-crate = { version = \"1.2\", default-features = false, features = [\"fast\", \"more\"] }"
        );
    }

    #[test]
    fn a_feature_of_a_crate_between() {
        let packages = [
            package("hello", json!({}), json!([dependency("between", true, &[])])),
            package(
                "between",
                json!({ "default": ["std"], "std": ["deep?/std"] }),
                json!([dependency("deep", false, &[])]),
            ),
            package("deep", json!({ "std": [] }), json!([])),
        ];
        let nodes = [
            node("hello", &[], &["between"]),
            node("between", &["default", "std"], &["deep"]),
            node("deep", &["std"], &[]),
        ];
        let text = explain(&graph(&packages, &nodes), "deep");
        assert!(text.contains("because the feature `std` of between asks for `deep/std`\n"), "{text}");
        assert!(text.contains("because hello takes the default features of between\n"), "{text}");
        assert!(text.ends_with("\n    between = { version = \"1.2\", default-features = false }"), "{text}");
    }

    #[test]
    fn what_the_function_cannot_switch_off_is_reported() {
        let packages = [
            package("hello", json!({}), json!([dependency("between", false, &[])])),
            package(
                "between",
                json!({}),
                json!([dependency("deep", false, &["std"]), dependency("always", true, &[])]),
            ),
            package("deep", json!({ "std": [] }), json!([])),
            package("always", json!({}), json!([])),
        ];
        let nodes = [
            node("hello", &[], &["between"]),
            node("between", &[], &["deep", "always"]),
            node("deep", &["std"], &[]),
            node("always", &[], &[]),
        ];
        let graph = graph(&packages, &nodes);
        let text = explain(&graph, "deep");
        assert!(text.contains("To do: between 1.2.3 always asks deep for that."), "{text}");
        let text = explain(&graph, "always");
        assert!(text.contains("hello → between → always\n  To do: always 1.2.3 has no switch for it here."), "{text}");
    }
}
