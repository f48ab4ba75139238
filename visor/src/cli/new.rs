//! `monohull new` and `monohull init`: a function crate that builds and runs as it is, here and on other machines.
//!
//! Usually it is a program over Rust's std, as `cargo new` makes one, with a workflow that runs it. With `--small` it is a library on
//! monohull-std. What is in that crate names no path of this machine. It asks for `monohull-std` by version, as for any published crate. Where
//! that version comes from on this machine is said in `.cargo/config.toml`, which git ignores:
//!
//! ```text
//!   Cargo.toml           std = { package = "monohull-std", version = "…" }      in the repository
//!   .cargo/config.toml   [patch.crates-io] monohull-std = { path = "…" }        this machine's own
//! ```
//!
//! In a clone of such a crate `monohull init` writes the second file, and leaves what is there as it is. It does so for the crate
//! `monohull`, too, once a manifest asks for that. A patch that nothing asks for is a warning of cargo, so a new program has none.
//!
//! Functions in other languages (`--lang`) have fewer files: `languages`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use clap::Args;

use super::exit::Exit;
use super::languages::{Lang, RUST, Template, manifest};
use super::prerequisites;
use monohull_report::escape::shown;
use monohull_report::text::quoted;
use monohull_workflow::document::{Document, Function, Instances, Limits, Step};
use monohull_workflow::plan::{Checks, Separation, Target, TemplatePoint, TimeStampCounter};
use monohull_workflow::shape;

/// Create a function crate with a workflow that runs it
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!(
    "monohull new hello && cd hello && monohull build && monohull run workflow.json",
    "monohull new --small hello",
    "monohull new --lang js hello && monohull run hello/workflow.json",
    "monohull new --lang python --wasi hello"
))]
pub(super) struct New {
    /// The function's name, which is a crate's, and the folder to create
    name: String,
    /// The language it is written in
    #[arg(long, value_enum, default_value_t, conflicts_with_all = ["small", "std_path"])]
    lang: Lang,
    /// A WebAssembly program, for code that is not trusted, instead of native code
    #[arg(long, conflicts_with_all = ["small", "std_path"])]
    wasi: bool,
    #[command(flatten)]
    base: Base,
}

/// Make the current folder a function: write the files of `monohull new` that are not there
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!(
    "monohull init && monohull build && monohull run workflow.json",
    "monohull init --lang js && monohull run workflow.json"
))]
pub(super) struct Init {
    /// The function's name, which is a crate's [default: the folder's]
    #[arg(long)]
    name: Option<String>,
    /// The language it is written in [default: that of the folder's Cargo.toml, go.mod, main.c, app.js or app.py, else rust]
    #[arg(long, value_enum, conflicts_with_all = ["small", "std_path"])]
    lang: Option<Lang>,
    /// A WebAssembly program, for code that is not trusted, instead of native code
    #[arg(long, conflicts_with_all = ["small", "std_path"])]
    wasi: bool,
    #[command(flatten)]
    base: Base,
}

/// What the crate is written for.
#[derive(Debug, Args)]
struct Base {
    /// A library on monohull-std, whose image is a fifth of the size, instead of a program over Rust's std
    #[arg(long)]
    small: bool,
    /// The folder of the crate `monohull-std`, for this machine alone [default: the one this program was built with]
    #[arg(long, value_name = "PATH")]
    std_path: Option<PathBuf>,
}

/// Why a function crate cannot be created.
#[derive(Debug, thiserror::Error)]
enum NewError {
    /// the name cannot be a crate's; the invocation is at fault
    #[error(
        "{0} is no name for a function: expected 1 to 63 letters, digits, `-` and `_`, a letter first, no keyword, and not `std`, \
             `core`, `build` or another name that cargo or Monohull needs"
    )]
    BadName(String),
    /// there is something of that name; the invocation is at fault
    #[error("{} exists already; `monohull init{options}` in it writes what is missing", shown(path))]
    Exists { path: PathBuf, options: String },
    /// the shim is not there; the invocation is at fault
    #[error("{} is not the crate `monohull-std`; --std-path PATH names its folder", shown(.0))]
    NoShim(PathBuf),
    /// a file cannot be written; the host is at fault
    #[error("{}: {source}", shown(path))]
    File { path: PathBuf, source: io::Error },
}

impl NewError {
    fn fail(&self) -> Exit {
        let exit = if matches!(self, NewError::File { .. }) { Exit::Host } else { Exit::Usage };
        super::fail(exit, self)
    }
}

