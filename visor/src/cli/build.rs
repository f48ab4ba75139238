//! `monohull build`: makes a function image out of a crate, and checks it.
//!
//! The crate is an ordinary program or library. Only here is it linked as a shared object, so that its manifest stays
//! plain, editors and clippy see it as usual, and it builds the same way inside and outside of a workspace: cargo gets
//! the profile and the linker's options on its command line.
//!
//! ```text
//!   monohull-std in its graph, or no_std   a library, linked without a libc
//!   else                                   any crate, over Rust's real std and Monohull's libc (`real_std.rs`)
//!   app.py, app.wasm                       `python`, `wasm.rs`
//! ```
//!
//! Function crates share a folder for what cargo compiles on the way (`monohull/build` in the user's cache), because most of it is the
//! same crates in each: `monohull-std` and what it rests on.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::{fs, io};

use clap::Args;
use monohull_checker::{Class, Finding, Report, Rules};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::cargo;
use super::exit::Exit;
use super::imports;
use super::lines::debug_file;
use super::missing;
use super::real_std::{self, PrepareError, TARGET};
use super::std_users::{self, Graph};
use super::wasm::Checks;
use monohull_domain::image::{Image, ImageError};
use monohull_report::escape::{Line, Lines, shown};

/// The profile `function` of a crate over the real std: that of the user, with symbols kept for reports, and lines, which go into a
/// file of their own.
const PLAIN_PROFILE: &[&str] = &["profile.function.debug='line-tables-only'", "profile.function.strip='none'"];
/// The profile `image` of a crate on monohull-std: no unwinder, one code unit, symbols kept for reports, and lines, which go into a file of their own.
const PROFILE: &[&str] = &[
    "profile.image.inherits='release'",
    "profile.image.panic='abort'",
    "profile.image.lto='fat'",
    "profile.image.codegen-units=1",
    "profile.image.opt-level=3",
    "profile.image.debug='line-tables-only'",
    "profile.image.strip='none'",
];
/// How an image is linked: without C's start files, everything bound at load, no page both writable and executable.
const CODEGEN: &[&str] = &[
    "link-arg=-nostartfiles",
    "link-arg=-Wl,--build-id,-z,now,-z,relro,-z,noexecstack,-z,separate-code,-Bsymbolic,--hash-style=gnu,--no-undefined",
    "force-frame-pointers=yes",
    "relocation-model=pic",
];
/// What else is tried when instructions hold forbidden bytes by accident: distances between functions and between
/// blocks are part of instructions, and at last other instructions.
const OTHER_LAYOUTS: [&str; 4] = [
    "llvm-args=-align-all-functions=5",
    "llvm-args=-align-all-functions=6",
    "llvm-args=-align-all-nofallthru-blocks=4",
    "opt-level=2",
];
/// How the crates a function depends on are compiled: reports follow frame pointers, through libraries as well, and the crate
/// getrandom takes its bytes from monohull-std.
const DEPENDENCIES: &str = "-C force-frame-pointers=yes --cfg getrandom_backend=\"custom\"";

/// Build a crate as a function image, and check it
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!("monohull build hello", "monohull build --bin server --features tls", "monohull build app.py", "monohull build app.wasm"))]
pub(super) struct Build {
    /// The crate's folder, a Python program (`app.py`, or a folder with `main.py` or `__main__.py`), or a WebAssembly program (`app.wasm`)
    #[arg(default_value = ".")]
    path: PathBuf,
    /// The folder for the image [default: `images` in cargo's target folder; for a Python or WebAssembly program its own folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Of a WebAssembly program: check each address by instructions, instead of by pages without access. For hosts where a fault
    /// ends the process: with protection keys before Linux 6.12, where tracing is refused
    #[arg(long)]
    explicit_checks: bool,
    #[command(flatten)]
    selection: Selection,
}

