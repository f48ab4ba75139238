//! Which dependency brings the real std into a function, why, and what to write into Cargo.toml.
//!
//! The compiler only says that there are two of a *lang item* (E0152) and names the crate that linked std. Usually some crate's feature
//! `std` is on because somewhere above it default features were not switched off. Cargo's resolved graph has the chain of requests:
//!
//! ```text
//!   hello ── default features ──▶ serde_yaml: `default` ── `std` ──▶ indexmap/std ──▶ std
//! ```
//!
//! [`explain`] follows it from the crate that the compiler named up to the function, whose manifest can be changed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

use serde::Deserialize;

/// The feature by which crates switch to std.
const STD: &str = "std";

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

/// The name of the crate that brings std, in what the compiler says about a lang item that is defined twice.
pub(super) fn named_by(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("first defined in crate `std` (which `")?;
    rest.split_once("` depends on)").map(|(name, _)| name)
}

/// What to do about a crate (by the name in code) that brings the real std along.
pub(super) fn explain(graph: &Graph, crate_name: &str) -> String {
    let mut text =
        format!("the crate `{crate_name}` brings the real std along; a function has monohull-std in its place");
    let found = graph.packages.iter().find(|package| package.name.replace('-', "_") == crate_name);
    let (Some(package), Some(root)) = (found, graph.root()) else { return text };
    let name = format!("{} {}", package.name, package.version);
    // Writing to a string does not fail.
    let chain = match graph.node(package).filter(|node| node.features.iter().any(|feature| feature == STD)) {
        None => None,
        Some(_) => {
            let _ = write!(text, "\n  {name} is compiled with its feature `{STD}`");
            graph.chain(package, root)
        }
    };
    let Some(chain) = chain else {
        let way: Vec<&str> = graph.way(root, package).iter().map(|package| package.name.as_str()).collect();
        let _ = write!(
            text,
            "\n  it is used by the way of {}\n  To do: {name} has no switch for it here. Use another crate, or a copy of it that is \
             changed in one line (see \"Published crates\" in docs/std.md)",
            way.join(" → ")
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
                "\n  To do: {} {} always asks {} for that. Use another crate, or another version of it",
                by.name, by.version, package.name
            );
        }
        None => {}
    }
    text
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
    fn chain<'g>(&'g self, package: &'g Package, root: &Package) -> Option<Vec<Link<'g>>> {
        let mut seen = BTreeSet::from([(package.id.as_str(), STD)]);
        let mut links: Vec<(Link<'g>, Option<usize>)> = Vec::new();
        let mut open: VecDeque<(&'g Package, &'g str, Option<usize>)> = VecDeque::from([(package, STD, None)]);
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

    #[test]
    fn the_compilers_note_names_the_crate() {
        let note = "the lang item is first defined in crate `std` (which `some_crate` depends on)";
        assert_eq!(named_by(note), Some("some_crate"));
        assert_eq!(named_by("found duplicate lang item `panic_impl`"), None);
    }

    #[test]
    fn a_dependency_with_default_features() {
        let features = json!({ "default": ["std", "fast"], "std": ["alloc"], "alloc": [], "fast": [] });
        let packages = [
            package("hello", json!({}), json!([dependency("some-crate", true, &["more"])])),
            package("some-crate", features, json!([])),
        ];
        let nodes = [node("hello", &[], &["some-crate"]), node("some-crate", &["default", "std", "fast"], &[])];
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