impl New {
    pub(super) fn run(&self) -> Exit {
        match self.create() {
            Ok(()) => {
                let name = &self.name;
                let build = match self.lang.template(name, self.wasi) {
                    None => "monohull build && ".to_owned(),
                    Some(template) => template.build.map(|build| format!("{build} && ")).unwrap_or_default(),
                };
                super::output::text(format_args!(
                    "Created {name}. Next:\n  cd {name} && {build}monohull run workflow.json\n"
                ));
                for line in prerequisites::missing(self.lang, self.wasi) {
                    super::output::note(format_args!("monohull: {line}"));
                }
                Exit::Done
            }
            Err(error) => error.fail(),
        }
    }

    fn create(&self) -> Result<(), NewError> {
        let folder = Path::new(&self.name);
        let project = Project::new(&self.name, folder, &self.base)?;
        fs::create_dir(folder).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => NewError::Exists { path: folder.to_owned(), options: self.options() },
            _ => NewError::File { path: folder.to_owned(), source },
        })?;
        match self.lang.template(&self.name, self.wasi) {
            Some(template) => write_template(folder, &self.name, &template).map(drop),
            None => project.write().map(drop),
        }
    }

    /// What `monohull init` needs to write the same files.
    fn options(&self) -> String {
        let lang = (self.lang != Lang::default()).then(|| format!(" --lang {}", self.lang.name()));
        [
            lang.unwrap_or_default().as_str(),
            if self.wasi { " --wasi" } else { "" },
            if self.base.small { " --small" } else { "" },
        ]
        .concat()
    }
}

impl Init {
    pub(super) fn run(&self) -> Exit {
        match self.create() {
            Ok(written) if written.is_empty() => {
                super::output::text("Nothing is missing here.\n");
                Exit::Done
            }
            Ok(written) => {
                let build = match self.lang().template("", self.wasi) {
                    None => "monohull build && ".to_owned(),
                    Some(template) => template.build.map(|build| format!("{build} && ")).unwrap_or_default(),
                };
                super::output::text(format_args!(
                    "Wrote {}. Next:\n  {build}monohull run workflow.json\n",
                    written.join(", ")
                ));
                Exit::Done
            }
            Err(error) => error.fail(),
        }
    }

    fn create(&self) -> Result<Vec<&'static str>, NewError> {
        let here = env::current_dir().map_err(|source| NewError::File { path: ".".into(), source })?;
        let name = self.name.clone().or_else(|| Some(here.file_name()?.to_string_lossy().into_owned()));
        let name = name.unwrap_or_default();
        match self.lang().template(&name, self.wasi) {
            Some(_) if !is_crate_name(&name) => Err(NewError::BadName(quoted(&name))),
            Some(template) => write_template(Path::new(""), &name, &template),
            None => Project::new(&name, Path::new(""), &self.base)?.write(),
        }
    }

    /// The language that is asked for, or that of what is there.
    fn lang(&self) -> Lang {
        let is_crate = self.base.small || self.base.std_path.is_some();
        let found = || Lang::of_folder(Path::new("")).filter(|_| !is_crate);
        self.lang.or_else(found).unwrap_or_default()
    }
}

/// Writes the files of a program that is no crate of native code, those that are not there; which these were.
fn write_template(folder: &Path, name: &str, template: &Template) -> Result<Vec<&'static str>, NewError> {
    let workflow = workflow(name, &template.image, template.target);
    let mut written = Vec::new();
    for (file, text) in template.files.iter().map(|(file, text)| (*file, text)).chain([("workflow.json", &workflow)]) {
        if write_new(&folder.join(file), text)? {
            written.push(file);
        }
    }
    Ok(written)
}

/// A crate to be.
struct Project {
    name: String,
    folder: PathBuf,
    /// It is on `monohull-std`.
    small: bool,
    /// What it asks for that is published nowhere yet, and where that lies on this machine, as far as it is here.
    ours: Vec<(&'static str, PathBuf)>,
    /// The folder of the crate `monohull-std`, if it is on that.
    shim: Option<PathBuf>,
}

impl Project {
    fn new(name: &str, folder: &Path, base: &Base) -> Result<Project, NewError> {
        if !is_crate_name(name) {
            return Err(NewError::BadName(quoted(name)));
        }
        // In a clone the manifest says it.
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        let has_slots = asks_for_monohull(&manifest);
        let small = base.small || manifest.contains("monohull-std") || base.std_path.is_some() && !has_slots;
        let found = if small || has_slots { base.find_shim()? } else { None };
        let mut ours = Vec::new();
        ours.extend(found.iter().filter(|_| small).map(|shim| ("monohull-std", shim.clone())));
        // It lies beside the other.
        let function = found.as_ref().map(|shim| shim.with_file_name("function"));
        ours.extend(function.filter(|path| has_slots && path.is_dir()).map(|path| ("monohull", path)));
        let shim = found.filter(|_| small);
        Ok(Project { name: name.to_owned(), folder: folder.to_owned(), small, ours, shim })
    }