/// What of a crate is built, with cargo's names of options.
#[derive(Debug, Default, Args)]
pub struct Selection {
    /// The program to build, if the crate has several; the image is called after it
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,
    /// Features to activate, separated by commas
    #[arg(long, short = 'F', value_name = "FEATURES")]
    features: Vec<String>,
    /// Activate all features
    #[arg(long)]
    all_features: bool,
    /// Do not activate the default features
    #[arg(long)]
    no_default_features: bool,
    /// The profile, of a crate that is not on monohull-std [default: release]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

impl Selection {
    /// Cargo's arguments for the features.
    fn features(&self) -> impl Iterator<Item = &str> {
        let switches = [(self.all_features, "--all-features"), (self.no_default_features, "--no-default-features")];
        let switches = switches.into_iter().filter_map(|(on, switch)| on.then_some(switch));
        switches.chain(self.features.iter().flat_map(|features| ["--features", features]))
    }
}

impl Build {
    pub(super) fn run(&self) -> Exit {
        let built = match super::wasm::is_program(&self.path) {
            true => super::wasm::build_program(&self.path, self.out.as_deref(), self.checks()),
            false if self.explicit_checks => Err(BuildError::NoWasm(self.path.clone())),
            false if super::python::is_program(&self.path) => {
                super::python::build_program(&self.path, self.out.as_deref())
            }
            false => build_image(&self.path, self.out.as_deref(), &self.selection),
        };
        match built {
            Ok(built) => {
                if let Some(layout) = built.layout {
                    super::output::note(format_args!(
                        "linked again with `-C {layout}`: without, instructions hold forbidden bytes by accident"
                    ));
                }
                show_warnings(&built);
                super::output::text(format_args!("{}\n", shown(&built.path)));
                Exit::Done
            }
            Err(error) => {
                if let BuildError::Refused { report, .. }
                | BuildError::Accidents { report, .. }
                | BuildError::AccidentsInProgram { report, .. } = &error
                {
                    show_refusals(report);
                }
                super::fail(error.exit(), &error)
            }
        }
    }
}

impl Build {
    fn checks(&self) -> Checks {
        if self.explicit_checks { Checks::Explicit } else { Checks::Guards }
    }
}

/// Warnings that something can be done about; every image holds bytes of the others.
fn show_warnings(built: &Built) {
    for refused in &built.refused {
        super::output::note(format_args!("warning: {}", Lines(refused)));
    }
    let written = |finding: &&Finding| {
        finding.kind.is_system_call()
            && finding.context.as_ref().is_some_and(|context| context.class == Class::Instruction)
    };
    for finding in built.report.findings.iter().filter(written) {
        show_finding("warning: ", finding);
    }
}

fn show_refusals(report: &Report) {
    for finding in report.refusals() {
        show_finding("", finding);
    }
}

fn show_finding(level: &str, finding: &Finding) {
    let Finding { why, remedy, .. } = finding;
    super::output::note(format_args!("{level}{}\n  why:    {why}\n  remedy: {remedy}", Line(finding)));
}

/// An image that was built.
#[derive(Debug)]
pub struct Built {
    /// The image.
    pub path: PathBuf,
    /// What the checker found in it; nothing for which it would be refused.
    pub report: Report,
    /// The code generation option that removed accidents, if there were any.
    pub layout: Option<&'static str>,
    /// What its code asks for and will not get, a text each.
    pub refused: Vec<String>,
}

/// Why an image cannot be built.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum BuildError {
    /// there is no crate; the invocation is at fault
    #[error("{} is no crate: it has no Cargo.toml", shown(.0))]
    NoCrate(PathBuf),
    /// the crate has no library; its manifest is at fault
    #[error("the crate {0} is on monohull-std and has no library (src/lib.rs), which is what its image is made of")]
    NoLibrary(String),
    /// the crate has nothing to make an image of; its manifest is at fault
    #[error("the crate {0} has no program (src/main.rs) and no library with a function `main`")]
    NoProgram(String),
    /// the crate has no program of that name; the invocation is at fault
    #[error("the crate {package} has no program {wanted}; it has {}", programs.join(", "))]
    UnknownProgram {
        /// The crate.
        package: String,
        /// The name that was given.
        wanted: String,
        /// What it has.
        programs: Vec<String>,
    },
    /// the crate has several programs; the invocation is at fault
    #[error("the crate {package} has several programs: --bin NAME chooses one of {}", programs.join(", "))]
    ManyPrograms {
        /// The crate.
        package: String,
        /// What it has.
        programs: Vec<String>,
    },
    /// cargo cannot be prepared for the real std; the host is at fault
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// cargo cannot be started; the host is at fault
    #[error("cannot start {}: {source}", shown(program))]
    NoCargo {
        /// What was started.
        program: PathBuf,
        /// What the host said.
        source: io::Error,
    },
    /// cargo failed; it has said why, and the crate is at fault
    #[error("cargo could not build {}; the crate is at fault", shown(.0))]
    Cargo(PathBuf),
    /// a crate brings the real std along; the function's manifest is at fault
    #[error("{0}")]
    RealStd(String),
    /// cargo's answer cannot be read; Monohull is at fault
    #[error("cargo's answer is not understood: {0}")]
    Answer(#[from] serde_json::Error),
    /// the image is no ELF file the checker can read; Monohull is at fault
    #[error("the image {} cannot be checked: {source}", shown(path))]
    Unchecked {
        /// The image.
        path: PathBuf,
        /// What is wrong with it.
        source: monohull_checker::CheckError,
    },
    /// the loader would refuse the image; the function, or a crate that it uses, is at fault
    #[error("the image {} cannot be loaded: {source}\n{explanation}", shown(path))]
    Unloadable {
        /// The image.
        path: PathBuf,
        /// What the loader says.
        source: ImageError,
        /// Which function asks for it, and what to do.
        explanation: String,
    },
    #[error("the image {} holds instructions that user code must not contain; the function is at fault", shown(path))]
    Refused {
        /// The image.
        path: PathBuf,
        /// What the checker found.
        report: Box<Report>,
    },
    /// other instructions hold the bytes of forbidden ones, in every layout; the function is at fault
    #[error(
        "instructions of the image {} happen to hold the bytes of forbidden ones, also in {} other layouts; the \
         function's code has to change there", shown(path), OTHER_LAYOUTS.len()
    )]
    Accidents {
        /// The image.
        path: PathBuf,
        /// What the checker found, in the usual layout.
        report: Box<Report>,
    },
    /// instructions of a WebAssembly program's compiled code hold forbidden bytes, however it is compiled; the program is at fault
    #[error(
        "instructions of {} happen to hold the bytes of forbidden ones, in each of four ways to compile it; the functions \
         named above have to change",
        shown(path)
    )]
    AccidentsInProgram {
        /// The program.
        path: PathBuf,
        /// What the checker found the first time.
        report: Box<Report>,
    },
    /// an option is for a program, and this is none; the invocation is at fault
    #[error("{}: `--explicit-checks` is for a WebAssembly program, and this is none", shown(_0))]
    NoWasm(PathBuf),
    /// the folder `wasi` is missing; the installation is at fault
    #[error("there is no folder `wasi` with the compiler of WebAssembly programs; `cargo xtask build` makes one")]
    NoWasi,
    /// the compiler refuses the program; the program is at fault
    #[error("{} cannot be compiled: {}", shown(program), shown(why))]
    WasiCompiler {
        /// The program.
        program: PathBuf,
        /// What the compiler says.
        why: String,
    },
    /// the folder `python` is missing; the installation is at fault
    #[error(
        "there is no folder `python` with the interpreter of Python programs; `cargo xtask build --python` makes one"
    )]
    NoPython,
    /// the program's source is wrong, or it needs what a function does not have; the program is at fault
    #[error("{} cannot be built:\n{}", shown(path), Lines(why))]
    PythonProgram {
        /// The program.
        path: PathBuf,
        /// What the interpreter says.
        why: String,
    },
    /// the interpreter's image has no place for a program; the installation is at fault
    #[error("{} is no interpreter that a program can be put into: {why}", shown(path))]
    PythonInterpreter {
        /// The interpreter's image.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// binutils' objcopy cannot be started, or fails; the host is at fault
    #[error("cannot separate debug information from {}: objcopy (binutils): {why}", shown(path))]
    Objcopy {
        /// The image.
        path: PathBuf,
        /// What the host or objcopy said.
        why: String,
    },
    /// a file cannot be read or written; the host is at fault
    #[error("{}: {source}", shown(path))]
    File {
        /// The file.
        path: PathBuf,
        /// What the host said.
        source: io::Error,
    },
}

impl BuildError {
    fn no_cargo(source: io::Error) -> BuildError {
        BuildError::NoCargo { program: cargo::program().into(), source }
    }

    pub(super) fn exit(&self) -> Exit {
        match self {
            BuildError::NoCargo { .. } | BuildError::Objcopy { .. } | BuildError::File { .. } => Exit::Host,
            BuildError::Prepare(_) => Exit::Host,
            _ => Exit::Usage,
        }
    }
}

/// What `cargo metadata` says about a workspace.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
    workspace_root: PathBuf,
    /// Where intermediate files go; cargo before 1.91 does not say.
    build_directory: Option<PathBuf>,
}

impl Metadata {
    /// The folder for intermediate files that all function crates of this user share, so that each dependency is compiled once. None
    /// if the user has chosen folders, and for a workspace of several crates: cargo knows those by their place in the workspace,
    /// and would take one of another workspace for it.
    fn shared_build_folder(&self) -> Option<PathBuf> {
        let usual = self.workspace_root.join("target");
        let chosen = self.target_directory != usual || self.build_directory.as_ref() != Some(&usual);
        if chosen || self.packages.len() != 1 {
            return None;
        }
        Some(cache()?.join("build"))
    }
}

/// The user's folder for what can be made again.
pub(super) fn cache() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    Some(cache?.join("monohull"))
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
    default_run: Option<String>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