    /// Writes the files that are not there; which these were.
    fn write(&self) -> Result<Vec<&'static str>, NewError> {
        let mut written = Vec::new();
        let is_new = !self.folder.join("Cargo.toml").exists();
        let mut put = |file: &'static str, text: &str| {
            let path = self.folder.join(file);
            let parent = Path::new(file).parent().filter(|parent| !parent.as_os_str().is_empty());
            if parent.is_some_and(|parent| self.folder.join(parent).is_symlink()) {
                let source = io::Error::other("its folder is a link: nothing is written through it");
                return Err(NewError::File { path, source });
            }
            let done = write_new(&path, text)?;
            written.extend(done.then_some(file));
            Ok(done)
        };
        let std = format!("std = {{ package = \"monohull-std\", version = \"{}\" }}\n", env!("CARGO_PKG_VERSION"));
        put("Cargo.toml", &manifest(&self.name, if self.small { &std } else { "" }))?;
        match self.small {
            true => put("src/lib.rs", SMALL_PROGRAM)?,
            false => put("src/main.rs", RUST)?,
        };
        let image = format!("target/images/{}.so", self.name);
        put("workflow.json", &workflow(&self.name, &image, Target::Native))?;
        put(".gitignore", "/target\n")?;
        if !self.ours.is_empty() {
            match put(LOCAL, &local(&self.ours))? {
                // It hides itself, too: nothing in the folder is for other machines.
                true => drop(put(".cargo/.gitignore", "*\n")?),
                false => self.note_what_is_not_patched(),
            }
        }
        if is_new
            && let Some(shim) = &self.shim
            && let Some(lock) = lock(shim)?
        {
            put("Cargo.lock", &lock)?;
        }
        Ok(written)
    }

    /// The file that says where crates come from is there already. It may be the user's own, so what it lacks is only said.
    fn note_what_is_not_patched(&self) {
        let has = fs::read_to_string(self.folder.join(LOCAL)).unwrap_or_default();
        let is_said = |name: &str| has.lines().any(|line| is_key(line, name));
        let lacking: Vec<_> = self.ours.iter().filter(|(name, _)| !is_said(name)).map(patch).collect();
        if !lacking.is_empty() {
            let file = self.folder.join(LOCAL);
            super::output::note(format_args!(
                "{} is there already; it needs these lines, too:\n[patch.crates-io]\n{}",
                shown(&file),
                lacking.concat()
            ));
        }
    }
}

impl Base {
    fn find_shim(&self) -> Result<Option<PathBuf>, NewError> {
        let built_with = Path::new(env!("CARGO_MANIFEST_DIR")).join("../std-shim");
        let path = self.std_path.as_ref().unwrap_or(&built_with);
        match path.canonicalize() {
            Ok(found) if found.join("Cargo.toml").is_file() => Ok(Some(found)),
            // A program that was installed may have outlived its sources.
            _ if self.std_path.is_none() => Ok(None),
            _ => Err(NewError::NoShim(path.clone())),
        }
    }
}

/// The versions that Monohull itself was built with: they are tested, and already on this machine. Cargo drops those that are
/// not needed.
fn lock(shim: &Path) -> Result<Option<String>, NewError> {
    let path = shim.join("../Cargo.lock");
    match fs::read_to_string(&path) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(NewError::File { path, source }),
    }
}

const SMALL_PROGRAM: &str = r#"#[std::main]
fn main() {
    println!("{}", greeting());
}

fn greeting() -> String {
    "Hello from Monohull!".to_owned()
}

// `cargo test` runs them on the host.
#[cfg(test)]
mod tests {
    #[test]
    fn a_greeting_ends_with_a_mark() {
        assert!(super::greeting().ends_with('!'));
    }
}
"#;

/// The file that says where crates come from on this machine.
const LOCAL: &str = ".cargo/config.toml";

fn local(ours: &[(&str, PathBuf)]) -> String {
    let names: Vec<_> = ours.iter().map(|(name, _)| format!("`{name}`")).collect();
    let (names, lie) = (names.join(" and "), if ours.len() == 1 { "lies" } else { "lie" });
    let patches: String = ours.iter().map(patch).collect();
    format!(
        r#"# For this machine alone, and ignored by git: where {names} {lie} here. `monohull init --std-path PATH` writes this file
# anew once it is removed.
[patch.crates-io]
{patches}"#
    )
}

/// The line that says where a crate lies.
fn patch((name, folder): &(&str, PathBuf)) -> String {
    // A TOML basic string is written like a JSON string.
    format!("{name} = {{ path = {} }}\n", serde_json::Value::from(folder.to_string_lossy()))
}

/// Whether a manifest asks for the crate `monohull`.
fn asks_for_monohull(manifest: &str) -> bool {
    manifest.lines().any(|line| {
        let compact: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        is_key(line, "monohull")
            || compact.ends_with("dependencies.monohull]")
            || !compact.starts_with('#') && compact.contains("package=\"monohull\"")
    })
}