impl Package {
    /// Whether it is a library that uses no std at all: it has everything of an image itself.
    fn is_bare(&self) -> bool {
        let bare = |target: &Target| {
            let text = fs::read_to_string(&target.src_path).unwrap_or_default();
            text.lines().any(|line| line.trim_start().starts_with("#![no_std]"))
        };
        let mut roots =
            self.targets.iter().filter(|target| target.kind.iter().any(|kind| kind.ends_with("lib") || kind == "bin"));
        roots.all(bare)
    }

    /// The program to build: the one that is asked for, the only one, or that of `default-run`. None if the crate has none: then its
    /// library is built.
    fn program(&self, wanted: Option<&str>) -> Result<Option<String>, BuildError> {
        let has = |target: &Target, kind: &str| target.kind.iter().any(|other| other == kind);
        let programs: Vec<String> =
            self.targets.iter().filter(|target| has(target, "bin")).map(|target| target.name.clone()).collect();
        let package = self.name.clone();
        match (wanted.or(self.default_run.as_deref()), &programs[..]) {
            (Some(wanted), _) if programs.iter().any(|program| program == wanted) => Ok(Some(wanted.to_owned())),
            (Some(wanted), _) => Err(BuildError::UnknownProgram { package, wanted: wanted.to_owned(), programs }),
            (None, [program]) => Ok(Some(program.clone())),
            (None, []) if self.targets.iter().any(|target| has(target, "lib") || has(target, "cdylib")) => Ok(None),
            (None, []) => Err(BuildError::NoProgram(package)),
            (None, _) => Err(BuildError::ManyPrograms { package, programs }),
        }
    }
}

/// A line of cargo's output.
#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Event {
    CompilerArtifact {
        manifest_path: PathBuf,
        filenames: Vec<PathBuf>,
        executable: Option<PathBuf>,
    },
    CompilerMessage {
        message: Diagnostic,
    },
    #[serde(other)]
    Other,
}

/// What the compiler has to say.
#[derive(Deserialize)]
struct Diagnostic {
    message: String,
    code: Option<Code>,
    rendered: Option<String>,
    children: Vec<Diagnostic>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

impl Diagnostic {
    /// The crate that brings the real std along, if that is what this is about.
    fn user_of_std(&self) -> Option<&str> {
        const DUPLICATE_LANG_ITEM: &str = "E0152";
        self.code.as_ref().filter(|code| code.code == DUPLICATE_LANG_ITEM)?;
        self.children.iter().find_map(|note| std_users::named_by(&note.message))
    }
}

/// Builds the image of the crate in the folder `path`, checks it and puts it into `out`, or into `images` in
/// cargo's target folder. The image is called after the package, or after the program that is asked for. One that the loader would
/// refuse is not put anywhere.
pub fn build_image(path: &Path, out: Option<&Path>, selection: &Selection) -> Result<Built, BuildError> {
    let manifest = path.join("Cargo.toml").canonicalize().map_err(|_| BuildError::NoCrate(path.to_path_buf()))?;
    let mut ask = cargo::command(&manifest);
    ask.args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]).arg(&manifest);
    let metadata: Metadata = serde_json::from_slice(&run(&manifest, &mut ask)?)?;
    let package = metadata.packages.iter().find(|package| package.manifest_path == manifest);
    let package = package.ok_or_else(|| BuildError::NoCrate(path.to_path_buf()))?;
    let name = selection.bin.clone().unwrap_or_else(|| package.name.clone());
    let base = match package.is_bare() || graph(&manifest, selection)?.uses("monohull-std") {
        true => Base::MonohullStd,
        false => Base::RealStd { program: package.program(selection.bin.as_deref())? },
    };
    let tools = cache().unwrap_or_else(|| metadata.target_directory.join("monohull"));
    let recipe = Recipe { manifest, base, selection, shared: metadata.shared_build_folder(), tools };
    let Linked { image, debug, report, layout } = link_clean(&recipe, &name)?;
    let refused = if matches!(recipe.base, Base::RealStd { .. }) { missing::warnings(&image) } else { Vec::new() };
    let folder = out.map_or_else(|| metadata.target_directory.join("images"), Path::to_path_buf);
    let path = folder.join(format!("{name}.so"));
    for (path, bytes) in [(debug_file(&path), debug), (path.clone(), image)] {
        install(&folder, &path, &bytes).map_err(|source| BuildError::File { path, source })?;
    }
    Ok(Built { path, report, layout, refused })
}

/// An image that the loader accepts.
struct Linked {
    image: Vec<u8>,
    /// Its debug information.
    debug: Vec<u8>,
    report: Report,
    layout: Option<&'static str>,
}

/// Links until the image holds no forbidden bytes. Only accidents are worth another try: an instruction that stands in the
/// source is in every layout.
fn link_clean(recipe: &Recipe<'_>, name: &str) -> Result<Linked, BuildError> {
    let mut first = None;
    for layout in std::iter::once(None).chain(OTHER_LAYOUTS.map(Some)) {
        let path = link(recipe, layout)?.ok_or_else(|| BuildError::NoLibrary(name.to_owned()))?;
        let debug = objcopy("--only-keep-debug", &path)?;
        let image = objcopy("--strip-debug", &path)?;
        let report = check(&path, &image)?;
        if !report.is_refused() {
            return match Image::parse(name, &image) {
                Ok(_) => Ok(Linked { image, debug, report, layout }),
                Err(source) => {
                    let explanation = imports::explain(&source, &image).unwrap_or_default();
                    Err(BuildError::Unloadable { path, source, explanation })
                }
            };
        }
        if !report.refusals().all(is_accident) {
            return Err(BuildError::Refused { path, report: Box::new(report) });
        }
        first.get_or_insert((path, Box::new(report)));
    }
    let (path, report) = first.unwrap_or_default();
    Err(BuildError::Accidents { path, report })
}

pub(super) fn is_accident(finding: &Finding) -> bool {
    finding.context.as_ref().is_some_and(|context| context.class == Class::Accident)
}

/// What an image is linked over.
enum Base {
    /// monohull-std, or nothing; the crate is a library.
    MonohullStd,
    /// Rust's std over Monohull's libc: a program of the crate, or its library.
    RealStd { program: Option<String> },
}

/// What cargo is to build.
struct Recipe<'a> {
    manifest: PathBuf,
    base: Base,
    selection: &'a Selection,
    /// The folder for what crates have in common.
    shared: Option<PathBuf>,
    /// The folder for the tools that cargo calls.
    tools: PathBuf,
}