/// Whether a line of TOML gives this key a value.
fn is_key(line: &str, key: &str) -> bool {
    let rest = line.trim_start().strip_prefix(key).map(str::trim_start);
    rest.is_some_and(|rest| rest.starts_with(['=', '.']))
}

fn workflow(name: &str, image: &str, target: Target) -> String {
    let step = Step {
        name: name.to_owned(),
        function: name.to_owned(),
        after: Vec::new(),
        instances: Instances::default(),
        args: serde_json::Map::new(),
        env: BTreeMap::new(),
        secrets: BTreeMap::new(),
        stdin: None,
        takes: None,
        fills: None,
        handles: None,
        performs: None,
        files: None,
        timeout: None,
        retry: None,
        memory: None,
        stack: None,
    };
    let document = Document {
        schema: None,
        name: name.to_owned(),
        description: None,
        functions: BTreeMap::from([(
            name.to_owned(),
            Function { image: image.to_owned(), target, checks: Checks::default() },
        )]),
        steps: vec![step],
        inputs: Vec::new(),
        outputs: Vec::new(),
        http: None,
        unread: None,
        files: Vec::new(),
        limits: Limits::default(),
        network: None,
        isolation: Separation::default(),
        time_stamp_counter: TimeStampCounter::default(),
        process: None,
        template: TemplatePoint::default(),
        sends_to: Vec::new(),
        starts: Vec::new(),
    };
    // A document of plain strings and numbers always has a JSON form.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

/// Writes a file unless there is one.
fn write_new(path: &Path, text: &str) -> Result<bool, NewError> {
    let write = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        // A link counts as there, wherever it leads: nothing is written through it.
        match fs::File::create_new(path) {
            Ok(mut file) => file.write_all(text.as_bytes()).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    };
    write().map_err(|source| NewError::File { path: path.to_path_buf(), source })
}

/// Whether cargo takes this as the name of a crate, and a workflow as that of a function.
fn is_crate_name(name: &str) -> bool {
    const KEYWORDS: &[&str] = &[
        "Self",
        "abstract",
        "as",
        "async",
        "await",
        "become",
        "box",
        "break",
        "const",
        "continue",
        "crate",
        "do",
        "dyn",
        "else",
        "enum",
        "extern",
        "false",
        "final",
        "fn",
        "for",
        "gen",
        "if",
        "impl",
        "in",
        "let",
        "loop",
        "macro",
        "match",
        "mod",
        "move",
        "mut",
        "override",
        "priv",
        "pub",
        "ref",
        "return",
        "self",
        "static",
        "struct",
        "super",
        "test",
        "trait",
        "true",
        "try",
        "type",
        "typeof",
        "unsafe",
        "unsized",
        "use",
        "virtual",
        "where",
        "while",
        "yield",
        "core",
        "std",
        "alloc",
        "proc_macro",
        "proc-macro",
        "build",
        "deps",
        "examples",
        "incremental",
        "monohull",
        "monohull-std",
        "monohull_std",
        "nul",
        "con",
        "prn",
        "aux",
    ];
    shape::is_name(name) && name.starts_with(|c: char| c.is_ascii_alphabetic()) && !KEYWORDS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_workflow as workflow;

    #[test]
    fn the_workflow_written_is_valid() {
        let plan = workflow::load_str(
            Path::new("hello/workflow.json"),
            &workflow("hello", "target/images/hello.so", Target::Native),
        )
        .expect("valid");
        assert_eq!(plan.steps.len(), 1);
        assert_eq!(plan.functions[0].image, Path::new("hello/target/images/hello.so"));
    }

    #[test]
    fn a_manifest_asks_for_the_crate_in_several_ways() {
        for line in
            ["monohull = \"0.1\"", "monohull={ path = \"a\" }", "monohull.workspace = true", "[dependencies.monohull]"]
        {
            assert!(asks_for_monohull(line), "{line}");
        }
        assert!(asks_for_monohull("slots = { package = \"monohull\", version = \"0.1\" }"));
        for line in
            ["# monohull = \"0.1\"", "monohull-std = \"0.1\"", "name = \"monohull\"", "[dependencies.monohull-std]"]
        {
            assert!(!asks_for_monohull(line), "{line}");
        }
    }

    #[test]
    fn names_that_cargo_refuses_are_refused() {
        for name in ["", "-x", "1st", "a b", "a/b", "..", "fn", "test", "core", "é", "a.b"] {
            assert!(!is_crate_name(name), "{name}");
        }
        for name in ["hello", "word-count", "a_1"] {
            assert!(is_crate_name(name), "{name}");
        }
    }
}