/// Has cargo compile and link the crate, with one more option if there is one; gives the shared object.
fn link(recipe: &Recipe<'_>, layout: Option<&str>) -> Result<Option<PathBuf>, BuildError> {
    let manifest = &recipe.manifest;
    let mut command = cargo::command(manifest);
    command.arg("rustc").args(recipe.selection.features());
    let (what, profile): (&[&str], _) = match &recipe.base {
        Base::MonohullStd => (&["--profile=image", "--lib", "--crate-type=cdylib"], PROFILE),
        Base::RealStd { program: None } => (&["--lib", "--crate-type=cdylib"], PLAIN_PROFILE),
        Base::RealStd { program: Some(program) } => (&["--bin", program], PLAIN_PROFILE),
    };
    command.args(what);
    // The compiler's messages are shown as they come. They are also parsed: one error gets a further explanation.
    let colours = cargo::has_colours();
    command.arg(if colours { "--message-format=json-diagnostic-rendered-ansi" } else { "--message-format=json" });
    for setting in profile {
        command.args(["--config", setting]);
    }
    let codegen = match &recipe.base {
        Base::MonohullStd => CODEGEN,
        Base::RealStd { .. } => {
            let profile = recipe.selection.profile.as_deref().unwrap_or("release");
            command.args(["--profile=function", "--target", TARGET]);
            command.args(["--config", &format!("profile.function.inherits='{profile}'")]);
            &[]
        }
    };
    command.arg("--manifest-path").arg(manifest).arg("--");
    for option in codegen.iter().copied().chain(layout) {
        command.args(["-C", option]);
    }
    if let Some(folder) = &recipe.shared {
        command.env("CARGO_BUILD_BUILD_DIR", folder);
        // Crates of the same name in different folders are different.
        let place = Sha256::digest(manifest.as_os_str().as_encoded_bytes());
        command.args(["-C", &format!("metadata={place:x}")]);
    }
    match &recipe.base {
        Base::MonohullStd => {
            let theirs = std::env::var("RUSTFLAGS").unwrap_or_default();
            command.env("RUSTFLAGS", format!("{theirs} {DEPENDENCIES}"));
        }
        Base::RealStd { .. } => real_std::prepare(&mut command, &recipe.tools)?,
    }
    let (mut object, mut user_of_std) = (None, None);
    let read = |documents| -> Result<(), BuildError> {
        for line in BufReader::new(documents).split(b'\n') {
            match serde_json::from_slice(&line.map_err(BuildError::no_cargo)?)? {
                Event::CompilerArtifact { manifest_path, filenames, executable } if manifest_path == *manifest => {
                    let library = filenames.into_iter().find(|file| file.extension().is_some_and(|end| end == "so"));
                    object = executable.or(library).or(object.take());
                }
                Event::CompilerMessage { message } => {
                    let text = message.rendered.as_deref().unwrap_or_default();
                    super::output::note_bytes(cargo::shown_text(text.as_bytes(), colours).as_bytes());
                    user_of_std = user_of_std.take().or_else(|| message.user_of_std().map(str::to_owned));
                }
                _ => {}
            }
        }
        Ok(())
    };
    let (read, status) = cargo::run(&mut command, read).map_err(BuildError::no_cargo)?;
    read?;
    match (status.success(), user_of_std) {
        (true, _) => Ok(object),
        (false, Some(user)) => Err(BuildError::RealStd(std_users::explain(&graph(manifest, recipe.selection)?, &user))),
        (false, None) => Err(BuildError::Cargo(manifest.to_path_buf())),
    }
}

/// What binutils' objcopy makes of an image with this option.
fn objcopy(option: &str, image: &Path) -> Result<Vec<u8>, BuildError> {
    let part = image.with_extension(format!("{}.part", std::process::id()));
    let failed = |why: String| BuildError::Objcopy { path: image.to_path_buf(), why };
    let output = Command::new("objcopy").arg(option).args([image, &part]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let bytes = fs::read(&part).map_err(|source| BuildError::File { path: part.clone(), source });
    let _ = fs::remove_file(&part);
    bytes
}

/// The crate with all it depends on, as resolved for this machine.
fn graph(manifest: &Path, selection: &Selection) -> Result<Graph, BuildError> {
    let mut ask = cargo::command(manifest);
    ask.args([
        "metadata",
        "--format-version=1",
        "--filter-platform=x86_64-unknown-linux-gnu",
        "--quiet",
        "--manifest-path",
    ]);
    Ok(serde_json::from_slice(&run(manifest, ask.arg(manifest).args(selection.features()))?)?)
}

/// What the checker finds in an image.
pub(super) fn check(path: &Path, image: &[u8]) -> Result<Report, BuildError> {
    monohull_checker::check_by(Rules { explain: true, ..Rules::IMAGE }, image)
        .map_err(|source| BuildError::Unchecked { path: path.to_path_buf(), source })
}

/// Writes the image beside its place and renames it, so that a running workflow keeps the one it has mapped.
pub(super) fn install(folder: &Path, path: &Path, image: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let aside = path.with_extension(format!("{}.new", std::process::id()));
    fs::write(&aside, image)?;
    fs::rename(&aside, path)
}

/// Runs cargo; what it prints is an answer.
fn run(manifest: &Path, command: &mut Command) -> Result<Vec<u8>, BuildError> {
    let read = |mut answer: ChildStdout| {
        let mut bytes = Vec::new();
        answer.read_to_end(&mut bytes).map(|_| bytes)
    };
    let (answer, status) = cargo::run(command, read).map_err(BuildError::no_cargo)?;
    let answer = answer.map_err(BuildError::no_cargo)?;
    if status.success() { Ok(answer) } else { Err(BuildError::Cargo(manifest.to_path_buf())) }
}
